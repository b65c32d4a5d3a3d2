"""Golden learning rates at steps 0 to 149, float64, from the formulas of the language. Usage: python3 make.py (NumPy)."""
import pathlib

import numpy as np

SCHEDULES = {
    "constant": lambda s: 0.4,
    # value i for the first i with s <= boundary[i], else the last
    "piecewise_constant": lambda s: 0.4 if s <= 30 else 0.2 if s <= 80 else 0.05,
}

for name, rate in SCHEDULES.items():
    np.save(pathlib.Path(__file__).with_name(name + ".npy"), np.array([rate(s) for s in range(150)]))
