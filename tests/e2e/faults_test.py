"""Calls of the system that fail while a job runs: fault_injector.cpp fails them, each in turn. And runs with little memory.

And runs that are killed at random times.

FLOW_FAULTS=N tries up to N calls of each kind instead of a few, FLOW_KILLS=N kills N runs; tests/long.sh does."""
import concurrent.futures
import errno
import json
import os
import random
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

from flow import BIN, CALLS, ROWS, FlowTest, train_job

NET = """
    graph:
      hidden: {op: conv2d, in: x, filters: 2, kernel_size: 3, activation: relu}
      flat: {op: flatten}
      logits: {op: dense, units: 3}
"""
JOB = f"""flow: 1
jobs:
  train:
    type: train
    inputs:
      x: {{shape: [4, 1, 6, 6], dtype: float32, from: {{type: random_uniform, low: -1, high: 1}}}}
      labels: {{shape: [4], dtype: int32, from: {{type: random_int, low: 0, high: 3}}}}{NET}
      loss: {{op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: logits}}
    optimizer: {{type: adam, learning_rate: 0.01, minimize: loss}}
    returns: {{value: loss, to: [npy, print]}}
    hooks:
      - {{watch: logits, every: 3, to: npy}}
      - {{watch: hidden, every: 10, to: {{type: npy, layout: per_step}}}}
      - {{watch: loss, every: 10, to: {{type: command, run: 'cat > /dev/null'}}}}
    run: {{steps: 30, checkpoint: {{every: {{steps: 10}}, keep: 2}}}}
  predict:
    type: predict
    inputs:
      x: {{shape: [4, 1, 6, 6], dtype: float32, from: {{type: random_uniform, low: -1, high: 1}}}}{NET}
    returns: {{value: logits, to: [npy, print]}}
    run: {{steps: 10}}
"""

ERRORS = [errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES]
MAPPING_ERRORS = [errno.ENOMEM, errno.EACCES, errno.EPERM]
ERRORS_OF = {"malloc": [errno.ENOMEM], "mmap": MAPPING_ERRORS, "mprotect": MAPPING_ERRORS}


class Run:
    """What a run left in a folder: its exit status, its outputs, what is wrong with them."""

    def __init__(self, words, variables, settings):
        with tempfile.TemporaryDirectory(prefix="flow-e2e-") as folder:
            self.folder = Path(folder)
            (self.folder / "job.yaml").write_text(JOB)
            done = subprocess.run([str(BIN / "flowrun"), *words], cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True,
                                  timeout=120, stdin=subprocess.DEVNULL)
            self.status, self.error, self.printed = done.returncode, done.stderr, done.stdout
            self.problems = []
            self.arrays = {name: self.load(path) for name, path in self.find("*.npy")}
            self.states = {}
            for name, path in self.find("checkpoint.json"):
                self.look_at_checkpoint(path, variables)
            self.metrics = self.read_metrics(self.folder / "out/metrics.jsonl")

    def find(self, pattern):
        """Files by name, without those in folders that are still temporary."""
        found = ((str(path.relative_to(self.folder)), path) for path in self.folder.rglob(pattern))
        return [(name, path) for name, path in found if ".tmp/" not in name and ".tmp.old/" not in name]

    def load(self, path):
        try:
            return np.load(path).tobytes()
        except Exception as error:
            self.problems.append(f"{path.name} does not load: {error}")

    def look_at_checkpoint(self, path, variables):
        files = json.loads(path.read_text())["checksums"]
        self.states[str(path.parent.relative_to(self.folder))] = {name: self.load(path.parent / name) for name in sorted(files)}
        if variables and sorted(files) != variables:
            self.problems.append(f"the checkpoint {path.parent.name} has {sorted(files)}")

    @staticmethod
    def read_metrics(path):
        if not path.exists():
            return None
        rows = [json.loads(line) for line in path.read_text().splitlines(True) if line.endswith("\n")]
        return [(row["step"], row["loss"]) for row in rows]

    def outputs(self):
        """What status 0 promises; checkpoints before the last may have gone or, where they cannot be removed, stay."""
        arrays = {name: value for name, value in self.arrays.items() if "/checkpoints/" not in name}
        return self.printed, self.metrics, arrays, {name: state for name, state in self.states.items() if name in ("out/checkpoints/000030", "model")}


