"""Calibrated tolerances raise no false alarm over many settings: instruction sets, threads, shards, orders of rows.

long_settings.py [SETTINGS]. tests/long.sh runs it."""
import itertools
import random
import sys
import unittest

from flow import JOBS, PairsTest, train_job

SETTINGS = 200


def settings(count):
    """Words and environment of runs that are as right as any other, in a fixed random order."""
    every = list(itertools.product(("AVX512_CORE", "AVX2", "AVX", "SSE41"), (1, 2, 3, 4, 5), (1, 2, 4, 8), (None, 3, 4, 5, 6)))
    for isa, threads, shards, rows in random.Random(7).sample(every, count):
        order = [] if rows is None else ["--permute-rows", rows]
        yield ["--threads", threads, "--set", f"jobs.train.shards={shards}", *order], {"ONEDNN_MAX_CPU_ISA": isa}


class Settings(PairsTest):
    def check(self, file, count, *flags):
        self.call("flowdiff", "calibrate", "train", file, *flags, "-o", "tolerances.yaml")
        self.call("flowrun", "train", file, "-o", "first", "--quiet", *flags)
        self.call("flowdiff", "update", "golden", "first", "--reason", "calibrated")
        (self.dir / "tolerances.yaml").rename(self.dir / "golden/tolerances.yaml")
        for words, env in settings(count):
            with self.subTest(words=words, env=env):
                self.call("flowrun", "train", file, "-o", "out", "--force", "--quiet", *flags, *words, env=env)
                self.call("flowdiff", "golden", "out", "--brief")

    def test_a_perceptron(self):
        self.write("job.yaml", train_job(8))
        self.check("job.yaml", int(sys.argv[1]) if len(sys.argv) > 1 else SETTINGS, "--watch", "**")

    def test_a_convolutional_net(self):
        """Without dropout, whose masks belong to places in the batch. Of 96 rows, which 8 shards divide."""
        self.check(JOBS / "lenet.yaml", 20, "--steps", 5, "--watch", "lenet", "--set", "vars.batch=96", "--set", "networks.lenet.graph.drop={op: identity, in: dense1}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
