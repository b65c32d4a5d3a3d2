"""flowdiff: verdicts, reports, exit statuses. NumPy writes the arrays and judges the figures."""
import errno
import json
import os
import shutil
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree as ElementTree

import numpy as np

from flow import BIN, PairsTest, train_job


class FlowDiff(PairsTest):
    def diff(self, *flags, status=0, golden="golden", out="out"):
        return self.call("flowdiff", golden, out, *flags, status=status)

    def line(self, text, name):
        """The words of a table's line."""
        return next(line.split() for line in text.splitlines() if line.startswith(name + " "))


class Verdicts(FlowDiff):
    def test_equal_folders(self):
        self.pair("net/conv1/weight", *2 * [np.arange(12, dtype=np.float32).reshape(3, 4)])
        self.pair("loss", np.float32(2.5), np.float32(2.5))
        done = self.diff()
        self.assertEqual(self.line(done.stdout, "loss"), ["loss", "float32", "[]", "0", "0", "0", "equal"])
        self.assertEqual(done.stdout.splitlines()[-1], "2 arrays: 2 equal")
        self.assertEqual(done.stderr, "")

    def test_figures_are_numpys(self):
        random = np.random.default_rng(1)
        for dtype, rtol, atol in ((np.float32, 1.3e-6, 1e-5), (np.float64, 1e-7, 1e-7), (np.float16, 1e-3, 1e-5)):
            golden = random.standard_normal((20, 30)).astype(dtype)
            out = (golden + random.standard_normal((20, 30)) * 10.0 ** random.integers(-9, -2, (20, 30))).astype(dtype)
            self.pair("x", golden, out)
            self.diff("--json", "report.json", status=1)
            found = json.loads((self.dir / "report.json").read_text())["arrays"][0]
            a, b = out.astype(np.float64), golden.astype(np.float64)
            error = np.abs(a - b)
            self.assertEqual(found["over"], int((error > atol + rtol * np.abs(b)).sum()))
            self.assertEqual(found["over"], int((~np.isclose(a, b, rtol, atol)).sum()))
            self.assertEqual(found["max_abs"]["error"], error.max())
            self.assertEqual(tuple(found["max_abs"]["index"]), np.unravel_index(error.argmax(), error.shape))
            self.assertEqual(found["max_rel"]["error"], (error / np.abs(b)).max())
            index = tuple(found["max_rel"]["index"])
            self.assertEqual(found["max_rel"]["golden"], str(golden[index]))
            self.assertEqual(found["max_rel"]["out"], str(out[index]))

    def test_an_array_that_differs_says_where_and_what(self):
        golden = np.zeros((2, 3), np.float32)
        out = golden.copy()
        out[1, 2] = 0.5
        self.pair("x", golden, out)
        done = self.diff(status=1)
        self.assertIn("1 of 6 elements over tolerance (rtol 1.3e-06, atol 1e-05); first at [1, 2]: golden 0.0, out 0.5", done.stdout)
        self.assertIn("max abs err 0.5 at [1, 2]: golden 0.0, out 0.5", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "1 array: 1 differs")

    def test_within_tolerance_passes_and_shows_its_error(self):
        self.pair("x", np.float32([1, 2, 3]), np.float32([1.000001, 2, 3]))
        self.assertEqual(self.line(self.diff().stdout, "x")[-1], "within")

    def test_nan_equals_nan_and_infinity_itself(self):
        values = np.float32([np.nan, np.inf, -np.inf])
        self.pair("x", values, values)
        self.assertIn("    NaN on both sides: 1\n1 array: 1 mistrusted\n", self.diff().stdout)
        self.pair("x", values, np.roll(values, 1))
        done = self.diff(status=1)
        self.assertIn("NaN on one side only: 2", done.stdout)
        self.assertIn("unmatched infinities: 1", done.stdout)

    def test_missing_extra_dtype_and_shape(self):
        self.save("golden/missing", np.zeros(2))
        self.save("out/extra", np.zeros(2))
        self.pair("dtype", np.zeros(2, np.float32), np.zeros(2, np.float64))
        self.pair("shape", np.zeros((2, 3)), np.zeros((3, 2)))
        self.pair("same", np.arange(2.), np.arange(2.))
        done = self.diff(status=1)
        for name in ("missing", "extra", "dtype", "shape"):
            self.assertEqual(self.line(done.stdout, name)[-1], name)
        self.assertIn("golden is [2, 3], out is [3, 2]", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1],
                         "5 arrays: 1 equal, 1 missing, 1 extra, 1 has a different dtype, 1 has a different shape")

    def test_a_file_that_cannot_be_read_fails(self):
        self.pair("x", np.zeros(2), np.zeros(2))
        self.write("out/x.npy", "nonsense")
        done = self.diff(status=3)
        self.assertEqual(self.line(done.stdout, "x")[-1], "unreadable")
        self.assertIn("out/x.npy is not a .npy file", done.stdout)
        (self.dir / "out/x.npy").unlink()
        (self.dir / "out/x.npy").symlink_to("x.npy")
        done = self.diff(status=3)
        self.assertEqual(self.line(done.stdout, "x")[-1], "unreadable")
        self.pair("y", np.zeros(2), np.ones(2))
        self.diff(status=1)  # that something differs comes first

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_folder_that_cannot_be_read_is_named(self):
        self.pair("a/x", np.zeros(2), np.zeros(2))
        (self.dir / "out/a").chmod(0)
        self.addCleanup((self.dir / "out/a").chmod, 0o755)
        self.assertIn("cannot read out/a: Permission denied", self.diff(status=3).stderr)

    def test_folders_are_followed_through_links(self):
        for side, value in (("a", 0), ("b", 1)):
            (self.dir / side / "inner").mkdir(parents=True)
            np.save(self.dir / side / "inner/x.npy", np.full(3, value, np.float32))
            (self.dir / f"of_{side}").mkdir()
            (self.dir / f"of_{side}/link").symlink_to(f"../{side}")
            np.save(self.dir / f"of_{side}/same.npy", np.zeros(2, np.float32))
        self.assertIn("link/inner/x", self.call("flowdiff", "of_a", "of_b", status=1).stdout)
        (self.dir / "of_a/link/up").symlink_to("..")
        self.assertIn("of_a/link/up: Too many levels of symbolic links", self.call("flowdiff", "of_a", "of_b", status=3).stderr)

    def test_arrays_without_elements_are_mistrusted(self):
        self.pair("empty", np.zeros((0, 3)), np.zeros((0, 3)))
        self.assertIn("    no elements, so nothing is compared\n1 array: 1 mistrusted\n", self.diff().stdout)
        self.diff("--strict", status=1)

    def test_a_difference_too_large_for_a_double_is_compared(self):
        self.pair("x", np.float64([-1.7e308]), np.float64([1.7e308]))
        self.diff("--rtol", "1.5", status=1)  # the difference is 2 |golden|
        self.assertIn("--rtol: a relative tolerance of 2.5 accepts zeros in place of any result", self.diff("--rtol", "2.5").stdout)
        self.pair("x", np.float64([-1.7e308, 1]), np.float64([1.7e308, 1]))
        self.diff("--tol", "x=0.5,1e308", status=1)
        self.assertIn("--tol x: a relative tolerance of 1 accepts zeros", self.diff("--tol", "x=1,1.7e308").stdout)

    def test_archives_are_compared_array_by_array(self):
        def archive(path, **arrays):
            (self.dir / path).parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(self.dir / path, **arrays)
        archive("golden/weights.npz", w=np.arange(9.), **{"net/b": np.arange(2.)}, old=np.arange(4.))
        archive("out/weights.npz", w=np.arange(9.) + 1, **{"net/b": np.arange(2.)}, new=np.arange(4.))
        done = self.diff(status=1)
        for name, verdict in (("weights.npz/w", "differs"), ("weights.npz/net/b", "equal"), ("weights.npz/old", "missing"), ("weights.npz/new", "extra")):
            self.assertEqual(self.line(done.stdout, name)[-1], verdict)
        self.assertIn("constant offset of 1", self.diff("--tol", "weights.npz/w=0,0", status=1).stdout)
        self.diff("--ignore", "weights.npz/*")
        done = self.diff(golden="golden/weights.npz", out="out/weights.npz", status=1)
        self.assertEqual(self.line(done.stdout, "net/b")[-1], "equal")
        self.assertIn("is a directory, but", self.diff(out="out/weights.npz", status=2).stderr)
        self.call("flowdiff", "--self-test", "golden")
        update = self.call("flowdiff", "update", "golden", "out", "--reason", "x").stdout
        self.assertEqual(update, "added    weights.npz/new\nchanged  weights.npz/net/b\nchanged  weights.npz/w\nremoved  weights.npz/old\n4 arrays: 1 added, 2 changed, 1 removed\n")
        self.diff("--strict")
        np.savez(self.dir / "golden/weights.npz", w=np.arange(9.) + 1, **{"net/b": np.arange(2.)}, new=np.arange(4.))  # not compressed
        self.assertIn("golden was changed by hand", self.diff().stdout)
        data = (self.dir / "out/weights.npz").read_bytes()
        (self.dir / "out/weights.npz").write_bytes(data[:-30])
        self.assertEqual(self.line(self.diff(status=1).stdout, "weights.npz")[-1], "unreadable")

    def test_two_files(self):
        self.pair("x", np.zeros(2), np.ones(2))
        self.diff(golden="golden/x.npy", out="out/x.npy", status=1)
        self.diff(golden="golden/x.npy", out="golden/x.npy")


