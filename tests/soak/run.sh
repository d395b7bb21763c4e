#!/bin/sh
# Engines against each other under the address and undefined-behaviour sanitizers, for an hour unless told otherwise,
# then the same forecast 50 times on 1, 2, 3 and 8 threads. Usage: tests/soak/run.sh [SECONDS [FIRST_SEED]]
set -eu
cd "$(dirname "$0")/../.."
cmake -G Ninja -S . -B build/soak -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-O1 -DSTEPCAST_SANITIZE=address \
  -DSTEPCAST_BENCH=ON -DSTEPCAST_TESTS=OFF >/dev/null
cmake --build build/soak -j 2 --target soak stepcast >/dev/null
build/soak/tests/bench/soak "${1:-3600}" "${2:-1}"
sh tests/soak/threads.sh build/soak/cli/stepcast 50
