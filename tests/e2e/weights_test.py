"""Weights of other programs: .safetensors in, by name and by rules for names, and out again."""
import json
import re
import struct
import unittest

import numpy as np

from flow import JOBS, FlowTest

CODES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int8": "I8", "uint8": "U8", "bool": "BOOL"}

JOB = """
flow: 1
jobs:
  eval:
    type: predict
    inputs: {x: {shape: [2, 3], dtype: float32, from: {type: iota}}}
    graph:
      body: {op: dense, in: x, units: 4}
      head: {op: dense, units: 2}
    returns: {value: head}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)

# jobs/gpt2.yaml, and what Hugging Face calls its variables.
GPT2 = ["vars.width=16", "vars.layers=3", "vars.heads=2", "vars.vocabulary=60", "vars.context=8", "vars.batch=2", "vars.dropout=0", "vars.steps=9"]
GPT2_NAMES = """
flow: 1
include: [gpt2.yaml]
jobs:
  train:
    run:
      checkpoint:
        names:
          - {from: transformer.wte.weight, to: gpt/wte/weight}
          - {from: transformer.wpe.weight, to: gpt/wpe}
          - {from: "transformer.h.*.ln_*.weight", to: "gpt/blocks/{1}/norm{2}/gamma"}
          - {from: "transformer.h.*.ln_*.bias", to: "gpt/blocks/{1}/norm{2}/beta"}
          - {from: "transformer.h.*.attn.c_attn.weight", to: "gpt/blocks/{1}/attention/qkv/weight", perm: [1, 0]}
          - {from: "transformer.h.*.attn.c_attn.bias", to: "gpt/blocks/{1}/attention/qkv/bias"}
          - {from: "transformer.h.*.attn.c_proj.weight", to: "gpt/blocks/{1}/attention/out_proj/weight", perm: [1, 0]}
          - {from: "transformer.h.*.attn.c_proj.bias", to: "gpt/blocks/{1}/attention/out_proj/bias"}
          - {from: "transformer.h.*.mlp.c_fc.weight", to: "gpt/blocks/{1}/mlp/up/weight", perm: [1, 0]}
          - {from: "transformer.h.*.mlp.c_fc.bias", to: "gpt/blocks/{1}/mlp/up/bias"}
          - {from: "transformer.h.*.mlp.c_proj.weight", to: "gpt/blocks/{1}/mlp/down/weight", perm: [1, 0]}
          - {from: "transformer.h.*.mlp.c_proj.bias", to: "gpt/blocks/{1}/mlp/down/bias"}
          - {from: transformer.ln_f.weight, to: gpt/norm/gamma}
          - {from: transformer.ln_f.bias, to: gpt/norm/beta}
          - {from: "transformer.h.*.attn.bias", ignore: true}
          - {from: lm_head.weight, ignore: true}
"""

# As Llama: grouped queries, a gated MLP, no biases. What is computed does not matter here.
LLAMA = """
flow: 1
networks:
  block:
    inputs: [x]
    graph:
      norm1: {op: rms_norm, in: x}
      qkv: {op: dense, units: 16, use_bias: false}
      query: {op: slice, in: qkv, index: "[:, :8]"}
      out: {op: dense, units: 8, use_bias: false}
      norm2: {op: rms_norm}
      gate: {op: dense, in: norm2, units: 12, use_bias: false}
      up: {op: dense, in: norm2, units: 12, use_bias: false}
      both: {op: multiply, in: [gate, up]}
      down: {op: dense, units: 8, use_bias: false}
  llama:
    inputs: [tokens]
    graph:
      embed: {op: embedding, in: tokens, vocab_size: 20, units: 8}
      layers: {op: block, repeat: 2}
      norm: {op: rms_norm}
      logits: {op: dense, units: 20, use_bias: false}
