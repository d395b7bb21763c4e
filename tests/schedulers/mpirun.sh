#!/bin/bash
# Shards under a real mpirun with four ranks (openmpi-bin), one of them killed and run again. Not part of CI.
. "$(dirname "$0")/common.sh"
trap 'rm -rf "$work"' EXIT
command -v mpirun >/dev/null || { echo "skipped: no mpirun (apt-get install openmpi-bin)"; exit 0; }
launch="mpirun -n 4 --oversubscribe"
[ "$(id -u)" -ne 0 ] || launch="$launch --allow-run-as-root"

$launch "$stepcast" sweep sweep.json --results mpi --shard auto --threads 1 --quiet >/dev/null || fail "mpirun"
same mpi

# A rank that is killed ends the job; what the others had in flight is lost with it, and no more.
cat >rank.sh <<END
#!/bin/sh
echo \$\$ >pid.\$OMPI_COMM_WORLD_RANK
exec "$stepcast" sweep sweep.json --results killed --shard auto --threads 1 --quiet
END
$launch sh rank.sh >log 2>&1 &
job=$!
wait_for_lines killed.shard-2-of-4.jsonl 5
victim=$(cat pid.2)
kill -9 "$victim"
wait "$job" && fail "mpirun did not notice the killed rank"
before=$(cat killed.shard-*-of-4.jsonl | wc -l)
[ "$before" -lt "$points" ] || fail "the job had ended before the kill"
"$stepcast" merge sweep.json --results killed --quiet >/dev/null 2>&1 && fail "merge accepted incomplete shards"
$launch "$stepcast" sweep sweep.json --results killed --shard auto --threads 1 --format json --quiet >log || fail "resume"
echo "ok: rank 2 killed after $before of $points points, resumed"
same killed
