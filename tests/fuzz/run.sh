#!/bin/sh
# Coverage-guided fuzzing of the readers of outside files. Not part of CI.
#
#   tests/fuzz/run.sh scenario|hf_config [SECONDS] [BUILD_FOLDER]
#
# Needs clang++ with libFuzzer (CXX, default clang++-14). The corpus grows in BUILD_FOLDER/corpus_TARGET; a crash leaves
# its input in BUILD_FOLDER/crashes_TARGET, which is the artefact to turn into a file of tests/data/bad_scenarios.
set -eu
target=${1:?usage: tests/fuzz/run.sh scenario|hf_config [SECONDS] [BUILD_FOLDER]}
seconds=${2:-180}
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${3:-$root/build/fuzz}
cxx=${CXX:-clang++-14}
objects=$build/objects
mkdir -p "$objects" "$build/corpus_$target" "$build/crashes_$target"

case $target in
  scenario)
    sources=$(cd "$root" && ls sim/base/*.cpp sim/program/*.cpp sim/engine/*.cpp models/*.cpp models/hf/*.cpp topology/*.cpp \
      parallelism/layout.cpp \
      parallelism/pipeline_layout.cpp parallelism/stage_split.cpp parallelism/software.cpp parallelism/schedule*.cpp \
      parallelism/schedules/*.cpp parallelism/routing*.cpp parallelism/tails.cpp \
      scenarios/calibration.cpp scenarios/check_layout.cpp scenarios/documents.cpp \
      scenarios/draft.cpp scenarios/overrides.cpp scenarios/resolved.cpp scenarios/scenario.cpp scenarios/schema_*.cpp)
    seeds="$root/scenarios/library $root/tests/data/bad_scenarios" ;;
  hf_config)
    sources=$(cd "$root" && ls sim/base/*.cpp models/*.cpp models/hf/*.cpp)
    seeds="$root/tests/data/hf_configs" ;;
  *) echo "unknown target '$target'; known: scenario, hf_config" >&2; exit 2 ;;
esac

# Keys and values of the seeds, as tokens for the mutator.
cat $(for s in $seeds; do find "$s" -name '*.json' -size -20k; done) | tr -cs 'A-Za-z0-9_.:-' '\n' |
  grep -E '^[A-Za-z][A-Za-z0-9_.:-]{1,30}$' | sort -u | sed 's/.*/"&"/' > "$build/$target.dict"

# Objects are kept: only what changed is compiled again.
flags="-std=c++20 -gline-tables-only -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -DFMT_SHARED -I$root -isystem /usr/include/eigen3 -DSTEPCAST_SOURCE_DIR=\"$root\""
# The libraries' headers, parsed once.
if [ ! -f "$build/common.pch" ]; then
  printf '#include <%s>\n' algorithm filesystem map optional string vector fmt/format.h fmt/ranges.h \
    nlohmann/json.hpp > "$build/common.h"
  # shellcheck disable=SC2086
  $cxx $flags -x c++-header "$build/common.h" -o "$build/common.pch"
fi
list=""
for source in $sources tests/fuzz/${target}_fuzz.cpp; do
  object=$objects/$(echo "$source" | tr '/' '_').o
  list="$list $object"
  newer=$(find "$root/sim" "$root/models" "$root/topology" "$root/parallelism" "$root/scenarios" -name '*.h' \
    -newer "$object" 2>/dev/null | head -1 || true)
  if [ ! -f "$object" ] || [ "$root/$source" -nt "$object" ] || [ -n "$newer" ]; then
    echo "compiling $source"
    # shellcheck disable=SC2086
    $cxx $flags -include-pch "$build/common.pch" -c "$root/$source" -o "$object"
  fi
done
# shellcheck disable=SC2086
$cxx -g -fsanitize=fuzzer,address,undefined $list -lfmt -ltbb -o "$build/${target}_fuzz"

# shellcheck disable=SC2086
exec "$build/${target}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=3000 -max_len=65536 \
  -dict="$build/$target.dict" -artifact_prefix="$build/crashes_$target/" -print_final_stats=1 \
  "$build/corpus_$target" $seeds
