"""PyTorch's side of the training benchmark: steps/s of one net after a warm-up. Usage: torch_steps.py NET THREADS LAYOUT STEPS

NET is lenet, mlp or mlp_small; LAYOUT contiguous or channels_last. Everything that helps is done: the whole training set is
converted beforehand, batches are slices of it, gradients are set to None, and the loss is read every 20th step only.
Prints one number.
"""
import gzip
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

net, threads, layout, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
torch.set_num_threads(threads)
torch.set_flush_denormal(True)
torch.manual_seed(1)
DATA = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "data" / "mnist"
with gzip.open(DATA / "train-images-idx3-ubyte.gz") as f:
    images = torch.from_numpy((np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28) * (1 / 255)).astype(np.float32))
with gzip.open(DATA / "train-labels-idx1-ubyte.gz") as f:
    labels = torch.from_numpy(np.frombuffer(f.read(), np.uint8, offset=8).astype(np.int64))

if net == "lenet":
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(3136, 512), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(512, 10))
else:
    hidden = 512 if net == "mlp" else 32
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
if layout == "channels_last":
    model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
for p in model.parameters():
    torch.nn.init.trunc_normal_(p, std=0.1) if p.dim() > 1 else torch.nn.init.zeros_(p)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = 32 if net == "mlp_small" else 100


def step(s):
    first = s * batch % (len(images) - batch + 1) // batch * batch
    loss = F.cross_entropy(model(images[first:first + batch]), labels[first:first + batch], reduction="none")
    optimizer.zero_grad(set_to_none=True)
    loss.mean().backward()
    optimizer.step()
    if s % 20 == 0:
        loss.mean().item()


warm = max(10, steps // 10)
for s in range(warm):
    step(s)
start = time.perf_counter()
for s in range(warm, warm + steps):
    step(s)
print(steps / (time.perf_counter() - start))
