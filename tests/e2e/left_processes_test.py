"""No process outlives a test that fails, or that is ended."""
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from flow import FlowTest

# A test that starts programs, as tests do, and fails while they run. A hook has a process group of its own.
FAILING = """import os, pathlib, signal, subprocess, sys, time, unittest
sys.path.insert(0, {here!r})
from flow import BIN, FlowTest, train_job
class Failing(FlowTest):
    def test_that_fails(self):
        hook = "echo $$ >> $PIDS; sleep 1000"
        self.write("job.yaml", train_job(10**9) + "    hooks: [{{watch: loss, to: {{type: command, mode: spawn, run: '" + hook + "'}}}}]\\n")
        subprocess.run(["sh", "-c", "sleep 1000 & echo $! >> $PIDS"])
        with subprocess.Popen([BIN / "flowrun", "job.yaml", "-o", "out"], cwd=self.dir) as run:
            pids = pathlib.Path(os.environ["PIDS"])
            while len(pids.read_text().split()) < 2:
                time.sleep(0.01)
            pids.write_text(pids.read_text() + str(run.pid))
            {end}
unittest.main()
"""


class LeftProcesses(FlowTest):
    def left(self):
        """Those of the failing test that still run."""
        running = []
        for pid in (self.dir / "pids").read_text().split():
            stat = pathlib.Path(f"/proc/{pid}/stat")
            try:
                if stat.read_bytes().rpartition(b")")[2].split()[0] not in b"ZX":
                    running.append(pid)
            except OSError:  # it has ended
                pass
        return running

    def check_none_is_left_by(self, end):
        self.write("failing.py", FAILING.format(here=os.path.dirname(__file__), end=end))
        done = subprocess.run([sys.executable, "failing.py"], cwd=self.dir, env={**os.environ, "PIDS": str(self.dir / "pids")},
                              capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len((self.dir / "pids").read_text().split()), 3, done.stderr)
        end = time.monotonic() + 10
        while self.left() and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.left(), [], done.stderr)

    def test_none_outlives_a_test_that_fails(self):
        self.check_none_is_left_by("self.fail()")

    def test_none_outlives_a_test_that_takes_too_long(self):
        self.check_none_is_left_by("run.wait(timeout=0.1)")

    def test_none_outlives_tests_that_are_ended(self):
        self.check_none_is_left_by("os.kill(os.getpid(), signal.SIGTERM)")


if __name__ == "__main__":
    unittest.main()
