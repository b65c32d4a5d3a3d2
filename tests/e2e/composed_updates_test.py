"""Adafactor, Muon and Lookahead: their formulas on variables of every rank, their slots in checkpoints, and what else an optimizer has."""
import unittest

import numpy as np

from flow import FlowTest
from launchers import RanksTest

# Variables of rank 0, 1, 2 and 4; matrices that are tall or wide.
JOB = """flow: 1
seed: 3
vars: {precision: float64}
jobs:
  train:
    type: train
    precision: $precision
    shards: 2
    inputs:
      x: {shape: [8, 2, 5, 5], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}
      y: {shape: [8], dtype: int32, from: {type: random_int, low: 0, high: 3}}
    graph:
      conv: {op: conv2d, in: x, filters: 4, kernel_size: 3}
      gain: {op: variable, shape: [], initializer: ones}
      scaled: {op: multiply, in: [conv, gain]}
      flat: {op: flatten}
      wide: {op: dense, units: 5, activation: tanh}
      tall: {op: dense, units: 7, activation: tanh}
      logits: {op: dense, units: 3}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: y, logits: logits}
    optimizer: {type: sgd, learning_rate: 0.05, minimize: loss}
    hooks: [VARIABLES, GRADIENTS]
    run: {steps: 10, checkpoint: {every: {steps: 1}, keep: 99}}
"""
VARIABLES = ("conv/weight", "conv/bias", "gain", "wide/weight", "tall/weight", "tall/bias", "logits/weight")
JOB = JOB.replace("VARIABLES", ", ".join(f"{{watch: {name}}}" for name in VARIABLES))
JOB = JOB.replace("GRADIENTS", ", ".join(f"{{watch_diff: {name}, of: mean}}" for name in VARIABLES))
RATE, STEPS = 0.05, 10
OPTIMIZERS = ("{type: adafactor, weight_decay: 0.1}", "{type: muon, adamw: logits/weight}", "{type: adamw, weight_decay: 0.1, lookahead: {steps: 3}}",
              "{type: muon, lookahead: {steps: 4, alpha: 0.25}, ema: {decay: 0.9}}")


def optimizer(text):
    return ("--set", "jobs.train.optimizer=" + text.replace("{", f"{{learning_rate: {RATE}, minimize: loss, ", 1))


def size(a):
    return np.sqrt((a * a).mean())


class Adafactor:
    def __init__(self, decay=-0.8, epsilon1=np.finfo(float).eps, epsilon2=1e-3, clip=1.0, weight_decay=0.0):
        self.numbers, self.row, self.column, self.mean = (decay, epsilon1, epsilon2, clip, weight_decay), 0, 0, 0

    def __call__(self, w, g, step):
        decay, epsilon1, epsilon2, clip, weight_decay = self.numbers
        new = (step + 1.0) ** decay
        if w.ndim < 2:
            mean = self.mean = self.mean + new * (g * g - self.mean)
        else:
            self.row = self.row + new * ((g * g).mean(-1, keepdims=True) - self.row)
            self.column = self.column + new * ((g * g).mean(-2, keepdims=True) - self.column)
            mean = self.row * self.column / np.maximum(self.row.mean(-2, keepdims=True), epsilon1)
        u = g / np.maximum(np.sqrt(mean), epsilon1)
        rate = min(RATE, 1 / np.sqrt(step + 1)) * max(epsilon2, size(w)) / max(1, size(u) / clip)
        return w - RATE * weight_decay * w - rate * u


class Adamw:
    def __init__(self, weight_decay=0.1):
        self.weight_decay, self.m, self.v = weight_decay, 0, 0

    def __call__(self, w, g, step):
        self.m, self.v = 0.9 * self.m + 0.1 * g, 0.999 * self.v + 0.001 * g * g
        direction = self.m / (1 - 0.9 ** (step + 1)) / (np.sqrt(self.v / (1 - 0.999 ** (step + 1))) + 1e-8)
        return w - RATE * direction - RATE * self.weight_decay * w


class Muon:
    def __init__(self):
        self.m = 0

    def __call__(self, w, g, step):
        self.m = 0.95 * self.m + 0.05 * g
        d = 0.05 * g + 0.95 * self.m
        x = d / max(np.linalg.norm(d), 1e-7)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x - 4.775 * a @ x + 2.0315 * a @ a @ x
        return w - RATE * np.sqrt(max(1, w.shape[0] / w.shape[1])) * x - RATE * 0.1 * w


