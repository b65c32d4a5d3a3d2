"""Runs on data that are killed in the middle of an epoch resume bit-identically, with any number of threads and ranks, and with or without a cache."""
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

import launchers
from data_reference import DataTest, job_text, png
from flow import BIN
from launchers import RanksTest

DATA = """
  table:
    defaults: {csv: table.csv}
    options: {on_bad_row: skip, cache: cache, split: {validation: 0.2}}
    x: {mean: learn, std: learn, missing: median}
    k: {categories: learn}
  stream:
    x: {bin: stream.bin, dtype: uint16, window: {length: 12, stride: 3}}
    y: {bin: stream.bin, dtype: uint16, window: {length: 12, stride: 3, shift: 1}}
  plain:
    image: {images: i, scale: 1/255, mean: learn, std: learn, augment: [{crop: 8, pad: 2}, {flip: horizontal}, {brightness: 0.3}, {erase: {p: 0.5}}]}
    label: {images: i, take: class, one_hot: 3}
  pets:
    options: {cache: cache, mix: {mixup: 0.4, cutmix: 1, columns: [image, label]}}
    image: {images: i, scale: 1/255, augment: [{random_resized_crop: 8}, {flip: horizontal}, {contrast: 0.3}, {cutout: 3}]}
    label: {images: i, take: class, one_hot: 3}
"""
TABLE = {"x": ([8], "float64", "table.x"), "k": ([8], "int32", "table.k")}
PETS = {"image": ([8, 3, 8, 8], "float64", "pets.image"), "label": ([8, 3], "float64", "pets.label")}
PLAIN = {key: (shape, dtype, column.replace("pets", "plain")) for key, (shape, dtype, column) in PETS.items()}
# Name: inputs and keys of the run.
CASES = {
    "csv": (TABLE, "epochs: 9, shuffle: true"),
    "csv_sampled": (TABLE, "epochs: 9, sample: {balance: table.k}, epoch_rows: 90"),
    "windows": ({"x": ([8, 12], "int32", "stream.x"), "y": ([8, 12], "int32", "stream.y")}, "epochs: 5, shuffle: {buffer: 50}"),
    "images": (PLAIN, "epochs: 12, shuffle: true"),
    "images_mixed": (PETS, "epochs: 12, shuffle: true"),
    "images_sampled": (PETS, "epochs: 12, sample: uniform, epoch_rows: 70"),
}


