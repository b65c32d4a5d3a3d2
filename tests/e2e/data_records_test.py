"""What runs record about datasets: caches, counts and digests, names of rows, and files that change."""
import io
import json
import os
import shutil
import struct
import subprocess
import tarfile
import time
import unittest
import zlib

import numpy as np

from flow import BIN, FlowTest

JOB = """flow: 1
data:
  pets:
    defaults: {images: pets}
    options: {cache: .cache, on_bad_row: skip}
    image: {size: 4, scale: 1/255, augment: [{flip: horizontal}]}
    label: {take: class}
  houses:
    defaults: {csv: [1.csv, 2.csv]}
    options: {cache: .cache}
    area: {mean: learn, missing: median}
  shards: {label: {tar: "s-*.tar", field: cls}}
networks:
  model: {inputs: [x], graph: {y: {op: dense, units: 2}}}
jobs:
  train:
    type: train
    inputs:
      image: {shape: [2, 3, 4, 4], dtype: float32, from: pets.image}
      label: {shape: [2], dtype: int32, from: pets.label, range: [0, 1]}
    graph:
      flat: {op: reshape, in: image, shape: [2, 48]}
      model: {op: model, in: flat}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: label, logits: model}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
    run: {epochs: 4, shuffle: true}
  fit:
    type: train
    inputs: {area: {shape: [2, 1], dtype: float32, from: houses.area}}
    graph: {d: {op: dense, units: 1, in: area}, loss: {op: square, in: d}}
    optimizer: {type: sgd, learning_rate: 0.01, minimize: loss}
    run: {epochs: 4}
  names:
    type: predict
    inputs: {image: {shape: [2, 3, 4, 4], dtype: float32, from: pets.image}}
    graph: {y: {op: square, in: image}}
    returns: {value: y, to: npy}
  keys:
    type: predict
    inputs: {label: {shape: [2], dtype: float32, from: shards.label}}
    graph: {y: {op: square, in: label}}
    returns: {value: y, to: npy}
"""


def png(pixels):
    """A PNG file of (height, width, 3) bytes."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


class DataRecords(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)
        draws = np.random.default_rng(1)
        for i in range(5):
            path = self.dir / "pets" / ("cat", "dog")[i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(draws.integers(0, 256, (5 + i, 6, 3), np.uint8)))
        (self.dir / "pets/dog/broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        self.write("1.csv", "area\n1\n2\n\n\"\"\n")
        self.write("2.csv", "area\n3\n")
        for name, keys in (("s-0.tar", ("a", "d/b")), ("s-1.tar", ("c",))):
            with tarfile.open(self.dir / name, "w", format=tarfile.USTAR_FORMAT) as archive:
                for key in keys:
                    member = tarfile.TarInfo(key + ".cls")
                    member.size = 1
                    archive.addfile(member, io.BytesIO(b"7"))

    def run_job(self, job, out, *words, **options):
        return self.flowrun(job, "job.yaml", "-o", out, "--quiet", *words, **options)

    def state_of(self, out):
        return self.state(self.checkpoint(out))

    def test_bits_do_not_depend_on_the_cache(self):
        self.write("plain.yaml", JOB.replace("cache: .cache, ", "").replace("    options: {cache: .cache}\n", ""))
        for job in ("train", "fit"):
            self.flowrun(job, "plain.yaml", "-o", f"{job}-plain", "--quiet")
            for out in ("first", "second"):
                self.run_job(job, f"{job}-{out}")
                for name, array in self.state_of(f"{job}-plain").items():
                    if name.endswith(".npy"):
                        self.assertEqual(self.state_of(f"{job}-{out}")[name], array, name)
        self.assertEqual(np.load(self.dir / ".cache/pets.image.npy").shape, (6, 3, 4, 4))
        np.testing.assert_array_equal(np.load(self.dir / ".cache/houses.area.npy")[:, 0][[0, 1, 3]], [1, 2, 3])
        record = json.loads((self.dir / ".cache/pets.json").read_text())
        self.assertEqual([os.path.basename(file["name"]) for file in record["files"]],
                         ["0.png", "2.png", "4.png", "1.png", "3.png", "broken.png"])

    def test_the_record_counts_rows_and_files(self):
        self.run_job("train", "out")
        data = json.loads((self.dir / "out/run.json").read_text())["data"]
        files = [path for path in (self.dir / "pets").glob("*/*.png")]
        self.assertEqual(list(data), ["pets"])
        self.assertRegex(data["pets"].pop("digest"), "^[0-9a-f]{32}$")
        self.assertEqual(set(data["pets"].pop("columns")), {"image", "label"})
        self.assertEqual(data["pets"], {"rows": 5, "bad_rows": 1, "files": 6,
                                        "bytes": sum(path.stat().st_size for path in files)})

    def test_a_resumed_run_names_the_first_file_that_differs(self):
        self.run_job("train", "out", "--steps", 2)
        shutil.copytree(self.dir / "out", self.dir / "again")
        self.run_job("train", "again", "--resume", "--steps", 3)
        path = self.dir / "pets/cat/4.png"
        path.write_bytes(path.read_bytes() + b"more")
        said = self.run_job("train", "out", "--resume", status=2).stderr
        self.assertRegex(said, r"the data of `pets\.image` changed: pets/cat/4\.png has \d+ bytes; expected \d+")
        path.unlink()
        said = self.run_job("train", "out", "--resume", status=2).stderr
        self.assertIn("pets/dog/1.png is at the place of pets/cat/4.png", said)

    def test_contents_of_csv_files_are_compared(self):
        self.run_job("fit", "out", "--steps", 1)
        self.write("2.csv", "area\n4\n")
        said = self.run_job("fit", "out", "--resume", status=2).stderr
        self.assertRegex(said, r"the data of `houses\.area` changed: 2\.csv has digest [0-9a-f]{32}; expected")
        self.write("2.csv", "area\n3\n")
        self.run_job("fit", "out", "--resume")

    def test_predict_jobs_name_their_rows(self):
        for out in ("first", "second"):
            self.run_job("names", out)
            self.assertEqual((self.dir / out / "rows.txt").read_text().split("\n"),
                             ["pets/cat/0.png", "pets/cat/2.png", "pets/cat/4.png", "pets/dog/1.png", "pets/dog/3.png", ""])
        self.run_job("keys", "keys")
        self.assertEqual([line.rsplit("/s-")[-1] for line in (self.dir / "keys/rows.txt").read_text().splitlines()],
                         ["0.tar a", "0.tar d/b", "1.tar c"])
        self.run_job("train", "train")
        self.assertFalse((self.dir / "train/rows.txt").exists())

    def test_a_file_that_changes_during_the_run_fails_it(self):
        slow = "    hooks: [{watch: loss, to: {type: command, mode: spawn, run: 'sleep 0.1'}}]\n"
        self.write("job.yaml", JOB.replace("    run: {epochs: 4}\n", "    run: {epochs: 20}\n" + slow))
        run = subprocess.Popen([str(BIN / "flowrun"), "fit", "job.yaml", "-o", "out", "--quiet"], cwd=self.dir,
                               stderr=subprocess.PIPE, text=True)
        while run.poll() is None and not (self.dir / "out/plan.json").exists():
            time.sleep(0.01)
        time.sleep(0.3)
        self.write("1.csv", "area\n1\n2\n\n55\n\n")
        said = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, 3, said)
        self.assertRegex(said, r"1\.csv changed while it was being read: found \d+ bytes, expected \d+")


if __name__ == "__main__":
    unittest.main()
