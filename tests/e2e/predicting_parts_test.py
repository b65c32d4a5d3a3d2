"""Parts of a train job that do as in a predict job, by `training: false`."""
import unittest

import numpy as np

from flow import FlowTest

STEPS, ROWS, CHANNELS, EPSILON = 4, 6, 3, 0.25
INPUT = f"inputs: {{x: {{shape: [{ROWS}, {CHANNELS}], dtype: float32, from: {{npy: x.npy}}}}}}"

DISTILLATION = f"""flow: 1
networks:
  net:
    inputs: [x]
    graph:
      hidden: {{op: dense, units: 5, activation: tanh}}
      norm:   {{op: batch_normalization, epsilon: {EPSILON}, momentum: 0.5}}
      rect:   {{op: relu}}
      drop:   {{op: dropout, rate: 0.5}}
      out:    {{op: dense, units: 2}}
jobs:
  train:
    type: train
    precision: float64
    {INPUT}
    graph:
      teacher: {{op: net, in: x, trainable: false, training: false}}
      student: {{op: net, in: x}}
      loss:    {{op: mse, in: [student, teacher]}}
    optimizer: {{type: sgd, learning_rate: 0.1, minimize: loss}}
    returns: {{value: [teacher, student], to: npy}}
  predict:
    type: predict
    precision: float64
    {INPUT}
    graph:
      teacher: {{op: net, in: x}}
    returns: {{value: teacher, to: npy}}
"""

# The loss is the mean of y times w; the statistics are given.
LAYER = f"""flow: 1
jobs:
  train:
    type: train
    precision: float64
    {INPUT}
    graph:
      scaled: {{op: dense, units: {CHANNELS}, use_bias: false, in: x}}
      y:      {{op: batch_normalization, epsilon: {EPSILON}, training: false}}
      loss:   {{op: multiply, in: [y, x]}}
    optimizer: {{type: sgd, learning_rate: 0.5, minimize: loss}}
    hooks: [{{watch_diff: scaled, of: mean}}, {{watch_diff: "y/*", of: mean}}]
    run: {{steps: 1}}
"""

SHARED = f"""flow: 1
jobs:
  train:
    type: train
    precision: float64
    {INPUT}
    graph:
      before: {{op: batch_normalization, in: x, epsilon: {EPSILON}, variables: norm, training: false}}
      norm:   {{op: batch_normalization, in: x, epsilon: {EPSILON}, momentum: 0.5}}
      after:  {{op: batch_normalization, in: x, epsilon: {EPSILON}, variables: norm, training: false}}
      sum:    {{op: add, in: [before, after]}}
      loss:   {{op: multiply, in: [sum, norm]}}
    optimizer: {{type: sgd, learning_rate: 0.1, minimize: loss}}
    returns: {{value: [before, after], to: npy}}
    run: {{checkpoint: {{every: {{steps: 1}}, keep: 100}}}}
"""


class PredictingParts(FlowTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(11)
        self.x = self.random.standard_normal((STEPS, ROWS, CHANNELS)).astype(np.float32)
        np.save(self.dir / "x.npy", self.x)

    def start(self, **shapes):
        """Variables to load, at random; variances are positive."""
        made = {name.replace("__", "/"): self.random.standard_normal(shape) for name, shape in shapes.items()}
        made = {name: np.abs(value) + 0.1 if name.endswith("variance") else value for name, value in made.items()}
        made = {name: value.astype(np.float32).astype(np.float64) for name, value in made.items()}
        np.savez(self.dir / "start.npz", **made)
        return made

    def test_a_teacher_gives_what_it_predicts_and_stays_as_it_is(self):
        layer = {"hidden__weight": (5, CHANNELS), "hidden__bias": (5,), "norm__gamma": (5,), "norm__beta": (5,),
                 "norm__moving_mean": (5,), "norm__moving_variance": (5,), "out__weight": (2, 5), "out__bias": (2,)}
        start = self.start(**{f"{net}__{name}": shape for net in ("teacher", "student") for name, shape in layer.items()})
        self.write("job.yaml", DISTILLATION)
        self.flowrun("predict", "job.yaml", "-o", "predict", "--load", "start.npz")
        self.flowrun("train", "job.yaml", "-o", "out", "--load", "start.npz")
        predicted = self.load("predict/returns/teacher/value.npy")
        np.testing.assert_allclose(self.load("out/returns/teacher/value.npy"), predicted, rtol=1e-12)
        end = self.checkpoint("out")
        for name, value in start.items():
            same = np.array_equal(np.load(end / f"{name}.npy"), value)
            self.assertEqual(same, name.startswith("teacher"), name)

    def test_gradients_go_through_given_statistics(self):
        start = self.start(scaled__weight=(CHANNELS, CHANNELS), y__gamma=CHANNELS, y__beta=CHANNELS,
                           y__moving_mean=CHANNELS, y__moving_variance=CHANNELS)
        self.write("job.yaml", LAYER)
        self.flowrun("train", "job.yaml", "-o", "out", "--load", "start.npz")
        x = self.x[0].astype(np.float64)
        gamma, mean, variance = (start[f"y/{name}"] for name in ("gamma", "moving_mean", "moving_variance"))
        scaled, r = x @ start["scaled/weight"].T, 1 / np.sqrt(variance + EPSILON)
        dy = x / x.size
        expected = {
            "scaled": dy * gamma * r,
            "y/gamma": (dy * (scaled - mean) * r).sum(0),
            "y/beta": dy.sum(0),
            "y/moving_mean": -(dy * gamma * r).sum(0),
            "y/moving_variance": -0.5 * (dy * gamma * (scaled - mean) * r ** 3).sum(0),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(self.load(f"out/watch/{name}/diff.npy")[0], value, rtol=1e-11, atol=1e-14, err_msg=name)
        end = self.checkpoint("out")
        for name in ("gamma", "beta"):
            moved = start[f"y/{name}"] - 0.5 * expected[f"y/{name}"]
            np.testing.assert_allclose(np.load(end / f"y/{name}.npy"), moved, rtol=1e-11, atol=1e-14, err_msg=name)
        for name in ("moving_mean", "moving_variance"):
            np.testing.assert_array_equal(np.load(end / f"y/{name}.npy"), start[f"y/{name}"])

    def test_statistics_are_those_before_the_step_that_moves_them(self):
        self.write("job.yaml", SHARED)
        self.flowrun("train", "job.yaml", "-o", "out")
        mean, variance, gamma, beta = np.zeros(CHANNELS), np.ones(CHANNELS), np.ones(CHANNELS), np.zeros(CHANNELS)
        for step in range(STEPS):
            expected = (self.x[step] - mean) / np.sqrt(variance + EPSILON) * gamma + beta
            for name in ("before", "after"):
                np.testing.assert_allclose(self.load(f"out/returns/{name}/value.npy")[step], expected, rtol=1e-11, atol=1e-13)
            state = {path.stem: np.load(path) for path in (self.dir / f"out/checkpoints/{step + 1:06}/norm").glob("*.npy")}
            batch = self.x[step].astype(np.float64)
            np.testing.assert_allclose(state["moving_mean"], (mean + batch.mean(0)) / 2, rtol=1e-12)
            mean, variance, gamma, beta = (state[name] for name in ("moving_mean", "moving_variance", "gamma", "beta"))


if __name__ == "__main__":
    unittest.main()
