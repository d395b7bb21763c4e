#!/bin/sh
# From a fresh clone on Debian 12 to a first forecast: installs packages, builds, simulates one step of DeepSeek-V3.
set -eu
cd "$(dirname "$0")/.."
. scenarios/packages.sh
# shellcheck disable=SC2086  # words on purpose
install_missing $build_packages

cmake --preset release -DSTEPCAST_TESTS=OFF
cmake --build build/release --target stepcast -j 2
echo
echo "+ build/release/cli/stepcast simulate scenarios/library/deepseek-v3-h800-2048.json"
exec build/release/cli/stepcast simulate scenarios/library/deepseek-v3-h800-2048.json "$@"
