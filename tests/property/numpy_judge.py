#!/usr/bin/env python3
"""Writes tests/golden/ops: small calls of each op, computed by NumPy in float64 and rounded once.

numpy_test.cpp runs the same calls on the CPU kernels. Run this again after adding a call here, and
add it to the list there.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "golden", "ops")
sys.path.insert(0, os.path.join(HERE, "..", "golden", "mnist", "make"))
import flow_random  # noqa: E402

random = np.random.default_rng(20)


def floats(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


def wide(*arrays):
    return [a.astype(np.float64) for a in arrays]


def write(name, inputs, outputs):
    folder = os.path.join(OUT, name)
    os.makedirs(folder, exist_ok=True)
    for kind, arrays in (("in", inputs), ("out", outputs)):
        for i, a in enumerate(arrays):
            a = np.asarray(a)
            np.save(os.path.join(folder, f"{kind}{i}.npy"),
                    a.astype(np.float32) if a.dtype == np.float64 else a)


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


def losses(labels, logits):
    (x,) = wide(logits)
    top = x.max(axis=-1, keepdims=True)
    exps = np.exp(x - top)
    sums = exps.sum(axis=-1, keepdims=True)
    picked = np.take_along_axis(x, labels[..., None].astype(np.int64), -1)
    return (np.log(sums) + (top - picked))[..., 0], exps / sums


def attention(query, key, value, mask, causal, scale):
    """The result, the logarithms of the sums (0 where nothing is let through), and the weights."""
    query, key, value = wide(query, key, value)
    scores = query @ np.swapaxes(key, -1, -2) * scale
    if causal:
        mask = mask & np.tri(*scores.shape[-2:], dtype=bool)
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
    for name, mask_shape, causal in (("attention", None, False), ("attention_causal", None, True),
                                     ("attention_masked", (2, 1, 5, 7), True)):
        q, k, v, dy = (draw.uniform(-1, 1, (2, 3) + last).astype(np.float32)
                       for last in ((5, 4), (7, 4), (7, 3), (5, 3)))
        mask = draw.uniform(size=mask_shape or (1,)) < (0.3 if mask_shape else 2)
        y, sums, weights = attention(q, k, v, mask, causal, 0.5)
        masks = [mask] if mask_shape else []
        write(name, [q, k, v] + masks, [y, sums])
        write(name + "_grad",
              [dy, q, k, v, y.astype(np.float32), sums.astype(np.float32)] + masks,
              attention_gradients(dy, q, k, v, weights, 0.5))


def main():
    judge_attention()
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
    write("relu", [x], [np.maximum(x, 0)])
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
    a, b = floats(2, 1, 4), floats(3, 1)
    write("add", [a, b], [a + b])
    write("multiply", [a, b], [a * b])
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
    write("tile", [x], [np.tile(x, (2, 3))])


def picked():
    params, indices = floats(2, 10, 3), random.integers(0, 10, (2, 4)).astype(np.int32)
    write("gather", [params, indices], [np.take(params, indices, axis=1)])
    dy = floats(2, 2, 4, 3)
    dx = np.zeros((2, 10, 3))
    for i in range(2):
        for j in range(4):
            dx[:, indices[i, j]] += wide(dy)[0][:, i, j]
    write("gather_grad", [indices, dy], [dx])
    write("one_hot", [indices], [np.where(indices[..., None] == np.arange(10), 2, -1).astype(np.int8)])
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


if __name__ == "__main__":
    main()
