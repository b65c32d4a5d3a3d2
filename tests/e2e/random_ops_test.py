"""Random numbers in graphs: their distributions, and the same numbers whatever the threads, shards, ranks, and stops."""
import unittest

import numpy as np

from flow import FlowTest

DRAWS = """flow: 1
seed: 5
jobs:
  draw:
    type: predict
    precision: PRECISION
    inputs: {x: {shape: [250, 4, 50], dtype: float32, from: {type: constant, value: 0.3}}}
    graph:
      normal:  {op: random_normal, like: x, mean: 2, stddev: 3}
      uniform: {op: random_uniform, like: x, minimum: -1, maximum: 3}
      gumbel:  {op: gumbel, like: x}
      ones:    {op: bernoulli, in: x}
      weights: {op: random_uniform, shape: [3, 150], minimum: 0.5}
      picked:  {op: multinomial, in: weights, samples: 40000, logits: false}
      logits:  {op: log, in: weights}
      same:    {op: multinomial, in: logits, samples: 40000}
    returns: {value: [normal, uniform, gumbel, ones, weights, picked, same], to: npy}
    run: {steps: 2}
"""

# What a row draws must not depend on the rows beside it.
TRAIN = """flow: 1
seed: 9
jobs:
  train:
    type: train
    shards: SHARDS
    inputs: {x: {shape: [12, 5], dtype: float32, from: {type: random_normal}}}
    graph:
      h:      {op: dense, in: x, units: 3}
      noise:  {op: random_normal, like: h, stddev: 0.1}
      noisy:  {op: add, in: [h, noise]}
      p:      {op: sigmoid, in: noisy}
      kept:   {op: bernoulli, in: p}
      chosen: {op: multinomial, in: noisy, samples: 2}
      extra:  {op: gumbel, like: h}
      fixed:  {op: random_uniform, shape: [3]}
      scaled: {op: multiply, in: [noisy, fixed]}
      total:  {op: add, in: [scaled, kept]}
      loss:   {op: square, in: total}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
    returns: {value: [noise, kept, chosen, extra, fixed], to: npy}
    run: {steps: 4}
"""


class RandomOps(FlowTest):
    def draw(self, precision="float32"):
        self.write("job.yaml", DRAWS.replace("PRECISION", precision))
        self.flowrun("draw", "job.yaml", "-o", "out", "--quiet", "--force")
        return {name: self.load(f"out/returns/{name}/value.npy").astype(np.float64)
                for name in ("normal", "uniform", "gumbel", "ones", "weights", "picked", "same")}

    def moments(self, x, mean, deviation):
        """Within five standard errors: 100 000 numbers."""
        self.assertEqual(x.size, 100_000)
        self.assertAlmostEqual(x.mean(), mean, delta=5 * deviation / x.size**0.5)
        self.assertAlmostEqual(x.std(), deviation, delta=10 * deviation / x.size**0.5)

    def cells(self, x, quantiles):
        """Chi-square of equally likely cells: with 49 degrees of freedom, it is above 110 once in a million times."""
        counts = np.bincount(np.searchsorted(quantiles, x.ravel()), minlength=50)
        self.assertLess(((counts - x.size / 50)**2).sum() / (x.size / 50), 110)

    def test_draws_have_their_distributions(self):
        drawn = self.draw()
        inner = np.arange(1, 50) / 50
        normal = (drawn["normal"] - 2) / 3
        self.moments(drawn["normal"], 2, 3)
        self.moments(normal**3, 0, 15**0.5)
        self.cells(drawn["uniform"], 4 * inner - 1)
        self.assertTrue(((-1 <= drawn["uniform"]) & (drawn["uniform"] < 3)).all())
        self.cells(drawn["gumbel"], -np.log(-np.log(inner)))
        self.moments(drawn["gumbel"], np.euler_gamma, np.pi / 6**0.5)
        self.moments(drawn["ones"], 0.3, 0.21**0.5)
        self.assertLess(abs(np.corrcoef(normal.ravel(), drawn["uniform"].ravel())[0, 1]), 0.02)
        self.assertLess(abs(np.corrcoef(normal[0].ravel(), normal[1].ravel())[0, 1]), 0.03)      # of two steps
        for name in ("picked", "same"):
            for row, weights in zip(drawn[name][0], drawn["weights"][0]):
                expected = row.size * weights / weights.sum()
                counts = np.bincount(row.astype(int), minlength=150)
                self.assertLess(((counts - expected)**2 / expected).sum(), 149 + 5 * 298**0.5)

    def test_float64_draws_are_those_of_float32(self):
        single, double = self.draw(), self.draw("float64")
        for name in ("normal", "uniform", "gumbel"):
            np.testing.assert_array_equal(double[name].astype(np.float32), single[name].astype(np.float32))
        self.assertFalse((double["normal"] == single["normal"]).all())

    def test_weights_that_are_not_finite_or_positive(self):
        rows = np.array([[0, 0, 0], [-1, 2, np.nan], [1, np.inf, 0], [np.nan] * 3], np.float32)
        np.save(self.dir / "rows.npy", rows)
        self.write("job.yaml", """flow: 1
jobs:
  draw:
    type: predict
    inputs: {w: {shape: [4, 3], dtype: float32, rows: false, from: {npy: rows.npy}}}
    graph:
      i: {op: multinomial, in: w, samples: 20, logits: false}
      p: {op: bernoulli, in: w}
    returns: {value: [i, p], to: npy}
    run: {steps: 1}
""")
        self.flowrun("draw", "job.yaml", "-o", "out", "--quiet")
        np.testing.assert_array_equal(self.load("out/returns/i/value.npy")[0], [[-1] * 20, [1] * 20, [-1] * 20, [-1] * 20])
        np.testing.assert_array_equal(self.load("out/returns/p/value.npy")[0], [[0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]])

    def arrays(self, out, shards, *more):
        self.write("job.yaml", TRAIN.replace("SHARDS", str(shards)))
        self.flowrun("train", "job.yaml", "-o", out, "--quiet", *more)
        return {name: self.load(f"{out}/returns/{name}/value.npy") for name in ("noise", "kept", "chosen", "extra", "fixed")}

    def test_threads_shards_and_a_resume_change_no_number(self):
        one = self.arrays("one", 1, "--threads", 1)
        self.assertFalse((one["noise"][0] == one["noise"][1]).all())
        for shards in (1, 2, 4):
            several = self.arrays(f"shards{shards}", shards, "--threads", 3)
            for name, array in one.items():
                if name in ("noise", "extra", "fixed") or shards == 1:
                    np.testing.assert_array_equal(several[name].reshape(array.shape), array, f"{name} of {shards} shards")
        self.arrays("parts", 1, "--steps", 2)
        resumed = self.arrays("parts", 1, "--resume")
        for name, array in one.items():
            np.testing.assert_array_equal(resumed[name], array, name)

    def test_a_draw_with_as_many_rows_as_the_batch_is_the_same_in_shards(self):
        losses = {}
        for shards in (1, 4):
            self.write("job.yaml", TRAIN.replace("SHARDS", str(shards)).replace("shape: [3]", "shape: [12, 3]"))
            self.flowrun("train", "job.yaml", "-o", f"shards{shards}", "--quiet")
            losses[shards] = [line["loss"] for line in self.metrics(f"shards{shards}")]
        np.testing.assert_allclose(losses[4], losses[1], rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
