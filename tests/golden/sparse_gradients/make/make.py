#!/usr/bin/env python3
"""Tables trained by sparse gradients with PyTorch in float64. Writes the .npz files beside `make`.

Usage: make.py (PyTorch, NumPy). Arrays of a file: `indices` and `target`, the rows of all steps; `before` and `after` of the
table; the loss of each step, the mean square of vectors minus targets. A bag has 4 indices, of which 0 is padding. The cases
`twice` look up the same table a second time, by the indices in reverse.
"""
import pathlib

import numpy as np
import torch

OUT = pathlib.Path(__file__).resolve().parent.parent
TABLE, UNITS, BATCH, COUNT, STEPS, RATE = 13, 3, 6, 4, 12, 0.1
OPTIMIZERS = {
    "sgd": lambda variables: torch.optim.SGD(variables, lr=RATE),
    "adagrad": lambda variables: torch.optim.Adagrad(variables, lr=RATE, initial_accumulator_value=0.01),
    "adam": lambda variables: torch.optim.SparseAdam(variables, lr=RATE, betas=(0.9, 0.99)),
}
CASES = [("embedding", optimizer, None) for optimizer in OPTIMIZERS]
CASES += [(layer, "adam", None) for layer in ("bag_sum", "bag_mean", "twice")]
CASES += [("bag_mean", "adagrad", None), ("embedding", "adam", 0.05), ("twice", "sgd", 0.05)]


def clip(gradient, limit):
    """By the norm over all rows."""
    gradient = gradient.coalesce()
    return gradient * min(1.0, limit / gradient.values().norm().item())


def make(layer, kind, limit, random):
    bags = layer.startswith("bag")
    net = (torch.nn.EmbeddingBag(TABLE, UNITS, mode=layer.removeprefix("bag_"), padding_idx=0, sparse=True, dtype=torch.float64) if bags
           else torch.nn.Embedding(TABLE, UNITS, sparse=True, dtype=torch.float64))
    before = random.uniform(-1, 1, (TABLE, UNITS))
    with torch.no_grad():
        net.weight.copy_(torch.tensor(before))
    # Few of the rows in each step, some several times: others keep their state.
    low = random.integers(0, TABLE - 4, STEPS).repeat(BATCH)
    indices = (low[:, None] + random.integers(0, 4, (STEPS * BATCH, COUNT)) if bags else low + random.integers(0, 4, STEPS * BATCH)).astype(np.int32)
    target = random.uniform(-1, 1, (STEPS * BATCH, UNITS))
    optimizer, losses = OPTIMIZERS[kind]([net.weight]), []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        picked = torch.tensor(indices[rows]).long()
        vectors = net(picked)
        if layer == "twice":
            vectors = vectors * net(picked.flip(0))
        loss = ((vectors - torch.tensor(target[rows])) ** 2).mean()
        losses.append(loss.item())
        loss.backward()
        if limit is not None:
            net.weight.grad = clip(net.weight.grad, limit)
        optimizer.step()
    name = f"{layer}_{kind}" + ("_clip" if limit else "")
    np.savez_compressed(OUT / f"{name}.npz", indices=indices, target=target, before=before, after=net.weight.detach().numpy(), losses=np.array(losses))


def main():
    for number, (layer, kind, limit) in enumerate(CASES):
        make(layer, kind, limit, np.random.default_rng(number))


if __name__ == "__main__":
    main()
