"""Loops of predict jobs: what passes read and return, and when they end."""
import sys
import unittest

import numpy as np

from first_test import First, hash_of
from flow import SOURCE

sys.path.insert(0, str(SOURCE / "tests" / "property"))
import draw_judge  # noqa: E402
from draw_judge import flow_random  # noqa: E402

# What each part of a loop does, with numbers that are easily followed.
COUNTING = """flow: 1
data:
  d:
    x: {npy: x.npy}
jobs:
  run:
    type: predict
    inputs:
      x: {shape: [2, 3], dtype: float32, from: d.x}
      number: {shape: [], dtype: int32, rows: false, from: {type: constant, value: 5}}
    graph:
      twice:   {op: add, in: [x, x]}                    # once
      state:   {op: identity, in: twice}
      shown:   {op: reduce_sum, in: state, axis: 1}     # of each pass
      more:    {op: add, in: [state, x]}
      next:    {op: add, in: [number, 1]}
      before:  {op: constant, value: 0, dtype: int32}
      sum:     {op: add, in: [before, number]}
      enough:  {op: greater_equal, in: [next, LIMIT]}
    returns: {value: [shown, more, sum, twice], to: npy}
    hooks: [{watch: shown, to: npy}]
    run:
      loop: {feed: {state: more, number: next, before: number}, steps: 4, until: enough, last: [more]}
"""

# Draws with and without an operand that is fed, and tokens at one position.
DRAWING = """flow: 1
seed: 5
jobs:
  run:
    type: predict
    inputs:
      x: {shape: [3, 7], dtype: float32, from: {type: random_normal}}
      p: {shape: [3, 7], dtype: float32, from: {type: constant, value: 0.5}}
      n: {shape: [], dtype: int32, rows: false, from: {type: constant, value: 4}}
    graph:
      uniform: {op: random_uniform, shape: [5]}
      normal:  {op: random_normal, like: x}
      gumbel:  {op: gumbel, like: p}
      ones:    {op: bernoulli, in: p}
      places:  {op: multinomial, in: p, samples: 9, logits: false}
      nine:    {op: constant, value: 9, dtype: int32}
      token:   {op: sample, in: p, position: nine}
      moved:   {op: sample, in: p, position: n}
      next:    {op: add, in: [n, 1]}
      once:    {op: random_normal, shape: [4]}
      state:   {op: identity, in: once}
      kept:    {op: add, in: [state, 0]}
      y:       {op: add, in: [x, normal]}
    returns: {value: [uniform, normal, gumbel, ones, places, token, moved, kept], to: npy}
    run: {steps: 2LOOP}
"""


