"""Two shards of a batch against PyTorch: DistributedDataParallel on two processes, and gradient accumulation in one."""
import shutil
import subprocess
import unittest

import numpy as np

import launchers
from flow import BIN, SOURCE, FlowTest, golden_arrays, part_of

TOLERANCE = {"float64": 1e-12, "float32": 5e-6}  # PyTorch's own two runs in float32 differ by 5e-7


class DistributedDataParallel(FlowTest):
    """tests/golden/ddp/make/make.py: five steps of a convolution, batch normalization and a dense layer."""

    def setUp(self):
        super().setUp()
        self.golden = golden_arrays("ddp/ddp")
        for name, array in part_of(self.golden, "data").items():
            self.save(f"data/{name}", array)
        shutil.copy(SOURCE / "tests" / "golden" / "ddp" / "ddp.yaml", self.dir)
        np.savez(self.dir / "initial.npz", **part_of(self.golden, "initial"))

    def words(self, out, precision):
        return ["train", "ddp.yaml", "-o", out, "--load", "initial.npz", "--set", f"vars.precision={precision}", "--watch-diff", "net/*/*:1000"]

    def train_on_ranks(self, launcher, out, precision):
        done = subprocess.run([*launchers.launch(launcher, 2), BIN / "flowrun", *self.words(out, precision), "--distributed", "--threads", "1"],
                              cwd=self.dir, capture_output=True, text=True, timeout=300, env=launchers.environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check(self, out, precision):
        tolerance = TOLERANCE[precision]
        for kind in ("ddp", "accumulation"):
            for part, ours in (("returns", self.dir / out / "returns"), ("watch", self.dir / out / "watch"), ("checkpoint", self.checkpoint(out))):
                for name, golden in part_of(self.golden, f"{kind}/{precision}/{part}").items():
                    np.testing.assert_allclose(np.load(ours / f"{name}.npy"), golden,
                                               rtol=tolerance, atol=tolerance, err_msg=f"{kind} {precision} {part}/{name}")

    def check_moving_statistics(self, out, precision):
        """DistributedDataParallel keeps those of rank 0; these are the mean of all shards'."""
        mean, variance = np.zeros(4), np.ones(4)
        for of_shards in self.golden[f"ddp/{precision}/statistics"].astype(np.float64):
            mean = 0.9 * mean + 0.1 * of_shards[:, 0].mean(axis=0)
            variance = 0.9 * variance + 0.1 * of_shards[:, 1].mean(axis=0) * 36 / 35  # a channel of a shard: 4 x 3 x 3
        for name, expected in (("moving_mean", mean), ("moving_variance", variance)):
            np.testing.assert_allclose(np.load(self.checkpoint(out) / "net/bn" / f"{name}.npy"), expected,
                                       rtol=TOLERANCE[precision], atol=TOLERANCE[precision], err_msg=name)

    def test_one_process_agrees(self):
        for precision in TOLERANCE:
            self.flowrun(*self.words(precision, precision))
            self.check(precision, precision)
            self.check_moving_statistics(precision, precision)

    def test_one_shard_does_not_agree(self):
        """Statistics of the whole batch are others: the arrays distinguish them."""
        self.flowrun(*self.words("whole", "float64"), "--set", "vars.shards=1")
        whole, golden = self.load("whole/returns/loss/value.npy"), self.golden["ddp/float64/returns/loss/value"]
        self.assertGreater(np.abs(whole - golden)[0].max(), 1e-2)

    def test_two_ranks_agree_and_are_bit_identical_to_one_process(self):
        if reason := launchers.missing(BIN):
            self.skipTest(reason)
        for precision in TOLERANCE:
            self.flowrun(*self.words(f"one-{precision}", precision))
            for launcher in launchers.available(BIN):
                out = f"{launcher}-{precision}"
                self.train_on_ranks(launcher, out, precision)
                self.check(out, precision)
                self.assertEqual(self.state(self.checkpoint(out)), self.state(self.checkpoint(f"one-{precision}")))
                for folder in ("returns", "watch"):
                    self.assertEqual(self.files(f"{out}/{folder}"), self.files(f"one-{precision}/{folder}"))


if __name__ == "__main__":
    unittest.main()
