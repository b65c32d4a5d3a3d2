"""Values that a run follows: early stopping, the best state, and learning rates that fall on a plateau."""
import errno
import json
import math
import os
import shutil
import signal
import subprocess
import unittest

import numpy as np

from flow import BIN, FlowTest
from launchers import RanksTest

# Validation noise makes both values go up and down.
JOB = """flow: 1
seed: 11
vars: {plateau: {type: plateau, base: 0.5, factor: 0.5, patience: 1, cooldown: 1, min_lr: 0.02, min_delta: 0.001, watch: eval.loss}}
data:
  train: {x: {npy: x.npy}, y: {npy: y.npy}}
  test: {x: {npy: tx.npy}, y: {npy: ty.npy}}
jobs:
  train:
    type: train
    shards: 2
    inputs:
      x: {shape: [8, 5], dtype: float32, from: train.x}
      y: {shape: [8], dtype: int32, from: train.y}
    graph:
      hidden: {op: dense, in: x, units: 8, activation: relu}
      drop: {op: dropout, rate: 0.3}
      logits: {op: dense, units: 3}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: y, logits: logits}
    optimizer: {type: sgd, momentum: 0.9, learning_rate: $plateau, minimize: loss}
    returns: {value: loss}
    run:
      epochs: 40
      shuffle: true
      checkpoint: {every: {steps: 7}, keep: 100, keep_best: {by: eval.right, mode: max}}
      also: [{job: eval, every: {epochs: 1}}]
      early_stopping: {watch: eval.loss, patience: 8}
  eval:
    type: predict
    inputs:
      x: {shape: [4, 5], dtype: float32, from: test.x}
      y: {shape: [4], dtype: int32, from: test.y}
    graph:
      hidden: {op: dense, in: x, units: 8, activation: relu}
      logits: {op: dense, units: 3}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: y, logits: logits}
      guess: {op: argmax, in: logits}
      right: {op: equal, in: [guess, y]}
    returns: {value: right}
"""
EPOCH = 5  # steps


class ReduceLROnPlateau:
    """The rule of torch.optim.lr_scheduler.ReduceLROnPlateau with threshold_mode="abs"."""

    def __init__(self, rate, mode="min", factor=0.1, patience=10, threshold=1e-4, cooldown=0, min_lr=0.0, eps=1e-8):
        self.rate, self.mode, self.factor, self.patience, self.threshold = rate, mode, factor, patience, threshold
        self.cooldown, self.min_lr, self.eps = cooldown, min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0

    def step(self, value):
        better = value < self.best - self.threshold if self.mode == "min" else value > self.best + self.threshold
        if better:
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            lower = max(self.rate * self.factor, self.min_lr)
            if self.rate - lower > self.eps:
                self.rate = lower
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0


def stop_of(values, patience, min_delta=0):
    """After how many values a run stops; None for never."""
    best, bad = math.inf, 0
    for count, value in enumerate(values, 1):
        best, bad = (value, 0) if value < best - min_delta else (best, bad + 1)
        if bad == patience:
            return count
    return None


