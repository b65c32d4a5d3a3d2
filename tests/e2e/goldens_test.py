"""Keeping golden arrays: flowdiff update, golden.json, tolerances.yaml, what differences look like, --self-test. NumPy judges."""
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
import yaml

from flow import BIN, PairsTest, train_job


class Goldens(PairsTest):
    def diff(self, *flags, **options):
        return self.call("flowdiff", "golden", "out", *flags, **options)

    def update(self, *flags, reason="because", **options):
        return self.call("flowdiff", "update", "golden", "out", "--reason", reason, *flags, **options)

    def record(self):
        return json.loads((self.dir / "golden/golden.json").read_text())


class Update(Goldens):
    def test_a_run_becomes_the_golden_one(self):
        self.write("job.yaml", train_job(4))
        self.call("flowrun", "job.yaml", "-o", "out", "--quiet", "--watch", "logits", "--set", "vars.lr=0.2")
        self.assertIn(" added\n", self.update(reason="first").stdout)
        self.diff("--strict")
        record = self.record()
        run = json.loads((self.dir / "out/run.json").read_text())
        self.assertEqual(record["reason"], "first")
        self.assertEqual(record["run"]["overrides"], ["--set vars.lr=0.2", "--watch logits"])
        self.assertEqual(record["run"]["command"], "flowrun train job.yaml --set vars.lr=0.2 --watch logits")
        for key in ("plan_hash", "device", "instruction_set", "libraries", "version"):
            self.assertEqual(record["run"][key], run[key])
        self.assertRegex(record["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertIn("watch/logits/value", record["arrays"])
        self.call("flowrun", "job.yaml", "-o", "longer", "--quiet", "--watch", "logits", "--steps", 6)
        self.call("flowdiff", "update", "golden", "longer", "--reason", "more steps")
        self.call("flowdiff", "golden", "longer", "--strict")
        self.assertEqual([path.name for path in (self.dir / "golden/checkpoints").iterdir()], ["000006"])
        self.assertEqual(json.loads((self.dir / "golden/run.json").read_text())["last_step"], 6)

    def test_missing_arrays_stay_until_they_are_pruned(self):
        self.pair("x", np.arange(3.), np.arange(3.) + 1)
        self.save("golden/deep/old", np.arange(2.))
        self.write("golden/README", "kept")
        done = self.update()
        self.assertEqual(done.stdout, "changed  x\nkept     deep/old\n2 arrays: 1 changed, 1 kept that OUT lacks\n")
        self.assertIn("add --prune", done.stderr)
        self.assertEqual(sorted(self.record()["arrays"]), ["deep/old", "x"])
        self.assertEqual(self.update("--prune").stdout, "removed  deep/old\n2 arrays: 1 removed, 1 unchanged\n")
        self.assertEqual((self.dir / "golden/README").read_text(), "kept")
        self.assertFalse((self.dir / "golden/deep/old.npy").exists())
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["golden", "out"])

    def test_unchanged_files_keep_their_times_and_permissions(self):
        self.pair("x", np.arange(3.), np.arange(3.))
        self.write("golden/run.sh", "true").chmod(0o755)
        (self.dir / "golden").chmod(0o775)
        os.utime(self.dir / "golden/x.npy", (1, 2))
        self.update()
        self.assertEqual((self.dir / "golden/x.npy").stat().st_mtime, 2)
        self.assertEqual((self.dir / "golden/run.sh").stat().st_mode & 0o777, 0o755)
        self.assertEqual((self.dir / "golden").stat().st_mode & 0o777, 0o775)

    def test_wrong_requests(self):
        self.pair("x", np.arange(3.), np.arange(3.))
        before = self.files(".")
        for words, message in ((("golden", "out", "--reason", " "), "--reason: empty"),
                               (("golden", "golden", "--reason", "x"), "are the same directory"),
                               (("golden", "nowhere", "--reason", "x"), "no such file or directory: nowhere"),
                               (("golden", "out/x.npy", "--reason", "x"), "out/x.npy is a file"),
                               (("golden/x.npy", "out", "--reason", "x"), "golden/x.npy is a file"),
                               (("out/inner", "out", "--reason", "x"), "contain each other"),
                               ((".", "out", "--reason", "x"), "contain each other"),
                               (("golden", "out"), "--reason is required")):
            done = self.call("flowdiff", "update", *words, status=2)
            self.assertIn(message, done.stderr)
            self.assertIn("hint:", done.stderr)
        self.write("out/x.npy", "no array")
        self.assertIn("out/x.npy is not a .npy file", self.update(status=3).stderr)
        (self.dir / "out/x.npy").unlink()
        self.assertIn("out has no array", self.update(status=2).stderr)
        del before["out/x.npy"]
        self.assertEqual(self.files("."), before)

    def test_runs_that_are_not_complete_are_refused(self):
        self.write("out/plan.json", "{}")
        self.save("out/returns/x/value", np.arange(2.))
        for record, message in ((None, "out has no run.json"), ("{", "invalid JSON"), ("[]", "is not the record of a run"),
                                ('{"exit_status": 1}', "the run in out failed with exit status 1")):
            if record is not None:
                self.write("out/run.json", record)
            self.assertIn(message, self.update(status=2).stderr)
        self.assertFalse((self.dir / "golden").exists())
        self.write("out/run.json", '{"exit_status": 0, "overrides": [3, "--steps 2"], "job": 7}')
        self.update()
        self.assertEqual(self.record()["run"]["overrides"], ["--steps 2"])
        self.save("other/y", np.arange(2.))
        self.assertIn("`other` is a directory", self.call("flowdiff", "update", "golden", "other", "--reason", "x", status=2).stderr)

    def test_links(self):
        self.pair("x", np.arange(3.), np.arange(3.) + 1)
        self.save("elsewhere/y", np.arange(2.))
        (self.dir / "golden/x.npy").rename(self.dir / "elsewhere/x.npy")
        (self.dir / "golden/x.npy").symlink_to("../elsewhere/x.npy")
        (self.dir / "golden/dangling").symlink_to("nowhere")
        (self.dir / "golden/golden.json").symlink_to("../elsewhere/golden.json")
        (self.dir / "link").symlink_to("golden")
        self.call("flowdiff", "update", "link", "out", "--reason", "x")
        self.assertTrue((self.dir / "link").is_symlink())
        self.assertFalse((self.dir / "golden/x.npy").is_symlink())
        self.assertFalse((self.dir / "golden/golden.json").is_symlink())
        self.assertFalse((self.dir / "elsewhere/golden.json").exists())
        self.assertEqual(os.readlink(self.dir / "golden/dangling"), "nowhere")
        np.testing.assert_array_equal(self.load("elsewhere/x.npy"), np.arange(3.))
        (self.dir / "golden/sub").symlink_to("../elsewhere")
        self.save("out/sub/y", np.arange(2.))
        done = self.update(status=2)
        self.assertRegex(done.stderr, r"golden/sub is a symbolic link, and `sub/y.npy` is below it\n   hint: replace the link with its target")
        np.testing.assert_array_equal(self.load("elsewhere/y.npy"), np.arange(2.))
        (self.dir / "out/sub/y.npy").unlink()
        self.assertIn("`sub/x.npy` is below it", self.update("--prune", status=2).stderr)
        self.assertIn("kept     sub/x\nkept     sub/y\n", self.update().stdout)
        self.assertTrue((self.dir / "golden/sub").is_symlink())
        os.mkfifo(self.dir / "golden/pipe")
        self.assertIn("neither a file nor a directory", self.update(status=2).stderr)

    def test_an_exchange_that_the_file_system_cannot_do_is_refused(self):
        self.pair("x", np.arange(3.), np.arange(3.) + 1)
        before = self.files(".")
        for code in (errno.EINVAL, errno.ENOSYS):
            done = self.update(env=self.faults(call="rename", at=1, errno=code), status=2)
            self.assertIn("cannot replace", done.stderr)
            self.assertIn("hint: keep it on another file system", done.stderr)
        self.assertEqual(self.files("."), before)

    def test_another_update_is_refused(self):
        import fcntl
        self.pair("x", np.arange(3.), np.arange(3.) + 1)
        folder = os.open(self.dir / "golden", os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        self.assertIn("another update of golden is running", self.update(status=2).stderr)
        os.close(folder)
        self.update()


class Kills(Goldens):
    CALLS = ("open", "write", "mkdir", "syncfs", "rename", "fsync", "unlink", "close")

    def state(self):
        return {name: data for name, data in self.files("golden").items() if name != "golden.json"}

    def start(self):
        for folder in ("golden", "out"):
            subprocess.run(["rm", "-rf", self.dir / folder], check=True)
        for number in range(3):
            self.pair(f"deep/x{number}", np.arange(5.) + number, np.arange(5.) - number - 1)
        self.save("out/new", np.arange(2.))
        self.write("golden/README", "kept")
        self.write("golden/golden.json", json.dumps({"arrays": {}, "date": "old", "flow": "0", "reason": "old", "version": 1}))

    def test_a_failing_call_leaves_a_whole_golden(self):
        self.start()
        old = self.state()
        log = self.dir.parent / (self.dir.name + ".log")
        self.addCleanup(log.unlink)
        self.update(env=self.faults(log=log, path=str(self.dir)))
        new = self.state()
        calls = [line.split("\t")[0] for line in log.read_text().splitlines()]
        failed = 0
        for call in self.CALLS:
            for at in range(1, calls.count(call) + 1):
                self.start()
                done = subprocess.run([BIN / "flowdiff", "update", "golden", "out", "--reason", "new"], cwd=self.dir, capture_output=True, text=True,
                                      env={**os.environ, **self.faults(call=call, at=at, path=str(self.dir), errno=errno.EIO)})
                self.assertIn(done.returncode, (0, 3), done.stderr)
                reason = self.record()["reason"]
                self.assertEqual(self.state(), {"old": old, "new": new}[reason], (call, at))
                if done.returncode == 0:
                    self.assertEqual(reason, "new")
                else:
                    failed += 1
                    self.assertIn("Input/output error", done.stderr)
                self.update()
                self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["golden", "out"])
        self.assertGreater(failed, 15)

    def test_a_kill_at_any_call_leaves_the_old_or_the_new_golden(self):
        self.start()
        old = self.state()
        self.update()
        new = self.state()
        seen = set()
        for call in self.CALLS:
            for at in range(1, 200):
                self.start()
                env = {**os.environ, **self.faults(call=call, at=at, path=str(self.dir), kill=1)}
                done = subprocess.run([BIN / "flowdiff", "update", "golden", "out", "--reason", "new"], cwd=self.dir, capture_output=True, env=env)
                if done.returncode == 0:
                    break
                self.assertEqual(done.returncode, -signal.SIGKILL)
                reason = self.record()["reason"]
                self.assertEqual(self.state(), {"old": old, "new": new}[reason], (call, at))
                seen.add(reason)
                self.call("flowdiff", "golden", "golden")
                self.update()
                self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["golden", "out"], "leftovers")
        self.assertEqual(seen, {"old", "new"})

    def test_kills_by_the_clock(self):
        self.start()
        for number in range(20):
            self.save(f"out/large{number}", np.full(50_000, float(number)))
        for turn in range(40):
            self.save("out/turn", np.full(3, float(turn)))
            process = subprocess.Popen([BIN / "flowdiff", "update", "golden", "out", "--reason", f"turn {turn}"], cwd=self.dir,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.003 * (turn % 20))
            process.kill()
            process.wait()
            if (self.dir / "golden/turn.npy").exists():
                self.assertEqual(self.record()["reason"], f"turn {int(self.load('golden/turn.npy')[0])}")
        self.update(reason="last")
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["golden", "out"])


