"""Hostile data: one clear message, the right exit status, and nothing done."""
import gzip
import io
import json
import re
import struct
import subprocess
import unittest

import numpy as np

from flow import BIN, FlowTest

JOB = """flow: 1
data:
  d:
    images: {{idx: {images}, shape: [1, 4, 4], scale: 1/255}}
    labels: {{idx: {labels}}}
jobs:
  train:
    type: train
    inputs:
      images: {{shape: [2, 1, 4, 4], dtype: float32, from: d.images}}
      labels: {{shape: [2], dtype: int32, from: d.labels}}
    graph:
      flat: {{op: flatten, in: images}}
      logits: {{op: dense, units: 3}}
      loss: {{op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: logits}}
    optimizer: {{type: sgd, learning_rate: 0.1, minimize: loss}}
"""


def idx(array):
    return struct.pack(">BBBB", 0, 0, 8, array.ndim) + b"".join(struct.pack(">I", n) for n in array.shape) + array.astype(np.uint8).tobytes()


IMAGES = idx(np.arange(6 * 16).reshape(6, 4, 4))
LABELS = idx(np.array([0, 1, 2, 0, 1, 2]))


class BadData(FlowTest):
    def run_with(self, images=IMAGES, labels=LABELS, status=3, names=("images.idx", "labels.idx")):
        (self.dir / names[0]).write_bytes(images)
        (self.dir / names[1]).write_bytes(labels)
        self.write("job.yaml", JOB.format(images=names[0], labels=names[1]))
        done = self.flowrun("train", "job.yaml", "-o", "out", status=status)
        self.assertFalse((self.dir / "out/returns").exists())
        return done.stderr

    def refused(self, **files):
        message = self.run_with(**files)
        self.assertIn("job.yaml:", message)
        self.assertFalse((self.dir / "out/checkpoints").exists(), "found before the first step")
        return message

    def test_a_bad_label_is_found_in_its_file_whatever_the_order_of_rows(self):
        labels = idx(np.array([0, 1, 2, 0, 1, 9, 2, 0, 1]))
        (self.dir / "labels.idx").write_bytes(labels)
        (self.dir / "images.idx").write_bytes(idx(np.arange(9 * 16).reshape(9, 4, 4)))
        whole = JOB.format(images="images.idx", labels="labels.idx") + "    run: {epochs: 9, shuffle: true}\n"
        part = whole.replace("{idx: labels.idx", "{idx: labels.idx, rows: [2..3, 4..8]").replace("{idx: images.idx", "{idx: images.idx, rows: 0..5")
        seen = set()
        for job in (whole, part):
            for seed in range(1, 7):  # five rows in batches of two: an epoch need not reach it
                self.write("job.yaml", job)
                said = self.flowrun("train", "job.yaml", "-o", "out", "--force", "--quiet", "--set", f"seed={seed}", status=3).stderr
                step, place = re.search(r"step (\d+): `labels` contains 9 at (.*); expected a value in \[0, 3\)", said).groups()
                self.assertRegex(place, rf"^row [01] \(row 5 of .*/labels\.idx\)$")
                seen.add((step, place))
        self.assertGreater(len(seen), 3, "the order changes with the seed")

    def test_good_data_trains(self):
        self.run_with(status=0)

    def test_a_truncated_idx(self): self.assertIn("images.idx", self.refused(images=IMAGES[:-1]))

    def test_an_idx_with_bytes_to_spare(self): self.assertIn("images.idx", self.refused(images=IMAGES + b"x"))

    def test_a_wrong_magic(self): self.assertIn("idx", self.refused(images=b"PNG\n" + IMAGES[4:]))

    def test_a_header_alone(self): self.refused(images=IMAGES[:16])

    def test_an_empty_file(self): self.refused(images=b"")

    def test_extents_that_promise_the_world(self):
        self.refused(images=struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1))

    def test_another_row_shape(self):
        message = self.refused(images=idx(np.zeros((6, 5, 5))))
        self.assertIn("[5, 5]", message)

    def test_columns_of_different_length(self):
        message = self.refused(labels=idx(np.array([0, 1, 2])))
        self.assertIn("6", message)
        self.assertIn("3", message)

    def test_a_truncated_gzip(self):
        self.assertIn("images.gz", self.refused(images=gzip.compress(IMAGES)[:-9], names=("images.gz", "labels.idx")))

    def test_a_gzip_with_a_wrong_checksum(self):
        content = bytearray(gzip.compress(IMAGES))
        content[-6] ^= 0xFF
        self.refused(images=bytes(content), names=("images.gz", "labels.idx"))

    def test_a_file_of_another_format_is_told_by_its_own(self):
        array = io.BytesIO()
        np.save(array, np.zeros((6, 4, 4), np.uint8))
        self.assertIn("hint: the file is a .npy; write `{npy: images.idx}`", self.refused(images=array.getvalue()))
        self.assertIn("the file is text; read it with `{csv: images.idx}`", self.refused(images=b"0.5,0.25\n"))
        self.assertIn("the file is an .npz or another zip", self.refused(images=b"PK\3\4" + bytes(60)))
        as_npy = JOB.replace("idx:", "npy:").replace(", shape: [1, 4, 4]", "")
        self.write("job.yaml", as_npy.format(images="images.idx", labels="labels.npy"))
        for images, hint in ((gzip.compress(array.getvalue()), "decompress the file; only csv, text and idx files can be compressed"),
                             (array.getvalue().replace(b"|u1", b"<u4"), '`array.astype("int32")`')):
            (self.dir / "images.idx").write_bytes(images)
            self.assertIn(hint, self.flowrun("train", "job.yaml", "-o", "out", status=3).stderr)

    def test_a_text_in_the_place_of_data_is_told_as_what_it_is(self):
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
        pages = (b"<!DOCTYPE html>\n<html></html>\n", b"\xef\xbb\xbf \n<HTML><head>", b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>')
        for text in (pointer, *pages):
            hint = "hint: the file is a pointer of Git LFS; run `git lfs pull`\n" if text == pointer else \
                "hint: the file is a web page: the download failed; download it again\n"
            for images in (text, gzip.compress(text)):
                self.assertIn(hint, self.refused(images=images))
            for name in ("x.npy", "x.npz", "x.safetensors", "x.onnx"):
                (self.dir / name).write_bytes(text)
            for source in ("{npy: x.npy, shape: [1, 4, 4]}", "{npz: x.npz, array: x, shape: [1, 4, 4]}"):
                self.assertIn(hint, self.flowrun("train", "job.yaml", "-o", "out", "--set", f"data.d.images={source}", status=3).stderr)
            (self.dir / "images.idx").write_bytes(IMAGES)
            for name, status in (("x.npz", 3), ("x.safetensors", 3)):
                self.assertIn(hint, self.flowrun("train", "job.yaml", "-o", "out", "--load", name, status=status).stderr)
            self.assertIn(hint, self.flowrun("train", "job.yaml", "-o", "out", "--input", "images=@x.npy", status=3).stderr)
            self.assertIn(hint, self.call("flowc", "import", "x.onnx", "-o", "imported.yaml", status=2).stderr)

    def test_columns_of_16_bits_are_read_as_numpy_reads_them(self):
        labels = np.array([0, 1, 2, 0, 1, 2])
        for dtype in ("i4", "<i2", ">i2", "<u2", ">u2"):
            np.save(self.dir / "labels.npy", labels.astype(dtype))
            images = np.broadcast_to(np.arange(6)[:, None, None] * 9001 - (0 if "u" in dtype else 20000), (6, 4, 4)).astype(dtype)
            np.save(self.dir / "x.npy", np.asfortranarray(images))
            np.savez(self.dir / "x.npz", x=images)
            self.write("job.yaml", JOB.format(images="x", labels="x") + "    hooks: [{watch: images, every: 1}, {watch: labels, every: 1}]\n")
            for source in ("{npy: x.npy, shape: [1, 4, 4]}", "{npz: x.npz, array: x, shape: [1, 4, 4]}"):
                self.flowrun("train", "job.yaml", "-o", "out", "--force", "--quiet", "--set", f"data.d.images={source}", "--set", "data.d.labels={npy: labels.npy}")
                np.testing.assert_array_equal(self.load("out/watch/images/value.npy").reshape(6, 4, 4), images.astype(np.float32))
                np.testing.assert_array_equal(self.load("out/watch/labels/value.npy").reshape(-1), labels)
        values = np.array([[-32768, 32767], [258, -2]], ">i2")
        (self.dir / "x.idx").write_bytes(struct.pack(">BBBBII", 0, 0, 0x0B, 2, 2, 2) + values.tobytes())
        self.write("shorts.yaml", "flow: 1\ndata: {d: {x: {idx: x.idx}}}\njobs: {a: {type: predict, inputs: {x: {shape: [2, 2], dtype: int32, from: d.x}}, "
                   "graph: {y: {op: identity, in: x}}, returns: {value: y}}}\n")
        self.flowrun("shorts.yaml", "-o", "shorts", "--quiet")
        np.testing.assert_array_equal(self.load("shorts/returns/y/value.npy"), values)

    def test_a_label_of_minus_100_hints_at_ignore_index(self):
        np.save(self.dir / "labels.npy", np.array([0, 1, -100, 0, 1, 2], np.int32))
        (self.dir / "images.idx").write_bytes(IMAGES)
        self.write("job.yaml", JOB.format(images="images.idx", labels="x"))
        said = self.flowrun("train", "job.yaml", "-o", "out", "--set", "data.d.labels={npy: labels.npy}", status=3).stderr
        self.assertIn("hint: count labels and indices from 0, or write `ignore_index: -100` if such labels do not count\n", said)
        self.flowrun("train", "job.yaml", "-o", "again", "--set", "data.d.labels={npy: labels.npy}", "--set", "+jobs.train.graph.loss.ignore_index=-100",
                     "--set", "+jobs.train.graph.loss.reduction=mean", "--quiet")

    def test_a_missing_file(self):
        self.write("job.yaml", JOB.format(images="nowhere.idx", labels="nowhere.idx"))
        done = self.flowrun("train", "job.yaml", "-o", "out", status=3)
        self.assertIn("nowhere.idx", done.stderr)

    def test_a_label_outside_the_classes_names_step_row_label_and_input(self):
        message = self.run_with(labels=idx(np.array([0, 1, 2, 7, 1, 2])))
        for word in ("step 1", "row 1", "7", "labels", "[0, 3)"):
            self.assertIn(word, message)


FLOATS = """flow: 1
data:
  d:
    x: {npy: x.npy, rows: [2..10, 0..1]}
    z: {npz: z.npz, array: z}
    k: {npy: k.npy}
jobs:
  train:
    type: train
    inputs:
      x: {shape: [2, 3], dtype: float32, from: d.x}
      z: {shape: [2, 1], dtype: float32, from: d.z}
      k: {shape: [2], dtype: int32, from: d.k}
    graph: {net: {op: dense, in: x, units: 1}, loss: {op: mse, prediction: net, target: z}}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
    run: {on_nonfinite: warn, also: [{job: again, every: {epochs: 1}}]}
  again:
    type: predict
    inputs: {x: {shape: [2, 3], dtype: float32, from: d.x}}
    graph: {net: {op: dense, in: x, units: 1}}
    returns: {value: net}
"""


class NonfiniteData(FlowTest):
    """NaN and infinity in data are reported once a column, and the run continues."""

    def setUp(self):
        super().setUp()
        x, z = np.ones((12, 3), ">f8"), np.ones((9, 1), np.float16)
        x[1, 1] = np.nan  # no row of the column
        x[5, 2], x[7, 0], x[9, 1] = np.inf, np.nan, -np.inf
        z[8, 0] = np.nan
        np.save(self.dir / "x.npy", x)
        np.savez_compressed(self.dir / "z.npz", z=z)
        np.save(self.dir / "k.npy", np.full(9, -1))  # all bits set, but integers
        self.write("job.yaml", FLOATS)

    EXPECTED = ["job.yaml:4:5: column `x` of dataset `d`: 3 values are NaN or infinite, first in row 5 of x.npy",
                "job.yaml:5:5: column `z` of dataset `d`: 1 value is NaN or infinite, first in row 8 of z.npz"]

    def found(self, text):
        lines = text.replace(f"{self.dir}/", "").splitlines()
        return [line.removeprefix("flowrun: ") for line in lines if "NaN or infinite" in line]

    def test_each_column_is_reported_once(self):
        self.assertEqual(self.found(self.flowrun("train", "job.yaml", "-o", "out").stderr), self.EXPECTED)

    def test_files_that_are_inputs_are_reported_alike(self):
        for name, x, place in (("whole", np.array([[1, np.nan, 1], [np.inf, 1, 1]]), "2 values are NaN or infinite in whole.npy, first at [0, 1]"),
                               ("slices", np.full((3, 2, 3), [[[1.0]], [[1.0]], [[-np.inf]]]), "6 values are NaN or infinite in slices.npy, first in row 2")):
            np.save(self.dir / f"{name}.npy", x)
            self.write("again.yaml", FLOATS.replace("{shape: [2, 3], dtype: float32, from: d.x}}\n    graph: {net: {op: dense, in: x, units: 1}}\n    returns",
                                                    f"{{shape: [2, 3], dtype: float32, from: {{npy: {name}.npy}}}}}}\n    graph: {{net: {{op: dense, in: x, units: 1}}}}\n    returns"))
            said = self.flowrun("again", "again.yaml", "-o", "out", "--force", "--load", "none").stderr
            self.assertRegex(self.found(said)[-1], r"^again.yaml:\d+:\d+: input `x`: " + re.escape(place) + "$")
            said = self.flowrun("again", "again.yaml", "-o", "out", "--force", "--load", "none", "--input", f"x=@{name}.npy").stderr
            self.assertEqual(self.found(said), [f"--input x: input `x`: {place}"])

    def test_a_stream_is_reported_at_its_first_record(self):
        records = io.BytesIO()
        for value in (1, np.nan, np.nan):
            np.save(records, np.full((2, 3), value, ">f4"))
        done = subprocess.run([BIN / "flowrun", "again", "job.yaml", "-o", "out", "--load", "none", "--input", "x=@-"], cwd=self.dir,
                              input=records.getvalue(), capture_output=True)
        self.assertEqual(self.found(done.stderr.decode()), ["--input x: input `x`: 6 values are NaN or infinite in /dev/stdin, first in record 1"])

    def test_a_dry_run_reports_them_too(self):
        self.assertEqual(self.found(self.flowrun("train", "job.yaml", "--dry-run").stderr), self.EXPECTED)

    def test_they_are_remarks_in_json(self):
        lines = self.found(self.flowrun("train", "job.yaml", "-o", "out", "--json").stderr)
        self.assertEqual([json.loads(line)["text"] for line in lines], self.EXPECTED)

    def test_finite_data_are_passed_in_silence(self):
        np.save(self.dir / "x.npy", np.full((12, 3), np.finfo(np.float32).max, np.float32))
        np.savez(self.dir / "z.npz", z=np.ones((9, 1)))
        self.assertEqual(self.found(self.flowrun("train", "job.yaml", "--dry-run").stderr), [])


if __name__ == "__main__":
    unittest.main()
