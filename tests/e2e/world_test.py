"""What the world does to a run: files that shrink, directories that go, streams that are closed, limits, signals."""
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

from flow import AFFINE, BIN, ROWS, FlowTest, train_job

SLOW = "    hooks: [{watch: loss, to: {type: command, mode: spawn, run: 'sleep 0.02'}}]\n"


class World(FlowTest):
    def start(self, *words, **options):
        return subprocess.Popen([str(BIN / "flowrun"), *map(str, words)], cwd=self.dir, stderr=subprocess.PIPE, text=True, **options)

    def await_path(self, path):
        for _ in range(1000):
            if (self.dir / path).exists():
                return
            time.sleep(0.01)
        self.fail(f"{path} does not come")

    def test_nothing_is_saved_over_what_holds_the_run_or_its_data(self):
        self.write("job.yaml", train_job(2))
        self.flowrun("job.yaml", "-o", "out", "--quiet", "--save", "m")
        done = self.flowrun("job.yaml", "-o", "m/tune", "--load", "m", "--save", "m", status=2)
        self.assertIn("--save: m contains the run directory", done.stderr)
        self.flowrun("job.yaml", "-o", "again", "--load", "m", "--save", "m", "--quiet")  # replaces what it began with
        np.save(self.dir / "m/x.npy", np.zeros((8, 6), np.float32))
        reads = ["--set", "jobs.train.inputs.x.from={npy: m/x.npy}"]
        done = self.flowrun("job.yaml", "-o", "reads", *reads, "--save", "m", status=2)
        self.assertRegex(done.stderr, "--save: m contains .*m/x.npy, which the run reads")
        self.assertTrue((self.dir / "m/x.npy").exists())

    def test_closed_streams_are_not_taken_for_files(self):
        self.write("job.yaml", train_job(5) + "    returns: {value: loss, to: [npy, print]}\n")
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            done = subprocess.run(["bash", "-c", f"{BIN}/flowrun job.yaml -o out --force {closed}"], cwd=self.dir, capture_output=True)
            self.assertEqual(done.returncode, 0, closed)
            self.assertEqual([line["step"] for line in self.metrics("out")], list(range(5)))

    def test_full_streams_are_no_defects(self):
        self.write("job.yaml", train_job(5))
        self.write("bad.yaml", "flow: 1\n")
        for command, status in (("flowc check bad.yaml 2>/dev/full", 2), ("flowrun a bad.yaml 2>/dev/full", 2),
                                ("flowc build job.yaml -o plan 2>/dev/full", 0), ("flowc --version >/dev/full", 3),
                                ("flowdiff --help >/dev/full", 3)):
            done = subprocess.run(["bash", "-c", f"{BIN}/{command}"], cwd=self.dir, capture_output=True)
            self.assertEqual(done.returncode, status, command)

    def test_a_directory_that_is_replaced_is_not_written_into(self):
        self.write("job.yaml", train_job(400).replace("steps: 400}", "steps: 400, checkpoint: {every: {steps: 5}}}") + SLOW)
        run = self.start("job.yaml", "-o", "out", "--quiet")
        self.await_path("out/checkpoints/000005/checkpoint.json")
        os.rename(self.dir / "out", self.dir / "gone")
        os.mkdir(self.dir / "out")
        said = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, 3, said)
        self.assertIn("out was removed or replaced during the run", said)
        self.assertEqual(list((self.dir / "out").iterdir()), [])

    def test_the_state_outlives_a_hook_that_fails(self):
        fails = "    hooks: [{watch: loss, every: 3, to: {type: command, mode: spawn, run: 'cat >/dev/null; test $FLOW_STEP -lt 6'}}]\n"
        for name, returns in (("each", "{value: loss, to: none}"), ("ahead", "{type: Callback, value: loss, to: none}")):
            self.write("job.yaml", train_job(400) + f"    returns: {returns}\n" + fails)
            done = self.flowrun("job.yaml", "-o", name, "--quiet", status=3)
            steps, = re.findall(rf"load the state after (\d+) steps? with --load {name}/rescued", done.stderr)
            self.assertEqual(list((self.dir / name / "checkpoints").glob("*")), [])  # no run may go on from there
            self.flowrun("job.yaml", "-o", f"{name}-whole", "--quiet", "--no-commands", "--steps", steps)
            whole, rescued = self.state(self.checkpoint(f"{name}-whole")), self.files(f"{name}/rescued")
            del whole["checkpoint.json"], rescued["checkpoint.json"]
            self.assertEqual(whole, rescued)
            self.flowrun("job.yaml", "-o", f"{name}-next", "--quiet", "--no-commands", "--steps", 1, "--load", f"{name}/rescued")
            self.flowrun("job.yaml", "-o", name, "--quiet", "--no-commands", "--steps", 1, "--force")
            self.assertFalse((self.dir / name / "rescued").exists())

    def test_a_run_whose_data_fail_goes_on_when_they_are_mended(self):
        job = train_job(8).replace("from: {type: random_uniform, low: -1, high: 1}", "from: {npy: pipe}")
        self.write("job.yaml", job + "    returns: {value: loss, to: npy}\n")
        os.mkfifo(self.dir / "pipe")
        rows = np.random.default_rng(3).random((8, 8, 6)).astype(np.float32)

        def run(out, data, *words, **options):
            writer = subprocess.Popen(["sh", "-c", "cat > pipe"], cwd=self.dir, stdin=subprocess.PIPE)
            writer.stdin.write(data)
            writer.stdin.close()
            done = self.flowrun("job.yaml", "-o", out, "--quiet", *words, **options)
            writer.wait()
            return done

        def records(arrays):
            pipe = io.BytesIO()
            for array in arrays:
                np.save(pipe, array)
            return pipe.getvalue()

        done = run("parts", records(rows[:6])[:-1], status=3)
        self.assertIn("hint: continue after 5 steps with --resume", done.stderr)
        run("parts", records(rows), "--resume")
        run("whole", records(rows))
        self.assertEqual(self.state("whole/checkpoints/000008"), self.state("parts/checkpoints/000008"))
        np.testing.assert_array_equal(self.load("parts/returns/loss/value.npy"), self.load("whole/returns/loss/value.npy"))

    def test_a_resumed_run_is_given_the_same_inputs(self):
        job = train_job(4)
        self.write("job.yaml", job)
        np.save(self.dir / "x.npy", np.ones((8, 6), np.float32))
        for begun, again, said in ((["x=random_uniform:5:6"], [], "its inputs differ\n  --input x: random_uniform:5:6 in the run, none now"),
                                   (["x=random_uniform:5:6"], ["x=iota"], "--input x: random_uniform:5:6 in the run, iota now"),
                                   ([], ["x=iota"], "--input x: none in the run, iota now"),
                                   (["x=@x.npy"], ["x=iota"], "--input x: @ in the run, iota now")):
            flags = [[word for one in given for word in ("--input", one)] for given in (begun, again)]
            self.flowrun("job.yaml", "-o", "out", "--force", "--quiet", "--steps", 2, *flags[0])
            self.assertIn(said, self.flowrun("job.yaml", "-o", "out", "--resume", *flags[1], status=2).stderr)
            self.flowrun("job.yaml", "-o", "out", "--resume", "--quiet", *flags[0])

    def test_names_are_fit_for_files_before_the_first_step(self):
        long = "n" * 252
        self.write("job.yaml", train_job(4).replace("hidden", long))
        self.assertIn("a name of 252 bytes is too long for a file", self.flowrun("job.yaml", "-o", "out", status=2).stderr)
        self.write("job.yaml", train_job(4))
        self.flowrun("job.yaml", "-o", "out", "--force", "--quiet", "--save", "s" * 255)
        self.assertTrue((self.dir / ("s" * 255) / "checkpoint.json").exists())

    def test_outputs_that_are_not_whole_are_not_resumed(self):
        self.write("job.yaml", train_job(4) + "    returns: {value: loss, to: npy}\n")
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        os.rename(self.dir / "out/returns/loss/steps.npy", self.dir / "kept")
        said = self.flowrun("job.yaml", "-o", "out", "--resume", "--steps", 6, status=3).stderr
        self.assertIn("cannot resume out/checkpoints/000004: out/returns/loss/steps.npy is missing; expected 32 bytes", said)
        self.assertEqual(len(self.load("out/returns/loss/value.npy")), 4)
        os.rename(self.dir / "kept", self.dir / "out/returns/loss/steps.npy")
        self.flowrun("job.yaml", "-o", "out", "--resume", "--steps", 6, "--quiet")
        self.assertEqual(len(self.load("out/returns/loss/value.npy")), 6)

    def test_arrays_that_are_shorter_than_they_say_are_not_resumed(self):
        self.write("job.yaml", train_job(4) + "    returns: {value: loss, to: npy}\n")
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        values = self.dir / "out/returns/loss/value.npy"
        os.truncate(values, values.stat().st_size - 4)
        left = values.read_bytes()
        done = self.flowrun("job.yaml", "-o", "out", "--resume", "--steps", 6, status=3)
        self.assertIn("out/returns/loss/value.npy is truncated: 124 bytes of data; expected 128", done.stderr)
        self.assertIn("hint: restore the file, or start from step 0 with --force", done.stderr)
        self.assertEqual(values.read_bytes(), left)

    def test_a_file_a_step_is_kept_up_to_the_checkpoint_that_is_resumed(self):
        self.write("job.yaml", train_job(7).replace("steps: 7}", "steps: 7, checkpoint: {every: {steps: 5}}}")
                   + "    returns: {value: loss, to: {type: npy, layout: per_step}}\n")
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        whole = self.files("out/returns/loss")
        shutil.rmtree(self.dir / "out/checkpoints/000007")
        self.flowrun("job.yaml", "-o", "out", "--resume", "--quiet", "--steps", 5)
        self.assertEqual(list(self.files("out/returns/loss")), [f"{step:06}.npy" for step in range(5)])
        self.flowrun("job.yaml", "-o", "out", "--resume", "--quiet")
        self.assertEqual(self.files("out/returns/loss"), whole)

    def test_a_copy_of_a_checkpoint_under_another_name_is_not_resumed(self):
        self.write("job.yaml", train_job(4))
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        for name in ("9", "000004.old"):
            shutil.copytree(self.dir / "out/checkpoints/000004", self.dir / "out/checkpoints" / name)
        self.flowrun("job.yaml", "-o", "out", "--resume", "--quiet", "--steps", 6)
        self.assertEqual(sorted(path.name for path in (self.dir / "out/checkpoints").iterdir()), ["000004", "000004.old", "000006", "9"])

    def test_a_checkpoint_without_its_record_is_refused_and_written_anew_once_it_is_removed(self):
        self.write("job.yaml", train_job(10).replace("steps: 10}", "steps: 10, checkpoint: {every: {steps: 5}}}"))
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        before = self.state("out/checkpoints/000010")
        (self.dir / "out/checkpoints/000010/checkpoint.json").unlink()
        said = self.flowrun("job.yaml", "-o", "out", "--resume", "--quiet", status=2).stderr
        self.assertIn("out/checkpoints/000010 has no checkpoint.json\n   hint: restore that file, or remove the directory", said)
        shutil.rmtree(self.dir / "out/checkpoints/000010")
        self.flowrun("job.yaml", "-o", "out", "--resume", "--quiet")
        self.assertEqual(self.state("out/checkpoints/000010"), before)

    def test_a_dry_run_of_a_resumed_one_looks_where_it_is(self):
        self.write("job.yaml", train_job(4))
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        self.assertIn("at peak", self.flowrun("job.yaml", "-o", "out", "--resume", "--steps", 6, "--dry-run").stdout)
        self.assertIn("out is not empty", self.flowrun("job.yaml", "-o", "out", "--dry-run", status=2).stderr)
        fresh = self.flowrun("job.yaml", "-o", "none", "--resume", "--dry-run")
        self.assertIn("nothing to resume in none; starting from step 0", fresh.stderr)
        self.assertIn("at peak", fresh.stdout)
        self.assertFalse((self.dir / "none").exists())

    def test_data_that_shrink_while_they_are_read_are_named(self):
        self.write("job.yaml", ROWS.replace("    returns:", "    run: {epochs: 1000}\n    hooks: [{watch: y, to: {type: command, mode: spawn, run: 'sleep 0.02'}}]\n    returns:"))
        np.save(self.dir / "x.npy", np.ones((400_000, 3), np.float32))
        run = self.start("job.yaml", "-o", "out", "--quiet")
        self.await_path("out/returns/y/value.npy")
        time.sleep(0.1)
        os.truncate(self.dir / "x.npy", 200)
        said = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, 3, said)
        self.assertRegex(said, r"^flowrun: error: .*x.npy shrank while it was being read\n$")

    def test_a_training_run_whose_data_shrink_keeps_its_state(self):
        rows = np.random.default_rng(1).normal(size=(40_000, 8, 6)).astype(np.float32)
        np.save(self.dir / "x.npy", rows)
        job = train_job(400) + SLOW
        self.write("job.yaml", job)
        reads = ["job.yaml", "--set", "jobs.train.inputs.x.from={npy: x.npy}"]
        run = self.start(*reads, "-o", "out", "--quiet")
        self.await_path("out/metrics.jsonl")
        time.sleep(0.3)
        os.truncate(self.dir / "x.npy", 200)
        said = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, 3, said)
        self.assertRegex(said, r"error: .*x.npy shrank while it was being read\n   hint: continue after \d+ steps? with --resume\n$")
        self.assertEqual(json.loads((self.dir / "out/run.json").read_text())["exit_status"], 3)
        np.save(self.dir / "x.npy", rows)
        self.flowrun(*reads, "-o", "out", "--resume", "--quiet", "--steps", 60, "--no-commands")
        self.flowrun(*reads, "-o", "whole", "--quiet", "--steps", 60, "--no-commands")
        self.assertEqual(self.files("out/checkpoints/000060")["hidden/weight.npy"], self.files("whole/checkpoints/000060")["hidden/weight.npy"])

    def test_a_run_that_could_not_begin_leaves_no_record(self):
        self.write("job.yaml", train_job(2))
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        run = self.start("job.yaml", "-o", "out", "--quiet", preexec_fn=limit)
        said = run.communicate(timeout=60)[1]
        self.assertEqual((run.returncode, self.files("out")), (3, {}), said)
        self.flowrun("job.yaml", "-o", "out", "--quiet")

    def test_a_resumed_run_has_no_record_until_it_ends_nor_what_was_half_written(self):
        self.write("job.yaml", train_job(2))
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        self.write("out/plan.json.123.tmp", "{")
        look = "    hooks: [{watch: loss, to: {type: command, mode: spawn, run: 'cat > /dev/null; ! ls $FLOW_RUN_DIR/run.json $FLOW_RUN_DIR/plan.json.123.tmp 2> /dev/null'}}]\n"
        self.write("job.yaml", train_job(2) + look)
        self.flowrun("job.yaml", "-o", "out", "--resume", "--steps", 4, "--quiet")
        self.assertEqual(json.loads((self.dir / "out/run.json").read_text())["last_step"], 4)

    def test_a_hook_that_was_begun_and_no_more_begins_again(self):
        self.write("job.yaml", train_job(2))
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        for begun in ("value.npy", "steps.npy"):
            self.flowrun("job.yaml", "-o", "out", "--quiet", "--force")
            self.write(f"out/watch/loss/{begun}", "")
            self.flowrun("job.yaml", "-o", "out", "--resume", "--steps", 4, "--quiet", "--watch", "loss")
            self.assertEqual(self.load("out/watch/loss/steps.npy").tolist(), [2, 3])

    def test_damaged_outputs_are_noticed_and_named(self):
        job = train_job(4).replace("steps: 4}", "steps: 4, also: [{job: eval, every: {steps: 2}}]}")
        self.write("job.yaml", job + """    returns: {value: loss, to: npy}
    hooks: [{watch: hidden, every: 2}, {watch_diff: hidden}]
  eval:
    type: predict
    inputs: {x: {shape: [8, 6], dtype: float32, from: {type: iota}}}
    graph:
      hidden: {op: dense, units: 8, in: x, activation: relu}
    returns: {value: hidden, to: npy}
""")
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        again = ("train", "job.yaml", "-o", "out", "--quiet", "--resume", "--steps", 6)
        for name in ("metrics.jsonl", "returns/loss/value.npy", "returns/loss/steps.npy", "watch/hidden/value.npy", "watch/hidden/diff.npy",
                     "watch/hidden/diff_steps.npy", "also/eval/returns/hidden/value.npy"):
            path = self.dir / "out" / name
            whole = path.read_bytes()
            changed = whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:]
            for damaged, said in ((changed, "was modified: the digest of"), (whole[:-10], "is truncated:"), (None, "is missing; expected")):
                path.unlink()
                if damaged is not None:
                    path.write_bytes(damaged)
                before = self.files("out")
                done = self.flowrun(*again, status=3)
                self.assertIn(f"cannot resume out/checkpoints/000004: out/{name} {said}", done.stderr)
                self.assertEqual("resume without the hook" in done.stderr, name.startswith("watch"), done.stderr)
                self.assertEqual(self.files("out"), before)
            path.write_bytes(whole)
        # A header that counts fewer entries than there were.
        steps = self.dir / "out/returns/loss/steps.npy"
        whole = steps.read_bytes()
        steps.write_bytes(whole.replace(b"(4,)", b"(2,)"))
        self.assertIn("is truncated: 16 bytes of data; expected 32", self.flowrun(*again, status=3).stderr)
        steps.write_bytes(whole)
        (self.dir / "out/watch/hidden/diff.npy").unlink()
        self.flowrun(*again, "--set", "~jobs.train.hooks.1")
        self.assertEqual(self.load("out/returns/loss/steps.npy").tolist(), list(range(6)))

    def test_what_comes_after_the_checkpoint_is_cut_and_may_be_damaged(self):
        self.write("job.yaml", train_job(9).replace("steps: 9}", "steps: 9, checkpoint: {every: {steps: 4}}}") + "    returns: {value: loss, to: npy}\n")
        self.flowrun("job.yaml", "-o", "whole", "--quiet")
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        shutil.rmtree(self.dir / "out/checkpoints/000009")
        for name in ("metrics.jsonl", "returns/loss/value.npy"):
            path = self.dir / "out" / name
            path.write_bytes(path.read_bytes()[:-2] + b"??")
        self.flowrun("job.yaml", "-o", "out", "--quiet", "--resume")
        for folder in ("returns", "checkpoints/000009/hidden"):
            self.assertEqual(self.files(f"out/{folder}"), self.files(f"whole/{folder}"))
        self.assertEqual([line["step"] for line in self.metrics("out")], list(range(9)))
        self.flowrun("job.yaml", "-o", "out", "--quiet", "--resume", "--steps", 10)

    def test_a_sum_of_a_print_sink_that_was_changed_is_noticed(self):
        self.write("job.yaml", train_job(4) + "    hooks: [{watch: loss, to: {type: print, reduce: mean, over: run}}]\n")
        run = ("job.yaml", "-o", "out", "--quiet")
        self.flowrun(*run)
        record = self.dir / "out/checkpoints/000004/checkpoint.json"
        text = record.read_text()
        last = re.search(r'"sums": .*?(\d)\]', text)
        record.write_text(text[:last.start(1)] + str((int(last[1]) + 1) % 10) + text[last.end(1):])
        said = self.flowrun(*run, "--resume", "--steps", 6, status=2).stderr
        self.assertIn("out/checkpoints/000004/checkpoint.json: the checksum does not match", said)
        self.assertIn("hint: use another checkpoint", said)

    def test_a_reader_that_has_seen_enough_changes_no_status(self):
        self.write("job.yaml", train_job(2))
        for name, value in (("a", 1.0), ("b", 2.0)):
            (self.dir / name).mkdir()
            for i in range(400):
                np.save(self.dir / name / f"{i}.npy", np.float32([value]))
        for command, status in (("flowdiff a b", 1), ("flowdiff a a", 0), ("flowc ops", 0), ("flowc show job.yaml", 0), ("flowrun --help", 0)):
            done = subprocess.run(["bash", "-c", f"{BIN}/{command} | true; exit ${{PIPESTATUS[0]}}"], cwd=self.dir, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (status, ""), command)

    def test_a_reader_of_the_output_that_has_gone_is_said_once(self):
        sinks = "[{type: print, reduce: mean}, {type: print, label: again, reduce: sum}]"
        self.write("job.yaml", train_job(30) + f"    returns: {{value: loss, to: {sinks}}}\n")
        said = "flowrun: the reader closed standard output; the run continues without it\n"
        for flags, count in (([], 1), (["--quiet"], 0)):
            read, write = os.pipe()
            os.close(read)
            with open(write, "w") as output:
                run = self.start("job.yaml", "-o", "out", "--force", *flags, stdout=output)
            told = run.communicate(timeout=60)[1]
            self.assertEqual((run.returncode, told.count(said)), (0, count), told)
            self.assertEqual(len(self.metrics("out")), 30)

    def test_a_pipe_is_no_column(self):
        self.write("job.yaml", ROWS)
        os.mkfifo(self.dir / "x.npy")
        done = self.flowrun("job.yaml", "-o", "out", status=3, timeout=60)
        self.assertIn("x.npy is a pipe or a device", done.stderr)
        self.assertIn("is a pipe", self.call("flowdiff", "x.npy", "x.npy", status=3, timeout=60).stdout)

    def test_a_limit_of_file_sizes_is_an_error(self):
        self.write("job.yaml", train_job(4))
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        run = self.start("job.yaml", "-o", "out", "--quiet", preexec_fn=limit)
        said = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, 3, said)
        self.assertIn("File too large", said)
        self.assertEqual([path.name for path in (self.dir / "out").iterdir() if path.name.endswith(".tmp")], [])

    def test_signals_that_the_shell_had_ignored_are(self):
        self.write("job.yaml", train_job(30) + SLOW)
        run = self.start("job.yaml", "-o", "out", "--quiet", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        self.await_path("out/metrics.jsonl")
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.communicate(timeout=60)[1], "")
        self.assertEqual(run.returncode, 0)
        self.assertEqual(len(self.metrics("out")), 30)

    def test_more_files_are_open_than_a_shell_allows_at_first(self):
        self.write("job.yaml", train_job(2))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        run = self.start("job.yaml", "-o", "out", "--quiet", "--watch", "**", "--device", "cpu",
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, hard)))
        said = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, 0, said)
        self.assertGreater(len(list((self.dir / "out/watch").rglob("*.npy"))), 12)

    def test_a_run_goes_on_with_the_same_data_alone(self):
        self.write("job.yaml", """flow: 1
data: {d: {x: {npy: x.npy}}}
jobs:
  t:
    type: train
    inputs: {x: {shape: [2, 3], dtype: float32, from: d.x}, s: {shape: [2, 3], dtype: float32}}
    graph: {y: {op: dense, units: 3, in: x}, loss: {op: mse, in: [y, s]}}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
    run: {epochs: 2}
""")
        rows, slices = np.random.rand(400, 3).astype(np.float32), np.random.rand(200, 2, 3).astype(np.float32)
        np.save(self.dir / "x.npy", rows)
        np.save(self.dir / "s.npy", slices)
        self.flowrun("job.yaml", "-o", "out", "--input", "s=@s.npy", "--steps", 100)
        os.rename(self.dir / "s.npy", self.dir / "moved.npy")
        resume = ("job.yaml", "-o", "out", "--resume", "--input")
        self.flowrun(*resume, "s=@moved.npy", "--steps", 110)
        np.save(self.dir / "other.npy", slices + 1)
        told = self.flowrun(*resume, "s=@other.npy", status=2).stderr
        self.assertRegex(told, "cannot resume out/checkpoints/000110: the data of `s` changed: other.npy has digest [0-9a-f]{32}; expected [0-9a-f]{32}\n")
        np.save(self.dir / "x.npy", rows + 1)
        told = self.flowrun(*resume, "s=@moved.npy", status=2).stderr
        self.assertIn("the data of `d.x` changed: ", told)
        self.assertIn("hint: to train on other data, start a new run with --load", told)
        np.save(self.dir / "x.npy", rows)
        self.flowrun(*resume, "s=@moved.npy")

    def test_one_changed_byte_anywhere_in_the_data_is_noticed(self):
        self.write("job.yaml", train_job(4))
        reads = ("job.yaml", "--set", "jobs.train.inputs.x.from={npy: x.npy}", "-o", "out", "--quiet")
        np.save(self.dir / "x.npy", np.random.default_rng(1).normal(size=(40_000, 8, 6)).astype(np.float32))
        self.flowrun(*reads, "--steps", 2)
        whole = (self.dir / "x.npy").read_bytes()
        for at in (5_000, 3_333_333, len(whole) - 20_000):
            (self.dir / "x.npy").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            self.assertIn("the data of `x` changed", self.flowrun(*reads, "--resume", status=2).stderr)
        (self.dir / "x.npy").write_bytes(whole)
        self.flowrun(*reads, "--resume")

    def test_unchanged_data_are_not_read_again_unless_asked(self):
        self.write("job.yaml", train_job(4))
        np.save(self.dir / "x.npy", np.ones((10, 8, 6), np.float32))
        time.sleep(2.2)  # a file that changed just now is always read
        reads = ("job.yaml", "--set", "jobs.train.inputs.x.from={npy: x.npy}", "-o", "out", "--quiet", "--resume")
        self.flowrun(*reads[:-1], "--steps", 2)
        record = self.dir / "out/checkpoints/000002/checkpoint.json"
        text = record.read_text()
        digest = json.loads(text)["data"]["x"]
        # A digest of other data shows whether the file was read.
        record.write_text(re.sub(r'  "checksum": "\w+",\n', "", text).replace(digest, "0" * 32))
        said = self.flowrun(*reads, "--verify-data", status=2).stderr
        self.assertIn(f"/x.npy has digest {digest}; expected {'0' * 32}", said)
        self.flowrun(*reads, "--steps", 2)
        os.utime(self.dir / "x.npy")
        self.assertIn("the data of `x` changed", self.flowrun(*reads, status=2).stderr)
        record.write_text(text)
        self.flowrun(*reads)
        self.assertIn("--verify-data requires --resume", self.flowrun(*reads[:-1], "--verify-data", status=2).stderr)

    def test_the_data_of_called_jobs_are_hashed_too(self):
        job = train_job(4).replace("steps: 4}", "steps: 4, also: [{job: eval, every: {steps: 2}}]}")
        self.write("job.yaml", job + """  eval:
    type: predict
    inputs: {x: {shape: [8, 6], dtype: float32, from: {npy: held_out.npy}}}
    graph:
      hidden: {op: dense, units: 8, in: x, activation: relu}
    returns: {value: hidden, to: npy}
""")
        np.save(self.dir / "held_out.npy", np.ones((1, 8, 6), np.float32))
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--steps", 2)
        np.save(self.dir / "held_out.npy", np.zeros((1, 8, 6), np.float32))
        said = self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--resume", status=2).stderr
        self.assertIn("the data of `eval:x` changed: ", said)

    def test_a_checkpoint_of_the_older_form_is_resumed(self):
        self.write("job.yaml", train_job(4))
        np.save(self.dir / "x.npy", np.ones((10, 8, 6), np.float32))
        reads = ("job.yaml", "--set", "jobs.train.inputs.x.from={npy: x.npy}", "-o", "out", "--quiet")
        self.flowrun(*reads, "--steps", 2)
        folder = self.dir / "out/checkpoints/000002"
        (folder / "files.json").unlink()
        record = json.loads((folder / "checkpoint.json").read_text())
        del record["checksum"]
        record["data"]["x"] = "0123456789abcdef"
        (folder / "checkpoint.json").write_text(json.dumps(record))
        self.flowrun(*reads, "--resume")
        self.assertEqual(len(json.loads((self.dir / "out/checkpoints/000004/checkpoint.json").read_text())["data"]["x"]), 32)

    def test_output_waits_for_a_slow_reader_also_where_it_does_not_block(self):
        expected = self.call("flowc", "schema").stdout
        for blocking in (True, False):
            reader, writer = os.pipe()
            os.set_blocking(writer, blocking)
            run = subprocess.Popen([str(BIN / "flowc"), "schema"], stdout=writer)
            os.close(writer)
            time.sleep(0.2)
            with open(reader, encoding="utf-8") as text:
                self.assertEqual(text.read(), expected)
            self.assertEqual(run.wait(timeout=60), 0)

    def test_a_reader_that_has_fallen_asleep_keeps_no_run_from_its_end(self):
        printing = "    returns: {value: hidden, to: print}\n"
        predict = train_job(1).replace("type: train", "type: predict").replace("    run: {steps: 1}\n", "    run: {steps: 1000000, checkpoint: {load: none}}\n")
        predict = "\n".join(line for line in predict.split("\n") if "optimizer" not in line)
        for out, text, how in (("train", train_job(1_000_000), "continue"), ("predict", predict, "restart")):
            self.write("job.yaml", text + printing)
            reader, writer = os.pipe()
            run = self.start("job.yaml", "-o", out, stdout=writer)
            os.close(writer)
            self.await_path(f"{out}/plan.json")
            time.sleep(0.5)  # the pipe is full
            run.send_signal(signal.SIGTERM)
            said = run.communicate(timeout=30)[1]
            os.close(reader)
            self.assertEqual(run.returncode, -signal.SIGTERM, said)
            self.assertIn(f"{how} with: flowrun", said)
        self.assertTrue(self.checkpoint("train").is_dir())

    def test_signals_that_come_together_are_one(self):
        self.write("job.yaml", train_job(3000) + SLOW)
        for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)):
            out = f"out{first}{second}"
            run = self.start("job.yaml", "-o", out)
            self.await_path(f"{out}/metrics.jsonl")
            run.send_signal(first)
            time.sleep(0.002)
            run.send_signal(second)
            said = run.communicate(timeout=60)[1]
            self.assertIn(run.returncode, (-first, -second), said)
            self.assertIn("continue with: flowrun", said)
            self.assertTrue(self.checkpoint(out).is_dir())

    def test_a_later_signal_ends_a_run_at_once(self):
        self.write("job.yaml", train_job(30) + SLOW.replace("sleep 0.02", "touch started; sleep 30"))
        run = self.start("job.yaml", "-o", "out", "--quiet")
        self.await_path("started")
        run.send_signal(signal.SIGTERM)
        time.sleep(2.1)
        self.assertIsNone(run.poll())
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(timeout=10), -signal.SIGTERM)
        run.stderr.close()
        self.assertFalse((self.dir / "out/run.json").exists())

    def test_a_slice_a_step_of_no_slices_is_refused(self):
        self.write("one.yaml", AFFINE)
        np.save(self.dir / "x.npy", np.zeros((0, 2, 3), np.float32))
        self.assertIn("[0, 2, 3], without slices for input", self.flowrun("one.yaml", "--input", "x=@x.npy", status=2).stderr)

    def test_names_in_junit_stay_what_they_are(self):
        for folder in ("a", "b"):
            os.mkdir(self.dir / folder)
            for name in ("\u00fcn\u00ef", "\u00f6n\u00ef"):
                np.save(self.dir / folder / f"{name}.npy", np.zeros(2))
        os.rename(self.dir / "a/\u00f6n\u00ef.npy", os.fsencode(self.dir) + b"/a/no\xfftext.npy")
        subprocess.run([BIN / "flowdiff", "a", "b", "--junit", "report.xml", "--brief"], cwd=self.dir, stdout=subprocess.DEVNULL)
        report = (self.dir / "report.xml").read_text(encoding="utf-8")
        for name in ("\u00fcn\u00ef", "\u00f6n\u00ef", r"no\xfftext"):
            self.assertIn(f'name="{name}"', report)

    def test_output_goes_into_pipes(self):
        def shell(line, status=0):
            done = subprocess.run(["/bin/sh", "-c", line], cwd=self.dir, env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)
            return done.stdout
        self.assertEqual(shell("flowc schema -o /dev/stdout | head -c 1"), "{")
        self.write("one.yaml", AFFINE)
        self.flowrun("one.yaml", "--input", "x=iota", "-o", "out", "--quiet")
        self.assertRegex(shell("flowdiff out out --brief --md /dev/stdout | cat"), r"^\*\*\d+ arrays: \d+ equal")

    def test_includes_are_not_set(self):
        self.write("job.yaml", train_job(1))
        for text in ("include=[x.yaml]", "+include=x.yaml", "~include"):
            self.assertIn("cannot override `include`", self.flowrun("job.yaml", "--set", text, status=2).stderr)


if __name__ == "__main__":
    unittest.main()
