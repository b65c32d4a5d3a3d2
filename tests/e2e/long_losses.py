"""Ranks that are killed or stopped at random instants: the others end in time, and the run resumes to the same bits.

long_losses.py [LOSSES [SEED]]: 25 of them by default, about five minutes on 2 cores. tests/long.sh asks for 50."""
import collections
import contextlib
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

import launchers
from flow import BIN, Program
from launchers import RanksTest
from shard_jobs import JOB, write_data

LOSSES, SEED = 25, 1
RANKS, EPOCHS, STEPS = 4, 8, 40
TIMEOUT, MARGIN = 2, 60  # seconds: of --rank-timeout, and what a busy machine may take more
PHASES = ("preparing", "running", "saving", "ending")
JOB_THAT_SAVES = JOB.replace("epochs: 2, shuffle: true", f"epochs: {EPOCHS}, shuffle: true, checkpoint: {{every: {{steps: 2}}, keep: 3}}")


def wait_until(done, seconds):
    limit = time.monotonic() + seconds
    while not (found := done()) and time.monotonic() < limit:
        time.sleep(0.002)
    return found


class Losses(RanksTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if reason := launchers.missing(BIN):
            raise unittest.SkipTest(reason)

    def setUp(self):
        super().setUp()
        write_data(self.dir)
        self.write("job.yaml", JOB_THAT_SAVES)
        started = time.monotonic()
        self.ranks(RANKS, "train", "job.yaml", "-o", self.dir / "rehearsal", "--threads", 1, mpi=launchers.available(BIN)[0])
        self.seconds_to_first_step = time.monotonic() - started - self.json("rehearsal/run.json")["seconds"]
        self.flowrun("train", "job.yaml", "-o", "alone")
        self.undisturbed = self.results("alone")

    def results(self, out):
        """What is equal in the end, however often a run was lost: all but the checkpoints before the last one."""
        files = {name: data for name, data in self.outputs(out).items() if not name.startswith("checkpoints/") or f"/{STEPS:06}/" in name}
        return files, self.rows_without_seconds(out)

    def processes_here(self):
        """All that run in this directory, and are no zombies."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (path / "cwd").readlink().is_relative_to(self.dir) and (path / "cmdline").read_bytes():
                    found.append(int(path.name))
        return found

    def steps_of(self, out):
        with contextlib.suppress(OSError):
            return (self.dir / out / "metrics.jsonl").read_bytes().count(b'"loss":')
        return 0

    def saves(self, out):
        with contextlib.suppress(OSError):
            return any(name.endswith(".tmp") for name in os.listdir(self.dir / out / "checkpoints"))
        return False

    def await_instant(self, phase, out, chance):
        """Returns in the middle of a phase of the run, or when the run is over."""
        after = chance.randrange(1, STEPS - 5)
        done = {"preparing": lambda: self.processes_of(str(self.dir / out)),
                "running": lambda: self.steps_of(out) >= after,
                "saving": lambda: self.steps_of(out) >= after and self.saves(out),
                "ending": lambda: self.steps_of(out) >= STEPS - 1}[phase]
        wait_until(lambda: self.run.poll() is not None or done(), 60)
        time.sleep(chance.uniform(0, {"preparing": self.seconds_to_first_step, "running": 0.1, "saving": 0.005, "ending": 0.15}[phase]))

    def lose(self, number, chance):
        mpi = launchers.available(BIN)[number % len(launchers.available(BIN))]
        phase, stop, out = chance.choice(PHASES), chance.choice((signal.SIGKILL, signal.SIGSTOP)), f"out{number}"
        words = self.launch_words(mpi, RANKS, "train", "job.yaml", "-o", self.dir / out, "--rank-timeout", TIMEOUT, "--threads", 1)
        with open(self.dir / f"{out}.errors", "w+") as errors, \
             Program(words, cwd=self.dir, stdout=subprocess.DEVNULL, stderr=errors, env=launchers.environment(), stdin=subprocess.DEVNULL) as self.run:
            self.await_instant(phase, out, chance)
            processes = self.processes_of(str(self.dir / out))
            rank = chance.choice(sorted(processes)) if processes else None
            about = f"loss {number}: {mpi}, {phase}, {stop.name}, rank {rank} of {len(processes)}, {self.steps_of(out)} steps"
            with contextlib.suppress(ProcessLookupError, KeyError):
                os.kill(processes[rank], stop)
            seconds = self.await_end(about, out, processes.get(rank) if stop == signal.SIGSTOP else None)
            errors.seek(0)
            text = errors.read()
        said = re.findall("flowrun: error: .*", text)
        print(f"{about}: {seconds:.1f} s, status {self.run.returncode}, {said}", file=sys.stderr)
        complete = (self.dir / out / "checkpoints" / f"{STEPS:06}").exists()
        self.assertIn(len(said), (1,) if stop == signal.SIGSTOP and not complete else (0, 1), f"{about}\n{text}")
        self.check_resumes(out, about)
        return phase

    def await_end(self, about, out, stopped):
        """All but the stopped one end. So does that one, when it continues."""
        started = time.monotonic()
        gone = wait_until(lambda: not {*self.processes_of(str(self.dir / out)).values()} - {stopped}, TIMEOUT + MARGIN)
        seconds = time.monotonic() - started
        with contextlib.suppress(ProcessLookupError):
            if stopped:
                os.kill(stopped, signal.SIGCONT)
        ended = wait_until(lambda: self.run.poll() is not None and not self.processes_here(), TIMEOUT + MARGIN)
        self.assertTrue(gone, f"{about}: others are left after {seconds:.1f} s: {(self.dir / out).with_suffix('.errors').read_text()}")
        self.assertTrue(ended, f"{about}: {self.processes_here()} are left")
        return seconds

    def check_resumes(self, out, about):
        self.flowrun("train", "job.yaml", "-o", self.dir / out, "--resume")
        files, rows = self.results(out)
        self.assert_same(self.undisturbed[0], files)
        self.assertEqual(self.undisturbed[1], rows, about)
        self.assertEqual([], [str(path) for path in (self.dir / out).rglob("*") if ".tmp" in path.name], about)

    def test_any_rank_may_be_lost_at_any_instant(self):
        chance, phases = random.Random(SEED), collections.Counter()
        for number in range(LOSSES):
            with self.subTest(number=number, seed=SEED):
                phases[self.lose(number, chance)] += 1
        print(dict(phases), file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:]:
        LOSSES = int(sys.argv[1])
    if sys.argv[2:]:
        SEED = int(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