jobs:
  train:
    type: train
    inputs:
      tokens: {shape: [4], dtype: int32, from: {type: random_int, high: 20}}
      following: {shape: [4], dtype: int32, from: {type: random_int, high: 20}}
    graph:
      llama: {op: llama, in: tokens}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: following, logits: llama}
    optimizer: {type: adam, learning_rate: 0.01, minimize: loss}
    run:
      steps: 6
      checkpoint:
        names:
          - {from: model.embed_tokens.weight, to: llama/embed/weight}
          - {from: "model.layers.*.input_layernorm.weight", to: "llama/layers/{1}/norm1/gamma"}
          - {from: "model.layers.*.post_attention_layernorm.weight", to: "llama/layers/{1}/norm2/gamma"}
          - from:
              - model.layers.*.self_attn.q_proj.weight
              - model.layers.*.self_attn.k_proj.weight
              - model.layers.*.self_attn.v_proj.weight
            to: "llama/layers/{1}/qkv/weight"
            concat: 0
            sizes: [8, 4, 4]
          - {from: "model.layers.*.self_attn.o_proj.weight", to: "llama/layers/{1}/out/weight"}
          - {from: "model.layers.*.mlp.gate_up_proj.weight", to: ["llama/layers/{1}/gate/weight", "llama/layers/{1}/up/weight"], split: 0}
          - {from: "model.layers.*.mlp.down_proj.weight", to: "llama/layers/{1}/down/weight"}
          - {from: model.norm.weight, to: llama/norm/gamma}
          - {from: lm_head.weight, to: llama/logits/weight}
"""


def bfloat16(array):
    """The upper halves of float32 values, and these values."""
    bits = np.asarray(array, np.float32).view(np.uint32) >> 16
    return bits.astype(np.uint16), (bits << 16).view(np.float32)


def safetensors(path, arrays, metadata=None, pad=0):
    """Writes arrays by name; a pair is a code and an array of its bits."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, array in arrays.items():
        code, array = array if isinstance(array, tuple) else (CODES[str(array.dtype)], array)
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += np.ascontiguousarray(array).tobytes()
    text = json.dumps(header).encode() + b" " * pad
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    """Arrays by name, and where the data begins."""
    content = path.read_bytes()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:begin])
    dtypes = {code: dtype for dtype, code in CODES.items()}
    return {name: np.frombuffer(content[begin + one["data_offsets"][0]:begin + one["data_offsets"][1]], dtypes[one["dtype"]]).reshape(one["shape"])
            for name, one in header.items() if name != "__metadata__"}, header.get("__metadata__"), begin


