#!/bin/sh
# Every schedule on one model at equal work, as the table of README.md has it: step time, bubble, peak memory.
# usage: scenarios/schedules_table.sh [STEPCAST]     (default: build/release/cli/stepcast)
set -eu
cd "$(dirname "$0")/.."
stepcast=${1:-build/release/cli/stepcast}

# A column of the CSV that simulate prints, by name.
row() {
  awk -F, -v note="$1" 'NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i }
           NR == 2 { printf "| %s | %.3f s | %.1f %% | %.1f GB |\n", $(at["schedule"]) ($(at["vpp"]) > 1 ? ", vpp " $(at["vpp"]) : "") note,
                     $(at["step_time_s"]), 100 * $(at["bubble_fraction"]), $(at["peak_memory_bytes"]) / 1e9 }'
}

echo "| schedule | step time | bubble | peak memory |"
echo "|---|---|---|---|"
for choice in gpipe:1 1f1b:1 interleaved:2 interleaved:4 zb-h1:1 zb-v:1 coscheduled:1 coscheduled:2 coscheduled:2:delayed dualpipe:1 dualpipe-v:1; do
  schedule=${choice%%:*}
  rest=${choice#*:}
  delay=false note=
  case $choice in *:delayed) delay=true note=", delayed weight gradients" ;; esac
  "$stepcast" simulate --model qwen3-235b-a22b --cluster h100:256 --ignore-memory --quiet --format csv \
    --set parallelism.pp=8 --set parallelism.ep=32 --set workload.sequence_length=4096 \
    --set workload.global_batch=1024 --set runtime.dispatcher=deepep --set software=megatron-core-2025 \
    --set "overlap.delay_wgrad=$delay" --set "parallelism.schedule=$schedule" --set "parallelism.vpp=${rest%:*}" | row "$note"
done
