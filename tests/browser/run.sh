#!/bin/sh
# Opens the pages that --report writes in headless Chromium, light and dark, wide and at phone width, and fails on console
# errors, on requests that leave the file, on controls that the keyboard cannot reach, on words that overlap in a drawing
# and on numbers that differ from the JSON in the page. Needs chromium, node and, once, npm's registry for
# puppeteer-core. Not part of the tests: it is run by hand after changes to scenarios/html.
#
# usage: tests/browser/run.sh STEPCAST [SHOTS]   the binary, and a folder for screenshots
set -eu
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:?the stepcast binary}")
shots=$(realpath -m "${2:-$here/../../build/browser/shots}")
work=$here/../../build/browser
mkdir -p "$work" "$shots"
[ -d "$work/node_modules/puppeteer-core" ] || npm install --silent --no-fund --no-audit --prefix "$work" puppeteer-core@23

cd "$work"
[ -n "${STEPCAST_PAGES_MADE:-}" ] || {
  for name in mixtral-8x7b-h100-8 mixtral-8x22b-h100-128 deepseek-v3-h800-2048 llama-3-70b-h100-64; do
    "$binary" simulate "$name" --quiet --format json --output "$name.json" --report "$name.html"
  done
  "$binary" scale mixtral-8x22b-h100-128 --quiet --from 64 --to 512 --report scale.html >/dev/null
  "$binary" simulate mixtral-8x22b-h100-128 --quiet --set parallelism.ep=4 --format json --output variant.json
  "$binary" compare mixtral-8x22b-h100-128.json variant.json --report compare.html >/dev/null
  "$binary" validate "$here/../../validation/data/runs.csv" --quiet --no-ranges \
    --only "$here/../../validation/data/scored.txt" --report validate.html >/dev/null
}
cp "$here/check.mjs" "$work/check.mjs"
CHROMIUM=${CHROMIUM:-$(command -v chromium)} node check.mjs "$shots" ./*.html
