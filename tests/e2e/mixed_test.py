"""Mixed precision: bfloat16 products train as float32 does, the same bits on any number of threads, with and without a loss scale."""
import json
import unittest

import numpy as np

from flow import JOBS, FlowTest, relative

MIXED = ("--set", "+jobs.train.precision=mixed_bfloat16")
# oneDNN then has no bfloat16 instructions, so that operands are rounded and products computed in float32.
PLAIN_CPU = {"ONEDNN_MAX_CPU_ISA": "AVX2"}

NET = """flow: 1
jobs:
  train:
    type: train
    precision: %(precision)s
    inputs:
      x: {shape: [32, 3, 8, 8], dtype: float32, from: {type: random_normal, mean: 0, stddev: 1}}
      labels: {shape: [32], dtype: int32, from: {type: random_int, low: 0, high: 10}}
    graph:
      conv1: {op: conv2d, filters: 8, kernel_size: 3, padding: same, activation: relu, in: x}
      pool1: {op: max_pool2d, ksize: 2}
      conv2: {op: conv2d, filters: 16, kernel_size: 3, padding: same, activation: relu}
      pool2: {op: max_pool2d, ksize: 2}
      flat: {op: flatten}
      hidden: {op: dense, units: 32, activation: relu}
      logits: {op: dense, units: 10, kernel_regularizer: {l2: 0.01}}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: logits}
    optimizer: {type: adam, learning_rate: 0.001, minimize: loss%(optimizer)s}
    returns: {type: Numpy, value: loss}
    hooks:
      - {watch: "*", every: 4}
      - {watch_diff: "*/weight", every: 4}
    run: {steps: 8}
"""


# Without training nobody reads the second result of a pool, which is no result to be rounded.
PREDICT = """flow: 1
jobs:
  predict:
    type: predict
    precision: %s
    inputs: {x: {shape: [4, 1, 8, 8], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}}
    graph:
      conv1: {op: conv2d, in: x, filters: 4, kernel_size: 3, activation: relu}
      pool1: {op: max_pool2d, ksize: 2}
      conv2: {op: conv2d, filters: 4, kernel_size: 3}
    returns: {value: conv2}
"""