class ComposedUpdates(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)

    def train(self, out, text, *words, **options):
        return self.flowrun("train", "job.yaml", "-o", out, "--force", "--quiet", *optimizer(text), *words, **options)

    def path(self, run, name):
        """Of a variable, before the first step and after each."""
        return [*self.load(f"{run}/watch/{name}/value.npy"), self.load(f"{run}/checkpoints/{STEPS:06}/{name}.npy")]

    def check_path(self, run, name, update, clip=lambda g: g):
        values, gradients = self.path(run, name), self.load(f"{run}/watch/{name}/diff.npy")
        w = values[0]
        for step in range(STEPS):
            w = update(w, clip(gradients[step]), step)
            np.testing.assert_allclose(values[step + 1], w, rtol=1e-12, atol=1e-13, err_msg=f"{name}, step {step}")

    def test_adafactor_is_its_formula_for_every_rank(self):
        self.train("out", "{type: adafactor, weight_decay: 0.1, excludes: tall/bias}")
        for name in VARIABLES:
            self.check_path("out", name, Adafactor(weight_decay=0 if name == "tall/bias" else 0.1))
        kept = self.files("out/checkpoints/000010")
        for name, slots in (("conv/weight", ("row", "column")), ("wide/weight", ("row", "column")), ("tall/bias", ("variance",)), ("gain", ("variance",))):
            self.assertEqual({slot for slot in ("row", "column", "variance") if f"{name}/{slot}.npy" in kept}, set(slots), name)
        self.assertEqual(self.load("out/checkpoints/000010/conv/weight/row.npy").shape, (4, 2, 3, 1))
        self.assertEqual(self.load("out/checkpoints/000010/wide/weight/column.npy").shape, (1, 36))

    def test_muon_updates_matrices_and_adamw_the_others(self):
        self.train("out", "{type: muon, adamw: logits/weight}")
        for name in VARIABLES:
            self.check_path("out", name, Muon() if name in ("wide/weight", "tall/weight") else Adamw())
        kept = self.files("out/checkpoints/000010")
        self.assertIn("wide/weight/momentum.npy", kept)
        self.assertNotIn("wide/weight/m.npy", kept)
        self.assertIn("logits/weight/m.npy", kept)

    def test_a_matrix_moves_along_orthogonal_directions(self):
        self.train("out", "{type: muon, weight_decay: 0, newton_schulz_steps: 12}")
        for name in ("wide/weight", "tall/weight"):
            before, after = self.path("out", name)[:2]
            lengths = np.linalg.svd((before - after) / RATE / np.sqrt(max(1, before.shape[0] / before.shape[1])), compute_uv=False)
            self.assertGreater(lengths.min(), 0.6)
            self.assertLess(lengths.max(), 1.3)

    def test_lookahead_goes_part_of_the_way(self):
        for text, make in (("{type: adafactor, lookahead: {steps: 3}}", Adafactor), ("{type: adamw, weight_decay: 0.1, lookahead: {steps: 3}}", Adamw)):
            self.train("out", text)
            for name in VARIABLES:
                inner, start = make(), [None]

                def update(w, g, step):
                    start[0] = w if step % 3 == 0 else start[0]
                    fast = inner(w, g, step)
                    return start[0] + 0.5 * (fast - start[0]) if step % 3 == 2 else fast
                self.check_path("out", name, update)

    def test_a_cycle_that_does_not_end_changes_nothing(self):
        self.train("plain", "{type: sgd}")
        self.train("out", "{type: sgd, lookahead: {steps: 100}}")
        self.assert_variables_equal("plain", "out")

    def assert_variables_equal(self, one, other):
        for name in VARIABLES:
            for a, b in zip(self.path(one, name), self.path(other, name)):
                np.testing.assert_array_equal(a, b)

    def test_averages_are_of_what_lookahead_leaves(self):
        self.train("out", "{type: sgd, lookahead: {steps: 3}, ema: {decay: 0.9}}")
        for name in VARIABLES:
            values = self.path("out", name)[1:]
            average = values[0]
            for value in values[1:]:
                average = average + 0.1 * (value - average)
            np.testing.assert_allclose(self.load(f"out/checkpoints/000010/{name}/ema.npy"), average, rtol=1e-12)

    def test_gradients_are_clipped_and_rates_scaled_first(self):
        clip = "grad_clipping: {type: by_value, clip_value: 0.002}"
        self.train("out", f"{{type: adafactor, {clip}}}")
        for name in VARIABLES:
            self.check_path("out", name, Adafactor(), lambda g: np.clip(g, -0.002, 0.002))
        # What clipping by the norm takes from all gradients alike, Muon puts back: it looks at directions.
        self.train("plain", "{type: muon, weight_decay: 0, adamw: [logits/weight]}")
        self.train("clipped", "{type: muon, weight_decay: 0, adamw: [logits/weight], grad_clipping: {type: by_global_norm, clip_norm: 1e-3}}", "--steps", 1)
        np.testing.assert_allclose(self.load("clipped/checkpoints/000001/wide/weight.npy"), self.path("plain", "wide/weight")[1], rtol=1e-9)
        self.train("scaled", "{type: muon, learning_rate_scales: {wide/weight: 2, '**/bias': 0.5}}", "--steps", 1)
        self.train("plain", "{type: muon}", "--steps", 1)
        start = self.load("plain/watch/wide/weight/value.npy")[0]
        moved = {run: self.load(f"{run}/checkpoints/000001/wide/weight.npy") - start for run in ("plain", "scaled")}
        np.testing.assert_allclose(moved["scaled"], 2 * moved["plain"], rtol=1e-12)

    def test_a_run_resumes_inside_a_cycle(self):
        for text in OPTIMIZERS:
            self.train("whole", text, "--set", "vars.precision=float32")
            for stop in (4, 6):
                self.train("out", text, "--set", "vars.precision=float32", "--steps", stop)
                self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--resume", *optimizer(text), "--set", "vars.precision=float32")
                self.assertEqual(self.state("whole/checkpoints/000010"), self.state("out/checkpoints/000010"), text)
        refused = self.flowrun("train", "job.yaml", "-o", "out", "--resume", *optimizer(text.replace("alpha: 0.25", "alpha: 0.5")),
                               "--set", "vars.precision=float32", status=2).stderr
        self.assertIn("cannot resume", refused)

    def test_threads_compute_the_same_bits(self):
        for text in OPTIMIZERS:
            for precision in ("float32", "mixed_bfloat16"):
                for threads in (1, 2):
                    self.train(f"threads{threads}", text, "--threads", threads, "--set", f"vars.precision={precision}", "--set", "jobs.train.shards=1")
                self.assertEqual(self.outputs("threads1"), self.outputs("threads2"), text)

    def test_float32_is_near_float64(self):
        for text in OPTIMIZERS[:3]:
            for precision in ("float32", "float64"):
                self.train(precision, text, "--set", f"vars.precision={precision}", "--steps", 3)
            for name in VARIABLES:
                np.testing.assert_allclose(self.load(f"float32/checkpoints/000003/{name}.npy"), self.load(f"float64/checkpoints/000003/{name}.npy"),
                                           rtol=1e-3, atol=2e-4, err_msg=text)

    def test_a_skipped_update_leaves_variables_and_slots(self):
        scale = ", loss_scale: {type: dynamic, initial: 1.5e38, growth_interval: 100}}"
        for text in OPTIMIZERS[:3]:
            self.train("out", text[:-1] + scale, "--set", "vars.precision=mixed_float16", "--set", "jobs.train.shards=1")
            skipped = [row["step"] for row in self.metrics("out") if row.get("skipped")]
            self.assertEqual(skipped[0], 0)
            first = {name: data for name, data in self.files("out/checkpoints/000001").items() if name.endswith(".npy")}
            for name in VARIABLES:
                np.testing.assert_array_equal(self.load(f"out/checkpoints/000001/{name}.npy"), self.load(f"out/watch/{name}/value.npy")[0])
            slots = [name for name in first if name.split("/")[-1] in ("row.npy", "column.npy", "variance.npy", "momentum.npy", "m.npy", "v.npy")]
            self.assertGreater(len(slots), 6)
            for name in slots:
                self.assertFalse(self.load(f"out/checkpoints/000001/{name}").any(), name)

    def test_verify_holds(self):
        for text in (OPTIMIZERS[0], OPTIMIZERS[3]):
            self.flowrun("verify", "train", "job.yaml", *optimizer(text), "--set", "vars.precision=float32", "--steps", 5)

    def test_frozen_variables_stay_in_16_bits(self):
        for text in OPTIMIZERS:
            self.train("out", text, "--set", "+jobs.train.graph.wide.trainable=false", "--set", "+jobs.train.graph.wide.variable_dtype=bfloat16",
                       "--set", "jobs.train.hooks=[]")
            self.assertFalse([name for name in self.files("out/checkpoints/000010") if name.startswith("wide/weight/")])

    def test_flowc_shows_slots_and_reports_runs(self):
        shown = self.call("flowc", "show", "job.yaml", *optimizer("{type: muon, lookahead: {steps: 4}}")).stdout
        self.assertIn("wide/weight/momentum", self.call("flowc", "show", "job.yaml", "--steps", *optimizer("{type: muon}")).stdout)
        self.assertIn("muon", shown)
        self.train("out", OPTIMIZERS[3])
        self.call("flowc", "report", "out", "-o", "report.html")
        self.assertIn("muon", (self.dir / "report.html").read_text())


class ComposedUpdatesOnRanks(RanksTest):
    def test_ranks_compute_the_bits_of_one_process(self):
        self.write("job.yaml", JOB.replace("precision: float64", "precision: float32"))
        for text in OPTIMIZERS:
            self.flowrun("train", "job.yaml", "-o", "alone", "--quiet", "--force", *optimizer(text))
            self.ranks(2, "train", "job.yaml", "-o", "ranks", "--quiet", "--force", *optimizer(text))
            self.assert_same(self.outputs("alone"), self.outputs("ranks"))


if __name__ == "__main__":
    unittest.main()
