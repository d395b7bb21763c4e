#!/bin/sh
# Opens a page of every command that has --report in headless Chromium, light and dark, wide and at phone width, and
# fails on console errors, on requests that leave the file, on marks outside of a chart's axes, on controls that the
# keyboard cannot reach, on words that overlap in a drawing and on numbers that differ from the JSON in the page. Needs
# chromium, node and, once, npm's registry for puppeteer-core. Not part of the tests: it is run by hand after changes to
# scenarios/html.
#
# usage: tests/browser/run.sh STEPCAST [SHOTS]   the binary, and a folder for screenshots
# With STEPCAST_PAGES_MADE set, the pages of the last run are opened again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:?the stepcast binary}")
shots=$(realpath -m "${2:-$here/../../build/browser/shots}")
work=$here/../../build/browser
mkdir -p "$work" "$shots"
[ -d "$work/node_modules/puppeteer-core" ] || npm install --silent --no-fund --no-audit --prefix "$work" puppeteer-core@23

cd "$work"
data=$here/../../validation/data
[ -n "${STEPCAST_PAGES_MADE:-}" ] || {
  rm -f ./*.html
  for name in mixtral-8x7b-h100-8 mixtral-8x22b-h100-128 deepseek-v3-h800-2048 llama-3-70b-h100-64; do
    "$binary" simulate "$name" --quiet --format json --output "$name.json" --report "$name.html"
  done
  "$binary" simulate olmoe-1b-7b-h100-8 --quiet --headroom --report with-headroom.html >/dev/null
  "$binary" headroom mixtral-8x22b-h100-128 --quiet --steps 1 --report headroom.html >/dev/null
  "$binary" scale mixtral-8x22b-h100-128 --quiet --from 64 --to 512 --report scale.html >/dev/null
  "$binary" simulate mixtral-8x22b-h100-128 --quiet --set parallelism.ep=4 --format json --output variant.json
  "$binary" compare mixtral-8x22b-h100-128.json variant.json --report compare.html >/dev/null
  "$binary" plan olmoe-1b-7b-h100-8 --quiet --set workload.global_batch=64 --price 2.5 --report plan.html >/dev/null
  "$binary" plan olmoe-1b-7b-h100-8 --quiet --set workload.global_batch=64 --devices 8,16,32 --tp 1,2 --micro-batch 1,2 \
    --report plan-devices.html >/dev/null
  awk 'NR % 10 == 1' "$data/scored.txt" >some.txt
  "$binary" validate "$data/runs.csv" --quiet --no-ranges --only some.txt --report validate.html >/dev/null
  grep -i mixtral "$data/runs.csv" | cut -d, -f1 | grep -Fxf - "$data/scored.txt" | head -12 >fitted.txt
  "$binary" calibrate "$data/runs.csv" --quiet --only fitted.txt --predict "$data/runs.csv" --predict-only fitted.txt \
    --iterations 2 --no-breaks --report calibrate.html >/dev/null
}
cp "$here/check.mjs" "$work/check.mjs"  # beside the modules that it imports
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
CHROMIUM=${CHROMIUM:-$(command -v chromium)} PROFILE=$profile node check.mjs "$shots" ./*.html
