#!/bin/sh
# clang-tidy over the library sources, after tests/run.sh has configured build/asan: half a minute a file, so not part
# of continuous integration. Names of files as arguments, or all.
set -eu
cd "$(dirname "$0")/.."
. scenarios/packages.sh
install_missing clang-tidy
[ $# -gt 0 ] || set -- $(git ls-files 'sim/*.cpp' 'models/*.cpp' 'topology/*.cpp' 'parallelism/*.cpp' 'scenarios/*.cpp' \
  'validation/*.cpp' 'cli/*.cpp')
exec clang-tidy --quiet -p build/asan "$@"
