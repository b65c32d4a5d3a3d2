#!/usr/bin/env bash
# A sweep with GNU parallel: several points at a time on one machine (Debian: apt-get install parallel).
#
#   jobs/sweeps/parallel.sh                               the MLP, two runs at a time
#   AT_ONCE=4 jobs/sweeps/parallel.sh jobs/lenet.yaml --steps 200
#   jobs/sweeps/collect.py runs/mlp-train-*               then print a table of the points
#
# Each run takes the next free directory below runs/, even if runs start at the same moment. runs/sweep.log lists the exit
# status of each point. The exit status of the script is the number of failed points.
set -u
flowrun=${FLOWRUN:-$(command -v flowrun || echo build/release/bin/flowrun)}
file=${1:-jobs/mlp.yaml}
shift $(($# > 0))
at_once=${AT_ONCE:-2}
threads=$(($(nproc) / at_once))

mkdir -p runs
parallel --jobs "$at_once" --line-buffer --tag --joblog runs/sweep.log \
  "$flowrun" train "$file" --set 'vars.lr={1}' --set 'seed={2}' --threads $((threads > 0 ? threads : 1)) --quiet "$@" \
  ::: ${RATES:-0.03 0.1 0.3} ::: ${SEEDS:-1 2}
