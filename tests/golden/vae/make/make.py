#!/usr/bin/env python3
"""Ten steps of jobs/vae.yaml, width 8, latent 3, batch 5, on random images, by PyTorch in float64. Writes vae.npz beside `make`.

Usage: make.py (PyTorch, NumPy). Initial values, images and noise come from the seed and the names of variables and entries
(tests/golden/mnist/make). Arrays: `losses`; `latent` of the first step; `diff/NAME`, gradients of the first step, and `after/NAME`,
variables after the last, of which the weights of pixels have columns and rows 400 to 410 only.
"""
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "mnist" / "make"))
import flow_random  # noqa: E402

WIDTH, LATENT, BATCH, STEPS, SEED, RATE, PIXELS = 8, 3, 5, 10, 1, 1e-3, 28 * 28
SHAPES = {"encode/hidden": (WIDTH, PIXELS), "encode/mean": (LATENT, WIDTH), "encode/log_var": (LATENT, WIDTH), "decode/hidden": (WIDTH, LATENT),
          "decode/flat": (PIXELS, WIDTH)}
SOME = slice(400, 410)


def initial():
    values = {}
    for name, shape in SHAPES.items():
        limit = math.sqrt(6 / sum(shape))
        draw = -limit + 2 * limit * flow_random.uniform01(SEED, name + "/weight", 0, math.prod(shape))
        values[name + "/weight"] = draw.astype(np.float32).reshape(shape)
        values[name + "/bias"] = np.zeros(shape[0], np.float32)
    return {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in values.items()}


def stored(name, array):
    if array.ndim == 2 and PIXELS in array.shape:
        array = array[:, SOME] if array.shape[1] == PIXELS else array[SOME]
    return array.detach().numpy().copy()


def main():
    v = initial()
    optimizer = torch.optim.Adam(v.values(), lr=RATE)

    def dense(name, x):
        return F.linear(x, v[name + "/weight"], v[name + "/bias"])
    arrays, losses = {}, []
    for step in range(STEPS):
        images = torch.tensor(flow_random.uniform01(SEED, "images", step, BATCH * PIXELS).reshape(BATCH, PIXELS))
        hidden = F.relu(dense("encode/hidden", images))
        mean, log_var = dense("encode/mean", hidden), dense("encode/log_var", hidden)
        noise = torch.tensor(flow_random.normal01(SEED, "noise", step, BATCH * LATENT).reshape(BATCH, LATENT))
        latent = mean + torch.exp(log_var / 2) * noise
        logits = dense("decode/flat", F.relu(dense("decode/hidden", latent)))
        reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="none").sum(1)
        kl = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum(1)
        loss = (reconstruction + kl).mean()
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            arrays["latent"] = latent.detach().numpy()
            arrays |= {f"diff/{name}": stored(name, value.grad) for name, value in v.items()}
        optimizer.step()
    arrays |= {f"after/{name}": stored(name, value) for name, value in v.items()}
    np.savez_compressed(HERE.parent / "vae.npz", losses=np.array(losses), **arrays)


if __name__ == "__main__":
    main()
