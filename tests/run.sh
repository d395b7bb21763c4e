#!/bin/sh
# All tests from a fresh clone on Debian 12: address and undefined-behaviour sanitizers on everything, the thread
# sanitizer on what runs in parallel, and format. Ends with the summary of ctest; fails if any part fails.
set -u
cd "$(dirname "$0")/.." || exit 1
. scenarios/packages.sh
# shellcheck disable=SC2086  # words on purpose
install_missing $build_packages clang-format || exit 1

failed=""
part() {  # part NAME COMMAND...
  name=$1
  shift
  echo
  echo "== $name"
  "$@" </dev/null || failed="$failed [$name]"
}

check_format() {
  git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run -Werror
}

# The engines on several threads; building all of the product a second time would not fit the time that CI has.
thread_tests() {
  cmake --preset tsan && cmake --build build/tsan --target sim_tests -j 2 || return 1
  build/tsan/tests/sim/sim_tests -w NoTests "[parallel]"
}

part "configure" cmake --preset asan
part "build" cmake --build build/asan -j 2
part "thread sanitizer" thread_tests
part "format" check_format
part "tests" ctest --preset asan -j 2

if [ -n "$failed" ]; then
  echo "FAILED:$failed"
  exit 1
fi