class Record(Goldens):
    def test_arrays_changed_by_hand_are_named(self):
        for name in ("a", "b", "c"):
            self.save("out/" + name, np.arange(3.))
        self.update()
        self.save("golden/a", np.arange(3.))
        self.diff("--strict")
        self.save("golden/a", np.arange(3.) + 1)
        self.save("golden/b", np.arange(3.) + 1e-9)
        (self.dir / "golden/c.npy").unlink()
        done = self.diff("--json", "diff.json", status=1)
        self.assertEqual(done.stdout.count("    golden was changed by hand after 2"), 2)
        self.assertRegex(done.stdout, r"golden was removed by hand after \S+Z: c\n$")
        found = {array["name"]: array["verdict"] for array in json.loads((self.dir / "diff.json").read_text())["arrays"]}
        self.assertEqual(found, {"a": "differs", "b": "mistrusted", "c": "extra"})

    def test_hostile_records(self):
        self.pair("x", np.arange(3.), np.arange(3.))
        good = '{"arrays": {}, "date": "", "flow": "", "reason": "", "version": 1}'
        self.write("golden/golden.json", good)
        self.assertIn("golden was added by hand", self.diff().stdout)
        for text in ("", "{", good[:-10], "[]", "null", good.replace("1", "2"), good.replace("{}", "[]"), good.replace("{}", '{"x": 1}'),
                     good.replace('"date"', '"data"'), "[" * 100_000, good.replace("{}", '{"x": "", "x": ""}')):
            self.write("golden/golden.json", text)
            done = self.diff(status=2)
            self.assertIn("golden/golden.json", done.stderr)
            self.assertIn("hint: restore it, or write a new one with `flowdiff update`", done.stderr)
        self.write("golden/golden.json", good.replace('"date"', '"dat"'))
        self.assertIn("golden/golden.json: missing key `date`; found `dat`\n", self.diff(status=2).stderr)
        (self.dir / "golden/golden.json").unlink()
        (self.dir / "golden/golden.json").symlink_to("golden.json")
        self.diff(status=3)
        (self.dir / "golden/golden.json").unlink()
        with open(self.dir / "golden/golden.json", "wb") as file:
            file.truncate(100 << 20)
        self.assertIn("has more than 64 MiB", self.diff(status=2).stderr)