class Tolerances(FlowDiff):
    def test_rtol_and_atol_replace_the_defaults(self):
        self.pair("x", np.float32([100, 0]), np.float32([101, 0.125]))
        self.diff(status=1)
        self.diff("--rtol", "0.01", "--atol", "0.125")
        self.diff("--rtol", "0.01", status=1)

    def test_rtol_and_atol_are_for_floats(self):
        self.pair("x", np.float32([1]), np.float32([1.5]))
        self.pair("steps", np.int64([100]), np.int64([101]))
        self.pair("mask", np.array([True]), np.array([False]))
        done = self.diff("--rtol", "1", "--atol", "1", "--brief", status=1)
        self.assertIn("3 arrays: 1 within tolerance, 2 differ", done.stdout)
        self.diff("--rtol", "1", "--tol", "steps=0,1", "--tol", "mask=0,1")

    def test_the_last_matching_glob_wins(self):
        self.pair("net/weight", np.float32([1]), np.float32([1.5]))
        self.pair("net/bias", np.float32([1]), np.float32([1]))
        self.diff("--tol", "**/weight=0,1")
        self.diff("--tol", "**/weight=0,1", "--tol", "net/*=0,0", status=1)
        self.diff("--tol", "net/*=0,0", "--tol", "**/weight=0.5,0")

    def test_a_glob_that_matches_nothing_is_a_mistake(self):
        self.pair("net/weight", np.zeros(1), np.zeros(1))
        done = self.diff("--tol", "net/wieght=0,1", status=2)
        self.assertIn("did you mean `net/weight`?", done.stderr)

    def test_numbers_that_are_no_tolerance(self):
        self.pair("x", np.zeros(1), np.zeros(1))
        for flags in (("--rtol", "much"), ("--atol", "nan"), ("--atol=-1",), ("--tol", "x"), ("--tol", "x=1"), ("--tol", "x=1,-1"),
                      ("--tol", "=1,1")):
            self.assertIn("hint:", self.diff(*flags, status=2).stderr)


