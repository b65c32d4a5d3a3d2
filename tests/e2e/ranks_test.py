"""Distributed runs: ranks of Open MPI and of MPICH compute the bits of one process."""
import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

import launchers
from flow import BIN, Program, device
from launchers import RanksTest
from shard_jobs import JOB, job_text, write_data

# Reads a pipe; a sum is delivered as each shard made it.
PIPE = """flow: 1
jobs:
  predict:
    type: predict
    shards: 4
    inputs: {x: {shape: [8, 4], dtype: float32}}
    graph:
      y: {op: multiply, in: [x, 2]}
      sum: {op: reduce_sum, in: y, axis: [0, 1]}
    hooks: [{watch: y, to: npy}]
    returns: {type: ListNumpy, value: sum, to: npy}
"""

# Calls a job that trains and one that predicts; both read files.
ASYNC = """flow: 1
jobs:
  train:
    type: train
    shards: 4
    inputs: {x: {shape: [16, 4], dtype: float32}}
    graph:
      z: {op: dense, in: x, units: 2}
      loss: {op: square}
    optimizer: {type: adam, learning_rate: 0.01, minimize: loss}
    hooks: [{watch: z, every: 3, to: npy}, {watch_diff: z, to: npy}]
    returns: {type: Numpy, value: loss}
    run: {steps: 12, also: [{job: tune, every: {steps: 3}}, {job: eval, every: {steps: 5}}], checkpoint: {every: {steps: 5}, keep: 9}}
  tune:
    type: train
    shards: 4
    inputs: {x: {shape: [16, 4], dtype: float32, from: {npy: rows.npy}}}
    graph:
      z: {op: dense, in: x, units: 2}
      loss: {op: square}
    optimizer: {type: sgd, learning_rate: 0.01, minimize: loss}
    hooks: [{watch: z, to: npy}]
    returns: {type: Callback, value: loss}
    run: {steps: 3}
  eval:
    type: predict
    shards: 4
    inputs: {x: {shape: [16, 4], dtype: float32, from: {npy: rows.npy}}}
    graph: {z: {op: dense, in: x, units: 2}}
    returns: {type: Callback, value: z}
"""


