"""NumPy judges random calls of kernels that have no reference: in both layouts, in float32 and in float64."""
import itertools
import json
import math
import sys
import unittest

import numpy as np

from flow import BIN, SOURCE, FlowTest

sys.path += [str(SOURCE / "tests/golden/mnist/make"), str(SOURCE / "tests/property")]
import draw_judge  # noqa: E402
import flow_random  # noqa: E402

SEED = 7  # of all calls
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}


def shifted(y, axis, first):
    """One further along the axis."""
    start = np.full_like(np.take(y, [0], axis), first)
    return np.concatenate([start, np.delete(y, -1, axis)], axis)


def scanned(function, first):
    def judge(x, axis, exclusive, reverse):
        x = np.flip(x, axis) if reverse else x
        y = function(x, axis, x.dtype)
        y = shifted(y, axis, first) if exclusive else y
        return np.flip(y, axis) if reverse else y
    return judge


def cumprod_grad(dy, x, axis, exclusive, reverse):
    """Of each x[j]: the sum over y[i] of dy[i] times the factors of y[i] other than x[j]."""
    dy, x = (np.moveaxis(np.flip(a, axis) if reverse else a, axis, 0) for a in (dy, x))
    dx = np.zeros(x.shape)
    for j in range(len(x)):
        others = x.copy()
        others[j] = 1
        products = np.cumprod(others, 0)
        first = j + 1 if exclusive else j
        products = shifted(products, 0, 1) if exclusive else products
        dx[j] = (dy[first:] * products[first:]).sum(0)
    dx = np.moveaxis(dx, 0, axis)
    return np.flip(dx, axis) if reverse else dx


def sliced(x, starts, steps, counts, shape):
    taken = [start + step * np.arange(count) for start, step, count in zip(starts, steps, counts)]
    return (x[np.ix_(*taken)] if taken else x).reshape(shape)


def places_along(indices, axis):
    """What NumPy finds the elements of `indices` along the axis by."""
    places = list(np.indices(indices.shape, sparse=True))
    places[axis] = indices.astype(np.int64)
    return tuple(places)


def put_along_axis(x, indices, updates, axis):
    """Of equal indices, the last counts."""
    y = np.moveaxis(x.copy(), axis, 0)
    indices, updates = np.moveaxis(indices, axis, 0), np.moveaxis(updates, axis, 0)
    for own, update in zip(indices, updates):
        np.put_along_axis(y, own[None].astype(np.int64), update[None], 0)
    return np.moveaxis(y, 0, axis)


def add_along_axis(x, indices, updates, axis):
    y = x.copy()
    np.add.at(y, places_along(indices, axis), updates)
    return y


def scatter_update(x, indices, updates, axis):
    y = x.copy().reshape(math.prod(x.shape[:axis]), x.shape[axis], -1)
    slices = updates.reshape(y.shape[0], indices.size, y.shape[2])
    for i, index in enumerate(indices.ravel()):
        y[:, index] = slices[:, i]
    return y.reshape(x.shape)


def scatter_add(x, indices, updates, axis):
    y = x.copy().reshape(math.prod(x.shape[:axis]), x.shape[axis], -1)
    np.add.at(y, (slice(None), indices.ravel().astype(np.int64)), updates.reshape(y.shape[0], indices.size, y.shape[2]))
    return y.reshape(x.shape)


def top_k(x, axis, k):
    """The largest, NaN before all; of equals, the first."""
    keys = np.where(np.isnan(x), -np.inf, -x.astype(np.float64)) if x.dtype.kind == "f" else -x.astype(np.int64)
    places = np.take(np.argsort(keys, axis, kind="stable"), np.arange(k), axis)
    return np.take_along_axis(x, places, axis), places


def top_k_grad(dy, places, result, axis):
    dx = np.zeros(result)
    np.put_along_axis(dx, places, dy, axis)
    return dx


def cast(x, dtype):
    """Integers are cut off, and the nearest where they are out of range."""
    if np.dtype(dtype).kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        return np.clip(np.trunc(x.astype(np.float64)), least, most).astype(dtype)
    return x.astype(dtype)


def sparse_gather_grad(indices, dy, result, extent):
    """The sums of the rows of each index, in order of the indices; then zeros, and -1."""
    indices = indices.ravel().astype(np.int64)
    dy = dy.reshape(indices.size, -1)
    found = np.unique(indices[(indices >= 0) & (indices < extent)])
    rows, places = np.zeros(dy.shape), np.full(indices.size, -1)
    places[:found.size] = found
    for row, index in zip(rows, found):
        row += dy[indices == index].sum(0)
    return rows.reshape(result), places


