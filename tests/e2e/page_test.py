"""LANGUAGE.md: its whole job files run, and every key and word that a job file may have stands on it."""
import json
import re
import unittest

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

    def test_statistics_come_from_other_tools_as_the_page_says(self):
        network = next(block for block in BLOCKS if block.startswith("statistics:"))
        random = np.random.default_rng(3)
        parts = {name: random.uniform(0.5, 2, 8).astype(np.float32) for name in ["weight", "bias", "running_mean", "running_var"]}
        for name, value in parts.items():
            np.save(self.dir / f"bn.{name}.npy", value)
        x = random.normal(size=(4, 8)).astype(np.float32)
        np.save(self.dir / "x.npy", x)
        self.write("job.yaml", "flow: 1\nnetworks:\n  " + network.replace("\n", "\n  ").rstrip() + "\n" + """
jobs:
  j:
    type: predict
    inputs: {x: {shape: [4, 8], dtype: float32, from: {npy: x.npy}}}
    graph:
      s: {op: statistics, in: x}
      y: {op: batch_normalization, in: s, variables: s, epsilon: 1e-5}
    returns: {value: y}
""")
        self.assertEqual(self.call("flowc", "check", "job.yaml").stderr, "")
        self.flowrun("job.yaml", "-o", "out", "--load", "none", "--quiet")
        scale = parts["weight"] / np.sqrt(parts["running_var"].astype(np.float64) + 1e-5)
        np.testing.assert_allclose(self.load("out/returns/y/value.npy")[0], (x - parts["running_mean"]) * scale + parts["bias"], rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
