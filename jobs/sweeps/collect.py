#!/usr/bin/env python3
"""Prints a tab-separated table, one line per run: settings, steps, the mean of the last 20 logged losses, exit status.

    jobs/sweeps/collect.py runs/mlp-train-*
    jobs/sweeps/collect.py --by eval.accuracy --mode max runs/mlp-train-*

A value that a job reports in metrics.jsonl has three columns: `eval/accuracy` (the last value), `eval/accuracy min` and
`eval/accuracy max`. The best run comes first. Runs that are missing, still running, killed or failed are listed on standard
error, below the table; a run without run.json is running or was killed, and its exit status is empty."""
import argparse
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
        if isinstance(value, list):  # a matrix has no rank
            continue
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
    """Settings, results by column, and what is wrong with a run."""
    record, problem = {}, ""
    if (directory / "run.json").exists():
        record = json.loads((directory / "run.json").read_text())
        if record.get("exit_status"):
            problem = f"failed with exit status {record['exit_status']}" + (f": {record['error']}" if record.get("error") else "")
    elif not (directory / "plan.json").exists():
        return {}, {}, {}, "missing: no run is there"
    else:
        problem = "still running, or killed"
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
    return settings, numbers, {"run": str(directory), **settings, **numbers, **ends}, problem


def number_of(text):
    """The number in a cell, or NaN."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def rank(runs, column, mode):
    """Sorts runs by a column, the best first; those without a number last."""
    sign = -1 if mode == "max" else 1

    def key(run):
        number = number_of(run[2].get(column, ""))
        return math.isnan(number), sign * number
    runs.sort(key=key)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="DIR", help="run directories")
    parser.add_argument("--by", default="loss", metavar="METRIC", help="column that ranks the runs, such as eval.accuracy; default: loss")
    parser.add_argument("--mode", choices=("min", "max"), default="min", help="is a smaller or a larger value better? default: min")
    arguments = parser.parse_args()
    found = [(name, read_run(pathlib.Path(name))) for name in arguments.runs]
    runs = [run for _, run in found if run[2]]
    if not runs:
        sys.exit("collect.py: no runs; usage: jobs/sweeps/collect.py runs/mlp-train-*")
    settings = sorted({key for run in runs for key in run[0]})
    numbers = list(dict.fromkeys(key for run in runs for key in run[1]))
    columns = ["run", *settings, "steps", "loss", *numbers, "exit_status"]
    names = {column.replace("/", "."): column for column in columns[1:]}
    by = names.get(arguments.by.replace("/", "."))
    if not by:
        parser.error(f"--by: no run has `{arguments.by}`; use one of {', '.join(names)}")
    rank(runs, by, arguments.mode)
    print("\t".join(columns))
    for *_, run, _ in runs:
        print("\t".join(str(run.get(column, "")) for column in columns))
    sys.stdout.flush()
    for name, (*_, problem) in found:
        if problem:
            print(f"{name}: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()
