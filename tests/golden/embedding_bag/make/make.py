#!/usr/bin/env python3
"""Bags of embeddings by torch.nn.EmbeddingBag in float64: results, gradients and ten updates by SGD. Writes the .npz files
beside `make`.

Usage: make.py (PyTorch, NumPy). Arrays of a file: the indices, lengths and per-sample weights where there are any, a factor
of whose product with the result the loss is the sum; the result; `before`, `after` and `diff` of the table, `diff_weights` of
the weights; the loss of each step.
"""
import pathlib

import numpy as np
import torch

OUT = pathlib.Path(__file__).resolve().parent.parent
TABLE, UNITS, BAGS, COUNT, UPDATES, RATE = 11, 3, 5, 4, 10, 0.005
CASES = {  # name: (mode, padding, lengths, weights)
    "sum": ("sum", None, None, False),
    "sum_weighted": ("sum", 2, [4, 0, 2, 3, 1], True),
    "mean_lengths": ("mean", None, [3, 4, 1, 2, 4], False),
    "mean_padding": ("mean", 0, None, False),
    "max_padding": ("max", 10, None, False),
    "max_lengths": ("max", None, [1, 4, 3, 0, 2], False),
}


def bags_of(indices, lengths, weights):
    """What counts of each row, one bag behind the other, and where each begins."""
    kept = [slice(0, length) for length in lengths]
    flat = torch.cat([row[k] for row, k in zip(indices, kept)])
    offsets = torch.tensor([0, *np.cumsum(lengths)[:-1]])
    return flat, offsets, torch.cat([row[k] for row, k in zip(weights, kept)]) if weights is not None else None


def make(name, mode, padding, lengths, weighted, random):
    table = torch.tensor(random.uniform(-1, 1, (TABLE, UNITS)))
    indices = torch.tensor(random.integers(0, TABLE, (BAGS, COUNT)))
    indices[0] = 3  # one row several times
    if padding is not None:
        indices[1, 1:], indices[2, 0] = padding, padding
    if padding is not None and lengths is None:
        indices[3] = padding  # a bag of nothing else
    net = torch.nn.EmbeddingBag(TABLE, UNITS, mode=mode, padding_idx=padding, dtype=torch.float64)
    with torch.no_grad():
        net.weight.copy_(table)
    weights = torch.tensor(random.uniform(-1, 1, (BAGS, COUNT)), requires_grad=True) if weighted else None
    arrays = {"indices": indices.numpy().astype(np.int32), "before": table.numpy()}
    if lengths is not None:
        arrays["lengths"] = np.array(lengths, np.int32)
    if weighted:
        arrays["weights"] = weights.detach().numpy()
    given = bags_of(indices, lengths if lengths is not None else [COUNT] * BAGS, weights)
    factor = torch.tensor(random.uniform(-1, 1, (BAGS, UNITS)))
    optimizer, losses = torch.optim.SGD(net.parameters(), lr=RATE), []
    for step in range(UPDATES):
        optimizer.zero_grad()
        result = net(given[0], given[1], given[2])
        loss = (result * factor).sum()
        losses.append(loss.item())
        loss.backward(retain_graph=True)
        if step == 0:
            arrays |= {"out": result.detach().numpy(), "diff": net.weight.grad.numpy().copy()}
            if weighted:
                arrays["diff_weights"] = weights.grad.numpy().copy()
        optimizer.step()
    np.savez_compressed(OUT / f"{name}.npz", losses=np.array(losses), factor=factor.numpy(), after=net.weight.detach().numpy(), **arrays)


def main():
    for number, (name, options) in enumerate(CASES.items()):
        make(name, *options, np.random.default_rng(number))


if __name__ == "__main__":
    main()
