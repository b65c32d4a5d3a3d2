#!/usr/bin/env python3
"""Ten steps of a small U-Net and a small LSTM, as jobs/unet.yaml and jobs/lstm_text.yaml train them, by PyTorch in float64. Writes the
.npz files beside `make`.

Usage: make.py (PyTorch, NumPy). Arrays of a file: the inputs; `before/NAME`, float32, under the names of PyTorch's state_dict; `logits`;
`diff/NAME`, the gradient of the mean loss before clipping; `after/NAME` and `losses` of the updates.
"""
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

OUT = pathlib.Path(__file__).resolve().parent.parent
UPDATES = 10


class Block(nn.Module):
    def __init__(self, channels, filters):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, filters, 3, padding=1), nn.Conv2d(filters, filters, 3, padding=1)

    def forward(self, x):
        return F.relu(self.conv2(F.relu(self.conv1(x))))


class Up(nn.Module):
    def __init__(self, channels, filters):
        super().__init__()
        self.block = Block(channels, filters)

    def forward(self, x, skipped):
        return self.block(torch.cat([F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), skipped], 1))


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down1, self.down2, self.bottom = Block(1, width), Block(width, 2 * width), Block(2 * width, 4 * width)
        self.up2, self.up1 = Up(6 * width, 2 * width), Up(3 * width, width)
        self.logits = nn.Conv2d(width, 1, 1)

    def forward(self, images):
        large = self.down1(images)
        half = self.down2(F.max_pool2d(large, 2))
        bottom = self.bottom(F.max_pool2d(half, 2))
        return self.logits(self.up1(self.up2(bottom, half), large))


class Text(nn.Module):
    def __init__(self, vocabulary, width, units, layers):
        super().__init__()
        self.embed, self.state = nn.Embedding(vocabulary, width), nn.LSTM(width, units, layers, batch_first=True)
        self.logits = nn.Linear(units, vocabulary)

    def forward(self, characters):
        return self.logits(self.state(self.embed(characters))[0])


def randomized(net, random, scale):
    """With float32 numbers, so that the weights of a file are exact."""
    net = net.double()
    with torch.no_grad():
        for variable in net.parameters():
            variable.copy_(torch.tensor(random.normal(scale=scale, size=tuple(variable.shape)).astype(np.float32)))
    return net


def clip(variables, most):
    """By the global norm, whose scale is exact here: PyTorch's own adds 1e-6 to the norm. True where it clips."""
    norm = math.sqrt(sum(variable.grad.square().sum().item() for variable in variables))
    for variable in variables:
        variable.grad *= min(1, most / norm)
    return norm > most


def train(name, net, inputs, logits_of, loss_of, rate, clip_norm=None):
    """`rate` is of a step."""
    def saved(values):
        return {key: values(variable).detach().numpy().copy() for key, variable in net.named_parameters()}
    arrays = inputs | {f"before/{key}": array.astype(np.float32) for key, array in saved(lambda variable: variable).items()}
    optimizer, losses, clipped = torch.optim.Adam(net.parameters()), [], 0
    for step in range(UPDATES):
        optimizer.param_groups[0]["lr"] = rate(step)
        optimizer.zero_grad()
        logits = logits_of(net)
        loss = loss_of(logits)
        losses.append(loss.item())
        loss.backward()
        if step == 0:
            arrays["logits"] = logits.detach().numpy()
            arrays |= {f"diff/{key}": array for key, array in saved(lambda variable: variable.grad).items()}
        if clip_norm:
            clipped += clip(list(net.parameters()), clip_norm)
        optimizer.step()
    assert not clip_norm or 0 < clipped < UPDATES, "some steps have to clip, and some not"
    arrays |= {f"after/{key}": array for key, array in saved(lambda variable: variable).items()}
    np.savez_compressed(OUT / f"{name}.npz", losses=np.array(losses), **arrays)


def make_unet(random):
    images = random.uniform(0, 1, (3, 1, 28, 28)).astype(np.float32)
    noise = random.normal(size=images.shape).astype(np.float32)
    noisy = torch.tensor(images).double() + 0.5 * torch.tensor(noise).double()
    target = torch.tensor(images > 0.5).double()
    train("unet", randomized(UNet(2), random, 0.4), {"images": images, "noise": noise}, lambda net: net(noisy),
          lambda logits: F.binary_cross_entropy_with_logits(logits, target), lambda step: 3e-3)


def make_text(random):
    vocabulary = 23
    window = random.integers(0, vocabulary, (4, 10), np.uint8)
    characters = torch.tensor(window).long()
    train("lstm_text", randomized(Text(vocabulary, 6, 5, 2), random, 2.0), {"windows": window}, lambda net: net(characters[:, :-1]),
          lambda logits: F.cross_entropy(logits.reshape(-1, vocabulary), characters[:, 1:].reshape(-1)),
          lambda step: 5e-3 * (0.9 * 0.5 * (1 + math.cos(math.pi * step / UPDATES)) + 0.1), 1)


if __name__ == "__main__":
    make_unet(np.random.default_rng(1))
    make_text(np.random.default_rng(2))
