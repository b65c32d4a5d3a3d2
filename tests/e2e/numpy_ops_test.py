"""NumPy judges ops: their records have an expression of the first result, which the examples are compared with."""
import ast
import itertools
import json
import math
import re
import sys
import unittest

import numpy as np

from flow import BIN, SOURCE, FlowTest

sys.path.insert(0, str(SOURCE / "tests/golden/mnist/make"))
import flow_random  # noqa: E402

DTYPES = {"i8": "int8", "i32": "int32", "i64": "int64", "u8": "uint8", "bool": "bool", "f32": "float32", "f64": "float64"}
FLOATS = {"unit": (-1, 1), "wide": (-8, 8), "positive": (0.1, 1.1), "inside": (-0.9, 0.9), "above_one": (1.1, 2.1)}
WORDS = {"true": True, "false": False, "all": None, "reversed": None, "inf": math.inf, "-inf": -math.inf}


def pooled(x, ksize, strides, padding, reduce):
    """Windows over the axes after the channels; padding is NaN, which `reduce` leaves out."""
    dimensions = x.ndim - 2
    size = (ksize,) * dimensions if isinstance(ksize, int) else ksize
    step = size if strides == "ksize" else (strides,) * dimensions if isinstance(strides, int) else strides
    pads = [(0, 0)] * dimensions if padding == "valid" else list(zip(padding[::2], padding[1::2])) if padding != "same" else []
    for n, k, s in zip(x.shape[2:], size, step) if padding == "same" else ():
        more = max((math.ceil(n / s) - 1) * s + k - n, 0)
        pads.append((more // 2, more - more // 2))
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, size, tuple(range(2, x.ndim)))
    windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in step))]
    return reduce(windows, tuple(range(x.ndim, windows.ndim)))


