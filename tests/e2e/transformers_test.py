"""Jobs of today's models against Hugging Face's transformers in float64: their weights go in and out by the rules of the jobs, under the
names of files on the hub, too. Rotary positions and attention against PyTorch, in both precisions."""
import re
import unittest

import numpy as np

from flow import JOBS, FlowTest, golden_arrays, part_of
from weights_test import read_safetensors, safetensors

TOLERANCE = 1e-9
VOCABULARY = 23
LLAMA = {"context": 8, "vocabulary": VOCABULARY, "width": 16, "heads": 4, "key_heads": 2, "layers": 2, "inner": 20, "epsilon": 1e-5, "batch": 3}
# File, train job, name of the network, where its data are, and what differs from the defaults.
MODELS = {
    "gpt2": ("gpt2.yaml", "train_tokens", "gpt", {"window": ["tokens.windows"]},
             {"context": 8, "vocabulary": VOCABULARY, "width": 12, "heads": 2, "layers": 2, "dropout": 0, "batch": 3, "prefix": "transformer."}),
    "llama": ("llama.yaml", "train_tokens", "llama", {"window": ["tokens.windows"]}, LLAMA),
    "bert": ("bert_classify.yaml", "train", "bert", {**{name: [f"texts.{name}"] for name in ("tokens", "types", "lengths")}, "labels": ["labels.labels"]},
             {"context": 7, "vocabulary": VOCABULARY, "positions": 10, "width": 12, "heads": 2, "layers": 2, "inner": 20, "classes": 3, "dropout": 0, "batch": 4}),
    "vit": ("vit.yaml", "train", "vit", {name: [f"mnist_train.{name}", f"mnist_test.{name}"] for name in ("images", "labels")},
            {"size": 8, "channels": 3, "patch": 4, "width": 12, "heads": 2, "layers": 2, "inner": 20, "classes": 5, "batch": 3}),
}
THREE = "query: query, key: key, value: value"
ATTENTION = "op: scaled_dot_product_attention, " + THREE
CALLS = {
    "rope": "op: rope, in: x, positions: positions, layout: pairs, dims: 6, theta: 1000",
    "grouped": ATTENTION + ", causal: true",
    "bias": ATTENTION + ", bias: bias",
    "window": ATTENTION + ", causal: true, window: 2",
    "lengths": ATTENTION + ", bias: bias, lengths: lengths",
}


def sets(values):
    return [word for value in values for word in ("--set", value)]


