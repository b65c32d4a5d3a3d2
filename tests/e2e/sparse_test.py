"""Sparse gradients of embeddings: against PyTorch, and the bits of dense ones where the optimizer leaves other rows alone."""
import unittest

import numpy as np

from flow import FlowTest, golden_arrays

LAYERS = {
    "embedding": "      y: {op: embedding, in: indices, vocab_size: 13, units: 3, sparse: true}",
    "bag_sum": "      y: {op: embedding_bag, in: indices, vocab_size: 13, units: 3, mode: sum, padding: 0, sparse: true}",
    "bag_mean": "      y: {op: embedding_bag, in: indices, vocab_size: 13, units: 3, padding: 0, sparse: true}",
    "twice": """      a: {op: embedding, in: indices, vocab_size: 13, units: 3, sparse: true}
      turned: {op: flip, in: indices, axis: 0}
      b: {op: embedding, in: turned, vocab_size: 13, units: 3, variables: a}
      y: {op: multiply, in: [a, b]}""",
}
OPTIMIZERS = {
    "sgd": "type: sgd",
    "adagrad": "type: adagrad, initial_accumulator_value: 0.01",
    "adam": "type: adam, beta2: 0.99",
}
CASES = ["embedding_sgd", "embedding_adagrad", "embedding_adam", "bag_sum_adam", "bag_mean_adam", "twice_adam", "bag_mean_adagrad", "embedding_adam_clip",
         "twice_sgd_clip"]
JOB = """flow: 1
data:
  rows: {indices: {npy: indices.npy}, target: {npy: target.npy}}
jobs:
  train:
    type: train
    precision: PRECISION
    inputs:
      indices: {shape: INDICES, dtype: int32, from: rows.indices}
      target: {shape: [6, 3], dtype: PRECISION, from: rows.target}
    graph:
LAYER
      loss: {op: mse, in: [y, target]}
    optimizer: {OPTIMIZER, learning_rate: 0.1, minimize: loss}
    run: {steps: 12, checkpoint: {load: weights.npz}}
"""

# Bags and single rows of one table, and a dense layer beside it.
MIXED = """flow: 1
jobs:
  train:
    type: train
    inputs:
      words: {shape: [40, 9], dtype: int32, from: {type: random_int, low: -1, high: 500}}
      last: {shape: [40], dtype: uint8, from: {type: random_int, low: 0, high: 200}}
    graph:
      table: {op: embedding_bag, in: words, vocab_size: 500, units: 33, padding: -1, sparse: SPARSE}
      one: {op: embedding, in: last, vocab_size: 500, units: 33, variables: table}
      sum: {op: add, in: [table, one]}
      y: {op: dense, units: 1}
      loss: {op: square}
    optimizer: {OPTIMIZER, learning_rate: 0.05, minimize: loss, grad_clipping: {type: by_global_norm, clip_norm: 0.01}}
    run: {steps: 8}
"""


class Sparse(FlowTest):
    def agree(self, name, precision, tolerance):
        arrays = golden_arrays(f"sparse_gradients/{name}")
        layer, _, optimizer = name.removesuffix("_clip").rpartition("_")
        np.save(self.dir / "indices.npy", arrays["indices"])
        np.save(self.dir / "target.npy", arrays["target"].astype(precision))
        table = "a" if layer == "twice" else "y"
        np.savez(self.dir / "weights.npz", **{f"{table}/weight": arrays["before"]})
        text = OPTIMIZERS[optimizer] + (", grad_clipping: {type: by_global_norm, clip_norm: 0.05}" if name.endswith("_clip") else "")
        shape = [6, *arrays["indices"].shape[1:]]
        self.write("job.yaml", JOB.replace("PRECISION", precision).replace("INDICES", str(shape)).replace("LAYER", LAYERS[layer]).replace("OPTIMIZER", text))
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--force")
        after = np.load(self.checkpoint("out") / table / "weight.npy")
        np.testing.assert_allclose(after, arrays["after"], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose([line["loss"] for line in self.metrics("out")], arrays["losses"], rtol=tolerance, atol=tolerance)

    def test_updates_agree_with_pytorch(self):
        for name in CASES:
            for precision, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
                with self.subTest(name, precision=precision):
                    self.agree(name, precision, tolerance)

    def train(self, out, optimizer, *more, sparse="true"):
        self.write("job.yaml", MIXED.replace("SPARSE", sparse).replace("OPTIMIZER", optimizer))
        self.flowrun("train", "job.yaml", "-o", out, "--quiet", "--force", *more)
        return {path: content for path, content in self.files(out).items() if path.endswith(".npy")}

    def test_sgd_and_adagrad_have_the_bits_of_dense_gradients_in_one_lookup(self):
        for optimizer in ("type: sgd", "type: adagrad"):
            results = []
            for sparse in ("true", "false"):
                text = MIXED.replace("SPARSE", sparse).replace("OPTIMIZER", optimizer).replace("{op: add, in: [table, one]}", "{op: identity, in: table}")
                text = text.replace(", grad_clipping: {type: by_global_norm, clip_norm: 0.01}", "")
                self.write("job.yaml", "".join(line for line in text.splitlines(True) if not line.strip().startswith(("one:", "last:"))))
                self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--force")
                results.append({path: content for path, content in self.files("out").items() if path.endswith(".npy")})
            self.assertGreater(len(results[0]), 2)
            self.assertEqual(*results)

    def test_threads_and_a_resume_change_no_bit(self):
        for optimizer in OPTIMIZERS.values():
            one = self.train("one", optimizer, "--threads", 1)
            self.assertGreater(len(one), 2)
            self.assertEqual(one, self.train("three", optimizer, "--threads", 3))
            self.train("parts", optimizer, "--threads", 2, "--steps", 3)
            self.flowrun("train", "job.yaml", "-o", "parts", "--quiet", "--resume")
            resumed = {path: content for path, content in self.files("parts").items() if path.endswith(".npy")}
            last = {path: content for path, content in one.items() if "000008" in path}
            self.assertTrue(last)
            self.assertEqual(last, {path: content for path, content in resumed.items() if "000008" in path})

    def test_slots_of_other_rows_stay_as_they_are(self):
        self.train("first", "type: adam", "--steps", 1)
        self.train("second", "type: adam", "--steps", 2)
        m = [np.load(self.checkpoint(out) / "table/weight/m.npy") for out in ("first", "second")]
        same = (m[0] == m[1]).all(axis=1)
        self.assertTrue((same & (m[0] != 0).any(axis=1)).any())
        self.assertTrue((~same).any())

    def test_hooks_read_dense_gradients(self):
        values = []
        for sparse in ("true", "false"):
            self.train("out", "type: sgd", "--steps", 2, "--watch-diff", "table/weight", sparse=sparse)
            values.append(np.stack([self.load("out/watch/table/weight/diff.npy")[i] for i in range(2)]))
        self.assertEqual(values[0].shape, (2, 500, 33))
        np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-8)

    def test_hooks_change_no_result(self):
        plain = self.train("plain", "type: adam")
        watched = self.train("watched", "type: adam", "--watch-diff", "table/weight")
        self.assertEqual(plain, {path: content for path, content in watched.items() if path in plain})


if __name__ == "__main__":
    unittest.main()
