#!/usr/bin/env python3
"""Writes tests/golden/ops/ops.npz: small calls of ops, computed by NumPy in float64 and rounded once.

Ops whose record has an expression (OpSpec::numpy) need only their special values here:
tests/e2e/numpy_ops_test.py judges the rest.

numpy_test.cpp runs the same calls on the CPU kernels. Run this again after adding a call here, and
add it to the list there.
"""
import itertools
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "golden", "ops", "ops.npz")
ARRAYS = {}
sys.path.insert(0, os.path.join(HERE, "..", "golden", "mnist", "make"))
import draw_judge  # noqa: E402
import flow_random  # noqa: E402

random = np.random.default_rng(20)


def seed(number):
    """So that the numbers of one family do not depend on the calls of others."""
    global random
    random = np.random.default_rng(number)


def floats(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


def wide(*arrays):
    return [a.astype(np.float64) for a in arrays]


def write(name, inputs, outputs):
    for kind, arrays in (("in", inputs), ("out", outputs)):
        for i, a in enumerate(arrays):
            a = np.asarray(a)
            ARRAYS[f"{name}/{kind}{i}"] = a.astype(np.float32) if a.dtype == np.float64 else a


def convolution(x, w, strides, padding, dilation, groups):
    x, w = wide(x, w)
    top, bottom, left, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    filters, channels, kh, kw = w.shape
    height = (x.shape[2] - dilation[0] * (kh - 1) - 1) // strides[0] + 1
    width = (x.shape[3] - dilation[1] * (kw - 1) - 1) // strides[1] + 1
    y = np.zeros((x.shape[0], filters, height, width))
    for o in range(filters):
        first = o // (filters // groups) * channels
        for i in range(height):
            for j in range(width):
                top, left = i * strides[0], j * strides[1]
                window = x[:, first:first + channels,
                           top:top + dilation[0] * (kh - 1) + 1:dilation[0],
                           left:left + dilation[1] * (kw - 1) + 1:dilation[1]]
                y[:, o, i, j] = (window * w[o]).sum(axis=(1, 2, 3))
    return y


def max_pool(x, ksize, strides, padding):
    top, bottom, left, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=-np.inf)
    height = (x.shape[2] - ksize[0]) // strides[0] + 1
    width = (x.shape[3] - ksize[1]) // strides[1] + 1
    y = np.zeros(x.shape[:2] + (height, width), np.float32)
    places = np.zeros(y.shape, np.uint8)
    for i in range(height):
        for j in range(width):
            window = x[:, :, i * strides[0]:, j * strides[1]:][:, :, :ksize[0], :ksize[1]]
            flat = window.reshape(x.shape[:2] + (-1,))
            y[:, :, i, j], places[:, :, i, j] = flat.max(axis=2), flat.argmax(axis=2)
    return y, places


def avg_pool(x, ksize, strides, padding):
    top, bottom, left, right = padding
    (x,) = wide(x)
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=np.nan)
    height = (x.shape[2] - ksize[0]) // strides[0] + 1
    width = (x.shape[3] - ksize[1]) // strides[1] + 1
    y = np.zeros(x.shape[:2] + (height, width))
    for i in range(height):
        for j in range(width):
            window = x[:, :, i * strides[0]:, j * strides[1]:][:, :, :ksize[0], :ksize[1]]
            y[:, :, i, j] = np.nanmean(window, axis=(2, 3))
    return y


def batch_norm(x, gamma, beta, axis, epsilon):
    x, gamma, beta = wide(x, gamma, beta)
    others = tuple(i for i in range(x.ndim) if i != axis)
    mean, variance = x.mean(axis=others), x.var(axis=others)
    along = [-1 if i == axis else 1 for i in range(x.ndim)]
    normal = (x - mean.reshape(along)) / np.sqrt(variance.reshape(along) + epsilon)
    return normal * gamma.reshape(along) + beta.reshape(along), mean, variance


