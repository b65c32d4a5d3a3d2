"""The ResNets, GPTs, LSTM and U-Net of jobs/ as PyTorch modules, for torch_steps.py."""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def convolve(channels, filters, kernel=3, stride=1):
    return nn.Sequential(nn.Conv2d(channels, filters, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(filters))


class Block(nn.Module):
    def __init__(self, channels, filters, stride=1):
        super().__init__()
        self.first, self.second = convolve(channels, filters, stride=stride), convolve(filters, filters)
        self.around = convolve(channels, filters, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.around(x))


def resnet18(width):
    layers = [convolve(1, width), nn.ReLU(), Block(width, width), Block(width, width)]
    for stage in (2, 4, 8):
        layers += [Block(stage // 2 * width, stage * width, 2), Block(stage * width, stage * width)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10))


class Bottleneck(nn.Module):
    def __init__(self, channels, filters, stride=1):
        super().__init__()
        self.reduce, self.middle = convolve(channels, filters, 1), convolve(filters, filters, stride=stride)
        self.expand = convolve(filters, 4 * filters, 1)
        self.around = convolve(channels, 4 * filters, 1, stride) if channels != 4 * filters else nn.Identity()

    def forward(self, x):
        return F.relu(self.expand(F.relu(self.middle(F.relu(self.reduce(x))))) + self.around(x))


def resnet50():
    layers = [convolve(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for filters, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        layers += [Bottleneck(channels, filters, stride), *(Bottleneck(4 * filters, filters) for _ in range(blocks - 1))]
        channels = 4 * filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class GptBlock(nn.Module):
    def __init__(self, width, heads, context, dropout, gelu):
        super().__init__()
        self.heads, self.dropout, self.gelu = heads, dropout, gelu
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("hidden", torch.full((context, context), -math.inf).triu(1))

    def attend(self, x):
        rows, context, width = x.shape
        query, key, value = self.qkv(x).view(rows, context, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(-1, -2) * (1 / math.sqrt(width // self.heads))
            y = torch.softmax(scores + self.hidden, -1) @ value
        return self.project(y.transpose(1, 2).reshape(rows, context, width))

    def forward(self, x):
        x = x + F.dropout(self.attend(self.norm1(x)), self.dropout)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate=self.gelu)), self.dropout)


class Gpt(nn.Module):
    def __init__(self, width=64, heads=4, layers=2, context=64, vocabulary=128, dropout=0.0, gelu="none"):
        super().__init__()
        self.dropout = dropout
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = nn.Sequential(*(GptBlock(width, heads, context, dropout, gelu) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, characters):
        return self.norm(self.blocks(F.dropout(self.wte(characters) + self.wpe, self.dropout))) @ self.wte.weight.T


def gpt2(context=1024):
    return Gpt(768, 12, 12, context, 50257, 0.1, "tanh")


class Lstm(nn.Module):
    def __init__(self, units=128, width=32, vocabulary=128):
        super().__init__()
        self.embed, self.state = nn.Embedding(vocabulary, width), nn.LSTM(width, units, batch_first=True)
        self.logits = nn.Linear(units, vocabulary)

    def forward(self, characters):
        return self.logits(self.state(self.embed(characters))[0])


def two_convolutions(channels, filters):
    return nn.Sequential(nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(), nn.Conv2d(filters, filters, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    """Logits of the pixels of images, behind noise that it adds."""

    def __init__(self, width=8, noise=0.5):
        super().__init__()
        self.noise = noise
        self.down1, self.down2 = two_convolutions(1, width), two_convolutions(width, 2 * width)
        self.bottom = two_convolutions(2 * width, 4 * width)
        self.up2, self.up1 = two_convolutions(6 * width, 2 * width), two_convolutions(3 * width, width)
        self.logits = nn.Conv2d(width, 1, 1)

    def forward(self, images):
        def joined(x, skipped):
            return torch.cat([F.interpolate(x, scale_factor=2, mode="bilinear"), skipped], 1)
        large = self.down1(images + self.noise * torch.randn_like(images))
        half = self.down2(F.max_pool2d(large, 2))
        half = self.up2(joined(self.bottom(F.max_pool2d(half, 2)), half))
        return self.logits(self.up1(joined(half, large)))


def characters(path):
    """What the GPT reads, and what follows each character: the rows of `path`, a few times over."""
    rows = torch.from_numpy(np.load(path).astype(np.int64)).repeat(4, 1)
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
