"""Batch normalization whose entries share variables: every call moves the statistics once, in the plan's order."""
import unittest

import numpy as np

from flow import FlowTest

STEPS, ROWS, CHANNELS = 7, 6, 3
JOB = """flow: 1
networks:
  net:
    inputs: [x, z]
    graph:
{entries}
      sum: {{op: add, in: [left, right]}}
jobs:
  train:
    type: train
    precision: float64
    inputs: {{x: {{shape: [6, 3], dtype: float32, from: {{npy: x.npy}}}}, z: {{shape: [6, 3], dtype: float32, from: {{npy: z.npy}}}}}}
    graph:
      net:  {{op: net, x: x, z: z}}
      loss: {{op: mse, in: [net, x]}}
    optimizer: {{type: sgd, learning_rate: 0.125, minimize: loss}}
    returns: {{value: [net/left, net/right], to: npy}}
    run: {{checkpoint: {{every: {{steps: 1}}, keep: 100}}}}
  predict:
    type: predict
    precision: float64
    inputs: {{x: {{shape: [6, 3], dtype: float32, from: {{npy: x.npy}}}}, z: {{shape: [6, 3], dtype: float32, from: {{npy: z.npy}}}}}}
    graph: {{net: {{op: net, x: x, z: z}}}}
    returns: {{value: [net/left, net/right], to: npy}}
"""
LEFT = "      left: {op: batch_normalization, in: x, momentum: 0.75, epsilon: 0.25}\n"
RIGHT = "      right: {op: batch_normalization, in: z, momentum: 0.5, epsilon: 0.5, variables: left}\n"
RIGHT_OF_LEFT = RIGHT.replace("in: z", "in: left")


def normal(x, mean, variance, epsilon, gamma, beta):
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


class SharedStatistics(FlowTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        self.x = random.standard_normal((STEPS, ROWS, CHANNELS)).astype(np.float32)
        self.z = (3 * random.standard_normal((STEPS, ROWS, CHANNELS)) + 1).astype(np.float32)
        np.save(self.dir / "x.npy", self.x)
        np.save(self.dir / "z.npy", self.z)

    def train(self, entries, *words):
        self.write("job.yaml", JOB.format(entries=entries.rstrip()))
        self.flowrun("train", "job.yaml", "-o", "out", *words)

    def state(self, step, run="out"):
        """The layer's variables after `step` steps."""
        folder = self.dir / run / "checkpoints" / f"{step:06}" / "net"
        self.assertEqual({path.name for path in folder.iterdir()}, {"left"}, "one entry has them all")
        return {path.stem: np.load(path) for path in (folder / "left").glob("*.npy")}

    def check_moves(self, calls):
        """`calls(step)` gives what is normalized in each call, in order, with the call's momentum."""
        mean, variance = np.zeros(CHANNELS), np.ones(CHANNELS)
        for step in range(STEPS):
            for batch, momentum in calls(step):
                mean = momentum * mean + (1 - momentum) * batch.mean(0)
                variance = momentum * variance + (1 - momentum) * batch.var(0, ddof=1)
            state = self.state(step + 1)
            np.testing.assert_allclose(state["moving_mean"], mean, rtol=1e-12, err_msg=f"step {step}")
            np.testing.assert_allclose(state["moving_variance"], variance, rtol=1e-12, err_msg=f"step {step}")

    def batches(self, step):
        return self.x[step].astype(np.float64), self.z[step].astype(np.float64)

    def left_first(self, step):
        x, z = self.batches(step)
        return (x, 0.75), (z, 0.5)

    def test_each_call_moves_them_in_the_files_order(self):
        self.train(LEFT + RIGHT)
        self.check_moves(self.left_first)

    def test_the_entry_that_has_the_variables_goes_first(self):
        self.train(RIGHT + LEFT)
        self.check_moves(self.left_first)

    def test_among_others_the_files_order_holds(self):
        third = RIGHT.replace("right", "third").replace("0.5", "0.875").replace("in: z", "in: x")
        self.train(LEFT + third + RIGHT)
        self.check_moves(lambda step: (self.left_first(step)[0], (self.batches(step)[0], 0.875), self.left_first(step)[1]))

    def test_operands_go_before_the_files_order(self):
        self.train(RIGHT_OF_LEFT + LEFT)
        left = self.load("out/returns/net/left/value.npy")
        self.check_moves(lambda step: ((self.batches(step)[0], 0.75), (left[step], 0.5)))

    def test_batches_normalize_in_train_jobs(self):
        self.train(LEFT + RIGHT)
        for step in range(1, STEPS):
            state, (x, z) = self.state(step), self.batches(step)
            for name, batch, epsilon in (("left", x, 0.25), ("right", z, 0.5)):
                expected = normal(batch, batch.mean(0), batch.var(0), epsilon, state["gamma"], state["beta"])
                np.testing.assert_allclose(self.load(f"out/returns/net/{name}/value.npy")[step], expected, rtol=1e-11, atol=1e-12)

    def test_what_was_moved_normalizes_in_predict_jobs(self):
        self.train(LEFT + RIGHT)
        self.flowrun("predict", "job.yaml", "-o", "predict", "--load", "out")
        state = self.state(STEPS)
        for name, batches, epsilon in (("left", self.x, 0.25), ("right", self.z, 0.5)):
            expected = normal(batches.astype(np.float64), state["moving_mean"], state["moving_variance"], epsilon, state["gamma"], state["beta"])
            np.testing.assert_allclose(self.load(f"predict/returns/net/{name}/value.npy"), expected, rtol=1e-11, atol=1e-12)

    def test_a_resumed_run_goes_on_from_what_the_last_call_left(self):
        self.train(LEFT + RIGHT)
        self.flowrun("train", "job.yaml", "-o", "halves", "--steps", 3)
        self.flowrun("train", "job.yaml", "-o", "halves", "--resume")
        self.check_moves(self.left_first)
        self.assertEqual(self.files(f"out/checkpoints/{STEPS:06}/net"), self.files(f"halves/checkpoints/{STEPS:06}/net"))


if __name__ == "__main__":
    unittest.main()
