"""What --load takes beside checkpoints: variables by name in an .npz."""
import unittest

import numpy as np

from flow import FlowTest

JOB = """
flow: 1
jobs:
  eval:
    type: predict
    inputs: {x: {shape: [2, 3], dtype: float32, from: {type: iota}}}
    graph:
      body: {op: dense, in: x, units: 4, kernel_initializer: ones}
      head: {op: dense, units: 2, kernel_initializer: ones}
    returns: {value: head}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Npz(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)
        random = np.random.default_rng(5)
        self.weights = {"body/weight": random.integers(-3, 4, (4, 3)).astype(np.float32), "body/bias": np.full(4, 2, np.float32),
                        "head/weight": random.integers(-3, 4, (2, 4)).astype(np.float32), "head/bias": np.zeros(2, np.float32)}

    def refused(self, file, *flags, status=2):
        return self.flowrun("job.yaml", "-o", "refused", "--load", file, *flags, status=status).stderr

    def test_arrays_are_variables_stored_or_packed_in_any_order_and_width(self):
        w = self.weights
        expected = (X @ w["body/weight"].T + w["body/bias"]) @ w["head/weight"].T
        np.savez(self.dir / "stored.npz", **w, another=np.zeros(3))
        np.savez_compressed(self.dir / "packed.npz", **w)
        np.savez(self.dir / "wide.npz", **{name: np.asfortranarray(value.astype(np.float64)) for name, value in w.items()})
        for file in ("stored.npz", "packed.npz", "wide.npz"):
            self.flowrun("job.yaml", "-o", file[:-4], "--load", file)
            np.testing.assert_array_equal(self.load(f"{file[:-4]}/returns/head/value.npy")[0], expected)

    def test_the_job_file_may_name_it(self):
        np.savez(self.dir / "w.npz", **self.weights)
        self.flowrun("job.yaml", "-o", "out", "--set", "jobs.eval.run.checkpoint.load=w.npz")
        self.flowrun("job.yaml", "-o", "same", "--load", "w.npz")
        np.testing.assert_array_equal(self.load("out/returns/head/value.npy"), self.load("same/returns/head/value.npy"))

    def test_what_does_not_fit_is_told_with_both_lists_or_starts_anew(self):
        np.savez(self.dir / "body.npz", **{"body/weight": self.weights["body/weight"], "body/bias": self.weights["body/bias"],
                                           "fc.weight": self.weights["head/weight"], "head/bias": np.zeros(2, np.int64)})
        told = self.refused("body.npz")
        self.assertIn("body.npz does not match: 2 of 4 variables are missing or have a different shape\n  job `eval` has\n", told)
        self.assertIn("\n  ! head/weight [2, 4] float32\n", told)
        self.assertIn("\n  the loaded file has\n", told)
        self.assertIn("\n    fc.weight [2, 4] float32\n", told)
        self.assertIn("\n  ! head/bias [2] int64\n", told)
        told = self.refused("body.npz", "--load-partial", "head/weight")
        self.assertIn("body.npz does not match: 1 of 3 variables are missing or have a different shape\n", told)
        self.assertNotIn("head/weight [2, 4]", told)
        done = self.flowrun("job.yaml", "-o", "out", "--load", "body.npz", "--load-partial", "head/*")
        self.assertIn("not loaded, initialized instead: `head/weight`, `head/bias`", done.stderr)
        hidden = X @ self.weights["body/weight"].T + 2
        np.testing.assert_array_equal(self.load("out/returns/head/value.npy")[0], np.repeat(hidden.sum(1, keepdims=True), 2, 1))

    def test_what_has_no_variable_of_the_job_is_refused_in_any_case(self):
        np.savez(self.dir / "torch.npz", **{"body.weight": self.weights["body/weight"]})
        for flags in ((), ("--load-partial", "**")):
            told = self.refused("torch.npz", *flags)
            self.assertIn("torch.npz does not match: 4 of 4 variables", told)
            self.assertIn("\n    body.weight [4, 3] float32\n   hint: map the names of the arrays with `names`", told)

    def test_other_files_are_refused_by_name(self):
        np.save(self.dir / "w.npy", X)
        self.assertIn("flowrun: error: --load: w.npy is not a checkpoint, a .safetensors file or an .npz\n", self.refused("w.npy"))
        self.assertIn("numpy.savez(", self.refused("w.npy"))
        self.assertIn("--load: absent.npz does not exist", self.refused("absent.npz"))
        np.savez(self.dir / "none.npz")
        self.assertIn("none.npz has no arrays", self.refused("none.npz"))
        np.savez(self.dir / "outside.npz", **{"../body/weight": X})
        self.assertIn("outside.npz: invalid variable name `../body/weight`", self.refused("outside.npz"))
        np.savez(self.dir / "objects.npz", **{"body/weight": np.array([{}], dtype=object)})
        self.assertIn("objects.npz: `body/weight`", self.refused("objects.npz", status=3))
        np.savez(self.dir / "w.npz", **self.weights)
        content = bytearray((self.dir / "w.npz").read_bytes())
        content[content.find(self.weights["body/weight"].tobytes())] ^= 1
        (self.dir / "w.npz").write_bytes(content)
        self.assertIn("w.npz is damaged: the checksum of", self.refused("w.npz", status=3))
        self.assertFalse((self.dir / "refused/returns").exists())


class PyTorch(FlowTest):
    """The names and layouts that docs/guide/checkpoints.md gives for weights from PyTorch."""

    def test_linear_and_batch_norm_keep_their_layouts(self):
        random = np.random.default_rng(3)
        shapes = {"fc.weight": (8, 4), **{name: 8 for name in ["fc.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]}}
        state = {name: random.uniform(0.5, 2, shape).astype(np.float32) for name, shape in shapes.items()}
        np.savez(self.dir / "weights.npz", **{
            "net/fc/weight": state["fc.weight"], "net/fc/bias": state["fc.bias"], "net/norm/gamma": state["norm.weight"],
            "net/norm/beta": state["norm.bias"], "net/norm/moving_mean": state["norm.running_mean"],
            "net/norm/moving_variance": state["norm.running_var"]})
        x = random.normal(size=(5, 4)).astype(np.float32)
        np.save(self.dir / "x.npy", x)
        self.write("job.yaml", """flow: 1
networks:
  net:
    inputs: [x]
    graph:
      fc: {op: dense, units: 8}
      norm: {op: batch_normalization, epsilon: 1e-5}
jobs:
  eval:
    type: predict
    inputs: {x: {shape: [5, 4], dtype: float32, from: {npy: x.npy}}}
    graph: {net: {op: net, in: x}}
    returns: {value: net}
""")
        self.flowrun("job.yaml", "-o", "out", "--load", "weights.npz", "--quiet")
        y = x @ state["fc.weight"].T + state["fc.bias"]
        scale = state["norm.weight"] / np.sqrt(state["norm.running_var"].astype(np.float64) + 1e-5)
        expected = (y - state["norm.running_mean"]) * scale + state["norm.bias"]
        np.testing.assert_allclose(self.load("out/returns/net/value.npy")[0], expected, rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
