#!/usr/bin/env bash
# From a fresh Debian machine to a trained LeNet. Installs packages, builds, trains for one epoch on
# MNIST, and prints the accuracy on the 10,000 test images.
set -euo pipefail
cd "$(dirname "$0")/.."

./setup.sh
cmake --preset release -DFLOW_TESTS=OFF >/dev/null
cmake --build --preset release
bin=build/release/bin

runs=runs/quickstart
mkdir -p "$runs"
out=$(mktemp -d "$runs/$(date +%Y%m%d-%H%M%S)-XXX")
echo
echo "== training one epoch (600 steps of 100 images); mean loss of every 20th step:"
"$bin/flowrun" train jobs/lenet.yaml -o "$out/train"
echo
echo "== evaluating 10,000 test images"
"$bin/flowrun" eval jobs/lenet.yaml -o "$out/eval" --load "$out/train" --quiet
"$bin/flowrun" accuracy jobs/lenet.yaml -o "$out/accuracy" --load "$out/train" --quiet
echo
echo "programs      $PWD/$bin/{flowc,flowrun,flowdiff}"
echo "checkpoint    $PWD/$out/train/checkpoints/"
echo "loss, step    $PWD/$out/train/metrics.jsonl"
echo "predictions   $PWD/$out/eval/returns/{labels,lenet}/value.npy"
