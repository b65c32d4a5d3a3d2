"""`sample`, against a judge of its draws, and the text that jobs/gpt2.yaml and jobs/llama.yaml generate: against transformers, and against the
same network without a cache."""
import sys
import unittest

import numpy as np

from flow import JOBS, SOURCE, FlowTest, golden_arrays
from weights_test import GPT2_NAMES

sys.path.insert(0, str(SOURCE / "tests" / "property"))
import draw_judge  # noqa: E402

SIZES = ["vars.layers=2", "vars.vocabulary=40", "vars.context=16", "vars.prompt=6", "vars.new=9", "vars.end=11", "vars.prompts=4", "vars.precision=float64"]

SAMPLE = """flow: 1
seed: 7
data:
  d: {x: {npy: x.npy}, p: {npy: p.npy}}
jobs:
  run:
    type: predict
    precision: PRECISION
    inputs:
      x: {shape: [BATCH, TOKENS], dtype: PRECISION, from: d.x}
      p: {shape: [BATCH], dtype: int32, from: d.p}
    graph:
      drawn: {op: sample, in: x, position: p, temperature: TEMPERATURE, top_k: TOP_K, top_p: TOP_P}
    returns: {value: drawn, to: npy}
"""


def judged(*call, seed=7):
    return draw_judge.token(*call, seed, "drawn")


class Sample(FlowTest):
    def sample(self, out, logits, positions, *flags, batch=None, temperature=1, top_k=0, top_p=1):
        np.save(self.dir / "x.npy", logits)
        np.save(self.dir / "p.npy", positions)
        text = SAMPLE
        for word, value in {"PRECISION": logits.dtype, "BATCH": batch or len(logits), "TOKENS": logits.shape[1], "TEMPERATURE": temperature,
                            "TOP_K": top_k, "TOP_P": top_p}.items():
            text = text.replace(word, str(value))
        self.write("sample.yaml", text)
        self.flowrun("sample.yaml", "-o", out, "--quiet", *flags)
        return self.load(f"{out}/returns/drawn/value.npy")

    def test_draws_are_those_of_a_judge(self):
        random = np.random.default_rng(1)
        for case, (tokens, temperature, top_k, top_p) in enumerate([(5, 1, 0, 1), (300, 0.7, 20, 1), (300, 1.3, 0, 0.6), (700, 0.9, 50, 0.8), (40, 2, 1, 1)]):
            for dtype in (np.float32, np.float64):
                logits = (3 * random.normal(size=(24, tokens))).astype(dtype)
                logits[::3] = np.round(logits[::3])  # ties
                positions = random.integers(0, 100, 24, np.int32)
                with self.subTest(case=case, dtype=dtype):
                    drawn = self.sample(f"out{case}{dtype.__name__}", logits, positions, temperature=temperature, top_k=top_k, top_p=top_p)
                    expected = [judged(logits[i], int(positions[i]), i, temperature, top_k, top_p) for i in range(24)]
                    np.testing.assert_array_equal(drawn, expected)

    def test_temperature_0_takes_the_first_of_the_largest(self):
        logits = np.round(np.random.default_rng(2).normal(size=(50, 9))).astype(np.float32)
        logits[3], logits[4, 2] = -np.inf, np.nan
        drawn = self.sample("out", logits, np.zeros(50, np.int32), temperature=0)
        np.testing.assert_array_equal(drawn, np.argmax(np.nan_to_num(logits, nan=-np.inf), 1))

    def test_frequencies_are_the_probabilities(self):
        logits = np.tile(np.log(np.array([[0.5, 0.25, 0.125, 0.125]], np.float32)), (8000, 1))
        drawn = self.sample("out", logits, np.zeros(8000, np.int32))
        counts = np.bincount(drawn, minlength=4)
        expected = 8000 * np.array([0.5, 0.25, 0.125, 0.125])
        self.assertLess(((counts - expected) ** 2 / expected).sum(), 16.3)  # chi-squared with 3 degrees of freedom: 0.1%
        drawn = self.sample("cut", logits, np.arange(8000, dtype=np.int32), top_p=0.7)
        self.assertEqual(set(drawn), {0, 1})
        self.assertLess(abs(np.mean(drawn == 0) - 2 / 3), 0.02)

    def test_threads_and_batches_change_no_draw(self):
        logits = np.random.default_rng(3).normal(size=(30, 60)).astype(np.float32)
        positions = np.arange(30, dtype=np.int32)
        one = self.sample("one", logits, positions, "--threads", 1, top_k=30, top_p=0.9)
        for batch, threads in ((30, 3), (7, 2), (1, 1)):
            np.testing.assert_array_equal(one, self.sample(f"out{batch}", logits, positions, "--threads", threads, batch=batch, top_k=30, top_p=0.9))