class Load(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)
        random = np.random.default_rng(5)
        self.weights = {"body/weight": random.normal(size=(4, 3)), "body/bias": random.normal(size=4),
                        "head/weight": random.normal(size=(2, 4)), "head/bias": random.normal(size=2)}

    def loaded(self, path, *flags):
        done = self.flowrun("eval", "job.yaml", "-o", "out", "--force", "--load", path, *flags)
        return self.load("out/returns/head/value.npy")[0], done.stderr

    def expected(self, weights):
        np.savez(self.dir / "expected.npz", **weights)
        return self.loaded("expected.npz")[0]

    def refused(self, path, *flags, status=2):
        return self.flowrun("eval", "job.yaml", "-o", "refused", "--load", path, *flags, status=status).stderr

    def test_floats_of_every_width_become_float32(self):
        narrow = {name: value.astype(np.float32) for name, value in self.weights.items()}
        safetensors(self.dir / "f32.safetensors", narrow, {"format": "pt"}, pad=3)
        self.assertTrue(np.array_equal(self.loaded("f32.safetensors")[0], self.expected(narrow)))
        safetensors(self.dir / "f64.safetensors", self.weights)
        result, told = self.loaded("f64.safetensors")
        self.assertTrue(np.array_equal(result, self.expected(narrow)))
        self.assertIn("flowrun: rounded 4 float64 arrays to float32\n", told)
        halves = {name: value.astype(np.float16) for name, value in self.weights.items()}
        safetensors(self.dir / "f16.safetensors", halves)
        result, told = self.loaded("f16.safetensors")
        self.assertTrue(np.array_equal(result, self.expected({name: value.astype(np.float32) for name, value in halves.items()})))
        self.assertNotIn("rounded", told)
        pairs = {name: bfloat16(value) for name, value in self.weights.items()}
        safetensors(self.dir / "bf16.safetensors", {name: ("BF16", bits) for name, (bits, _) in pairs.items()})
        self.assertTrue(np.array_equal(self.loaded("bf16.safetensors")[0], self.expected({name: value for name, (_, value) in pairs.items()})))

    def test_every_half_is_exact(self):
        job = """
flow: 1
jobs:
  eval:
    type: predict
    inputs: {x: {shape: [2], dtype: float32, from: {type: iota}}}
    graph:
      all: {op: variable, shape: [65536], initializer: zeros}
      y: {op: reduce_sum, in: all}
    returns: {value: all}
"""
        self.write("all.yaml", job)
        bits = np.arange(65536, dtype=np.uint16)
        for code, values in (("F16", bits.view(np.float16).astype(np.float32)), ("BF16", (bits.astype(np.uint32) << 16).view(np.float32))):
            safetensors(self.dir / "all.safetensors", {"all": (code, bits)})
            self.flowrun("all.yaml", "-o", "all", "--force", "--load", "all.safetensors", "--quiet")
            np.testing.assert_array_equal(self.load("all/returns/all/value.npy")[0], values)

    def test_a_folder_or_a_set_of_files_is_named_in_the_job_or_on_the_command_line(self):
        narrow = {name: value.astype(np.float32) for name, value in self.weights.items()}
        expected = self.expected(narrow)
        folder = self.dir / "hub"
        folder.mkdir()
        files = {"body/weight": "model-1.safetensors", "body/bias": "model-1.safetensors", "head/weight": "model-2.safetensors", "head/bias": "model-2.safetensors"}
        for file in set(files.values()):
            safetensors(folder / file, {name: value for name, value in narrow.items() if files[name] == file})
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))
        for path in ("hub", "hub/", "hub/model.safetensors.index.json"):
            self.assertTrue(np.array_equal(self.loaded(path)[0], expected))
        self.flowrun("eval", "job.yaml", "-o", "named", "--set", "jobs.eval.run.checkpoint.load=hub")
        self.assertTrue(np.array_equal(self.load("named/returns/head/value.npy")[0], expected))

        index.write_text(json.dumps({"weight_map": {**files, "more": "model-2.safetensors"}}))
        self.assertIn("model.safetensors.index.json names arrays that are missing:\n  more in model-2.safetensors\n", self.refused("hub", status=3))
        index.write_text(json.dumps({"weight_map": {**files, "more": "model-3.safetensors"}}))
        self.assertIn("names files that are missing:\n  model-3.safetensors\n", self.refused("hub", status=3))
        index.write_text(json.dumps({"weight_map": {"a": "../model.safetensors"}}))
        self.assertIn("expected the name of a .safetensors file in the folder of the index", self.refused("hub", status=3))
        index.unlink()
        self.assertIn("has 2 .safetensors files: `model-1.safetensors` or `model-2.safetensors`", self.refused("hub"))

    def test_integers_and_quantized_floats_are_refused(self):
        for code, dtype in (("I8", np.int8), ("F8_E4M3", np.uint8), ("I64", np.int64)):
            safetensors(self.dir / "q.safetensors", {**{name: value.astype(np.float32) for name, value in self.weights.items()},
                                                     "head/bias": (code, np.zeros(2, dtype))})
            told = self.refused("q.safetensors")
            shown = {"I8": "int8", "I64": "int64"}.get(code, code)
            self.assertIn(f"  ! head/bias [2] {shown}\n", told)
            self.assertIn(f"hint: `head/bias` is {shown}; save it as float16, bfloat16, float32 or float64\n", told)

    def test_damage_is_told(self):
        safetensors(self.dir / "w.safetensors", {name: value.astype(np.float32) for name, value in self.weights.items()})
        whole = (self.dir / "w.safetensors").read_bytes()
        for damaged, what in ((whole[:-1], "bytes"), (whole + b"x", "1 bytes after the last array"), (whole[:6], "it has 6 bytes"),
                              (b"\xff" * 8 + whole[8:], "expected at most 100000000"), (whole[:12] + whole[13:], "header:1:"),
                              (whole.replace(b"body/bias", b"head/bias"), "header: duplicate key `head/bias`")):
            (self.dir / "w.safetensors").write_bytes(damaged)
            told = self.refused("w.safetensors", status=3)
            self.assertIn("w.safetensors is not a valid .safetensors file: ", told)
            self.assertIn(what, told)
            self.assertIn("hint: get the file again; the copy is damaged or incomplete\n", told)
        self.assertFalse((self.dir / "refused").exists() and any((self.dir / "refused").iterdir()))

    def test_rules_apply_to_npz_and_spare_optional_variables(self):
        theirs = {"0.kernel": self.weights["body/weight"].T.astype(np.float32), "0.bias": self.weights["body/bias"].astype(np.float32)}
        np.savez(self.dir / "theirs.npz", **theirs)
        rules = 'jobs.eval.run.checkpoint={names: [{from: "0.kernel", to: body/weight, perm: [1, 0]}, {from: "0.*", to: "body/{1}"}]}'
        self.assertIn("variable `head/weight` [2, 4]: no array\n", self.refused("theirs.npz", "--set", "+" + rules))
        done = self.flowrun("eval", "job.yaml", "-o", "out", "--load", "theirs.npz", "--load-partial", "head/*", "--set", "+" + rules, "--watch", "body")
        self.assertIn("not loaded, initialized instead: `head/weight`, `head/bias`", done.stderr)
        np.testing.assert_allclose(self.load("out/watch/body/value.npy")[0], X @ theirs["0.kernel"] + theirs["0.bias"], rtol=1e-5)

    def test_names_of_another_program_ask_for_rules(self):
        safetensors(self.dir / "w.safetensors", {name.replace("/", "."): value.astype(np.float32) for name, value in self.weights.items()})
        self.assertIn("`flowc names FILE WEIGHTS` proposes rules", self.refused("w.safetensors"))

    def test_without_rules_arrays_without_a_variable_are_reported_and_ignored(self):
        narrow = {name: value.astype(np.float32) for name, value in self.weights.items()}
        safetensors(self.dir / "w.safetensors", {**narrow, "head/mask": np.zeros(3, np.int64), "head/bias/m": np.zeros(2, np.float32)})
        result, told = self.loaded("w.safetensors")
        self.assertTrue(np.array_equal(result, self.expected(narrow)))
        self.assertIn("flowrun: ignored 1 array without a matching variable: `head/mask`\n", told)     # the other one is the state of an optimizer
        self.assertIn("head/mask", self.call("flowc", "names", "job.yaml", "w.safetensors").stdout)
        safetensors(self.dir / "w.safetensors", {**narrow, **{f"more.{i}": np.zeros(1, np.float32) for i in range(7)}})
        self.assertIn("ignored 7 arrays without a matching variable: `more.0`, `more.1`, `more.2`, `more.3`, `more.4` and 2 more\n", self.loaded("w.safetensors")[1])
        self.assertNotIn("ignored", self.loaded("expected.npz")[1])

    def test_shapes_that_do_not_fit_ask_for_rules_and_no_run(self):
        narrow = {name: value.astype(np.float32) for name, value in self.weights.items()}
        safetensors(self.dir / "w.safetensors", {**narrow, "head/bias": np.zeros(3, np.float32)})
        told = self.refused("w.safetensors")
        self.assertIn("\n  the loaded file has\n", told)
        self.assertIn("hint: list names and shapes with `flowc names FILE WEIGHTS`, or initialize variables with --load-partial GLOB\n", told)
        safetensors(self.dir / "w.safetensors", {**narrow, "body/weight": narrow["body/weight"].T})
        told = self.refused("w.safetensors")
        rule = '{from: "body/weight", to: "body/weight", perm: [1, 0]}'
        self.assertIn(f"hint: `body/weight` is transposed; add a rule to `names` of the checkpoint section: {rule}\n", told)
        self.assertRegex(self.call("flowc", "names", "job.yaml", "w.safetensors", status=1).stdout, r"shape \[3, 4\]; expected \[4, 3\]; transpose it with `perm: \[1, 0\]`")
        result, _ = self.loaded("w.safetensors", "--set", f"+jobs.eval.run.checkpoint={{names: [{rule}]}}")
        self.assertTrue(np.array_equal(result, self.expected(narrow)))

    def test_control_characters_in_names_are_escaped(self):
        safetensors(self.dir / "w.safetensors", {"body\0/weight\x1b[1m": np.zeros(2, np.float32), "z": np.zeros(2, np.float32)})
        self.assertIn("\n    body\\x00/weight\\x1b[1m [2] float32\n    z [2] float32\n   hint: ", self.refused("w.safetensors"))


