"""What the tests of data share: jobs that watch all inputs, and the values of these inputs, computed in Python without flow."""
import math
import struct
import sys
import zlib

import numpy as np

from flow import SOURCE, FlowTest

sys.path.insert(0, str(SOURCE / "tests" / "golden" / "data"))
import draws  # noqa: E402


# Learned values.


def chunked_sum(values):
    """Adds chunks of 2048 from left to right, and then their sums."""
    total = 0.0
    for first in range(0, len(values), 2048):
        part = 0.0
        for value in values[first:first + 2048]:
            part += float(value)
        total += part
    return total


def mean_of(values):
    return chunked_sum(values) / len(values)


def std_of(values):
    mean = mean_of(values)
    return math.sqrt(chunked_sum([(float(v) - mean) * (float(v) - mean) for v in values]) / len(values)) or 1.0


def median_of(values):
    values, half = sorted(map(float, values)), len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


# Orders of epochs.


def shuffled(rows_name, n, seed=1):
    """The order of an epoch with `shuffle: true`, as a function of the epoch."""
    return lambda epoch: draws.permutation(seed, rows_name + "/shuffle", epoch, n)


def in_order(n):
    return lambda epoch: range(n)


def batches(order, batch, epochs, train=True):
    """The rows of each step: [(epoch, batch of the epoch, rows)]. A train job leaves out incomplete batches."""
    steps = []
    for epoch in range(epochs):
        rows = list(order(epoch))
        end = len(rows) // batch * batch if train else len(rows)
        steps += [(epoch, i // batch, rows[i:i + batch]) for i in range(0, end, batch)]
    return steps


# Images.


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(samples):
    """A PNG of (C, H, W) samples of 8 bits: gray, RGB or RGBA."""
    channels, height, width = samples.shape
    rows = b"".join(b"\0" + samples[:, y].T.tobytes() for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


# Jobs.


def job_text(data, inputs, run="{epochs: 2}", kind="train", name="train", seed=1, head=True):
    """A job that reads `inputs`, {name: (shape, dtype, column)}, and writes their values to watch/NAME/value.npy."""
    text = f"flow: 1\nseed: {seed}\ndata:\n{data.strip(chr(10))}\njobs:\n" if head else ""
    text += f"  {name}:\n    type: {kind}\n    precision: float64\n    inputs:\n"
    for key, (shape, dtype, column) in inputs.items():
        text += f"      {key}: {{shape: {list(shape)}, dtype: {dtype}, from: {column}}}\n"
    text += "    graph:\n"
    for key, (shape, dtype, _) in inputs.items():
        text += f"      {key}_cast: {{op: cast, in: {key}, dtype: float64}}\n"
        text += f"      {key}_flat: {{op: reshape, in: {key}_cast, shape: [{shape[0]}, -1]}}\n"
    flat = [f"{key}_flat" for key in inputs]
    text += f"      all: {{op: concat, in: [{', '.join(flat)}], axis: 1}}\n" if len(flat) > 1 else f"      all: {{op: identity, in: {flat[0]}}}\n"
    text += "      result: {op: dense, in: all, units: 1}\n"
    if kind == "train":
        text += "      loss: {op: square, in: result}\n    optimizer: {type: adam, learning_rate: 0.001, minimize: loss}\n"
    else:
        text += "    returns: {value: result, to: npy}\n"
    text += f"    hooks: [{', '.join(f'{{watch: {key}, every: 1, to: npy}}' for key in inputs)}]\n"
    return text + (f"    run: {run}\n" if run else "")


class DataTest(FlowTest):
    """Compares watched inputs with their expected values, to the last bit."""

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(3)

    def watched(self, data, inputs, run="{epochs: 2}", kind="train", words=(), seed=1, out="out"):
        """Runs a job. Returns all rows of its inputs, in the order of their use."""
        self.write("job.yaml", job_text(data, inputs, run, kind, seed=seed))
        self.done = self.flowrun("job.yaml", "-o", out, "--force", *words)
        return self.rows_of(out, inputs)

    def rows_of(self, out, inputs):
        return {key: self.load(f"{out}/watch/{key}/value.npy").reshape(-1, *shape[1:]) for key, (shape, _, _) in inputs.items()}

    def assert_rows(self, found, columns, steps):
        """Compares with `columns`, {name: all rows of the dataset}, in the order of `steps`, as batches() returns them."""
        order = [row for _, _, rows in steps for row in rows]
        for key, values in columns.items():
            with self.subTest(input=key):
                np.testing.assert_array_equal(found[key], np.asarray(values)[order].astype(found[key].dtype))
                self.assertEqual(found[key].tobytes(), np.asarray(values)[order].astype(found[key].dtype).tobytes())

    def data_json(self, out):
        """The learned values in the newest checkpoint."""
        return (self.checkpoint(out) / "data.json").read_text()