class Tolerances(Goldens):
    def test_the_file_of_the_folder_applies(self):
        self.pair("net/w", np.float32([1, 2, 3]), np.float32([1, 2, 3.01]))
        self.diff(status=1)
        self.write("golden/tolerances.yaml", "arrays:\n  net/*: {atol: 0.1, reason: measured}\n")
        self.diff("--strict")
        self.diff("--tol", "net/w=0,0", status=1)
        self.diff("--rtol", 0, "--atol", 0)
        self.write("out/tolerances.yaml", "nonsense")
        self.diff()

    def test_steps(self):
        self.save("golden/returns/loss/steps", np.arange(4))
        self.save("out/returns/loss/steps", np.arange(4))
        self.pair("returns/loss/value", np.float32([1, 2, 3, 4]), np.float32([1, 2, 3.3, 9]))
        tolerance = "arrays:\n  '**/value': {{atol: 0.01, steps: {{2..: {{atol: 0.5}}}}, {}reason: chaotic}}\n"
        self.write("golden/tolerances.yaml", tolerance.format(""))
        self.assertIn("first at [3]", self.diff(status=1).stdout)
        self.write("golden/tolerances.yaml", tolerance.format("last_step: 2, "))
        self.diff()
        self.save("golden/x", np.arange(2.))
        self.save("out/x", np.arange(2.))
        self.write("golden/tolerances.yaml", "arrays:\n  x: {atol: 1, last_step: 2, reason: x}\n")
        self.assertIn("golden/tolerances.yaml:2:3: `x` has no steps", self.diff(status=2).stderr)

    def losses(self):
        for folder, shift in (("golden", 0), ("out", 0.5)):
            self.save(f"{folder}/returns/loss/steps", np.arange(20))
            self.save(f"{folder}/returns/loss/value", np.linspace(2, 1, 20) + shift)

    def rule(self, text):
        self.write("golden/tolerances.yaml", f"arrays:\n  'returns/**': {{{text}, reason: x}}\n")

    def test_tolerances_of_steps_are_checked_like_others(self):
        self.losses()
        for text in ("atol: 100", "steps: {0..: {atol: 100}}", "atol: 1e-9, spread: 1e-10, steps: {0..: {atol: 100}}", "atol: 1, steps: {7: {atol: 100}}"):
            self.rule(text)
            self.assertIn(" (rtol 0, atol 100) is wider than the spread of golden", self.diff().stdout)
            self.diff("--strict", status=1)
        self.assertIn("the tolerance in step 7 (rtol 0, atol 100)", self.diff().stdout)
        self.rule("atol: 1, spread: 1e-6, steps: {3..5: {atol: 1e-9}}")
        self.assertIn("golden/tolerances.yaml:2:3: the tolerance of `returns/loss/value` in step 3 is at most 1e-09; equally right runs differ by 1e-06",
                      self.diff(status=2).stderr)
        self.rule("atol: 0.51, steps: {4..: {atol: 0.25}}")
        self.assertIn("16 of 20 elements over tolerance (rtol 0, atol 0.25); first at [4]", self.diff(status=1).stdout)

    def test_a_tolerance_wider_than_the_data_is_mistrusted_for_equal_results_too(self):
        self.pair("x", np.arange(3.), np.arange(3.))
        self.diff("--strict", "--atol", 5)
        for flags in (["--tol", "x=0,5"], ["--tol", "x=1,0"]):
            self.assertIn("is wider than the spread of golden", self.diff(*flags).stdout)
            self.diff("--strict", *flags, status=1)
        self.diff("--strict", "--tol", "x=0,0.5")

    def test_steps_that_no_array_has_are_an_error(self):
        self.losses()
        self.rule("atol: 0.6, steps: {5: {atol: 0.6}, 100..200: {atol: 0.6}}")
        done = self.diff(status=2)
        self.assertIn("golden/tolerances.yaml:2:53: error: no step in `100..200`: arrays that match `returns/**` have 20 steps, from 0 to 19 [E0503]", done.stderr)
        self.assertIn("hint: use steps that the arrays have", done.stderr)
        self.assertIn("no step in `100..200`", self.call("flowdiff", "--self-test", "golden", status=2).stderr)
        self.rule("atol: 0.6, steps: {19..: {atol: 0.6}}")
        self.diff("--brief", status=0)

    def test_tolerances_of_steps_leave_the_numbers_of_the_steps_exact(self):
        self.losses()
        self.rule("atol: 9, last_step: 999")
        self.diff()
        self.save("out/returns/loss/steps", np.arange(20) + 1)
        self.assertRegex(self.diff(status=1).stdout, r"(?m)^returns/loss/steps .* differs$")

    def test_arrays_that_are_not_judged_have_no_figures(self):
        self.losses()
        self.rule("atol: 0.1, last_step: 3")
        self.assertIn("    4 of 4 elements over tolerance (rtol 0, atol 0.1); first at [0]: golden 2.0, out 2.5\n    not judged: 16 elements of later steps\n",
                      self.diff(status=1).stdout)
        self.rule("atol: 0.1, last_step: 0")
        self.save("golden/returns/loss/steps", np.arange(20) + 1)
        self.save("out/returns/loss/steps", np.arange(20) + 1)
        done = self.diff("--json", "diff.json", "--md", "diff.md")
        self.assertRegex(done.stdout, r"(?m)^returns/loss/value +float64 +\[20\] +- +- +-  mistrusted$")
        self.assertIn("| returns/loss/value | mistrusted | - | - | - | no step is judged", (self.dir / "diff.md").read_text())
        value = json.loads((self.dir / "diff.json").read_text())["arrays"][1]
        self.assertEqual((value["elements"], value["not_judged"]), (20, 20))
        self.assertNotIn("max_abs", value)

    def test_mistakes_point_to_the_line(self):
        self.pair("net/w", np.arange(3.), np.arange(3.))
        self.write("golden/tolerances.yaml", "arrays:\n  net/v: {atol: 0.1, reason: x}\n")
        done = self.diff(status=2)
        self.assertIn("golden/tolerances.yaml:2:3: error: no array matches `net/v` [E0503]", done.stderr)
        self.assertIn("hint: did you mean `net/w`?", done.stderr)
        self.assertIn("golden/tolerances.yaml: 1 error\n", done.stderr)
        self.write("golden/tolerances.yaml", "arrays:\n  net/w: {atol: 0.1}\n")
        self.assertIn("golden/tolerances.yaml:2:3: error: a tolerance requires `reason`", self.diff(status=2).stderr)
        (self.dir / "golden/tolerances.yaml").unlink()
        os.mkfifo(self.dir / "golden/tolerances.yaml")
        self.assertIn("golden/tolerances.yaml is not a file", self.diff(status=2, timeout=60).stderr)

    def test_a_tolerance_tighter_than_the_spread_is_refused(self):
        self.pair("x", np.arange(3.), np.arange(3.))
        self.write("golden/tolerances.yaml", "arrays:\n  x: {atol: 1e-9, spread: 1e-6, reason: x}\n")
        self.assertIn("golden/tolerances.yaml:2:3: the tolerance of `x` is at most 1e-09", self.diff(status=2).stderr)

    def test_mistrusted_arrays_pass_unless_strict(self):
        self.pair("constant", np.ones(3), np.ones(3))
        self.pair("nan", np.float32([1, np.nan]), np.float32([1, np.nan]))
        self.pair("wide", np.float32([1, 2, 3]), np.float32([1, 2, 3.5]))
        self.write("golden/tolerances.yaml", "arrays:\n  wide: {atol: 2, reason: x}\n")
        done = self.diff("--junit", "diff.xml", "--md", "diff.md", "--json", "diff.json")
        self.assertEqual(done.stdout.splitlines()[-1], "3 arrays: 3 mistrusted")
        self.assertIn("the tolerance (rtol 0, atol 2) is wider than the spread of golden, whose standard deviation is 0.816", done.stdout)
        self.assertEqual(json.loads((self.dir / "diff.json").read_text())["mistrusted"], 3)
        suite = ElementTree.parse(self.dir / "diff.xml").getroot()
        self.assertEqual(suite.get("failures"), "0")
        self.assertEqual(suite[1].findtext("system-out").strip(), "mistrusted: NaN on both sides: 1")
        self.assertIn("| constant | mistrusted | 0 | 0 | 0 | golden is constant: every element is 1.0 |\n", (self.dir / "diff.md").read_text())
        self.diff("--strict", "--junit", "diff.xml", status=1)
        self.assertEqual(ElementTree.parse(self.dir / "diff.xml").getroot().get("failures"), "3")


