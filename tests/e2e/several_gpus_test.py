"""A process that takes several GPUs: a thread for each. Skipped without a GPU; stand-ins for eight of them run all of it."""
import subprocess
import unittest

import numpy as np

from flow import BIN, device
from launchers import RanksTest, available, environment, launch
from ranks_test import PIPE
from shard_jobs import JOB, write_data

SHARDS = ("--set", "vars.shards=4", "--set", "jobs.train.run.epochs=1")


def on(ids, *more):
    """Flags that put the job on GPUs."""
    return (*SHARDS, "--set", f"jobs.train.placement={{device: gpu, ids: {ids}}}", *more)


class NamedDevices(RanksTest):
    def setUp(self):
        super().setUp()
        write_data(self.dir)
        self.write("job.yaml", JOB)

    def refused(self, *words, status=2):
        """The message, which comes once."""
        done = self.flowrun("train", "job.yaml", *words, status=status)
        self.assertEqual(done.stderr.count("error:"), 1, done.stderr)
        return done.stderr


class SeveralMachines(NamedDevices):
    """CPU devices of two machines make the ranks of a launcher one run."""
    TWO = ("--device", "cpu", *SHARDS, "--set", 'jobs.train.placement={device: cpu, ids: ["0:0", "1:0"]}')

    def test_a_launcher_is_required(self):
        self.assertIn("whose `ids` names several machines, requires a launcher, but none started this process", self.refused("-o", "out", *self.TWO))

    def test_ranks_are_one_run_without_a_flag(self):
        mpi = (available(BIN) or self.skipTest("no MPI"))[0]
        self.flowrun("train", "job.yaml", "-o", "alone", "--device", "cpu", *SHARDS)
        words = [*launch(mpi, 2), str(BIN / "flowrun"), "train", "job.yaml", "-o", "out", *self.TWO]
        done = subprocess.run(words, cwd=self.dir, capture_output=True, text=True, timeout=300, env=environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 ranks on 1 host", done.stderr)
        self.assert_same(self.outputs("alone"), self.outputs("out"))


@unittest.skipIf(device() == "cpu", "no GPU here")
class SeveralGpus(NamedDevices):
    def test_gpus_compute_the_bits_of_one(self):
        one = self.flowrun("train", "job.yaml", "-o", "one", *SHARDS)
        for ids, count in (("0:2-3", 2), ("['0:0-1', '0:4-5']", 4)):
            with self.subTest(ids=ids):
                done = self.flowrun("train", "job.yaml", "-o", f"on{count}", *on(ids))
                self.assertEqual(done.stdout, one.stdout)
                self.assertIn(f", {count} GPUs, writing to on{count}", done.stderr)
                self.assert_same(self.outputs("one"), self.outputs(f"on{count}"))
                self.assertEqual(self.rows_without_seconds("one"), self.rows_without_seconds(f"on{count}"))
                self.assertEqual(self.json(f"on{count}/run.json")["ranks"]["count"], count)
                self.assertRegex(self.json(f"on{count}/run.json")["libraries"]["nccl"], r"^\d+\.\d+\.\d+$")

    def test_one_gpu_of_several_can_be_named(self):
        self.assertIn("on cuda:", self.flowrun("train", "job.yaml", "-o", "out", "--steps", 1, *on("0:1")).stderr)

    def test_a_run_resumes_on_another_number_of_gpus(self):
        more = ("--set", "+jobs.train.run.checkpoint={every: {steps: 3}, keep: 9}")  # of 5 steps
        self.flowrun("train", "job.yaml", "-o", "one", *SHARDS, *more)
        self.flowrun("train", "job.yaml", "-o", "out", "--steps", 4, *on("0:0-3", *more))
        self.flowrun("train", "job.yaml", "-o", "out", "--resume", *on("0:0-1", *more))
        found = {name: data for name, data in self.outputs("out").items() if "/000004/" not in name}
        self.assert_same(self.outputs("one"), found)

    def test_a_pipe_is_read_once_for_all(self):
        self.write("pipe.yaml", PIPE)
        x = np.random.default_rng(3).uniform(-1, 1, (3, 8, 4)).astype(np.float32)
        for i in range(3):
            np.save(self.dir / f"{i}.npy", x[i])
        words = [BIN / "flowrun", "pipe.yaml", "-o", "out", "--input", "x=@/dev/stdin", "--set", "jobs.predict.placement='{device: gpu, ids: 0:0-1}'"]
        done = subprocess.run(["bash", "-o", "pipefail", "-c", f"cat 0.npy 1.npy 2.npy | {' '.join(map(str, words))}"], cwd=self.dir, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(self.load("out/watch/y/value.npy"), 2 * x)
        parts = [self.load(f"out/returns/sum/{shard}/value.npy") for shard in range(4)]
        np.testing.assert_allclose(np.stack(parts, 1), x.reshape(3, 4, 2, 4).sum(axis=(2, 3)) * 2, rtol=1e-5)

    def test_a_dry_run_counts_the_memory_of_one_gpu(self):
        dry = self.flowrun("train", "job.yaml", "--dry-run", *on("0:0-1")).stdout
        self.assertIn("sums over ranks", dry)
        self.assertFalse((self.dir / "runs").exists())

    def test_a_gpu_that_is_not_there_ends_all_with_one_message(self):
        self.assertIn("no GPU 63", self.refused("-o", "out", *on("['0:0', '0:63']"), status=3))

    def test_a_gpu_that_fails_ends_all_with_one_message(self):
        for fails, name in (("0:1000", ""), ("1:50", "GPU 1: "), ("1:700", "GPU 1: ")):
            with self.subTest(fails=fails):
                done = self.flowrun("train", "job.yaml", "-o", "out", "--force", *on("0:0-1"), status=3, env={"STAND_IN_FAILS": fails}, timeout=60)
                self.assertRegex(done.stderr, rf"flowrun: error: {name}job\.yaml:\d+:\d+: job `train`: the fake device fails at ")
                self.assertEqual(done.stderr.count("error:"), 1, done.stderr)

    def test_entries_on_the_cpu_are_refused(self):
        self.assertIn("runs on 2 GPUs and the CPU", self.refused("-o", "out", *on("0:0-1", "--set", "+networks.net.graph.active.placement={device: cpu}")))

    def test_ranks_and_names_must_be_as_many(self):
        mpi = (available(BIN) or self.skipTest("no MPI"))[0]
        done = self.ranks(2, "train", "job.yaml", "-o", "out", *on("0:0-3"), mpi=mpi, status=2)
        self.assertEqual(done.stderr.count("`ids` names 4 GPUs for 2 ranks"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
