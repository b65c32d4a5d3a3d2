"""The jobs in jobs/, run as their comments say, and what they print."""
import os
import pathlib
import re
import sys
import unittest

import numpy as np

from flow import JOBS, FlowTest

NUMBER = r"-?\d+\.\d*(?:e[+-]\d+)?"


class Jobs(FlowTest):
    def flowrun(self, *words, **options):
        """With this Python, which has NumPy, as the `python3` of hooks."""
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        return super().flowrun(*words, env={"PATH": path}, **options)

    def test_every_job_file_compiles(self):
        for file in sorted(JOBS.glob("*.yaml")):
            self.assertEqual(self.call("flowc", "check", file).stderr, "")

    def test_relu_watch_prints_ten_numbers_and_what_relu_makes_of_them(self):
        done = self.flowrun(JOBS / "relu_watch.yaml", "-o", "out")
        shown = re.fullmatch(r"in: \[([^\]]*)\]\nout: \[([^\]]*)\]\n", done.stdout)
        before, after = (np.array(text.split(), np.float32) for text in shown.groups())
        self.assertEqual(before.shape, (10,))
        self.assertTrue((before >= -1).all() and (before < 1).all() and (before < 0).any() and (before > 0).any())
        np.testing.assert_array_equal(np.maximum(before, 0), after)

    def test_mlp_watch_diff_tells_the_logits_and_their_gradient_in_this_order_every_time(self):
        for run in range(5):
            done = self.flowrun("train", JOBS / "mlp_watch_diff.yaml", "-o", f"out{run}", "--set", f"seed={run}")
            self.assertEqual(done.stdout, "logits (8, 10) float32\nlogits_grad (8, 10) float32\n")

    def test_mlp_watch_diff_prints_the_gradient_itself(self):
        done = self.flowrun("values", JOBS / "mlp_watch_diff.yaml", "-o", "out", "--watch", "logits", "--watch", "labels")
        text = re.fullmatch(r"logits_grad: \[(\[.*\])\] \(100, 10\) float32\n", done.stdout, re.S)[1]
        printed = np.array([row.split() for row in re.findall(r"\[([^\]]*)\]", text)], np.float64)
        logits = self.load("out/watch/logits/value.npy")[0].astype(np.float64)
        softmax = np.exp(logits - logits.max(1, keepdims=True))
        softmax /= softmax.sum(1, keepdims=True)
        softmax[np.arange(100), self.load("out/watch/labels/value.npy")[0]] -= 1
        np.testing.assert_allclose(printed, softmax, rtol=1e-4, atol=1e-6)

    def test_mlp_watch_scope_lists_all_of_the_output_layer_by_name(self):
        done = self.flowrun(JOBS / "mlp_watch_scope.yaml", "-o", "out")
        values = {"bias": "(10,)", "bias_add": "(8, 10)", "matmul": "(8, 10)", "weight": "(10, 512)"}
        lines = [f"mlp/output/{name}{gradient} {shape} float32" for name, shape in values.items() for gradient in ("", " gradient")]
        self.assertEqual(done.stdout.splitlines(), sorted(lines))

    def test_mlp_async_prints_and_computes_what_the_synchronous_job_does(self):
        for name in ("mlp", "mlp_async"):
            self.flowrun("train", JOBS / f"{name}.yaml", "-o", name, "--steps", "200")
        weights = [self.files(f"{name}/checkpoints/000200")["mlp/output/weight.npy"] for name in ("mlp", "mlp_async")]
        self.assertEqual(*weights)
        printed = self.flowrun("train", JOBS / "mlp_async.yaml", "-o", "again", "--steps", "200", "--quiet").stdout.splitlines()
        losses = [line["loss"] for line in self.metrics("mlp")][::20]
        np.testing.assert_allclose([float(line.removeprefix("loss: ")) for line in printed], losses, rtol=1e-6)

        told = self.flowrun("eval", JOBS / "mlp_async.yaml", "-o", "eval", "--load", "mlp_async", "--quiet").stdout
        counted = self.flowrun("accuracy", JOBS / "mlp.yaml", "-o", "accuracy", "--load", "mlp", "--quiet").stdout
        self.assertRegex(told, r"^accuracy: \d\d\.\d%\n$")
        self.assertEqual(told, f"accuracy: {float(counted.removeprefix('accuracy: ')):.1f}%\n")

    def test_lenet_is_judged_by_a_program_as_by_the_job_itself(self):
        self.flowrun("train", JOBS / "lenet.yaml", "-o", "train", "--steps", "60", "--quiet")
        counted = self.flowrun("accuracy", JOBS / "lenet.yaml", "-o", "a", "--load", "train", "--quiet").stdout
        told = self.flowrun("hook_accuracy", JOBS / "lenet.yaml", "-o", "b", "--load", "train", "--quiet").stdout
        per_cent = float(re.fullmatch(r"accuracy: (\d+\.\d\d)\n", counted)[1])
        self.assertEqual(told, f"accuracy: {per_cent:.1f}%\n")
        self.assertGreater(per_cent, 80)

    def test_hooks_look_on_save_and_stop(self):
        done = self.flowrun(JOBS / "hooks.yaml", "-o", "out")
        stopped = int(re.search(r"the loss is below 0.1 at step (\d+)\n", done.stdout)[1])
        self.assertTrue(100 < stopped < 1000, stopped)
        self.assertIn(f"stopped by a command after {stopped + 1} steps", done.stderr)
        means = re.findall(rf"^(\d+) ({NUMBER})$", done.stdout, re.M)
        self.assertEqual([int(step) for step, _ in means], list(range(0, stopped + 1, 50)))
        self.assertGreater(float(means[0][1]), float(means[-1][1]))
        for step in range(0, stopped + 1, 100):
            self.assertEqual(self.load(f"out/weight_{step}.npy").shape, (16, 2))
        self.assertEqual(self.checkpoint("out").name, f"{stopped + 1:06}")

        self.flowrun(JOBS / "hooks.yaml", "-o", "alone", "--no-commands", "--steps", stopped + 1)
        self.assertEqual(self.files("alone/checkpoints"), {**self.files("out/checkpoints"), **self.records("alone")})

    def records(self, run):
        """The records of a run's checkpoints, which name the plan."""
        return {name: content for name, content in self.files(f"{run}/checkpoints").items() if name.endswith(".json")}


if __name__ == "__main__":
    unittest.main()
