"""jobs/lora.yaml: against adapters of PEFT on GPT-2 of transformers in float64, out under PEFT's names, and in again."""
import shutil
import unittest

import numpy as np

from flow import JOBS, SOURCE, FlowTest
from weights_test import read_safetensors, safetensors

SMALL = {"vocabulary": 30, "context": 6, "width": 8, "layers": 2, "heads": 2, "batch": 3, "dropout": 0, "rank": 2, "alpha": 6, "prefix": "transformer.",
         "precision": "float64", "steps": 10}
PEFT = "base_model.model.transformer.h.{}.attn.c_attn.lora_{}.weight"
FLOW = "gpt/blocks/{}/attention/lora_{}/weight"
ADAPTERS = {PEFT.format(layer, part): FLOW.format(layer, part) for layer in range(2) for part in "AB"}


def bfloat16(array):
    """Code and bits of numbers that bfloat16 has."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    assert not (bits & 0xffff).any()
    return "BF16", (bits >> 16).astype(np.uint16)


class Lora(FlowTest):
    def setUp(self):
        super().setUp()
        for job in ("gpt2.yaml", "lora.yaml"):
            shutil.copy(JOBS / job, self.dir)
        with np.load(SOURCE / "tests" / "golden" / "lora" / "lora.npz") as file:
            self.arrays = dict(file)
        np.save(self.dir / "window.npy", self.arrays["window"])
        np.save(self.dir / "tokens.npy", self.arrays["window"][:, :-1])
        base = self.named("base")
        safetensors(self.dir / "base.safetensors", {name: bfloat16(array) for name, array in base.items()})
        safetensors(self.dir / "wide.safetensors", base)
        safetensors(self.dir / "adapter.safetensors", self.named("before"))

    def named(self, kind):
        return {name.partition("/")[2]: array for name, array in self.arrays.items() if name.startswith(kind + "/")}

    def sets(self, **values):
        return [word for name, value in {**SMALL, **values}.items() for word in ("--set", f"vars.{name}={value}")]

    def train(self, out, *words, base="base.safetensors", **values):
        return self.flowrun("train", "lora.yaml", "-o", out, "--load", base, "--load", "adapter.safetensors", *self.sets(**values),
                            "--set", "jobs.train.inputs.window.from={npy: window.npy}", "--set", "jobs.train.optimizer={type: adam, learning_rate: 0.01, "
                            "minimize: loss, variables: ['**/lora_*/weight']}", *words)

    def check(self, what, got, expected, tolerance=1e-9):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max(), err_msg=what)

    def test_logits_gradients_and_updates_agree_with_peft(self):
        """In float64, with a base in bfloat16, the same widened, and one in float32 that is kept in bfloat16."""
        watched = ("--watch", "gpt", "--watch-diff", "**/lora_*/weight")
        for base, dtype in (("base.safetensors", "bfloat16"), ("wide.safetensors", "job"), ("wide.safetensors", "bfloat16")):
            with self.subTest(base=base, dtype=dtype):
                done = self.train("out", *watched, "--force", base=base, base_dtype=dtype)
                self.assertEqual("rounded 28 float32 arrays to bfloat16" in done.stderr, base[0] == "w" and dtype == "bfloat16", done.stderr)
                self.check("logits", self.load("out/watch/gpt/value.npy")[0], self.arrays["logits"])
                self.check("losses", [line["loss"] for line in self.metrics("out")], self.arrays["losses"])
                labels = self.arrays["logits"][..., 0].size
                for kind in ("diff", "after"):
                    self.assertEqual(set(self.named(kind)), set(ADAPTERS))
                for theirs, ours in ADAPTERS.items():
                    self.check(theirs, self.load(f"out/watch/{ours}/diff.npy")[0] / labels, self.named("diff")[theirs])
                    self.check(theirs, np.load(self.checkpoint("out") / f"{ours}.npy"), self.named("after")[theirs])

    def export(self, out, *words):
        self.call("flowc", "export", out, "-o", "tuned.safetensors", "--names", "lora.yaml", "--job", "train", "--only", "**/lora_*/weight", *self.sets(), *words)
        return read_safetensors(self.dir / "tuned.safetensors")[0]

    def test_the_adapter_has_the_names_of_peft_and_loads_again(self):
        self.train("out")
        tuned = self.export("out")
        self.assertEqual({name: array.shape for name, array in tuned.items()}, {name: array.shape for name, array in self.named("after").items()})
        for theirs, ours in ADAPTERS.items():
            np.testing.assert_array_equal(tuned[theirs], np.load(self.checkpoint("out") / f"{ours}.npy"))
        for out, loads in {"both": ["base.safetensors", "tuned.safetensors"], "run": ["out"], "run_and_file": ["out", "tuned.safetensors"]}.items():
            self.flowrun("predict", "lora.yaml", "-o", out, *(word for path in loads for word in ("--load", path)), *self.sets(), "--input", "tokens=@tokens.npy", "--quiet")
        values = [self.load(f"{out}/returns/gpt/value.npy") for out in ("both", "run", "run_and_file")]
        for value in values[1:]:
            np.testing.assert_array_equal(value, values[0])
        self.assertGreater(np.abs(values[0][0] - self.arrays["logits"]).max(), 1e-3)     # the adapter has learned

        listed = self.call("flowc", "names", "lora.yaml", "base.safetensors", "adapter.safetensors", "--job", "train", *self.sets())
        self.assertIn("32 variables of job `train`: 32 matched, 0 without an array, 0 that do not fit", listed.stdout)

    def test_the_last_of_several_files_counts(self):
        names = list(ADAPTERS)
        changed = self.named("before") | {names[0]: self.named("after")[names[0]]}
        safetensors(self.dir / "adapter.safetensors", {names[0]: changed[names[0]]})
        safetensors(self.dir / "first.safetensors", self.named("before"))
        paths = ["base.safetensors", "first.safetensors", "adapter.safetensors"]
        for flags in ([word for path in paths for word in ("--load", path)], ["--set", f"+jobs.train.run.checkpoint.load=[{', '.join(paths)}]"]):
            self.flowrun("train", "lora.yaml", "-o", "out", *flags, "--steps", 1, *self.sets(lr=0), "--quiet", "--force")
            for theirs, ours in ADAPTERS.items():
                np.testing.assert_array_equal(np.load(self.checkpoint("out") / f"{ours}.npy"), changed[theirs], err_msg=theirs)
        # --load replaces the whole list; a plan keeps it.
        done = self.flowrun("train", "lora.yaml", "-o", "base", *flags, "--load", "base.safetensors", *self.sets(), status=2)
        self.assertIn(": no array", done.stderr)
        self.flowrun("train", "out/plan.json", "-o", "again", "--steps", 1, "--quiet")
        self.assertEqual(self.outputs("again"), self.outputs("out"))

    def test_each_path_of_a_list_has_its_place_in_the_file(self):
        text = (self.dir / "lora.yaml").read_text()
        run = "    run: {checkpoint: {names: $names}}"
        for second, expected in (("missing.npz", f"lora.yaml:{{}}:11: {self.dir}/missing.npz does not exist"), ("none", "lora.yaml:{}:11: error: `load` has `none` and other paths [E0704]")):
            listed = f"    run:\n      checkpoint:\n        names: $names\n        load:\n        - base.safetensors\n        - {second}"
            self.write("lora.yaml", text.replace(run, listed))
            line = (self.dir / "lora.yaml").read_text().splitlines().index(f"        - {second}") + 1
            done = self.flowrun("train", "lora.yaml", "-o", "out", *self.sets(), status=2)
            self.assertIn(expected.format(line), done.stderr)

    def test_what_no_file_has_is_an_error(self):
        done = self.flowrun("train", "lora.yaml", "--load", "base.safetensors", "--load", "out", *self.sets(), status=2)
        self.assertIn("--load: out does not exist", done.stderr)
        done = self.flowrun("train", "lora.yaml", "-o", "out", "--load", "base.safetensors", "--load", "base.safetensors", *self.sets(), status=2)
        self.assertIn(f"variable `{FLOW.format(0, 'A')}` [2, 8]: no array", done.stderr)
        done = self.flowrun("train", "lora.yaml", "-o", "out", "--load", "none", "--load", "base.safetensors", *self.sets(), status=2)
        self.assertIn("--load: `none` and other paths", done.stderr)
        done = self.flowrun("train", "lora.yaml", "-o", "out", "--load", "base.safetensors", "--load", "adapter.safetensors", "--ema", *self.sets(), status=2)
        self.assertIn("--ema takes averages of one checkpoint; found 2 paths to load", done.stderr)

    def test_a_new_adapter_starts_as_the_base(self):
        flags = ("--load", "base.safetensors", *self.sets(), "--input", "tokens=@tokens.npy", "--quiet")
        self.flowrun("predict", "lora.yaml", "-o", "lora", "--load-partial", "**/lora_*/weight", *flags)
        self.write("base.yaml", "flow: 1\ninclude: [lora.yaml]\nnetworks: {attention: {graph: {split: {in: qkv}}}}\n")
        self.flowrun("predict", "base.yaml", "-o", "base", "--load-partial", "**/lora_*/weight", *flags)
        np.testing.assert_array_equal(self.load("lora/returns/gpt/value.npy"), self.load("base/returns/gpt/value.npy"))

    def test_adapters_learn_tokens(self):
        np.save(self.dir / "windows.npy", np.tile(np.arange(7, dtype=np.int32) % 5, (40, 1)))
        self.flowrun("train_tokens", "lora.yaml", "-o", "out", *self.sets(precision="float32", rank=8, alpha=64, steps=60, lr=0.05), "--load", "base.safetensors",
                     "--load-partial", "**/lora_*/weight", "--set", "vars.adamw.learning_rate.warmup.steps=1", "--set", "data.tokens.windows.npy=windows.npy", "--quiet")
        losses = [line["loss"] for line in self.metrics("out")]
        self.assertLess(np.mean(losses[-3:]), 0.8 * losses[0])


if __name__ == "__main__":
    unittest.main()
