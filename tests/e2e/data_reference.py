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


def augmented(image, ops, use, dataset, seed=1, train=True, normalize=lambda v: v.astype(np.float64)):
    """A (C, H, W) image after `ops`, [(op, arguments)], in its use (row, epoch, earlier uses in the epoch)."""
    row, epoch, attempt = use
    value, seen, is_final = image.astype(np.int64), {}, False
    for op, arguments in ops:
        seen[op] = seen.get(op, 0) + 1
        function, words = draws.OPS[op]
        if op in ("erase", "cutout") and not is_final:
            value, is_final = normalize(value), True
        name = f"{dataset}/augment/{op}" + (f"/{seen[op]}" if seen[op] > 1 else "")
        value = function(value, draws.Words(seed, name, epoch, attempt, words * row), train, 255, **arguments)
    return value if is_final else normalize(value)


def mixed(columns, boxed, step, dataset, seed=1, mixup=None, cutmix=None):
    """Batches of columns in float64, mixed as in step (epoch, batch, rows); `boxed` is the (H, W) of the first column's images."""
    epoch, batch, rows = step
    words = draws.Words(seed, dataset + "/mix", epoch, 0, 8 * batch)
    is_mixup = words[0] < 2**31 if mixup and cutmix else bool(mixup)
    parameter, attempt = mixup if is_mixup else cutmix, 0
    while True:
        again = draws.Words(seed, dataset + "/mix", epoch, attempt, 8 * batch)
        x, y = (math.pow(((again[k] >> 8) + 1) * 2.0**-24, 1 / parameter) for k in (1, 2))
        if x + y <= 1:
            break
        attempt += 1
    share = x / (x + y)
    if is_mixup:
        return [share * v + (1 - share) * np.roll(v, -1, 0) for v in columns]
    height, width = boxed
    cy, cx = words.below(4, height), words.below(5, width)
    hh, hw = (math.floor(0.5 * math.sqrt(1 - share) * side) for side in boxed)
    y0, y1, x0, x1 = max(0, cy - hh), min(height, cy + hh), max(0, cx - hw), min(width, cx + hw)
    image = columns[0].copy()
    image[:, :, y0:y1, x0:x1] = np.roll(image, -1, 0)[:, :, y0:y1, x0:x1]
    share = 1 - (y1 - y0) * (x1 - x0) / (height * width)
    return [image] + [share * v + (1 - share) * np.roll(v, -1, 0) for v in columns[1:]]


# Jobs.


def job_text(data, inputs, run="{epochs: 2}", kind="train", name="train", seed=1, head=True):
    """A job that reads `inputs`, {name: (shape, dtype, column)}, and writes each batch of them to watch/NAME/value.npy."""
    text = f"flow: 1\nseed: {seed}\ndata:\n{data}\njobs:\n" if head else ""
    text += f"  {name}:\n    type: {kind}\n    precision: float64\n    inputs:\n"
    for key, (shape, dtype, column) in inputs.items():
        text += f"      {key}: {{shape: {list(shape)}, dtype: {dtype}, from: {column}}}\n"
    text += "    graph:\n"
    for key, (shape, dtype, _) in inputs.items():
        text += f"      {key}_cast: {{op: cast, in: {key}, dtype: float64}}\n"
        text += f"      {key}_flat: {{op: reshape, in: {key}_cast, shape: [{shape[0]}, -1]}}\n"
    text += f"      all: {{op: concat, in: [{', '.join(key + '_flat' for key in inputs)}], axis: 1}}\n" if len(inputs) > 1 else \
        f"      all: {{op: identity, in: {next(iter(inputs))}_flat}}\n"
    text += "      z: {op: dense, in: all, units: 1}\n"
    text += f"    hooks: [{', '.join(f'{{watch: {key}, every: 1, to: npy}}' for key in inputs)}]\n"
    if kind == "predict":
        return text + "    returns: {value: z}\n" + (f"    run: {run}\n" if run else "")
    return text + f"      loss: {{op: square, in: z}}\n".join(["", ""]) + "    optimizer: {type: adam, learning_rate: 0.001, minimize: loss}\n" + f"    run: {run}\n"


class DataTest(FlowTest):
    """Compares watched inputs with their expected values, to the last bit."""

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(3)

    def watched(self, data, inputs, run="{epochs: 2}", kind="train", words=(), seed=1, out="out"):
        """Runs a job; its inputs, one row per row of the data that it read."""
        self.write("job.yaml", job_text(data, inputs, run, kind, seed=seed))
        self.done = self.flowrun("job.yaml", "-o", out, "--force", "--quiet", *words)
        return self.inputs_of(out, inputs)

    def inputs_of(self, out, inputs):
        return {key: (values := self.load(f"{out}/watch/{key}/value.npy")).reshape(-1, *shape[1:]) if values.ndim != len(shape) else values
                for key, (shape, _, _) in inputs.items() for values in [self.load(f"{out}/watch/{key}/value.npy")]}

    def assert_inputs(self, found, columns, steps, dtypes=None):
        """`columns`: {name: all rows of the dataset}; `steps` as of batches()."""
        rows = [row for _, _, of_step in steps for row in of_step]
        for key, values in columns.items():
            with self.subTest(input=key):
                expected = np.asarray(values)[rows].astype(found[key].dtype)
                np.testing.assert_array_equal(found[key], expected)