def layer_normalize(x, gamma, beta, axis, epsilon):
    x, gamma, beta = wide(x, gamma, beta)
    axes = tuple(range(axis, x.ndim))
    mean, variance = x.mean(axis=axes), x.var(axis=axes)
    rows = mean.shape + (1,) * len(axes)
    normal = (x - mean.reshape(rows)) / np.sqrt(variance.reshape(rows) + epsilon)
    return normal * gamma + beta, mean, variance


def rms_normalize(x, gamma, axis, epsilon):
    x, gamma = wide(x, gamma)
    axes = tuple(range(axis, x.ndim))
    inverse = 1 / np.sqrt((x * x).mean(axis=axes, keepdims=True) + epsilon)
    return x * inverse * gamma, inverse.reshape(x.shape[:axis])


def group_normalize(x, gamma, beta, groups, epsilon):
    x, gamma, beta = wide(x, gamma, beta)
    rows = x.reshape(x.shape[0], groups, -1)
    mean, variance = rows.mean(axis=2), rows.var(axis=2)
    normal = ((rows - mean[..., None]) / np.sqrt(variance[..., None] + epsilon)).reshape(x.shape)
    along = (-1,) + (1,) * (x.ndim - 2)
    return normal * gamma.reshape(along) + beta.reshape(along), mean, variance


def losses(labels, logits):
    (x,) = wide(logits)
    top = x.max(axis=-1, keepdims=True)
    exps = np.exp(x - top)
    sums = exps.sum(axis=-1, keepdims=True)
    picked = np.take_along_axis(x, labels[..., None].astype(np.int64), -1)
    return (np.log(sums) + (top - picked))[..., 0], exps / sums


def write_wrapping():
    least = np.array([-128, -1, 0, 7, 127], np.int8)
    functions = {"abs": np.abs, "negative": np.negative, "sign": np.sign, "square": np.square}
    for name, function in functions.items():
        write(name + "_wraps", [least], [function(least)])


def write_pairs(draw):
    a, b = (draw.uniform(-2, 2, shape).astype(np.float32) for shape in ((3, 1, 4), (2, 1)))
    p, q = wide(a, b)
    write("pow", [np.abs(a), b], [np.abs(p) ** q])
    nans = a.copy()
    nans[1, 0, 2] = np.nan
    write("maximum", [nans, b], [np.maximum(nans, b)])
    write("minimum", [b, nans], [np.minimum(b, nans)])
    x = draw.uniform(-40, 40, (3, 1, 4)).astype(np.float32)
    z = draw.uniform(0, 1, x.shape).astype(np.float32)
    write("sigmoid_cross_entropy_with_logits", [z, x],
          [np.logaddexp(0, wide(x)[0]) - wide(x)[0] * wide(z)[0]])
    i = np.array([-128, 127, 3, -1], np.int8)
    j = np.array([[1], [100]], np.int8)
    write("subtract_wraps", [i, j], [i - j])
    write("pow_wraps", [i, j], [i ** j])
    write("maximum_of_integers", [i, j], [np.maximum(i, j)])
    i, j = np.array([[1, -2, 3]], np.int8), np.array([[1], [254], [3]], np.uint8)
    for name in ("not_equal", "greater", "greater_equal", "less", "less_equal"):
        write(name, [i, j], [getattr(np, name)(i, j)])
    write("greater_of_nan", [nans, b], [nans > b])


def write_softmax(draw):
    for name, scale, axis in (("softmax", 1, 1), ("softmax_large", 1e30, -1)):
        x = draw.uniform(-scale, scale, (3, 5, 4)).astype(np.float32)
        (e,) = wide(x)
        e = np.exp(e - e.max(axis=axis, keepdims=True))
        write(name, [x], [e / e.sum(axis=axis, keepdims=True)])
    x = draw.uniform(-300, 300, (4, 70)).astype(np.float32)
    (w,) = wide(x)
    write("log_softmax", [x], [w - np.logaddexp.reduce(w, axis=1, keepdims=True)])


def write_dense_losses(draw):
    x = draw.uniform(-300, 300, (3, 4, 5)).astype(np.float32)
    z = draw.uniform(0, 1, x.shape).astype(np.float32)
    w, share = wide(x, z)
    below = np.logaddexp.reduce(w, axis=-1, keepdims=True) - w
    write("softmax_cross_entropy_with_logits", [z, x], [(share * below).sum(axis=-1), np.exp(-below)])


