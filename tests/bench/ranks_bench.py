#!/usr/bin/env python3
"""Training steps per second of ranks and of shards, interleaved in one run; the bytes that a rank sends; a model of 1,024 GPUs.

Usage: tests/bench/ranks_bench.py [--rounds N] [--ranks N] [--nets lenet,gpt_tiny] [--out FILE]
       tests/bench/ranks_bench.py --model

- Ranks with a thread each against one process with as many threads, for each MPI library of the machine.
- A batch of eight shards in one process against the same rows as eight steps.
- `bytes_a_step` of run.json against the formula: each of N ranks sends 2 (N-1)/N of the parameters' bytes.

Each round runs every contestant once, in turn; figures are medians over the rounds, and ratios medians of the rounds' ratios.
`--model` runs nothing: ranks_model.py lists its assumptions.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import ranks_model

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("FLOW_BIN", SOURCE / "build" / "release" / "bin"))
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
import launchers  # noqa: E402

NETS = {"lenet": (100, 120), "gpt_tiny": (32, 300)}  # name: (rows of a batch, steps)
SHARDS = 8  # of the batch that is compared with as many steps


def train(net, steps, threads, shards=1, rows=None, launcher=None, ranks=1):
    """(steps/s after a warm-up, run.json, parameters' bytes)."""
    words = [BIN / "flowrun", "train", SOURCE / "jobs" / f"{net}.yaml", "--steps", steps, "--threads", threads, "--quiet",
             "--set", "jobs.train.run={epochs: 1000}", "--set", f"jobs.train.shards={shards}",
             "--set", f"vars.batch={rows or NETS[net][0]}"]
    if launcher:
        words = [*launchers.launch(launcher, ranks), *words, "--distributed"]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        done = subprocess.run([*map(str, words), "-o", out], env=launchers.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        rows = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        seconds = [row["seconds"] for row in rows if "job" not in row]
        warm = steps // 10
        rate = (len(seconds) - 1 - warm) / (seconds[-1] - seconds[warm])
        return rate, json.loads((out / "run.json").read_text()), parameter_bytes(json.loads((out / "plan.json").read_text()))


def parameter_bytes(plan):
    job = next(job for job in plan["jobs"] if job["name"] == "train")
    trained = {variable["tensor"] for variable in job["variables"] if variable["trainable"]}
    return sum(math.prod(tensor["shape"]) * 4 for tensor in job["tensors"] if tensor["name"] in trained)


def compare(rounds, contestants):
    """{name: rates} of {name: arguments of train}, and the last run.json of each."""
    rates, runs = {name: [] for name in contestants}, {}
    for _ in range(rounds):
        for name, arguments in contestants.items():
            rate, *runs[name] = train(**arguments)
            rates[name].append(rate)
    return rates, runs


def median_ratio(ours, theirs):
    return statistics.median(a / b for a, b in zip(ours, theirs))


def compare_ranks(net, ranks, rounds):
    """Rows of a report: each contestant, its steps per second, and their ratio to one process without shards and with them."""
    common = {"net": net, "steps": NETS[net][1]}
    contestants = {"one process": {**common, "threads": ranks},
                   f"one process, {ranks} shards": {**common, "threads": ranks, "shards": ranks}}
    for launcher in [] if launchers.missing(BIN) else launchers.available(BIN):
        contestants[f"{ranks} ranks, {launcher}"] = {**common, "threads": 1, "shards": ranks, "launcher": launcher, "ranks": ranks}
    rates, runs = compare(rounds, contestants)
    whole, cut = list(rates.values())[:2]
    for name, values in rates.items():
        record, parameters = runs[name]
        row = {"net": net, "contestant": name, "steps/s": statistics.median(values), "of one process": median_ratio(values, whole),
               "of its shards": median_ratio(values, cut)}
        if "ranks" in record:
            row |= {"bytes a step": record["ranks"]["bytes_a_step"], "formula": 2 * (ranks - 1) * parameters // ranks}
        yield row


def compare_shards(net, threads, rounds):
    rows, steps = NETS[net]
    contestants = {"shards": {"net": net, "threads": threads, "shards": SHARDS, "rows": SHARDS * rows, "steps": max(20, steps // SHARDS)},
                   "steps": {"net": net, "threads": threads, "rows": rows, "steps": steps}}
    rates, _ = compare(rounds, contestants)
    shards = [SHARDS * rows * rate for rate in rates["shards"]]
    steps = [rows * rate for rate in rates["steps"]]
    return {"net": net, "threads": threads, f"rows/s, {SHARDS} shards": statistics.median(shards),
            f"rows/s, {SHARDS} steps": statistics.median(steps), "ratio": median_ratio(shards, steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--out")
    parser.add_argument("--model", action="store_true", help="print the model of up to 1,024 GPUs; run nothing")
    options = parser.parse_args()
    if options.model:
        ranks_model.print_model()
        return
    if reason := launchers.missing(BIN):
        print(f"no ranks: {reason}")
    report = []
    for net in options.nets.split(","):
        for row in [*compare_ranks(net, options.ranks, options.rounds),
                    *(compare_shards(net, threads, options.rounds) for threads in (1, 2))]:
            print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
            report.append(row)
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
