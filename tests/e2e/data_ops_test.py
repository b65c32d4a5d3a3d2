"""Ops of shape and data in whole runs: NumPy says what comes out; ports name files; indices out of range stop the run."""
import unittest

import numpy as np

from flow import FlowTest

HEAD = """flow: 1
jobs:
  j:
    type: predict
    inputs:
      x: {{shape: [4, 3, 6], dtype: {dtype}, from: {{npy: x.npy}}}}
      n: {{shape: [5], dtype: int64, from: {{npy: n.npy}}}}
    graph:
"""


class DataOps(FlowTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        self.x = random.integers(-50, 50, (4, 3, 6)).astype(np.float32)
        self.n = np.array([2, 0, 2, 1, 2])

    def results(self, graph, names, dtype="float32", status=0, **inputs):
        """Runs the entries `graph` and loads what they return under these names."""
        np.save(self.dir / "x.npy", inputs.get("x", self.x))
        np.save(self.dir / "n.npy", inputs.get("n", self.n))
        entries = "".join(f"      {name}: {{{entry}}}\n" for name, entry in graph.items())
        self.write("job.yaml", HEAD.format(dtype=dtype) + entries + f"    returns: {{value: [{', '.join(names)}], to: npy}}\n")
        done = self.flowrun("j", "job.yaml", "-o", "out", "--force", status=status)
        return done.stderr if status else [self.load(f"out/returns/{name}/value.npy")[0] for name in names]

    def check(self, graph, expected, **options):
        for name, got, wanted in zip(expected, self.results(graph, list(expected), **options), expected.values()):
            np.testing.assert_array_equal(got, wanted, err_msg=name)

    def test_shapes(self):
        x = self.x
        self.check({
            "turned": "op: transpose, in: x, perm: [0, -1, 1]", "taken": 'op: slice, in: x, index: "[1:, ::-1, None, -1]"',
            "padded": "op: pad, in: x, paddings: [[0, 1], [2, 0], [1, 3]], mode: reflect",
            "framed": "op: pad, in: x, paddings: [[0, 0], [0, 0], [1, 1]], value: 7", "tiled": "op: tile, in: x, multiples: [1, 2, 2]",
            "joined": "op: concat, in: [x, x], axis: 1", "piled": "op: stack, in: [x, x], axis: 2",
            "lower": "op: tril, in: x, diagonal: 1", "upper": "op: triu, in: x",
            "wide": "op: expand_dims, in: x, axis: [0, 2]", "narrow": "op: squeeze, in: wide", "same": "op: identity, in: x",
            "flat": "op: flatten, in: x, start: -2", "c": "op: constant, value: 0.5, shape: [3]", "moved": "op: bias_add, in: [x, c]",
        }, {
            "turned": x.transpose(0, 2, 1), "taken": x[1:, ::-1, None, -1], "padded": np.pad(x, ((0, 1), (2, 0), (1, 3)), mode="reflect"),
            "framed": np.pad(x, ((0, 0), (0, 0), (1, 1)), constant_values=7), "tiled": np.tile(x, (1, 2, 2)),
            "joined": np.concatenate([x, x], 1), "piled": np.stack([x, x], 2), "lower": np.tril(x, 1), "upper": np.triu(x),
            "wide": x[None, :, None], "narrow": x, "same": x, "flat": x.reshape(4, 18), "moved": x + np.float32(0.5),
        })

    def test_ports_name_folders(self):
        order = np.argsort(-self.x, axis=1, kind="stable")[:, :2]
        self.check({
            "parts": "op: split, in: x, axis: 2, parts: [1, 3, 2]", "best": "op: top_k, in: x, k: 2, axis: 1",
            "again": "op: gather, params: parts.out2, indices: n",
        }, {
            "parts": self.x[:, :, :1], "parts.out1": self.x[:, :, 1:4], "best.values": np.take_along_axis(self.x, order, 1),
            "best.indices": order, "again": self.x[self.n][:, :, 4:],
        })

    def test_ports_are_watched(self):
        np.save(self.dir / "x.npy", self.x)
        np.save(self.dir / "n.npy", self.n)
        self.write("job.yaml", HEAD.format(dtype="float32") + "      best: {op: top_k, in: x, k: 1}\n    returns: {value: best}\n"
                   "    hooks: [{watch: best.indices}]\n")
        self.flowrun("j", "job.yaml", "-o", "out")
        np.testing.assert_array_equal(self.load("out/watch/best.indices/value.npy")[0], self.x.argmax(2)[..., None])

    def test_picking(self):
        hot = np.where(self.n[:, None] == np.arange(4), 3, -1)
        self.check({
            "rows": "op: gather, params: x, indices: n", "columns": "op: gather, in: x, indices: n, axis: 1",
            "hot": "op: one_hot, in: n, depth: 4, on_value: 3, off_value: -1, dtype: int32", "seven": "op: constant, value: 7, shape: [2], dtype: uint8",
        }, {"rows": self.x[self.n], "columns": self.x[:, self.n], "hot": hot.astype(np.int32), "seven": np.full(2, 7, np.uint8)})

    def test_inputs_of_sixteen_bits_move_and_are_cast(self):
        x = np.random.default_rng(4).uniform(-65000, 65000, (4, 3, 6))
        half = x.astype(np.float16)
        self.check({"turned": "op: transpose, in: x", "wide": "op: cast, in: turned, dtype: float32"},
                   {"turned": half.T, "wide": half.T.astype(np.float32)}, dtype="float16", x=x)
        bits = x.astype(np.float32).view(np.uint32)
        brain = (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)
        self.check({"wide": "op: cast, in: x, dtype: float32", "whole": "op: cast, in: x, dtype: int32", "nonzero": "op: cast, in: x, dtype: bool"},
                   {"wide": brain, "whole": brain.astype(np.int32), "nonzero": brain != 0}, dtype="bfloat16", x=x.astype(np.float32))

    def test_an_index_out_of_range_stops_the_run(self):
        bad = np.array([2, 0, 4, 1, -1])
        for entry, limit in (("op: gather, params: x, indices: n", 4), ("op: one_hot, in: n, depth: 3", 3),
                             ("op: embedding, in: n, vocab_size: 4, units: 2", 4)):
            np.save(self.dir / "x.npy", self.x)
            np.save(self.dir / "n.npy", bad)
            self.write("job.yaml", HEAD.format(dtype="float32") + f"      y: {{{entry}}}\n    returns: {{value: y}}\n")
            message = self.flowrun("j", "job.yaml", "-o", "out", "--force", "--load", "none", status=3).stderr
            self.assertIn(f"job.yaml:9:15: step 0: `n` contains 4 at row 2; expected a value in [0, {limit})", message)

    def test_the_largest_and_least_indices_stop_the_run(self):
        np.save(self.dir / "x.npy", self.x)
        for bad in (2**63 - 1, -2**63):
            np.save(self.dir / "n.npy", np.array([2, 0, bad, 1, 1]))
            for precision in ("float32", "float64"):
                for entry in ("op: gather, params: x, indices: n", "op: one_hot, in: n, depth: 3", "op: embedding, in: n, vocab_size: 4, units: 2",
                              "op: sparse_softmax_cross_entropy_with_logits, labels: n, logits: l", "op: scatter_add, in: l, indices: n, updates: l",
                              "op: scatter_update, in: l, indices: n, updates: l", "op: take_along_axis, in: m, indices: n, axis: 0",
                              "op: put_along_axis, in: m, indices: n, updates: m, axis: 0", "op: scatter_nd, in: l, indices: i, updates: l",
                              "op: gather_nd, in: l, indices: i"):
                    self.write("job.yaml", HEAD.format(dtype="float32").replace("type: predict", f"type: predict\n    precision: {precision}") + f"""
      l: {{op: constant, value: 1, shape: [5, 4]}}
      m: {{op: constant, value: 1, shape: [5]}}
      i: {{op: reshape, in: n, shape: [5, 1]}}
      y: {{{entry}}}
    returns: {{value: y}}
""")
                    message = self.flowrun("j", "job.yaml", "-o", "out", "--force", "--load", "none", status=3).stderr
                    self.assertRegex(message, rf"step 0: `.*` contains {bad} at row 2|step 0: `.*` contains {bad} at \[2, 0\]", entry)

    def test_an_embedding_and_a_variable_learn(self):
        self.write("job.yaml", """flow: 1
jobs:
  train:
    type: train
    inputs: {n: {shape: [6], dtype: int32, from: {npy: n.npy}}, y: {shape: [6, 2], dtype: float32, from: {npy: y.npy}}}
    graph:
      e: {op: embedding, in: n, vocab_size: 5, units: 2, embeddings_initializer: zeros}
      b: {op: variable, shape: [2], initializer: ones}
      s: {op: add, in: [e, b]}
      loss: {op: multiply, in: [s, y]}
    optimizer: {type: sgd, learning_rate: 1, minimize: loss}
    run: {steps: 1}
""")
        n, y = np.array([3, 1, 3, 0, 3, 1], np.int32), np.arange(12, dtype=np.float32).reshape(6, 2)
        np.save(self.dir / "n.npy", n)
        np.save(self.dir / "y.npy", y)
        self.flowrun("train", "job.yaml", "-o", "out")
        weight = np.zeros((5, 2))
        np.add.at(weight, n, -y / 12)
        saved = self.checkpoint("out")
        np.testing.assert_allclose(np.load(saved / "e/weight.npy"), weight, rtol=1e-6)
        np.testing.assert_allclose(np.load(saved / "b.npy"), 1 - y.sum(0) / 12, rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
