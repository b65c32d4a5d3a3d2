#!/usr/bin/env python3
"""Ten steps of jobs/resnet18.yaml, width 3, batch 5, in file order, by PyTorch in float64. Writes ../resnet18.npz.

Usage: make.py (PyTorch, NumPy). Initial values come from the seed and the variables' names (tests/golden/mnist/make).
"""
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent / "resnet18.npz"
sys.path.insert(0, str(HERE.parents[1] / "mnist" / "make"))
import flow_random  # noqa: E402
import nets  # noqa: E402

WIDTH, BATCH, STEPS, SEED = 3, 5, 10, 1
BASE, WARM, START, MOMENTUM, DECAY = 0.1, 60, 0.01, 0.9, 5e-4


def convolutions():
    """(name, channels, filters, kernel, stride) of all of them, in the order in which they run."""
    yield "stem", 1, WIDTH, 3, 1
    for block in ("stage1/0", "stage1/1"):
        yield block + "/first", WIDTH, WIDTH, 3, 1
        yield block + "/second", WIDTH, WIDTH, 3, 1
    for stage in (2, 3, 4):
        narrow, wide = WIDTH * 2**(stage - 2), WIDTH * 2**(stage - 1)
        yield f"stage{stage}/widen/first", narrow, wide, 3, 2
        yield f"stage{stage}/widen/second", wide, wide, 3, 1
        yield f"stage{stage}/widen/around", narrow, wide, 1, 2
        yield f"stage{stage}/blocks/0/first", wide, wide, 3, 1
        yield f"stage{stage}/blocks/0/second", wide, wide, 3, 1


STRIDES = {name: stride for name, _, _, _, stride in convolutions()}


def initial():
    values = {}
    for name, channels, filters, kernel, _ in convolutions():
        shape, weight = (filters, channels, kernel, kernel), f"resnet/{name}/conv/weight"
        draw = flow_random.normal01(SEED, weight, 0, math.prod(shape)) * (math.sqrt(2) / math.sqrt(channels * kernel**2))
        values[weight] = draw.astype(np.float32).reshape(shape)
        for kind, value in (("gamma", 1), ("beta", 0), ("moving_mean", 0), ("moving_variance", 1)):
            values[f"resnet/{name}/bn/{kind}"] = np.full(filters, value, np.float32)
    shape, limit = (10, 8 * WIDTH), math.sqrt(6 / (10 + 8 * WIDTH))
    draw = -limit + 2 * limit * flow_random.uniform01(SEED, "resnet/output/weight", 0, math.prod(shape))
    values["resnet/output/weight"] = draw.astype(np.float32).reshape(shape)
    values["resnet/output/bias"] = np.zeros(10, np.float32)
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def convolve(v, name, x):
    weight = v[f"resnet/{name}/conv/weight"]
    y = F.conv2d(x, weight, stride=STRIDES[name], padding=weight.shape[-1] // 2)
    gamma, beta, mean, variance = (v[f"resnet/{name}/bn/{kind}"] for kind in ("gamma", "beta", "moving_mean", "moving_variance"))
    return F.batch_norm(y, mean, variance, gamma, beta, training=True, momentum=0.1, eps=1e-5)


def block(v, name, x, around=None):
    y = convolve(v, name + "/second", F.relu(convolve(v, name + "/first", x)))
    return F.relu(y + (convolve(v, around, x) if around else x))


def forward(v, x):
    x = F.relu(convolve(v, "stem", x))
    x = block(v, "stage1/1", block(v, "stage1/0", x))
    for stage in (2, 3, 4):
        x = block(v, f"stage{stage}/widen", x, f"stage{stage}/widen/around")
        x = block(v, f"stage{stage}/blocks/0", x)
    return F.linear(x.mean((2, 3)), v["resnet/output/weight"], v["resnet/output/bias"])


def main():
    v, arrays = initial(), {}
    trained = [name for name in v if "/moving_" not in name]
    slots = {name: torch.zeros_like(v[name]) for name in trained}
    losses = []
    for s in range(STEPS):
        for name in trained:
            v[name] = v[name].detach().requires_grad_()
        x, y = nets.mnist("train", s * BATCH, BATCH)
        # As the job reads them: byte * scale - mean, over std, in float64, rounded once.
        x = ((np.rint(x.astype(np.float64) * 255) * (1 / 255) - 0.1307) / 0.3081).astype(np.float32)
        logits = forward(v, torch.tensor(x, dtype=torch.float64))
        loss = F.cross_entropy(logits, torch.tensor(y).long(), reduction="none")
        losses.append(loss.detach().numpy())
        gradients = torch.autograd.grad(loss.sum(), [v[name] for name in trained])
        if s == 0:
            arrays["watch/resnet/value"] = logits.detach().numpy()[None]
            arrays["watch/resnet/steps"] = np.zeros(1, np.int64)
        rate = BASE * (START + (1 - START) * s / WARM)
        for name, gradient in zip(trained, gradients):
            if s == 0:
                arrays[f"watch/{name}/diff"] = gradient.numpy()[None]
                arrays[f"watch/{name}/diff_steps"] = np.zeros(1, np.int64)
            w = v[name].detach()
            g = gradient / BATCH + (DECAY * w if name.endswith("conv/weight") else 0)
            slots[name] = MOMENTUM * slots[name] + g
            v[name] = w - rate * slots[name]
    arrays["returns/loss/value"] = np.stack(losses)
    arrays["returns/loss/steps"] = np.arange(STEPS)
    for name, value in v.items():
        arrays["checkpoint/" + name] = value.numpy()
    for name, value in slots.items():
        arrays[f"checkpoint/{name}/momentum"] = value.numpy()
    np.savez(OUT, **arrays)
    print("mean losses:", np.round([loss.mean() for loss in losses], 5))


if __name__ == "__main__":
    main()