class Looks(Goldens):
    def look(self, golden, out):
        self.pair("x", golden, out)
        self.diff("--json", "diff.json", "--md", "diff.md", "--junit", "diff.xml", status=1)
        array, = json.loads((self.dir / "diff.json").read_text())["arrays"]
        if "look" in array:
            for report in ("diff.md", "diff.xml"):
                self.assertIn(array["look"]["text"].replace("_", "\\_" if report == "diff.md" else "_"), (self.dir / report).read_text())
        return array

    def test_numpy_judges_statistics_and_shares(self):
        random = np.random.default_rng(3)
        for _ in range(5):
            golden = random.standard_normal((6, 7, 5))
            out = golden + 0.3 + 0.01 * random.standard_normal(golden.shape)
            found = self.look(golden, out)
            error = out - golden
            for key in ("50", "90", "99"):
                self.assertAlmostEqual(found["percentiles"][key], np.percentile(abs(error), int(key)), delta=1e-12)
            for axis in found["axes"]:
                sums = (error ** 2).sum(tuple(set(range(3)) - {axis["axis"]}))
                self.assertEqual(axis["index"], sums.argmax())
                self.assertAlmostEqual(axis["share"], sums.max() / sums.sum(), delta=1e-9)
            self.assertEqual(found["look"]["kind"], "offset")
            self.assertAlmostEqual(found["look"]["share"], 1 - ((error - error.mean()) ** 2).sum() / (error ** 2).sum(), delta=1e-9)
            gain = self.look(golden, 1.2 * golden + 0.01 * random.standard_normal(golden.shape))
            out = self.load("out/x.npy")
            best = (out * golden).sum() / (golden ** 2).sum()
            self.assertEqual(gain["look"]["kind"], "gain")
            self.assertAlmostEqual(gain["look"]["share"], 1 - ((out - best * golden) ** 2).sum() / ((out - golden) ** 2).sum(), delta=1e-9)

    def test_each_look(self):
        random = np.random.default_rng(4)
        golden = random.standard_normal((12, 9)).astype(np.float32)
        square = random.standard_normal((8, 8))
        channel, tail, one = golden.copy(), golden.copy(), golden.copy()
        channel[:, 3] += 0.5
        tail[-2:] *= 2
        one[4, 4] = 9
        for kind, a, b in (("sign", golden, -golden), ("transposed", square, square.T.copy()), ("shifted", golden, np.roll(golden, 1, 1)),
                           ("permuted_rows", golden, random.permutation(golden)), ("one_channel", golden, channel), ("tail_rows", golden, tail),
                           ("one_element", golden, one), ("rounding", golden, golden.astype(np.float16).astype(np.float32)),
                           ("transposed", golden, golden.T.copy())):
            self.assertEqual(self.look(a, b)["look"]["kind"], kind)
        self.assertNotIn("look", self.look(golden, random.standard_normal((12, 9)).astype(np.float32)))

    def test_stale_values_of_a_run(self):
        self.write("job.yaml", train_job(6))
        self.call("flowrun", "job.yaml", "-o", "golden", "--quiet", "--watch", "logits", "--set", "+jobs.train.hooks=[{watch: hidden, to: {type: npy, layout: per_step}}]")
        subprocess.run(["cp", "-r", "golden", "out"], cwd=self.dir, check=True)
        logits = self.load("golden/watch/logits/value.npy")
        np.save(self.dir / "out/watch/logits/value.npy", np.concatenate([logits[:1], logits[:-1]]))
        (self.dir / "out/watch/hidden/000004.npy").write_bytes((self.dir / "golden/watch/hidden/000002.npy").read_bytes())
        done = self.diff(status=1)
        self.assertIn("looks like: stale: each step has the values of the one before (explains 100.0 % of the squared error)", done.stdout)
        self.assertIn("looks like: stale: the values of step 2", done.stdout)
        self.assertRegex(done.stdout, "first difference in computation order: watch/logits/value, at step 1; inputs pass: hidden; inputs not watched: logits/weight, logits/bias")

    def test_arrays_of_runs_come_in_the_order_of_the_plan(self):
        self.write("job.yaml", train_job(2))
        self.call("flowrun", "job.yaml", "-o", "golden", "--quiet", "--watch", "logits", "--watch", "hidden", "--watch", "x")
        names = [line.split()[0] for line in self.call("flowdiff", "golden", "golden").stdout.splitlines()[1:-1] if not line.startswith(" ")]
        self.assertEqual([name for name in names if name.endswith("/value")][:3], ["watch/x/value", "watch/hidden/value", "watch/logits/value"])
        self.assertEqual([name for name in names if name.startswith("checkpoint")],
                         ["checkpoint/hidden/weight", "checkpoint/hidden/bias", "checkpoint/logits/weight", "checkpoint/logits/bias"])

    def test_inputs_of_what_differs_first(self):
        self.write("job.yaml", train_job(2))
        watched = ["--watch", "x", "--watch", "hidden", "--watch", "logits"]
        self.call("flowrun", "job.yaml", "-o", "golden", "--quiet", *watched)
        self.call("flowrun", "job.yaml", "-o", "out", "--quiet", *watched, "--set", "+jobs.train.graph.logits.bias_initializer=ones")
        self.assertIn("first difference in computation order: watch/logits/value, at step 0; inputs pass: hidden; inputs not watched: logits/weight, logits/bias",
                      self.diff(status=1).stdout)