class Ranks(RanksTest):
    def setUp(self):
        super().setUp()
        write_data(self.dir)
        self.write("job.yaml", JOB)

    # Bits.

    def test_ranks_compute_the_bits_of_one_process(self):
        """`long_ranks.py` has more combinations."""
        two, four = ("openmpi", 2, 2), ("mpich", 4, 1)
        low_precision = ("--set", "vars.precision=mixed_bfloat16", "--set", "jobs.train.optimizer.loss_scale={type: dynamic, initial: 1024, growth_interval: 3}")
        for name, sets, runs in (("float32", (), (two, four)), ("bfloat16", low_precision, (two,)), ("float64", ("--set", "vars.precision=float64"), (four,))):
            printed = self.flowrun("train", "job.yaml", "-o", name, *sets).stdout
            alone = self.outputs(name)
            for mpi, ranks, threads in runs:
                out = f"{name}-{mpi}"
                with self.subTest(sets=sets, mpi=mpi):
                    self.assertEqual(self.ranks(ranks, "train", "job.yaml", "-o", out, "--threads", threads, *sets, mpi=mpi).stdout, printed)
                    self.assert_same(alone, self.outputs(out))
                    self.assertEqual((self.dir / "hit.env").read_text(), "0\n", "a command sees the launcher's variables")
                    self.assertEqual(self.json(f"{out}/run.json")["ranks"]["count"], ranks)

    def test_large_weights_are_summed_and_gathered_where_they_lie(self):
        self.write("job.yaml", job_text(16, 256, 1100, "batch_normalization"))
        self.flowrun("train", "job.yaml", "-o", "alone")
        for ranks in (2, 8):  # of several shards, and of one
            out = f"ranks-{ranks}"
            with self.subTest(ranks=ranks):
                self.ranks(ranks, "train", "job.yaml", "-o", out)
                self.assert_same(self.outputs("alone"), self.outputs(out))

    def test_a_run_interrupted_on_four_ranks_resumes_on_two(self):
        """Checkpoints have all slots, of which each rank has a part."""
        sets = ("--set", "+jobs.train.run.checkpoint={every: {steps: 3}, keep: 9}")
        self.flowrun("train", "job.yaml", "-o", "alone", *sets)
        self.ranks(4, "train", "job.yaml", "-o", "out", "--steps", 7, *sets)
        self.ranks(2, "train", "job.yaml", "-o", "out", "--resume", *sets, mpi="mpich")
        found = {name: data for name, data in self.outputs("out").items() if "/000007/" not in name}
        self.assert_same(self.outputs("alone"), found)

    def test_jobs_that_are_called_run_on_rank_0_or_on_all(self):
        """One trains on rank 0 alone, another one on all ranks, the third validates."""
        text = JOB.replace("type: lamb", "type: sgd").replace("also: [{job: $also, every: {epochs: 1}}]", "also: [{job: tune, every: {steps: 3}}, {job: shared, every: {steps: 2}}, {job: eval, every: {epochs: 1}}]")
        train = text[text.index("    inputs:\n      x: {shape: [48"):text.index("      grad_clipping")]
        for name, shards in (("tune", 1), ("shared", 4)):
            text += f"  {name}:\n    type: train\n    shards: {shards}\n    precision: $precision\n{train}    run: {{steps: 2}}\n"
        self.write("also.yaml", text)
        self.flowrun("train", "also.yaml", "-o", "alone")
        self.ranks(4, "train", "also.yaml", "-o", "out")
        self.assert_same(self.outputs("alone"), self.outputs("out"))
        self.assertEqual(self.rows_without_seconds("alone"), self.rows_without_seconds("out"))

    def test_jobs_that_an_asynchronous_job_calls_have_slots_of_their_own(self):
        """On ranks that follow, too: a called job has fewer than its caller, or more; and its file may have the name of the caller's pipe."""
        rows = np.random.default_rng(5).normal(size=(12, 16, 4)).astype(np.float32)
        np.save(self.dir / "rows.npy", rows)
        pipe = io.BytesIO()
        for x in rows:
            np.save(pipe, -x)
        records = pipe.getvalue()
        self.write("async.yaml", ASYNC)
        for returns, pipeline, mpi, ranks in (("Callback", 4, "openmpi", 2), ("Callback", 2, "mpich", 4), ("Numpy", 1, "mpich", 2)):
            with self.subTest(returns=returns, pipeline=pipeline, mpi=mpi):
                sets = ("--set", f"jobs.train.returns.type={returns}", *(("--set", f"+jobs.train.run.pipeline={pipeline}") if pipeline > 1 else ()))
                results = []
                for out, launch in (("alone", []), (mpi, launchers.launch(mpi, ranks))):
                    out = f"{out}-{pipeline}"
                    command = [*launch, str(BIN / "flowrun"), "train", "async.yaml", "-o", out, "--input", "x=@/dev/stdin", *sets, *(["--distributed"] if launch else [])]
                    done = subprocess.run(command, cwd=self.dir, input=records, capture_output=True, timeout=60, env=launchers.environment())
                    self.assertEqual(done.returncode, 0, done.stderr.decode())
                    results.append((self.outputs(out), self.rows_without_seconds(out), self.rows_without_seconds(f"{out}/also/tune")))
                self.assert_same(results[0][0], results[1][0])
                self.assertEqual(results[0][1:], results[1][1:])

    def test_synchronized_ranks_normalize_as_one_process_does(self):
        text = JOB.replace("type: lamb", "type: sgd").replace("batch_normalization}", "batch_normalization, synchronized: true}")
        self.write("job.yaml", text)
        sets = ("--set", "vars.precision=float64")
        self.flowrun("train", "job.yaml", "-o", "alone", *sets, "--set", "vars.shards=1")
        alone = self.outputs("alone")
        for mpi, ranks, threads in (("mpich", 4, 1),):
            with self.subTest(mpi=mpi):
                shards = ("--set", f"vars.shards={ranks}")
                self.ranks(ranks, "train", "job.yaml", "-o", mpi, "--threads", threads, *sets, *shards, mpi=mpi)
                self.assertEqual(alone.keys(), self.outputs(mpi).keys())
                for name in alone:
                    np.testing.assert_allclose(self.load(f"{mpi}/{name}"), self.load(f"alone/{name}"), rtol=1e-9, atol=1e-11, err_msg=name)
                self.ranks(ranks, "train", "job.yaml", "-o", f"{mpi}-2", "--steps", 7, *sets, *shards, mpi=mpi)
                self.ranks(ranks, "train", "job.yaml", "-o", f"{mpi}-2", "--resume", *sets, *shards, mpi=mpi)
                self.assert_same(self.outputs(mpi), {name: data for name, data in self.outputs(f"{mpi}-2").items() if "/000007/" not in name})
        refused = "`n/normal` is synchronized: job `train` has 4 shards on {}, expected one shard a rank\n   hint: use mpirun -np 4 with --distributed"
        self.assertIn(refused.format("2 ranks"), self.refusal(2, "train", "job.yaml", "-o", "out", *sets, "--set", "vars.shards=4"))
        for words in (("-o", "other"), ("-o", "mpich", "--resume")):
            self.assertIn(refused.format("1 rank"), self.flowrun("train", "job.yaml", *words, *sets, "--set", "vars.shards=4", status=2).stderr)
        self.assertIn("job `train` differs from the run", self.refusal(2, "train", "job.yaml", "-o", "mpich", "--resume", *sets, "--set", "vars.shards=2"))

    def test_rank_0_reads_pipes_for_all(self):
        self.write("pipe.yaml", PIPE)
        x = np.random.default_rng(3).uniform(-1, 1, (3, 8, 4)).astype(np.float32)
        for i in range(3):
            np.save(self.dir / f"{i}.npy", x[i])
        words = self.launch_words("openmpi", 2, "pipe.yaml", "-o", "out", "--input", "x=@/dev/stdin")
        command = f"cat 0.npy 1.npy 2.npy | {' '.join(words)}"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.dir, capture_output=True, text=True, timeout=60, env=launchers.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(self.load("out/watch/y/value.npy"), 2 * x)
        parts = [self.load(f"out/returns/sum/{shard}/value.npy") for shard in range(4)]
        np.testing.assert_allclose(np.stack(parts, 1), x.reshape(3, 4, 2, 4).sum(axis=(2, 3)) * 2, rtol=1e-5)

    # What is refused, and what stops a run.

    def refusal(self, ranks, *words, mpi="openmpi", status=2, more=()):
        """The error of a run that is refused: one message, whoever found it."""
        done = subprocess.run([*self.launch_words(mpi, ranks, *words), *more], cwd=self.dir, capture_output=True, text=True, timeout=60,
                              env=launchers.environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, done.stderr)
        errors = re.findall(r"flowrun: error: .*(?:\n   hint: .*)?", done.stderr)
        self.assertEqual(len(errors), 1, done.stderr)
        return errors[0].removeprefix("flowrun: error: ")

    def test_ranks_that_do_not_divide_the_shards_are_refused(self):
        self.assertIn("job `train` has 8 shards for 3 ranks; the number of ranks must divide the number of shards\n   hint: use 2 ranks",
                      self.refusal(3, "train", "job.yaml", "-o", "out"))
        self.assertIn("has 2 shards for 4 ranks; the number of ranks must divide the number of shards\n   hint: add --set jobs.train.shards=4",
                      self.refusal(4, "train", "job.yaml", "-o", "out", "--set", "vars.shards=2", mpi="mpich"))
        self.assertFalse((self.dir / "out" / "plan.json").exists())

    def test_a_job_file_with_errors_is_reported_once(self):
        self.write("bad.yaml", JOB.replace("filters: 3", "filter: 3"))
        done = subprocess.run(self.launch_words("openmpi", 4, "train", "bad.yaml", "-o", "out"), cwd=self.dir, capture_output=True, text=True, timeout=60,
                              env=launchers.environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("unknown key `filter`"), 1, done.stderr)

    def elsewhere(self, change, *words):
        """Words that start rank 1 in a copy of the directory, changed, as another machine or a container of the same name might have it; and 0 and 1
        share a job file."""
        (self.dir / "b").mkdir()
        for name in ("x.npy", "label.npy"):
            shutil.copy(self.dir / name, self.dir / "b" / name)
        change(self.dir / "b")
        run = [str(BIN / "flowrun"), *(words or ("train", "job.yaml")), "-o", "out", "--root", ".", "--distributed"]
        return [*launchers.launch("openmpi", 1), *run, ":", "-np", "1", "-wdir", str(self.dir / "b"), *run]

    def test_data_that_only_one_rank_lacks_are_reported_with_the_rank(self):
        self.launch_words("openmpi", 2)
        for change, expected in ((lambda b: (b / "label.npy").unlink(), r"rank 1 \(.*\): job.yaml:4:\d+: cannot read .*label.npy"),
                                 (lambda b: np.save(b / "x.npy", np.zeros((240, 2, 6, 4), np.float32)), r"rank 1 \(.*\): .*x.npy"),
                                 (lambda b: [np.save(b / f"{n}.npy", np.load(b / f"{n}.npy")[:192]) for n in ("x", "label")],
                                  r"rank 1 \(.*\) has 192 rows of data, rank 0 \(.*\) has 240")):
            done = subprocess.run(self.elsewhere(change), cwd=self.dir, capture_output=True, text=True, timeout=60, env=launchers.environment())
            self.assertIn(done.returncode, (2, 3), done.stderr)
            self.assertEqual(len(re.findall("flowrun: error: " + expected, done.stderr)), 1, done.stderr)
            self.assertEqual(done.stderr.count("flowrun: error"), 1, done.stderr)
            shutil.rmtree(self.dir / "b")
            shutil.rmtree(self.dir / "out", ignore_errors=True)

    def test_other_values_on_one_rank_are_noticed_at_the_start_and_at_resume(self):
        """Whatever the hosts are called."""
        self.launch_words("openmpi", 2)
        self.write("predict.yaml", PIPE.replace("float32}}", "float32, from: {npy: x.npy}}}").replace("[8, 4]", "[240, 2, 6, 5]").replace("[0, 1]", "[0, 1, 2, 3]"))

        def change(b):
            x = np.load(b / "x.npy")
            x[-1, -1, -1, -1] += 1
            np.save(b / "x.npy", x)

        def run(change, *words):
            done = subprocess.run(self.elsewhere(change, *words), cwd=self.dir, capture_output=True, text=True, timeout=60, env=launchers.environment())
            shutil.rmtree(self.dir / "b")
            return done

        for words in (("train", "job.yaml"), ("predict.yaml",)):
            done = run(change, *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, r"flowrun: error: .*x.npy differs between rank 1 \(.*\) and rank 0 \(.*\)\n   hint: give all machines the same files\n")
            self.assertEqual(done.stderr.count("flowrun: error"), 1, done.stderr)
        done = run(lambda b: None, "train", "job.yaml", "--steps", "3", "--threads", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run(change, "train", "job.yaml", "--resume")
        self.assertIn("x.npy differs between rank 1", done.stderr)
        done = run(lambda b: None, "train", "job.yaml", "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_distributed_requires_a_launcher_and_a_launcher_is_noticed(self):
        error = self.flowrun("train", "job.yaml", "--distributed", status=2).stderr
        self.assertIn("--distributed requires a launcher, but none started this process\n   hint: start it with `mpirun -np 4 flowrun ...`", error)
        env = {"PMI_RANK": "0", "PMI_SIZE": "4"}
        self.assertIn("this is one of 4 separate runs; --distributed makes them one", self.flowrun("train", "job.yaml", "-o", "a", env=env).stderr)
        self.assertNotIn("separate runs", self.flowrun("train", "job.yaml", "-o", "b", env={**env, "PMI_RANK": "1"}).stderr)

    def test_a_label_out_of_range_on_any_rank_is_the_error_of_one_process(self):
        labels = np.load(self.dir / "label.npy")
        labels[100] = labels[200] = 7
        np.save(self.dir / "label.npy", labels)
        alone = self.flowrun("train", "job.yaml", "-o", "alone", status=3).stderr
        message = re.search(r"flowrun: error: (.*\n   hint: .*)", alone)[1]
        for mpi in launchers.LAUNCHERS:
            self.assertEqual(self.refusal(4, "train", "job.yaml", "-o", mpi, mpi=mpi, status=3), message)

    def test_a_loss_that_is_not_finite_ends_all_ranks_after_the_same_step(self):
        sets = ("--set", "jobs.train.optimizer.learning_rate=1e30", "--set", "jobs.train.optimizer.type=sgd")
        alone = self.flowrun("train", "job.yaml", "-o", "alone", *sets, status=1)
        self.assertEqual(self.refusal(4, "train", "job.yaml", "-o", "out", *sets, status=1),
                         re.search(r"flowrun: error: (.*\n   hint: .*)", alone.stderr)[1])
        self.assertEqual(self.json("alone/run.json")["last_step"], self.json("out/run.json")["last_step"])

    def test_signals_stop_all_ranks_and_the_run_resumes(self):
        if device() == "gpu":
            self.skipTest("a stand-in for a GPU takes minutes for so many steps")
        self.flowrun("train", "job.yaml", "-o", "alone", "--set", "jobs.train.run.epochs=60")
        more = ("--set", "jobs.train.run.epochs=60")
        for mpi, stop in (("openmpi", signal.SIGUSR1), ("mpich", signal.SIGINT)):
            out = f"{mpi}-{stop.name}"
            with Program(self.launch_words(mpi, 2, "train", "job.yaml", "-o", out, *more), cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env=launchers.environment(), stdin=subprocess.DEVNULL) as run:
                self.wait_for(self.dir / out / "metrics.jsonl")
                run.send_signal(stop)
                _, errors = run.communicate(timeout=60)
            self.assertIn("flowrun: stopped after", errors)
            self.assertIn(f"mpirun -np 2 flowrun train job.yaml -o {out} --resume", errors)
            self.ranks(4, "train", "job.yaml", "-o", out, "--resume", *more)
            final = {name: data for name, data in self.outputs(out).items() if not name.startswith("checkpoints/") or "/000300/" in name}
            self.assert_same({name: data for name, data in self.outputs("alone").items()}, final)

    def test_a_signal_does_not_interrupt_the_call_of_a_train_job(self):
        """Also where the ranks that follow get it: a resumed run does not make the call again."""
        self.write("async.yaml", ASYNC.replace("run: {steps: 3}", "run: {steps: 800}").replace("float32}}", "float32, from: {type: random_normal}}}")
                   .replace("{npy: rows.npy}", "{type: random_normal}").replace("hooks: [{watch: z, to: npy}]", ""))
        self.flowrun("train", "async.yaml", "-o", "alone", "--steps", 4)
        with Program(self.launch_words("openmpi", 2, "train", "async.yaml", "-o", "out"), cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                     env=launchers.environment(), stdin=subprocess.DEVNULL) as run:
            self.wait_for(self.dir / "out/also/tune/metrics.jsonl")
            run.send_signal(signal.SIGUSR1)
            _, errors = run.communicate(timeout=60)
        self.assertRegex(errors, r"flowrun: stopped after 3 steps")
        self.flowrun("train", "async.yaml", "-o", "out", "--resume", "--steps", 4)
        for read in (self.files, self.state):
            folder = "{}/returns" if read == self.files else "{}/checkpoints/000004"
            self.assertEqual(read(folder.format("alone")), read(folder.format("out")))

    def test_a_hook_that_fails_on_rank_0_ends_all(self):
        self.write("hook.yaml", JOB.replace('cat > hit.events', 'head -n 1 > /dev/null; exit 5'))
        self.assertIn("exit", self.refusal(2, "train", "hook.yaml", "-o", "out", status=3))

    # What a rank takes, and losing one.

    def test_a_dry_run_shows_the_memory_of_a_rank_and_the_bytes_of_a_step(self):
        text = self.ranks(2, "train", "job.yaml", "--dry-run").stdout
        self.assertIn("at peak, on each rank", text)
        self.assertRegex(text, r"sent to other ranks in a step: \d+ KiB")
        self.assertFalse((self.dir / "runs").exists())

    def test_what_ranks_hold_and_send_is_shown_before_a_run(self):
        text = self.call("flowc", "show", "job.yaml", "--job", "train", "--ranks", 4).stdout
        self.assertTrue(text.startswith("job train on 4 ranks: 2 of 8 shards on each\n"), text)
        self.assertRegex(text, r"n/wide/weight:diff +float32 \[600, 70\] +sum +\d+ +ranks 0\.\.\d +n/wide/weight\n")
        self.assertIn("job `train` has 8 shards for 3 ranks", self.call("flowc", "show", "job.yaml", "--job", "train", "--ranks", 3, status=2).stderr)

    def test_a_profile_shows_waiting_and_exchange_apart(self):
        text = self.ranks(2, "train", "job.yaml", "-o", "out", "--profile").stderr
        on_cpu, on_gpu = ("waiting for other ranks", "exchange between ranks", "sums over shards"), ("sums over shards and ranks",)
        for name in on_gpu if device() == "gpu" else on_cpu:
            self.assertIn(name, text)

    def test_a_rank_that_is_lost_ends_the_others_with_one_message(self):
        for mpi, ranks, lost in (("mpich", 4, 2), ("openmpi", 2, 0)):
            out = f"{mpi}-{lost}"
            words = self.launch_words(mpi, ranks, "train", "job.yaml", "-o", out, "--rank-timeout", 2, "--set", "jobs.train.run.epochs=100000",
                                      "--set", "jobs.train.run.checkpoint={every: {steps: 5}}")
            with Program(words, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=launchers.environment(), stdin=subprocess.DEVNULL) as run:
                self.wait_for(self.dir / out / "checkpoints/000005/checkpoint.json")
                processes = self.processes_of(out)
                self.assertEqual(sorted(processes), list(range(ranks)))
                os.kill(processes[lost], signal.SIGSTOP)
                self.addCleanup(lambda p=processes[lost]: contextlib.suppress(ProcessLookupError) or os.kill(p, signal.SIGKILL))
                limit = time.monotonic() + 30
                while len(self.processes_of(out)) > 1:
                    self.assertLess(time.monotonic(), limit)
                    time.sleep(0.05)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(processes[lost], signal.SIGKILL)
                _, errors = run.communicate(timeout=60)
            self.assertNotEqual(run.returncode, 0)
            self.assertEqual(len(re.findall(rf"flowrun: error: rank {lost} \(.*\) stopped responding (in step \d+|before step 0): no heartbeat for \d+ s", errors)), 1, errors)
            self.assertEqual(errors.count("flowrun: error"), 1, errors)
            done = self.flowrun("train", "job.yaml", "-o", out, "--resume", "--set", "jobs.train.run.epochs=100000", "--steps", 10)
            self.assertIn("done", done.stderr)

    def test_a_launcher_that_is_killed_leaves_no_process_and_a_run_that_resumes(self):
        """Neither ranks nor commands, of which one ignores signals and starts another process."""
        command = "trap '' TERM HUP INT; sleep 1000 & echo $$ $! > {}.pids; cat > /dev/null; sleep 1000"
        for mpi in launchers.available(BIN):
            out, sets = f"killed-{mpi}", ("--set", "jobs.train.run.epochs=100000")
            self.write("job.yaml", JOB.replace("cat > hit.events; env | grep -cE '^(OMPI|PMI|PMIX)_' > hit.env || true", command.format(mpi)))
            words = self.launch_words(mpi, 2, "train", "job.yaml", "-o", out, *sets, "--set", "jobs.train.run.checkpoint={every: {steps: 5}}")
            with Program(words, cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=launchers.environment(), stdin=subprocess.DEVNULL) as run:
                self.wait_for(self.dir / out / "checkpoints/000005/checkpoint.json")
                processes = [*self.processes_of(out).values(), *map(int, (self.dir / f"{mpi}.pids").read_text().split())]
                self.assertEqual(len(processes), 4)
                os.kill(run.pid, signal.SIGKILL)
                run.wait()
            limit = time.monotonic() + 30
            while left := self.running(processes):
                self.assertLess(time.monotonic(), limit, left)
                time.sleep(0.05)
            for path in (self.dir / out / "checkpoints").glob("[0-9]*[0-9]"):
                self.state(path.relative_to(self.dir))
            self.assertIn("done", self.flowrun("train", "job.yaml", "-o", out, "--resume", *sets, "--steps", 10, "--no-commands",
                                               "--set", "jobs.train.run.checkpoint={every: {steps: 5}}").stderr)


if __name__ == "__main__":
    unittest.main()
