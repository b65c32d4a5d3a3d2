"""cuDNN has engines with tensor cores for the attention of GPT-2 and its gradients on every described device, also with lengths or a bias."""
import os
import pathlib
import subprocess
import sys
import unittest

PROGRAM, DRIVER = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
HERE = pathlib.Path(__file__).resolve().parent
JOB = HERE.parent.parent / "jobs/gpt2.yaml"
FORWARD, GRADIENTS = "scaled_dot_product_attention", "scaled_dot_product_attention_grad"

# Where the gradients of cuDNN 9.19 that repeat bit for bit store a 16-bit number for each query and key.
STORES_SCORES = {"a100", "h100", "rtx5090"}
# What has no engine of which each run has the same bits.
REFUSED = {("b200", f"{GRADIENTS} with a bias")}


class Engines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run([PROGRAM, HERE / "targets", JOB], env={**os.environ, "LD_LIBRARY_PATH": str(DRIVER.parent)},
                              capture_output=True, text=True, check=True)
        cls.lines = [line.split(" | ") for line in done.stdout.splitlines()]

    def test_every_device_has_engines(self):
        devices = {path.stem for path in (HERE / "targets").glob("*.json")}
        self.assertGreaterEqual(len(devices), 4)
        self.assertEqual({(line[0], line[1]) for line in self.lines},
                         {(device, f"{op}{more}") for device in devices for op in (FORWARD, GRADIENTS) for more in ("", " with lengths", " with a bias")})
        for device, op, engine, _, _ in self.lines:
            if (device, op) in REFUSED:
                self.assertRegex(engine, r"^cuDNN [\d.]+: ", f"{device} {op}")
            else:
                self.assertRegex(engine, r"^cuDNN eng\d+.*, tensor cores$", f"{device} {op}")

    def test_no_forward_pass_stores_the_scores(self):
        for device, op, _, workspace, scores in self.lines:
            if op.split()[0] == FORWARD:
                self.assertLess(int(workspace), int(scores) // 100, device)

    def test_which_gradients_store_the_scores(self):
        stored = {device for device, op, _, workspace, scores in self.lines if op == GRADIENTS and int(workspace) >= int(scores)}
        self.assertEqual(stored, STORES_SCORES)


if __name__ == "__main__":
    unittest.main()
