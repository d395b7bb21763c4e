#!/bin/sh
# clang-tidy over the library sources: half a minute a file, so not part of continuous integration. Works from the
# commands of preset dev (clang cannot read the precompiled headers of the sanitizer build). Names of files as arguments, or all.
set -eu
cd "$(dirname "$0")/.."
. scenarios/packages.sh
# shellcheck disable=SC2086  # words on purpose
install_missing $build_packages clang-tidy
[ -f build/dev/compile_commands.json ] || cmake --preset dev >/dev/null
[ $# -gt 0 ] || set -- $(git ls-files 'sim/*.cpp' 'models/*.cpp' 'topology/*.cpp' 'parallelism/*.cpp' 'scenarios/*.cpp' \
  'validation/*.cpp' 'cli/*.cpp')
exec clang-tidy --quiet -p build/dev "$@"
