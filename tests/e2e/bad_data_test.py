"""Hostile data: one clear message, the right exit status, and nothing done."""
import gzip
import io
import re
import struct
import unittest

import numpy as np

from flow import FlowTest

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
                step, place = re.search(r"step (\d+): `labels` holds 9 in (.*), which is not in \[0, 3\)", said).groups()
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
        self.assertIn("hint: it is a .npy: `{npy: images.idx}`", self.refused(images=array.getvalue()))
        self.assertIn("it is a text: numpy.save writes a .npy", self.refused(images=b"0.5,0.25\n"))
        self.assertIn("it is an .npz, or another zip", self.refused(images=b"PK\3\4" + bytes(60)))
        as_npy = JOB.replace("idx:", "npy:").replace(", shape: [1, 4, 4]", "")
        self.write("job.yaml", as_npy.format(images="images.idx", labels="labels.npy"))
        for images, hint in ((gzip.compress(array.getvalue()), "it is gzipped, which idx files alone may be"),
                             (array.getvalue().replace(b"|u1", b"<u2"), '`array.astype("int32")`')):
            (self.dir / "images.idx").write_bytes(images)
            self.assertIn(hint, self.flowrun("train", "job.yaml", "-o", "out", status=3).stderr)

    def test_a_missing_file(self):
        self.write("job.yaml", JOB.format(images="nowhere.idx", labels="nowhere.idx"))
        done = self.flowrun("train", "job.yaml", "-o", "out", status=3)
        self.assertIn("nowhere.idx", done.stderr)

    def test_a_label_outside_the_classes_names_step_row_label_and_input(self):
        message = self.run_with(labels=idx(np.array([0, 1, 2, 7, 1, 2])))
        for word in ("step 1", "row 1", "7", "labels", "[0, 3)"):
            self.assertIn(word, message)


if __name__ == "__main__":
    unittest.main()
