#!/usr/bin/env python3
"""Compile time and time a step of networks of 100, 1000 and 10000 ops: both should grow as the ops do.

Usage: tests/bench/compile_bench.py [--rounds N]

The networks are chains of tiny layers, so that what is measured is ours, not the kernels': a predict job of `tanh`, and a train
job of `add` of a variable and `tanh` in turn, which has a backward pass and one update for every two ops. Medians over the rounds.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

from train_bench import BIN

PREDICT = """flow: 1
networks:
  link:
    inputs: [x]
    graph:
      y: {{op: tanh, in: x}}
jobs:
  chain:
    type: predict
    inputs: {{x: {{shape: [4], dtype: float32, from: {{type: random_uniform, low: -1, high: 1}}}}}}
    graph:
      links: {{op: link, in: x, repeat: {ops}}}
    returns: {{type: Numpy, value: links, to: none}}
    run: {{steps: 1000000}}
"""
TRAIN = """flow: 1
networks:
  link:
    inputs: [x]
    graph:
      w: {{op: variable, shape: 4, initializer: zeros}}
      sum: {{op: add, in: [x, w]}}
      y: {{op: tanh, in: sum}}
jobs:
  chain:
    type: train
    inputs: {{x: {{shape: [4], dtype: float32, from: {{type: random_uniform, low: -1, high: 1}}}}}}
    graph:
      links: {{op: link, in: x, repeat: {half}}}
    optimizer: {{type: sgd, learning_rate: 0.01, minimize: links}}
    run: {{steps: 1000000}}
"""


def seconds_to_build(job, plan):
    start = time.perf_counter()
    subprocess.run([BIN / "flowc", "build", job, "-o", plan], check=True, capture_output=True)
    return time.perf_counter() - start


def seconds_a_step(plan, folder, steps):
    """By how much a run of many steps takes longer than one of a single step."""
    def run(count):
        start = time.perf_counter()
        subprocess.run([BIN / "flowrun", "chain", plan, "-o", folder, "--force", "--threads", "1", "--quiet", "--steps", str(count)],
                       check=True, capture_output=True)
        return time.perf_counter() - start
    once = run(1)
    return (run(steps + 1) - once) / steps


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3)
    rounds = arguments.parse_args().rounds
    print(f"{'job':8} {'ops':>6} {'build ms':>9} {'us an op':>9} {'step us':>9} {'ns an op':>9} {'plan MB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, text in (("predict", PREDICT), ("train", TRAIN)):
            for ops in (100, 1000, 10000):
                job, plan = folder / "chain.yaml", folder / "chain.plan"
                job.write_text(text.format(ops=ops, half=ops // 2))
                build = statistics.median(seconds_to_build(job, plan) for _ in range(rounds))
                step = statistics.median(seconds_a_step(plan, folder / "run", 2_000_000 // ops) for _ in range(rounds))
                steps = len(json.loads(plan.read_text())["jobs"][0]["steps"])
                print(f"{name:8} {steps:6} {1e3 * build:9.1f} {1e6 * build / steps:9.1f} {1e6 * step:9.1f} {1e9 * step / steps:9.0f} "
                      f"{plan.stat().st_size / 1e6:8.2f}")


if __name__ == "__main__":
    main()
