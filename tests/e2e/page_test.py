"""LANGUAGE.md: its whole job files run, and every key and word that a job file may have stands on it."""
import contextlib
import json
import re
import unittest
from types import SimpleNamespace

import numpy as np

from flow import SOURCE, FlowTest

PAGE = (SOURCE / "LANGUAGE.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def words_of(schema):
    """Keys and words of a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(words_of, schema))
    if not isinstance(schema, dict):
        return set()
    words = set(schema.get("properties", {})) | {word for word in schema.get("enum", []) if isinstance(word, str)}
    return words.union(*map(words_of, schema.values()))


class PageTest(FlowTest):
    def test_whole_job_files_run(self):
        files = [block for block in BLOCKS if block.startswith("flow: 1\n")]
        self.assertGreater(len(files), 1)
        for number, text in enumerate(files):
            self.write("job.yaml", text)
            checked = self.call("flowc", "check", "job.yaml")
            self.assertEqual(checked.stderr, "")
            for job in re.findall(r"^  (\w+):\n    type: ", text, re.MULTILINE):
                self.flowrun(job, "job.yaml", "-o", f"{number}-{job}", "--load", "none", "--steps", 2, "--quiet")

    def test_every_key_and_word_is_told(self):
        """Those of ops, which `flowc ops` tells, apart."""
        schema = json.loads((SOURCE / "schemas/job.schema.json").read_text())
        definitions = {name: one for name, one in schema["$defs"].items() if not name.startswith(("op_", "activation"))}
        told = set(re.findall(r"\w+", PAGE))
        self.assertEqual(sorted(word for word in words_of({**schema, "$defs": definitions}) if not set(re.findall(r"\w+", word)) <= told), [])

    def test_formulas_of_optimizers_are_told(self):
        schema = json.loads((SOURCE / "schemas/job.schema.json").read_text())
        types = [one for one in schema["$defs"]["optimizer"]["anyOf"][0]["properties"]["type"]["anyOf"] if "const" in one]
        self.assertGreater(len(types), 5)
        told = " ".join(PAGE.split())
        for one in types:
            self.assertIn(f"{one['const']} {one['description'].split(chr(10) * 2)[1]}", told)

    def test_weights_come_from_pytorch_as_the_page_says(self):
        recipe = re.search(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
        random = np.random.default_rng(3)
        shapes = {"fc.weight": (8, 4), **{name: 8 for name in ["fc.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]}}
        state = {name: random.uniform(0.5, 2, shape).astype(np.float32) for name, shape in shapes.items()}
        model = SimpleNamespace(state_dict=lambda: {name: SimpleNamespace(numpy=lambda value=value: value) for name, value in state.items()})
        with contextlib.chdir(self.dir):
            exec(recipe, {"numpy": np, "model": model})
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