def averaged(x, output_size):
    """Each axis after the channels as means of nearly equal parts."""
    for axis, n in enumerate([output_size] * (x.ndim - 2) if isinstance(output_size, int) else output_size, start=2):
        size = x.shape[axis]
        parts = [np.take(x, range(i * size // n, -(-(i + 1) * size // n)), axis).mean(axis, keepdims=True) for i in range(n)]
        x = np.concatenate(parts, axis)
    return x


def places(height, width, kernel_size, strides, padding, dilation):
    """For each place of a window: the rows and columns of the padded image where all windows have it."""
    (kh, kw), (sh, sw), (dh, dw) = (((size,) * 2 if isinstance(size, int) else size) for size in (kernel_size, strides, dilation))
    top, bottom, left, right = (0,) * 4 if padding == "valid" else padding
    rows, columns = (height + top + bottom - dh * (kh - 1) - 1) // sh + 1, (width + left + right - dw * (kw - 1) - 1) // sw + 1
    pads = ((0, 0), (0, 0), (top, bottom), (left, right))
    return pads, rows * columns, [(slice(u * dh, u * dh + rows * sh, sh), slice(v * dw, v * dw + columns * sw, sw)) for u in range(kh) for v in range(kw)]


def unfolded(x, *windows):
    pads, count, all_places = places(*x.shape[2:], *windows)
    padded = np.pad(x, pads)
    return np.stack([padded[:, :, rows, columns].reshape(*x.shape[:2], count) for rows, columns in all_places], 2).reshape(len(x), -1, count)


def folded(x, output_size, *windows):
    height, width = (output_size,) * 2 if isinstance(output_size, int) else output_size
    pads, _, all_places = places(height, width, *windows)
    parts = x.reshape(len(x), -1, len(all_places), x.shape[-1])
    y = np.pad(np.zeros((*parts.shape[:2], height, width)), pads)
    for i, (rows, columns) in enumerate(all_places):
        y[:, :, rows, columns] += parts[:, :, i].reshape(y[:, :, rows, columns].shape)
    return y[:, :, pads[2][0]:, pads[3][0]:][:, :, :height, :width]


def multiplied(x, axis, exclusive, reverse):
    x = np.flip(x, axis) if reverse else x
    y = np.cumprod(x, axis, x.dtype)
    if exclusive:
        y = np.concatenate([np.ones_like(np.take(y, [0], axis)), np.delete(y, -1, axis)], axis)
    return np.flip(y, axis) if reverse else y


def scattered(x, indices, updates, reduction):
    places, y = tuple(np.moveaxis(indices, -1, 0)), x.copy()
    if reduction == "add":
        np.add.at(y, places, updates)
    for i in np.ndindex(indices.shape[:-1]) if reduction == "replace" else ():
        y[tuple(indices[i])] = updates[i]
    return y


def drawn_like(draw):
    """Random numbers of an entry in a job's first step, in a shape."""
    return lambda entry, shape: draw(0, entry, 0, math.prod(shape)).reshape(shape)


def indices(entry, x, samples, logits):
    """Indices in proportion to weights: the first whose sum exceeds a word's share of all."""
    sums = np.cumsum(np.exp(x - x.max(-1, keepdims=True)) if logits else x, -1)
    shares = drawn_like(flow_random.words)(entry, (*x.shape[:-1], samples)) * 2.0**-32
    return (sums[..., None, :] <= shares[..., None] * sums[..., -1:, None]).sum(-1)


# What expressions can use besides operands and attributes.
NAMES = {"np": np, "erf": np.vectorize(math.erf), "pooled": pooled, "averaged": averaged, "scattered": scattered, "unfolded": unfolded, "folded": folded, "multiplied": multiplied, "indices": indices,
         "words": drawn_like(flow_random.words), "uniforms": drawn_like(flow_random.uniform01), "normals": drawn_like(flow_random.normal01)}


def value_of(text, kind):
    """An attribute as job files write it."""
    if kind == "index":
        return eval("np.s_" + text, dict(NAMES))
    if text in WORDS:
        return WORDS[text]
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
    return tuple(value) if isinstance(value, list) else value


def written(name, text):
    """An attribute's value as job files have it: examples have no quotes, and pads in a row."""
    if name in ("index", "equation"):
        return f'"{text}"'
    if name == "padding" and text.startswith("["):
        pads = ast.literal_eval(text)
        return str([list(pair) for pair in zip(pads[::2], pads[1::2])])
    return text


def drawn(random, kind, domain, dtype, shape):
    """A random operand. Operands of integers only are labels or indices, of which examples have at least 10."""
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.startswith("float"):
        return random.uniform(*FLOATS[domain], shape).astype(dtype)
    negative = dtype.startswith("int") and kind != "integer" and domain != "positive"
    return random.integers(-9 if negative else 0, 10, shape).astype(dtype)


class Call:
    """An example of an op, such as "softmax(f32[3,4]) axis=0", as an entry of a job."""

    def __init__(self, record, example, name, random):
        self.record, self.example, self.name = record, example, name
        operands, attributes = re.fullmatch(r"\w+\((.*?)\)(.*)", example).groups()
        types = [operand["type"] for operand in record["operands"]]
        self.arrays = [np.asarray(drawn(random, types[min(i, len(types) - 1)], record["domain"], DTYPES[dtype], ast.literal_eval(f"[{shape}]")))
                       for i, (dtype, shape) in enumerate(re.findall(r"(\w+)\[(.*?)\]", operands))]
        self.attributes = dict(word.split("=", 1) for word in attributes.split())

    def inputs(self):
        """Names and arrays."""
        return {f"{self.name}_{i}": array for i, array in enumerate(self.arrays)}

    def by_operand(self, values):
        """Values of each operand by its name; those of a variadic one are a list."""
        names = [operand["name"] for operand in self.record["operands"]]
        if names and self.record["operands"][-1]["type"].startswith("list of"):
            return {names[0]: list(values)}
        return dict(itertools.zip_longest(names, values))

    def entry(self):
        keys = {"op": self.record["name"]}
        keys |= {name: str(value).replace("'", "") for name, value in self.by_operand(self.inputs()).items() if value is not None}
        keys |= {name: written(name, text) for name, text in self.attributes.items()}
        return ", ".join(f"{key}: {text}" for key, text in keys.items())

    def expected(self):
        operands = self.by_operand(array.astype(np.float64) if array.dtype.kind == "f" else array for array in self.arrays)
        attributes = {attribute["name"]: value_of(self.attributes.get(attribute["name"], attribute["default"]), attribute["type"])
                      for attribute in self.record["attributes"]}
        if "in" in operands:
            operands["x"] = operands.pop("in")
        return np.asarray(eval(self.record["numpy"], {**NAMES, "entry": self.name, **operands, **attributes}))


class NumpyOps(FlowTest):
    def records(self):
        if not (BIN / "flow_reference").exists():
            self.skipTest("flow_reference is not built")
        self.call("flow_reference", "records", BIN, self.dir)
        return json.loads((self.dir / "ops.json").read_text())

    def run_calls(self, calls):
        """Runs all calls in one job and loads the first result of each."""
        text = "flow: 1\njobs:\n  j:\n    type: predict\n    run: {steps: 1}\n    inputs:\n"
        for call in calls:
            for name, array in call.inputs().items():
                np.save(self.dir / f"{name}.npy", array)
                text += f"      {name}: {{shape: {list(array.shape)}, dtype: {array.dtype}, rows: false, from: {{npy: {name}.npy}}}}\n"
        text += "    graph:\n" + "".join(f"      {call.name}: {{{call.entry()}}}\n" for call in calls)
        self.write("job.yaml", text + f"    returns: {{value: [{', '.join(call.name for call in calls)}], to: npy}}\n")
        self.flowrun("j", "job.yaml", "-o", "out", "--quiet")
        return [self.load(f"out/returns/{call.name}/value.npy")[0] for call in calls]

    def check(self, got, expected):
        self.assertEqual(got.shape, expected.shape)
        if expected.dtype.kind != "f":
            self.assertEqual(got.dtype, expected.dtype)
            np.testing.assert_array_equal(got, expected)
        else:
            self.assertEqual(got.dtype, np.float32)
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())

    def test_examples_agree_with_numpy(self):
        random = np.random.default_rng(7)
        examples = [(record, example) for record in self.records() if record["numpy"] for example in record["examples"]]
        calls = [Call(record, example, f"c{i}", random) for i, (record, example) in enumerate(examples)]
        for call, got in zip(calls, self.run_calls(calls)):
            with self.subTest(call.example):
                self.check(got, call.expected())

    def test_every_op_is_judged(self):
        """By its expression, or by arrays of tests/property/numpy_judge.py, which numpy_test.cpp lists."""
        goldens = (SOURCE / "tests/property/numpy_test.cpp").read_text()
        for record in self.records():
            with self.subTest(record["name"]):
                self.assertTrue(record["examples"])
                self.assertTrue(record["numpy"] or f'"{record["name"]}"' in goldens, "neither an expression nor a golden")


if __name__ == "__main__":
    unittest.main()
