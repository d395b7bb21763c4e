#!/bin/sh
# What the engine does at full scale, in a release build: rates per CPU-second, memory, two-thread speed-ups, and what
# the machine itself gives. Wall figures mean something on an idle machine only. Usage: tests/bench/run.sh [SIZE ...]
set -eu
cd "$(dirname "$0")/../.."
cmake -G Ninja -S . -B build/bench -DCMAKE_BUILD_TYPE=Release -DSTEPCAST_BENCH=ON -DSTEPCAST_TESTS=OFF >/dev/null
cmake --build build/bench -j 2 --target bench limits_bench full_scale_bench >/dev/null
bin=build/bench/tests/bench
"$bin/limits_bench"
"$bin/bench" | grep avx512 || "$bin/bench"
for size in ${*:-1024 4096 16384}; do
  # A process each, so that memory is that of one.
  "$bin/full_scale_bench" "tests/bench/scenarios/deepseek-v3-$size.json"
  "$bin/full_scale_bench" --contention "tests/bench/scenarios/deepseek-v3-$size.json"
  "$bin/full_scale_bench" --macro "tests/bench/scenarios/deepseek-v3-$size.json"
done
