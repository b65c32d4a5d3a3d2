"""jobs/lora.yaml and jobs/lora_llama.yaml: against adapters of PEFT on GPT-2 and Llama of transformers in float64, out under PEFT's names,
and in again."""
import shutil
import unittest

import numpy as np

from flow import JOBS, FlowTest, golden_arrays
from weights_test import read_safetensors, safetensors

SMALL = {"vocabulary": 30, "context": 6, "width": 8, "layers": 2, "batch": 3, "rank": 2, "alpha": 6, "precision": "float64", "steps": 10,
         "prompts": 3, "temperature": 0, "end": -1}


def bfloat16(array):
    """Code and bits of numbers that bfloat16 has."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    assert not (bits & 0xffff).any()
    return "BF16", (bits >> 16).astype(np.uint16)


class Adapted:
    """Adapters of a job."""
    BASE = JOB = NET = ""     # the file of the base, that with adapters, the entry of the network
    VALUES = {}               # what differs from the defaults, and from the other job
    PEFT = FLOW = ""          # names of the adapters: of a layer, a projection if there are several, and A or B
    PROJECTIONS = ("",)
    ROUNDED = 0               # matrices and vectors of the base

    def setUp(self):
        super().setUp()
        for job in (self.BASE, self.JOB):
            shutil.copy(JOBS / job, self.dir)
        self.arrays = golden_arrays(f"lora/{self.BASE.removesuffix('.yaml')}")
        self.adapters = {self.PEFT.format(layer=layer, of=of, part=part): self.FLOW.format(layer=layer, of=of, part=part)
                         for layer in range(2) for of in self.PROJECTIONS for part in "AB"}
        np.save(self.dir / "window.npy", self.arrays["window"])
        np.save(self.dir / "tokens.npy", self.arrays["window"][:, :-1])
        base = self.named("base")
        safetensors(self.dir / "base.safetensors", {name: bfloat16(array) for name, array in base.items()})
        safetensors(self.dir / "wide.safetensors", base)
        safetensors(self.dir / "adapter.safetensors", self.named("before"))

    def named(self, kind):
        return {name.partition("/")[2]: array for name, array in self.arrays.items() if name.startswith(kind + "/")}

    def sets(self, **values):
        return [word for name, value in {**SMALL, **self.VALUES, **values}.items() for word in ("--set", f"vars.{name}={value}")]

    def train(self, out, *words, base="base.safetensors", **values):
        return self.flowrun("train", self.JOB, "-o", out, "--load", base, "--load", "adapter.safetensors", *self.sets(**values),
                            "--set", "jobs.train.inputs.window.from={npy: window.npy}", "--set", "jobs.train.optimizer={type: adam, learning_rate: 0.01, "
                            "minimize: loss, variables: ['**/lora_*/weight']}", *words)

    def predict(self, out, *loads):
        self.flowrun("predict", self.JOB, "-o", out, *(word for path in loads for word in ("--load", path)), *self.sets(), "--quiet",
                     "--set", "jobs.predict.inputs.tokens.shape=[3, 6]", "--input", "tokens=@tokens.npy")
        return self.load(f"{out}/returns/{self.NET}/value.npy")

    def check(self, what, got, expected, tolerance=1e-9):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max(), err_msg=what)

    def test_logits_gradients_and_updates_agree_with_peft(self):
        """In float64, with a base in bfloat16, the same widened, and one in float32 that is kept in bfloat16."""
        watched = ("--watch", self.NET, "--watch-diff", "**/lora_*/weight")
        for base, dtype in (("base.safetensors", "bfloat16"), ("wide.safetensors", "job"), ("wide.safetensors", "bfloat16")):
            with self.subTest(base=base, dtype=dtype):
                done = self.train("out", *watched, "--force", base=base, base_dtype=dtype)
                self.assertEqual(f"rounded {self.ROUNDED} float32 arrays to bfloat16" in done.stderr, base[0] == "w" and dtype == "bfloat16", done.stderr)
                self.check("logits", self.load(f"out/watch/{self.NET}/value.npy")[0], self.arrays["logits"])
                self.check("losses", [line["loss"] for line in self.metrics("out")], self.arrays["losses"])
                labels = self.arrays["logits"][..., 0].size
                for kind in ("diff", "after"):
                    self.assertEqual(set(self.named(kind)), set(self.adapters))
                for theirs, ours in self.adapters.items():
                    self.check(theirs, self.load(f"out/watch/{ours}/diff.npy")[0] / labels, self.named("diff")[theirs])
                    self.check(theirs, np.load(self.checkpoint("out") / f"{ours}.npy"), self.named("after")[theirs])

    def test_the_adapter_has_the_names_of_peft_and_loads_again(self):
        self.train("out")
        self.call("flowc", "export", "out", "-o", "tuned.safetensors", "--names", self.JOB, "--job", "train", "--only", "**/lora_*/weight", *self.sets())
        tuned = read_safetensors(self.dir / "tuned.safetensors")[0]
        self.assertEqual({name: array.shape for name, array in tuned.items()}, {name: array.shape for name, array in self.named("after").items()})
        for theirs, ours in self.adapters.items():
            np.testing.assert_array_equal(tuned[theirs], np.load(self.checkpoint("out") / f"{ours}.npy"))
        both = self.predict("both", "base.safetensors", "tuned.safetensors")
        np.testing.assert_array_equal(self.predict("run", "out"), both)
        np.testing.assert_array_equal(self.predict("run_and_file", "out", "tuned.safetensors"), both)
        self.assertGreater(np.abs(both[0] - self.arrays["logits"]).max(), 1e-3)     # the adapter has learned

        listed = self.call("flowc", "names", self.JOB, "base.safetensors", "adapter.safetensors", "--job", "train", *self.sets())
        count = len(self.named("base")) + len(self.adapters)
        self.assertIn(f"{count} variables of job `train`: {count} matched, 0 without an array, 0 that do not fit", listed.stdout)

    def test_adapters_learn_tokens(self):
        np.save(self.dir / "windows.npy", np.tile(np.arange(7, dtype=np.int32) % 5, (40, 1)))
        self.flowrun("train_tokens", self.JOB, "-o", "out", *self.sets(precision="float32", rank=8, alpha=64, steps=60, lr=0.05), "--load", "base.safetensors",
                     "--load-partial", "**/lora_*/weight", "--set", "vars.adamw.learning_rate.warmup.steps=1", "--set", "data.tokens.windows.npy=windows.npy", "--quiet")
        losses = [line["loss"] for line in self.metrics("out")]
        self.assertLess(np.mean(losses[-3:]), 0.8 * losses[0])

    def test_base_and_adapter_generate_as_in_transformers(self):
        for name in ("prompt", "lengths"):
            np.save(self.dir / f"{name}.npy", self.arrays[name])
        self.flowrun("generate", self.JOB, "-o", "out", "--load", "base.safetensors", "--load", "adapter.safetensors", *self.sets(), "--quiet",
                     "--set", "data.prompts.tokens.npy=prompt.npy", "--set", "data.prompts.lengths.npy=lengths.npy")
        np.testing.assert_array_equal(self.load("out/returns/token/value.npy"), self.arrays["tokens"])



class Llama(Adapted, FlowTest):
    BASE, JOB, NET = "llama.yaml", "lora_llama.yaml", "llama"
    VALUES = {"heads": 4, "key_heads": 2, "inner": 12, "epsilon": 1e-5, "prompt": 4, "new": 6}
    PEFT = "base_model.model.model.layers.{layer}.self_attn.{of}_proj.lora_{part}.weight"
    FLOW = "llama/blocks/{layer}/attention/{of}_adapter/lora_{part}/weight"
    PROJECTIONS = ("q", "v")
    ROUNDED = 21


class Gpt2(Adapted, FlowTest):
    BASE, JOB, NET = "gpt2.yaml", "lora.yaml", "gpt"
    VALUES = {"heads": 2, "dropout": 0, "prefix": "transformer.", "prompt": 3, "new": 3}
    PEFT = "base_model.model.transformer.h.{layer}.attn.c_attn.lora_{part}.weight"
    FLOW = "gpt/blocks/{layer}/attention/lora_{part}/weight"
    ROUNDED = 28

    def test_the_last_of_several_files_counts(self):
        names = list(self.adapters)
        changed = self.named("before") | {names[0]: self.named("after")[names[0]]}
        safetensors(self.dir / "adapter.safetensors", {names[0]: changed[names[0]]})
        safetensors(self.dir / "first.safetensors", self.named("before"))
        paths = ["base.safetensors", "first.safetensors", "adapter.safetensors"]
        for flags in ([word for path in paths for word in ("--load", path)], ["--set", f"+jobs.train.run.checkpoint.load=[{', '.join(paths)}]"]):
            self.flowrun("train", "lora.yaml", "-o", "out", *flags, "--steps", 1, *self.sets(lr=0), "--quiet", "--force")
            for theirs, ours in self.adapters.items():
                np.testing.assert_array_equal(np.load(self.checkpoint("out") / f"{ours}.npy"), changed[theirs], err_msg=theirs)
        # --load replaces the whole list; a plan keeps it.
        done = self.flowrun("train", "lora.yaml", "-o", "base", *flags, "--load", "base.safetensors", *self.sets(), status=2)
        self.assertIn(": no array", done.stderr)
        self.flowrun("train", "out/plan.json", "-o", "again", "--steps", 1, "--quiet")
        self.assertEqual(self.outputs("again"), self.outputs("out"))

    def test_each_path_of_a_list_has_its_place_in_the_file(self):
        text = (self.dir / "lora.yaml").read_text()
        train = "      gpt: {variable_dtype: $base_dtype}\n"
        for second, expected in (("missing.npz", f"lora.yaml:{{}}:11: {self.dir}/missing.npz does not exist"), ("none", "lora.yaml:{}:11: error: `load` has `none` and other paths [E0704]")):
            listed = f"    run:\n      checkpoint:\n        load:\n        - base.safetensors\n        - {second}\n"
            self.write("lora.yaml", text.replace(train, train + listed, 1))
            line = (self.dir / "lora.yaml").read_text().splitlines().index(f"        - {second}") + 1
            done = self.flowrun("train", "lora.yaml", "-o", "out", *self.sets(), status=2)
            self.assertIn(expected.format(line), done.stderr)

    def test_what_no_file_has_is_an_error(self):
        done = self.flowrun("train", "lora.yaml", "--load", "base.safetensors", "--load", "out", *self.sets(), status=2)
        self.assertIn("--load: out does not exist", done.stderr)
        done = self.flowrun("train", "lora.yaml", "-o", "out", "--load", "base.safetensors", "--load", "base.safetensors", *self.sets(), status=2)
        self.assertIn(f"variable `{self.FLOW.format(layer=0, part='A')}` [2, 8]: no array", done.stderr)
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


if __name__ == "__main__":
    unittest.main()