class Followed(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)
        write_data(self.dir)

    def values(self, run, label):
        """(step, value) of each value that the run followed."""
        return [(row["step"], row["value"]) for row in self.rows(run) if row.get("label") == label]

    def record(self, run):
        return json.loads((self.dir / run / "run.json").read_text())

    def same_runs(self, one, other):
        self.assertEqual(self.rows_without_seconds(one), self.rows_without_seconds(other))
        a, b = ({name: data for name, data in self.files(run).items() if name.endswith((".npy", "checkpoint.json"))} for run in (one, other))
        self.assertEqual(sorted(a), sorted(b))
        self.assertEqual([name for name in a if a[name] != b[name]], [])

    # What a value is.

    def test_a_value_of_a_called_job_is_the_mean_over_its_call(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        for name, label in (("right", "eval.right"), ("loss", "eval.loss")):
            for step, value in self.values("out", label)[:4]:
                self.flowrun("train", "job.yaml", "-o", f"at-{step}", "--force", "--quiet", "--steps", step)
                self.flowrun("eval", "job.yaml", "-o", "eval", "--force", "--quiet", "--load", f"at-{step}", "--watch", name)
                rows = self.load(f"eval/watch/{name}/value.npy")
                self.assertEqual(rows.shape, (22,))  # the last batch is padded
                self.assertAlmostEqual(value, rows.astype(np.float64).mean(), delta=1e-15)
        self.assertEqual([step for step, _ in self.values("out", "eval.loss")][:3], [EPOCH, 2 * EPOCH, 3 * EPOCH])

    def test_a_value_of_the_job_itself_is_the_mean_over_an_epoch_or_some_steps(self):
        for every, steps in (("", EPOCH), (", every: {epochs: 2}", 2 * EPOCH), (", every: {steps: 3}", 3)):
            self.flowrun("train", "job.yaml", "-o", "out", "--force", "--quiet", "--steps", 31,
                         "--set", f"jobs.train.run.early_stopping={{watch: loss, patience: 100{every}}}")
            losses = self.load("out/returns/loss/value.npy").astype(np.float64)
            values = self.values("out", "loss")
            self.assertEqual([step for step, _ in values], list(range(steps - 1, 31, steps)))
            for step, value in values:
                self.assertAlmostEqual(value, losses[step + 1 - steps:step + 1].mean(), delta=1e-15)

    def test_an_asynchronous_job_decides_the_same(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        self.flowrun("train", "job.yaml", "-o", "ahead", "--quiet", "--set", "+jobs.train.returns.type=Callback")
        self.assertEqual(self.rows_without_seconds("out"), self.rows_without_seconds("ahead"))

    def test_following_changes_nothing_else(self):
        plain = ["--set", "vars.plateau=0.1", "--set", "~jobs.train.run.early_stopping", "--set", "~jobs.train.run.checkpoint.keep_best"]
        self.flowrun("train", "job.yaml", "-o", "plain", "--quiet", *plain)
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", *plain[:2], "--set", "jobs.train.run.early_stopping.patience=1000")
        self.assertFalse((self.dir / "plain/best").exists())
        losses = [self.load(f"{run}/returns/loss/value.npy") for run in ("plain", "out")]
        np.testing.assert_array_equal(*losses)
        self.assertEqual(self.rows("plain")[0].keys(), self.rows("out")[0].keys())
        # A value that another job follows costs a run of the called job nothing, and is not delivered.
        self.flowrun("eval", "job.yaml", "-o", "eval", "--quiet", "--load", "out")
        self.assertFalse((self.dir / "eval/metrics.jsonl").exists())

    # Early stopping.

    def test_a_run_stops_when_its_value_does_not_improve(self):
        for patience, min_delta in ((2, 0), (5, 0.01)):
            done = self.flowrun("train", "job.yaml", "-o", "out", "--force",
                                "--set", f"jobs.train.run.early_stopping={{watch: eval.loss, patience: {patience}, min_delta: {min_delta}}}")
            values = self.values("out", "eval.loss")
            count = stop_of([value for _, value in values], patience, min_delta)
            self.assertEqual(count, len(values), "it stops late")
            best = values[count - 1 - patience]
            record = self.record("out")
            self.assertEqual((record["exit_status"], record["error"], record["last_step"]), (0, "", values[-1][0]))
            reason = f"`eval.loss` did not improve on {best[1]:.4g}, after {best[0]} steps, for {patience} values in a row"
            self.assertEqual(record["stop_reason"], "early_stopping: " + reason)
            self.assertIn(f"flowrun: train stops early after {values[-1][0]} steps: {reason}\n", done.stderr)
            self.assertEqual(max(self.steps_of("out/checkpoints")), values[-1][0])

    def steps_of(self, folder):
        return sorted(int(path.name) for path in (self.dir / folder).iterdir())

    def test_other_ends_have_their_reasons(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--steps", 3)
        self.assertEqual(self.record("out")["stop_reason"], "done")
        stops = "+jobs.train.hooks=[{watch: loss, steps: [2], to: {type: command, mode: spawn, run: 'cat > /dev/null; EXIT'}}]"
        for command, status, reason in (("exit 10", 0, "command"), ("exit 4", 3, "failure")):
            self.flowrun("train", "job.yaml", "-o", "out", "--force", "--quiet", "--set", stops.replace("EXIT", command), status=status)
            self.assertEqual(self.record("out")["stop_reason"], reason)
        run = subprocess.run([BIN / "flowrun", "train", "job.yaml", "-o", "out", "--force", "--set", stops.replace("EXIT", "kill -INT $PPID; sleep 0.2")],
                             cwd=self.dir, capture_output=True)
        self.assertEqual(run.returncode, -signal.SIGINT)
        self.assertEqual(self.record("out")["stop_reason"], "signal")

    def test_a_run_that_stopped_early_says_so_and_continues_with_more_patience(self):
        less = ("--set", "jobs.train.run.early_stopping.patience=2")
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", *less)
        before = self.files("out/checkpoints")
        steps = self.record("out")["last_step"]
        done = self.flowrun("train", "job.yaml", "-o", "out", "--resume", *less)
        self.assertIn(f"train had stopped early after {steps} steps: `eval.loss` did not improve on ", done.stderr)
        self.assertIn("hint: continue with --set jobs.train.run.early_stopping.patience=N\n", done.stderr)
        self.assertEqual(self.files("out/checkpoints"), before)
        self.assertEqual(self.record("out")["last_step"], steps)
        self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--quiet")
        self.flowrun("train", "job.yaml", "-o", "whole", "--quiet")
        self.assertGreater(self.record("out")["last_step"], steps)
        (self.dir / "out/checkpoints" / f"{steps:06}").rename(self.dir / "stop")
        shutil.rmtree(self.dir / "whole/checkpoints" / f"{steps:06}", ignore_errors=True)
        self.same_runs_but_plans("out", "whole")

    def same_runs_but_plans(self, one, other):
        """Their checkpoints name plans that differ in what may change."""
        self.assertEqual(self.rows_without_seconds(one), self.rows_without_seconds(other))
        a, b = ({name: data for name, data in self.files(run).items() if name.endswith(".npy")} for run in (one, other))
        self.assertEqual(a, b)

    # The best state.

    def test_the_best_state_is_kept_and_can_be_loaded(self):
        done = self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--set", "jobs.train.run.checkpoint.keep=1")
        values = self.values("out", "eval.right")
        best = max(values, key=lambda value: value[1])
        self.assertLess(best[0], values[-1][0], "the last is the best: nothing is tested")
        self.assertEqual(self.steps_of("out/best"), [best[0]])
        self.assertEqual(len(self.steps_of("out/checkpoints")), 1)
        self.flowrun("train", "job.yaml", "-o", "short", "--quiet", "--steps", best[0], "--set", "jobs.train.run.checkpoint.keep=1")
        name = f"{best[0]:06}"
        self.assertEqual(self.state(f"out/best/{name}"), self.state(f"short/checkpoints/{name}"))
        for path in (f"out/best/{name}", "out/best", "out/best/"):
            self.flowrun("eval", "job.yaml", "-o", "eval", "--force", "--quiet", "--load", path)
            self.assertEqual(self.load("eval/returns/right/value.npy").mean(), best[1])
        self.assertEqual(done.stderr.count("the learning rate falls"), done.stderr.count("flowrun:"))
        self.flowrun("train", "job.yaml", "-o", "out", "--force", "--quiet", "--steps", 3)
        self.assertFalse((self.dir / "out/best").exists())

    def test_a_best_state_that_a_resumed_run_has_not_reached_is_removed(self):
        steps = [step for step, _ in self.growing_bests()]
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--steps", steps[1])
        killed = "+jobs.train.hooks=[{watch: loss, steps: [STEP], to: {type: command, mode: spawn, run: 'kill -KILL $PPID'}}]".replace("STEP", str(steps[2]))
        rare = ["--set", "jobs.train.run.checkpoint.every={steps: 1000}", "--set", killed]
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--resume", *rare, status=-signal.SIGKILL)
        self.assertEqual(self.steps_of("out/best"), steps[1:3])  # the run at steps[1] needs its own
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--resume", "--steps", steps[1] + 1)
        self.assertEqual(self.steps_of("out/best"), steps[1:2])
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--resume")
        self.flowrun("train", "job.yaml", "-o", "whole", "--quiet")
        self.assertEqual(self.steps_of("out/best"), self.steps_of("whole/best"))

    def test_a_fault_while_a_best_state_is_written_or_removed_loses_nothing(self):
        words = ("train", "job.yaml", "--quiet", "--steps", "23", "--set", "jobs.train.run.checkpoint.keep=1")
        self.flowrun(*words, "-o", "whole")
        self.assertGreater(len(self.steps_of("whole/best")), 0)
        failed = 0
        for call in ("mkdir", "open", "write", "pwrite", "fsync", "syncfs", "rename", "unlink"):
            for at in (1, 5):
                shutil.rmtree(self.dir / "out", ignore_errors=True)
                run = subprocess.run([BIN / "flowrun", *words, "-o", "out"], cwd=self.dir, capture_output=True, text=True,
                                     env={**os.environ, **self.faults(call=call, at=at, path="/best", errno=errno.ENOSPC)})
                self.assertIn(run.returncode, (0, 3), run.stderr)
                failed += run.returncode == 3
                self.flowrun(*words, "-o", "out", "--resume")
                self.assertEqual(self.rows_without_seconds("out"), self.rows_without_seconds("whole"))
                self.assertEqual(self.best_arrays("out"), self.best_arrays("whole"), (call, at))
        self.assertGreater(failed, 5)

    def best_arrays(self, run):
        return {name: data for name, data in self.files(f"{run}/best").items() if not name.endswith(".json")}

    def growing_bests(self):
        """The values of the first run that were the best so far."""
        self.flowrun("train", "job.yaml", "-o", "seen", "--quiet")
        bests = []
        for step, value in self.values("seen", "eval.right"):
            if not bests or value > bests[-1][1]:
                bests.append((step, value))
        self.assertGreater(len(bests), 2)
        return bests

    # The learning rate.

    def test_a_plateau_is_that_of_pytorch(self):
        for mode, watch, words in (("min", "eval.loss", {}), ("max", "eval.right", {"patience": 0, "threshold": 0.0, "cooldown": 0, "min_lr": 0.0}),
                                   ("min", "loss", {"factor": 0.9, "patience": 0, "cooldown": 0, "threshold": 0.02, "eps": 0.03})):
            rule = {"factor": 0.5, "patience": 1, "cooldown": 1, "min_lr": 0.02, "threshold": 0.001, "eps": 1e-8, **words}
            keys = {"threshold": "min_delta", "eps": "epsilon"}
            written = ", ".join(f"{keys.get(name, name)}: {value}" for name, value in rule.items())
            self.flowrun("train", "job.yaml", "-o", "out", "--force", "--quiet", "--set", "~jobs.train.run.early_stopping",
                         "--set", f"vars.plateau={{type: plateau, base: 0.5, watch: {watch}, mode: {mode}, {written}}}")
            judge = ReduceLROnPlateau(0.5, mode, **rule)
            rates, values = [row["learning_rate"] for row in self.metrics("out")], [value for _, value in self.values("out", watch)]
            self.assertEqual((len(rates), len(values)), (40 * EPOCH, 40))
            for epoch, value in enumerate(values):
                self.assertEqual(set(rates[epoch * EPOCH:(epoch + 1) * EPOCH]), {judge.rate}, (watch, epoch))
                judge.step(value)
            self.assertGreater(len(set(rates)), 3)

    def test_a_warm_up_multiplies_the_rate_of_a_plateau(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--steps", 12,
                     "--set", "vars.plateau={type: plateau, base: 0.5, watch: eval.loss, warmup: {type: linear, steps: 10, start_multiplier: 0}}")
        self.assertEqual([row["learning_rate"] for row in self.metrics("out")], [0.5 * (step / 10) for step in range(10)] + [0.5] * 2)

    # Resume.

    def test_a_resumed_run_decides_as_one_that_was_not_stopped(self):
        own = "{type: plateau, base: 0.5, factor: 0.5, patience: 0, watch: loss, every: {steps: 4}}"
        for name, words in (("called", ()), ("own", ("--set", f"vars.plateau={own}", "--set", "jobs.train.run.early_stopping={watch: loss, patience: 4, every: {steps: 6}}"))):
            words = (*words, "--set", "jobs.train.run.checkpoint.keep=1")
            self.flowrun("train", "job.yaml", "-o", name, "--quiet", *words)
            last = self.record(name)["last_step"]
            self.assertLess(last, 40 * EPOCH)
            for stop in (4, 5, 11, last - 1):
                self.flowrun("train", "job.yaml", "-o", "parts", "--force", "--quiet", "--steps", stop, *words)
                self.flowrun("train", "job.yaml", "-o", "parts", "--resume", "--quiet", *words)
                self.same_runs(name, "parts")

    def test_a_killed_run_continues_to_the_same_bits(self):
        self.flowrun("train", "job.yaml", "-o", "whole", "--quiet")
        last = self.record("whole")["last_step"]
        for step in (2, 6, *range(11, last, 17)):  # at 6 there is a best state, but no other
            killed = "+jobs.train.hooks=[{watch: loss, steps: [STEP], to: {type: command, mode: spawn, run: 'kill -KILL $PPID'}}]".replace("STEP", str(step))
            self.flowrun("train", "job.yaml", "-o", "out", "--force", "--quiet", "--set", killed, status=-signal.SIGKILL)
            self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--quiet")
            self.same_runs_but_plans("whole", "out")

    def test_a_call_that_is_interrupted_gives_its_value_once(self):
        self.flowrun("train", "job.yaml", "-o", "whole", "--quiet")
        once = "+jobs.eval.hooks=[{watch: guess, steps: [7], to: {type: command, mode: spawn, run: 'cat > /dev/null; [ ! -e $FLOW_RUN_DIR/once ] && touch $FLOW_RUN_DIR/once && kill -INT $PPID; sleep 0.2'}}]"
        run = subprocess.run([BIN / "flowrun", "train", "job.yaml", "-o", "out", "--set", once], cwd=self.dir, capture_output=True)
        self.assertEqual(run.returncode, -signal.SIGINT)
        self.assertEqual(len(self.values("out", "eval.loss")), 1)
        self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--quiet", "--set", once)
        self.assertEqual(self.rows_without_seconds("out"), self.rows_without_seconds("whole"))

    def test_another_plateau_is_another_job(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--steps", 6)
        refused = self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--set", "vars.plateau.patience=3", status=2).stderr
        self.assertIn("optimizer.learning_rate", refused)
        refused = self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--set", "vars.plateau.watch=eval.right", status=2).stderr
        self.assertIn("optimizer.learning_rate", refused)
        # Early stopping and the best state can change, and start anew.
        self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--quiet", "--steps", 20, "--set", "jobs.train.run.checkpoint.keep_best={by: eval.loss}")
        values = self.values("out", "eval.loss")
        best = min(values[1:], key=lambda value: value[1])  # the first came before
        self.assertEqual(self.steps_of("out/best"), [best[0]])

    def test_a_value_that_is_never_a_number_stops_the_run(self):
        done = self.flowrun("train", "job.yaml", "-o", "out", "--set", "vars.plateau=1e30", "--set", "+jobs.train.run.on_nonfinite=warn",
                            "--set", "jobs.train.run.early_stopping.patience=3")
        self.assertIn("`eval.loss` was not a number for 3 values in a row", done.stderr)
        self.assertFalse((self.dir / "out/best").exists() and self.record("out")["last_step"] > 3 * EPOCH)
        self.assertEqual([value for _, value in self.values("out", "eval.loss")], [None] * 3)


class FollowedOnRanks(RanksTest):
    def test_ranks_decide_as_one_process(self):
        self.write("job.yaml", JOB)
        write_data(self.dir)
        self.flowrun("train", "job.yaml", "-o", "alone", "--quiet")
        self.assertGreater(len({row["learning_rate"] for row in self.metrics("alone")}), 2)
        self.ranks(2, "train", "job.yaml", "-o", "parts", "--quiet", "--steps", 23)
        self.ranks(2, "train", "job.yaml", "-o", "parts", "--quiet", "--resume", mpi="mpich")
        self.assertEqual(self.rows_without_seconds("parts"), self.rows_without_seconds("alone"))
        for folder in ("best", "checkpoints"):
            mine, theirs = ({name: data for name, data in self.files(f"{run}/{folder}").items() if name.endswith(".npy")} for run in ("parts", "alone"))
            self.assertEqual([name for name in theirs if mine[name] != theirs[name]], [])


def write_data(folder):
    random = np.random.default_rng(5)
    for prefix, rows in [("", 8 * EPOCH + 3), ("t", 22)]:
        x = random.normal(size=(rows, 5)).astype(np.float32)
        noise = random.integers(0, 3, rows)
        y = np.where(random.uniform(size=rows) < 0.3, noise, (x[:, 0] > 0).astype(np.int32) + (x[:, 1] > 0))
        np.save(folder / f"{prefix}x.npy", x)
        np.save(folder / f"{prefix}y.npy", y.astype(np.int32))


if __name__ == "__main__":
    unittest.main()