class Names(FlowTest):
    """Models of Hugging Face, tiny and random, by rules."""

    def gpt2(self):
        random = np.random.default_rng(11)
        width, layers, shapes = 16, 3, {}
        shapes["transformer.wte.weight"], shapes["transformer.wpe.weight"] = (60, width), (8, width)
        for i in range(layers):
            h = f"transformer.h.{i}"
            shapes |= {f"{h}.ln_1.weight": (width,), f"{h}.ln_1.bias": (width,), f"{h}.attn.bias": (1, 1, 8, 8),
                       f"{h}.attn.c_attn.weight": (width, 3 * width), f"{h}.attn.c_attn.bias": (3 * width,),
                       f"{h}.attn.c_proj.weight": (width, width), f"{h}.attn.c_proj.bias": (width,),
                       f"{h}.ln_2.weight": (width,), f"{h}.ln_2.bias": (width,),
                       f"{h}.mlp.c_fc.weight": (width, 4 * width), f"{h}.mlp.c_fc.bias": (4 * width,),
                       f"{h}.mlp.c_proj.weight": (4 * width, width), f"{h}.mlp.c_proj.bias": (width,)}
        shapes |= {"transformer.ln_f.weight": (width,), "transformer.ln_f.bias": (width,)}
        arrays = {name: random.normal(size=shape).astype(np.float32) * np.float32(0.1) for name, shape in shapes.items()}
        arrays["lm_head.weight"] = arrays["transformer.wte.weight"]
        return arrays

    def variables_of_gpt2(self, arrays):
        """What the rules have to make of them, by hand."""
        made = {}
        for name, array in arrays.items():
            if name == "lm_head.weight" or name.endswith(".attn.bias"):
                continue
            name = name.removeprefix("transformer.").replace("h.", "blocks/", 1) if ".h." in name else name.removeprefix("transformer.")
            for theirs, ours in (("ln_1.weight", "norm1.gamma"), ("ln_1.bias", "norm1.beta"), ("ln_2.weight", "norm2.gamma"), ("ln_2.bias", "norm2.beta"),
                                 ("ln_f.weight", "norm.gamma"), ("ln_f.bias", "norm.beta"), ("attn.c_attn", "attention.qkv"),
                                 ("attn.c_proj", "attention.out_proj"), ("mlp.c_fc", "mlp.up"), ("mlp.c_proj", "mlp.down"), ("wpe.weight", "wpe")):
                name = name.replace(theirs, ours)
            inner = array.ndim == 2 and not name.startswith(("wte", "wpe"))
            made["gpt/" + name.replace(".", "/")] = array.T if inner else array
        return made

    def first_state(self, job, weights, out, *flags):
        """The variables that a train job starts with: it trains none for a step, at learning rate 0."""
        self.flowrun("train", job, "-o", out, "--load", weights, "--steps", 1, "--quiet", *flags)
        checkpoint = self.checkpoint(out)
        arrays = {str(path.relative_to(checkpoint))[:-4]: np.load(path) for path in checkpoint.rglob("*.npy")}
        return {name: array for name, array in arrays.items() if not name.endswith(("/m", "/v"))}

    def assertSameArrays(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, array in expected.items():
            self.assertEqual(found[name].tobytes(), np.ascontiguousarray(array).tobytes(), name)
            self.assertEqual(found[name].shape, array.shape, name)

    def sets(self, values=GPT2):
        return [word for value in values for word in ("--set", value)]

    def write_gpt2(self):
        """The job without its rules, and another that includes it and has some."""
        text = re.sub(r" {4}run: \{checkpoint: \{names: \$names\}\}\n|(, | {6})checkpoint: \{names: \$names(, every: \{minutes: 10\})?\}\n?", "", (JOBS / "gpt2.yaml").read_text())
        self.write("gpt2.yaml", re.sub(r"  prefix: .*\n\ndata:", "\ndata:", text, flags=re.S))
        self.write("hf.yaml", GPT2_NAMES)
        arrays = self.gpt2()
        safetensors(self.dir / "model.safetensors", arrays, {"format": "pt"})
        return arrays

    NO_CHANGE = ("--set", "vars.lr=0")

    def test_gpt2_is_loaded_and_exported_bit_by_bit(self):
        arrays = self.write_gpt2()
        self.call("flowc", "check", "hf.yaml", *self.sets())
        found = self.first_state("hf.yaml", "model.safetensors", "run", *self.sets(), *self.NO_CHANGE)
        self.assertSameArrays(found, self.variables_of_gpt2(arrays))

        done = self.call("flowc", "export", "run", "-o", "back.safetensors", "--names", "hf.yaml", "--job", "train", *self.sets())
        self.assertEqual(done.stderr, f"back.safetensors: {len(found)} arrays from run/checkpoints/000001\n")
        back, metadata, begin = read_safetensors(self.dir / "back.safetensors")
        self.assertSameArrays(back, {name: array for name, array in arrays.items() if name != "lm_head.weight" and not name.endswith(".attn.bias")})
        self.assertEqual((metadata, begin % 64), ({"format": "pt"}, 0))

        # Under flow's own names, in both formats; both load again.
        for out in ("own.safetensors", "own.npz"):
            self.call("flowc", "export", "run", "-o", out)
            own = dict(np.load(self.dir / out)) if out.endswith("npz") else read_safetensors(self.dir / out)[0]
            self.assertSameArrays(own, found)
            again = self.first_state("gpt2.yaml", out, "again" + out, *self.sets(), *self.NO_CHANGE)
            self.assertSameArrays(again, found)
        # Rules do not get in the way of flow's own names.
        self.assertSameArrays(self.first_state("hf.yaml", "own.npz", "mixed", *self.sets(), *self.NO_CHANGE), found)
        self.assertSameArrays(self.first_state("hf.yaml", "run", "checkpoint", *self.sets(), *self.NO_CHANGE), found)

    def test_proposed_rules_load_the_same(self):
        arrays = self.write_gpt2()
        done = self.call("flowc", "names", "gpt2.yaml", "model.safetensors", *self.sets(), status=1)
        self.assertIn("lm_head.weight", done.stdout)
        self.assertIn("\n# proposed rules, by shapes and similar names; check them\nrun:\n  checkpoint:\n    names:\n", done.stdout)
        rules = [line for line in done.stdout.splitlines() if line.startswith("      - {")]
        self.write("pasted.yaml", "flow: 1\ninclude: [gpt2.yaml]\njobs:\n  train:\n    run:\n      checkpoint:\n        names:\n" + "\n".join("    " + rule for rule in rules) + "\n")
        found = self.first_state("pasted.yaml", "model.safetensors", "run", *self.sets(), *self.NO_CHANGE)
        self.assertSameArrays(found, self.variables_of_gpt2(arrays))
        done = self.call("flowc", "names", "pasted.yaml", "model.safetensors", "--json", *self.sets())
        told = json.loads(done.stdout)
        self.assertTrue(told["matches"])
        self.assertEqual({one["name"]: [array["name"] for array in one["arrays"]] for one in told["variables"]}["gpt/wpe"], ["transformer.wpe.weight"])
        self.assertEqual({one["name"] for one in told["unused"] if one["ignored"]},
                         {"lm_head.weight", *(f"transformer.h.{i}.attn.bias" for i in range(3))})

    def test_a_plan_keeps_the_rules_and_a_resumed_run_is_the_same(self):
        self.write_gpt2()
        plan = "hf.plan"
        self.call("flowc", "build", "hf.yaml", "-o", plan, "--job", "train", *self.sets())
        self.flowrun("train", plan, "-o", "whole", "--load", "model.safetensors", "--steps", 5, "--quiet")
        self.flowrun("train", plan, "-o", "parts", "--load", "model.safetensors", "--steps", 2, "--quiet")
        self.flowrun("train", plan, "-o", "parts", "--resume", "--steps", 5, "--quiet")
        self.assertEqual(self.state(self.checkpoint("parts")), self.state(self.checkpoint("whole")))

    def test_llama_is_joined_and_split_and_comes_back(self):
        random = np.random.default_rng(3)
        shapes = {"model.embed_tokens.weight": (20, 8), "model.norm.weight": (8,), "lm_head.weight": (20, 8)}
        for i in range(2):
            layer = f"model.layers.{i}"
            shapes |= {f"{layer}.input_layernorm.weight": (8,), f"{layer}.post_attention_layernorm.weight": (8,),
                       f"{layer}.self_attn.q_proj.weight": (8, 8), f"{layer}.self_attn.k_proj.weight": (4, 8),
                       f"{layer}.self_attn.v_proj.weight": (4, 8), f"{layer}.self_attn.o_proj.weight": (8, 8),
                       f"{layer}.mlp.gate_up_proj.weight": (24, 8), f"{layer}.mlp.down_proj.weight": (8, 12)}
        pairs = {name: bfloat16(random.normal(size=shape)) for name, shape in shapes.items()}
        files = {name: f"model-0000{1 + (name > 'model.layers.1')}-of-00002.safetensors" for name in shapes}
        for file in sorted(set(files.values())):
            safetensors(self.dir / file, {name: ("BF16", bits) for name, (bits, _) in pairs.items() if files[name] == file})
        (self.dir / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
        self.write("llama.yaml", LLAMA)
        found = self.first_state("llama.yaml", ".", "run", "--set", "jobs.train.optimizer.learning_rate=0")
        values = {name: value for name, (_, value) in pairs.items()}
        layer = "model.layers.1."
        np.testing.assert_array_equal(found["llama/layers/1/qkv/weight"],
                                      np.concatenate([values[f"{layer}self_attn.{one}_proj.weight"] for one in "qkv"]))
        np.testing.assert_array_equal(found["llama/layers/1/gate/weight"], values[layer + "mlp.gate_up_proj.weight"][:12])
        np.testing.assert_array_equal(found["llama/layers/1/up/weight"], values[layer + "mlp.gate_up_proj.weight"][12:])
        self.call("flowc", "export", "run", "-o", "back.safetensors", "--names", "llama.yaml")
        self.assertSameArrays(read_safetensors(self.dir / "back.safetensors")[0], values)

    def test_what_does_not_match_is_listed_in_a_run_and_in_a_table(self):
        arrays = self.write_gpt2()
        arrays["transformer.ln_f.bias"] = arrays["transformer.ln_f.bias"][:15]
        arrays["transformer.more"] = np.zeros(2, np.float32)
        del arrays["transformer.h.1.mlp.c_fc.bias"]
        safetensors(self.dir / "model.safetensors", arrays)
        told = self.flowrun("train", "hf.yaml", "-o", "run", "--load", "model.safetensors", *self.sets(), status=2).stderr
        where = next(f"hf.yaml:{i}" for i, line in enumerate(GPT2_NAMES.split("\n"), 1) if "ln_f.bias" in line)
        self.assertIn("model.safetensors does not match job `train` by its rules for names: 3 problems\n", told)
        self.assertRegex(told, r"  variable `gpt/blocks/1/mlp/up/bias` \[64\]: no array; expected `transformer\.h\.1\.mlp\.c_fc\.bias` \(hf\.yaml:\d+:\d+\)\n")
        self.assertRegex(told, rf"  {where}:\d+: variable `gpt/norm/beta` from `transformer\.ln_f\.bias` \[15\]: shape \[15\]; expected \[16\]\n")
        self.assertIn("  array `transformer.more` [2]: no rule\n", told)
        table = self.call("flowc", "names", "hf.yaml", "model.safetensors", *self.sets(), status=1).stdout
        self.assertRegex(table, r"\n  !  gpt/blocks/1/mlp/up/bias +\[64\] +no array; expected `transformer\.h\.1\.mlp\.c_fc\.bias` ")
        self.assertRegex(table, rf"\n  !  gpt/norm/beta +\[16\] +transformer\.ln_f\.bias +\[15\] float32 +{where}:\d+ +shape \[15\]; expected \[16\]\n")
        self.assertRegex(table, r"\n  !  transformer\.more +\[2\] float32 +no rule\n")
        self.assertRegex(table, r"\n     lm_head\.weight +\[60, 16\] float32 +hf\.yaml:\d+:\d+ +ignored\n")
        self.assertIn("40 variables of job `train`: 38 matched, 1 without an array, 1 that do not fit\n", table)
        self.assertNotIn("without an array\n", table)

    def test_rules_that_no_array_follows_are_listed(self):
        self.write_gpt2()
        self.write("hf.yaml", GPT2_NAMES + '          - {from: "h.*.attn.more", to: "gpt/blocks/{1}/more"}\n')
        where = f"hf.yaml:{len(GPT2_NAMES.splitlines()) + 1}:13"
        rule = '{from: "h.*.attn.more", to: "gpt/blocks/{1}/more"}'
        self.assertIn(f"\n1 rule without an array\n  {where}  {rule}\n", self.call("flowc", "names", "hf.yaml", "model.safetensors", *self.sets()).stdout)
        told = json.loads(self.call("flowc", "names", "hf.yaml", "model.safetensors", "--json", *self.sets()).stdout)
        self.assertEqual(told["idle_rules"], [{"from": ["h.*.attn.more"], "to": ["gpt/blocks/{1}/more"], "rule": where}])


class Export(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", """
flow: 1
jobs:
  train:
    type: train
    inputs: {x: {shape: [4, 3], dtype: float32, from: {type: random_uniform}}, y: {shape: [4], dtype: int32, from: {type: random_int, high: 2}}}
    graph:
      body: {op: dense, in: x, units: 2}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: y, logits: body}
    optimizer: {type: adam, learning_rate: 0.1, minimize: loss, ema: {decay: 0.5}}
    run:
      steps: 3
      checkpoint: {names: [{from: [a, b], to: body/weight, concat: 0}]}
""")
        self.flowrun("job.yaml", "-o", "run", "--quiet")

    def export(self, *words, status=0):
        return self.call("flowc", "export", *words, status=status).stderr

    def test_averages_take_the_place_of_variables(self):
        self.export("run", "-o", "w.safetensors")
        self.export("run", "-o", "ema.safetensors", "--ema")
        weights, averages = read_safetensors(self.dir / "w.safetensors")[0], read_safetensors(self.dir / "ema.safetensors")[0]
        self.assertEqual(sorted(weights), ["body/bias", "body/weight"])
        checkpoint = self.checkpoint("run")
        for name in weights:
            np.testing.assert_array_equal(weights[name], np.load(checkpoint / f"{name}.npy"))
            np.testing.assert_array_equal(averages[name], np.load(checkpoint / f"{name}/ema.npy"))

    def test_variables_without_a_rule_keep_their_names(self):
        told = self.export("run", "-o", "w.safetensors", "--names", "job.yaml")
        self.assertIn("w.safetensors: no rule names `body/bias`; they keep their names\n", told)
        found = read_safetensors(self.dir / "w.safetensors")[0]
        weight = np.load(self.checkpoint("run") / "body/weight.npy")
        np.testing.assert_array_equal(np.concatenate([found["a"], found["b"]]), weight)
        self.assertEqual(sorted(found), ["a", "b", "body/bias"])

    def test_what_cannot_be_written_is_refused_and_nothing_is_left(self):
        before = sorted(path.name for path in self.dir.iterdir())
        for source in ("run", "job.yaml", "absent"):
            self.assertIn("w.pt has no known format\n   hint: end the name in .safetensors or .npz, or for a job file in .onnx\n",
                          self.export(source, "-o", "w.pt", status=2))
        self.assertIn("job.yaml is not a checkpoint", self.export("job.yaml", "-o", "w.npz", status=2))
        self.assertIn("absent does not exist", self.export("absent", "-o", "w.npz", status=2))
        self.assertIn("--job and --set require --names", self.export("run", "-o", "w.npz", "--job", "train", status=2))
        told = self.export("run", "-o", "w.npz", "--names", "job.yaml", "--set", "jobs.train.run.checkpoint.names.0.concat=1", status=2)
        self.assertIn("`body/weight` [2, 3]: cannot be cut into 2 equal parts along axis 1; add `sizes`", told)
        self.assertIn("no such directory: no\n   hint: create it: mkdir -p no\n", self.export("run", "-o", "no/w.npz", status=2))
        self.assertEqual(before, sorted(path.name for path in self.dir.iterdir()))
        self.write("w.npz", "precious")
        self.assertIn("w.npz already exists", self.export("run", "-o", "w.npz", status=2))
        self.assertEqual((self.dir / "w.npz").read_text(), "precious")
        array = next(self.checkpoint("run").rglob("weight.npy"))
        array.write_bytes(array.read_bytes()[:-1] + b"x")
        self.assertIn("is damaged: its checksum is", self.export("run", "-o", "v.npz", status=3))
        self.assertFalse((self.dir / "v.npz").exists())


if __name__ == "__main__":
    unittest.main()
