#!/usr/bin/env bash
#SBATCH --job-name=flow-train
#SBATCH --ntasks=8
#SBATCH --cpus-per-task=2
#SBATCH --signal=USR1@120
#SBATCH --requeue
# One distributed run as a Slurm job, one rank per task. Submit it from the root of the repository:
#
#   sbatch jobs/sweeps/slurm_distributed.sh               the small GPT: 8 ranks, 16 shards
#   sbatch --ntasks=4 jobs/sweeps/slurm_distributed.sh    the same results on 4 ranks
#   SHARDS=32 sbatch jobs/sweeps/slurm_distributed.sh jobs/lenet.yaml --set vars.batch=128
#
# The number of tasks must divide SHARDS, a power of two that divides the batch. The repository and `runs` must be on a file
# system that all nodes share. Two minutes before the time limit, Slurm signals flowrun to save. The script then queues the
# job again, and the run resumes, also with another number of tasks. Every other exit status is that of flowrun.
set -eu
flowrun=${FLOWRUN:-$(command -v flowrun || echo build/release/bin/flowrun)}
file=${1:-jobs/gpt_tiny.yaml}
shift $(($# > 0))
threads=${SLURM_CPUS_PER_TASK:-1}

status=0
srun --mpi=pmix --ntasks="$SLURM_NTASKS" --cpus-per-task="$threads" "$flowrun" train "$file" --distributed \
  --set "jobs.train.shards=${SHARDS:-16}" --threads "$threads" --quiet -o "runs/slurm-$SLURM_JOB_ID" --resume "$@" || status=$?

saved=$((128 + $(kill -l USR1))) # the signal ended the run, which saved first
((status == saved)) && exec scontrol requeue "$SLURM_JOB_ID"
exit "$status"