class Resumed(RanksTest, DataTest):
    """`FLOW_DATA_KILLS`: the number of times that each case is killed."""
    KILLS = int(os.environ.get("FLOW_DATA_KILLS", 3))

    def setUp(self):
        super().setUp()
        self.chance = random.Random(int(os.environ.get("FLOW_SEED", 1)))
        lines = ["x,k"] + [f"{x!r},{k}" for x, k in zip(self.random.normal(size=200).tolist(), self.random.choice(["a", "b", "c"], 200))]
        lines[7], lines[50], lines[90] = "nan,b", "12x,a", ",c"
        self.write("table.csv", "\n".join(lines) + "\n")
        (self.dir / "stream.bin").write_bytes(self.random.integers(0, 2**16, 1000).astype(np.uint16).tobytes())
        for i in range(50):
            path = self.dir / "i" / "abc"[i % 3] / f"{i:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(self.random.integers(0, 256, (3, 10, 9)).astype(np.uint8)))

    def prepare(self, name, shards=1):
        """Writes the jobs of a case, with and without a cache."""
        inputs, run = CASES[name]
        text = job_text(DATA, inputs, f"{{{run}, checkpoint: {{every: {{steps: 7}}, keep: 2}}}}")
        text = text.replace("    type: train\n", f"    type: train\n    shards: {shards}\n")
        self.write("cached.yaml", text)
        self.write("job.yaml", text.replace("cache: cache, ", "").replace(", cache: cache", ""))

    def results(self, out):
        """What equal runs have in common. checkpoint.json has a checksum of the job, which names its number of threads."""
        state = self.state(self.checkpoint(out))
        del state["checkpoint.json"]
        return self.files(f"{out}/watch"), self.rows_without_seconds(out), state

    def words(self, job, out, threads): return ["train", job, "-o", out, "--quiet", "--threads", 1, "--resume", "--set", f"+jobs.train.run.data_threads={threads}"]

    def killed(self, words, out, rows, ranks=1):
        """Starts or resumes a run and kills it after it has logged `rows` steps. Returns whether it was killed."""
        launch = launchers.launch("openmpi", ranks) if ranks > 1 else []
        log = self.dir / out / "metrics.jsonl"
        with subprocess.Popen([*launch, BIN / "flowrun", *map(str, words), *(["--distributed"] if launch else [])], cwd=self.dir, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=launchers.environment()) as process:
            while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= rows):
                time.sleep(0.0005)
            time.sleep(self.chance.uniform(0, 0.004))
            for number in self.processes_of(out).values() if ranks > 1 else []:
                os.kill(number, signal.SIGKILL)
            process.kill()
        return process.returncode == -signal.SIGKILL

    def check(self, name):
        self.prepare(name)
        self.flowrun(*self.words("job.yaml", "whole", 1))
        whole = self.results("whole")
        steps = len(self.metrics("whole"))
        self.assertGreater(steps, 50)
        killed = 0
        for number in range(self.KILLS):
            out = f"out{number}"
            stops = [self.chance.randrange(1, steps - 1) for _ in range(self.chance.choice((1, 1, 2)))]
            for rows in stops:
                killed += self.killed(self.words("job.yaml", out, self.chance.choice((1, 3))), out, rows)
            with self.subTest(case=name, killed_after=stops):
                self.flowrun(*self.words("job.yaml", out, self.chance.choice((1, 3))))
                self.assertEqual(self.results(out), whole)
            shutil.rmtree(self.dir / out)
        self.assertGreater(killed, self.KILLS / 2)
        for threads in (1, 3):  # builds the cache, and reads it
            with self.subTest(case=name, cached=True, threads=threads):
                out = f"cached{threads}"
                self.killed(self.words("cached.yaml", out, threads), out, self.chance.randrange(1, steps - 1))
                self.flowrun(*self.words("cached.yaml", out, 4 - threads))
                self.assertEqual(self.results(out), whole)

    def check_ranks(self, name):
        self.prepare(name, shards=2)
        reference, two = f"{name}-whole", f"{name}-two"
        self.flowrun(*self.words("job.yaml", reference, 1))
        whole = self.results(reference)
        self.ranks(2, *self.words("job.yaml", two, 2))
        self.assertEqual(self.results(two), whole)
        steps = len(self.metrics(reference))
        for number in range(max(1, self.KILLS // 10)):
            out = f"{name}-ranks{number}"
            self.killed(self.words("job.yaml", out, 1), out, self.chance.randrange(1, steps - 1), ranks=2)
            if number % 2:
                self.flowrun(*self.words("job.yaml", out, 3))
            else:
                self.ranks(2, *self.words("job.yaml", out, 1))
            self.assertEqual(self.results(out), whole)

    def test_csv(self): self.check("csv")

    def test_sampled_csv(self): self.check("csv_sampled")

    def test_windows(self): self.check("windows")

    def test_augmented_images(self): self.check("images")

    def test_mixed_images(self): self.check("images_mixed")

    def test_sampled_images(self): self.check("images_sampled")

    def test_two_ranks_read_the_rows_of_one(self):
        for name in ("csv", "images_mixed"):
            with self.subTest(case=name):
                self.check_ranks(name)

    def test_two_ranks_read_sampled_rows_and_windows(self):
        for name in ("images_sampled", "windows"):
            with self.subTest(case=name):
                self.check_ranks(name)


if __name__ == "__main__":
    unittest.main()
