"""Run directories: what is made, taken, kept and refused; what a run reads from others and leaves for them."""
import errno
import fcntl
import json
import os
import re
import shutil
import subprocess
import unittest

import numpy as np

from flow import AFFINE, BIN, JOBS, ROWS, FlowTest, train_job


class MovedProjects(FlowTest):
    """A project is a folder with job files, data and runs."""

    def setUp(self):
        super().setUp()
        self.write("project/jobs/rows.yaml", ROWS)
        self.write("project/jobs/train.yaml", train_job(4))
        np.save(self.dir / "project/jobs/x.npy", np.ones((8, 3), np.float32))

    def root_of(self, plan):
        return json.loads((self.dir / plan).read_text())["root"]

    def test_a_plan_of_a_run_finds_its_data_after_the_project_moved(self):
        self.flowrun("project/jobs/rows.yaml", "-o", "project/runs/1", "--quiet")
        self.assertEqual(self.root_of("project/runs/1/plan.json"), "../../jobs")
        (self.dir / "project").rename(self.dir / "moved")
        self.flowrun("moved/runs/1/plan.json", "-o", "moved/runs/2", "--quiet")
        np.testing.assert_array_equal(self.load("moved/runs/2/returns/y/value.npy"), self.load("moved/runs/1/returns/y/value.npy"))
        self.assertEqual(self.root_of("moved/runs/2/plan.json"), "../../jobs")
        self.assertIn(str(self.dir / "moved/jobs"), self.call("flowc", "show", "moved/runs/1/plan.json", "--format", "json").stdout)
        self.call("flowc", "diff", "moved/runs/1/plan.json", "moved/jobs/rows.yaml", status=0)

    def test_a_plan_of_a_run_holds_the_root_that_was_given(self):
        np.save(self.dir / "x.npy", np.zeros((4, 3), np.float32))
        self.flowrun("project/jobs/rows.yaml", "-o", "out", "--root", ".", "--quiet")
        self.assertEqual(self.root_of("out/plan.json"), "..")
        self.flowrun("out/plan.json", "-o", "again", "--quiet")
        self.assertEqual(self.load("again/returns/y/value.npy").sum(), 0)
        self.flowrun("out/plan.json", "-o", "ones", "--root", "project/jobs", "--quiet")
        self.assertEqual(self.load("ones/returns/y/value.npy").min(), 2)

    def test_the_directory_of_the_run_may_be_behind_a_link(self):
        (self.dir / "scratch/deep/er").mkdir(parents=True)
        (self.dir / "project/runs").symlink_to(self.dir / "scratch/deep/er")
        self.flowrun("project/jobs/rows.yaml", "-o", "project/runs/1", "--quiet")
        for plan in ("project/runs/1/plan.json", "scratch/deep/er/1/plan.json"):
            self.flowrun(plan, "-o", "out", "--force", "--quiet")

    def test_a_run_of_a_moved_project_is_resumed_from_its_plan(self):
        self.flowrun("project/jobs/train.yaml", "-o", "project/runs/1", "--quiet")
        (self.dir / "project").rename(self.dir / "moved")
        self.flowrun("moved/runs/1/plan.json", "-o", "moved/runs/1", "--resume", "--steps", 6, "--quiet")
        self.assertEqual(self.root_of("moved/runs/1/plan.json"), "../../jobs")

    def test_a_plan_from_standard_input_is_relative_to_where_the_program_is(self):
        self.flowrun("project/jobs/rows.yaml", "-o", "project/runs/1", "--quiet")
        (self.dir / "project/runs/2").mkdir()
        with open(self.dir / "project/runs/1/plan.json") as plan:
            subprocess.run([BIN / "flowrun", "-", "-o", "out", "--quiet"], cwd=self.dir / "project/runs/2", stdin=plan, check=True, timeout=60)


class FoldersThatCannotBeMade(FlowTest):
    def test_the_reason_is_that_of_the_folder(self):
        """Not that a file in a folder that is not there cannot be written."""
        job = train_job(4) + "    returns: {value: loss}\n    hooks: [{watch: logits, to: {type: npy, layout: per_step}}]\n"
        self.write("job.yaml", job)
        for folder in ("out", "out/returns/loss", "out/watch/logits", "out/checkpoints"):
            shutil.rmtree(self.dir / "out", ignore_errors=True)
            full = self.faults(call="mkdir", path=folder, at=1, errno=errno.ENOSPC)
            done = self.call("flowrun", "job.yaml", "-o", "out", "--quiet", env=full, status=2 if folder == "out" else 3)
            self.assertRegex(done.stderr, f"error: .*cannot create the directory {folder}\\S*: No space left on device", folder)

    def test_a_file_in_the_way_is_named(self):
        self.write("job.yaml", train_job(2))
        self.write("file", "")
        for path, why in (("file/out", "Not a directory"), (f"deep/{'x' * 300}/out", "File name too long")):
            done = self.flowrun("job.yaml", "-o", path, status=2)
            self.assertIn(f"cannot create the directory {path}: {why}\n   hint: name another directory with -o DIR\n", done.stderr)


