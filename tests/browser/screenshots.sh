#!/bin/sh
# Makes the README's pictures in scenarios/html/screenshots from the pages of run.sh, which must have run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$here/../../build/browser
out=$(realpath -m "$here/../../scenarios/html/screenshots")
mkdir -p "$out"
cp "$here/screenshots.mjs" "$work/screenshots.mjs"
cd "$work"
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
CHROMIUM=${CHROMIUM:-$(command -v chromium)} PROFILE=$profile node screenshots.mjs "$out" \
  mixtral-8x22b-h100-128=mixtral-8x22b-h100-128.html,light,1000,1250,top \
  deepseek-v3-h800-2048=deepseek-v3-h800-2048.html,dark,1000,1150,f-timeline \
  olmoe-1b-7b-h100-8=with-headroom.html,light,1000,900,f-headroom \
  plan=plan.html,dark,1000,1000,f-memory-front
find "$out" -name '*.png' -size +300k -exec echo "over 300 kB: {}" \; -exec false {} +
