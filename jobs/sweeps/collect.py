#!/usr/bin/env python3
"""Prints a tab-separated table, one line per run: settings, steps, the mean of the last 20 logged losses, exit status.

    jobs/sweeps/collect.py runs/mlp-train-*

A value that a job reports in metrics.jsonl has three columns: `eval/accuracy` (the last value), `eval/accuracy min` and
`eval/accuracy max`. A run without run.json is still running or was killed: its exit status is empty. The best loss comes
first."""
import json
import math
import pathlib
import sys

LAST = 20


def read_metrics(path):
    """The losses of the main job, its number of steps, and the reported values by column."""
    losses, steps, reported = [], "", {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:  # the last line of a run that is still writing
            break
        value = row["value"] if "value" in row else row["loss"]
        value = math.nan if value is None else float(value)
        if "job" in row:
            reported.setdefault(f"{row['job']}/{row.get('label', 'loss') or row['name']}", []).append(value)
        else:
            losses.append(value)
            steps = row["step"] + 1
    numbers = {}
    for name, values in reported.items():
        finite = [value for value in values if not math.isnan(value)] or values
        numbers |= {name: f"{values[-1]:.6g}", f"{name} min": f"{min(finite):.6g}", f"{name} max": f"{max(finite):.6g}"}
    return losses, steps, numbers


def read_run(directory):
    """Settings and results of a run by column, or None if the directory contains no run."""
    record = {}
    if (directory / "run.json").exists():
        record = json.loads((directory / "run.json").read_text())
    elif not (directory / "plan.json").exists():
        return None
    losses, steps, numbers = read_metrics(directory / "metrics.jsonl")
    settings = {}
    for override in record.get("overrides", []):
        flag, _, value = override.partition(" ")
        if flag == "--set" and "=" in value:
            key, _, run_value = value.partition("=")
            settings[key] = run_value
    last = losses[-LAST:]
    ends = {"steps": record.get("last_step", steps), "loss": f"{sum(last) / len(last):.4f}" if last else "",
            "exit_status": record.get("exit_status", "")}
    return settings, numbers, {"run": str(directory), **settings, **numbers, **ends}


def main():
    runs = [run for run in (read_run(pathlib.Path(name)) for name in sys.argv[1:]) if run]
    if not runs:
        sys.exit("collect.py: no runs; usage: jobs/sweeps/collect.py runs/mlp-train-*")
    runs.sort(key=lambda run: (run[2]["loss"] in ("", "nan"), float(run[2]["loss"] or "nan")))
    settings = sorted({key for run in runs for key in run[0]})
    numbers = list(dict.fromkeys(key for run in runs for key in run[1]))
    columns = ["run", *settings, "steps", "loss", *numbers, "exit_status"]
    print("\t".join(columns))
    for *_, run in runs:
        print("\t".join(str(run.get(column, "")) for column in columns))


if __name__ == "__main__":
    main()