class Transformers(FlowTest):
    def write_weights(self, arrays):
        safetensors(self.dir / "model.safetensors", part_of(arrays, "before"))

    def check(self, what, got, expected, tolerance=TOLERANCE):
        """Gradients of biases that move all scores of a query alike are 0, but for roundings."""
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * max(np.abs(expected).max(), 0.01), err_msg=what)

    def prepare(self, name, arrays):
        """The job file, and what to set so that its data are the arrays of the reference."""
        file, job, _, inputs, values = MODELS[name]
        self.write_weights(arrays)
        changes = ["vars.precision=float64", f"jobs.{job}.run={{steps: 10, checkpoint: {{names: $names}}}}", f"jobs.{job}.run.shuffle=false", *(f"vars.{key}={value}" for key, value in values.items())]
        for key, columns in inputs.items():
            np.save(self.dir / f"{key}.npy", arrays[key].astype(np.float32) if arrays[key].dtype.kind == "f" else arrays[key])
            changes += [f"data.{column}={{npy: {self.dir}/{key}.npy}}" for column in columns]
        return JOBS / file, changes

    def train(self, name, path, changes, out, steps, rate, *more):
        """Trains; the variables after that, under the names of the reference."""
        job = MODELS[name][1]
        words = sets([*changes, f"jobs.{job}.optimizer={{type: sgd, {rate}, minimize: loss}}"])
        self.flowrun(job, path, "-o", out, "--load", "model.safetensors", "--steps", steps, "--quiet", *words, *more)
        self.call("flowc", "export", out, "-o", f"{out}.safetensors", "--names", path, "--job", job, *words)
        return read_safetensors(self.dir / f"{out}.safetensors")[0]

    def agree(self, name):
        arrays = golden_arrays(f"transformers/{name}")
        network = MODELS[name][2]
        path, changes = self.prepare(name, arrays)
        trained = self.train(name, path, changes, "trained", 10, "learning_rate: 0.05, momentum: 0.9", "--watch", network)
        self.check("logits", self.load(f"trained/watch/{network}/value.npy")[0], arrays["logits"])
        self.check("losses", [line["loss"] for line in self.metrics("trained")], arrays["losses"])
        # A step at a learning rate of 1 subtracts the gradient.
        moved = self.train(name, path, changes, "moved", 1, "learning_rate: 1")
        self.assertEqual(sorted(trained), sorted(key.removeprefix("after/") for key in arrays if key.startswith("after/")))
        for key, after in trained.items():
            self.check(f"after/{key}", after, arrays[f"after/{key}"])
            self.check(f"diff/{key}", arrays[f"before/{key}"] - moved[key], arrays[f"diff/{key}"])

    def test_gpt2(self):
        self.agree("gpt2")

    def test_llama(self):
        self.agree("llama")

    def test_bert(self):
        self.agree("bert")

    def test_vit(self):
        self.agree("vit")

    def loads_from_the_hub(self, name, arrays, hub, *more):
        """The arrays of the reference under the names of the hub. Returns the names of an export."""
        path, changes = self.prepare(name, arrays)
        changes = [change for change in changes if not change.startswith("vars.prefix=")]
        safetensors(self.dir / "model.safetensors", hub)
        trained = self.train(name, path, changes, "trained", 10, "learning_rate: 0.05, momentum: 0.9", *more)
        self.check("losses", [line["loss"] for line in self.metrics("trained")], arrays["losses"])
        return set(trained)

    def test_gpt2_of_the_hub_has_no_prefix_and_masks(self):
        arrays = golden_arrays("transformers/gpt2")
        hub = {name.removeprefix("transformer."): array for name, array in part_of(arrays, "before").items()}
        masks = {f"h.{i}.attn.bias": np.tril(np.ones((1, 1, 8, 8), np.float32)) for i in range(2)}
        self.assertEqual(self.loads_from_the_hub("gpt2", arrays, hub | masks), set(hub))

    def test_bert_of_the_hub_has_old_names_and_heads_of_pre_training(self):
        arrays = golden_arrays("transformers/bert")
        saved = part_of(arrays, "before")
        hub = {re.sub("LayerNorm.bias$", "LayerNorm.beta", re.sub("LayerNorm.weight$", "LayerNorm.gamma", name)): array for name, array in saved.items()}
        self.assertEqual(len(set(hub) - set(saved)), 10)
        heads = {"bert.embeddings.position_ids": (1, 10), "cls.predictions.bias": (VOCABULARY,), "cls.predictions.decoder.weight": (VOCABULARY, 12),
                 "cls.predictions.decoder.bias": (VOCABULARY,), "cls.predictions.transform.dense.weight": (12, 12), "cls.predictions.transform.dense.bias": (12,),
                 "cls.predictions.transform.LayerNorm.gamma": (12,), "cls.predictions.transform.LayerNorm.beta": (12,),
                 "cls.seq_relationship.weight": (2, 12), "cls.seq_relationship.bias": (2,)}
        hub |= {name: np.zeros(shape, np.int64 if name.endswith("ids") else np.float32) for name, shape in heads.items()}
        classifier = {name: hub.pop(name) for name in list(hub) if name.startswith("classifier.")}
        safetensors(self.dir / "classifier.safetensors", classifier)
        self.assertEqual(self.loads_from_the_hub("bert", arrays, hub, "--load", "classifier.safetensors"), set(saved))
        path, changes = self.prepare("bert", arrays)
        safetensors(self.dir / "model.safetensors", hub)
        self.flowrun("train", path, "-o", "new", "--load", "model.safetensors", "--load-partial", "bert/classifier/*", "--steps", 1, "--quiet", *sets(changes))

    def test_llama_with_a_tied_output_layer(self):
        """A file without lm_head.weight; the same numbers as with a copy of the embedding in its place."""
        arrays = golden_arrays("transformers/llama")
        tied = {name: array for name, array in part_of(arrays, "before").items() if name != "lm_head.weight"}
        safetensors(self.dir / "tied.safetensors", tied)
        safetensors(self.dir / "copy.safetensors", {**tied, "lm_head.weight": tied["model.embed_tokens.weight"]})
        np.save(self.dir / "tokens.npy", arrays["window"][:1, :-1])
        values = sets(["vars.precision=float64", *(f"vars.{key}={value}" for key, value in LLAMA.items())])
        head = ("--set", "vars.logits={op: matmul, in: [norm, embed/weight], transpose_b: true}")
        for job in ("llama.yaml", "lora_llama.yaml"):
            adapters = ("--load-partial", "**/lora_*/weight", "--set", "vars.base_dtype=job") if job.startswith("lora") else ()
            for out, more in (("copy", ()), ("tied", head)):
                self.flowrun("predict", JOBS / job, "-o", out, "--load", f"{out}.safetensors", "--input", "tokens=@tokens.npy", "--quiet", "--force",
                             *values, *more, *adapters)
            self.check(job, self.load("tied/returns/llama/value.npy"), self.load("copy/returns/llama/value.npy"))
        for name in ("prompt", "lengths"):
            np.save(self.dir / f"{name}.npy", np.ones((8, 4) if name == "prompt" else 8, np.int32) * (3 if name == "prompt" else 2))
        made = []
        for out, more in (("copy", ()), ("tied", head)):
            self.flowrun("generate", JOBS / "llama.yaml", "-o", out, "--load", f"{out}.safetensors", "--quiet", "--force", *values, *more,
                         *sets([f"data.prompts.tokens.npy={self.dir}/prompt.npy", f"data.prompts.lengths.npy={self.dir}/lengths.npy", "vars.temperature=0", "vars.prompt=4"]))
            made.append(self.load(f"{out}/returns/token/value.npy"))
        np.testing.assert_array_equal(*made)
        # It trains as one variable, and goes out as one array.
        self.flowrun("train", JOBS / "llama.yaml", "-o", "trained", "--load", "tied.safetensors", "--steps", 1, "--quiet", *values, *head)
        self.call("flowc", "export", "trained", "-o", "back.safetensors", "--names", JOBS / "llama.yaml", "--job", "train", *values, *head)
        self.assertEqual(set(read_safetensors(self.dir / "back.safetensors")[0]), set(tied))

    def test_llama_3_scales_positions(self):
        arrays = golden_arrays("transformers/llama3")
        self.write_weights(arrays)
        np.save(self.dir / "tokens.npy", arrays["tokens"])
        values = {**LLAMA, "precision": "float64", "context": 24, "theta": 500, "scaling": 8}
        scaled = [f"+networks.attention.graph.{key}.original_context=16" for key in ("query", "key")]
        self.flowrun("predict", JOBS / "llama.yaml", "-o", "out", "--load", "model.safetensors", "--input", "tokens=@tokens.npy", "--quiet",
                     *sets([*(f"vars.{key}={value}" for key, value in values.items()), *scaled]))
        self.check("logits", self.load("out/returns/llama/value.npy").reshape(1, 24, VOCABULARY), arrays["logits"])

    def call_agrees(self, name, arrays, precision, tolerance):
        call = {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}
        inputs = [key for key in call if key != "result" and not key.startswith("diff_")]
        for key in inputs:
            np.save(self.dir / f"{key}.npy", call[key].astype(precision) if call[key].dtype.kind == "f" else call[key])
        lines = ["flow: 1", "jobs:", "  train:", "    type: train", f"    precision: {precision}", "    inputs:"]
        lines += [f"      {key}: {{shape: {list(call[key].shape)}, dtype: {precision if call[key].dtype.kind == 'f' else 'int32'}, rows: false, from: {{npy: {key}.npy}}}}"
                  for key in inputs]
        lines += ["    graph:", f"      result: {{{CALLS[name]}}}", "      product: {op: multiply, in: [result, factor]}", "      unused: {op: variable, shape: [], initializer: zeros}",
                  "      sum: {op: reduce_sum, in: product}", "      loss: {op: add, in: [sum, unused]}",
                  "    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}", "    returns: {value: result, to: npy}", "    run: {steps: 1}"]
        self.write("job.yaml", "\n".join(lines) + "\n")
        wanted = [key for key in call if key.startswith("diff_")]
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--force", *(word for key in wanted for word in ("--watch-diff", key.removeprefix("diff_"))))
        self.check(name, self.load("out/returns/result/value.npy")[0], call["result"], tolerance)
        for key in wanted:
            self.check(f"{name}/{key}", self.load(f"out/watch/{key.removeprefix('diff_')}/diff.npy")[0], call[key], tolerance)

    def test_calls_and_their_gradients_agree_with_pytorch(self):
        arrays = golden_arrays("transformers/ops")
        for precision, tolerance in (("float64", TOLERANCE), ("float32", 1e-5)):
            for name in CALLS:
                with self.subTest(name, precision=precision):
                    self.call_agrees(name, arrays, precision, tolerance)


if __name__ == "__main__":
    unittest.main()
