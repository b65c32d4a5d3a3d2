"""A batch cut into shards: the numbers of the whole batch, and the same bits on any number of threads and after a resume."""
import json
import unittest

import numpy as np

from flow import FlowTest
from shard_jobs import job_text, write_data

# Layer normalization looks at single rows: shards compute the numbers of the whole batch.
JOB = job_text(batch=16, hidden=7, wide=9, normalization="layer_norm")
WHOLE = ("--set", "vars.shards=1", "--set", "vars.precision=float64")

# Normalization over rows, a layer on their means, and every row against every other: by shards, and by parts of one batch.
OWN = """flow: 1
seed: 5
vars: {{shards: 1, parts: 1, rows: 16, loss: loss, precision: float64}}
networks:
  center:
    inputs: [x]
    graph:
      mean:    {{op: reduce_mean, in: x, axis: -2, keepdims: true}}
      moved:   {{op: dense, in: mean, units: 4}}
      apart:   {{op: subtract, in: [x, mean]}}
      squares: {{op: square, in: apart}}
      power:   {{op: reduce_mean, in: squares, axis: -2, keepdims: true}}
      scale:   {{op: rsqrt, in: power}}
      scaled:  {{op: multiply, in: [apart, scale]}}
      out:     {{op: add, in: [scaled, moved]}}
jobs:
  train:
    type: train
    precision: $precision
    shards: $shards
    inputs: {{x: {{shape: [16, 5], dtype: float32, from: {{npy: own.npy}}}}}}
    graph:
      hidden: {{op: dense, in: x, units: 4, activation: tanh}}
      linear: {{op: dense, in: x, units: 4}}
      rows:   {{op: {rows}, in: hidden{shape}}}
      others: {{op: {rows}, in: linear{shape}}}
      normal: {{op: center, in: rows{per_shard}}}
      alike:  {{op: matmul, in: [normal, others], transpose_b: true{per_shard}}}
      share:  {{op: log_softmax, in: alike}}
      best:   {{op: reduce_max, in: share, axis: -1}}
      loss:   {{op: reduce_mean, in: best}}
    optimizer: {{type: adam, learning_rate: 0.01, minimize: $loss, grad_clipping: {{type: by_global_norm, clip_norm: 0.1}}}}
    hooks:
      - {{watch_diff: hidden, of: mean, to: npy}}
      - {{watch_diff: normal/moved/weight, of: mean, to: npy}}
    run: {{steps: 4}}
"""
IN_SHARDS = {"rows": "identity", "shape": "", "per_shard": ", per_shard: true"}
IN_PARTS = {"rows": "reshape", "shape": ", shape: [$parts, $rows, 4]", "per_shard": ""}

# Means over the labels that count, and a mean of other elements.
TOKENS = """flow: 1
vars: {shards: 1, losses: [a]}
jobs:
  train:
    type: train
    precision: float64
    shards: $shards
    inputs:
      x: {shape: [16, 5], dtype: float32, from: {npy: x.npy}}
      y: {shape: [16], dtype: int64, from: {npy: y.npy}}
      factors: {shape: [3], dtype: float32, rows: false, from: {npy: factors.npy}}
    graph:
      logits: {op: dense, in: x, units: 3, use_bias: false}
      log:    {op: log_softmax, in: logits}
      a:      {op: sparse_softmax_cross_entropy_with_logits, labels: y, logits: logits, ignore_index: 9, reduction: mean}
      b:      {op: nll, labels: y, log_probs: log, weights: factors, ignore_index: 9, reduction: mean}
      c:      {op: square, in: logits}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: $losses}
    hooks: [{watch: logits/weight, to: npy}, {watch_diff: logits/weight, of: mean, to: npy}]
    run: {steps: 1}
"""


