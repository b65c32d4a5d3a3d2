"""The stats sink: a CSV of moments, extremes and histograms, judged by NumPy."""
import csv
import json
import re
import unittest

import numpy as np

from flow import FlowTest

JOB = """flow: 1
seed: 3
jobs:
  train:
    type: train
    inputs: {x: {shape: [16, 4], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}}
    graph:
      hidden: {op: dense, in: x, units: 8, activation: relu}
      y:      {op: dense, units: 1}
      loss:   {op: reduce_mean, in: y}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
    returns: {value: loss, to: [npy, {type: stats, bins: 1}]}
    hooks:
      - {watch: hidden, to: [npy, {type: stats, bins: 7}], steps: 2..20}
      - {watch_diff: hidden/weight, to: [npy, stats]}
    run: {steps: 12}
  ask:
    type: predict
    inputs: {x: {shape: [6, 2], dtype: float32}, n: {shape: [6], dtype: int32}}
    graph: {twice: {op: multiply, in: [x, 2]}}
    returns: {value: twice, to: stats}
    hooks: [{watch: n, to: {type: stats, bins: 3}}]
"""


class Stats(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)

    def table(self, path):
        with open(self.dir / path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def check(self, row, values, bins):
        values = np.asarray(values, np.float64).ravel()
        finite = values[np.isfinite(values)]
        expected = [finite.mean(), finite.std(), finite.min(), finite.max(), (finite == 0).mean()]
        np.testing.assert_allclose([float(row[name]) for name in ("mean", "std", "min", "max", "zeros")], expected, rtol=1e-12, atol=1e-14)
        self.assertEqual(int(row["not_finite"]), values.size - finite.size)
        histogram = np.histogram(finite, bins, (finite.min(), finite.max()) if finite.min() < finite.max() else (finite.min(), finite.min() + 1))[0]
        self.assertEqual([int(row[f"bin{i}"]) for i in range(bins)], histogram.tolist())
        self.assertNotIn(f"bin{bins}", row)

    def check_all(self, out, folder, bins, value="value", steps="steps", file="stats"):
        rows, values = self.table(f"{out}/{folder}/{file}.csv"), self.load(f"{out}/{folder}/{value}.npy")
        self.assertEqual([int(row["step"]) for row in rows], self.load(f"{out}/{folder}/{steps}.npy").tolist())
        self.assertGreater(len(rows), 5)
        for row, array in zip(rows, values):
            self.check(row, array, bins)

    def load(self, path):
        return np.load(self.dir / path)

    def test_numpy_computes_the_same_statistics(self):
        self.flowrun("train", "job.yaml", "-o", "out")
        self.check_all("out", "returns/loss", 1)
        self.check_all("out", "watch/hidden", 7)
        self.check_all("out", "watch/hidden/weight", 10, "diff", "diff_steps", "diff_stats")

    def test_a_resumed_run_continues_the_file(self):
        names = ["returns/loss/stats.csv", "watch/hidden/stats.csv", "watch/hidden/weight/diff_stats.csv"]
        self.flowrun("train", "job.yaml", "-o", "whole")
        for stop in (1, 2, 7):
            self.flowrun("train", "job.yaml", "-o", f"out{stop}", "--steps", stop)
            self.flowrun("train", "job.yaml", "-o", f"out{stop}", "--resume")
            for name in names:
                self.assertEqual((self.dir / f"out{stop}" / name).read_text(), (self.dir / "whole" / name).read_text())

    def test_a_resume_refuses_a_file_that_was_changed(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--steps", 4)
        path = self.dir / "out/returns/loss/stats.csv"
        path.write_text(path.read_text().replace("\n1,0,", "\n1,1,"))
        self.assertIn("returns/loss/stats.csv", self.flowrun("train", "job.yaml", "-o", "out", "--resume", status=3).stderr)

    def test_values_that_are_not_finite_are_counted_apart(self):
        x = np.array([[np.nan, 1], [np.inf, -np.inf], [0, 0], [3, 5], [3e38, -3e38], [0.5, 7]], np.float32)
        np.save(self.dir / "x.npy", x)
        np.save(self.dir / "n.npy", np.array([-(2**31), 2**31 - 1, 0, 5, 5, 5], np.int32))
        self.flowrun("ask", "job.yaml", "-o", "out", "--input", "x=@x.npy", "--input", "n=@n.npy")
        with np.errstate(over="ignore"):
            self.check(self.table("out/returns/twice/stats.csv")[0], x * np.float32(2), 10)
        self.check(self.table("out/watch/n/stats.csv")[0], self.load("n.npy"), 3)
        np.save(self.dir / "x.npy", np.full((6, 2), np.nan, np.float32))
        self.flowrun("ask", "job.yaml", "-o", "none", "--input", "x=@x.npy", "--input", "n=@n.npy")
        row = self.table("none/returns/twice/stats.csv")[0]
        self.assertEqual([row["mean"], row["max"], row["zeros"], row["not_finite"], row["bin0"]], ["nan", "nan", "nan", "12", "0"])

    def conditional(self, hooks, extra=""):
        self.write("job.yaml", JOB.split("    hooks:")[0] + "    hooks:\n" + "".join(f"      - {hook}\n" for hook in hooks)
                   + "    run: {steps: 12" + extra + "}\n" + "  ask:" + JOB.split("  ask:")[1])

    def test_a_hook_fires_where_its_condition_holds(self):
        self.conditional(["{watch: hidden, as: all}", "{watch: hidden, when: 'max > $(limit)', every: 2, to: [npy, stats]}",
                          "{watch_diff: hidden/weight, as: g, when: 'not (mean < 0 or zeros > 0.9)'}", "{watch_diff: hidden/weight, as: every}",
                          "{watch: hidden, when: not_finite > 0, as: never, check: finite}"])
        self.write("job.yaml", (self.dir / "job.yaml").read_text().replace("seed: 3", "seed: 3\nvars: {limit: 1.0}"))
        self.flowrun("train", "job.yaml", "-o", "out")
        values, fired = self.load("out/watch/all/value.npy"), self.load("out/watch/hidden/steps.npy").tolist()
        largest = values.reshape(12, -1).max(1)
        limit = float(np.sort(largest[::2])[3])
        self.flowrun("train", "job.yaml", "-o", "cut", "--set", f"vars.limit={limit}")
        fired = self.load("cut/watch/hidden/steps.npy").tolist()
        self.assertEqual(fired, [step for step in range(0, 12, 2) if largest[step] > limit])
        self.assertEqual(len(fired), 2)
        np.testing.assert_array_equal(self.load("cut/watch/hidden/value.npy"), values[fired])
        self.assertEqual([int(row["step"]) for row in self.table("cut/watch/hidden/stats.csv")], fired)
        gradients = self.load("cut/watch/every/diff.npy").astype(np.float64)
        self.assertEqual(self.load("cut/watch/g/diff_steps.npy").tolist(),
                         [step for step in range(12) if not (gradients[step].mean() < 0 or (gradients[step] == 0).mean() > 0.9)])
        self.assertEqual(self.load("cut/watch/never/steps.npy").size, 0)
        self.assertRegex(self.call("flowc", "show", "job.yaml", "--job", "train", "--steps").stdout, r"every 2 steps, when max > 1.0")

    def test_a_resumed_run_counts_what_a_condition_let_through(self):
        hooks = ["{watch: hidden, when: max > 0.9, to: [npy, stats, {type: print, every: 2, reduce: max}]}",
                 "{watch: hidden, when: max > 0.95, to: {type: print, every: 2, reduce: max, label: second}}",
                 "{watch: hidden/weight, when: max < 0.55, as: w, to: [stats, {type: npy, layout: per_step}]}"]
        self.conditional(hooks)
        whole = self.flowrun("train", "job.yaml", "-o", "whole").stdout
        self.assertGreater(whole.count("second"), 1)
        for stop in (1, 5, 8):
            first = self.flowrun("train", "job.yaml", "-o", f"out{stop}", "--steps", stop).stdout
            self.assertEqual(first + self.flowrun("train", "job.yaml", "-o", f"out{stop}", "--resume").stdout, whole)
            for path in (self.dir / "whole/watch").rglob("*.*"):
                self.assertEqual(path.read_bytes(), (self.dir / f"out{stop}/watch" / path.relative_to(self.dir / "whole/watch")).read_bytes(), path)

    def test_a_condition_is_on_the_whole_tensor(self):
        job = JOB.split("  ask:")[0].replace("    hooks:", "    placement: {device: cpu, ids: '0:0-1'}\n    hooks:")
        hooks = "      - {watch: hidden, as: all}\n      - {watch: hidden, type: ListNumpy, when: mean > $(mean)}\n    run: {steps: 12}\n"
        self.write("parts.yaml", job.split("      - {watch")[0].replace("seed: 3", "seed: 3\nvars: {mean: 0}") + hooks)
        self.flowrun("train", "parts.yaml", "-o", "out")
        means = self.load("out/watch/all/value.npy").astype(np.float64).reshape(12, -1).mean(1)
        mean = float(np.median(means))
        self.flowrun("train", "parts.yaml", "-o", "cut", "--set", f"vars.mean={mean}")
        expected = [step for step in range(12) if means[step] > mean]
        for part in (0, 1):
            self.assertEqual(self.load(f"cut/watch/hidden/{part}/steps.npy").tolist(), expected)

    def test_a_plan_with_an_invalid_condition_is_refused(self):
        self.conditional(["{watch: hidden, when: max > 1e3}"])
        self.call("flowc", "build", "job.yaml", "-o", "plan.json")
        text = (self.dir / "plan.json").read_text()
        self.assertIn('"when":"max > 1e3"', text)
        wrong = re.sub(r'"checksum": "\w+"', '"checksum": "0000000000000000"', text.replace("max > 1e3", "max > 1e3 or"), 1)
        checksum = 0xCBF29CE484222325
        for byte in wrong.encode():
            checksum = (checksum ^ byte) * 0x100000001B3 & (1 << 64) - 1
        self.write("wrong.json", wrong.replace("0" * 16, f"{checksum:016x}", 1))
        self.assertIn("invalid condition `max > 1e3 or`", self.flowrun("train", "wrong.json", "-o", "out", status=2).stderr)

    def norm_job(self, clipping, hooks="", steps=12, extra=""):
        self.write("norm.yaml", JOB.split("    returns:")[0].replace("minimize: loss}", f"minimize: loss, {clipping}}}") + extra
                   + "    hooks:\n      - {watch_diff: '**/{weight,bias}', of: mean, to: npy}\n" + hooks + f"    run: {{steps: {steps}}}\n")

    def norms(self, out):
        return [row["gradient_norm"] for row in self.metrics(out)]

    def test_the_norm_of_all_gradients_is_logged(self):
        for clipping in ("grad_clipping: {type: by_global_norm, clip_norm: 0.01}", "norm: true, grad_clipping: {type: by_value, clip_value: 0.01}",
                         "norm: true", "norm: true, momentum: 0.9, weight_decay: 0.1"):
            self.norm_job(clipping)
            self.flowrun("norm.yaml", "-o", "out", "--force", "--quiet")
            squares = sum((np.load(path).astype(np.float64) ** 2).reshape(12, -1).sum(1) for path in (self.dir / "out/watch").rglob("diff.npy"))
            np.testing.assert_allclose(self.norms("out"), np.sqrt(squares), rtol=1e-6)
        self.norm_job("momentum: 0.9")
        self.flowrun("norm.yaml", "-o", "plain", "--quiet")
        self.assertNotIn("gradient_norm", self.metrics("plain")[0])
        self.norm_job("momentum: 0.9, norm: true")
        self.flowrun("norm.yaml", "-o", "normed", "--quiet")
        for path in (self.dir / "plain/checkpoints/000012").rglob("*.npy"):
            self.assertEqual(path.read_bytes(), (self.dir / "normed" / path.relative_to(self.dir / "plain")).read_bytes())

    def test_a_condition_stops_the_run_and_a_resume_continues_it(self):
        rows = "grad_clipping: {type: by_global_norm, clip_norm: 0.01}"
        self.norm_job(rows)
        self.flowrun("norm.yaml", "-o", "whole", "--quiet")
        norms = self.norms("whole")
        limit = sorted(norms)[8]
        first, second = [step for step, norm in enumerate(norms) if norm > limit][:2]
        for name, hook in (("small", "{watch: loss, when: gradient_norm > $(limit), then: stop, to: none}"),
                           ("large", "{watch: hidden, as: seen, when: gradient_norm > $(limit), then: stop}"),
                           ("shards", "{watch: loss, when: gradient_norm > $(limit), then: stop, to: none}")):
            self.norm_job(rows, f"      - {hook}\n", extra="    shards: 2\n" if name == "shards" else "")
            self.write("norm.yaml", (self.dir / "norm.yaml").read_text().replace("seed: 3", f"seed: 3\nvars: {{limit: {limit}}}"))
            done = self.flowrun("norm.yaml", "-o", name, "--quiet")
            self.assertIn(f"step {first}: `gradient_norm > {limit}` holds for `{'seen' if name == 'large' else 'loss'}`", done.stderr)
            self.assertIn(f"stopped by a hook after {first + 1} steps; continue with: flowrun train norm.yaml -o {name} --resume", done.stderr)
            self.assertIn("hook: norm.yaml:", self.recorded_stop(name))
            self.flowrun("norm.yaml", "-o", name, "--resume", "--quiet")
            self.assertEqual(len(self.metrics(name)), second + 1)
            if name != "shards":
                self.assertEqual(self.norms(name), norms[:second + 1])

    def recorded_stop(self, out):
        return json.loads((self.dir / out / "run.json").read_text())["stop_reason"]

    def test_a_norm_in_a_condition_is_that_of_the_tensor(self):
        self.norm_job("momentum: 0.9", "      - {watch: [hidden, y], when: norm > 4}\n      - {watch: hidden, as: all}\n")
        self.flowrun("norm.yaml", "-o", "out", "--quiet")
        values = self.load("out/watch/all/value.npy").astype(np.float64).reshape(12, -1)
        self.assertEqual(self.load("out/watch/hidden/steps.npy").tolist(), np.flatnonzero(np.linalg.norm(values, axis=1) > 4).tolist())
        self.assertTrue((self.dir / "out/watch/y/steps.npy").exists())

    def test_mistakes_are_reported(self):
        for change, message in (("bins: 0", "`bins` is 0"), ("bins: 1001", "`bins` is 1001"), ("bin: 3", "did you mean `bins`?")):
            self.write("wrong.yaml", JOB.replace("bins: 7", change))
            self.assertIn(message, self.call("flowc", "check", "wrong.yaml", status=2).stderr)
        self.write("wrong.yaml", JOB.replace("[npy, stats]", "[stats, stats]"))
        self.assertIn("`to` writes stats.csv twice", self.call("flowc", "check", "wrong.yaml", status=2).stderr)
        self.write("wrong.yaml", JOB.replace("  - {watch_diff: hidden/weight, to: [npy, stats]}", "  - {watch: hidden, to: stats}"))
        self.assertIn("`hidden` would be written to watch/hidden, like `hidden`", self.flowrun("train", "wrong.yaml", "-o", "out", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