def rope(x, positions, sign, layout, theta, dims, scaling_factor, low_frequency_factor, high_frequency_factor, original_context=None):
    positions = np.arange(x.shape[-2]) if positions is None else positions
    if positions.ndim == 2:
        positions = positions.reshape(len(x), *[1] * (x.ndim - 3), x.shape[-2])
    frequencies = theta ** (-np.arange(0, dims, 2) / dims)
    scaled = frequencies / scaling_factor
    if original_context:
        turns = original_context * frequencies / (2 * np.pi)
        kept = np.clip((turns - low_frequency_factor) / (high_frequency_factor - low_frequency_factor), 0, 1)
        scaled = (1 - kept) * scaled + kept * frequencies
    angles = positions[..., None] * scaled
    one, other = (slice(0, dims // 2), slice(dims // 2, dims)) if layout == "halves" else (slice(0, dims, 2), slice(1, dims, 2))
    turned = (x[..., one] + 1j * x[..., other]) * np.exp(sign * 1j * angles)
    y = x.copy()
    y[..., one], y[..., other] = turned.real, turned.imag
    return y


def windows(height, width, kernel_size, strides, padding, dilation_rate):
    """The padded places that each element of a window has in all windows, and how many windows there are."""
    (kh, kw), (sh, sw), (dh, dw) = kernel_size, strides, dilation_rate
    top, bottom, left, right = padding
    rows, columns = (height + top + bottom - dh * (kh - 1) - 1) // sh + 1, (width + left + right - dw * (kw - 1) - 1) // sw + 1
    return [np.s_[:, :, u * dh:u * dh + rows * sh:sh, v * dw:v * dw + columns * sw:sw] for u in range(kh) for v in range(kw)], rows * columns


def unfold(x, padding, **attributes):
    places, count = windows(*x.shape[2:], padding=padding, **attributes)
    padded = np.pad(x, ((0, 0), (0, 0), padding[:2], padding[2:]))
    parts = [padded[place][:, :, :].reshape(*x.shape[:2], -1)[..., :count] for place in places]
    return np.stack(parts, 2).reshape(len(x), -1, count)


def fold(x, output_size, padding, **attributes):
    height, width = output_size
    places, count = windows(height, width, padding=padding, **attributes)
    parts = x.reshape(len(x), -1, len(places), count)
    y = np.pad(np.zeros((*parts.shape[:2], height, width)), ((0, 0), (0, 0), padding[:2], padding[2:]))
    for i, place in enumerate(places):
        y[place] += parts[:, :, i].reshape(y[place].shape)
    return y[:, :, padding[0]:padding[0] + height, padding[2]:padding[2] + width]


def drawn(draw, result, step, consumer):
    return draw(SEED, consumer, step, math.prod(result)).reshape(result)


def words(result, step, consumer):
    return drawn(flow_random.words, result, step, consumer) * 2.0**-32


def units(result, step, consumer):
    return drawn(flow_random.uniform01, result, step, consumer)


def cosine(turns):
    """Of 2 pi turns, in which NumPy's cosine has too few digits near a quarter."""
    quarters = np.rint(4 * turns)
    rest = 2 * np.pi * (turns - quarters / 4)
    return np.choose(quarters.astype(int) % 4, [np.cos(rest), -np.sin(rest), -np.cos(rest), np.sin(rest)])


def normals(result, step, consumer):
    n = math.prod(result)
    u = flow_random.uniform01(SEED, consumer, step, -(-n // 2) * 2).reshape(-1, 2)
    radius = np.sqrt(-2 * np.log(u[:, 0] + 2.0**-24))
    return np.stack([radius * cosine(u[:, 1]), radius * cosine(u[:, 1] - 0.25)], 1).ravel()[:n].reshape(result)


def draw_indices(x, result, step, consumer):
    """The first whose sum exceeds a word's share of all; -1 where there is none to draw."""
    sums = np.cumsum(np.where(x > 0, x, 0), -1)
    found = (sums[..., None, :] <= words(result, step, consumer)[..., None] * sums[..., -1:, None]).sum(-1)
    return np.where((sums[..., -1:] > 0) & np.isfinite(sums[..., -1:]), found, -1)


def sample(logits, positions=None, *, step, consumer, temperature, top_k, top_p):
    if temperature == 0:
        return np.argmax(logits, -1)
    rows = logits.reshape(-1, logits.shape[-1])
    tokens = [draw_judge.token(row, int(position), step * len(rows) + i, temperature, top_k, top_p, SEED, consumer)
              for i, (row, position) in enumerate(zip(rows, np.broadcast_to(positions.ravel(), len(rows))))]
    return np.reshape(tokens, logits.shape[:-1])


# Of operands, then what a judge asks for of a call's attributes, its step, and the shape of its first result.
JUDGES = {
    "reshape": lambda x, shape: x.reshape(shape),
    "copy": lambda x: x,
    "transpose": lambda x, perm: np.transpose(x, perm),
    "tile": lambda x, multiples: np.tile(x, multiples) if multiples else x,
    "flip": lambda x, axes: np.flip(x, tuple(axes)),
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape),
    "tril": lambda x, diagonal: np.tril(x, diagonal),
    "triu": lambda x, diagonal: np.triu(x, diagonal),
    "where": lambda condition, x, y: np.where(condition, x, y),
    "concat": lambda *x, axis: np.concatenate(x, axis),
    "stack": lambda *x, axis: np.stack(x, axis),
    "split": lambda x, axis, sizes: tuple(np.split(x, np.cumsum(sizes)[:-1], axis)),
    "slice": sliced,
    "gather": lambda x, indices, axis: np.take(x, indices, axis),
    "gather_grad": lambda indices, dy, result, axis: scatter_add(np.zeros(result), indices, dy, axis),
    "scatter_add": lambda x, indices, updates, axis: scatter_add(x, indices, updates, axis),
    "sparse_gather_grad": sparse_gather_grad,
    "one_hot": lambda x, depth, on_value, off_value, dtype: np.where(x[..., None] == np.arange(depth), on_value, off_value).astype(dtype),
    "top_k": top_k,
    "top_k_grad": top_k_grad,
    "cast": cast,
    "fill": lambda *like, result, value, dtype: np.full(result, value).astype(dtype),
    "scatter_update": scatter_update,
    "take_along_axis": lambda x, indices, axis: np.take_along_axis(x, indices.astype(np.int64), axis),
    "put_along_axis": put_along_axis,
    "add_along_axis": add_along_axis,
    "cumsum": scanned(np.cumsum, 0),
    "cumprod": scanned(np.cumprod, 1),
    "cumprod_grad": cumprod_grad,
    "rope": lambda x, positions=None, **attributes: rope(x, positions, 1, **attributes),
    "rope_grad": lambda x, positions=None, **attributes: rope(x, positions, -1, **attributes),
    "unfold": unfold,
    "fold": fold,
    "evenly_spaced": lambda *like, result, first, last, dtype: np.linspace(first, last, math.prod(result)).astype(dtype),
    "random_normal": lambda *like, result, step, consumer, mean, stddev: mean + stddev * normals(result, step, consumer),
    "random_uniform": lambda *like, result, step, consumer, minimum, maximum: minimum + (maximum - minimum) * units(result, step, consumer),
    "gumbel": lambda *like, result, step, consumer: -np.log(-np.log(units(result, step, consumer) + 2.0**-25)),
    "bernoulli": lambda p, step, consumer, dtype: (words(p.shape, step, consumer) < p).astype(dtype),
    "draw_indices": draw_indices,
    "sample": sample,
}


class NumpyRandom(FlowTest):
    def array(self, record):
        shape, dtype = record["shape"], np.dtype(record["dtype"])
        array = np.frombuffer(self.arrays, dtype, math.prod(shape), record["offset"]).reshape(shape)
        return array

    def expected(self, call, outputs):
        judge = JUDGES[call["op"]]
        given = {"step": call["step"], "result": outputs[0].shape, **call["attributes"]}
        names = judge.__code__.co_varnames[:judge.__code__.co_argcount + judge.__code__.co_kwonlyargcount]
        if not judge.__code__.co_flags & 8:  # else it takes all that it is given
            given = {name: value for name, value in given.items() if name in names}
        else:
            given = call["attributes"]
        inputs = [self.array(record) for record in call.get("inputs", [])]
        inputs = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
        found = judge(*inputs, **given)
        return found if isinstance(found, tuple) else (found,)

    def check(self, call, got, expected):
        self.assertEqual(got.shape, np.shape(expected))
        if got.dtype.kind != "f":
            return np.testing.assert_array_equal(got, expected)
        # As tests/property/tolerance.h says.
        epsilon, terms = EPSILON[got.dtype.name], call["terms"]
        most = 4 * epsilon * np.abs(expected) + (4 * math.sqrt(terms) * epsilon if terms > 1 else 0)
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        with np.errstate(invalid="ignore"):
            self.assertTrue(np.all(same | (np.abs(got - expected) <= most)), f"off by {np.nanmax(np.abs(got - expected))}")

    def test_random_calls_agree_with_numpy(self):
        self.call("random_calls", self.dir)
        self.arrays = (self.dir / "arrays.bin").read_bytes()
        calls = [json.loads(line) for line in (self.dir / "calls.json").read_text().splitlines()]
        self.assertEqual(set(JUDGES), {call["op"] for call in calls})
        for call in calls:
            with self.subTest(call["text"]):
                outputs = [self.array(record) for record in call["outputs"]]
                for got, expected in itertools.zip_longest(outputs, self.expected(call, outputs)):
                    self.check(call, got, expected)


if __name__ == "__main__":
    unittest.main()
