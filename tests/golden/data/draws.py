#!/usr/bin/env python3
"""Writes draws.npz: augmented images, mixed batches, orders of epochs and splits of datasets.

This is an implementation of its own, in Python's whole numbers and floats: it shares no code with
flow. Each case of `augment` is drawn for the uses in USES; the tests repeat the tables of cases.
"""
import math
import pathlib

import numpy as np

M32, M64 = 2**32 - 1, 2**64 - 1


# Draws: Philox4x32-10 (Salmon et al., SC'11), keys from splitmix64 and FNV-1a.


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def fnv1a64(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & M64
    return h


def philox(c, k):
    k0, k1 = k & M32, k >> 32
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = ((b >> 32) ^ c[1] ^ k0, b & M32, (a >> 32) ^ c[3] ^ k1, a & M32)
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c


assert philox((0, 0, 0, 0), 0) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)  # Random123


class Words:
    """The words of a draw by their element."""

    def __init__(self, seed, name, step, attempt=0, first=0):
        self.key = splitmix64(seed) ^ fnv1a64(name)
        self.step, self.attempt, self.first = step, attempt, first

    def __getitem__(self, i):
        i += self.first
        return philox(((i // 4) & M32, (i // 4) >> 32, self.step, self.attempt), self.key)[i % 4]

    def unit(self, i):
        return (self[i] >> 8) * 2.0**-24

    def below(self, i, n):
        return (self[i] * n) >> 32


def half_up(x):
    return math.floor(x + 0.5)


def half_even(x):
    return round(x)  # Python rounds ties to even


def permutation(seed, name, step, n):
    p, w = list(range(n)), Words(seed, name, step)
    for i in range(n - 1, 0, -1):
        j = (w[i] * (i + 1)) >> 32
        p[i], p[j] = p[j], p[i]
    return p


# Resizing, one axis after the other, with Pillow's integers.


def tent(t):
    return 1 - abs(t) if abs(t) < 1 else 0.0


def cubic(t):
    a, t = -0.5, abs(t)
    if t < 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return (((t - 5) * t + 8) * t - 4) * a if t < 2 else 0.0


def resize_axis(v, out, name, top):
    """Resizes the last axis of an integer array."""
    n = v.shape[-1]
    if n == out:
        return v
    if name == "nearest":
        return v[..., [(2 * x + 1) * n // (2 * out) for x in range(out)]]
    g, reach = {"bilinear": (tent, 1.0), "bicubic": (cubic, 2.0)}[name]
    s = n / out
    f = max(s, 1.0)
    support, columns = reach * f, []
    for x in range(out):
        c = (x + 0.5) * s
        first = max(0, int(c - support + 0.5))
        last = min(n, int(c + support + 0.5))
        w = [g((i + first - c + 0.5) * (1 / f)) for i in range(last - first)]
        total = 0.0
        for weight in w:
            total += weight
        k = [int(q * 2**22 + (0.5 if q >= 0 else -0.5)) for q in (weight / total for weight in w)]
        acc = sum(int(ki) * v[..., first + i].astype(object) for i, ki in enumerate(k)) + 2**21
        columns.append(np.clip((acc >> 22).astype(np.int64), 0, top))
    return np.stack(columns, -1)


def resize(v, h, w, name, top):
    v = resize_axis(v.astype(np.int64), w, name, top)
    return resize_axis(v.swapaxes(1, 2), h, name, top).swapaxes(1, 2)


# Ops. An image is an int64 array [C, H, W].


def pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


def centre(v, h, w):
    top, left = half_even((v.shape[1] - h) / 2), half_even((v.shape[2] - w) / 2)
    return v[:, top : top + h, left : left + w]


def crop(v, w, train, top, size, pad=0):
    h, wd = pair(size)
    if not train:
        return centre(v, h, wd)
    v = np.pad(v, ((0, 0), (pad, pad), (pad, pad)))
    y, x = w.below(0, v.shape[1] - h + 1), w.below(1, v.shape[2] - wd + 1)
    return v[:, y : y + h, x : x + wd]


def flip(v, w, train, top, axis, p=0.5):
    if train and w[0] < half_up(p * 2**32):
        return v[:, :, ::-1] if axis == "horizontal" else v[:, ::-1]
    return v


def grey(v):
    if v.shape[0] == 1:
        return v[0]
    return (19595 * v[0] + 38470 * v[1] + 7471 * v[2] + 32768) >> 16


def factor(w, b):
    lo, hi = max(0.0, 1 - b), 1 + b
    return lo + (hi - lo) * w.unit(0)


def q(x):
    return np.clip(np.floor(x + 0.5), 0, 255).astype(np.int64)


def brightness(v, w, train, top, b):
    return q(factor(w, b) * v) if train else v


def contrast(v, w, train, top, b):
    m = int(grey(v).sum()) / (v.shape[1] * v.shape[2])
    return q(m + factor(w, b) * (v - m)) if train else v


def saturation(v, w, train, top, b):
    g = grey(v)
    return q(g + factor(w, b) * (v - g)) if train else v


def sides(w, at, h, wd, area, aspect):
    a = h * wd * (area[0] + (area[1] - area[0]) * w.unit(at))
    l0, l1 = math.log(aspect[0]), math.log(aspect[1])
    r = math.exp(l0 + (l1 - l0) * w.unit(at + 1))
    return half_up(math.sqrt(a * r)), half_up(math.sqrt(a / r))


def resized_box(w, h, wd, area, aspect):
    for t in range(10):
        cw, ch = sides(w, 4 * t, h, wd, area, aspect)
        if 0 < cw <= wd and 0 < ch <= h:
            return w.below(4 * t + 2, h - ch + 1), w.below(4 * t + 3, wd - cw + 1), ch, cw
    ch, cw = h, wd
    if wd / h < aspect[0]:
        ch = half_up(wd / aspect[0])
    elif wd / h > aspect[1]:
        cw = half_up(h * aspect[1])
    return (h - ch) // 2, (wd - cw) // 2, ch, cw


def random_resized_crop(v, w, train, top, size, area=(0.08, 1), aspect=(3 / 4, 4 / 3), filter="bilinear"):
    oh, ow = pair(size)
    h, wd = v.shape[1:]
    if not train:
        short = max(oh, ow) * 8 // 7
        h2, w2 = (short, short * wd // h) if h <= wd else (short * h // wd, short)
        return centre(resize(v, h2, w2, filter, top), oh, ow)
    y, x, ch, cw = resized_box(w, h, wd, area, aspect)
    return resize(v[:, y : y + ch, x : x + cw], oh, ow, filter, top)


def erase(v, w, train, top, p=0.5, area=(0.02, 1 / 3), aspect=(0.3, 3.3), value=0):
    v, (h, wd) = v.copy(), v.shape[1:]
    if train and w[0] < half_up(p * 2**32):
        for t in range(10):
            ch, cw = sides(w, 4 + 4 * t, h, wd, area, aspect)
            if ch < h and cw < wd:
                y, x = w.below(4 + 4 * t + 2, h - ch + 1), w.below(4 + 4 * t + 3, wd - cw + 1)
                v[:, y : y + ch, x : x + cw] = value
                break
    return v


def cutout(v, w, train, top, n, value=0):
    v, (h, wd) = v.copy(), v.shape[1:]
    if train:
        y, x = w.below(0, h) - n // 2, w.below(1, wd) - n // 2
        v[:, max(0, y) : max(0, min(h, y + n)), max(0, x) : max(0, min(wd, x + n))] = value
    return v


OPS = {"random_resized_crop": (random_resized_crop, 40), "erase": (erase, 44)} | {
    op.__name__: (op, 4) for op in (crop, flip, brightness, contrast, saturation, cutout)
}

SEED, DATASET = 0xFEDCBA9876543210, "pets/validation"
# Row, epoch, attempt.
USES = [(0, 0, 0), (1, 0, 0), (7, 0, 2), (123456, 3, 0), (5000000000, 41, 1)]
# Channels, height, width, bits.
SOURCES = {
    "rgb": (3, 9, 12, 8),
    "grey": (1, 13, 8, 8),
    "rgba": (4, 7, 7, 8),
    "deep": (3, 8, 9, 16),
    "wide": (1, 3, 40, 8),
    "tall": (1, 40, 3, 8),
}
# Name: (source, train, [(op, arguments)]).
AUGMENT = {
    "crop": ("rgb", True, [("crop", dict(size=6))]),
    "crop_pad": ("rgb", True, [("crop", dict(size=(9, 12), pad=4))]),
    "crop_far": ("grey", True, [("crop", dict(size=(3, 2), pad=7))]),
    "crop_deep": ("deep", True, [("crop", dict(size=(7, 10), pad=1))]),
    "crop_predict": ("rgb", False, [("crop", dict(size=(6, 5), pad=4))]),
    "crop_predict_odd": ("grey", False, [("crop", dict(size=(6, 5)))]),
    "flip": ("rgb", True, [("flip", dict(axis="horizontal"))]),
    "flip_vertical": ("grey", True, [("flip", dict(axis="vertical", p=0.8))]),
    "flip_deep": ("deep", True, [("flip", dict(axis="horizontal", p=1))]),
    "flip_deep_vertical": ("deep", True, [("flip", dict(axis="vertical", p=1.0))]),
    "flip_never": ("rgba", True, [("flip", dict(axis="vertical", p=0.0))]),
    "flip_predict": ("rgba", False, [("flip", dict(axis="vertical", p=1.0))]),
    "brightness": ("rgb", True, [("brightness", dict(b=0.4))]),
    "brightness_strong": ("grey", True, [("brightness", dict(b=2.5))]),
    "contrast": ("rgb", True, [("contrast", dict(b=0.7))]),
    "contrast_strong": ("grey", True, [("contrast", dict(b=3.0))]),
    "saturation": ("rgb", True, [("saturation", dict(b=1.5))]),
    "color_predict": ("rgb", False, [("saturation", dict(b=1.5)), ("contrast", dict(b=1.0))]),
    "resized": ("rgb", True, [("random_resized_crop", dict(size=8))]),
    "resized_cubic": (
        "rgb",
        True,
        [("random_resized_crop", dict(size=(5, 7), area=(0.3, 0.6), aspect=(0.5, 2.0), filter="bicubic"))],
    ),
    "resized_nearest": (
        "grey",
        True,
        [("random_resized_crop", dict(size=(6, 4), area=(0.9, 1.0), aspect=(1.0, 1.0), filter="nearest"))],
    ),
    "resized_wide": ("wide", True, [("random_resized_crop", dict(size=6, area=(0.9, 1.0)))]),
    "resized_tall": ("tall", True, [("random_resized_crop", dict(size=(4, 6), area=(0.8, 1.0)))]),
    "resized_deep": ("deep", True, [("random_resized_crop", dict(size=5))]),
    "resized_predict": ("rgb", False, [("random_resized_crop", dict(size=(6, 4)))]),
    "resized_predict_tall": ("grey", False, [("random_resized_crop", dict(size=7, filter="bicubic"))]),
    "erase": ("rgb", True, [("erase", dict())]),
    "erase_often": ("grey", True, [("erase", dict(p=1.0, area=(0.1, 0.9), aspect=(0.2, 5.0), value=-1.5))]),
    "erase_large": ("wide", True, [("erase", dict(p=1.0, area=(0.5, 1.0)))]),
    "cutout": ("rgb", True, [("cutout", dict(n=4))]),
    "cutout_odd": ("grey", True, [("cutout", dict(n=5, value=0.25))]),
    "cutout_predict": ("rgb", False, [("cutout", dict(n=5))]),
    "chain": (
        "rgb",
        True,
        [
            ("crop", dict(size=(10, 11), pad=2)),
            ("flip", dict(axis="horizontal")),
            ("flip", dict(axis="vertical")),
            ("brightness", dict(b=0.2)),
            ("contrast", dict(b=0.2)),
            ("saturation", dict(b=0.2)),
            ("flip", dict(axis="horizontal")),
            ("cutout", dict(n=3, value=7.0)),
            ("erase", dict(p=0.9, value=9.0)),
            ("cutout", dict(n=2, value=8.0)),
        ],
    ),
}


def augment(image, bits, train, ops, row, epoch, attempt, seed=SEED, dataset=DATASET, normalize=lambda v: v):
    """Without `normalize`, the values are the samples."""
    seen, v, is_normalized = {}, image.astype(np.int64), False
    for op, args in ops:
        seen[op] = seen.get(op, 0) + 1
        name = f"{dataset}/augment/{op}" + (f"/{seen[op]}" if seen[op] > 1 else "")
        function, words = OPS[op]
        if op in ("erase", "cutout") and not is_normalized:
            v, is_normalized = normalize(v).astype(np.float64), True
        v = function(v, Words(seed, name, epoch, attempt, words * row), train, 2**bits - 1, **args)
    return v if is_normalized else normalize(v)


# Mixing: (mixup, cutmix, rows) for batches 0 ... 7 of two epochs.

MIX = {
    "mixup": (0.2, None),
    "mixup_wide": (4.0, None),
    "cutmix": (None, 1.0),
    "cutmix_narrow": (None, 0.05),
    "both": (0.4, 1.0),
}


def mix(mixup, cutmix, epoch, batch, image, label, seed=7, dataset="pets"):
    w = Words(seed, f"{dataset}/mix", epoch, 0, 8 * batch)
    use_mixup = w[0] < 2**31 if mixup and cutmix else bool(mixup)
    a, attempt = mixup if use_mixup else cutmix, 0
    while True:
        wa = Words(seed, f"{dataset}/mix", epoch, attempt, 8 * batch)
        x, y = (math.pow(((wa[k] >> 8) + 1) * 2.0**-24, 1 / a) for k in (1, 2))
        if x + y <= 1:
            break
        attempt += 1
    l = x / (x + y)
    nxt = lambda rows: np.roll(rows, -1, 0)
    if use_mixup:
        return [l * rows + (1 - l) * nxt(rows) for rows in (image, label)]
    h, wd = image.shape[2:]
    cy, cx = w.below(4, h), w.below(5, wd)
    hh, hw = math.floor(0.5 * math.sqrt(1 - l) * h), math.floor(0.5 * math.sqrt(1 - l) * wd)
    y0, y1, x0, x1 = max(0, cy - hh), min(h, cy + hh), max(0, cx - hw), min(wd, cx + hw)
    mixed = image.copy()
    mixed[:, :, y0:y1, x0:x1] = nxt(image)[:, :, y0:y1, x0:x1]
    l = 1 - (y1 - y0) * (x1 - x0) / (h * wd)
    return [mixed, l * label + (1 - l) * nxt(label)]


# Orders of epochs.


def shuffle_buffer(seed, name, epoch, buffer, files, file_rows):
    n = len(file_rows)
    order = permutation(seed, name + "/shuffle_files", epoch, n) if files else range(n)
    start = np.concatenate([[0], np.cumsum(file_rows)])
    stream = [r for f in order for r in range(start[f], start[f + 1])]
    slots, rest, w, out = stream[:buffer], stream[buffer:], Words(seed, name + "/shuffle", epoch), []
    k = 0
    while slots:
        j = (w[k] * len(slots)) >> 32
        out.append(slots[j])
        if rest:
            slots[j] = rest.pop(0)
        else:
            slots[j] = slots[-1]
            slots.pop()
        k += 1
    return out


def sample(kind, seed, name, epoch, n, column, positions):
    w, out = Words(seed, name + "/sample", epoch), []
    ids = sorted(set(column)) if kind == "balance" else None
    of = {c: [r for r in range(n) if column[r] == c] for c in ids} if ids else None
    for p in range(positions):
        w0, w1 = w[2 * p], w[2 * p + 1]
        if kind == "uniform":
            out.append(((w0 * 2**32 + w1) * n) >> 64)
        elif kind == "balance":
            rows = of[ids[(w0 * len(ids)) >> 32]]
            out.append(rows[(w1 * len(rows)) >> 32])
        else:
            c, total = [], 0.0
            for weight in column:
                total += float(weight)
                c.append(total)
            t = ((w0 >> 5) * 2**26 + (w1 >> 6)) * 2.0**-53 * total
            out.append(next(i for i in range(n) if c[i] > t))
    return out


def uses_before(order):
    seen, out = {}, []
    for r in order:
        out.append(seen.get(r, 0))
        seen[r] = out[-1] + 1
    return out


def orders(out):
    for n in (1, 2, 5, 100):
        for epoch in (0, 3):
            out[f"shuffle_{n}_{epoch}"] = permutation(99, "houses/shuffle", epoch, n)
    for buffer in (1, 2, 7, 59, 60, 1000):
        for files in (False, True):
            rows = [20, 0, 13, 1, 26, 0]
            out[f"buffer_{buffer}_{int(files)}"] = shuffle_buffer(99, "houses", 2, buffer, files, rows)
    rng = np.random.default_rng(5)
    out["weights"] = np.where(rng.random(50) < 0.3, 0.0, rng.random(50) * 10)
    out["classes"] = rng.choice([-3, 0, 4, 9], 50, p=[0.02, 0.5, 0.28, 0.2])
    for kind, column in (("uniform", None), ("weighted", out["weights"]), ("balance", out["classes"])):
        for positions in (50, 121):
            order = sample(kind, 99, "houses", 4, 50, None if column is None else column.tolist(), positions)
            out[f"{kind}_{positions}"] = order
            out[f"{kind}_{positions}_uses"] = uses_before(order)


# Splits.


def cut(order, fractions, parts, rest):
    n, at = len(order), 0
    for j, f in enumerate(fractions):
        c = half_up(f * n)
        parts[j] += order[at : at + c]
        at += c
    rest += order[at:]


def split(how, fractions, seed, n, ids=None, dataset="houses"):
    parts, rest = [[] for _ in fractions], []
    p = permutation(seed, f"{dataset}/split", 0, n)
    if how == "random":
        cut(p, fractions, parts, rest)
    elif how == "last":
        total = sum(half_up(f * n) for f in fractions)
        rows, at = list(range(n)), n - total
        rest += rows[:at]
        for j, f in enumerate(fractions):
            c = half_up(f * n)
            parts[j] += rows[at : at + c]
            at += c
    elif how == "by":
        for c in sorted(set(ids)):
            cut([r for r in p if ids[r] == c], fractions, parts, rest)
    else:
        units = list(dict.fromkeys(ids))
        unit_parts, unit_rest = [[] for _ in fractions], []
        cut(permutation(seed, f"{dataset}/split", 0, len(units)), fractions, unit_parts, unit_rest)
        rows_of = lambda us: [r for u in us for r in range(n) if ids[r] == units[u]]
        parts, rest = [rows_of(us) for us in unit_parts], rows_of(unit_rest)
    return [sorted(rows) for rows in [*parts, rest]]


SPLITS = {
    "two": ([0.5], 0, 2),
    "tenth": ([0.1], 0, 95),
    "three": ([0.15, 0.25, 0.3], 12345, 90),
}


def splits(out):
    rng = np.random.default_rng(6)
    for name, (fractions, seed, n) in SPLITS.items():
        ids = rng.integers(-4, 12, n) if n > 2 else np.array([5, -5])
        out[f"ids_{name}"] = ids
        for how in ("random", "last", "by", "group"):
            if (name, how) == ("two", "by"):  # leaves no rest
                continue
            for j, rows in enumerate(split(how, fractions, seed, n, ids.tolist())):
                out[f"split_{how}_{name}_{j}"] = rows


def main():
    out, rng = {}, np.random.default_rng(4)
    for name, (c, h, w, bits) in SOURCES.items():
        out[f"source_{name}"] = rng.integers(0, 2**bits, (c, h, w)).astype(f"u{bits // 8}")
    for name, (source, train, ops) in AUGMENT.items():
        results = [augment(out[f"source_{source}"], SOURCES[source][3], train, ops, *use) for use in USES]
        kind = "f4" if results[0].dtype.kind == "f" else f"u{SOURCES[source][3] // 8}"
        out[f"augment_{name}"] = np.stack(results).astype(kind)
        assert (out[f"augment_{name}"] == np.stack(results)).all()
    out["mix_image"], out["mix_label"] = rng.random((3, 2, 6, 5)), np.eye(4)[[0, 3, 1]]
    for name, (mixup, cutmix) in MIX.items():
        mixed = [mix(mixup, cutmix, e, b, out["mix_image"], out["mix_label"]) for e in (0, 9) for b in range(4)]
        out[f"mixed_image_{name}"] = np.stack([m[0] for m in mixed])[:, 1:]
        out[f"mixed_label_{name}"] = np.stack([m[1] for m in mixed])
    orders(out)
    splits(out)
    out = {k: np.asarray(v, np.int64) if np.asarray(v).dtype.kind == "i" else np.asarray(v) for k, v in out.items()}
    np.savez_compressed(pathlib.Path(__file__).with_suffix(".npz"), **out)


if __name__ == "__main__":
    main()
