#!/usr/bin/env bash
#SBATCH --job-name=flow-sweep
#SBATCH --array=0-5
#SBATCH --cpus-per-task=2
#SBATCH --signal=B:TERM@60
# A sweep as a Slurm array, one task per point. Submit it from the root of the repository:
#
#   sbatch jobs/sweeps/slurm.sh                           the MLP: three learning rates, two seeds, array 0-5
#   sbatch jobs/sweeps/slurm.sh jobs/lenet.yaml --steps 200
#   SLURM_ARRAY_TASK_ID=3 jobs/sweeps/slurm.sh            only point 3, without Slurm
#   jobs/sweeps/collect.py runs/sweep-*/*                 then print a table of the points
#
# The exit status of a task is that of flowrun. A minute before the time limit, Slurm signals flowrun to save. Then
# `scontrol requeue JOBID_POINT` resumes the task from there.
set -eu
flowrun=${FLOWRUN:-$(command -v flowrun || echo build/release/bin/flowrun)}
file=${1:-jobs/mlp.yaml}
shift $(($# > 0))
read -ra rates <<<"${RATES:-0.03 0.1 0.3}"
read -ra seeds <<<"${SEEDS:-1 2}"

point=$SLURM_ARRAY_TASK_ID
lr=${rates[point / ${#seeds[@]}]}
seed=${seeds[point % ${#seeds[@]}]}
directory=runs/sweep-${SLURM_ARRAY_JOB_ID:-here}/$point
again=(--force)  # a run without a checkpoint starts over
compgen -G "$directory/checkpoints/[0-9]*/checkpoint.json" >/dev/null && again=(--resume)

exec "$flowrun" train "$file" --set "vars.lr=$lr" --set "seed=$seed" --threads "${SLURM_CPUS_PER_TASK:-1}" --quiet \
  -o "$directory" "${again[@]}" "$@"
