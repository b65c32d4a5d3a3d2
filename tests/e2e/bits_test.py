"""The same bits: two runs, any number of threads, hooks or none, interrupted and resumed."""
import json
import re
import shlex
import shutil
import signal
import subprocess
import unittest

import numpy as np

from flow import BIN, JOBS, FlowTest


ADAM = ("--set", "jobs.train.optimizer={type: adamw, weight_decay: 0.01, excludes: \"**/bias\", minimize: loss, "
        "learning_rate: {type: cosine, base: 0.001, steps: 100, warmup: {type: linear, steps: 10, start_multiplier: 0}}, "
        "grad_clipping: {type: by_global_norm, clip_norm: 1}}")

# Epochs of two steps; what is watched fires in some of them, and every second of these is printed.
EPOCHS = """flow: 1
data: {d: {x: {npy: x.npy}}}
jobs:
  train:
    type: train
    inputs: {x: {shape: [4, 3], dtype: float32, from: d.x}}
    graph:
      y: {op: dense, in: x, units: 1}
      loss: {op: mse, prediction: y, target: 1}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
    hooks:
      - {watch: y, steps: [0, 5..8, 9, 11], to: {type: print, reduce: mean, over: epoch, every: 2, label: value}}
      - {watch_diff: y, steps: [0, 5..8, 9, 11], to: {type: print, reduce: mean, over: epoch, every: 2, label: gradient}}
    run: {epochs: 6}
"""

NADAM = ("--set", "jobs.train.optimizer={type: nadam, weight_decay: 0.01, minimize: loss, learning_rate: ["
         "{type: linear, base: 0.1, steps: 5, start_factor: 0.2, end_factor: 1, until: 5}, {type: one_cycle, base: 0.1, steps: 10, until: 15}, 0.01]}")


