"""Recurrent layers: against PyTorch in float64, rows of different lengths, and the same bits whatever the threads."""
import json
import unittest

import numpy as np

from flow import FlowTest, golden_arrays

CASES = {
    "lstm": "op: lstm, units: 3, layers: 2, direction: bidirectional",
    "gru": "op: gru, units: 3, layers: 2",
    "gru_both": "op: gru, units: 3, direction: bidirectional",
    "rnn": "op: rnn, units: 3, activation: relu, direction: bidirectional",
    "rnn_tanh": "op: rnn, units: 3, use_bias: false",
}
PORTS = {"out": "net", "h": "net.h", "c": "net.c"}

# Rows of different lengths, an LSTM and both kinds of GRUs on top of each other.
STACK = """flow: 1
jobs:
  train:
    type: train
    inputs:
      x: {shape: [72, 9, 5], dtype: float32, from: {type: random_normal}}
      lengths: {shape: [72], dtype: int32, from: {type: random_int, low: 0, high: 10}}
    graph:
      first:  {op: lstm, in: x, lengths: lengths, units: 24, layers: 2, dropout: 0.3}
      second: {op: gru, lengths: lengths, units: 20, direction: bidirectional}
      third:  {op: gru, lengths: lengths, units: 17, direction: reverse, linear_before_reset: false}
      last:   {op: rnn, units: 8}
      y:      {op: dense, in: last.h, units: 1}
      loss:   {op: square}
    optimizer: {type: adam, learning_rate: 0.01, minimize: loss}
    returns: {value: [last, first.c], to: npy}
    run: {steps: 6}
"""

LENGTHS = """flow: 1
jobs:
  run:
    type: predict
    inputs:
      x: {shape: [4, 5, 2], dtype: float32, from: {type: random_normal}}
      lengths: {shape: [4], dtype: int32, rows: false, from: {npy: lengths.npy}}
      h: {shape: [4, 3], dtype: float32, from: {type: random_normal}}
    graph:
      net: {op: gru, in: x, lengths: lengths, initial_h: h, units: 3, direction: DIRECTION}
      returned: {op: identity, in: h}
    returns: {value: [net, net.h, returned], to: npy}
    run: {steps: 1}
"""


