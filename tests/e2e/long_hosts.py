"""Two network namespaces as two machines: a veth pair is the cable between them, and each has a host name of its own.

Requires root and `ip netns`; about a minute. tests/long.sh runs it."""
import os
import re
import shutil
import subprocess
import sys
import time
import unittest
import uuid

import numpy as np

import launchers
from flow import BIN, Program
from launchers import RanksTest
from shard_jobs import JOB, write_data

TIMEOUT, MARGIN = 2, 60  # seconds: of --rank-timeout, and what a busy machine may take more
HOSTS = ("flowa", "flowb")
SPACES = [f"flow{os.getpid()}{side}" for side in "ab"]
ADDRESSES = ("10.91.7.1", "10.91.7.2")

# What a launcher calls in place of ssh, with a host and a command for its shell. Where machines have the same boot_id, MPICH believes that they
# share memory.
AGENT = """#!/bin/sh
shift
exec ip netns exec {space} unshare --uts --mount sh -c "hostname {host}; mount --bind {boot_id} /proc/sys/kernel/random/boot_id; {mount} $*"
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def connect():
    for space in SPACES:
        ip("netns", "add", space)
    ip("link", "add", "cable", "netns", SPACES[0], "type", "veth", "peer", "name", "cable", "netns", SPACES[1])
    for space, address in zip(SPACES, ADDRESSES):
        ip("-n", space, "addr", "add", f"{address}/24", "dev", "cable")
        ip("-n", space, "link", "set", "lo", "up")
        ip("-n", space, "link", "set", "cable", "up")


def remove():
    for space in SPACES:
        subprocess.run(["ip", "netns", "delete", space], capture_output=True)


class Hosts(RanksTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if reason := launchers.missing(BIN):
            raise unittest.SkipTest(reason)
        if os.geteuid() or not shutil.which("ip"):
            raise unittest.SkipTest("network namespaces require root and `ip`")
        cls.addClassCleanup(remove)
        try:
            connect()
        except subprocess.CalledProcessError as error:
            raise unittest.SkipTest(f"no network namespaces: {error.stderr.strip()}") from error

    def setUp(self):
        super().setUp()
        write_data(self.dir)
        self.write("job.yaml", JOB)
        self.mount = ""  # what the second machine mounts first

    def words(self, mpi, *words):
        """Two ranks on each machine, started from the first one."""
        agent = self.write("agent", AGENT.format(space=SPACES[1], host=HOSTS[1], mount=self.mount, boot_id=self.write("boot_id", f"{uuid.uuid4()}\n")))
        agent.chmod(0o755)
        network = ADDRESSES[0].rpartition(".")[0] + ".0/24"
        if mpi == "openmpi":
            hosts = self.write("hosts", "".join(f"{address} slots=2\n" for address in ADDRESSES))
            settings = {"plm_rsh_agent": agent, "btl_tcp_if_include": network, "oob_tcp_if_include": network}
            more = ["--hostfile", hosts, *(word for name, value in settings.items() for word in ("--mca", name, value))]
        else:
            more = ["-f", self.write("hosts", "".join(f"{address}:2\n" for address in ADDRESSES)), "-launcher", "rsh", "-launcher-exec", agent]
        launcher = [*launchers.launch(mpi, 4), *map(str, more), str(BIN / "flowrun"), *map(str, words), "--distributed"]
        return ["ip", "netns", "exec", SPACES[0], "unshare", "--uts", "sh", "-c", f'hostname {HOSTS[0]}; exec "$@"', "sh", *launcher]

    def run_on_both(self, mpi, *words, status=0):
        done = subprocess.run(self.words(mpi, *words), cwd=self.dir, capture_output=True, text=True, timeout=300, env=launchers.environment(),
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, f"{mpi}: {done.stdout}\n{done.stderr}")
        return done

    def bytes_sent(self, space):
        path = "/sys/class/net/cable/statistics/tx_bytes"
        return int(subprocess.run(["ip", "netns", "exec", space, "cat", path], capture_output=True, text=True, check=True).stdout)

    def test_two_machines_compute_the_bits_of_one_process(self):
        printed = self.flowrun("train", "job.yaml", "-o", "alone").stdout
        for mpi in launchers.available(BIN):
            before = [self.bytes_sent(space) for space in SPACES]
            done = self.run_on_both(mpi, "train", "job.yaml", "-o", mpi)
            self.assertEqual(done.stdout, printed)
            self.assertIn("4 ranks on 2 hosts", done.stderr)
            self.assert_same(self.outputs("alone"), self.outputs(mpi))
            self.assertEqual(self.rows_without_seconds("alone"), self.rows_without_seconds(mpi))
            gradients = sum(path.stat().st_size for path in self.checkpoint("alone").rglob("weight.npy"))
            for space, count in zip(SPACES, before):
                self.assertGreater(self.bytes_sent(space) - count, 10 * gradients, f"{mpi}: the machines share no cable")

    def test_data_that_differ_on_the_second_machine_are_refused(self):
        other = np.load(self.dir / "x.npy")
        other[7, 1, 2, 3] += 1
        np.save(self.dir / "other.npy", other)
        self.mount = f"mount --bind {self.dir}/other.npy {self.dir}/x.npy;"
        for mpi in launchers.available(BIN):
            errors = subprocess.run(self.words(mpi, "train", "job.yaml", "-o", mpi), cwd=self.dir, capture_output=True, text=True, timeout=300,
                                    env=launchers.environment(), stdin=subprocess.DEVNULL).stderr
            self.assertEqual(re.findall("flowrun: error: (.*)", errors), [f"{self.dir}/x.npy differs between rank 2 (flowb) and rank 0 (flowa)"], errors)
            self.assertFalse((self.dir / mpi / "checkpoints").exists())

    def wait_for_end(self, out, started):
        while (left := self.processes_of(str(out))) and time.monotonic() < started + TIMEOUT + MARGIN:
            time.sleep(0.05)
        print(f"{out.name}: ended {time.monotonic() - started:.1f} s after the cut", file=sys.stderr)
        return left

    def test_a_cable_that_is_cut_ends_both_machines(self):
        """And the launchers, once it is mended: they wait for each other as long as TCP does."""
        sets = ("--set", "jobs.train.run.epochs=100000", "--set", "jobs.train.run.checkpoint={every: {steps: 5}}")
        for mpi in launchers.available(BIN):
            out = self.dir / f"cut-{mpi}"
            words = self.words(mpi, "train", "job.yaml", "-o", out, "--rank-timeout", TIMEOUT, *sets)
            with open(self.dir / "errors", "w+") as errors, \
                 Program(words, cwd=self.dir, stdout=subprocess.DEVNULL, stderr=errors, env=launchers.environment(), stdin=subprocess.DEVNULL) as run:
                self.wait_for(out / "checkpoints/000005/checkpoint.json")
                self.assertEqual(len(self.processes_of(str(out))), 4)
                self.addCleanup(ip, "-n", SPACES[0], "link", "set", "cable", "up")
                ip("-n", SPACES[0], "link", "set", "cable", "down")
                left = self.wait_for_end(out, time.monotonic())
                ip("-n", SPACES[0], "link", "set", "cable", "up")
                self.assertNotEqual(run.wait(timeout=MARGIN), 0)
                errors.seek(0)
                text = errors.read()
            self.assertEqual({}, left, text)
            for side, host in (("first", "flowb"), ("second", "flowa")):  # each misses the other one
                self.assertLessEqual(len(re.findall(rf"flowrun: error: rank \d \({host}\) stopped responding", text)), 1, f"{side}\n{text}")
            self.assertIn(text.count("flowrun: error"), (1, 2), text)
            self.flowrun("train", "job.yaml", "-o", out, "--resume", *sets, "--steps", 400)


if __name__ == "__main__":
    unittest.main()