class SameBits(FlowTest):
    def train(self, net, out, *more, steps=6):
        self.flowrun("train", JOBS / f"{net}.yaml", "-o", out, "--steps", steps, "--set", "jobs.train.returns.to=npy", *more)
        return {**self.files(f"{out}/returns"), **{p: b for p, b in self.files(f"{out}/checkpoints").items() if p.endswith(".npy")}}

    def test_two_runs_of_lenet_end_in_the_same_bits(self):
        self.assertEqual(self.train("lenet", "a"), self.train("lenet", "b"))

    def test_any_number_of_threads_ends_in_the_same_bits(self):
        for net in ("lenet", "mlp"):
            one = self.train(net, f"{net}-1", "--threads", 1)
            for threads in (2, 3, 4, 8):
                self.assertEqual(one, self.train(net, f"{net}-{threads}", "--threads", threads), f"{net}, {threads} threads")

    def test_adam_and_clipping_end_in_the_same_bits_on_any_number_of_threads(self):
        one = self.train("lenet", "1", *ADAM, "--threads", 1)
        self.assertEqual(one, self.train("lenet", "4", *ADAM, "--threads", 4))

    def test_watching_changes_no_bit(self):
        quiet = self.train("lenet", "quiet")
        watched = self.train("lenet", "watched", "--watch", "lenet/**:2", "--watch-diff", "lenet/*/weight:2", "--watch-diff", "lenet/*/bias")
        self.assertEqual(quiet, watched)

    def test_watching_everything_changes_no_bit(self):
        """Every tensor, variable and gradient, those inside fused steps too; as many as a plan has."""
        for net, least, sets in (("lenet", 30, ["vars.batch=20"]), ("resnet18", 150, ["vars.width=4", "vars.batch=10"]),
                                 ("gpt_tiny", 80, ["vars.width=16", "vars.batch=4"])):
            with self.subTest(net):
                small = [word for change in sets for word in ("--set", change)]
                quiet = self.train(net, f"{net}-quiet", *small, steps=4)
                watched = self.train(net, f"{net}-watched", *small, "--watch", "**:2", "--watch-diff", "**", steps=4)
                self.assertEqual(quiet, watched)
                self.assertGreater(sum(path.endswith("value.npy") for path in self.files(f"{net}-watched/watch")), least)

    def test_a_resumed_run_ends_in_the_bits_of_an_uninterrupted_one(self):
        for name, optimizer in (("momentum", ("--set", "jobs.train.optimizer.momentum=0.9")), ("adam", ADAM), ("nadam", NADAM)):
            shuffled = ("--set", "jobs.train.run.shuffle=true", *optimizer)
            parts = f"{name}-parts"
            whole = self.train("mlp", name, *shuffled, steps=20)
            self.train("mlp", parts, *shuffled, steps=7)
            resumed = self.train("mlp", parts, *shuffled, "--resume", steps=20)
            for path, content in whole.items():
                self.assertEqual(resumed.get(path), content, path)
            metrics = [(line["step"], line["loss"], line["learning_rate"]) for line in self.metrics(parts)]
            self.assertEqual(metrics, [(line["step"], line["loss"], line["learning_rate"]) for line in self.metrics(name)])
            if name == "nadam":  # at the starts of the schedules, and the end of the second
                self.assertEqual([round(metrics[step][2], 15) for step in (0, 5, 14, 15)], [0.02, 0.004, 4e-7, 0.01])

    def test_a_run_that_has_come_further_than_it_is_asked_to_resumes_nothing(self):
        self.train("mlp", "out", steps=5)
        before = self.files("out/returns")
        more = ["--set", "jobs.train.returns.to=npy", "--watch", "mlp:3", "--resume", "--steps", 2]
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", *more)
        self.assertIn("train is already done after 5 steps; continue with --steps N", done.stderr)
        self.assertNotIn("hooks will write", done.stderr)
        self.assertEqual(self.files("out/returns"), before)
        self.assertEqual([path.name for path in (self.dir / "out/checkpoints").iterdir()], ["000005"])
        self.assertEqual(json.loads((self.dir / "out/run.json").read_text())["last_step"], 5)

    def test_a_resumed_run_prints_the_epochs_of_an_unbroken_one(self):
        np.save(self.dir / "x.npy", np.random.default_rng(2).random((8, 3), np.float32))
        self.write("job.yaml", EPOCHS)

        def printed(out, *words):
            lines = self.flowrun("job.yaml", "-o", out, "--json", *words).stdout.splitlines()
            return [(line["label"], line["epoch"], line["value"]) for line in map(json.loads, lines)]

        whole = printed("whole")
        self.assertEqual([line[:2] for line in whole], [(label, epoch) for epoch in (0, 3, 5) for label in ("value", "gradient")])
        for stop in range(1, 12):
            printed(f"parts{stop}", "--steps", stop)
            shutil.copytree(self.dir / f"parts{stop}", self.dir / f"alone{stop}")
            to_come = [line for line in whole if line[1] >= stop // 2]
            self.assertEqual(printed(f"parts{stop}", "--resume"), to_come, stop)
            alone = printed(f"alone{stop}", "--resume", "--set", "~jobs.train.hooks.0")
            self.assertEqual(alone, [line for line in to_come if line[0] == "gradient"], stop)

    def test_an_interrupted_run_saves_dies_of_the_signal_and_goes_on(self):
        shape = ["--set", "jobs.train.returns.to={type: print}", "--steps", "500", "--watch", "mlp:100", "--device", "cpu"]
        command = [str(BIN / "flowrun"), "train", str(JOBS / "mlp.yaml"), "-o", "out", *shape]
        run = subprocess.Popen(command, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in run.stdout:  # two printed losses: it is running
            if line.count(":") and run.stdout.readline():
                break
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, -signal.SIGINT, errors)
        said = re.fullmatch(r"flowrun: stopped after (\d+) steps?; continue with: flowrun (.*)", errors.strip().splitlines()[-1])
        self.assertEqual(int(said[1]), int(self.checkpoint("out").name))
        self.assertEqual(json.loads((self.dir / "out/run.json").read_text())["exit_status"], 128 + signal.SIGINT)
        self.flowrun(*shlex.split(said[2]))
        self.assertEqual([line["step"] for line in self.metrics("out")], list(range(500)))
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "whole", *shape)
        for folder in ("watch", "checkpoints/000500/mlp"):
            self.assertEqual(self.files(f"out/{folder}"), self.files(f"whole/{folder}"))


if __name__ == "__main__":
    unittest.main()
