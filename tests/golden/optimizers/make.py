"""Golden paths of optimizers in float64, from the formulas of the language. Usage: python3 make.py (NumPy).
Starts optimizers.npz, to which make_torch.py adds its paths.

Two variables, w [4, 3] and b [3], get the gradients `gradients_{w,b}`: 50 steps, already those of the mean loss, before
regularizer, clipping and update. `CASE_{w,b}` hold their values after every step. The learning rate is 0.1 up to and with
step 20, then 0.05.
"""
import math
import pathlib

import numpy as np

STEPS = 50
rng = np.random.default_rng(20200801)
START = {"w": rng.normal(size=(4, 3)), "b": rng.normal(size=3)}
GRADIENTS = {k: rng.normal(size=(STEPS,) + a.shape) * np.exp(rng.normal(size=(STEPS,) + (1,) * a.ndim))
             for k, a in START.items()}
ARRAYS = pathlib.Path(__file__).with_name("optimizers.npz")
if ARRAYS.exists():  # NumPy's exp differs in the last bit between processors: stored gradients stay
    with np.load(ARRAYS) as file:
        GRADIENTS = {key: file[f"gradients_{key}"] for key in START}


def rate(s):
    return 0.1 if s <= 20 else 0.05


def rms(a):
    return math.sqrt((a * a).mean())


def sgd(momentum=0.0, nesterov=False):
    def update(w, g, s, lr, slot):
        if momentum == 0:
            return w - lr * g
        m = slot["m"] = momentum * slot.get("m", 0) + g
        return w - lr * (g + momentum * m if nesterov else m)
    return update


def sgdw(momentum, decay):
    plain = sgd(momentum)
    return lambda w, g, s, lr, slot: plain(w, g, s, lr, slot) - lr * decay * w


def adam(b1=0.9, b2=0.999, eps=1e-8, correct=True, decay=0.0):
    def update(w, g, s, lr, slot):
        m = slot["m"] = b1 * slot.get("m", 0) + (1 - b1) * g
        v = slot["v"] = b2 * slot.get("v", 0) + (1 - b2) * g * g
        c1, c2 = (1 - b1 ** (s + 1), 1 - b2 ** (s + 1)) if correct else (1, 1)
        return w - lr * (m / c1) / (np.sqrt(v / c2) + eps) - lr * decay * w
    return update


def rmsprop(d=0.99, eps=1e-8, centered=False, momentum=0.0):
    """Epsilon inside the root, as in Keras, whose momentum is of lr g / root; with a constant rate, that makes no difference."""
    def update(w, g, s, lr, slot):
        ms = slot["ms"] = (1 - d) * g * g + d * slot.get("ms", 0)
        if centered:
            mg = slot["mg"] = (1 - d) * g + d * slot.get("mg", 0)
            return w - lr * g / np.sqrt(ms - mg * mg + eps)
        if momentum:
            m = slot["m"] = momentum * slot.get("m", 0) + g / np.sqrt(ms + eps)
            return w - lr * m
        return w - lr * g / np.sqrt(ms + eps)
    return update


def lars(b=0.9, eps=1e-9, c=1e-4, decay=0.0):
    def update(w, g, s, lr, slot):
        local = lr * c * rms(w) / (rms(g) + decay * rms(w) + eps)
        slot["m"] = b * slot.get("m", 0) - local * (g + decay * w)
        return w + slot["m"]
    return update


def lamb(b1=0.9, b2=0.999, eps=1e-6, decay=0.0):
    def update(w, g, s, lr, slot):
        m = slot["m"] = b1 * slot.get("m", 0) + (1 - b1) * g
        v = slot["v"] = b2 * slot.get("v", 0) + (1 - b2) * g * g
        a = (m / (1 - b1 ** (s + 1))) / (np.sqrt(v / (1 - b2 ** (s + 1))) + eps) + decay * w
        nw, na = np.linalg.norm(w), np.linalg.norm(a)
        return w - lr * (nw / na if nw > 0 and na > 0 else 1.0) * a
    return update


def adagrad(eps=1e-10, start=0.0):
    """torch.optim.Adagrad without lr_decay."""
    def update(w, g, s, lr, slot):
        total = slot["sum"] = slot.get("sum", start) + g * g
        return w - lr * g / (np.sqrt(total) + eps)
    return update


def adadelta(rho=0.9, eps=1e-6):
    """torch.optim.Adadelta."""
    def update(w, g, s, lr, slot):
        square = slot["square"] = rho * slot.get("square", 0) + (1 - rho) * g * g
        delta = np.sqrt(slot.get("acc", 0) + eps) / np.sqrt(square + eps) * g
        slot["acc"] = rho * slot.get("acc", 0) + (1 - rho) * delta * delta
        return w - lr * delta
    return update


def nadam(b1=0.9, b2=0.999, eps=1e-8, psi=4e-3, decay=0.0):
    """torch.optim.NAdam with decoupled_weight_decay."""
    def update(w, g, s, lr, slot):
        t = s + 1
        w = w * (1 - lr * decay)
        mu, next_mu = (b1 * (1 - 0.5 * 0.96 ** (i * psi)) for i in (t, t + 1))
        product = slot["product"] = slot.get("product", 1.0) * mu
        m = slot["m"] = b1 * slot.get("m", 0) + (1 - b1) * g
        v = slot["v"] = b2 * slot.get("v", 0) + (1 - b2) * g * g
        denominator = np.sqrt(v / (1 - b2 ** t)) + eps
        w = w - lr * (1 - mu) / (1 - product) * g / denominator
        return w - lr * next_mu / (1 - product * next_mu) * m / denominator
    return update


