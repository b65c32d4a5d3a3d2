#!/usr/bin/env python3
"""Steps per second and peak memory of a job that trains a large embedding, with dense and sparse gradients.

Usage: tests/bench/sparse_bench.py [--rounds N] [--threads N] [--rows N]

The table is [rows, 64], 1,000,000 rows by default; a batch looks up 256 of them. Each round runs every optimizer with both kinds of
gradients, in turn. Figures are medians over the rounds. Steps per second are those of the computing thread: reading the job and making the
table do not count. Memory is the most that the process had at any time.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("FLOW_BIN", SOURCE / "build" / "release" / "bin"))
STEPS = {"dense": 20, "sparse": 2000}
OPTIMIZERS = ("sgd", "adagrad", "adam")
JOB = """flow: 1
jobs:
  train:
    type: train
    inputs: {{word: {{shape: [256], dtype: int32, from: {{type: random_int, low: 0, high: {rows}}}}}}}
    graph:
      y: {{op: embedding, in: word, vocab_size: {rows}, units: 64, sparse: {sparse}, embeddings_initializer: ones}}
      loss: {{op: square}}
    optimizer: {{type: {optimizer}, learning_rate: 0.01, minimize: loss}}
    run: {{steps: {steps}}}
"""


def run(folder, optimizer, kind, options):
    """Steps per second, and peak memory in MiB."""
    job = pathlib.Path(folder) / "job.yaml"
    job.write_text(JOB.format(rows=options.rows, sparse=str(kind == "sparse").lower(), optimizer=optimizer, steps=STEPS[kind]))
    words = [BIN / "flowrun", "train", job, "-o", f"{folder}/out", "--force", "--quiet", "--profile", "--save", "none", "--threads", options.threads]
    log = pathlib.Path(folder) / "log"
    with open(log, "w") as file:
        process = subprocess.Popen([str(word) for word in words], stderr=file)
        _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(log.read_text())
    with open(f"{folder}/out/profile.json") as file:
        trace = json.load(file)["jobs"][0]
    return trace["calls"] / trace["seconds"], usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds = [{(optimizer, kind): run(folder, optimizer, kind, options) for optimizer in OPTIMIZERS for kind in STEPS} for _ in range(options.rounds)]
    print(f"{'':<8} {'dense':>22} {'sparse':>22}")
    for optimizer in OPTIMIZERS:
        figures = [[statistics.median(one[optimizer, kind][i] for one in rounds) for i in range(2)] for kind in STEPS]
        print(f"{optimizer:<8} " + " ".join(f"{steps:8.1f}/s {memory:7.0f} MiB" for steps, memory in figures))


if __name__ == "__main__":
    main()