def write_reductions(draw):
    x = draw.uniform(-2, 2, (3, 5, 7)).astype(np.float32)
    nans = x.copy()
    nans[1, 2, 3] = np.nan
    write("reduce_max", [nans], [nans.max(axis=(0, 2))])
    write("reduce_min", [nans], [nans.min(axis=1, keepdims=True)])
    write("logsumexp", [x * np.float32(100)], [np.log(np.exp(wide(x * np.float32(100))[0]).sum(axis=1))])
    i = draw.integers(-100, 100, (4, 6)).astype(np.int8)
    for name in ("sum", "prod"):
        write(f"reduce_{name}_wraps", [i], [getattr(i, name)(axis=0, dtype=np.int8)])
    b = draw.uniform(0, 1, (4, 6)) < 0.8
    write("reduce_any", [b], [b.any(axis=1)])
    write("reduce_all", [b], [b.all(axis=1)])
    i = draw.integers(0, 4, (3, 6, 2)).astype(np.float32)
    i[1, 3, 0] = np.nan
    write("argmin", [i], [i.argmin(axis=1)])


def normalization():
    seed(21)
    x, gamma, beta = floats(4, 6, 5, 3) + np.float32(2), floats(6), floats(6)
    write("batch_norm", [x, gamma, beta], batch_norm(x, gamma, beta, 1, 1e-3))
    x, gamma, beta, mean, variance = floats(9, 5), floats(5), floats(5), floats(5), floats(5)**2
    write("batch_norm_predict", [x, gamma, beta, mean, variance],
          [(wide(x)[0] - mean) / np.sqrt(wide(variance)[0] + 0.5) * gamma + beta])
    x, gamma, beta = floats(7, 4, 10), floats(4, 10), floats(4, 10)
    write("layer_normalize", [x, gamma, beta], layer_normalize(x, gamma, beta, 1, 1e-5))
    mean, variance, moving_mean, moving_variance = floats(4), floats(4), floats(4), floats(4)
    write("move_statistics", [mean, variance, moving_mean, moving_variance],
          [0.75 * wide(moving_mean)[0] + 0.25 * mean,
           0.75 * wide(moving_variance)[0] + 0.25 * 1.5 * wide(variance)[0]])
    x, gamma, beta = floats(3, 6, 5, 4) + np.float32(2), floats(6), floats(6)
    write("group_normalize", [x, gamma, beta], group_normalize(x, gamma, beta, 3, 1e-5))


def windows():
    seed(22)
    x = floats(2, 3, 7, 6)
    write("avg_pool2d", [x], [avg_pool(x, [2, 2], [2, 2], [0, 0, 0, 0])])
    write("avg_pool2d_padded", [x], [avg_pool(x, [3, 2], [2, 1], [1, 2, 1, 0])])


def resize_weights(n, out, mode, coordinates="half_pixel", rounding="round_prefer_floor", scale=0, a=-0.75, outside=True):
    """A row for each element of the result: what of each of the n elements goes into it."""
    i = np.arange(out)
    shift = 0.5 if coordinates == "half_pixel" else 0
    places = (i + shift) / (scale or out / n) - shift
    if coordinates == "align_corners":
        places = i * (n - 1) / max(out - 1, 1)
    if mode == "nearest":
        places = {"floor": np.floor, "round_prefer_floor": lambda x: np.ceil(x - 0.5)}[rounding](places)
    padded = np.arange(-3, n + 3)
    d = np.abs(places[:, None] - padded)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * (d**3 - 5 * d**2 + 8 * d - 4)
    weights = {"nearest": d == 0, "bilinear": np.clip(1 - d, 0, 1), "bicubic": np.where(d <= 1, near, np.where(d < 2, far, 0))}[mode] * 1.0
    if not outside:
        weights = weights * ((padded >= 0) & (padded < n))
        weights /= weights.sum(axis=1, keepdims=True)
    onto = np.clip(padded, 0, n - 1)[:, None] == np.arange(n)
    return weights @ onto


