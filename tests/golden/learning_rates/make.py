"""Golden learning rates at steps 0 to 149, float64, from the formulas of the language. Usage: python3 make.py (NumPy)."""
import math
import pathlib

import numpy as np

BASE, STEPS, ALPHA = 0.4, 60, 0.1


def cosine(s):
    t = min(s, STEPS)
    return BASE * ((1 - ALPHA) * 0.5 * (1 + math.cos(math.pi * t / STEPS)) + ALPHA)


def linear_cosine(s):
    t = min(s, STEPS)
    return BASE * ((0.2 + (STEPS - t) / STEPS) * 0.5 * (1 + math.cos(2 * math.pi * 0.5 * t / STEPS)) + 0.001)


def polynomial(s, steps):
    return (BASE - 1e-4) * (1 - s / steps) ** 2 + 1e-4


SCHEDULES = {
    "constant": lambda s: BASE,
    # value i for the first i with s <= boundary[i], else the last
    "piecewise_constant": lambda s: 0.4 if s <= 30 else 0.2 if s <= 80 else 0.05,
    "piecewise_scaling": lambda s: BASE * (1 if s <= 30 else 0.5 if s <= 80 else 0.5 * 0.25),
    "cosine": cosine,
    "linear_cosine": linear_cosine,
    "polynomial": lambda s: polynomial(min(s, STEPS), STEPS),
    "polynomial_cycle": lambda s: polynomial(s, STEPS * max(1, math.ceil(s / STEPS))),
    "exponential": lambda s: BASE * 0.9 ** (s / STEPS),
    "exponential_staircase": lambda s: BASE * 0.9 ** (s // STEPS),
    "inverse_time": lambda s: BASE / (1 + 0.9 * (s / STEPS)),
    "natural_exp": lambda s: BASE * math.exp(-0.9 * (s / STEPS)),
    "warmup_constant_then_cosine": lambda s: cosine(s) if s >= 10 else BASE * 0.3,
    "warmup_linear_then_cosine": lambda s: cosine(s) if s >= 10 else BASE * (0.1 + 0.9 * s / 10),
}

for name, rate in SCHEDULES.items():
    np.save(pathlib.Path(__file__).with_name(name + ".npy"), np.array([rate(s) for s in range(150)]))