class Calibrate(Goldens):
    def test_measured_tolerances_raise_no_false_alarm_and_find_faults(self):
        self.write("job.yaml", train_job(8))
        run = ["--watch", "**"]
        done = self.call("flowdiff", "calibrate", "train", "job.yaml", "--watch", "**", "-o", "tolerances.yaml")
        self.assertRegex(done.stdout, r"(?m)^  watch/logits/value +\d")
        self.assertIn("float64", done.stdout)
        self.assertIn("exists\n   hint: replace it with --force", self.call("flowdiff", "calibrate", "train", "job.yaml", "-o", "tolerances.yaml", status=2).stderr)
        self.call("flowrun", "job.yaml", "-o", "first", "--quiet", *run)
        self.call("flowdiff", "update", "golden", "first", "--reason", "calibrated")
        (self.dir / "tolerances.yaml").rename(self.dir / "golden/tolerances.yaml")
        for number, (words, env) in enumerate(((["--threads", 3], {}), (["--set", "jobs.train.shards=8"], {}), ([], {"ONEDNN_MAX_CPU_ISA": "AVX"}))):
            self.call("flowrun", "job.yaml", "-o", f"run{number}", "--quiet", *run, *words, env=env)
            self.call("flowdiff", "golden", f"run{number}", "--brief")
            self.find_faults(f"run{number}", np.random.default_rng(number))
        done = self.call("flowdiff", "--self-test", "golden")
        found, every = map(int, [word for word in done.stdout.splitlines()[-1].split() if word.isdigit()])
        self.assertGreaterEqual(found, 0.95 * every)
        tight = (self.dir / "golden/tolerances.yaml").read_text().replace("atol: ", "atol: 1e-12  # ")
        self.write("golden/tolerances.yaml", tight)
        self.assertIn("equally right runs differ by", self.call("flowdiff", "golden", "run0", status=2).stderr)

    def find_faults(self, run, random):
        """Each array of the run gets a fault of exactly ten times its measured tolerance, on top of how far the run is from golden: at least
        95 % are found."""
        def offset(values, size):
            return values + size

        def element(values, size):
            values.flat[random.integers(values.size)] += size
            return values

        def last_row(values, size):
            values[-1] -= size
            return values

        def channel(values, size):
            values[..., random.integers(values.shape[-1])] += size
            return values

        def gain(values, size):
            return values * (1 + size / abs(values).max())

        def noise(values, size):
            return values + random.uniform(-size, size, values.shape)

        rules = yaml.safe_load((self.dir / "golden/tolerances.yaml").read_text())["arrays"]
        floats = [name for name in rules if "last_step" not in rules[name]]
        self.assertGreater(len(floats), 8)
        injected = found = 0
        for fault in (offset, element, last_row, channel, gain, noise):
            shutil.copytree(self.dir / run, self.dir / "damaged")
            for name in floats:
                path = next((self.dir / "damaged/checkpoints").iterdir()) / (name[11:] + ".npy") if name.startswith("checkpoint/") else self.dir / "damaged" / (name + ".npy")
                values = np.load(path)
                np.save(path, fault(values.astype(np.float64), 10 * float(rules[name]["atol"])).astype(values.dtype))
            self.call("flowdiff", "golden", "damaged", "--json", "damaged.json", status=1)
            differ = {array["name"] for array in json.loads((self.dir / "damaged.json").read_text())["arrays"] if array["verdict"] == "differs"}
            injected += len(floats)
            found += len(differ & set(floats))
            shutil.rmtree(self.dir / "damaged")
        self.assertGreaterEqual(found, 0.95 * injected)

    def test_chaotic_arrays_are_judged_until_they_part(self):
        self.write("job.yaml", train_job(60))
        chaotic = ["--set", "vars.lr=30", "--watch", "logits"]
        self.call("flowdiff", "calibrate", "train", "job.yaml", "-o", "tolerances.yaml", "--steps", 50, *chaotic)
        text = (self.dir / "tolerances.yaml").read_text()
        self.assertEqual(text.splitlines()[0], "# flowdiff calibrate train job.yaml --set vars.lr=30 --watch logits --steps 50 -o tolerances.yaml --force")
        self.assertRegex(text, r'"watch/logits/value":\n    atol: .*\n    spread: .*\n    last_step: \d+\n    reason: chaotic in later steps; largest error with ')
        self.call("flowrun", "job.yaml", "-o", "golden", "--quiet", "--steps", 50, *chaotic)
        self.call("flowrun", "job.yaml", "-o", "out", "--quiet", "--steps", 50, *chaotic, "--set", "jobs.train.shards=2")
        self.diff(status=1)
        (self.dir / "tolerances.yaml").rename(self.dir / "golden/tolerances.yaml")
        self.diff("--json", "diff.json")
        judged = {array["name"]: array.get("not_judged", 0) for array in json.loads((self.dir / "diff.json").read_text())["arrays"]}
        self.assertGreater(judged["watch/logits/value"], 0)

    def test_wrong_requests(self):
        self.write("job.yaml", "flow: 1\njobs: {}\n")
        done = self.call("flowdiff", "calibrate", "train", "job.yaml", "-o", "t.yaml", status=3)
        self.assertRegex(done.stderr, "^flowdiff: reference: not measured: job.yaml.*error: .*\n")
        self.assertFalse((self.dir / "t.yaml").exists())
        self.assertIn("-o: cannot write nowhere/t.yaml: directory nowhere does not exist\n   hint: create the directory",
                      self.call("flowdiff", "calibrate", "train", "job.yaml", "-o", "nowhere/t.yaml", status=2).stderr)
        self.assertIn("--steps: expected at least 1", self.call("flowdiff", "calibrate", "a", "b", "-o", "t", "--steps", 0, status=2).stderr)


