#!/usr/bin/env bash
#SBATCH --job-name=flow-sweep
#SBATCH --array=0-5
#SBATCH --cpus-per-task=2
#SBATCH --signal=B:TERM@60
# A sweep as a Slurm array, a point a task, from the folder of the repository:
#
#   sbatch jobs/sweeps/slurm.sh                           the MLP: three rates, two seeds, array 0-5
#   sbatch jobs/sweeps/slurm.sh jobs/lenet.yaml --steps 200
#   SLURM_ARRAY_TASK_ID=3 jobs/sweeps/slurm.sh            point 3 alone, without Slurm
#   jobs/sweeps/collect.py runs/sweep-*/*                 then: a table of the points
#
# The task's exit status is flowrun's. A minute before the time limit flowrun is told to save; a task that is queued
# again goes on where it stopped.
set -eu
flowrun=${FLOWRUN:-build/release/bin/flowrun}
file=${1:-jobs/mlp.yaml}
shift $(($# > 0))
read -ra rates <<<"${RATES:-0.03 0.1 0.3}"
read -ra seeds <<<"${SEEDS:-1 2}"

point=$SLURM_ARRAY_TASK_ID
lr=${rates[point / ${#seeds[@]}]}
seed=${seeds[point % ${#seeds[@]}]}
directory=runs/sweep-${SLURM_ARRAY_JOB_ID:-here}/$point
again=(--force)  # what was stopped before its first checkpoint begins anew
compgen -G "$directory/checkpoints/[0-9]*/checkpoint.json" >/dev/null && again=(--resume)

exec "$flowrun" train "$file" --set "vars.lr=$lr" --set "seed=$seed" --threads "${SLURM_CPUS_PER_TASK:-1}" --quiet \
  -o "$directory" "${again[@]}" "$@"
