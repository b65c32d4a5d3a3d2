#!/usr/bin/env bash
# A sweep as a plain loop: trains with each learning rate and seed, one run after another.
#
#   jobs/sweeps/loop.sh                                   the MLP, one run directory per point below runs/
#   jobs/sweeps/loop.sh jobs/lenet.yaml --steps 200       another job file, extra flags for flowrun
#   jobs/sweeps/collect.py runs/mlp-train-*               then print a table of the points
#
# A point that fails is reported and does not stop the others. Ctrl-C finishes the step, saves, and stops the loop.
set -u
flowrun=${FLOWRUN:-$(command -v flowrun || echo build/release/bin/flowrun)}
file=${1:-jobs/mlp.yaml}
shift $(($# > 0))

failed=0
for lr in ${RATES:-0.03 0.1 0.3}; do
  for seed in ${SEEDS:-1 2}; do
    "$flowrun" train "$file" --set "vars.lr=$lr" --set "seed=$seed" --quiet "$@"
    status=$?
    ((status > 128)) && exit "$status" # a signal ended it
    ((status == 0)) && continue
    echo "lr $lr, seed $seed: exit status $status" >&2
    failed=1
  done
done
exit "$failed"
