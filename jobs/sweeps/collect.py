#!/usr/bin/env python3
"""A table of runs, a line each, tab-separated: what was set, steps, the mean of the last 20 logged losses, exit status.

    jobs/sweeps/collect.py runs/mlp-train-*

A run without run.json is still going on, or was killed: its exit status is empty. The best loss comes first."""
import json
import math
import pathlib
import sys

LAST = 20


def read_run(directory):
    """The columns of one run, or None where the directory holds none."""
    record, losses, step = {}, [], ""
    if (directory / "run.json").exists():
        record = json.loads((directory / "run.json").read_text())
    elif not (directory / "plan.json").exists():
        return None
    metrics = directory / "metrics.jsonl"
    for line in metrics.read_text().splitlines() if metrics.exists() else []:
        try:
            logged = json.loads(line)
        except json.JSONDecodeError:  # the last line of a run that is going on
            break
        losses.append(math.nan if logged["loss"] is None else logged["loss"])
        step = logged["step"] + 1
    run = {"run": str(directory)}
    for override in record.get("overrides", []):
        flag, _, value = override.partition(" ")
        if flag == "--set" and "=" in value:
            key, _, run_value = value.partition("=")
            run[key] = run_value
    last = losses[-LAST:]
    return {**run, "steps": record.get("last_step", step), "loss": f"{sum(last) / len(last):.4f}" if last else "",
            "exit_status": record.get("exit_status", "")}


def main():
    runs = [run for run in (read_run(pathlib.Path(name)) for name in sys.argv[1:]) if run]
    if not runs:
        sys.exit("collect.py: no runs; usage: jobs/sweeps/collect.py runs/mlp-train-*")
    runs.sort(key=lambda run: (run["loss"] in ("", "nan"), float(run["loss"] or "nan")))
    ends = ["steps", "loss", "exit_status"]
    keys = sorted({key for run in runs for key in run} - {"run", *ends})
    columns = ["run", *keys, *ends]
    print("\t".join(columns))
    for run in runs:
        print("\t".join(str(run.get(column, "")) for column in columns))


if __name__ == "__main__":
    main()
