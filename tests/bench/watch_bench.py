#!/usr/bin/env python3
"""What watching costs the thread that computes: a watched tensor [100, 512], a hook that does not fire, a tap beside what `flowc show` says.

Usage: tests/bench/watch_bench.py [--rounds N] [--threads N]

The job is jobs/mlp.yaml, batch 100, whose hidden layer is [100, 512] and 200 KiB. Every kind of run is profiled once a round, in turn;
figures are medians over the rounds of the medians over the first 200 steps. In microseconds, and how much more than with
no hook: "its step" is the step of the plan that makes the layer, the copy of what is watched included; "compute" is all that the
computing thread does for a call; "wait for sinks" is how long a synchronous job then waits until the .npy has it.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("FLOW_BIN", SOURCE / "build" / "release" / "bin"))
JOB = SOURCE / "jobs" / "mlp.yaml"
RESULT, FUSED = "mlp/hidden", "mlp/hidden/matmul"  # what a step makes; what is inside that step, and its name

KINDS = {
    "no hook": [],
    "a hook that does not fire": ["--set", f"+jobs.train.hooks=[{{watch: {RESULT}, steps: [1000000000]}}]"],
    "a watch of [100, 512]": ["--watch", RESULT],
    "the same, asynchronous": ["--watch", RESULT, "--set", "jobs.train.returns.type='Callback[Numpy]'"],
    "a tap of [100, 512]": ["--watch", FUSED],
}


def output(*words):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True).stdout


def profile(folder, threads, *words):
    """{what a thread or a step does: its median in microseconds}, a whole step as `all`."""
    output(BIN / "flowrun", "train", JOB, "-o", f"{folder}/out", "--force", "--quiet", "--profile", "--steps", 250, "--threads", threads,
           "--set", "jobs.train.run={epochs: 100}", *words)
    with open(f"{folder}/out/profile.json") as file:
        trace = json.load(file)
    times = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            times[event["name"]].append(event["dur"])
    job = trace["jobs"][0]
    return {**{name: statistics.median(each) for name, each in times.items()}, "all": 1e6 * job["seconds"] / job["calls"]}


def said_of_tap():
    """What `flowc show` says a tap adds, in per cent of a call."""
    watched = f"+jobs.train.hooks=[{{watch: {FUSED}}}]"
    text = output(BIN / "flowc", "show", JOB, "--job", "train", "--set", watched)
    return float(re.search(rf"{FUSED}:tap +adds about ([0-9.e+-]+) % to a step", text)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            rounds.append({kind: profile(folder, options.threads, *words) for kind, words in KINDS.items()})

    def median(of):
        return statistics.median(of(one) for one in rounds)

    for kind in KINDS:
        columns = []
        for what, name in ((FUSED, "its step"), ("launch", "compute"), ("wait for sinks", "wait for sinks"), ("all", "in all")):
            more = median(lambda one: one[kind][what] - one["no hook"][what])
            columns.append(f"{name} {median(lambda one: one[kind][what]):7.1f} ({more:+7.1f})")
        print(f"{kind:<26} {', '.join(columns)}")
    tap = median(lambda one: 100 * one["a tap of [100, 512]"][f"{FUSED}:tap"] / one["no hook"]["launch"])
    print(f"the tap takes {tap:.1f} % of a call; flowc show says {said_of_tap():.2g} %: {tap / said_of_tap():.2f} times as much")


if __name__ == "__main__":
    main()
