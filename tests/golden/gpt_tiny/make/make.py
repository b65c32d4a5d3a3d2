#!/usr/bin/env python3
"""Ten steps of jobs/gpt_tiny.yaml, two layers of width 8 with two heads, batch 3, in file order, by PyTorch in float64.
Writes ../gpt_tiny.npz.

Usage: make.py (PyTorch, NumPy). Initial values come from the seed and the variables' names (tests/golden/mnist/make).
"""
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent / "gpt_tiny.npz"
JOBS = HERE.parents[3] / "jobs"
sys.path.insert(0, str(HERE.parents[1] / "mnist" / "make"))
import flow_random  # noqa: E402

WIDTH, HEADS, LAYERS, BATCH, STEPS, SEED = 8, 2, 2, 3, 10, 1
CONTEXT, VOCABULARY = 64, 128
BASE, WARM, START = 3e-3, 50, 0.02
BETA1, BETA2, EPSILON, DECAY, CLIP = 0.9, 0.999, 1e-8, 0.1, 1.0


def initial():
    shapes = {"gpt/wte/weight": (VOCABULARY, WIDTH), "gpt/wpe": (CONTEXT, WIDTH)}
    for layer in range(LAYERS):
        block = f"gpt/blocks/{layer}/"
        for norm in ("norm1", "norm2"):
            shapes |= {f"{block}{norm}/gamma": (WIDTH,), f"{block}{norm}/beta": (WIDTH,)}
        for dense, units, inputs in (("attention/qkv", 3 * WIDTH, WIDTH), ("attention/out_proj", WIDTH, WIDTH),
                                     ("mlp/up", 4 * WIDTH, WIDTH), ("mlp/down", WIDTH, 4 * WIDTH)):
            shapes |= {f"{block}{dense}/weight": (units, inputs), f"{block}{dense}/bias": (units,)}
    shapes |= {"gpt/norm/gamma": (WIDTH,), "gpt/norm/beta": (WIDTH,)}
    values = {}
    for name, shape in shapes.items():
        if name.endswith(("/bias", "/beta", "/gamma")):
            value = np.full(shape, name.endswith("/gamma"), np.float32)
        else:
            value = (0.02 * flow_random.normal01(SEED, name, 0, math.prod(shape))).astype(np.float32).reshape(shape)
        values[name] = torch.tensor(value, dtype=torch.float64)
    return values


def dense(v, name, x):
    return F.linear(x, v[name + "/weight"], v[name + "/bias"])


def norm(v, name, x):
    return F.layer_norm(x, (WIDTH,), v[name + "/gamma"], v[name + "/beta"], eps=1e-5)


def attend(v, name, x):
    rows = x.shape[0]
    split = dense(v, name + "/qkv", x).view(rows, CONTEXT, 3, HEADS, WIDTH // HEADS)
    query, key, value = split.permute(2, 0, 3, 1, 4)
    scores = query @ key.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
    hidden = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1)
    y = torch.softmax(scores.masked_fill(hidden, -math.inf), -1) @ value
    return dense(v, name + "/out_proj", y.transpose(1, 2).reshape(rows, CONTEXT, WIDTH))


def forward(v, characters):
    x = F.embedding(characters, v["gpt/wte/weight"]) + v["gpt/wpe"]
    for layer in range(LAYERS):
        block = f"gpt/blocks/{layer}/"
        x = x + attend(v, block + "attention", norm(v, block + "norm1", x))
        up = F.gelu(dense(v, block + "mlp/up", norm(v, block + "norm2", x)))
        x = x + dense(v, block + "mlp/down", up)
    return norm(v, "gpt/norm", x) @ v["gpt/wte/weight"].T


def update(w, g, m, v, rate, step, decay):
    """AdamW. The new variable and its two averages."""
    m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
    move = m / (1 - BETA1**(step + 1)) / (torch.sqrt(v / (1 - BETA2**(step + 1))) + EPSILON)
    return w - rate * move - rate * decay * w, m, v


def main():
    v, arrays = initial(), {}
    slots = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in v.items()}
    windows = torch.tensor(np.load(JOBS / "data" / "prose" / "windows.npy").astype(np.int64))
    losses, norms = [], []
    for s in range(STEPS):
        v = {name: w.detach().requires_grad_() for name, w in v.items()}
        rows = windows[s * BATCH:(s + 1) * BATCH]
        logits = forward(v, rows[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), rows[:, 1:], reduction="none")
        losses.append(loss.detach().numpy())
        gradients = torch.autograd.grad(loss.sum(), list(v.values()))
        if s == 0:
            arrays["watch/gpt/value"] = logits.detach().numpy()[None]
            arrays["watch/gpt/steps"] = np.zeros(1, np.int64)
            for name, gradient in zip(v, gradients):
                arrays[f"watch/{name}/diff"] = gradient.numpy()[None]
                arrays[f"watch/{name}/diff_steps"] = np.zeros(1, np.int64)
        gradients = [g / loss.numel() for g in gradients]
        length = math.sqrt(sum(float((g * g).sum()) for g in gradients))
        norms.append(length)
        rate = BASE * (START + (1 - START) * s / WARM)
        for name, g in zip(list(v), gradients):
            decay = 0 if name.endswith(("/bias", "/gamma", "/beta")) else DECAY
            v[name], *slots[name] = update(v[name].detach(), g * min(1, CLIP / length), *slots[name], rate, s, decay)
    arrays["returns/loss/value"] = np.stack(losses)
    arrays["returns/loss/steps"] = np.arange(STEPS)
    for name, value in v.items():
        arrays["checkpoint/" + name] = value.detach().numpy()
        arrays[f"checkpoint/{name}/m"] = slots[name][0].numpy()
        arrays[f"checkpoint/{name}/v"] = slots[name][1].numpy()
    np.savez(OUT, **arrays)
    print("mean losses:", np.round([loss.mean() for loss in losses], 5))
    print("lengths of the gradient:", np.round(norms, 3))


if __name__ == "__main__":
    main()
