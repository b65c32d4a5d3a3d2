"""LeNet and the MLP against PyTorch in float64 and OneFlow in float32: initial values, masks, losses, gradients, updates."""
import re
import unittest

import numpy as np

from flow import JOBS, FlowTest, golden_arrays, part_of, relative

NETS = {"lenet": ["conv1", "conv2", "dense1", "dense2"], "mlp": ["hidden", "output"]}


def base_names(golden):
    """Names of golden arrays, without the suffixes of those that are cut down."""
    return sorted({re.sub("_(rowsum|colsum|every401)$", "", name) for name in golden})


def pairs(golden, name, array):
    """(what, ours, golden) of one array, or of its three parts."""
    if name in golden:
        return [(name, array, golden[name])]
    rows = array.reshape(array.shape[0], -1)
    parts = {"_rowsum": rows.sum(1, dtype=np.float64), "_colsum": rows.sum(0, dtype=np.float64), "_every401": rows.reshape(-1)[::401]}
    return [(name + s, a, golden[name + s]) for s, a in parts.items()]


class GoldenSteps(FlowTest):
    def train(self, net, precision, steps, *more, env=None):
        watches = ["--watch", net]
        for kind in ("weight", "bias"):
            watches += ["--watch", f"{net}/*/{kind}:1000", "--watch-diff", f"{net}/*/{kind}:1000"]
        self.flowrun("train", JOBS / f"{net}.yaml", "-o", "out", "--set", f"jobs.train.precision={precision}", "--steps", steps,
                     "--watch-diff", net, "--set", "jobs.train.returns.to=npy", *watches, *more, env=env)

    def check(self, golden, name, array, tolerance):
        for what, ours, expected in pairs(golden, name, array):
            self.assertEqual(ours.shape, expected.shape, what)
            self.assertLessEqual(relative(ours, expected), tolerance, what)

    def check_step_0(self, net, golden, tolerance, initial_too=True):
        self.check(golden, "loss", self.load("out/returns/loss/value.npy")[0], tolerance)
        self.check(golden, "logits", self.load(f"out/watch/{net}/value.npy")[0], tolerance)
        gradients, initial = part_of(golden, "diff_of_sum"), part_of(golden, "initial")
        for name in base_names(gradients):
            path = f"out/watch/{net}/diff.npy" if name == "logits" else f"out/watch/{net}/{name}/diff.npy"
            self.check(gradients, name, self.load(path)[0], tolerance)
        if initial_too:
            for name in base_names(initial):
                self.check(initial, name, self.load(f"out/watch/{net}/{name}/value.npy")[0], 0)

    def float64(self, net):
        self.train(net, "float64", 10)
        golden = golden_arrays(f"mnist/{net}")
        self.check_step_0(net, golden, 1e-9)
        losses = np.array([line["loss"] for line in self.metrics("out")])
        self.check(golden, "mean_loss_of_10_steps", losses, 1e-9)
        self.flowrun("train", JOBS / f"{net}.yaml", "-o", "five", "--set", "jobs.train.precision=float64", "--steps", 5)
        after = part_of(golden, "after_5_steps")
        for name in base_names(after):
            self.check(after, name, np.load(self.checkpoint("five") / net / (name + ".npy")), 1e-9)

    def float32(self, net):
        self.train(net, "float32", 1)
        golden = golden_arrays(f"mnist/{net}")
        self.check_step_0(net, golden, 5e-6)
        self.check_step_0(net, part_of(golden, "oneflow"), 5e-6, initial_too=False)

    def predict(self, net):
        self.flowrun("eval", JOBS / f"{net}.yaml", "-o", "eval", "--load", "none", "--steps", 1)
        self.check(golden_arrays(f"mnist/{net}"), "predict_logits", self.load(f"eval/returns/{net}/value.npy"), 5e-6)

    def test_lenet_in_float64_agrees_over_ten_steps(self): self.float64("lenet")

    def test_mlp_in_float64_agrees_over_ten_steps(self): self.float64("mlp")

    def test_lenet_in_float64_agrees_on_cpus_of_narrower_vectors(self):
        for instructions in ("AVX2", "SSE41"):
            self.train("lenet", "float64", 1, "--force", env={"ONEDNN_MAX_CPU_ISA": instructions})
            self.check_step_0("lenet", golden_arrays("mnist/lenet"), 1e-9)

    def test_lenet_in_float32_agrees_at_step_0(self): self.float32("lenet")

    def test_mlp_in_float32_agrees_at_step_0(self): self.float32("mlp")

    def test_mlp_in_float32_stays_close_for_ten_steps(self):
        self.train("mlp", "float32", 10)
        losses = np.array([line["loss"] for line in self.metrics("out")])
        self.check(golden_arrays("mnist/mlp"), "mean_loss_of_10_steps", losses, 1e-6)

    def test_predictions_of_the_initial_values_agree(self):
        self.predict("lenet")
        self.flowrun("eval", JOBS / "mlp.yaml", "-o", "mlp", "--load", "none", "--steps", 1)
        self.check(golden_arrays("mnist/mlp"), "predict_logits", self.load("mlp/returns/mlp/value.npy"), 5e-6)

    def test_the_dropout_mask_is_the_golden_one(self):
        self.flowrun("train", JOBS / "lenet.yaml", "-o", "out", "--steps", 1, "--watch", "lenet/drop.mask")
        mask = self.load("out/watch/lenet/drop.mask/value.npy")[0]
        np.testing.assert_array_equal(mask, golden_arrays("mnist/lenet")["drop_keep"])


if __name__ == "__main__":
    unittest.main()
