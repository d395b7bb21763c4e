# What the scheduler checks share: a sweep of small points, and the comparison with an unsharded run. Sourced.
# usage: SCRIPT [STEPCAST_BINARY]
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
stepcast=${1:-$root/build/dev/cli/stepcast}
points=${POINTS:-240}
[ -x "$stepcast" ] || { echo "not there: $stepcast (give the binary)"; exit 1; }
stepcast=$(readlink -f "$stepcast")
work=$(mktemp -d)
cd "$work" || exit 1

cat >sweep.json <<END
{"name": "schedulers",
 "scenario": {"model": {"name": "olmoe-1b-7b", "layers": 4}, "cluster": "h100:8", "parallelism": {"ep": 8},
              "workload": {"sequence_length": 512, "global_batch": 64, "micro_batch": 1, "steps": 2},
              "routing": {"skew": "zipf:0.3"}},
 "vary": [{"seed": {"from": 1, "to": $points}}]}
END

fail() {
  echo "FAILED: $*"
  exit 1
}

# same PREFIX: its shards merge into the bytes of the unsharded run.
same() {
  "$stepcast" merge sweep.json --results "$1" --quiet >/dev/null || fail "merge of $1"
  cmp "$1.jsonl" whole.jsonl || fail "$1.jsonl differs from the unsharded run"
  cmp "$1.csv" whole.csv || fail "$1.csv differs from the unsharded run"
  echo "ok: $1: $(ls "$1".shard-*.jsonl | wc -l) shards, $(wc -l <"$1.jsonl") points, equal to the unsharded run"
}

# wait_for_lines FILE N: until the file has N lines, a minute at most.
wait_for_lines() {
  tries=0
  while [ "$(cat "$1" 2>/dev/null | wc -l)" -lt "$2" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 1200 ] || fail "$1 did not reach $2 lines"
    sleep 0.05
  done
}

"$stepcast" sweep sweep.json --results whole --threads 2 --quiet >/dev/null || fail "the unsharded run"
