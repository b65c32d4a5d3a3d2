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


def one_cycle(s, linear, phases):
    """torch.optim.lr_scheduler.OneCycleLR: `phases` are its (end step, start rate, end rate)."""
    start, last = 0, phases[-1][0]
    for end, a, b in phases:
        if min(s, last) <= end or end == last:
            part = (min(s, last) - start) / (end - start)
            return (b - a) * part + a if linear else b + (a - b) / 2.0 * (math.cos(math.pi * part) + 1)
        start = end


def cosine_restarts(s, factor, minimum):
    """torch.optim.lr_scheduler.CosineAnnealingWarmRestarts with T_0 = 20 and eta_min = minimum."""
    if factor == 1:
        at, length = s % 20, 20
    else:
        n = int(math.log(s / 20 * (factor - 1) + 1, factor))
        at, length = s - 20 * (factor ** n - 1) / (factor - 1), 20 * factor ** n
    return minimum + (BASE - minimum) * (1 + math.cos(math.pi * at / length)) / 2


def decayed_restarts(s):
    """tf.keras.optimizers.schedules.CosineDecayRestarts with m_mul = 0.5 and equal periods."""
    part = s / 20
    peak = 0.5 ** math.floor(part)
    return BASE * ((1 - ALPHA) * (0.5 * peak * (1 + math.cos(math.pi * (part - math.floor(part))))) + ALPHA)


def inverse_sqrt(s):
    """transformers.get_inverse_sqrt_schedule with 15 warm-up steps, which are its time scale."""
    return BASE * s / 15 if s < 15 else BASE / math.sqrt(s / 15)


def sequential(s):
    """torch.optim.lr_scheduler.SequentialLR at milestones 20 and 100: each counts from its start."""
    if s < 20:
        return BASE * (0.25 + 0.75 * min(s, 20) / 20)  # LinearLR(0.25, 1, 20)
    if s < 100:
        return BASE * 0.5 ** ((s - 20) // 30)  # StepLR(30, 0.5)
    return 0.01


LOW, END = BASE / 25, BASE / 25 / 1e4
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
    "step": lambda s: BASE * 0.5 ** (s // 40),  # StepLR
    "linear": lambda s: BASE * (1 / 3 + (0.9 - 1 / 3) * min(s, STEPS) / STEPS),  # LinearLR
    "one_cycle": lambda s: one_cycle(s, False, [(0.3 * 120 - 1, LOW, BASE), (119, BASE, END)]),
    "one_cycle_linear": lambda s: one_cycle(s, True, [(0.3 * 120 - 1, LOW, BASE), (119, BASE, END)]),
    "one_cycle_three": lambda s: one_cycle(
        s, False, [(0.3 * 120 - 1, LOW, BASE), (2 * 0.3 * 120 - 2, BASE, LOW), (119, LOW, END)]),
    "cosine_restarts": lambda s: cosine_restarts(s, 1, 0.04),
    "cosine_restarts_longer": lambda s: cosine_restarts(s, 2, 0.04),
    "cosine_restarts_lower": decayed_restarts,
    "inverse_sqrt": inverse_sqrt,
    "sequential": sequential,
    "warmup_constant_then_cosine": lambda s: cosine(s) if s >= 10 else BASE * 0.3,
    "warmup_linear_then_cosine": lambda s: cosine(s) if s >= 10 else BASE * (0.1 + 0.9 * s / 10),
}

np.savez(pathlib.Path(__file__).with_name("learning_rates.npz"),
         **{name: np.array([rate(s) for s in range(150)]) for name, rate in SCHEDULES.items()})