class Generated:
    """A job of jobs/, tiny."""
    NET = JOB = ""   # the entry of the network, the file's name
    SIZES = []
    NAMES = ""       # a job file that gives the job rules for names, where it has none

    def setUp(self):
        super().setUp()
        self.golden = golden_arrays(f"generate/{self.JOB}")
        given = ("prompt", "lengths", "tokens", "logits")
        np.savez(self.dir / "weights.npz", **{name: value for name, value in self.golden.items() if name not in given})
        self.write(f"{self.JOB}.yaml", (JOBS / f"{self.JOB}.yaml").read_text())
        names = self.NAMES or f"flow: 1\ninclude: [{self.JOB}.yaml]\njobs:\n  train:\n    run: {{checkpoint: {{names: $names}}}}\n"
        self.write("generate.yaml", names.replace("  train:", "  generate:"))
        self.write("whole.yaml", names.replace("  train:", "  predict:"))

    def flags(self, *sets):
        return (word for one in (*SIZES, *self.SIZES, *sets) for word in ("--set", one))

    def generate(self, out, *sets, prompt=None, lengths=None, flags=(), value="all"):
        np.save(self.dir / "tokens.npy", self.golden["prompt"] if prompt is None else prompt)
        np.save(self.dir / "lengths.npy", self.golden["lengths"] if lengths is None else lengths)
        values = ["token", "step", self.NET] if value == "all" else [value]
        sets = (f"data.prompts.tokens.npy={self.dir}/tokens.npy", f"data.prompts.lengths.npy={self.dir}/lengths.npy",
                f"jobs.generate.returns.value=[{', '.join(values)}]", *sets)
        self.flowrun("generate", "generate.yaml", "--load", "weights.npz", "-o", out, "--quiet", *flags, *self.flags(*sets))
        return {name: self.load(f"{out}/returns/{name}/value.npy") for name in values}

    def logits(self, made):
        """Of each token: the prompt's, then those of all passes but the last."""
        return np.concatenate([made[self.NET][:, None], made["step"][:, :-1]], 1)

    GREEDY = "vars.temperature=0"

    def test_greedy_tokens_and_logits_are_those_of_transformers(self):
        made = self.generate("out", self.GREEDY)
        np.testing.assert_array_equal(made["token"], self.golden["tokens"])
        steps = self.golden["logits"].shape[1]
        for row, tokens in enumerate(self.golden["tokens"]):
            live = min(steps, list(tokens).index(11) + 1 if 11 in tokens else steps)
            np.testing.assert_allclose(self.logits(made)[row, :live], self.golden["logits"][row, :live], rtol=1e-9, atol=1e-9)
        made = self.generate("single", self.GREEDY, "vars.precision=float32")
        np.testing.assert_array_equal(made["token"], self.golden["tokens"])

    def agrees_without_cache(self, made):
        """The job `predict`, on each row's text as a whole, without padding."""
        for row, (tokens, length) in enumerate(zip(made["token"], self.golden["lengths"])):
            text = np.zeros((1, 16), np.int32)
            given = self.golden["prompt"][row, 6 - length:]
            text[0, :length], text[0, length:length + 9] = given, tokens
            np.save(self.dir / "text.npy", text)
            self.flowrun("predict", "whole.yaml", "--load", "weights.npz", "--input", "tokens=@text.npy", "-o", "whole", "--force", "--quiet", *self.flags())
            whole = self.load(f"whole/returns/{self.NET}/value.npy")[0, 0]
            np.testing.assert_allclose(self.logits(made)[row], whole[length - 1:length + 8], rtol=1e-9, atol=1e-9)

    def test_generation_with_a_cache_is_that_without(self):
        self.agrees_without_cache(self.generate("greedy", self.GREEDY, "vars.end=-1"))
        made = self.generate("sampled", "vars.end=-1", "vars.top_k=9", "vars.top_p=0.95")
        self.agrees_without_cache(made)
        logits, lengths = self.logits(made), self.golden["lengths"]
        expected = [[judged(logits[row, i], int(lengths[row]) + i, row, 0.8, 9, 0.95, seed=1) for i in range(9)] for row in range(4)]
        np.testing.assert_array_equal(made["token"], expected)

    def test_padded_rows_are_those_rows_alone(self):
        together = self.generate("out", self.GREEDY, "vars.end=-1")
        for row, length in enumerate(self.golden["lengths"]):
            alone = self.generate(f"out{row}", self.GREEDY, "vars.end=-1", "vars.prompts=1", f"vars.prompt={length}", prompt=self.golden["prompt"][row:row + 1, 6 - length:],
                                  lengths=np.array([length], np.int32))
            np.testing.assert_array_equal(alone["token"][0], together["token"][row])
            np.testing.assert_allclose(self.logits(alone)[0], self.logits(together)[row], rtol=1e-11, atol=1e-11)

    def test_a_length_that_is_no_length_is_named(self):
        for length in (0, 7, -3):
            lengths = self.golden["lengths"].copy()
            lengths[2] = length
            np.save(self.dir / "tokens.npy", self.golden["prompt"])
            np.save(self.dir / "lengths.npy", lengths)
            sets = (f"data.prompts.tokens.npy={self.dir}/tokens.npy", f"data.prompts.lengths.npy={self.dir}/lengths.npy")
            done = self.flowrun("generate", "generate.yaml", "--load", "weights.npz", "-o", f"out{length}", "--quiet", *self.flags(*sets), status=3)
            self.assertIn(f"input `lengths` contains {length} in row 2 of {self.dir}/lengths.npy; expected 1 to 6", done.stderr)

    def test_threads_batches_and_until_change_no_token(self):
        one = self.generate("one", flags=("--threads", 1), value="token")
        others = {"threads": ([], ("--threads", 3)), "two": (["vars.prompts=2"], ()), "three": (["vars.prompts=3"], ()), "all": (["~jobs.generate.run.loop.until"], ())}
        for name, (sets, flags) in others.items():
            np.testing.assert_array_equal(one["token"], self.generate(name, *sets, flags=flags, value="token")["token"], name)


class Gpt2(Generated, FlowTest):
    NET, JOB = "gpt", "gpt2"
    SIZES = ["vars.width=12", "vars.heads=3"]
    NAMES = GPT2_NAMES

    def test_prompt_and_new_tokens_fit_in_the_context(self):
        done = self.call("flowc", "check", "generate.yaml", *self.flags("vars.new=11"), status=2)
        self.assertIn("gpt2.yaml:", done.stderr)
        self.assertIn("error: prompt (6) and new (11) add up to more than context (16) [E0130]", done.stderr)


class Llama(Generated, FlowTest):
    """Rotary positions, queries that share heads of keys and values."""
    NET, JOB = "llama", "llama"
    SIZES = ["vars.width=16", "vars.heads=4", "vars.key_heads=2", "vars.inner=20", "vars.epsilon=1e-5"]


if __name__ == "__main__":
    unittest.main()