class Runs(FlowDiff):
    def checkpoint_records(self):
        """The record of a checkpoint after each of ten steps."""
        self.write("records.yaml", train_job(10).replace("steps: 10}", "steps: 10, checkpoint: {every: {steps: 1}, keep: 10}}"))
        self.call("flowrun", "records.yaml", "-o", "records", "--quiet")
        return {step: (self.dir / f"records/checkpoints/{step:06}/checkpoint.json").read_text() for step in range(1, 11)}

    def test_returns_watch_and_the_newest_checkpoint(self):
        records = self.checkpoint_records()
        for run, steps in (("golden", (5, 10)), ("out", (10,))):
            self.write(f"{run}/plan.json", "{}")
            self.save(f"{run}/returns/loss/value", np.arange(2.))
            self.save(f"{run}/watch/x/diff", np.arange(2.))
            self.save(f"{run}/also/eval/y", np.arange(2.))
            for step in steps:
                self.save(f"{run}/checkpoints/{step:06}/w", step + np.arange(2.))
                self.write(f"{run}/checkpoints/{step:06}/checkpoint.json", records[step])
        done = self.diff()
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()[1:-1]], ["also/eval/y", "checkpoint/w", "returns/loss/value", "watch/x/diff"])

    def test_what_a_called_job_delivered_is_compared_and_no_half_written_checkpoint(self):
        record = self.checkpoint_records()[2]
        for run in ("a", "b"):
            self.write(f"{run}/plan.json", "{}")
            for name in ("000002", ".000010.99.tmp"):
                self.write(f"{run}/checkpoints/{name}/checkpoint.json", record)
            np.save(self.dir / f"{run}/checkpoints/000002/w.npy", np.arange(2.))
            np.save(self.dir / f"{run}/checkpoints/.000010.99.tmp/w.npy", np.full(2, ord(run[0])))
            (self.dir / f"{run}/also/eval/returns/y").mkdir(parents=True)
            np.save(self.dir / f"{run}/also/eval/returns/y/value.npy", np.full(3, ord(run[0])))
        done = self.call("flowdiff", "a", "b", "--brief", status=1)
        self.assertIn("also/eval/returns/y/value", done.stdout)
        self.assertIn("2 arrays: 1 equal, 1 differ", done.stdout)

    def test_what_was_computed_first_is_named(self):
        self.write("job.yaml", train_job(4))
        watched = ["--watch", "**", "--watch-diff", "**"]
        self.call("flowrun", "job.yaml", "-o", "golden", "--quiet", *watched)
        self.call("flowrun", "job.yaml", "-o", "faster", "--quiet", *watched, "--set", "vars.lr=0.2")
        done = self.call("flowdiff", "golden", "faster", "--brief", "--rtol", 0, "--atol", 0, "--json", "diff.json", "--md", "diff.md", "--junit", "diff.xml", status=1)
        first = "first difference in computation order: watch/hidden/weight/value, at step 1"
        self.assertIn(first, done.stdout)
        self.assertIn(first + "\n", (self.dir / "diff.md").read_text())
        self.assertTrue(done.stdout.endswith("\nplans differ: optimizer.learning_rate 0.1 -> 0.2\n"))
        self.assertEqual((self.dir / "diff.md").read_text().count("\nplans differ: optimizer.learning\\_rate 0.1 -> 0.2\n\n<details>"), 1)
        self.assertEqual(json.loads((self.dir / "diff.json").read_text())["plans"], "plans differ: optimizer.learning_rate 0.1 -> 0.2")
        told = [case.get("name") for case in ElementTree.parse(self.dir / "diff.xml").getroot() if first in (case.findtext("failure") or "")]
        self.assertEqual(told, ["watch/hidden/weight/value"])
        self.assertEqual(json.loads((self.dir / "diff.json").read_text())["first"], {"array": "watch/hidden/weight/value", "step": 1})
        self.call("flowrun", "job.yaml", "-o", "sparse", "--quiet", "--watch", "logits:2", "--set", "vars.lr=0.2")
        self.call("flowrun", "job.yaml", "-o", "golden2", "--quiet", "--watch", "logits:2")
        done = self.call("flowdiff", "golden2", "sparse", "--rtol", 0, "--atol", 0, status=1)
        self.assertIn("first difference in computation order: watch/logits/value, at step 2", done.stdout)
        other = ["--set", "+jobs.train.graph.logits.bias_initializer=ones", "--set", "+jobs.train.hooks=[{watch: '**', to: {type: npy, layout: per_step}}]"]
        self.call("flowrun", "job.yaml", "-o", "a", "--quiet", *other[2:])
        self.call("flowrun", "job.yaml", "-o", "b", "--quiet", *other)
        done = self.call("flowdiff", "a", "b", "--brief", status=1)
        self.assertIn("first difference in computation order: watch/logits/bias/000000, at step 0", done.stdout)
        returned = ["--set", "+jobs.train.returns={value: {loss: loss, logits: logits, hidden: hidden}}", "--watch-diff", "hidden"]
        self.call("flowrun", "job.yaml", "-o", "c", "--quiet", *returned)
        self.call("flowrun", "job.yaml", "-o", "d", "--quiet", *returned, "--set", "+jobs.train.graph.hidden.bias_initializer=ones")
        self.assertIn("first difference in computation order: returns/hidden/value, at step 0", self.call("flowdiff", "c", "d", status=1).stdout)
        self.call("flowrun", "job.yaml", "-o", "short", "--quiet", *returned, "--steps", 2)
        self.assertNotIn("computed first", self.call("flowdiff", "c", "short", status=1).stdout)
        (self.dir / "a/plan.json").write_text("{}")
        self.assertNotIn("computed first", self.call("flowdiff", "a", "b", "--brief", status=1).stdout)

    def test_checkpoints_of_different_steps_are_told_and_no_others(self):
        self.write("job.yaml", train_job(2))
        for run, steps in (("golden", 2), ("out", 2), ("longer", 3)):
            self.call("flowrun", "job.yaml", "-o", run, "--quiet", "--steps", steps)
        self.assertEqual(self.diff().stderr, "")
        told = self.diff(out="longer", status=1).stderr
        self.assertRegex(told, "^flowdiff: the checkpoints come from different steps: .*000002 and .*000003\n$")

    DATA_JOB = """flow: 1
data: {train: {x: {npy: x.npy}, y: {npy: y.npy}}}
jobs:
  j:
    type: TYPE
    inputs: {x: {shape: [4, 2], dtype: float32, from: train.x}, y: {shape: [4, 2], dtype: float32, from: train.y}}
    graph: {s: {op: add, in: [x, y]}, d: {op: dense, units: 1}, loss: {op: square}}
    REST
"""

    def test_that_the_data_of_two_runs_differ_is_said_first(self):
        job = self.DATA_JOB.replace("TYPE", "train").replace("REST", "optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}\n    run: {epochs: 1}")
        predict = self.DATA_JOB.replace("TYPE", "predict").replace("REST", "returns: {value: s}").replace(", d: {op: dense, units: 1}, loss: {op: square}", "")
        self.write("job.yaml", job)
        self.write("predict.yaml", predict)
        for out, rows, value in (("a", 8, 1), ("b", 8, 2), ("c", 12, 1)):
            np.save(self.dir / "x.npy", np.full((rows, 2), value, np.float32))
            np.save(self.dir / "y.npy", np.ones((rows, 2), np.float32))
            self.call("flowrun", "job.yaml", "-o", out, "--quiet", "--fingerprint=1")
            self.call("flowrun", "predict.yaml", "-o", f"p{out}", "--quiet")
        digest = "[0-9a-f]{12}"
        same, other = rf"data differ: train\.x, rows 8, digest {digest} and {digest}\n", rf"data differ: train\.x, rows 8 and 12, digest {digest} and {digest}\n"
        for a, b, status in (("a", "b", 1), ("pa", "pb", 1)):
            done = self.call("flowdiff", a, b, "--json", "d.json", "--md", "d.md", "--junit", "d.xml", status=status)
            self.assertRegex(done.stdout, "^" + same + "array ")
            self.assertEqual(json.loads((self.dir / "d.json").read_text())["data"], [done.stdout.splitlines()[0]])
            self.assertRegex((self.dir / "d.md").read_text(), r"^\*\*data differ: train\.x, ")
            self.assertRegex((self.dir / "d.xml").read_text(), rf"<system-out>{same}")
            self.call("flowc", "report", a, "--diff", "d.json", "-o", "r.html")
            self.assertRegex((self.dir / "r.html").read_text(), same[:-2])
        self.assertRegex(self.call("flowdiff", "a", "c", status=1).stdout, "^" + other + r"data differ: train\.y, rows 8 and 12")
        self.assertRegex(self.call("flowdiff", "--first", "a", "b", "--no-rerun", status=1).stdout, "^" + same + "first difference: step 0, x, an input")
        self.call("flowdiff", "update", "golden", "a", "--reason", "first")
        self.assertRegex(self.call("flowdiff", "golden", "b", status=1).stdout, "^" + same)
        (self.dir / "b/run.json").unlink()  # as after a kill: the checkpoint knows
        self.assertRegex(self.call("flowdiff", "a", "b", status=1).stdout, rf"^data differ: train\.x, digest {digest} and {digest}\n")
        self.call("flowc", "report", "a", "c", "-o", "r.html")
        self.assertIn("data train.x", (self.dir / "r.html").read_text())
        self.assertNotIn("data differ", self.call("flowdiff", "a", "a").stdout)

    def test_a_run_and_a_folder_are_not_alike(self):
        self.write("golden/plan.json", "{}")
        self.save("out/x", np.zeros(1))
        self.assertIn("a run directory", self.diff(status=2).stderr)


