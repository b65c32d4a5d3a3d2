"""Whole networks and a job with everything on 1, 2, 4 and 8 ranks of each MPI library, 1 and 2 threads a rank: the bits of one process.

tests/long.sh runs it: about ten minutes on 2 cores."""
import shutil
import unittest

import launchers
from flow import BIN, JOBS
from launchers import RanksTest
from shard_jobs import JOB, write_data


class SameBits(RanksTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if reason := launchers.missing(BIN):
            raise unittest.SkipTest(reason)

    def take_results(self, out):
        """The arrays and the plan that a run leaves, and the rows of its metrics without times. Removes its directory."""
        files = {name: data for name, data in self.files(out).items() if name.endswith(".npy") or name == "plan.json"}
        rows = self.rows_without_seconds(out)
        shutil.rmtree(self.dir / out)
        return files, rows

    def check_all(self, steps, *words):
        words = ["train", *words]
        printed = self.flowrun(*words, "--steps", steps, "-o", "alone", "--threads", 2).stdout
        alone = self.take_results("alone")
        self.assertEqual(len([row for row in alone[1] if "loss" in row and "job" not in row]), steps)
        for mpi in launchers.available(BIN):
            for ranks, threads in ((ranks, threads) for ranks in (1, 2, 4, 8) for threads in (1, 2)):
                with self.subTest(mpi=mpi, ranks=ranks, threads=threads):
                    out = f"{mpi}-{ranks}-{threads}"
                    done = self.ranks(ranks, *words, "--steps", steps, "-o", out, "--threads", threads, mpi=mpi)
                    self.assertEqual(done.stdout, printed)
                    self.assertEqual(self.json(f"{out}/run.json").get("ranks", {"count": 1})["count"], ranks)
                    self.check(alone, self.take_results(out))
        self.check_resumed(alone, steps, words)

    def check(self, one, other):
        self.assert_same(one[0], other[0])
        self.assertEqual(one[1], other[1])

    def check_resumed(self, alone, steps, words):
        """Interrupted on 4 ranks, resumed on 2, of the other library where there is one."""
        libraries = launchers.available(BIN)
        for stop in {1, steps - 1}:
            with self.subTest(stop=stop):
                out = f"stopped-{stop}"
                self.ranks(4, *words, "--steps", stop, "-o", out, mpi=libraries[0])
                self.ranks(2, *words, "--steps", steps, "-o", out, "--resume", mpi=libraries[-1])
                files, rows = self.take_results(out)
                self.check(alone, ({name: data for name, data in files.items() if f"/{stop:06}/" not in name}, rows))

    def check_network(self, name, steps, *words):
        self.check_all(steps, JOBS / f"{name}.yaml", "--set", "jobs.train.shards=8", "--set", "jobs.train.returns.to=npy", *words)

    def test_lenet(self):
        self.check_network("lenet", 3, "--set", "vars.batch=128", "--set", "jobs.train.run.shuffle=true", "--watch", "lenet/*:2", "--watch-diff", "lenet/*/*:2")

    def test_resnet(self):
        self.check_network("resnet18", 2, "--set", "vars.batch=128", "--watch-diff", "**/weight:2")

    def test_gpt(self):
        self.check_network("gpt_tiny", 3, "--watch", "gpt/logits", "--watch-diff", "gpt/**/weight:2")

    def test_everything(self):
        write_data(self.dir)
        self.write("job.yaml", JOB)
        self.check_all(10, "job.yaml")

    def test_everything_with_a_loss_scale(self):
        write_data(self.dir)
        self.write("job.yaml", JOB)
        self.check_all(10, "job.yaml", "--set", "vars.precision=mixed_bfloat16",
                       "--set", "jobs.train.optimizer.loss_scale={type: dynamic, initial: 1024, growth_interval: 3}")


if __name__ == "__main__":
    unittest.main()