def resized():
    seed(28)
    for name, shape, size, attributes in RESIZED:
        rows, columns = (resize_weights(n, out, **attributes) for n, out in zip(shape[2:], size))
        x, dy = floats(*shape), floats(*shape[:2], *size)
        write(name, [x], [rows @ wide(x)[0] @ columns.T])
        write(name + "_grad", [dy], [rows.T @ wide(dy)[0] @ columns])


RESIZED = [("resize_nearest", (2, 3, 4, 5), (7, 10), {"mode": "nearest"}),
           ("resize_floor", (1, 2, 6, 5), (3, 11), {"mode": "nearest", "coordinates": "asymmetric", "rounding": "floor"}),
           ("resize_bilinear", (2, 3, 4, 5), (6, 8), {"mode": "bilinear", "scale": 1.7}),
           ("resize_corners", (1, 2, 5, 7), (8, 3), {"mode": "bilinear", "coordinates": "align_corners"}),
           ("resize_bicubic", (2, 2, 5, 4), (8, 9), {"mode": "bicubic"}),
           ("resize_outside", (1, 3, 7, 9), (4, 5), {"mode": "bicubic", "a": -0.5, "outside": False})]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_steps(x, w, h, c, lengths, reverse):
    """The results of lstm_steps, row by row."""
    x, w, h, c = wide(x, w, h, c)
    n = h.shape[1]
    out, gates, cells = (np.zeros(x.shape[:2] + (width,)) for width in (n, 4 * n, n))
    for row, length in enumerate(lengths):
        for t in range(length)[::-1 if reverse else 1]:
            sums = x[row, t] + w @ h[row]
            gates[row, t] = np.where(np.arange(4 * n) // n == 2, np.tanh(sums), sigmoid(sums))
            i, f, g, o = np.split(gates[row, t], 4)
            c[row] = f * c[row] + i * g
            h[row] = o * np.tanh(c[row])
            out[row, t], cells[row, t] = h[row], c[row]
    return [out, h, c, gates, cells]


def gru_steps(x, w, b, h, lengths, reverse, linear):
    x, w, b, h = wide(x, w, b, h)
    n = h.shape[1]
    out, gates = np.zeros(x.shape[:2] + (n,)), np.zeros(x.shape[:2] + ((4 if linear else 3) * n,))
    for row, length in enumerate(lengths):
        for t in range(length)[::-1 if reverse else 1]:
            r, z = np.split(sigmoid(x[row, t, :2 * n] + w[:2 * n] @ h[row] + b[:2 * n]), 2)
            q = w[2 * n:] @ (h[row] if linear else r * h[row]) + b[2 * n:]
            new = np.tanh(x[row, t, 2 * n:] + (r * q if linear else q))
            h[row] = (1 - z) * new + z * h[row]
            out[row, t], gates[row, t] = h[row], np.concatenate([r, z, new] + [q] * linear)
    return [out, h, gates]


def rnn_steps(x, w, h, lengths, reverse, function):
    x, w, h = wide(x, w, h)
    out = np.zeros(x.shape)
    for row, length in enumerate(lengths):
        for t in range(length)[::-1 if reverse else 1]:
            h[row] = out[row, t] = function(x[row, t] + w @ h[row])
    return [out, h]


def stepped():
    seed(29)
    n = 3
    h, c, bias = floats(4, n), floats(4, n), floats(3 * n)
    lengths = np.array([5, 0, 2, 4], np.int32)
    for name, given in (("", False), ("_lengths", True)):
        more, steps = ([lengths], lengths) if given else ([], [5] * 4)
        x, w = floats(4, 5, 4 * n), floats(4 * n, n)
        write("lstm_steps" + name, [x, w, h, c] + more, lstm_steps(x, w, h, c, steps, given))
        x, w = floats(4, 5, 3 * n), floats(3 * n, n)
        for linear in (True, False):
            write("gru_steps" + name + ("" if linear else "_first"), [x, w, bias, h] + more, gru_steps(x, w, bias, h, steps, given, linear))
        x, w = floats(4, 5, n), floats(n, n)
        write("rnn_steps" + name, [x, w, h] + more, rnn_steps(x, w, h, steps, given, (lambda a: np.maximum(a, 0)) if given else np.tanh))


def attention(query, key, value, mask, causal, scale, diagonal=0):
    """The result, the logarithms of the sums (0 where nothing is let through), and the weights."""
    query, key, value = wide(query, key, value)
    scores = query @ np.swapaxes(key, -1, -2) * scale
    if causal:
        mask = mask & np.tri(*scores.shape[-2:], diagonal, dtype=bool)
    exps = np.exp(scores) * mask
    sums = exps.sum(axis=-1, keepdims=True)
    weights = exps / np.where(sums == 0, 1, sums)
    return weights @ value, np.log(np.where(sums == 0, 1, sums))[..., 0], weights


def attention_gradients(dy, query, key, value, weights, scale):
    dy, query, key, value = wide(dy, query, key, value)
    gradients = dy @ np.swapaxes(value, -1, -2)
    slopes = weights * (gradients - (gradients * weights).sum(axis=-1, keepdims=True)) * scale
    return [slopes @ key, np.swapaxes(slopes, -1, -2) @ query, np.swapaxes(weights, -1, -2) @ dy]


def judge_attention():
    draw = np.random.default_rng(31)
    for name, mask_shape, causal, diagonal in (("attention", None, False, 0), ("attention_causal", None, True, 0),
                                               ("attention_masked", (2, 1, 5, 7), True, 0), ("attention_bottom_right", None, True, 2)):
        q, k, v, dy = (draw.uniform(-1, 1, (2, 3) + last).astype(np.float32)
                       for last in ((5, 4), (7, 4), (7, 3), (5, 3)))
        mask = draw.uniform(size=mask_shape or (1,)) < (0.3 if mask_shape else 2)
        y, sums, weights = attention(q, k, v, mask, causal, 0.5, diagonal)
        masks = [mask] if mask_shape else []
        write(name, [q, k, v] + masks, [y, sums])
        write(name + "_grad",
              [dy, q, k, v, y.astype(np.float32), sums.astype(np.float32)] + masks,
              attention_gradients(dy, q, k, v, weights, 0.5))


def judge_grouped_attention():
    """Four heads of queries over two of keys, with all that can hide a key or change a score."""
    draw = np.random.default_rng(35)
    q, k, v, dy, bias = (draw.uniform(-1, 1, shape).astype(np.float32)
                         for shape in ((2, 4, 5, 3), (2, 2, 6, 3), (2, 2, 6, 2), (2, 4, 5, 2), (4, 1, 6)))
    mask, lengths = draw.uniform(size=(5, 6)) < 0.8, np.array([6, 3], np.int32)
    places, keys = np.arange(5)[:, None], np.arange(6)
    seen = mask & (keys <= places) & (keys > places - 3) & (keys < lengths[:, None, None, None])
    shared = [np.repeat(x, 2, axis=1) for x in wide(k, v)]
    scores = wide(q)[0] @ np.swapaxes(shared[0], -1, -2) * 0.5 + wide(bias)[0]
    exps = np.exp(scores) * seen
    sums = exps.sum(axis=-1, keepdims=True)
    weights = exps / np.where(sums == 0, 1, sums)
    y, log_sums = weights @ shared[1], np.log(np.where(sums == 0, 1, sums))[..., 0]
    write("attention_grouped", [q, k, v, mask, bias, lengths], [y, log_sums])
    given = [dy, q, k, v, y.astype(np.float32), log_sums.astype(np.float32)]
    dq, dk, dv = attention_gradients(dy, q, *shared, weights, 0.5)
    write("attention_grouped_grad", given + [mask, bias, lengths],
          [dq] + [d.reshape(2, 2, 2, 6, -1).sum(axis=2) for d in (dk, dv)])
    gradients = wide(dy)[0] @ np.swapaxes(shared[1], -1, -2)
    slopes = weights * (gradients - (gradients * weights).sum(axis=-1, keepdims=True))
    write("attention_bias_grad", given + [bias, mask, lengths], [slopes.sum(axis=(0, 2))[:, None]])


def rope(x, positions, dims, theta, layout, sign=1):
    (x,) = wide(x)
    angles = positions[..., None] * theta ** (-np.arange(0, dims, 2) / dims)
    one, other = (slice(0, dims // 2), slice(dims // 2, dims)) if layout == "halves" else (slice(0, dims, 2), slice(1, dims, 2))
    turned = (x[..., one] + 1j * x[..., other]) * np.exp(sign * 1j * angles)
    y = x.copy()
    y[..., one], y[..., other] = turned.real, turned.imag
    return y


def judge_rope():
    draw = np.random.default_rng(36)
    x = draw.uniform(-1, 1, (2, 3, 4, 6)).astype(np.float32)
    write("rope", [x], [rope(x, np.arange(4), 6, 100, "halves")])
    positions = np.array([[5, 0, 2, 90], [1, 1000, 3, 7]], np.int64)
    write("rope_pairs", [x, positions], [rope(x, positions[:, None], 4, 500, "pairs")])
    write("rope_pairs_grad", [x, positions], [rope(x, positions[:, None], 4, 500, "pairs", -1)])


def judge_ctc():
    """The sum over all paths."""
    draw = np.random.default_rng(33)
    labels = np.array([[1, 1, 2], [2, 1, 0], [3, 2, 1]], np.int32)
    log_probs = draw.uniform(-3, 0, (3, 5, 4)).astype(np.float32)
    counts, frames = np.array([3, 2, 0], np.uint8), np.array([5, 4, 3], np.int64)
    losses = []
    for own, x, count, length in zip(labels, *wide(log_probs), counts, frames):
        paths = itertools.product(range(4), repeat=int(length))
        fitting = [path for path in paths if [c for c, _ in itertools.groupby(path) if c != 0] == list(own[:count])]
        losses.append(-np.log(sum(np.exp(sum(x[t, c] for t, c in enumerate(path))) for path in fitting)))
    write("ctc", [labels, log_probs, counts, frames], [np.array(losses)])


def main():
    judge_ctc()
    write_dense_losses(np.random.default_rng(25))
    write_reductions(np.random.default_rng(24))
    write_softmax(np.random.default_rng(23))
    write_wrapping()
    write_pairs(np.random.default_rng(22))
    judge_attention()
    judge_grouped_attention()
    judge_rope()
    a, b = floats(5, 7), floats(7, 3)
    write("matmul", [a, b], [wide(a)[0] @ wide(b)[0]])
    a, b = floats(2, 1, 4, 5), floats(3, 6, 4)
    write("matmul_transposed", [a, b],
          [np.swapaxes(wide(a)[0], -1, -2) @ np.swapaxes(wide(b)[0], -1, -2)])
    x, w = floats(2, 3, 7, 6), floats(4, 3, 3, 2)
    write("convolution", [x, w], [convolution(x, w, [1, 1], [1, 1, 0, 1], [1, 1], 1)])
    x, w = floats(2, 4, 9, 8), floats(6, 2, 3, 3)
    write("convolution_grouped", [x, w], [convolution(x, w, [2, 1], [2, 0, 1, 2], [1, 2], 2)])
    x = floats(2, 17, 6, 8)
    write("max_pool2d", [x], max_pool(x, [2, 2], [2, 2], [0, 0, 0, 0]))
    x = np.round(floats(2, 3, 7, 6) * 3).astype(np.float32)  # with ties
    write("max_pool2d_padded", [x], max_pool(x, [3, 2], [2, 1], [1, 2, 1, 0]))
    x, c = floats(2, 3, 4, 2), floats(3)
    write("bias_add", [x, c], [x + c[:, None, None]])
    x = floats(4, 9)
    write("scale", [x], [wide(x)[0] * 0.25])
    x = floats(40, 5)
    words = flow_random.words(7, "net/drop", 3, x.size).reshape(x.shape)
    mask = words.astype(np.uint64) >= np.uint64(round(0.3 * 2**32))
    write("dropout", [x], [wide(x)[0] * mask * (1 / (1 - 0.3)), mask])
    logits = floats(6, 5) * np.float32(40)
    labels = np.array([0, 4, 2, 2, 1, 3], np.int64)
    write("sparse_softmax_cross_entropy_with_logits", [labels, logits], losses(labels, logits))
    logits = floats(2, 3, 4) * np.float32(1e30)
    labels = random.integers(0, 4, (2, 3)).astype(np.uint8)
    write("sparse_softmax_cross_entropy_with_logits_large", [labels, logits],
          losses(labels, logits))
    floats(11)  # skipped, so that the arrays below keep their numbers
    a, b = random.integers(-100, 100, (3, 5)).astype(np.int8), np.array([100], np.int8)
    write("add_wraps", [a, b], [a + b])
    a, b = np.array([[1, -2, 3]], np.int8), np.array([[1], [254], [3]], np.uint8)
    write("equal", [a, b], [a == b])
    x = floats(3, 5, 7)
    write("reduce_sum", [x], [wide(x)[0].sum(axis=(0, 2), keepdims=True)])
    x = floats(6, 700)
    write("reduce_mean", [x], [wide(x)[0].mean(axis=1)])
    write("reduce_mean_all", [x], [wide(x)[0].mean()])
    x = floats(3, 1)
    write("broadcast_to", [x], [np.broadcast_to(x, (2, 3, 4))])
    x = floats(2, 3, 4)
    write("reshape", [x], [x.reshape(4, 6)])
    x = random.integers(0, 4, (3, 6, 2)).astype(np.float32)  # with ties
    write("argmax", [x], [x.argmax(axis=1)])
    x = np.array([1.9, -1.9, 0, -0.5, 2e9, 7], np.float32)
    write("cast_to_int32", [x], [x.astype(np.int32)])
    write("cast_to_bool", [x], [x.astype(np.bool_)])
    x = np.array([1, 1 + 2**-11, 1 + 3 * 2**-11, 65519, 65520, 1e-7, np.nan], np.float64)
    with np.errstate(over="ignore"):
        halves = x.astype(np.float32).astype(np.float16)
    write("cast_to_float16", [x.astype(np.float32)], [halves])
    write("fill", [], [np.full((2, 3), 7, np.int64)])
    moved()
    picked()
    normalization()
    windows()
    root_mean_square()
    scattered()
    along_axes()
    special_values()
    resized()
    stepped()
    np.savez(OUT, **ARRAYS)


def moved():
    x = floats(2, 3, 4, 5)
    write("transpose", [x], [x.transpose(0, 2, 1, 3)])
    x = random.integers(0, 2, (37, 41)).astype(np.bool_)
    write("transpose_bool", [x], [x.T])
    a, b = floats(2, 3, 4), floats(2, 1, 4)
    write("concat", [a, b, a], [np.concatenate([a, b, a], axis=1)])
    a, b = random.integers(0, 9, (2, 2, 3))
    write("stack", [a, b], [np.stack([a, b], axis=-1)])
    x = floats(3, 7)
    write("split", [x], np.split(x, [2, 3], axis=1))
    x = floats(4, 5, 6)
    write("slice", [x], [x[::-1, None, 2, 4:0:-2]])
    dx = np.zeros((4, 5, 6), np.float32)
    dy = floats(4, 1, 2)
    dx[::-1, None, 2, 4:0:-2] = dy
    write("slice_grad", [dy], [dx])
    x = floats(3, 4)
    write("pad_constant", [x], [np.pad(x, ((1, 2), (0, 3)), constant_values=-2)])
    write("pad_reflect", [x], [np.pad(x, ((2, 1), (3, 2)), mode="reflect")])
    write("pad_edge", [x], [np.pad(x, ((2, 1), (3, 5)), mode="edge")])
    for mode in ("reflect", "edge"):  # places tell where each element came from
        paddings = ((2, 1), (3, 2))
        places = np.pad(np.arange(12).reshape(3, 4), paddings, mode=mode)
        dy = floats(6, 9)
        dx = np.zeros(12)
        np.add.at(dx, places.ravel(), wide(dy)[0].ravel())
        write(f"pad_grad_{mode}", [dy], [dx.reshape(3, 4)])


def picked():
    params, indices = floats(2, 10, 3), random.integers(0, 10, (2, 4)).astype(np.int32)
    write("gather", [params, indices], [np.take(params, indices, axis=1)])
    dy = floats(2, 2, 4, 3)
    dx = np.zeros((2, 10, 3))
    for i in range(2):
        for j in range(4):
            dx[:, indices[i, j]] += wide(dy)[0][:, i, j]
    write("gather_grad", [indices, dy], [dx])
    x = floats(2, 4, 5)
    write("tril", [x], [np.tril(x, 1)])
    write("triu", [x], [np.triu(x, -1)])
    x = random.integers(0, 5, (3, 8, 2)).astype(np.float32)  # with ties
    order = np.argsort(-x, axis=1, kind="stable")[:, :3]
    write("top_k", [x], [np.take_along_axis(x, order, 1), order])
    dy = floats(3, 3, 2)
    dx = np.zeros((3, 8, 2), np.float32)
    np.put_along_axis(dx, order, dy, 1)
    write("top_k_grad", [dy, order], [dx])
    logits = np.round(random.normal(size=(6, 50)) * 4).astype(np.float32) / 2  # with ties
    positions = np.arange(5, 11, dtype=np.int32)
    tokens = [draw_judge.token(logits[i], int(positions[i]), 3 * 6 + i, 0.7, 20, 0.9, 7, "net/token") for i in range(6)]
    write("sample", [logits, positions], [np.array(tokens, np.int32)])


def root_mean_square():
    seed(26)
    x, gamma = floats(7, 4, 10), floats(4, 10)
    write("rms_normalize", [x, gamma], rms_normalize(x, gamma, 1, 1e-3))


def scattered():
    seed(27)
    x, updates = floats(2, 10, 3), floats(2, 2, 4, 3)
    indices = np.array([[7, 0, 7, 3], [7, 9, 0, 7]], np.int32)
    out = wide(x)[0]
    np.add.at(out, (slice(None), indices), updates)
    write("scatter_add", [x, indices, updates], [out])


def along_axes():
    seed(28)
    x, updates = floats(2, 10, 3), floats(2, 12, 3)
    indices = random.integers(0, 10, (2, 12, 3)).astype(np.int32)
    put, added = x.copy(), wide(x)[0]
    for i in range(12):  # of equal indices, the last counts
        np.put_along_axis(put, indices[:, i:i + 1], updates[:, i:i + 1], 1)
        np.put_along_axis(added, indices[:, i:i + 1], np.take_along_axis(added, indices[:, i:i + 1], 1) + updates[:, i:i + 1], 1)
    write("put_along_axis", [x, indices, updates], [put])
    write("add_along_axis", [x, indices, updates], [added])
    places = np.array([[7, 0, 7, 3], [7, 9, 0, 7]], np.int32)
    slices, out = floats(2, 2, 4, 3), x.copy()
    for i in np.ndindex(places.shape):
        out[:, places[i]] = slices[:, i[0], i[1]]
    write("scatter_update", [x, places, slices], [out])


def special_values():
    a = np.array([5, -5, 5, -5, 0, -0.0, 1, -1, 1e30, 0.3, np.inf, 2, np.nan], np.float32)
    b = np.array([3, 3, -3, -3, 2, 2, 0, np.inf, 7, 0.1, 2, np.nan, 1], np.float32)
    i = np.array([-128, -128, 127, 7, -7, 5, 0], np.int8)
    j = np.array([-1, 100, -2, 0, 2, 5, 3], np.int8)
    with np.errstate(all="ignore"):
        for name in ("floor_divide", "mod", "fmod"):
            write(name, [a, b], [getattr(np, name)(a, b)])
            write(name + "_of_integers", [i, j], [getattr(np, name)(i, j)])
    x = np.array([0, -0.0, 1e-45, np.nan, np.inf, -np.inf, 3e38, -2], np.float32)
    for name in ("isnan", "isinf", "isfinite"):
        write(name, [x], [getattr(np, name)(x)])


if __name__ == "__main__":
    main()