class Reports(FlowDiff):
    def setUp(self):
        super().setUp()
        self.pair("good", np.arange(2.), np.arange(2.))
        self.pair("a<b&c", np.float64([1, 20]), np.float64([1, 21]))

    def test_json(self):
        self.diff("--json", "report.json", status=1)
        report = json.loads((self.dir / "report.json").read_text())
        self.assertEqual(report["failed"], 1)
        self.assertEqual([(array["name"], array["verdict"]) for array in report["arrays"]], [("a<b&c", "differs"), ("good", "equal")])
        self.assertEqual(report["arrays"][0]["first"], {"index": [1], "golden": "20.0", "out": "21.0"})
        self.assertEqual(report["arrays"][0]["shape"], [2])

    def test_a_report_on_standard_output_takes_the_place_of_the_table(self):
        self.assertEqual(json.loads(self.diff("--json", "-", status=1).stdout)["failed"], 1)
        self.assertTrue(self.diff("--md", "-", "--junit", "report.xml", status=1).stdout.startswith("**2 arrays: 1 equal, 1 differs**\n"))
        self.assertIn("name the same file", self.diff("--json", "-", "--md", "-", status=2).stderr)
        self.assertFalse((self.dir / "-").exists())

    def test_junit(self):
        self.diff("--junit", "report.xml", status=1)
        suite = ElementTree.parse(self.dir / "report.xml").getroot()
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("2", "1"))
        cases = {case.get("name"): case for case in suite}
        self.assertIsNone(cases["good"].find("failure"))
        self.assertIn("golden 20.0, out 21.0", cases["a<b&c"].find("failure").text)

    def test_junit_names_may_hold_quotes(self):
        for name in ('say "x"', "it's"):
            self.pair(name, np.zeros(2), np.ones(2))
        self.diff("--junit", "report.xml", status=1)
        cases = {case.get("name"): case for case in ElementTree.parse(self.dir / "report.xml").getroot()}
        self.assertLessEqual({'say "x"', "it's"}, set(cases))
        self.assertIn("golden 0.0, out 1.0", cases['say "x"'].find("failure").get("message"))

    def test_markdown(self):
        self.diff("--md", "report.md", status=1)
        lines = (self.dir / "report.md").read_text().splitlines()
        self.assertEqual(lines[0], "**2 arrays: 1 equal, 1 differs**")
        self.assertEqual(len({line.count("|") for line in lines[2:5]}), 1)
        self.assertEqual(lines[4], r"| a\<b&c | differs | 1 | 1.00e+00 | 5.00e-02 | first at [1]: golden 20.0, out 21.0 |")
        self.assertEqual(lines[5:9], ["", "<details><summary>details</summary>", "", r"a\<b&c"])
        self.assertIn("- 1 of 2 elements over tolerance (rtol 1e-07, atol 1e-07); first at [1]: golden 20.0, out 21.0", lines)
        self.assertIn("- abs err percentiles: 50 % 0.5, 90 % 0.9, 99 % 0.99", lines)
        self.assertIn("- most of the squared error: axis 0 at 1 (100.0 %)", lines)
        self.assertEqual(lines[-1], "</details>")

    def test_markdown_fits_a_comment(self):
        for number in range(60):
            self.pair(f"x{number:02}", np.arange(5.), np.arange(5.) + number % 2)
        self.diff("--md", "report.md", status=1)
        text = (self.dir / "report.md").read_text()
        self.assertEqual(text.count("| differs |"), 20)
        self.assertIn("\nand 11 more arrays\n\n<details>", text)
        self.assertEqual(text.count("abs err percentiles"), 20)
        self.assertLess(len(text), 20_000)

    def test_names_are_shown_as_text_whatever_they_hold(self):
        name = "a|b`c\\d*e_f\x1b[8mg\ufffe\uffff"
        self.pair(name, np.zeros(2), np.zeros(2))
        done = self.diff("--md", "report.md", "--json", "report.json", "--junit", "report.xml", status=1)
        self.assertIn("a|b`c\\d*e_f\\x1b[8mg\\ufffe\\uffff", done.stdout)
        row, = (line for line in (self.dir / "report.md").read_text().splitlines() if line.startswith("| a\\|"))
        self.assertIn(r"| a\|b\`c\\d\*e\_f", row)
        self.assertIn(name, [array["name"] for array in json.loads((self.dir / "report.json").read_text())["arrays"]])
        self.assertIn("a|b`c\\d*e_f\\x1b[8mg\\ufffe\\uffff", [case.get("name") for case in ElementTree.parse(self.dir / "report.xml").getroot()])

    def test_names_begin_no_headings_and_make_no_links_in_markdown(self):
        for name in ("# big", "> said", "[x](y)"):
            self.pair(name, np.arange(5.), np.arange(5.) + 1)
        self.diff("--md", "report.md", status=1)
        lines = (self.dir / "report.md").read_text().splitlines()
        for name in (r"\# big", r"\> said", r"\[x\](y)"):
            self.assertIn(name, lines)      # the paragraph among the details
            self.assertTrue(any(line.startswith(f"| {name} | differs |") for line in lines), name)

    def test_a_markdown_report_is_appended(self):
        summary = {"GITHUB_STEP_SUMMARY": str(self.dir / "summary.md")}
        self.diff("--md", "summary.md", "--md-append", status=1)
        once = (self.dir / "summary.md").read_text()
        self.diff("--md", "whole.md", status=1)
        self.assertEqual(once, (self.dir / "whole.md").read_text())
        self.diff("--md", summary["GITHUB_STEP_SUMMARY"], "--md-append", status=1)
        self.assertEqual((self.dir / "summary.md").read_text(), once + "\n" + once)
        self.diff("--md", "summary.md", status=1)
        self.assertEqual((self.dir / "summary.md").read_text(), once)
        self.assertEqual(self.diff("--md", "-", "--md-append", status=1).stdout, once)
        self.assertIn("--md-append requires --md FILE", self.diff("--md-append", status=2).stderr)
        self.assertIn("--md: empty file name", self.diff("--md", "", "--md-append", status=2).stderr)
        full = self.faults(call="pwrite", path="summary.md", at=1, errno=errno.ENOSPC)
        self.assertIn("cannot write", self.call("flowdiff", "golden", "out", "--md", "summary.md", "--md-append", env=full, status=3).stderr)
        self.assertEqual((self.dir / "summary.md").read_text(), once)

    def test_brief_shows_failures_only(self):
        done = self.diff("--brief", status=1)
        self.assertNotIn("good", done.stdout)
        self.assertIn("a<b&c", done.stdout)
        self.assertEqual(self.diff("--brief", "--atol", "1").stdout, "2 arrays: 1 equal, 1 within tolerance\n")

    def test_a_report_is_not_written_over_what_is_compared(self):
        before = self.files(".")
        (self.dir / "link.txt").symlink_to("out/good.npy")
        for flag, path in (("--json", "golden/good.npy"), ("--junit", "out/plan.json"), ("--md", "link.txt"), ("--json", "x/run.json"),
                           ("--json", "out/checkpoints/000002/checkpoint.json"), ("--md", "out/metrics.jsonl")):
            self.assertIn(f"{flag} {path} may overwrite a file of a run", self.diff(flag, path, status=2).stderr)
        self.assertIn("--json: empty file name", self.diff("--json", "", status=2).stderr)
        self.assertIn("--json and --md name the same file", self.diff("--json", "report", "--md", "./report", status=2).stderr)
        (self.dir / "link.txt").unlink()
        self.assertEqual(self.files("."), before)

    def test_no_output_goes_over_inputs_or_files_of_other_commands(self):
        self.write("job.yaml", train_job(2))
        self.call("flowrun", "job.yaml", "-o", "run", "--quiet")
        for name in ("weights.npz", "weights.safetensors", "model.onnx", "other.yml", "sheet"):
            self.write(name, "mine")
        before = self.files(".")
        def refused(message, *words):
            done = self.call(*words, status=2)
            self.assertIn(message, done.stderr)
            self.assertIn("hint:", done.stderr)
            self.assertEqual(self.files("."), before)
        for output in ("run/plan.json", "run/run.json", "run/metrics.jsonl", "run.json", "golden.json", "tolerances.yaml", "x.npy"):
            refused(f"-o {output} may overwrite a file of a run", "flowc", "build", "job.yaml", "-o", output)
        for output in ("run/plan.json", "plan.json", "run/fingerprints.bin", "golden.json"):
            refused(f"-o {output} may overwrite a file of a run", "flowc", "config", "job.yaml", "-o", output)
            refused(f"-o {output} may overwrite a file of a run", "flowc", "schema", "-o", output)
            refused(f"-o {output} may overwrite a file of a run", "flowc", "report", "run", "-o", output)
            for flag in ("--json", "--junit", "--md"):
                refused(f"{flag} {output} may overwrite a file of a run", "flowdiff", "golden", "out", flag, output)
                refused(f"{flag} {output} may overwrite a file of a run", "flowdiff", "--self-test", "golden", flag, output)
            refused(f"--json {output} may overwrite a file of a run", "flowdiff", "--first", "run", "run", "--json", output)
            refused(f"--junit {output} may overwrite a file of a run", "flowrun", "verify", "train", "job.yaml", "--junit", output)
        for output, what in (("job.yaml", "a job file"), ("other.yml", "a job file"), ("weights.npz", "a file of arrays"),
                             ("weights.safetensors", "a file of arrays"), ("model.onnx", "a file of arrays")):
            for flag in ("--json", "--junit", "--md"):
                refused(f"{flag} {output} would overwrite {what}", "flowdiff", "golden", "out", flag, output)
            refused(f"--json {output} would overwrite {what}", "flowdiff", "--first", "run", "run", "--json", output)
            refused(f"-o {output} would overwrite {what}", "flowc", "schema", "-o", output)
            refused(f"-o {output} would overwrite {what}", "flowc", "report", "run", "-o", output)
            if output != "job.yaml":
                refused(f"-o {output} would overwrite {what}", "flowc", "build", "job.yaml", "-o", output)
                refused(f"--junit {output} would overwrite {what}", "flowrun", "verify", "train", "job.yaml", "--junit", output)
        refused("--junit job.yaml would overwrite job.yaml, which the command reads", "flowrun", "verify", "train", "job.yaml", "--junit", "job.yaml")
        refused("-o job.yaml would overwrite job.yaml, which the command reads", "flowdiff", "calibrate", "train", "job.yaml", "-o", "job.yaml", "--force")
        refused("-o other.yml would overwrite a file without tolerances", "flowdiff", "calibrate", "train", "job.yaml", "-o", "other.yml", "--force")
        refused("-o run/plan.json may overwrite a file of a run", "flowdiff", "calibrate", "train", "job.yaml", "-o", "run/plan.json", "--force")
        refused("sheet exists and is not a report", "flowc", "report", "run", "-o", "sheet")
        self.call("flowc", "report", "run", "-o", "sheet", "--force")
        self.call("flowc", "report", "run", "-o", "sheet")  # a report is replaced
        self.call("flowc", "build", "job.yaml", "-o", "plan.json")
        self.call("flowc", "build", "job.yaml", "-o", "plan.json")

    def test_a_report_that_cannot_be_written_fails(self):
        (self.dir / "folder").mkdir()
        for flag, path, why, hint in (("--json", "nowhere/report.json", "directory nowhere does not exist", "create the directory"),
                                      ("--md", "folder", "is a directory", "name a file")):
            done = self.diff(flag, path, status=2)
            self.assertEqual(done.stderr, f"flowdiff: error: {flag}: cannot write {path}: {why}\n   hint: {hint}\n")
            self.assertEqual(done.stdout, "")


