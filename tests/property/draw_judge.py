"""The token that `sample` draws, by NumPy in float64."""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden" / "mnist" / "make"))
import flow_random  # noqa: E402


def token(logits, position, row, temperature, top_k, top_p, seed, name, of_pass=0):
    """Of one row. Weights are whole multiples of 2^-40 of the largest; `name` is the entry's."""
    logits = np.asarray(logits, np.float64)
    order = np.argsort(-logits, kind="stable")[: top_k or None]
    weights = [int(w) for w in np.floor(np.exp((logits[order] - logits[order[0]]) / temperature) * 2.0**40)]
    if top_p < 1:
        share, kept, total = max(1, int(top_p * float(sum(weights)))), 0, 0
        while total < share:
            total += weights[kept]
            kept += 1
        order, weights = order[:kept], weights[:kept]
    words = flow_random.philox4x32_10([row & 0xFFFFFFFF, row >> 32, position & 0xFFFFFFFF, of_pass], flow_random.key_of(seed, name))
    drawn = sum(weights) * (int(words[0]) << 32 | int(words[1])) >> 64
    for place, weight in sorted(zip(order, weights)):
        if drawn < weight:
            return place
        drawn -= weight