class Shards(FlowTest):
    def setUp(self):
        super().setUp()
        write_data(self.dir, rows=80)
        self.write("job.yaml", JOB)

    def train(self, out, *more, job="job.yaml"):
        self.flowrun("train", job, "-o", out, *more)
        return self.outputs(out)

    def arrays(self, out, *more, job="job.yaml"):
        self.train(out, *more, job=job)
        root = self.dir / out
        return {p.relative_to(root): np.load(p) for p in sorted(root.rglob("*.npy"))}

    def test_shards_compute_the_numbers_of_the_whole_batch(self):
        whole = self.arrays("s1", *WHOLE)
        self.assertGreater(len(whole), 15)
        for shards in (2, 4, 8, 16):
            cut = self.arrays(f"s{shards}", *WHOLE, "--set", f"vars.shards={shards}")
            self.assertEqual(whole.keys(), cut.keys())
            for name, array in whole.items():
                np.testing.assert_allclose(cut[name], array, rtol=1e-9, atol=1e-11, err_msg=f"{name}, {shards} shards")

    def test_any_number_of_threads_gives_the_same_bits(self):
        for precision in ("float32", "mixed_bfloat16"):
            sets = ("--set", "vars.shards=4", "--set", f"vars.precision={precision}")
            one = self.train(f"{precision}-1", *sets, "--threads", 1)
            for threads in (2, 3):
                self.assertEqual(one, self.train(f"{precision}-{threads}", *sets, "--threads", threads), precision)

    def test_an_interrupted_run_resumes_to_the_same_bits(self):
        sets = ("--set", "vars.shards=8", "--set", "vars.precision=float32")
        whole = self.train("whole", *sets)
        self.train("cut", *sets, "--steps", 3)
        resumed = self.train("cut", *sets, "--resume")
        self.assertEqual(whole, {name: data for name, data in resumed.items() if "/000003/" not in name})

    def test_another_number_of_shards_does_not_resume(self):
        self.train("out", "--set", "vars.shards=4", "--steps", 3)
        self.assertIn("shards: 4 in the run, 2 now", self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--set", "vars.shards=2", status=2).stderr)

    def test_batch_normalization_has_statistics_of_each_shard(self):
        self.write("bn.yaml", """flow: 1
jobs:
  train:
    type: train
    precision: float64
    shards: 2
    inputs: {x: {shape: [8, 3], dtype: float32, from: {npy: bn.npy}}}
    graph:
      y: {op: batch_normalization, in: x, momentum: 0.9, epsilon: 0.001}
      loss: {op: square, in: y}
    optimizer: {type: sgd, learning_rate: 0, minimize: loss}
    returns: {value: y, to: npy}
    run: {steps: 1}
""")
        x = np.random.default_rng(2).uniform(-1, 1, (1, 8, 3)).astype(np.float32)
        np.save(self.dir / "bn.npy", x)
        self.flowrun("bn.yaml", "-o", "bn")
        halves = x[0].astype(np.float64).reshape(2, 4, 3)
        mean, variance = halves.mean(axis=1), halves.var(axis=1)
        expected = ((halves - mean[:, None]) / np.sqrt(variance[:, None] + 0.001)).reshape(8, 3)
        np.testing.assert_allclose(self.load("bn/returns/y/value.npy")[0], expected, rtol=1e-12, atol=1e-14)
        checkpoint = self.checkpoint("bn")
        np.testing.assert_allclose(np.load(checkpoint / "y/moving_mean.npy"), 0.1 * mean.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(np.load(checkpoint / "y/moving_variance.npy"),
                                   0.9 + 0.1 * variance.mean(axis=0) * 4 / 3, rtol=1e-12)

    def test_inputs_take_the_memory_of_the_whole_batch(self):
        whole, cut = (self.call("flowc", "show", "job.yaml", "--job", "train", "--memory", "--set", f"vars.shards={n}").stdout.splitlines() for n in (1, 4))
        self.assertEqual(*[next(line for line in lines if line.startswith("  inputs ")) for lines in (whole, cut)])

    def test_list_numpy_is_an_array_for_each_shard(self):
        self.write("list.yaml", """flow: 1
jobs:
  predict:
    type: predict
    shards: 4
    inputs: {x: {shape: [8, 3], dtype: float32, from: {npy: list.npy}}}
    graph: {y: {op: multiply, in: [x, 2]}}
    returns: {type: ListNumpy, value: y, to: npy}
""")
        x = np.arange(24, dtype=np.float32).reshape(1, 8, 3)
        np.save(self.dir / "list.npy", x)
        self.flowrun("list.yaml", "-o", "list")
        parts = sorted((self.dir / "list/returns").rglob("value.npy"))
        self.assertEqual(len(parts), 4)
        np.testing.assert_array_equal(np.concatenate([np.load(p)[0] for p in parts]), 2 * x[0])

    def test_what_shards_share_is_read_by_rows_and_trained_as_a_whole(self):
        """A weight for each row, a table that is no input of rows, numbers of rows, and a maximum of two weights."""
        self.write("shared.yaml", """flow: 1
seed: 3
vars: {shards: 1}
jobs:
  train:
    type: train
    precision: float64
    shards: $shards
    inputs:
      x: {shape: [16, 3], dtype: float32, from: {npy: shared.npy}}
      t: {shape: [16, 1], dtype: float32, rows: false, from: {npy: table.npy}}
    graph:
      weight: {op: variable, shape: [16, 3], initializer: {type: random_normal}}
      a: {op: variable, shape: [3], initializer: {type: random_normal}}
      b: {op: variable, shape: [3], initializer: {type: random_normal}}
      most: {op: maximum, in: [a, b]}
      positive: {op: greater, in: [a, 0]}
      chosen: {op: where, in: [positive, a, b]}
      ones: {op: constant, value: 1, shape: [16, 1]}
      number: {op: cumsum, in: ones, axis: 0}
      y1: {op: multiply, in: [x, weight]}
      y2: {op: add, in: [y1, t]}
      y3: {op: multiply, in: [y2, most]}
      y4: {op: multiply, in: [y3, chosen]}
      y5: {op: add, in: [y4, weight]}
      y6: {op: multiply, in: [y5, number]}
      loss: {op: square, in: y6}
    optimizer: {type: adam, learning_rate: 0.01, minimize: loss}
    hooks: [{watch: y5, to: npy}, {watch_diff: weight, to: npy}, {watch_diff: most, to: npy}]
    run: {steps: 3}
""")
        random = np.random.default_rng(6)
        np.save(self.dir / "shared.npy", random.uniform(-1, 1, (3, 16, 3)).astype(np.float32))
        np.save(self.dir / "table.npy", random.uniform(-1, 1, (16, 1)).astype(np.float32))
        whole = self.arrays("shared-1", job="shared.yaml")
        for shards in (2, 16):
            cut = self.arrays(f"shared-{shards}", "--set", f"vars.shards={shards}", job="shared.yaml")
            self.assertEqual(whole.keys(), cut.keys())
            for name, array in whole.items():
                np.testing.assert_allclose(cut[name], array, rtol=1e-9, atol=1e-11, err_msg=f"{name}, {shards} shards")

    def test_a_mean_over_the_labels_that_count_is_that_of_all_shards(self):
        """The judge is the formula in NumPy: every third label counts nothing, and no label of the last shard counts."""
        self.write("tokens.yaml", TOKENS)
        random = np.random.default_rng(3)
        x, y = random.uniform(-1, 1, (16, 5)).astype(np.float32), random.integers(0, 3, 16)
        y[::3] = y[14:] = 9
        factors = np.array([1, 2, 0.5], np.float32)
        for name, array in {"x": x, "y": y, "factors": factors}.items():
            np.save(self.dir / f"{name}.npy", array)
        for losses, flags in (("[a]", ()), ("[b]", ()), ("[a, b, c]", ()), ("[a]", ("--set", "+jobs.train.optimizer.momentum=0.5"))):
            made = {}
            for shards in (1, 2, 8):
                out = f"{losses}{len(flags)}-{shards}"
                self.flowrun("train", "tokens.yaml", "-o", out, "--quiet", "--set", f"vars.shards={shards}", "--set", f"vars.losses={losses}", *flags)
                made[shards] = [self.load(f"{out}/watch/logits/weight/value.npy")[0], np.load(self.checkpoint(out) / "logits/weight.npy"),
                                json.loads((self.dir / out / "metrics.jsonl").read_text())["loss"], self.load(f"{out}/watch/logits/weight/diff.npy")[0]]
            weight, stepped = made[1][:2]
            scores = x.astype(np.float64) @ weight.T
            prob = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
            known = np.where(y < 9, y, 0)
            row = -np.log(prob[np.arange(16), known])
            slope = prob - np.eye(3)[known]
            expected, expected_loss = 0, 0
            for name, counts in (("a", (y < 9) * 1.0), ("b", (y < 9) * factors[known]), ("c", np.full(16, 1.0))):
                if name in losses:
                    rows, slopes = (row, slope) if name != "c" else ((scores**2).mean(1), 2 * scores / 3)
                    expected_loss += (rows * counts).sum() / counts.sum()
                    expected += (slopes * counts[:, None]).T @ x / counts.sum()
            for shards, (_, moved, value, diff) in made.items():
                self.assertAlmostEqual(value, expected_loss, 12)
                np.testing.assert_allclose(diff, expected, rtol=1e-9, atol=1e-12, err_msg=f"{losses}, {shards} shards")
                np.testing.assert_allclose(moved, stepped, rtol=1e-12, atol=1e-14)

    def test_shards_skip_no_update_at_a_loss_scale_that_one_shard_bears(self):
        """Gradients of the sum of losses exceed float16 here; those of their mean do not."""
        self.write("tokens.yaml", TOKENS.replace("float64", "mixed_float16"))
        random = np.random.default_rng(3)
        np.save(self.dir / "x.npy", random.uniform(-1, 1, (16, 5)).astype(np.float32))
        np.save(self.dir / "y.npy", np.where(np.arange(16) % 3 == 0, 9, random.integers(0, 3, 16)))
        np.save(self.dir / "factors.npy", np.ones(3, np.float32))
        scale = "+jobs.train.optimizer.loss_scale={type: dynamic, initial: 262144}"
        for losses in ("[a]", "[b]", "[a, b]"):
            trained = []
            for shards in (1, 2, 8):
                out = f"{losses}-{shards}"
                self.flowrun("train", "tokens.yaml", "-o", out, "--quiet", "--set", f"vars.shards={shards}", "--set", f"vars.losses={losses}", "--set", scale)
                self.assertFalse(any("skipped" in line for line in self.metrics(out)), out)
                trained.append(np.load(self.checkpoint(out) / "logits/weight.npy"))
            np.testing.assert_allclose(trained[1], trained[0], rtol=1e-2)
            np.testing.assert_allclose(trained[2], trained[0], rtol=1e-2)

    def test_without_a_label_that_counts_the_loss_says_so(self):
        self.write("tokens.yaml", TOKENS)
        np.save(self.dir / "x.npy", np.ones((16, 5), np.float32))
        np.save(self.dir / "y.npy", np.full(16, 9))
        np.save(self.dir / "factors.npy", np.ones(3, np.float32))
        for shards in (1, 4):
            stderr = self.flowrun("train", "tokens.yaml", "-o", f"none-{shards}", "--set", f"vars.shards={shards}", status=1).stderr
            self.assertIn("step 0: the loss `a` is nan: all labels are ignored or have weight 0\n   hint: put a label that counts", stderr)
            self.assertNotIn("learning rate", stderr)

    def test_an_op_along_the_batch_works_on_each_shard(self):
        self.write("along.yaml", """flow: 1
jobs:
  predict:
    type: predict
    precision: float64
    shards: 4
    inputs: {x: {shape: [8, 3], dtype: float32, from: {npy: along.npy}}}
    graph:
      share:  {op: softmax, in: x, axis: 0, per_shard: true}
      turned: {op: slice, in: x, index: "[::-1]", per_shard: true}
      most:   {op: reduce_max, in: x, axis: 0, per_shard: true}
      below:  {op: subtract, in: [x, most]}
      mean:   {op: reduce_mean, in: x, axis: 0}
      power:  {op: exp, in: mean, per_shard: true}
    returns: {type: "Tuple[Numpy, Numpy, ListNumpy, Numpy, Numpy, ListNumpy]", value: [share, turned, most, below, mean, power]}
    hooks: [{watch: most, type: ListNumpy, to: npy}]
""")
        x = np.random.default_rng(3).uniform(-1, 1, (1, 8, 3)).astype(np.float32)
        np.save(self.dir / "along.npy", x)
        self.flowrun("along.yaml", "-o", "along")
        parts = x[0].astype(np.float64).reshape(4, 2, 3)
        most = parts.max(axis=1)
        e = np.exp(parts)
        expected = {"share": (e / e.sum(axis=1, keepdims=True)).reshape(8, 3), "turned": parts[:, ::-1].reshape(8, 3),
                    "below": (parts - most[:, None]).reshape(8, 3), "mean": parts.mean(axis=(0, 1))}
        for shard in range(4):
            expected[f"most/{shard}"] = most[shard]
            expected[f"power/{shard}"] = np.exp(parts[shard].mean(axis=0))
        for name, value in expected.items():
            np.testing.assert_allclose(self.load(f"along/returns/{name}/value.npy")[0], value, rtol=1e-12, err_msg=name)
        np.testing.assert_array_equal(self.load("along/watch/most/3/value.npy")[0], most[3])

    def test_a_loss_of_each_shard_is_that_of_its_part_of_the_batch(self):
        x = np.random.default_rng(4).uniform(-1, 1, (4, 16, 5)).astype(np.float32)
        np.save(self.dir / "own.npy", x)
        self.write("cut.yaml", OWN.format(**IN_SHARDS))
        self.write("parts.yaml", OWN.format(**IN_PARTS))
        for shards in (1, 2, 4, 8):
            for loss in ("loss", "best"):
                sets = ("--set", f"vars.rows={16 // shards}", "--set", f"vars.loss={loss}")
                parts = self.arrays(f"parts-{loss}{shards}", "--set", f"vars.parts={shards}", *sets, job="parts.yaml")
                cut = self.arrays(f"cut-{loss}{shards}", "--set", f"vars.shards={shards}", *sets, job="cut.yaml")
                self.assertEqual(parts.keys(), cut.keys())
                self.assertGreater(len(cut), 10)
                for name, array in parts.items():
                    np.testing.assert_allclose(cut[name], array, rtol=1e-9, atol=1e-9, err_msg=f"{name}, {shards} shards, {loss}")

    def test_what_each_shard_has_for_itself_has_the_same_bits_on_any_number_of_threads(self):
        np.save(self.dir / "own.npy", np.random.default_rng(4).uniform(-1, 1, (4, 16, 5)).astype(np.float32))
        self.write("job.yaml", OWN.format(**IN_SHARDS))
        for precision in ("float32", "mixed_bfloat16"):
            sets = ("--set", "vars.shards=4", "--set", f"vars.precision={precision}")
            one = self.train(f"{precision}-1", *sets, "--threads", 1)
            self.assertEqual(one, self.train(f"{precision}-2", *sets, "--threads", 2), precision)


if __name__ == "__main__":
    unittest.main()