class Ignoring(FlowDiff):
    def setUp(self):
        super().setUp()
        self.pair("returns/loss/value", np.arange(2.), np.arange(2.))
        self.pair("watch/noise/value", np.zeros(2), np.ones(2))
        self.save("golden/watch/gone/value", np.zeros(2))
        self.save("out/watch/new/value", np.zeros(2))

    def test_what_is_ignored_neither_differs_nor_is_missing_nor_extra(self):
        done = self.diff("--ignore", "watch/**", "--json", "report.json", "--junit", "report.xml", "--md", "report.md")
        self.assertEqual(done.stdout.splitlines()[-1], "1 array: 1 equal; 3 ignored")
        self.assertNotIn("watch", done.stdout)
        self.assertEqual((self.dir / "report.md").read_text(), "**1 array: 1 equal; 3 ignored**\n")
        self.assertEqual(json.loads((self.dir / "report.json").read_text())["ignored"], ["watch/gone/value", "watch/new/value", "watch/noise/value"])
        self.assertEqual(ElementTree.parse(self.dir / "report.xml").getroot().get("tests"), "1")

    def test_several_globs_are_ignored(self):
        done = self.diff("--ignore", "watch/n*/value", "--ignore", "**/gone/value")
        self.assertEqual(done.stdout.splitlines()[-1], "1 array: 1 equal; 3 ignored")
        self.assertIn("2 arrays: 1 equal, 1 missing; 2 ignored", self.diff("--ignore", "watch/n*/value", status=1).stdout)

    def test_what_is_ignored_may_be_damaged(self):
        (self.dir / "out/watch/noise/value.npy").write_bytes(b"no array")
        self.diff("--ignore", "watch/**")

    def test_nothing_is_left(self):
        done = self.diff("--ignore", "**", status=4)
        self.assertIn("nothing to compare: --ignore matches every array", done.stderr)
        self.assertEqual(done.stdout, "0 arrays; 4 ignored\n")
        self.save("x", np.zeros(2))
        self.diff("--ignore", "x", golden="x.npy", out="x.npy", status=4)

    def test_a_glob_that_matches_nothing_is_a_mistake(self):
        done = self.diff("--ignore", "watch/noise/valu", status=2)
        self.assertIn("--ignore: no array matches `watch/noise/valu`\n   hint: did you mean `watch/noise/value`", done.stderr)
        self.diff("--ignore", "watch/**", "--tol", "watch/**=1,1")


