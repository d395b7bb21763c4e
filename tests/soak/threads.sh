#!/bin/sh
# The same forecasts again and again on 1, 2, 3 and 8 threads: every run must print the same. Usage: threads.sh
# STEPCAST_BINARY [RUNS]
set -eu
binary=$1
runs=${2:-50}
first=
for run in $(seq "$runs"); do
  for threads in 1 2 3 8; do
    sum=$({
      "$binary" simulate olmoe-1b-7b-h100-8 --steps 5 --threads "$threads" --quiet --format csv
      "$binary" simulate mixtral-8x22b-h100-128 --steps 1 --set fabric.contention=on --threads "$threads" --quiet \
        --format csv
    } | sha256sum)
    [ -n "$first" ] || first=$sum
    if [ "$sum" != "$first" ]; then
      echo "run $run on $threads threads differs from the first"
      exit 1
    fi
  done
done
echo "$runs runs on 1, 2, 3 and 8 threads: all the same"
