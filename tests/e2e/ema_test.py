"""Averages of variables: their formula, their place in checkpoints, and the jobs that read them."""
import unittest

import numpy as np

from flow import FlowTest
from launchers import RanksTest

JOB = """flow: 1
seed: 3
vars: {precision: float64}
jobs:
  train:
    type: train
    precision: $precision
    shards: 2
    inputs:
      x: {shape: [8, 6], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}
      y: {shape: [8], dtype: int32, from: {type: random_int, low: 0, high: 3}}
    graph:
      hidden: {op: dense, in: x, units: 7}
      norm: {op: batch_normalization}
      act: {op: relu}
      logits: {op: dense, units: 3}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: y, logits: logits}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss, ema: {decay: 0.9}}
    hooks: [{watch: hidden/weight}, {watch: logits/bias}, {watch: norm/gamma}]
    run: {steps: 12, checkpoint: {every: {steps: 4}, keep: 9}, also: [{job: eval, every: {steps: 4}, weights: ema}]}
  eval:
    type: predict
    precision: $precision
    inputs: {x: {shape: [8, 6], dtype: float32, from: {npy: x.npy}}}
    graph:
      hidden: {op: dense, in: x, units: 7}
      norm: {op: batch_normalization}
      act: {op: relu}
      logits: {op: dense, units: 3}
    returns: {value: logits}
"""
WATCHED = ("hidden/weight", "logits/bias", "norm/gamma")


def write_data(folder):
    np.save(folder / "x.npy", np.random.default_rng(4).uniform(-1, 1, (8, 6)).astype(np.float32))


def average(values, decay, dtype=np.float64):
    """Of a variable after each step."""
    rest, ema = dtype(1 - decay), values[0]
    for value in values[1:]:
        ema = ema + rest * (value - ema)
    return ema


class Ema(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)
        write_data(self.dir)

    def after_each_step(self, run, name, last):
        """A hook sees a variable before the update of its step."""
        return [*self.load(f"{run}/watch/{name}/value.npy")[1:], self.load(f"{run}/checkpoints/{last:06}/{name}.npy")]

    def test_an_average_is_that_of_its_formula(self):
        optimizers = ({}, {"momentum": "0.9"}, {"type": "adam"}, {"type": "lamb"}, {"grad_clipping": "{type: by_global_norm, clip_norm: 0.1}"})
        for optimizer in optimizers:
            words = [word for key, value in optimizer.items() for word in ("--set", f"jobs.train.optimizer.{key}={value}")]
            for shards in (1, 2):
                self.flowrun("train", "job.yaml", "-o", "out", "--force", "--quiet", "--set", f"jobs.train.shards={shards}", *words)
                for name in WATCHED:
                    expected = average(self.after_each_step("out", name, 12), 0.9)
                    found = self.load(f"out/checkpoints/000012/{name}/ema.npy")
                    self.assertEqual(found.dtype, np.float64)
                    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
                self.assertFalse((self.dir / "out/checkpoints/000012/norm/moving_mean/ema.npy").exists())

    def test_float32_computes_the_formula_in_float32(self):
        for shards in (1, 2):
            self.flowrun("train", "job.yaml", "-o", "out", "--force", "--quiet", "--set", "vars.precision=float32", "--set", f"jobs.train.shards={shards}")
            for name in WATCHED:
                np.testing.assert_array_equal(self.load(f"out/checkpoints/000012/{name}/ema.npy"), average(self.after_each_step("out", name, 12), 0.9, np.float32))

    def test_averages_change_no_training(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        self.flowrun("train", "job.yaml", "-o", "plain", "--quiet", "--set", "~jobs.train.optimizer.ema", "--set", "~jobs.train.run.also")
        for name, data in self.files("plain/checkpoints/000012").items():
            if name.endswith(".npy"):
                self.assertEqual((self.dir / "out/checkpoints/000012" / name).read_bytes(), data, name)

    def test_a_called_job_reads_averages(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        called = self.load("out/also/eval/returns/logits/value.npy")
        for call, step in enumerate((4, 8, 12)):
            load = ("--load", f"out/checkpoints/{step:06}")
            for ema in (("--ema",), ()):
                self.flowrun("eval", "job.yaml", "-o", "eval", "--force", "--quiet", *load, *ema)
                alone = self.load("eval/returns/logits/value.npy")[0]
                self.assertEqual(np.array_equal(called[call], alone), bool(ema))
        self.flowrun("train", "job.yaml", "-o", "trained", "--quiet", "--set", "jobs.train.run.also.0.weights=trained")
        self.assertFalse(np.array_equal(called, self.load("trained/also/eval/returns/logits/value.npy")))

    def test_averages_become_weights(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        self.flowrun("train", "job.yaml", "-o", "next", "--quiet", "--load", "out", "--ema", "--steps", 1)
        for name in WATCHED:
            np.testing.assert_array_equal(self.load(f"next/watch/{name}/value.npy")[0], self.load(f"out/checkpoints/000012/{name}/ema.npy"))
            # The first average is the variable.
            np.testing.assert_array_equal(self.load(f"next/checkpoints/000001/{name}/ema.npy"), self.load(f"next/checkpoints/000001/{name}.npy"))

    def test_a_resumed_run_has_the_same_averages(self):
        self.flowrun("train", "job.yaml", "-o", "whole", "--quiet")
        for stop in (4, 7):
            self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--force", "--steps", stop)
            self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--resume")
            self.assertEqual(self.state("whole/checkpoints/000012"), self.state("out/checkpoints/000012"))
            self.assertEqual((self.dir / "whole/also/eval/returns/logits/value.npy").read_bytes(), (self.dir / "out/also/eval/returns/logits/value.npy").read_bytes())
        refused = self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--set", "jobs.train.optimizer.ema.decay=0.8", status=2).stderr
        self.assertIn("cannot resume", refused)
        refused = self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--set", "jobs.train.run.also.0.weights=trained", status=2).stderr
        self.assertIn("cannot resume", refused)

    def test_what_has_no_averages_is_refused(self):
        self.flowrun("train", "job.yaml", "-o", "plain", "--quiet", "--set", "~jobs.train.optimizer.ema", "--set", "~jobs.train.run.also")
        for words, error in ((("--load", "plain", "--ema"), "--ema: plain/checkpoints/000012 has no averages of variables\n   hint: train with `ema: {decay: 0.999}`"),
                             (("--load", "none", "--ema"), "--ema requires a checkpoint to load\n   hint: add --load CHECKPOINT")):
            self.assertIn(error, self.flowrun("eval", "job.yaml", "-o", "eval", *words, status=2).stderr)
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        self.assertIn("--resume conflicts with --load", self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--ema", status=2).stderr)


class EmaOnRanks(RanksTest):
    def test_ranks_average_as_one_process(self):
        self.write("job.yaml", JOB.replace("precision: float64", "precision: float32").replace("type: sgd", "type: adam"))
        write_data(self.dir)
        self.flowrun("train", "job.yaml", "-o", "alone", "--quiet")
        for mpi in ("openmpi", "mpich"):
            self.ranks(2, "train", "job.yaml", "-o", mpi, "--quiet", mpi=mpi)
            self.assert_same(self.outputs("alone"), self.outputs(mpi))


if __name__ == "__main__":
    unittest.main()