class Faults(FlowTest):
    def test_the_injector_records_calls_in_order_and_fails_the_one_that_is_asked_for(self):
        self.write("job.yaml", train_job(3))
        calls = self.recorded("job.yaml", "-o", "out", "--quiet", path="run.json")  # its temporary file, too
        order = [kind for kind, *_ in calls]
        self.assertLess(order.index("write"), order.index("fsync"))
        self.assertLess(order.index("fsync"), order.index("rename"))
        self.assertEqual(calls[order.index("rename")][2], str(self.dir / "out/run.json"))
        full = self.faults(call="fsync", at=1, path="run.json", errno=errno.ENOSPC)
        done = self.flowrun("job.yaml", "-o", "full", "--quiet", env=full, status=3)
        self.assertIn("cannot write full/run.json: No space left on device", done.stderr)

    def counts(self, words):
        """The calls of each kind in a run without faults."""
        file = self.dir / "counts"
        Run(words, None, self.faults(counts=file))
        return dict(zip(CALLS, np.fromfile(file, np.uint64).tolist()))

    def walk(self, words, some):
        """Fails calls of each kind, `some` at most and evenly apart: once, and from then on."""
        clean = Run(words, None, {})
        self.assertEqual((clean.status, clean.problems), (0, []), clean.error)
        variables = sorted(clean.states["out/checkpoints/000030"]) if "train" in words else None
        cases = []
        for kind, count in self.counts(words).items():
            most = int(os.environ.get("FLOW_FAULTS", some * 3 if kind == "malloc" else some))
            calls = sorted({round(at) for at in np.linspace(1, count, min(count, most))})
            cases += [(kind, at, always) for at in calls for always in (False, True)]

        def attempt(case):
            kind, at, always = case
            errors = ERRORS_OF.get(kind, ERRORS)
            settings = self.faults(call=kind, at=at, errno=errors[at % len(errors)], **({"always": 1} if always else {}))
            return case, Run(words, variables, settings)

        failed = 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for case, run in pool.map(attempt, cases):
                with self.subTest(fails=case):
                    self.assertIn(run.status, (0, 2, 3), run.error)
                    self.assertEqual(run.problems, [])
                    if run.status != 0:
                        failed += 1
                        self.assertRegex(run.error, "error: |Out of memory|[Tt]hread creation failed")
                    else:
                        self.assertEqual(run.outputs(), clean.outputs())
                    for name, state in run.states.items():
                        if name in clean.states:
                            self.assertEqual(state, clean.states[name], name)
        self.assertGreater(failed, len(cases) / 3)

    def test_where_executable_memory_is_denied_only_jobs_that_need_it_fail(self):
        """As SELinux and MemoryDenyWriteExecute= of systemd deny it."""
        self.write("job.yaml", JOB)
        self.write("add.yaml", ROWS)
        np.save(self.dir / "x.npy", np.ones((8, 3), np.float32))
        for code in (errno.EACCES, errno.EPERM):
            denied = self.faults(call="mprotect", at=1, always=1, errno=code)
            for job in ("train", "predict"):
                done = self.flowrun(job, "job.yaml", "-o", "out", *(("--load", "none") if job == "predict" else ()), env=denied, status=3)
                self.assertRegex(done.stderr, rf"error: job.yaml:\d+:\d+: step `hidden/conv`: the system denies executable memory, .*\n   hint: allow it, .*`precision: float64`")
                self.assertFalse((self.dir / "out/plan.json").exists())
            self.flowrun("train", "job.yaml", "-o", f"wide{code}", "--set", "+jobs.train.precision=float64", env=denied)
            self.flowrun("add.yaml", "-o", f"add{code}", env=denied)

    def test_whichever_call_fails_a_train_job_says_so_and_leaves_whole_files(self):
        self.walk(["train", "job.yaml", "-o", "out", "--save", "model", "--threads", "2"], 6)

    def test_whichever_call_fails_a_predict_job_says_so_and_leaves_whole_files(self):
        self.walk(["predict", "job.yaml", "-o", "out", "--load", "none", "--threads", "2"], 4)