class Loop(First):
    def drawn(self, out, *flags, loop=", loop: {feed: {x: y, n: next, state: kept}, steps: 4}"):
        self.write("draw.yaml", DRAWING.replace("LOOP", loop))
        self.flowrun("draw.yaml", "-o", out, "--quiet", *flags)
        return {path.parent.name: np.load(path) for path in (self.dir / out / "returns").rglob("value.npy")}

    def test_each_pass_draws_new_numbers_and_the_first_those_of_a_job_without_a_loop(self):
        """The pass is the fourth word of the counter, as numerics has it: the judge is NumPy."""
        made, plain = self.drawn("out"), self.drawn("plain", loop="")
        for step in range(2):
            for at in range(4):
                uniform = (flow_random.words(5, "uniform", step, 5, at) >> np.uint64(8)) * 2.0**-24
                np.testing.assert_array_equal(made["uniform"][step, at], uniform.astype(np.float32))
                normal = flow_random.normal01(5, "normal", step, 21, at).reshape(3, 7)
                np.testing.assert_allclose(made["normal"][step, :, at], normal, rtol=1e-5, atol=1e-6)
                for row in range(3):
                    token, moved = (draw_judge.token([.5] * 7, position, 3 * step + row, 1, 0, 1, 5, name, of_pass)
                                    for name, position, of_pass in (("token", 9, at), ("moved", 4 + at, 0)))
                    self.assertEqual((made["token"][step, row, at], made["moved"][step, row, at]), (token, moved))
        for name in ("uniform", "normal", "gumbel", "ones", "places", "token"):
            of_pass = np.moveaxis(made[name], 1 if name == "uniform" else 2, 0)
            np.testing.assert_array_equal(of_pass[0], plain[name], name)
            self.assertEqual(len({array.tobytes() for array in of_pass}), 4, name)
        np.testing.assert_array_equal(made["kept"], plain["kept"][:, None].repeat(4, 1))  # what a state begins with

    def test_threads_and_a_resume_change_no_draw_of_a_pass(self):
        whole = self.drawn("whole")
        for name, array in self.drawn("threads", "--threads", 3).items():
            np.testing.assert_array_equal(array, whole[name], name)
        self.drawn("parts", "--steps", 1)
        for name, array in self.drawn("parts", "--resume").items():
            np.testing.assert_array_equal(array, whole[name], name)
    def count(self, out, limit, *flags, rows=5):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        np.save(self.dir / "x.npy", x)
        self.write("count.yaml", COUNTING.replace("LIMIT", str(limit)))
        self.flowrun("count.yaml", "-o", out, "--quiet", *flags)
        return x, {name: self.load(f"{out}/returns/{name}/value.npy") for name in ("shown", "more", "sum", "twice")}

    def test_results_of_passes_are_stacked_or_those_of_the_last_pass(self):
        for flags in ((), ("--threads", 3), ("--set", "jobs.run.precision=float64")):
            x, made = self.count(f"out{len(flags)}{flags[-1:]}", 100, *flags)
            np.testing.assert_array_equal(made["twice"], 2 * x)
            np.testing.assert_array_equal(made["more"], 6 * x)
            np.testing.assert_array_equal(made["shown"], x.sum(1)[:, None] * [2, 3, 4, 5])
            np.testing.assert_array_equal(made["sum"], [[5, 11, 13, 15]] * 3)  # the number of this pass, and of the one before

    def test_until_ends_a_batch_and_repeats_its_last_pass(self):
        x, made = self.count("out", 7)  # after two passes
        np.testing.assert_array_equal(made["more"], 4 * x)
        np.testing.assert_array_equal(made["shown"], x.sum(1)[:, None] * [2, 3, 3, 3])
        np.testing.assert_array_equal(self.load("out/watch/shown/value.npy"), 3 * x.sum(1))

    def test_a_fingerprint_is_of_all_passes_one_after_another(self):
        x, made = self.count("out", 7, "--fingerprint=1")  # after two passes
        steps, names = self.fingerprints("out")
        self.assertEqual(sorted(steps), [0, 1, 2])
        for step, rows in enumerate((x[:2], x[2:4])):
            passes = np.stack([2 * rows.sum(1), 3 * rows.sum(1)])
            self.assertEqual((steps[step]["shown"][0], steps[step]["shown"][7]), (4, hash_of(passes)), step)
            self.assertEqual(steps[step]["x"][0], 6)
        self.count("whole", 100, "--fingerprint=1")
        first = self.first("out", "whole", status=1)["first"]
        self.assertEqual(first["step"], 0)
        said = self.call("flowdiff", "--first", "out", "whole", status=1).stdout
        self.assertIn("not run again: job `run` has a loop", said)
        self.assertNotIn("flowrun run", said)
        self.assertEqual(self.load("whole/returns/shown/value.npy").shape, made["shown"].shape)

    def test_a_bool_of_each_row_ends_when_all_are_true(self):
        x, made = self.count("out", 7, "--set", "jobs.run.graph.enough.in=[shown, 11]", rows=2)
        # Sums of rows are 3 and 12: 6 and 24, 9 and 36, 12 and 48.
        np.testing.assert_array_equal(made["shown"], [[6, 9, 12, 12], [24, 36, 48, 48]])

    def test_globs_watch_results_and_leave_out_what_is_fed(self):
        x, _ = self.count("out", 100, "--watch", "**")
        self.assertEqual({path.name for path in (self.dir / "out/watch").iterdir()}, {"enough", "more", "next", "shown", "sum", "twice", "x"})
        np.testing.assert_array_equal(self.load("out/watch/more/value.npy"), 6 * x)

    def test_a_stopped_run_goes_on_at_the_next_batch(self):
        _, whole = self.count("whole", 7)
        self.count("parts", 7, "--steps", 1)
        _, parts = self.count("parts", 7, "--resume")
        for name, value in whole.items():
            np.testing.assert_array_equal(value, parts[name])

    def test_states_change_places(self):
        self.write("swap.yaml", """flow: 1
jobs:
  run:
    type: predict
    inputs:
      a: {shape: [2, 2], dtype: int32, from: {type: iota}}
      b: {shape: [2, 2], dtype: int32, from: {type: constant, value: 7}}
    graph:
      first:  {op: add, in: [a, 0]}
      second: {op: reshape, in: b, shape: [4]}
    returns: {value: [first, second], to: npy}
    run: {loop: {feed: {a: b, b: a}, steps: 3}}
""")
        self.flowrun("swap.yaml", "-o", "out", "--quiet")
        iota, sevens = np.arange(4), np.full(4, 7)
        np.testing.assert_array_equal(self.load("out/returns/first/value.npy")[0].transpose(1, 0, 2).reshape(3, 4), [iota, sevens, iota])
        np.testing.assert_array_equal(self.load("out/returns/second/value.npy")[0].T, [sevens, iota, sevens])

    def test_a_train_job_calls_a_loop(self):
        self.write("also.yaml", """flow: 1
jobs:
  train:
    type: train
    inputs: {x: {shape: [4, 3], dtype: float32, from: {type: random_normal}}}
    graph:
      net:  {op: dense, in: x, units: 3}
      loss: {op: mse, prediction: net, target: x}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
    run: {steps: 4, also: [{job: roll, every: {steps: 2}}]}
  roll:
    type: predict
    inputs: {x: {shape: [4, 3], dtype: float32, from: {type: random_normal}}}
    graph:
      net: {op: dense, in: x, units: 3}
    returns: {value: net, to: npy}
    run: {steps: 1, loop: {feed: {x: net}, steps: 3}}
""")
        self.flowrun("train", "also.yaml", "-o", "out", "--quiet")
        rolled = self.load("out/also/roll/returns/net/value.npy")
        weight, bias = (np.load(self.checkpoint("out") / "net" / f"{name}.npy") for name in ("weight", "bias"))
        self.assertEqual(rolled.shape, (2, 4, 3, 3))
        np.testing.assert_allclose(rolled[1, :, 1:], rolled[1, :, :-1] @ weight.T + bias, rtol=1e-5, atol=1e-6)

    def test_what_a_loop_leaves_out_is_refused(self):
        x = np.zeros((2, 3), np.float32)
        np.save(self.dir / "x.npy", x)
        self.write("count.yaml", COUNTING.replace("LIMIT", "9"))
        for words, expected in ((("--profile",), "--profile is not supported for job `run`, which has a loop"),
                                (("--capture", "shown@0"), "--capture is not supported for job `run`, which has a loop")):
            self.assertIn(expected, self.flowrun("count.yaml", "-o", "out", *words, status=2).stderr)
        self.assertIn("has a loop", self.call("flowrun", "verify", "run", "count.yaml", status=2).stderr)
        self.assertIn("generation loops are left out", self.call("flowc", "export", "count.yaml", "-o", "m.onnx", "--job", "run", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