def radam(b1=0.9, b2=0.999, eps=1e-8, decay=0.0):
    """torch.optim.RAdam with decoupled_weight_decay."""
    def update(w, g, s, lr, slot):
        t = s + 1
        w = w * (1 - lr * decay)
        m = slot["m"] = b1 * slot.get("m", 0) + (1 - b1) * g
        v = slot["v"] = b2 * slot.get("v", 0) + (1 - b2) * g * g
        corrected = m / (1 - b1 ** t)
        most = 2 / (1 - b2) - 1
        length = most - 2 * t * b2 ** t / (1 - b2 ** t)
        if length <= 5:
            return w - lr * corrected
        adaptive = math.sqrt(1 - b2 ** t) / (np.sqrt(v) + eps)
        rect = math.sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))
        return w - lr * corrected * adaptive * rect
    return update


def lion(b1=0.9, b2=0.99, decay=0.0):
    """Algorithm 2 of Chen et al., Symbolic Discovery of Optimization Algorithms (2023)."""
    def update(w, g, s, lr, slot):
        m = slot.get("m", 0)
        slot["m"] = b2 * m + (1 - b2) * g
        return w - lr * (np.sign(b1 * m + (1 - b1) * g) + decay * w)
    return update


def ftrl(beta=1.0, l1=0.0, l2=0.0):
    """Algorithm 1 of McMahan et al., Ad Click Prediction (2013); its alpha is the learning rate."""
    def update(w, g, s, lr, slot):
        n, z = slot.get("n", np.zeros_like(w)), slot.get("z", np.zeros_like(w))
        slot["z"] = z = z + g - (np.sqrt(n + g * g) - np.sqrt(n)) / lr * w
        slot["n"] = n = n + g * g
        return np.where(np.abs(z) <= l1, 0, -(z - np.sign(z) * l1) / ((beta + np.sqrt(n)) / lr + l2))
    return update


def lookahead(inner, steps=5, alpha=0.5):
    """Algorithm 1 of Zhang et al., Lookahead Optimizer: k steps forward, 1 step back (2019)."""
    def update(w, g, s, lr, slot):
        slow = slot.setdefault("slow", w)
        fast = inner(w, g, s, lr, slot)
        if (s + 1) % steps > 0:
            return fast
        slot["slow"] = slow + alpha * (fast - slow)
        return slot["slow"]
    return update


def by_norm(limit):
    def clip(gradients):
        norm = math.sqrt(sum((g * g).sum() for g in gradients.values()))
        return {k: g * min(1.0, limit / norm) for k, g in gradients.items()}
    return clip


def by_value(limit):
    return lambda gradients: {k: np.clip(g, -limit, limit) for k, g in gradients.items()}


CASES = {  # name: (update, clipping, l1, l2)
    "sgd": (sgd(), None, 0, 0),
    "sgd_momentum": (sgd(0.9), None, 0, 0),
    "sgd_nesterov": (sgd(0.9, True), None, 0, 0),
    "sgd_clip2": (sgd(), by_norm(2.0), 0, 0),
    "sgd_l1_l2": (sgd(), None, 0.01, 0.02),
    "sgd_momentum_l2_clip2": (sgd(0.9), by_norm(2.0), 0, 0.02),
    "adam_l2_by_value": (adam(), by_value(0.5), 0, 0.02),
    "sgdw": (sgdw(0.9, 0.01), None, 0, 0),
    "adam": (adam(), None, 0, 0),
    "adam_uncorrected": (adam(correct=False), None, 0, 0),
    "adamw": (adam(decay=0.01), None, 0, 0),
    "rmsprop": (rmsprop(), None, 0, 0),
    "rmsprop_centered": (rmsprop(centered=True), None, 0, 0),
    "rmsprop_inside": (rmsprop(eps=1e-3, momentum=0.9), None, 0, 0),
    "adagrad": (adagrad(), None, 0, 0),
    "adagrad_start": (adagrad(eps=1e-7, start=0.1), None, 0, 0.02),
    "adadelta": (adadelta(), None, 0, 0),
    "nadam": (nadam(), None, 0, 0),
    "nadam_decay": (nadam(psi=1.0, decay=0.01), by_norm(2.0), 0, 0),
    "radam": (radam(), None, 0, 0),
    "radam_decay": (radam(b2=0.9, decay=0.01), None, 0, 0),
    "lion": (lion(), None, 0, 0),
    "lion_decay": (lion(b1=0.8, b2=0.9, decay=0.01), by_value(0.5), 0, 0),
    "ftrl": (ftrl(), None, 0, 0),
    "ftrl_sparse": (ftrl(beta=0.5, l1=0.3, l2=0.2), None, 0, 0),
    "lars": (lars(c=0.02, decay=0.01), None, 0, 0),
    "lamb": (lamb(decay=0.01), None, 0, 0),
    "lookahead": (lookahead(sgd()), None, 0, 0),
    "lookahead_adamw": (lookahead(adam(decay=0.01), 7, 0.8), by_norm(2.0), 0, 0.02),
}


def path(update, clip, l1, l2):
    values, slots, out = dict(START), {k: {} for k in START}, {k: [] for k in START}
    for s in range(STEPS):
        g = {k: GRADIENTS[k][s] + l1 * np.sign(values[k]) + l2 * values[k] for k in values}
        if clip is not None:
            g = clip(g)
        for k in values:
            values[k] = update(values[k], g[k], s, rate(s), slots[k])
            out[k].append(values[k])
    return {k: np.array(a) for k, a in out.items()}


arrays = {f"start_{key}": START[key] for key in START} | {f"gradients_{key}": GRADIENTS[key] for key in START}
for case, what in CASES.items():
    for key, values in path(*what).items():
        arrays[f"{case}_{key}"] = values
np.savez(ARRAYS, **arrays)