class Kills(FlowTest):
    """SIGKILL at random times, of runs and of those that resume them."""
    STEPS = 400
    KILLS = int(os.environ.get("FLOW_KILLS", 20))

    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB.replace("steps: 30", f"steps: {self.STEPS}").replace("every: 3, to: npy", "every: 3, to: [npy, stats]"))

    def words(self, out):
        return ["train", "job.yaml", "-o", out, "--save", f"{out}-model", "--quiet", "--threads", "1", "--resume", "--fingerprint=1"]

    def results(self, out):
        """What is equal in the end: of checkpoints the last, for the one before may have been removed."""
        outputs = {name: data for folder in ("returns", "watch") for name, data in self.files(f"{out}/{folder}").items()}
        return outputs, self.rows_without_seconds(out), self.state(f"{out}/checkpoints/{self.STEPS:06}"), self.state(f"{out}-model"), (self.dir / out / "fingerprints.bin").read_bytes()

    def killed_after(self, out, rows, seconds):
        """Starts or resumes the run, and kills it `seconds` after it has logged `rows` steps. False if it had ended before."""
        log = self.dir / out / "metrics.jsonl"
        with subprocess.Popen([BIN / "flowrun", *self.words(out)], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= rows):
                time.sleep(0.0005)
            time.sleep(seconds)
            process.kill()
        return process.returncode == -signal.SIGKILL

    def test_a_run_that_is_killed_at_any_time_resumes_to_the_same_results(self):
        self.call("flowrun", *self.words("whole"))
        whole = self.results("whole")
        chance, killed, resumed = random.Random(1), 0, 0
        for number in range(self.KILLS):
            out, was_killed = f"out{number}", False
            for _ in range(chance.choice((1, 1, 2))):
                rows = chance.randrange(self.STEPS)
                was_killed = self.killed_after(out, rows, chance.uniform(0, 0.005))
                killed += was_killed
            resumed += was_killed and (self.dir / out / "checkpoints").exists()
            with self.subTest(killed_after=rows):
                self.call("flowrun", *self.words(out))
                self.assertEqual(self.results(out), whole)
        self.assertGreater(killed, self.KILLS / 2)
        self.assertGreater(resumed, self.KILLS / 4)


class LittleMemory(FlowTest):
    def test_with_little_address_space_each_program_says_so(self):
        self.faults()  # skips where sanitizers reserve terabytes
        self.write("job.yaml", JOB)
        self.flowrun("predict", "job.yaml", "-o", "a", "--load", "none", "--quiet")
        statuses = {}
        for command in ("flowrun train job.yaml -o out --force --quiet", "flowrun train job.yaml -o out --force --json", "flowc check job.yaml",
                        "flowdiff a a"):
            for kibibytes in range(24_000, 180_000, 12_000 if "--json" in command else 4_000):
                done = subprocess.run(["bash", "-c", f"ulimit -v {kibibytes}; exec {BIN}/{command}"], cwd=self.dir, capture_output=True, text=True,
                                      timeout=60, stdin=subprocess.DEVNULL)
                if done.returncode == 127 and "error while loading shared libraries" in done.stderr:
                    continue  # the program has not begun
                if (done.returncode, done.stderr.strip().partition(" allocating")[0]) == (1, "libgomp: Out of memory"):
                    continue  # likewise: the library begins before the program
                with self.subTest(command=command, kibibytes=kibibytes):
                    self.assertIn(done.returncode, (0, 2, 3), done.stderr)
                    statuses.setdefault(command, []).append(done.returncode)
                    if done.returncode != 0:
                        self.assertRegex(done.stderr, "error|Out of memory")
                    for path in self.dir.rglob("out/**/*.npy"):
                        np.load(path)
        for command, found in statuses.items():
            self.assertEqual(found[-1], 0, f"{command}: {found}")
        self.assertIn(3, statuses["flowrun train job.yaml -o out --force --quiet"])

    def test_out_of_memory_is_one_line_of_text_or_one_object(self):
        self.write("job.yaml", JOB)
        gone = self.faults(call="malloc", at=8500, always=1)
        done = self.flowrun("predict", "job.yaml", "-o", "a", "--load", "none", "--quiet", env=gone, status=3)
        self.assertRegex(done.stderr, "^flowrun: error: out of memory\n   hint: [^\n]*\n$")
        done = self.flowrun("predict", "job.yaml", "-o", "b", "--load", "none", "--json", env=gone, status=3)
        self.assertEqual(json.loads(done.stderr.splitlines()[-1]), {"event": "error", "text": "out of memory"})


if __name__ == "__main__":
    unittest.main()