class SelfTest(Goldens):
    def test_faults_that_pass_are_listed(self):
        self.save("golden/x", np.random.default_rng(5).standard_normal((20, 10)).astype(np.float32))
        self.save("golden/constant", np.ones(3))
        done = self.call("flowdiff", "--self-test", "golden")
        self.assertEqual(done.stdout.splitlines()[:-1], ["not tested: constant: it is constant"])
        found, every = map(int, [word for word in done.stdout.splitlines()[-1].split() if word.isdigit()])
        self.assertEqual(found, every)
        self.write("golden/tolerances.yaml", "arrays:\n  x: {atol: 0.05, reason: wide}\n")
        done = self.call("flowdiff", "--self-test", "golden")
        self.assertRegex(done.stdout, r"(?m)^  x +constant offset +up to 1 % of the standard deviation$")
        self.assertRegex(done.stdout, r"(?m)^  x +rounded +to float16, to bfloat16$")
        self.assertNotRegex(done.stdout, "(?m)^  x +opposite sign")
        self.call("flowdiff", "--self-test", "golden", "--strict", status=1)

    def test_reports(self):
        self.save("golden/x", np.random.default_rng(5).standard_normal((20, 10)).astype(np.float32))
        self.save("golden/y", np.random.default_rng(6).standard_normal((20, 10)).astype(np.float32))
        self.save("golden/constant", np.ones(3))
        self.write("golden/tolerances.yaml", "arrays:\n  x: {atol: 0.05, reason: wide}\n")
        words = ("--self-test", "golden", "--json", "test.json", "--junit", "test.xml", "--md", "test.md")
        last = self.call("flowdiff", *words).stdout.splitlines()[-1]
        found = json.loads((self.dir / "test.json").read_text())
        self.assertEqual(f"{found['found']} of {found['injected']} faults found", last)
        self.assertIn({"array": "x", "fault": "rounded", "sizes": ["to float16", "to bfloat16"]}, found["missed"])
        self.assertEqual(found["not_tested"], ["constant: it is constant"])
        text = (self.dir / "test.md").read_text()
        self.assertTrue(text.startswith(f"**{last}**\n\n| array | fault | not detected |\n"), text)
        self.assertIn("| x | constant offset | up to 1 % of the standard deviation |\n", text)
        self.assertEqual(text.count("\n| x |"), len(found["missed"]))
        suite = ElementTree.parse(self.dir / "test.xml").getroot()
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("2", "0"))
        self.assertIn("rounded not detected: to float16, to bfloat16\n", suite.find("testcase[@name='x']/system-out").text)
        self.assertEqual(self.call("flowdiff", *words[:2], "--md", "-").stdout, text)
        self.call("flowdiff", *words, "--strict", status=1)
        suite = ElementTree.parse(self.dir / "test.xml").getroot()
        self.assertEqual([case.get("name") for case in suite if case.find("failure") is not None], ["x"])

    def test_wrong_requests(self):
        self.save("golden/x", np.ones(1))
        self.assertIn("takes no OUT", self.call("flowdiff", "--self-test", "golden", "golden", status=2).stderr)
        self.assertIn("has no array to put a fault into", self.call("flowdiff", "--self-test", "golden", status=2).stderr)
        self.assertIn("OUT is required", self.call("flowdiff", "golden", status=2).stderr)
        self.assertIn("GOLDEN is required", self.call("flowdiff", status=2).stderr)
        self.write("golden/x.npy", "no array")
        self.assertIn("no array to put a fault", self.call("flowdiff", "--self-test", "golden", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
