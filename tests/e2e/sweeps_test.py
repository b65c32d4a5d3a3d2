"""Sweeps: many runs from a shell loop, GNU parallel and a Slurm array, and their table. A Slurm job of several ranks."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from flow import BIN, JOBS, FlowTest, train_job

# Runs the program as one process and logs its own words. ENDS replaces the exit status, MORE adds words.
SRUN = """#!/usr/bin/env python3
import os, subprocess, sys
program = next(at for at, word in enumerate(sys.argv) if at and not word.startswith("-"))
with open("srun.log", "a") as log:
    print(*sys.argv[1:program], *[word for word in sys.argv if word == "--distributed"], file=log)
words = [word for word in sys.argv[program:] if word != "--distributed"] + os.environ.get("MORE", "").split()
status = subprocess.run(words).returncode
sys.exit(int(os.environ.get("ENDS", status)))
"""
SCONTROL = """#!/bin/sh
echo "$@" >>scontrol.log
"""


class SweepTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("point.yaml", train_job(30))

    def sweep(self, script, *words, status=0, **env):
        done = subprocess.run([JOBS / "sweeps" / script, *words], cwd=self.dir, capture_output=True, text=True, timeout=600,
                              env={**os.environ, "FLOWRUN": str(BIN / "flowrun"), "RATES": "0.1 0.2", "SEEDS": "1 2", **env})
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def table(self, *runs):
        lines = self.sweep("collect.py", *map(str, runs)).stdout.splitlines()
        return [dict(zip(lines[0].split("\t"), line.split("\t"))) for line in lines[1:]]


class Sweeps(SweepTest):
    def points(self, rows):
        return sorted((row["vars.lr"], row["seed"], row["steps"], row["exit_status"]) for row in rows)

    def runs(self, pattern="runs/point-train-*"):
        return sorted(self.dir.glob(pattern))

    def test_a_loop_runs_every_point_and_its_table_has_them_all(self):
        self.sweep("loop.sh", "point.yaml")
        rows = self.table(*self.runs())
        self.assertEqual(self.points(rows), [(lr, seed, "30", "0") for lr in ("0.1", "0.2") for seed in "12"])
        losses = [float(row["loss"]) for row in rows]
        self.assertEqual(losses, sorted(losses))
        logged = [json.loads(line)["loss"] for line in (self.dir / rows[0]["run"] / "metrics.jsonl").read_text().splitlines()]
        self.assertAlmostEqual(losses[0], sum(logged[-20:]) / 20, places=4)

    def test_the_flowrun_of_the_path_is_used(self):
        self.sweep("loop.sh", "point.yaml", "--steps", "1", SEEDS="1", FLOWRUN="", PATH=f"{BIN}:{os.environ['PATH']}")
        self.assertEqual(len(self.runs()), 2)

    def test_numbers_of_validation_are_columns(self):
        self.write("point.yaml", train_job(30) + '''    hooks: [{watch: loss, every: 10, to: {type: print, label: "", reduce: mean}}]
''' + train_job(2).partition("jobs:\n")[2].replace("train:", "tune:", 1))
        called = ["--set", "+jobs.train.run.also=[{job: tune, every: {steps: 10}}]", "--set", "+jobs.tune.returns={value: hidden, to: {type: print, label: top, reduce: max}}"]
        for lr in ("0.1", "0.2"):
            subprocess.run([BIN / "flowrun", "train", "point.yaml", "--quiet", "--set", f"vars.lr={lr}", *called], cwd=self.dir, check=True, stdout=subprocess.DEVNULL)
        for row in self.table(*self.runs()):
            logged = [json.loads(line) for line in (self.dir / row["run"] / "metrics.jsonl").read_text().splitlines()]
            for column, values in (("train/loss", [line["value"] for line in logged if line.get("job") == "train"]),
                                   ("tune/loss", [line["loss"] for line in logged if line.get("job") == "tune" and "loss" in line]),
                                   ("tune/top", [line["value"] for line in logged if line.get("label") == "top"])):
                self.assertEqual(len(values), 3 if column == "train/loss" else 6)
                told = [float(row[f"{column}{suffix}"]) for suffix in ("", " min", " max")]
                for number, expected in zip(told, (values[-1], min(values), max(values))):
                    self.assertAlmostEqual(number, expected, delta=1e-5 * abs(expected))
            self.assertEqual((row["steps"], row["exit_status"]), ("30", "0"))

    def test_a_point_that_fails_is_told_and_the_others_go_on(self):
        done = self.sweep("loop.sh", "point.yaml", status=1, RATES="1e30 0.1", SEEDS="1")
        self.assertIn("lr 1e30, seed 1: exit status 1\n", done.stderr)
        self.assertEqual([row["exit_status"] for row in self.table(*self.runs())], ["0", "1"])

    def test_the_table_is_ranked_by_any_metric_and_runs_without_a_result_are_listed(self):
        for name, accuracy, record in (("a", 0.5, {"exit_status": 0}), ("b", 0.9, {"exit_status": 1, "error": "loss is NaN"}), ("c", 0.7, None)):
            self.write(f"{name}/plan.json", "{}")
            rows = [{"step": 0, "loss": accuracy}, {"step": 0, "job": "eval", "label": "accuracy", "value": accuracy},
                    {"step": 0, "job": "eval", "label": "matrix", "value": [[1, 2], [3, 4]]}]
            self.write(f"{name}/metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
            if record:
                self.write(f"{name}/run.json", json.dumps(record))
        self.write("empty/notes", "")
        for words, order in (([], "acb"), (["--by", "eval.accuracy", "--mode", "max"], "bca"), (["--by", "eval/accuracy min"], "acb"), (["--mode", "max"], "bca")):
            done = self.sweep("collect.py", *words, "a", "b", "c", "empty", "nowhere")
            self.assertEqual([line.split("\t")[0] for line in done.stdout.splitlines()[1:]], list(order))
            self.assertEqual(done.stderr, "b: failed with exit status 1: loss is NaN\nc: still running, or killed\nempty: missing: no run is there\nnowhere: missing: no run is there\n")
        self.assertIn("no run has `eval.acuracy`; use one of steps, loss, eval.accuracy", self.sweep("collect.py", "--by", "eval.acuracy", "a", status=2).stderr)
        self.assertIn("--mode {min,max}", self.sweep("collect.py", "--help").stdout)

    def test_ctrl_c_stops_the_loop(self):
        env = {**os.environ, "FLOWRUN": str(BIN / "flowrun")}
        words = [JOBS / "sweeps/loop.sh", "point.yaml", "--set", "jobs.train.run.steps=1000000000"]
        with subprocess.Popen(words, cwd=self.dir, env=env, start_new_session=True, stderr=subprocess.PIPE, text=True) as loop:
            while not (self.runs() and (self.runs()[0] / "metrics.jsonl").exists()):
                self.assertIsNone(loop.poll())
                time.sleep(0.01)
            os.killpg(loop.pid, signal.SIGINT)
            said = loop.stderr.read()
            self.assertIn(loop.wait(), (-signal.SIGINT, 128 + signal.SIGINT))
        self.assertIn("--resume", said)
        self.assertEqual(len(self.runs()), 1)
        self.assertTrue(any((self.runs()[0] / "checkpoints").glob("*/checkpoint.json")))

    def test_runs_that_start_together_take_directories_of_their_own(self):
        words = [str(BIN / "flowrun"), "point.yaml", "--quiet", "--steps", "1"]
        together = [subprocess.Popen(words, cwd=self.dir, stderr=subprocess.PIPE, text=True) for _ in range(16)]
        for run in together:
            self.assertEqual((run.communicate()[1], run.returncode), ("", 0))
        self.assertEqual([run.name for run in self.runs()], [f"point-train-{number:03}" for number in range(1, 17)])
        for run in self.runs():
            self.assertEqual(json.loads((run / "run.json").read_text())["exit_status"], 0)

    @unittest.skipUnless(shutil.which("parallel"), "GNU parallel is not installed")
    def test_parallel_keeps_the_status_of_each_point(self):
        self.sweep("parallel.sh", "point.yaml", "--steps", "9", status=2, RATES="0.1 1e30", AT_ONCE="3")
        log = [line.split("\t") for line in (self.dir / "runs/sweep.log").read_text().splitlines()[1:]]
        self.assertEqual(sorted(line[6] for line in log), ["0", "0", "1", "1"])
        rows = self.table(*self.runs())
        self.assertEqual([point[:2] + point[3:] for point in self.points(rows)],
                         [("0.1", "1", "0"), ("0.1", "2", "0"), ("1e30", "1", "1"), ("1e30", "2", "1")])

    def test_each_task_of_a_slurm_array_is_a_point_with_flowruns_status(self):
        for task in range(4):
            self.sweep("slurm.sh", "point.yaml", SLURM_ARRAY_JOB_ID="77", SLURM_ARRAY_TASK_ID=str(task))
        self.assertEqual(self.points(self.table(*self.runs("runs/sweep-77/*"))), [(lr, seed, "30", "0") for lr in ("0.1", "0.2") for seed in "12"])
        self.sweep("slurm.sh", "point.yaml", status=1, SLURM_ARRAY_TASK_ID="0", RATES="1e30", SEEDS="1")
        self.assertIn("unbound", self.sweep("slurm.sh", "point.yaml", status=1).stderr)

    def test_a_task_that_is_queued_again_goes_on(self):
        task = {"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "1"}
        self.sweep("slurm.sh", "point.yaml", "--steps", "10", **task)
        self.sweep("slurm.sh", "point.yaml", **task)
        record = json.loads((self.dir / "runs/sweep-77/1/run.json").read_text())
        self.assertEqual((record["first_step"], record["last_step"]), (10, 30))

    def test_a_task_that_was_killed_before_its_first_checkpoint_begins_anew(self):
        task = {"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "1"}
        self.sweep("slurm.sh", "point.yaml", "--steps", "10", **task)
        (run,) = self.runs("runs/sweep-77/*")
        for whole in (run / "checkpoints").iterdir():
            (whole / "checkpoint.json").unlink()
        self.sweep("slurm.sh", "point.yaml", **task)
        record = json.loads((run / "run.json").read_text())
        self.assertEqual((record["first_step"], record["last_step"]), (0, 30))


class Distributed(SweepTest):
    """One run of several ranks as a Slurm job."""

    def setUp(self):
        super().setUp()
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            self.write(f"slurm/{name}", text).chmod(0o755)

    def submit(self, *words, status=0, **env):
        task = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "2", "SHARDS": "4", "PATH": f"{self.dir}/slurm:{os.environ['PATH']}"}
        self.sweep("slurm_distributed.sh", "point.yaml", *words, status=status, **{**task, **env})

    def record(self):
        return json.loads((self.dir / "runs/slurm-77/run.json").read_text())

    def requeued(self):
        return (self.dir / "scontrol.log").read_text() if (self.dir / "scontrol.log").exists() else ""

    def test_a_job_starts_all_ranks(self):
        self.submit(SLURM_CPUS_PER_TASK="3")
        self.assertEqual((self.dir / "srun.log").read_text(), "--mpi=pmix --ntasks=2 --cpus-per-task=3 --distributed\n")
        record = self.record()
        self.assertEqual((record["first_step"], record["last_step"], record["exit_status"]), (0, 30, 0))
        self.assertIn("--set jobs.train.shards=4", record["overrides"])
        self.assertEqual(self.requeued(), "")

    def test_a_job_that_the_signal_stopped_is_queued_again_and_resumes(self):
        self.submit(MORE="--steps 10", ENDS=str(128 + signal.SIGUSR1))
        self.assertEqual(self.requeued(), "requeue 77\n")
        self.submit(SLURM_NTASKS="4")
        self.assertEqual((self.record()["first_step"], self.record()["last_step"]), (10, 30))
        self.assertEqual(self.requeued(), "requeue 77\n")

    def test_another_exit_status_is_that_of_the_job(self):
        for status in (3, 128 + signal.SIGKILL, 128 + signal.SIGTERM):
            self.submit(MORE="--steps 10", ENDS=str(status), status=status)
        self.assertEqual(self.requeued(), "")


if __name__ == "__main__":
    unittest.main()