class Directories(FlowTest):
    def test_a_single_job_needs_no_name_and_gets_a_fresh_directory_each_time(self):
        self.write("one.yaml", AFFINE)
        np.save(self.dir / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
        for number in ("001", "002"):
            done = self.flowrun("one.yaml", "--input", "x=@x.npy")
            self.assertIn(f"runs/one-double-{number}", done.stderr)
            np.testing.assert_array_equal(self.load(f"runs/one-double-{number}/returns/y/value.npy"), [[[0, 2, 4], [6, 8, 10]]])

    def test_several_jobs_are_listed(self):
        done = self.flowrun(JOBS / "lenet.yaml", status=2)
        self.assertIn("`train`, `eval`, `accuracy`", done.stderr)

    def test_an_unknown_job_gets_a_suggestion(self):
        self.assertIn("did you mean `train`?", self.flowrun("trian", JOBS / "lenet.yaml", status=2).stderr)

    def test_a_directory_that_is_not_empty_is_refused_and_left_alone(self):
        self.write("one.yaml", AFFINE)
        self.write("out/precious.txt", "mine")
        done = self.flowrun("one.yaml", "--input", "x=random_uniform:-1:1", "-o", "out", status=2)
        self.assertIn("not empty", done.stderr)
        self.assertEqual(self.files("out"), {"precious.txt": b"mine"})

    def test_counts_are_whole_numbers(self):
        self.write("one.yaml", AFFINE)
        for flag, value, most in (("--steps", "-1", 2**53), ("--steps", "9" * 23, 2**53), ("--threads", "x", 1024), ("--threads", "1.5", 1024)):
            done = self.flowrun("one.yaml", flag, value, status=2)
            self.assertRegex(done.stderr, rf"error: {flag}: `{value}` is not a whole number from [01] to {most}\n")

    def test_a_directory_that_another_run_writes_to_is_refused(self):
        self.write("one.yaml", AFFINE)
        (self.dir / "out").mkdir()
        taken = os.open(self.dir / "out", os.O_RDONLY)
        fcntl.flock(taken, fcntl.LOCK_EX)
        for more in ([], ["--force"], ["--resume"]):
            done = self.flowrun("one.yaml", "--input", "x=random_uniform:-1:1", "-o", "out", *more, status=2)
            self.assertIn("another run is writing to out", done.stderr)
        os.close(taken)
        self.flowrun("one.yaml", "--input", "x=random_uniform:-1:1", "-o", "out")

    def test_force_removes_what_a_run_wrote_and_nothing_else(self):
        self.write("one.yaml", AFFINE)
        self.flowrun("one.yaml", "--input", "x=random_uniform:-1:1", "-o", "out")
        self.write("out/precious.txt", "mine")
        self.flowrun("one.yaml", "--input", "x=random_uniform:-1:1", "-o", "out", "--force", "--set", "+jobs.double.returns.to={type: npy, layout: per_step}")
        self.assertEqual(sorted(self.files("out")), ["plan.json", "precious.txt", "returns/y/000000.npy", "run.json"])

    def test_a_removal_that_was_cut_short_is_gone_on_with(self):
        self.write("one.yaml", AFFINE)
        self.write("out/.flow-removed/returns/y/value.npy", "an earlier run's")
        self.write("out/precious.txt", "mine")
        self.write("out/run.json.123.tmp", "half of a record")
        self.flowrun("one.yaml", "--input", "x=random_uniform:-1:1", "-o", "out", "--force")
        self.assertEqual(sorted(self.files("out")), ["plan.json", "precious.txt", "returns/y/steps.npy", "returns/y/value.npy", "run.json"])

    def test_force_removes_nothing_where_there_was_no_run(self):
        self.write("one.yaml", AFFINE)
        for name in ("returns/mine.txt", "run.json"):
            shutil.rmtree(self.dir / "out", ignore_errors=True)
            self.write(f"out/{name}", "mine")
            done = self.flowrun("one.yaml", "--input", "x=random_uniform:-1:1", "-o", "out", "--force", status=2)
            self.assertIn(f"out/{name.split('/')[0]} does not belong to a run: no plan.json next to it", done.stderr)
            self.assertEqual(list(self.files("out")), [name])

    def test_force_removes_nothing_for_a_run_that_cannot_start_or_that_reads_it(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--steps", 1)
        before = self.files("out")
        self.flowrun("eval", JOBS / "mlp.yaml", "-o", "out", "--force", status=2)
        self.assertIn("out, which this run reads", self.flowrun("eval", JOBS / "mlp.yaml", "-o", "out", "--force", "--load", "out", status=2).stderr)
        self.assertEqual(self.files("out"), before)

        self.write("one.yaml", AFFINE)
        self.flowrun("one.yaml", "--input", "x=random_uniform:-1:1", "-o", "again")
        before = self.files("again")
        for x in ("@again/returns/y/value.npy", "@./again/../again/returns/y/value.npy"):
            done = self.flowrun("one.yaml", "--input", f"x={x}", "-o", "again", "--force", status=2)
            self.assertIn("which this run reads", done.stderr)
        done = self.flowrun("one.yaml", "--set", "+jobs.double.inputs.x.from={npy: again/returns/y/value.npy}", "-o", "again", "--force", status=2)
        self.assertIn("which this run reads", done.stderr)
        self.assertEqual(self.files("again"), before)

    def test_a_default_directory_is_taken_too(self):
        self.write("job.yaml", train_job(4) + "    hooks: [{watch: loss, to: {type: command, run: 'flowrun job.yaml -o runs/job-train-001 --force 2> said; cat > /dev/null'}}]\n")
        self.flowrun("job.yaml", "--quiet", env={"PATH": f"{BIN}:{os.environ['PATH']}"})
        self.assertIn("another run is writing to runs/job-train-001", (self.dir / "said").read_text())

    def test_nothing_is_saved_over_what_the_run_writes(self):
        self.write("job.yaml", train_job(2))
        for path in ("out/checkpoints", "out/run.json", "out/watch/x", "out/../out/metrics.jsonl"):
            done = self.flowrun("job.yaml", "-o", "out", "--force", "--save", path, status=2)
            self.assertIn("belongs to the run itself", done.stderr)
        done = self.flowrun("job.yaml", "-o", "out", "--save", "w.npz", status=2)
        self.assertIn("--save: w.npz names a file", done.stderr)
        self.assertIn("write `w`", done.stderr)
        self.assertIn("a name is longer than 255 bytes", self.flowrun("job.yaml", "-o", "out", "--save", "w" * 256, status=2).stderr)
        self.assertIn("--save: empty path", self.flowrun("job.yaml", "-o", "out", "--save", "", status=2).stderr)
        self.flowrun("job.yaml", "-o", "out", "--force", "--quiet", "--save", "out/final")

    def test_a_link_to_a_checkpoint_stays_one(self):
        self.write("job.yaml", train_job(2))
        (self.dir / "models").mkdir()
        (self.dir / "latest").symlink_to("models/first")
        for seed in (1, 2):  # the first is made, the second replaces it
            self.flowrun("job.yaml", "-o", "out", "--force", "--quiet", "--save", "latest", "--set", f"+seed={seed}")
            self.assertEqual(os.readlink(self.dir / "latest"), "models/first")
            self.assertEqual(self.files("models/first")["hidden/weight.npy"], self.files("out/checkpoints/000002")["hidden/weight.npy"])
        self.assertEqual([path.name for path in (self.dir / "models").iterdir()], ["first"])

    def test_variables_that_are_let_start_anew(self):
        self.write("job.yaml", train_job(3))
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        wider = ["--set", "jobs.train.graph.hidden.units=9", "--load", "out", "--steps", 0]
        done = self.flowrun("job.yaml", "-o", "wide", *wider, status=2)
        self.assertIn("3 of 4 variables are missing or have a different shape", done.stderr)
        self.assertIn("--load-partial", done.stderr)
        self.flowrun("job.yaml", "-o", "wide", *wider, "--load-partial", "hidden/*", status=2)
        done = self.flowrun("job.yaml", "-o", "wide", *wider, "--load-partial", "hidden/*", "--load-partial", "**/weight")
        self.assertIn("initialized instead: `hidden/weight`, `hidden/bias`, `logits/weight`", done.stderr)
        loaded, fresh = self.checkpoint("wide"), self.checkpoint("out")
        np.testing.assert_array_equal(np.load(loaded / "logits/bias.npy"), np.load(fresh / "logits/bias.npy"))
        self.flowrun("job.yaml", "-o", "anew", "--quiet", "--set", "jobs.train.graph.hidden.units=9", "--steps", 0)
        np.testing.assert_array_equal(np.load(loaded / "hidden/weight.npy"), np.load(self.checkpoint("anew") / "hidden/weight.npy"))
        self.assertIn("no variable matches `head/*`", self.flowrun("job.yaml", "-o", "x", *wider, "--load-partial", "head/*", status=2).stderr)
        self.assertIn("--load-partial requires a checkpoint to load", self.flowrun("job.yaml", "-o", "x", "--load-partial", "**", status=2).stderr)

    def test_what_cannot_be_reached_is_no_defect(self):
        os.symlink("loop", self.dir / "loop")
        self.assertIn("loop", self.flowrun("loop", status=3).stderr)
        self.assertIn("loop", self.call("flowc", "check", "loop", status=3).stderr)
        self.assertIn("loop", self.call("flowdiff", "loop", "loop", status=3).stderr)

    def test_names_that_are_no_text_are_told_as_json_all_the_same(self):
        self.write("job.yaml", train_job(1))
        done = subprocess.run([BIN / "flowrun", "job.yaml", "--json", "-o", b"out\xff"], cwd=self.dir, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_counts_what_is_printed_of_epochs(self):
        self.write("rows.yaml", ROWS + """    hooks:
      - watch: y
        steps: [3, 7]
        to: [{type: print, reduce: mean, over: epoch, every: 2, label: every2}, {type: print, reduce: mean, over: epoch, label: every1}]
    run: {epochs: 5}
""")
        np.save(self.dir / "x.npy", np.zeros((8, 3), np.float32))
        printed = self.flowrun("rows.yaml", "-o", "out", "--quiet").stdout.splitlines()
        self.assertEqual(printed, ["every2: 0.0", "every1: 0.0", "every1: 0.0"])

    def test_two_values_for_one_file_are_refused(self):
        self.write("job.yaml", """flow: 1
networks:
  net: {inputs: [x], graph: {y: {op: add, in: [x, 1]}}}
jobs:
  predict:
    type: predict
    placement: {device: cpu, ids: "0:0-1"}
    inputs: {x: {shape: [4, 3], dtype: float32, from: {type: iota}}}
    graph: {b: {op: net, in: x, repeat: 2}}
""")
        for words, said in [("hooks=[{watch: b, to: [npy, npy]}]", "`to` writes the same .npy twice"),
                            ("hooks=[{watch: b, type: ListNumpy}, {watch: b/0}]", "`b/0` would be written to watch/b/0, like `b/0` of"),
                            ("returns={type: 'Tuple[ListNumpy, Numpy]', value: [b, b/0]}", "would be written to returns/b/0, like")]:
            self.assertIn(said, self.flowrun("job.yaml", "-o", "out", "--set", "+jobs.predict." + words, status=2).stderr)

    def test_a_refused_run_leaves_no_default_directory(self):
        self.flowrun("eval", JOBS / "mlp.yaml", status=2)
        self.assertEqual(list((self.dir / "runs").iterdir()), [])

    def test_a_directory_is_no_job_file_but_may_have_a_plan(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "a run", "--steps", 1)
        done = self.flowrun("train", "a run", status=2)
        self.assertIn("a run is a directory\n   hint: use the plan of its run: a run/plan.json", done.stderr)
        self.assertIn("-o: empty directory name", self.flowrun("train", JOBS / "mlp.yaml", "-o", "", status=2).stderr)

    def test_what_was_done_already_says_how_to_go_on(self):
        said = self.flowrun("train", JOBS / "mlp.yaml", "-o", "a run", "--steps", 2).stderr
        self.assertRegex(said, "train done, 2 steps in .*; use it in predict jobs with --load 'a run'")
        again = self.flowrun("train", JOBS / "mlp.yaml", "-o", "a run", "--steps", 2, "--resume").stderr
        self.assertIn("train is already done after 2 steps; continue with --steps N", again)

    def test_the_folder_of_checkpoints_stands_for_its_newest(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "a", "--steps", 2)
        for path in ("a", "a/checkpoints", "a/checkpoints/", "a/checkpoints/000002"):
            self.flowrun("train", JOBS / "mlp.yaml", "-o", "b", "--steps", 0, "--load", path, "--force", "--quiet")
            self.assertEqual(self.files("a/checkpoints/000002")["mlp/hidden/weight.npy"], self.files("b/checkpoints/000000")["mlp/hidden/weight.npy"])

    def test_a_refused_resume_leaves_the_plan_and_record_of_the_run(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "a", "--steps", 2)
        (self.dir / "a/metrics.jsonl").unlink()
        os.mkfifo(self.dir / "a/metrics.jsonl")
        before = {name: (self.dir / "a" / name).read_text() for name in ("plan.json", "run.json")}
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "a", "--resume", "--set", "jobs.train.run.steps=3", status=2)
        self.assertIn("a/metrics.jsonl is neither a file nor a directory", done.stderr)
        self.assertEqual(before, {name: (self.dir / "a" / name).read_text() for name in before})

    def resumed(self, **options):
        return self.flowrun("job.yaml", "-o", "out", "--resume", "--steps", 4, "--quiet", **options)

    def test_a_resume_writes_nothing_where_a_link_leads_out_of_the_run_directory(self):
        self.write("job.yaml", train_job(2) + "    hooks: [{watch: loss}]\n")
        self.write("precious/loss/value.npy", "mine")
        self.write("precious.txt", "mine")
        plants = {"metrics.jsonl": "../precious.txt", "run.json": "../precious.txt", "watch": "../precious", "watch/loss": "../../precious/loss",
                  "watch/loss/value.npy": "../../../precious/loss/value.npy", "checkpoints": "../moved/checkpoints",
                  "checkpoints/000002": "../../moved/checkpoints/000002", "metrics.jsonl ": "../not there yet"}
        for name, target in plants.items():
            self.flowrun("job.yaml", "-o", "out", "--force", "--quiet")
            shutil.rmtree(self.dir / "moved", ignore_errors=True)
            shutil.copytree(self.dir / "out", self.dir / "moved")
            planted = self.dir / "out" / name.strip()
            shutil.rmtree(planted) if planted.is_dir() else planted.unlink()
            planted.symlink_to(target)
            before = self.files(".")
            said = self.resumed(status=2).stderr
            self.assertIn(f"cannot resume: out/{name.strip()} is a ", said)
            self.assertIn("or start a new run with -o DIR", said)
            self.assertEqual(self.files("."), before)
            planted.unlink()

    def test_a_path_that_is_not_utf_8_is_refused_before_the_run_starts(self):
        folder = os.fsencode(self.dir) + b"/data\xff"
        os.makedirs(folder + b"/inner")
        with open(folder + b"/inner/job.yaml", "w") as file:
            file.write(train_job(1))
        for cwd, words, path in ((folder + b"/inner", ["job.yaml", "-o", str(self.dir / "out")], r"../data\xff/inner"), (self.dir, [b"data\xff/inner/job.yaml", "-o", "out"], r"data\xff/inner/job.yaml")):
            done = subprocess.run([BIN / "flowrun", *words], cwd=cwd, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr, f"flowrun: error: the path {path} is not UTF-8; plans of runs require UTF-8\n   hint: rename the directory or file\n")
            self.assertFalse((self.dir / "out").exists())
        done = subprocess.run([BIN / "flowrun", "job.yaml", "--quiet", "-o", b"out\xff"], cwd=folder + b"/inner", capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))  # the plan does not name it

    def test_a_resume_waits_for_no_pipe(self):
        self.write("job.yaml", train_job(2) + "    hooks: [{watch: loss}]\n")
        for name in ("metrics.jsonl", "plan.json", "watch/loss/value.npy", "checkpoints/000002/logits/bias.npy"):
            shutil.rmtree(self.dir / "out", ignore_errors=True)
            self.flowrun("job.yaml", "-o", "out", "--quiet")
            (self.dir / "out" / name).unlink()
            os.mkfifo(self.dir / "out" / name)
            before = self.files("out")
            self.assertIn(f"cannot resume: out/{name} is neither a file nor a directory", self.resumed(status=2, timeout=60).stderr)
            self.assertEqual(self.files("out"), before)

    def test_links_within_a_run_directory_and_to_it_are_fine(self):
        self.write("job.yaml", train_job(2))
        (self.dir / "disk").mkdir()
        (self.dir / "out").symlink_to("disk")
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        (self.dir / "disk/checkpoints").rename(self.dir / "disk/kept")
        (self.dir / "disk/checkpoints").symlink_to("kept")
        (self.dir / "disk/kept/circle").symlink_to("..")
        self.resumed()
        self.assertTrue((self.dir / "disk/kept/000004/checkpoint.json").is_file())

    def test_resume_starts_a_run_where_there_is_none(self):
        self.write("job.yaml", train_job(3))
        (self.dir / "empty").mkdir()
        for out in ("absent", "empty", "a/b"):
            done = self.flowrun("job.yaml", "-o", out, "--resume")
            self.assertIn(f"flowrun: nothing to resume in {out}; starting from step 0\n", done.stderr)
            self.assertEqual([line["step"] for line in self.metrics(out)], [0, 1, 2])
            done = self.flowrun("job.yaml", "-o", out, "--resume", "--steps", 5)
            self.assertNotIn("step 0", done.stderr)
            self.assertEqual(len(self.metrics(out)), 5)

    def test_resume_starts_a_run_again_that_left_no_checkpoint(self):
        self.write("job.yaml", train_job(3) + "    returns: {value: loss, to: npy}\n")
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        whole = self.files("out/returns")
        self.write("out/precious.txt", "mine")
        for killed in (True, False):
            shutil.rmtree(self.dir / "out/checkpoints")
            (self.dir / "out/checkpoints/.000003.99.tmp/hidden").mkdir(parents=True)
            (self.dir / "out/returns/loss/value.npy").write_bytes(b"half of it")
            if killed:
                (self.dir / "out/run.json").unlink()
            done = self.flowrun("job.yaml", "-o", "out", "--resume")
            self.assertIn("nothing to resume in out; starting from step 0", done.stderr)
            self.assertEqual(self.files("out/returns"), whole)
            self.assertEqual([path.name for path in (self.dir / "out/checkpoints").iterdir()], ["000003"])
        self.assertEqual((self.dir / "out/precious.txt").read_text(), "mine")
        # A removal, or a start, that was cut short.
        for left in ("cut/.flow-removed/metrics.jsonl", "begun/plan.json.123.tmp"):
            self.write(left, "half")
            self.flowrun("job.yaml", "-o", left.split("/")[0], "--resume", "--quiet")
            self.assertEqual([path.name for path in (self.dir / left).parent.parent.glob("*/*.tmp")] + list(self.dir.glob("*/.flow-removed")), [])

    def arrays(self, folder):
        return {name: data for name, data in self.files(folder).items() if name.endswith(".npy")}

    def test_a_run_that_failed_before_its_first_checkpoint_starts_again_and_its_state_stays(self):
        fails = "    hooks: [{watch: loss, to: {type: command, mode: spawn, run: 'cat >/dev/null; test $FLOW_STEP -lt %d'}}]\n"
        self.write("job.yaml", train_job(6))
        self.flowrun("job.yaml", "-o", "whole", "--quiet")
        step = None
        for last in (3, 1):  # a start that gets less far leaves the better state
            self.write("job.yaml", train_job(6) + fails % last)
            done = self.flowrun("job.yaml", "-o", "out", "--quiet", "--resume", status=3)
            found, = re.findall(r"load the state after (\d+) steps with --load out/rescued", done.stderr)
            step = step or found
            self.assertEqual(found, step)
        rescued = self.files("out/rescued")
        self.write("job.yaml", train_job(6))
        done = self.flowrun("job.yaml", "-o", "out", "--resume")
        self.assertIn("nothing to resume in out; starting from step 0; out/rescued keeps the state of the run that failed\n", done.stderr)
        self.assertEqual(self.files("out/rescued"), rescued)
        self.assertEqual(self.arrays("out/checkpoints/000006"), self.arrays("whole/checkpoints/000006"))
        self.flowrun("job.yaml", "-o", "out", "--resume", "--steps", 7, "--quiet")
        self.assertEqual(self.files("out/rescued"), rescued)

    def test_the_newest_checkpoint_is_whole_or_refused_by_every_reader(self):
        self.write("job.yaml", train_job(6).replace("steps: 6}", "steps: 6, checkpoint: {every: {steps: 2}}}"))
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        self.assertIn("flowrun: loaded out/checkpoints/000006\n", self.flowrun("job.yaml", "-o", "next", "--load", "out").stderr)
        newest = self.dir / "out/checkpoints/000006"
        for name, damage, said, status in (
                ("no record", lambda: (newest / "checkpoint.json").unlink(), "out/checkpoints/000006 has no checkpoint.json", 2),
                ("empty", lambda: (shutil.rmtree(newest), newest.mkdir()), "out/checkpoints/000006 has no checkpoint.json", 2),
                ("a broken link", lambda: (shutil.rmtree(newest), newest.symlink_to("nowhere")), "out/checkpoints/000006 has no checkpoint.json", 2),
                ("a loop", lambda: (shutil.rmtree(newest), newest.symlink_to(newest)), "out/checkpoints/000006/checkpoint.json: Too many levels of symbolic links", 3),
                ("half a record", lambda: os.truncate(newest / "checkpoint.json", 40), "out/checkpoints/000006/checkpoint.json", 2),
                ("renamed", lambda: (self.dir / "out/checkpoints/000004").rename(self.dir / "out/checkpoints/000099"),
                 "out/checkpoints/000099 is the checkpoint of step 4; expected the name 000004", 2)):
            shutil.copytree(self.dir / "out", self.dir / "kept", symlinks=True)
            damage()
            before = self.files(".")
            for words in (("flowrun", "job.yaml", "-o", "x", "--load", "out"), ("flowrun", "job.yaml", "-o", "x", "--load", "out/checkpoints/"),
                          ("flowrun", "job.yaml", "-o", "x", "--set", "+jobs.train.run.checkpoint.load=out"),
                          ("flowrun", "job.yaml", "-o", "out", "--resume"), ("flowc", "export", "out", "-o", "x.npz"),
                          ("flowc", "names", "job.yaml", "out"), ("flowdiff", "kept", "out"), ("flowdiff", "out", "kept")):
                with self.subTest(damage=name, reader=words):
                    self.assertIn(said, self.call(*words, status=status).stderr)
                    shutil.rmtree(self.dir / "x", ignore_errors=True)
            if name == "renamed":
                self.assertIn(said, self.flowrun("job.yaml", "-o", "x", "--load", "out/checkpoints/000099/", status=2).stderr)
            self.assertEqual(self.files("."), before)
            shutil.rmtree(self.dir / "out")
            (self.dir / "kept").rename(self.dir / "out")
        shutil.rmtree(self.dir / "x", ignore_errors=True)
        shutil.copytree(newest, self.dir / "000001")  # a copy may have any name
        self.flowrun("job.yaml", "-o", "x", "--load", "000001", "--quiet")
        (self.dir / "out/checkpoints/000002/checkpoint.json").unlink()  # an older one is not in the way
        self.flowrun("job.yaml", "-o", "x", "--force", "--load", "out", "--quiet")

    def test_a_resume_keeps_as_many_checkpoints_as_asked(self):
        job = train_job(6).replace("steps: 6}", "steps: 6, checkpoint: {every: {steps: 2}, keep: 2}}")
        self.write("job.yaml", job)
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        shutil.copytree(self.dir / "out/checkpoints/000004", self.dir / "out/checkpoints/000002")  # as a kill leaves it, before an old one goes
        (self.dir / "out/.plan.json.0123456789abcdef.tmp").write_text("half")
        self.assertIn("flowrun: resuming from out/checkpoints/000006\n", self.flowrun("job.yaml", "-o", "out", "--resume").stderr)
        self.assertEqual(sorted(path.name for path in (self.dir / "out/checkpoints").iterdir()), ["000004", "000006"])
        self.assertEqual([path.name for path in (self.dir / "out").glob(".*")], [])

    def test_checkpoints_by_time_replace_each_other_and_change_no_result(self):
        def job(checkpoint):
            return train_job(40).replace("steps: 40}", f"steps: 40, checkpoint: {checkpoint}}}") + "    returns: {value: loss, to: npy}\n"
        for name, checkpoint, kept in (("none", "{every: none}", ["000040"]), ("often", "{every: {minutes: 1e-9}}", ["000040"]),
                                       ("three", "{every: {minutes: 1e-9}, keep: 3}", ["000038", "000039", "000040"])):
            self.write(f"{name}.yaml", job(checkpoint))
            self.flowrun(f"{name}.yaml", "-o", name, "--quiet")
            self.assertEqual(sorted(path.name for path in (self.dir / name / "checkpoints").iterdir()), kept)
            self.assertEqual(self.arrays(f"{name}/checkpoints/000040"), self.arrays("none/checkpoints/000040"))
            self.assertEqual(self.files(f"{name}/returns"), self.files("none/returns"))

    def test_a_run_that_is_killed_resumes_from_its_checkpoint_by_time(self):
        stop = "    hooks: [{watch: loss, every: 7, to: {type: command, mode: spawn, run: 'cat >/dev/null; test $FLOW_STEP -lt 7 || kill -9 $PPID; sleep 9'}}]\n"
        job = train_job(12).replace("steps: 12}", "steps: 12, checkpoint: {every: {minutes: 1e-9}}}")
        self.write("job.yaml", job + stop)
        self.call("flowrun", "job.yaml", "-o", "out", "--quiet", status=-9)
        self.write("job.yaml", job)
        self.assertRegex(self.flowrun("job.yaml", "-o", "out", "--resume").stderr, r"resuming from out/checkpoints/00000[67]\n")
        self.flowrun("job.yaml", "-o", "whole", "--quiet")
        self.assertEqual(self.arrays("out/checkpoints/000012"), self.arrays("whole/checkpoints/000012"))

    def test_resume_of_a_predict_job_runs_it_again(self):
        self.write("one.yaml", AFFINE)
        for value in ("0:1", "5:6"):
            self.flowrun("one.yaml", "--input", f"x=random_uniform:{value}", "-o", "out", "--resume", "--quiet")
        self.assertGreater(self.load("out/returns/y/value.npy").min(), 9)

    def test_resume_refuses_any_other_directory_and_leaves_it_alone(self):
        self.write("job.yaml", train_job(3))
        self.write("precious/letter.txt", "dear")
        self.flowrun("job.yaml", "-o", "other", "--quiet", "--set", "vars.lr=0.2")
        shutil.rmtree(self.dir / "other/checkpoints")
        self.write("broken/plan.json", "{")
        self.flowrun("job.yaml", "-o", "damaged", "--quiet")
        (self.dir / "damaged/checkpoints/000003/checkpoint.json").unlink()
        for out, said in (("precious", "cannot resume precious: the directory is not empty and has no plan.json"),
                          ("other", "its run differs from job `train`\n  command line: `--set vars.lr=0.2` in the run, none now\n"
                                    "  optimizer.learning_rate: 0.2 in the run, 0.1 now\n   hint: start from step 0 with --force"),
                          ("broken", "cannot resume broken: broken/plan.json:1:2: invalid JSON"),
                          ("damaged", "damaged/checkpoints/000003 has no checkpoint.json\n   hint: restore that file"),
                          ("job.yaml", "job.yaml is a file, not a directory")):
            before = self.files(".")
            done = self.flowrun("job.yaml", "-o", out, "--resume", status=2)
            self.assertIn(said, done.stderr)
            self.assertEqual(self.files("."), before)

    def test_resume_takes_no_run_of_another_job_of_the_plan(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--steps", 2, "--quiet")
        shutil.rmtree(self.dir / "out/checkpoints")
        for killed in (False, True):
            if killed:
                (self.dir / "out/run.json").unlink()
            done = self.flowrun("eval", JOBS / "mlp.yaml", "-o", "out", "--load", "none", "--resume", status=2)
            self.assertIn("cannot resume out: its run differs from job `eval`", done.stderr)

    def test_a_resumed_start_that_cannot_begin_removes_nothing(self):
        self.write("rows.yaml", ROWS)
        np.save(self.dir / "x.npy", np.ones((8, 3), np.float32))
        self.flowrun("rows.yaml", "-o", "out", "--quiet")
        before = self.files("out")
        os.rename(self.dir / "x.npy", self.dir / "y.npy")
        self.flowrun("rows.yaml", "-o", "out", "--resume", status=3)
        self.assertEqual(self.files("out"), before)

    def test_a_load_beside_resume_is_refused_in_the_first_start_as_in_the_next(self):
        self.write("job.yaml", train_job(3))
        self.flowrun("job.yaml", "-o", "base", "--quiet")
        said = self.flowrun("job.yaml", "-o", "out", "--resume", "--load", "base", status=2).stderr
        self.assertIn("--resume conflicts with --load: a resumed run loads its own checkpoint", said)
        self.assertFalse((self.dir / "out").exists())
        loads = ("job.yaml", "-o", "out", "--resume", "--quiet", "--set", "+jobs.train.run.checkpoint={load: base}")
        self.flowrun(*loads, "--steps", 2)
        self.flowrun(*loads)

    def test_a_refused_resume_lists_what_differs(self):
        mlp = ("train", JOBS / "mlp.yaml", "-o", "out", "--steps", 2)
        self.flowrun(*mlp, "--quiet")
        for sets, lines in ((["seed=2"], ["seed: 1 in the run, 2 now"]),
                            (["vars.lr=0.2"], ["optimizer.learning_rate: 0.1 in the run, 0.2 now"]),
                            (["+jobs.train.optimizer.momentum=0.9"], ["optimizer.momentum: none in the run, 0.9 now"]),
                            (["+jobs.train.run.shuffle=true"], ["run.shuffle: false in the run, true now"]),
                            (["data.mnist_train.images.scale=1/128"],
                             ["data.mnist_train.images.scale: 0.00392156862745098 in the run, 0.0078125 now"]),
                            (["vars.batch=50"], ["inputs.images.shape: [100,1,28,28] in the run, [50,1,28,28] now"]),
                            (["jobs.train.inputs.labels.from={type: random_int, low: 0, high: 10}"],
                             ["inputs.labels.from: mnist_train.labels in the run, random_int now"]),
                            (["networks.mlp.graph.hidden.units=64"], ["mlp/hidden/weight.shape: [512,784] in the run, [64,784] now"]),
                            (["networks.mlp.graph.hidden.activation=tanh"], ["mlp/hidden/relu: relu in the run, none now",
                                                                            "mlp/hidden/tanh: none in the run, tanh now"]),
                            (["vars.init.stddev=0.2", "seed=3"], ["seed: 1 in the run, 3 now",
                                                                  "mlp/hidden/weight.initializer.stddev: 0.1 in the run, 0.2 now"])):
            words = [word for one in sets for word in ("--set", one)]
            said = self.flowrun(*mlp, *words, "--resume", status=2).stderr
            self.assertIn("cannot resume out/checkpoints/000002: job `train` differs from the run\n"
                          f"  command line: none in the run, {' '.join(f'`--set {one}`' for one in sets)} now\n", said)
            for line in lines:
                self.assertIn(f"  {line}\n", said)
            self.assertLessEqual(said.count(" in the run, "), 10)
            self.assertIn("hint: continue the unchanged run with `flowrun train out/plan.json -o out --resume`", said)
        changed = [word for one in ("seed=2", "+jobs.train.run.steps=9", "+jobs.train.run.log_every=1", "jobs.train.run.epochs=3") for word in ("--set", one)]
        said = self.flowrun(*mlp, *changed, "--resume", status=2).stderr
        self.assertIn("\n  command line: none in the run, `--set seed=2` now\n  seed: 1 in the run, 2 now\n", said)
        deep = [word for name in ("hidden", "output") for word in ("--set", f"networks.mlp.graph.{name}.kernel_initializer={{type: random_uniform, min: 0, max: 1}}")]
        said = self.flowrun(*mlp, *deep, "--set", "seed=2", "--set", "vars.batch=20", "--resume", status=2).stderr
        self.assertRegex(said, r"\n  and \d+ more\n")
        (self.dir / "out/plan.json").unlink()
        said = self.flowrun(*mlp, "--set", "seed=2", "--resume", status=2).stderr
        self.assertNotIn(" in the run, ", said)

    def test_train_leaves_its_plan_metrics_record_and_last_state(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--steps", 3, "--save", "final")
        names = set(self.files("out"))
        checkpoint = {f"checkpoints/000003/{name}" for name in ("checkpoint.json", "files.json", "mlp/hidden/bias.npy", "mlp/hidden/weight.npy",
                                                               "mlp/output/bias.npy", "mlp/output/weight.npy")}
        self.assertEqual(names, {"plan.json", "run.json", "metrics.jsonl"} | checkpoint)
        lines = self.metrics("out")
        self.assertEqual([line["step"] for line in lines], [0, 1, 2])
        self.assertEqual(set(lines[0]), {"step", "epoch", "loss", "learning_rate", "seconds"})
        self.assertEqual(lines[0]["learning_rate"], 0.1)
        final = self.files("final")
        self.assertEqual(final["mlp/hidden/weight.npy"], self.files("out/checkpoints/000003")["mlp/hidden/weight.npy"])

    def test_checkpoints_are_written_as_it_goes_and_the_newest_kept(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--steps", 10, "--set", "jobs.train.run.checkpoint={every: {steps: 2}, keep: 2}")
        self.assertEqual(sorted(p.name for p in (self.dir / "out/checkpoints").iterdir()), ["000008", "000010"])

    def test_save_replaces_a_checkpoint_and_refuses_anything_else(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "a", "--steps", 1, "--save", "final")
        before = self.files("final")
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "b", "--steps", 2, "--save", "final")
        self.assertNotEqual(before, self.files("final"))
        self.write("home/letter.txt", "dear")
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "c", "--steps", 1, "--save", "home", status=2)
        self.assertIn("home", done.stderr)
        self.assertEqual(self.files("home"), {"letter.txt": b"dear"})
        self.assertFalse((self.dir / "c" / "metrics.jsonl").exists(), "refused before the first step")


if __name__ == "__main__":
    unittest.main()
