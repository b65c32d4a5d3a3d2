"""Frozen variables in 16 bits: the results of a job with the same rounded weights, and half the memory."""
import json
import re
import unittest

import numpy as np

from flow import FlowTest
from weights_test import read_safetensors

# The base has what layers there are: its variables are read by products, a convolution, a sum and a gather, one of them twice.
JOB = """flow: 1
seed: 3
vars: {kept: bfloat16, precision: float32}
networks:
  base:
    inputs: [tokens]
    graph:
      embed: {op: embedding, in: tokens, vocab_size: 40, units: 16}
      place: {op: variable, shape: [6, 16], initializer: {type: random_normal, stddev: 0.1}}
      sum:   {op: add, in: [embed, place]}
      norm:  {op: layer_norm}
      up:    {op: dense, units: 48, activation: relu, kernel_initializer: {type: random_normal, stddev: 0.2}}
      down:  {op: dense, units: 16, bias_initializer: {type: random_normal, stddev: 0.1}}
      rest:  {op: add, in: [sum, down]}
      image: {op: reshape, shape: [-1, 1, 6, 16]}
      conv:  {op: conv2d, filters: 3, kernel_size: 3, padding: same, activation: relu}
      batch: {op: batch_normalization}
      flat:  {op: reshape, shape: [-1, 6, 48]}
      out:   {op: dense, units: 16}
jobs:
  train:
    type: train
    precision: $precision
    inputs:
      tokens: {shape: [12, 6], dtype: int32, from: {type: random_int, high: 40}}
      labels: {shape: [12, 6], dtype: int32, from: {type: random_int, high: 40}}
    graph:
      first: {op: dense, in: shifted, units: 16}
      shifted: {op: embedding, in: tokens, vocab_size: 40, units: 16}
      base:  {op: base, in: tokens, trainable: false, variable_dtype: $kept}
      both:  {op: add, in: [base, first]}
      tied:  {op: matmul, in: [both, base/embed/weight], transpose_b: true}
      loss:  {op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: tied}
    optimizer: {type: adam, learning_rate: 0.01, minimize: loss}
    hooks:
      - {watch: base/embed}
      - {watch_diff: base/norm}
    returns: {value: tied, to: npy}
    run: {steps: 4}
  eval:
    type: predict
    precision: $precision
    inputs: {tokens: {shape: [12, 6], dtype: int32, from: {type: random_int, high: 40}}}
    graph:
      base: {op: base, in: tokens, variable_dtype: $kept}
      first: {op: dense, in: shifted, units: 16}
      shifted: {op: embedding, in: tokens, vocab_size: 40, units: 16}
      both: {op: add, in: [base, first]}
    returns: {value: both, to: npy}
"""
MOVING = {"base/batch/moving_mean", "base/batch/moving_variance"}


def is_frozen(name):
    return name.startswith("base/") and name not in MOVING


def widened(array, dtype):
    """The numbers of an array in 16 bits; NumPy has no bfloat16."""
    return array.astype(np.float32) if dtype == "float16" else (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def rounded(array, dtype):
    if dtype == "float16":
        return array.astype(np.float16).astype(np.float32)
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).view(np.float32)


