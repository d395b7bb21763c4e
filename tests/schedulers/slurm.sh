#!/bin/bash
# Shards under a real Slurm on this machine: a job array, the tasks of one srun, and a cancelled task that is run again.
# Starts its own munged, slurmctld and slurmd (packages munge, slurmctld, slurmd, slurm-client) in a folder of its own,
# and says why where they cannot be started. Needs root. Not part of CI.
. "$(dirname "$0")/common.sh"
started=""
finish() {
  for pid in $started; do kill "$pid" 2>/dev/null; done
  sleep 1
  rm -rf "$work"
}
trap finish EXIT
skip() {
  echo "skipped: $*"
  for log in "$work"/*.log; do [ -s "$log" ] && { echo "-- $(basename "$log")"; tail -5 "$log"; }; done
  exit 0
}
[ "$(id -u)" -eq 0 ] || skip "Slurm's daemons are started as root"
for program in munged slurmctld slurmd sbatch srun; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || skip "no $program (apt-get install munge slurmctld slurmd slurm-client)"
done
export PATH=$PATH:/usr/sbin
host=$(hostname -s)
chmod 755 "$work"

dd if=/dev/urandom of=munge.key bs=1024 count=1 2>/dev/null
chmod 400 munge.key
munged --force --foreground --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munge.pid" \
  --log-file="$work/munged.log" --seed-file="$work/munge.seed" >munged.out.log 2>&1 &
started="$! $started"

mkdir state spool
cat >slurm.conf <<END
ClusterName=stepcast
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$work/slurm.conf
sleep 1
slurmctld -D -f slurm.conf >slurmctld.out.log 2>&1 &
started="$! $started"
sleep 1
slurmd -D -f slurm.conf -N "$host" >slurmd.out.log 2>&1 &
started="$! $started"
tries=0
until sinfo -h -o %T 2>/dev/null | grep -q idle; do
  tries=$((tries + 1))
  [ "$tries" -lt 30 ] || skip "the node did not become idle: $(sinfo -h -o '%T %E' 2>&1 | head -1)"
  sleep 1
done
echo "Slurm $(sinfo --version | cut -d' ' -f2) runs on one node"

cat >array.sh <<END
#!/bin/bash
cd $work && exec $stepcast sweep sweep.json --results \$1 --shard auto --format json --quiet
END
sbatch --wait --array=0-3 --cpus-per-task=1 --output="$work/array-%a.out" array.sh array >/dev/null || {
  cat array-*.out
  fail "the job array"
}
same array
grep -h '"origin"' array-*.out | sort

# Indexes that begin at 10 and go in steps of 5.
sbatch --wait --array=10-25:5 --output="$work/steps-%a.out" array.sh steps >/dev/null || fail "the array in steps"
same steps

srun -n 4 "$stepcast" sweep sweep.json --results tasks --shard auto --quiet >/dev/null || fail "srun"
same tasks

# One task of an array is cancelled in the middle and run again.
id=$(sbatch --parsable --array=0-3 --output="$work/killed-%a.out" array.sh killed)
wait_for_lines killed.shard-1-of-4.jsonl 5
scancel --signal=KILL --full "${id}_1"
while squeue -h -j "$id" 2>/dev/null | grep -q .; do sleep 0.2; done
before=$(wc -l <killed.shard-1-of-4.jsonl)
[ "$before" -lt $((points / 4)) ] || fail "the task had ended before the kill"
"$stepcast" merge sweep.json --results killed --quiet >/dev/null 2>&1 && fail "merge accepted an incomplete shard"
SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=0 \
  "$stepcast" sweep sweep.json --results killed --shard auto --quiet >/dev/null || fail "resume"
echo "ok: task 1 killed after $before of $((points / 4)) points, resumed"
same killed