class Recurrent(FlowTest):
    def write_case(self, name, arrays, precision):
        """job.yaml with what PyTorch had, and weights.npz with the names of its state_dict."""
        inputs = [key for key in arrays if key in ("x", "lengths") or key.startswith(("initial_", "factor_"))]
        ports = [port for port in PORTS if port in arrays]
        for key in inputs:
            np.save(self.dir / f"{key}.npy", arrays[key].astype(precision) if arrays[key].dtype == "float64" else arrays[key])
        np.savez(self.dir / "weights.npz", **{"model.rnn." + key.removeprefix("before/"): arrays[key] for key in arrays if key.startswith("before/")})
        operands = "".join(f", {key}: {key}" for key in inputs if key == "lengths" or key.startswith("initial_"))
        lines = ["flow: 1", "jobs:", "  train:", "    type: train", f"    precision: {precision}", "    inputs:"]
        lines += [f"      {key}: {{shape: {list(arrays[key].shape)}, dtype: {'int32' if key == 'lengths' else precision}, rows: false, from: {{npy: {key}.npy}}}}"
                  for key in inputs]
        lines += ["    graph:", f"      net: {{in: x, {CASES[name]}{operands}}}"]
        for port in ports:
            lines += [f"      product_{port}: {{op: multiply, in: [{PORTS[port]}, factor_{port}]}}", f"      sum_{port}: {{op: reduce_sum, in: product_{port}}}"]
        lines += [f"      loss_{port}: {{op: add, in: [{'sum_out' if port == 'h' else 'loss_h'}, sum_{port}]}}" for port in ports[1:]]
        lines += [f"    optimizer: {{type: sgd, learning_rate: 0.005, minimize: loss_{ports[-1]}}}",
                  f"    returns: {{value: [{', '.join(PORTS[port] for port in ports)}], to: npy}}",
                  "    run: {steps: 10, checkpoint: {load: weights.npz, names: [{from: \"model.rnn.*\", to: \"net/{1}\"}]}}"]
        self.write("job.yaml", "\n".join(lines) + "\n")
        return inputs, ports

    def agree(self, name, precision, tolerance):
        arrays = golden_arrays(f"recurrent/{name}")
        inputs, ports = self.write_case(name, arrays, precision)
        watched = [word for key in inputs if f"diff/{key}" in arrays for word in ("--watch-diff", key)]
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--force", "--watch-diff", "net/*_l*", *watched)

        def check(what, got, expected):
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max(), err_msg=what)
        for port in ports:
            check(port, self.load(f"out/returns/{PORTS[port]}/value.npy")[0], arrays[port])
        check("losses", [line["loss"] for line in self.metrics("out")], arrays["losses"])
        for key, expected in arrays.items():
            kind, _, variable = key.partition("/")
            if kind == "diff":
                check(key, self.load(f"out/watch/{variable if variable in inputs else 'net/' + variable}/diff.npy")[0], expected)
            if kind == "after":
                check(key, np.load(self.checkpoint("out") / "net" / f"{variable}.npy"), expected)

    def test_results_gradients_and_updates_agree_with_pytorch_in_float64(self):
        for name in CASES:
            with self.subTest(name):
                self.agree(name, "float64", 1e-9)

    def test_results_gradients_and_updates_agree_with_pytorch_in_float32(self):
        for name in CASES:
            with self.subTest(name):
                self.agree(name, "float32", 1e-4)

    def train(self, out, *more):
        self.flowrun("train", "job.yaml", "-o", out, "--quiet", *more)
        return {path: content for path, content in self.files(out).items() if path.endswith(".npy")}

    def test_threads_and_a_resume_change_no_bit(self):
        self.write("job.yaml", STACK)
        one = self.train("one", "--threads", 1)
        self.assertGreater(len(one), 20)
        self.assertEqual(one, self.train("three", "--threads", 3))
        self.train("parts", "--threads", 2, "--steps", 3)
        resumed = self.train("parts", "--threads", 2, "--resume")
        last = {path: content for path, content in one.items() if "000006" in path}
        self.assertTrue(last)
        self.assertEqual(last, {path: content for path, content in resumed.items() if "000006" in path})

    def test_shards_compute_what_one_batch_computes(self):
        self.write("job.yaml", STACK.replace(", dropout: 0.3", ""))
        self.train("one")
        self.train("cut", "--set", "jobs.train.shards=8")
        losses = [[line["loss"] for line in self.metrics(out)] for out in ("one", "cut")]
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)

    def results(self, lengths, direction):
        np.save(self.dir / "lengths.npy", np.array(lengths, np.int32))
        self.write("job.yaml", LENGTHS.replace("DIRECTION", direction))
        self.flowrun("run", "job.yaml", "-o", "out", "--load", "none", "--quiet", "--force")
        return [self.load(f"out/returns/{name}/value.npy")[0] for name in ("net", "net.h", "returned")]

    def test_rows_end_at_their_lengths(self):
        for direction in ("forward", "reverse"):
            whole, _, _ = self.results([5, 5, 5, 5], direction)
            out, h, initial = self.results([0, 2, 5, 4], direction)
            np.testing.assert_array_equal(out[0], 0)
            np.testing.assert_array_equal(h[0], initial[0])
            for row, length in ((1, 2), (2, 5), (3, 4)):
                np.testing.assert_array_equal(out[row, length:], 0)
                np.testing.assert_array_equal(h[row], out[row, length - 1 if direction == "forward" else 0])
                if direction == "forward":
                    np.testing.assert_allclose(out[row, :length], whole[row, :length], rtol=1e-6, atol=1e-7)

    def test_a_length_out_of_range_stops_the_run(self):
        for length in (6, -1):
            np.save(self.dir / "lengths.npy", np.array([1, 5, length, 0], np.int32))
            self.write("job.yaml", LENGTHS.replace("DIRECTION", "forward"))
            done = self.flowrun("run", "job.yaml", "-o", "out", "--load", "none", "--force", status=3)
            self.assertIn(f"`lengths` contains {length} at row 2; expected a value in [0, 6)", done.stderr)

    def test_the_plan_does_not_grow_with_the_sequence(self):
        self.write("job.yaml", STACK)
        counts = []
        for steps in (9, 900):
            self.call("flowc", "build", "job.yaml", "-o", "out.plan", "--set", f"jobs.train.inputs.x.shape=[72, {steps}, 5]")
            counts.append(len(json.loads((self.dir / "out.plan").read_text())["jobs"][0]["steps"]))
        self.assertEqual(counts[0], counts[1])


if __name__ == "__main__":
    unittest.main()