class Frozen(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)

    def run_job(self, out, kept, *words, job="train"):
        return self.flowrun(job, "job.yaml", "-o", out, "--set", f"vars.kept={kept}", *words)

    def variables(self, out):
        folder = self.checkpoint(out)
        return {str(path.relative_to(folder))[:-4]: np.load(path) for path in folder.rglob("*.npy")}

    def weights(self):
        """weights.npz as a job in float32 draws them, and the same after rounding in bfloat16.npz and float16.npz."""
        self.run_job("drawn", "job", "--steps", 1, "--quiet")
        drawn = {name: array for name, array in self.variables("drawn").items() if not name.endswith(("/m", "/v"))}
        np.savez(self.dir / "weights.npz", **drawn)
        for dtype in ("bfloat16", "float16"):
            np.savez(self.dir / f"{dtype}.npz", **{name: rounded(array, dtype) if is_frozen(name) else array for name, array in drawn.items()})
        return {name for name in drawn if is_frozen(name)}

    def results(self, out):
        """All that a run wrote but for times, its record and frozen variables."""
        return {path: content for path, content in self.files(out).items()
                if path.endswith(".npy") and not ("checkpoints/" in path and is_frozen(path.split("/", 2)[2][:-4]))}

    def test_results_are_those_of_the_rounded_weights(self):
        frozen = self.weights()
        self.assertEqual(len(frozen), 14)
        for kept, precision in (("bfloat16", "float32"), ("float16", "float32"), ("bfloat16", "mixed_bfloat16"), ("float16", "mixed_bfloat16"), ("bfloat16", "float64")):
            with self.subTest(kept=kept, precision=precision):
                same = ("--set", f"vars.precision={precision}", "--force")
                self.run_job("wide", "job", "--load", f"{kept}.npz", *same)
                done = self.run_job("kept", kept, "--load", "weights.npz", *same)
                self.assertIn(f"rounded {len(frozen)} float32 arrays to {kept}", done.stderr)
                expected = self.results("wide")
                self.assertGreater(len(expected), 12)
                self.assertEqual(self.results("kept"), expected)
                wide, narrow = self.variables("wide"), self.variables("kept")
                for name in frozen:
                    self.assertEqual((narrow[name].dtype.itemsize, narrow[name].shape), (2, wide[name].shape), name)
                    np.testing.assert_array_equal(widened(narrow[name], kept), wide[name], err_msg=name)
                if kept == "float16" or precision == "float64":
                    continue
                # A predict job trains nothing; it reads the checkpoint of either.
                for out in ("wide", "kept"):
                    self.run_job("eval_" + out, kept, "--load", out, *same, job="eval")
                    self.run_job("none_" + out, "job", "--load", out, *same, job="eval")
                values = [self.load(f"{which}_{out}/returns/both/value.npy").tobytes() for which in ("eval", "none") for out in ("wide", "kept")]
                self.assertEqual(len(set(values)), 1)

    def test_exact_arrays_are_not_rounded(self):
        self.weights()
        done = self.run_job("kept", "bfloat16", "--load", "bfloat16.npz")
        self.assertIn("float32 arrays to bfloat16", done.stderr)      # the file is in float32
        again = self.run_job("again", "bfloat16", "--load", "kept")
        self.assertNotIn("rounded", again.stderr)
        self.call("flowc", "export", "kept", "-o", "kept.npz")
        self.assertNotIn("rounded", self.run_job("npz", "bfloat16", "--load", "kept.npz").stderr)

    def test_threads_shards_and_a_resume_change_no_bit(self):
        self.run_job("one", "bfloat16", "--threads", 1)
        self.run_job("three", "bfloat16", "--threads", 3)
        self.assertEqual(self.results("three"), self.results("one"))
        self.run_job("parts", "bfloat16", "--steps", 2)
        self.run_job("parts", "bfloat16", "--resume")
        self.assertEqual(self.state(self.checkpoint("parts")), self.state(self.checkpoint("one")))
        self.write("job.yaml", JOB.replace("batch: {op: batch_normalization}", "batch: {op: group_norm, groups: 3}"))
        for kept in ("bfloat16", "job"):
            self.run_job("cut_" + kept, kept, "--load", "one", "--load-partial", "base/batch/*", "--set", "jobs.train.shards=4")
        first = [line["loss"] for line in self.metrics("cut_bfloat16")]
        self.assertEqual(len(first), 4)
        self.assertEqual(self.results("cut_bfloat16"), self.results("cut_job"))

    def test_export_writes_16_bits(self):
        self.run_job("run", "float16", "--steps", 1)
        self.call("flowc", "export", "run", "-o", "all.safetensors")
        arrays, _, _ = read_safetensors(self.dir / "all.safetensors")
        for name, array in arrays.items():
            self.assertEqual(array.dtype.itemsize, 2 if is_frozen(name) else 4, name)
        self.run_job("bits", "bfloat16", "--steps", 1)
        self.call("flowc", "export", "bits", "-o", "bits.safetensors", "--only", "base/up/*", "--only", "first/weight")
        content = (self.dir / "bits.safetensors").read_bytes()
        header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
        self.assertEqual({name: one["dtype"] for name, one in header.items() if name != "__metadata__"}, {"base/up/weight": "BF16", "base/up/bias": "BF16", "first/weight": "F32"})
        done = self.call("flowc", "export", "bits", "-o", "no.npz", "--only", "base/up/*", "--only", "missing/*", status=2)
        self.assertIn("--only: no variable matches `missing/*`", done.stderr)

    def test_the_plan_counts_half_and_widens_in_turns(self):
        """Variables take half; what is widened takes turns, so that the largest alone is added."""
        job = """flow: 1
vars: {kept: bfloat16}
jobs:
  train:
    type: train
    inputs: {x: {shape: [2, 256], dtype: float32, from: {type: random_normal}}}
    graph:
      seen: {op: dense, in: x, units: 256}
""" + "".join(f"      d{i}: {{op: dense, units: 256, trainable: false, variable_dtype: $kept}}\n" for i in range(8)) + """      loss: {op: square}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
    returns: {value: loss, to: none}
    run: {steps: 2}
"""
        self.write("job.yaml", job)
        arena, variables = {}, {}
        for kept in ("job", "bfloat16"):
            self.run_job(kept, kept)
            arena[kept] = json.loads((self.dir / kept / "run.json").read_text())["arena_bytes"]
            told = self.run_job("dry_" + kept, kept, "--dry-run").stdout
            variables[kept] = re.search(r"variables +(\S+ \S+)\n", told)[1]
        self.assertEqual(variables, {"job": "2.26 MiB", "bfloat16": "1.25 MiB"})      # 9 matrices of 256 KiB; 1, and 8 of 128 KiB
        self.assertLess(arena["bfloat16"] - arena["job"], 256 * 256 * 4)

    def test_what_is_trained_keeps_its_dtype(self):
        self.write("job.yaml", JOB.replace("trainable: false, ", ""))
        done = self.call("flowc", "check", "job.yaml", status=2)
        self.assertIn("`variable_dtype` applies to frozen variables; `base/embed/weight` is trained", done.stderr)
        self.call("flowc", "check", "job.yaml", "--set", 'jobs.train.optimizer.variables=["first/*", "shifted/*"]')


if __name__ == "__main__":
    unittest.main()