class Requests(FlowDiff):
    def test_nothing_to_compare(self):
        (self.dir / "golden").mkdir()
        (self.dir / "out").mkdir()
        self.assertIn("nothing to compare", self.diff(status=4).stderr)
        self.save("golden/x", np.zeros(1))
        self.save("out/y", np.zeros(1))
        self.diff(status=4)

    def test_wrong_requests(self):
        self.assertIn("no such file or directory: golden", self.diff(status=2).stderr)
        self.call("flowdiff", status=2)
        self.save("golden/x", np.zeros(1))
        self.assertIn("a directory", self.diff(out="golden/x.npy", status=2).stderr)
        self.assertIn("--brief", self.call("flowdiff", "golden", "golden", "--breif", status=2).stderr)

    def test_job_files_and_plans_are_for_flowc_diff(self):
        self.write("a.plan", "{}")
        self.assertIn("hint: compare job files and plans with `flowc diff`\n", self.call("flowdiff", "a.plan", "a.plan", status=2).stderr)

    def test_help_and_version(self):
        self.assertIn("Exit status", self.call("flowdiff", "--help").stdout)
        self.assertRegex(self.call("flowdiff", "--version").stdout, r"^flowdiff \d+\.\d+\.\d+\n$")


class Hostile(FlowDiff):
    """What lies under a fixed name in a directory is a file of that directory, and of a size that fits."""

    def setUp(self):
        super().setUp()
        self.write("job.yaml", train_job(2))
        self.flowrun("job.yaml", "-o", "run", "--quiet", "--fingerprint=1", "--watch", "logits")
        self.call("flowdiff", "update", "golden", "run", "--reason", "first")
        self.write("golden/tolerances.yaml", "arrays:\n  '**': {atol: 1, reason: x}\n")

    def plant(self, name, make):
        """A copy of the run or of golden with something else under a name."""
        shutil.rmtree(self.dir / "bad", ignore_errors=True)
        source = "golden" if name in ("golden.json", "tolerances.yaml") else "run"
        shutil.copytree(self.dir / source, self.dir / "bad")
        path = self.dir / "bad" / name
        if path.exists():
            path.unlink()
        make(path)

    def each_form(self, check):
        for words in (("flowdiff", "bad", "run"), ("flowdiff", "run", "bad"), ("flowdiff", "--self-test", "bad"), ("flowdiff", "--first", "bad", "run", "--no-rerun"),
                      ("flowdiff", "update", "copy", "bad", "--reason", "x"), ("flowdiff", "update", "bad", "run", "--reason", "x"),
                      ("flowc", "report", "bad", "-o", "report.html"), ("flowc", "show", "bad/plan.json"), ("flowc", "diff", "bad/plan.json", "run/plan.json")):
            done = subprocess.run([BIN / words[0], *words[1:]], cwd=self.dir, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
            self.assertIn(done.returncode, (0, 1, 2, 3), words)
            check(words, done)

    def test_pipes_do_not_hang(self):
        for name in ("plan.json", "run.json", "golden.json", "metrics.jsonl", "tolerances.yaml", "fingerprints.bin", "watch/logits/value.npy", "watch/logits/steps.npy",
                     "checkpoints/000002/checkpoint.json", "checkpoints/000002/logits/bias.npy"):
            self.plant(name, os.mkfifo)
            self.each_form(lambda words, done: None)
        for name, words in (("plan.json", ["bad", "run"]), ("run.json", ["bad", "run"]), ("golden.json", ["bad", "run"]), ("tolerances.yaml", ["bad", "run"])):
            self.plant(name, os.mkfifo)
            self.assertIn(f"bad/{name} is not a file", self.call("flowdiff", *words, status=2).stderr)

    def test_links_that_lead_out_are_refused_and_show_nothing(self):
        self.write("secret", "password: 123\n")
        for name in ("plan.json", "run.json", "golden.json", "tolerances.yaml", "fingerprints.bin", "metrics.jsonl"):
            self.plant(name, lambda path: path.symlink_to("../secret"))
            self.each_form(lambda words, done: self.assertNotIn("password", done.stdout + done.stderr) or self.assertNotIn("Traceback", done.stderr))
            self.assertNotIn("password", (self.dir / "report.html").read_text() if (self.dir / "report.html").exists() else "")
        for name in ("plan.json", "run.json", "golden.json", "tolerances.yaml", "watch/logits/value.npy"):
            self.plant(name, lambda path: path.symlink_to(self.dir / "secret"))
            self.assertIn(f"bad/{name} is a link to {self.dir}/secret, outside the directory\n   hint: remove the link", self.call("flowdiff", "bad", "run", status=2).stderr)
        self.plant("run.json", lambda path: None)
        (self.dir / "bad/kept.json").write_bytes((self.dir / "run/run.json").read_bytes())
        (self.dir / "bad/run.json").symlink_to("kept.json")  # stays inside
        self.call("flowdiff", "bad", "run")

    def test_large_files_are_not_read(self):
        def sparse(path):
            with open(path, "wb") as file:
                file.truncate(20 << 30)
        limit = "ulimit -v 6000000; " if (BIN / "libfault_injector.so").exists() else ""  # sanitizers reserve more addresses
        for name in ("run.json", "plan.json", "golden.json", "tolerances.yaml"):
            self.plant(name, sparse)
            done = subprocess.run(["sh", "-c", f"{limit}exec {BIN}/flowdiff bad run"], cwd=self.dir, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"bad/{name} has more than", done.stderr)

    def test_update_keeps_holes(self):
        with open(self.dir / "golden/big", "wb") as file:
            file.write(b"begin")
            file.truncate(1 << 30)
        self.call("flowdiff", "update", "golden", "run", "--reason", "again")
        status = (self.dir / "golden/big").stat()
        self.assertEqual(status.st_size, 1 << 30)
        self.assertLess(status.st_blocks * 512, 4 << 20)
        with open(self.dir / "golden/big", "rb") as file:
            self.assertEqual(file.read(6), b"begin\0")

    def test_a_stopped_command_leaves_no_folder(self):
        (self.dir / "tmp").mkdir()
        for stop in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            command = subprocess.Popen([BIN / "flowdiff", "calibrate", "train", "job.yaml", "--set", "jobs.train.run.steps=1000000000", "-o", "t.yaml"], cwd=self.dir,
                                       env={**os.environ, "TMPDIR": str(self.dir / "tmp")}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            while not list((self.dir / "tmp").glob("*/1/metrics.jsonl")):
                self.assertIsNone(command.poll())
                time.sleep(0.01)
            command.send_signal(stop)
            self.assertEqual(command.wait(60), -stop)
            self.assertEqual(list((self.dir / "tmp").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
