"""PyTorch's side of the training benchmark: steps/s of one net after a warm-up.
Usage: torch_steps.py NET THREADS LAYOUT STEPS [MODE]

NET is lenet, mlp or mlp_small; LAYOUT contiguous or channels_last; MODE cpu, cuda, or cuda-compiled (torch.compile,
reduce-overhead), in plain float32, or tf32 with `-tf32` behind it. Everything that helps is done: the whole training set is
converted beforehand and lies on the device, batches are slices of it, gradients are set to None, and the loss is read every
20th step only. Prints one number.
"""
import gzip
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

net, threads, layout, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
mode = sys.argv[5] if len(sys.argv) > 5 else "cpu"
device = "cuda" if mode.startswith("cuda") else "cpu"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode.endswith("-tf32")
torch.backends.cudnn.benchmark = True
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
model, images, labels = model.to(device), images.to(device), labels.to(device)
if layout == "channels_last":
    model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
for p in model.parameters():
    torch.nn.init.trunc_normal_(p, std=0.1) if p.dim() > 1 else torch.nn.init.zeros_(p)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = 32 if net == "mlp_small" else 100


def forward(x, y):
    return F.cross_entropy(model(x), y, reduction="none")


if "compiled" in mode:
    forward = torch.compile(forward, mode="reduce-overhead")


def step(s):
    first = s * batch % (len(images) - batch + 1) // batch * batch
    loss = forward(images[first:first + batch], labels[first:first + batch])
    optimizer.zero_grad(set_to_none=True)
    loss.mean().backward()
    optimizer.step()
    if s % 20 == 0:
        loss.mean().item()


warm = max(10, steps // 10)
def wait():
    if device == "cuda":
        torch.cuda.synchronize()


for s in range(warm):
    step(s)
wait()
start = time.perf_counter()
for s in range(warm, warm + steps):
    step(s)
wait()
print(steps / (time.perf_counter() - start))