class Mixed(FlowTest):
    def test_what_is_only_predicted_rounds_as_well(self):
        values = {}
        for precision in ("float32", "mixed_bfloat16", "mixed_float16"):
            job = self.write(f"{precision}.yaml", PREDICT % precision)
            self.flowrun(job, "-o", precision, "--load", "none")
            values[precision] = self.load(f"{precision}/returns/conv2/value.npy")
        for precision, most in (("mixed_bfloat16", 3e-2), ("mixed_float16", 4e-3)):
            self.assertLess(relative(values[precision], values["float32"]), most)

    def net(self, out, *words, precision="mixed_bfloat16", optimizer="", env=None):
        job = self.write("net.yaml", NET % {"precision": precision, "optimizer": optimizer})
        done = self.flowrun(job, "-o", out, *words, env=env)
        return done.stderr

    def gradients(self, out):
        return {str(p.relative_to(self.dir / out)): np.load(p) for p in sorted((self.dir / out / "watch").rglob("diff.npy"))}

    def assert_near(self, a, b, most, **others):
        self.assertEqual(a.keys(), b.keys())
        self.assertGreater(len(a), 0)
        for name in a:
            self.assertLess(relative(a[name][0], b[name][0]), others.get(name.split("/")[1], most), name)

    def lenet(self, out, *words):
        """What LeNet says while it trains for 100 steps, and then its accuracy. tests/long.sh trains for twenty epochs."""
        train = self.flowrun("train", JOBS / "lenet.yaml", "-o", out, "--steps", 100, "--set", "seed=1", *words)
        printed = self.flowrun("accuracy", JOBS / "lenet.yaml", "-o", f"{out}-accuracy", "--load", out).stdout
        return train.stderr, float(printed.split()[1])

    def test_lenet_classifies_as_well(self):
        _, expected = self.lenet("float32")
        told, accuracy = self.lenet("mixed", *MIXED)
        self.assertIn("products are computed in ", told)
        self.assertIn("bfloat16", json.loads((self.dir / "mixed/run.json").read_text())["libraries"]["products"])
        self.assertGreater(expected, 85)
        self.assertGreater(accuracy, expected - 0.5)

    def test_gradients_are_those_of_float64_but_for_rounding(self):
        self.net("exact", precision="float64")
        self.net("mixed")
        # A pool chooses among rounded numbers, of which now and then two are equal: gradients before it take another way.
        self.assert_near(self.gradients("mixed"), self.gradients("exact"), 0.05, conv1=0.2, conv2=0.1)

    def test_watched_tensors_are_what_the_file_calls_them(self):
        self.net("exact", precision="float32")
        self.net("mixed")
        for name in ("conv1", "pool1", "conv2", "pool2", "flat", "hidden", "logits"):
            exact, mixed = self.load(f"exact/watch/{name}/value.npy"), self.load(f"mixed/watch/{name}/value.npy")
            self.assertEqual((mixed.dtype, mixed.shape), (exact.dtype, exact.shape), name)
            self.assertLess(relative(mixed[0], exact[0]), 0.02, name)

    def test_threads_and_hooks_change_no_bit(self):
        self.net("one", "--threads", "1")
        for threads in (2, 3, 4):
            self.net(f"many{threads}", "--threads", threads)
            self.assertEqual(self.files("one/watch"), self.files(f"many{threads}/watch"))
        self.net("unwatched", "--set", "jobs.train.hooks=[]")
        self.assertEqual(self.files("one/returns"), self.files("unwatched/returns"))

    def test_a_cpu_that_does_not_gain_computes_the_same_in_float32(self):
        self.net("native")
        said = self.net("plain", env=PLAIN_CPU)
        self.assertIn("products are computed in float32 with operands rounded to bfloat16", said)
        self.assert_near(self.gradients("plain"), self.gradients("native"), 0.02)
        half = self.net("half", precision="mixed_float16")
        self.assertIn("products are computed in float32 with operands rounded to float16", half)
        self.net("exact", precision="float64")
        self.assert_near(self.gradients("half"), self.gradients("exact"), 0.01)

    def test_a_static_scale_changes_no_bit_and_is_not_seen(self):
        self.net("plain")
        self.net("scaled", optimizer=", loss_scale: {type: static, value: 1024}")
        self.assertEqual(self.files("plain/watch"), self.files("scaled/watch"))
        self.assertEqual(self.files("plain/returns"), self.files("scaled/returns"))
        self.assertNotIn("loss_scale", self.metrics("scaled")[0])

    def test_a_dynamic_scale_grows_and_is_not_seen(self):
        self.net("plain")
        said = self.net("scaled", optimizer=", loss_scale: {type: dynamic, initial: 256, growth_interval: 3}")
        self.assertEqual(self.files("plain/watch"), self.files("scaled/watch"))
        self.assertEqual([line["loss_scale"] for line in self.metrics("scaled")], [256] * 3 + [512] * 3 + [1024] * 2)
        self.assertFalse(any("skipped" in line for line in self.metrics("scaled")))
        self.assertNotIn("skipping the update", said)

    def test_a_step_whose_gradients_are_not_finite_is_left_out(self):
        big = ", loss_scale: {type: dynamic, initial: 1.5e38, growth_interval: 100}"
        said = self.net("run", optimizer=big)
        lines = self.metrics("run")
        skipped = [line["step"] for line in lines if line.get("skipped")]
        self.assertGreater(len(skipped), 0)
        self.assertEqual(skipped[0], 0)
        self.assertLess(len(skipped), len(lines))  # then the scale is small enough
        self.assertEqual(said.count("skipping the update and reducing the scale"), len(skipped))
        for before, after in zip(lines, lines[1:]):
            self.assertEqual(after["loss_scale"], before["loss_scale"] * (0.5 if before.get("skipped") else 1))

    def test_a_resumed_run_goes_on_with_the_scale(self):
        scale = ", loss_scale: {type: dynamic, initial: 256, growth_interval: 3}"
        self.net("whole", optimizer=scale)
        self.net("parts", "--steps", "5", optimizer=scale)
        self.net("parts", "--resume", optimizer=scale)
        self.assertEqual(self.files("whole/returns"), self.files("parts/returns"))
        whole, parts = self.checkpoint("whole"), self.checkpoint("parts")
        self.assertEqual(float(np.load(whole / "train/loss_scale.npy")), 1024)
        for path in sorted(whole.rglob("*.npy")):
            self.assertEqual(path.read_bytes(), (parts / path.relative_to(whole)).read_bytes(), path)


if __name__ == "__main__":
    unittest.main()
