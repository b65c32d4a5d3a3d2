"""Bags of embeddings: against PyTorch, what counts in a bag, and indices out of range."""
import unittest

import numpy as np

from flow import FlowTest, golden_arrays

CASES = {
    "sum": "mode: sum",
    "sum_weighted": "mode: sum, padding: 2, lengths: lengths, weights: weights",
    "mean_lengths": "lengths: lengths",
    "mean_padding": "padding: 0",
    "max_padding": "mode: max, padding: 10",
    "max_lengths": "mode: max, lengths: lengths",
}

JOB = """flow: 1
jobs:
  train:
    type: train
    precision: PRECISION
    inputs:
INPUTS
    graph:
      bag: {op: embedding_bag, in: indices, vocab_size: 11, units: 3, OPTIONS}
      product: {op: multiply, in: [bag, factor]}
      loss: {op: reduce_sum}
    optimizer: {type: sgd, learning_rate: 0.005, minimize: loss}
    returns: {value: bag, to: npy}
    run: {steps: 10, checkpoint: {load: weights.npz}}
"""

# Indices -1 fill up bags, as some data sets have them; 9 of them is in no bag.
MARKED = """flow: 1
jobs:
  run:
    type: predict
    inputs:
      x: {shape: [2, 3, 4], dtype: int32, from: {npy: x.npy}}
      n: {shape: [2, 3], dtype: uint8, from: {npy: n.npy}}
    graph:
      bag: {op: embedding_bag, in: x, lengths: n, vocab_size: 9, units: 2, padding: -1, mode: MODE, embeddings_initializer: {type: npy, path: table.npy}}
    returns: {value: bag, to: npy}
"""


class EmbeddingBag(FlowTest):
    def agree(self, name, precision, tolerance):
        arrays = golden_arrays(f"embedding_bag/{name}")
        inputs = [key for key in ("indices", "lengths", "weights", "factor") if key in arrays]
        lines = []
        for key in inputs:
            array = arrays[key].astype(precision) if arrays[key].dtype == "float64" else arrays[key]
            np.save(self.dir / f"{key}.npy", array)
            lines.append(f"      {key}: {{shape: {list(array.shape)}, dtype: {array.dtype}, rows: {'false' if key == 'factor' else 'true'}, from: {{npy: {key}.npy}}}}")
        np.savez(self.dir / "weights.npz", **{"bag/weight": arrays["before"]})
        self.write("job.yaml", JOB.replace("PRECISION", precision).replace("INPUTS", "\n".join(lines)).replace("OPTIONS", CASES[name]))
        watched = ["--watch-diff", "weights"] if "weights" in inputs else []
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--force", "--watch-diff", "bag/weight", *watched)

        def check(what, got, expected):
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max(), err_msg=what)
        check("out", self.load("out/returns/bag/value.npy")[0], arrays["out"])
        check("diff", self.load("out/watch/bag/weight/diff.npy")[0], arrays["diff"])
        check("losses", [line["loss"] for line in self.metrics("out")], arrays["losses"])
        check("after", np.load(self.checkpoint("out") / "bag" / "weight.npy"), arrays["after"])
        if watched:
            check("weights", self.load("out/watch/weights/diff.npy")[0], arrays["diff_weights"])

    def test_results_gradients_and_updates_agree_with_pytorch(self):
        for name in CASES:
            for precision, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
                with self.subTest(name, precision=precision):
                    self.agree(name, precision, tolerance)

    def run_marked(self, x, n, mode, status=0):
        np.save(self.dir / "x.npy", np.array(x, np.int32))
        np.save(self.dir / "n.npy", np.array(n, np.uint8))
        np.save(self.dir / "table.npy", np.arange(18, dtype=np.float32).reshape(9, 2))
        self.write("job.yaml", MARKED.replace("MODE", mode))
        return self.flowrun("run", "job.yaml", "-o", "out", "--load", "none", "--quiet", "--force", status=status).stderr

    def test_padding_and_what_lies_behind_the_lengths_do_not_count(self):
        x = [[[4, -1, 2, 99], [-1, -1, -1, -1], [8, -7, 5, 5]], [[0, 0, 0, 0], [1, 2, 3, -1], [3, 3, 99, 99]]]
        n = [[3, 4, 1], [0, 4, 2]]
        rows = [[[4, 2], [], [8]], [[], [1, 2, 3], [3, 3]]]
        table = np.arange(18).reshape(9, 2)
        for mode, reduce in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
            self.run_marked(x, n, mode)
            expected = [[reduce(table[bag], 0) if bag else np.zeros(2) for bag in bags] for bags in rows]
            np.testing.assert_array_equal(self.load("out/returns/bag/value.npy")[0], np.array(expected, np.float32))

    def test_indices_and_lengths_out_of_range_stop_the_run(self):
        x = np.zeros((2, 3, 4), np.int32)
        for value in (9, -2):
            x[1, 2, 3] = value
            self.run_marked(x, [[4, 4, 4], [4, 4, 3]], "sum")
            message = self.run_marked(x, [[4, 4, 4], [4, 4, 4]], "sum", status=3)
            self.assertIn(f"step 0: `x` contains {value} at [1, 2, 3]; expected a value in [0, 9)", message)
        message = self.run_marked(x, [[4, 4, 4], [5, 4, 4]], "sum", status=3)
        self.assertIn("step 0: `n` contains 5 at [1, 0]; expected a value in [0, 5)", message)


if __name__ == "__main__":
    unittest.main()
