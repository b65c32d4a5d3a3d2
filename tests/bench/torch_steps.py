"""PyTorch's side of the training benchmark: steps/s of one net after a warm-up.
Usage: torch_steps.py NET THREADS LAYOUT STEPS [MODE [each-line]]

NET is lenet, mlp, mlp_small, resnet18 (16 filters in its first stage) or gpt_tiny; LAYOUT contiguous or channels_last; MODE cpu, cuda, or cuda-compiled (torch.compile,
reduce-overhead), in plain float32, tf32 with `-tf32` behind it, or under bfloat16's autocast with `-bfloat16`. Everything that helps is done: the whole training set is
converted beforehand and lies on the device, batches are slices of it, gradients are set to None, and the loss is read every
20th step only. Prints one number; with `each-line` "ready" once it has started and compiled, and then one for each line that it reads.
"""
import gzip
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import torch_nets

net, threads, layout, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
mode = sys.argv[5] if len(sys.argv) > 5 else "cpu"
device = "cuda" if mode.startswith("cuda") else "cpu"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode.endswith("-tf32")
torch.backends.cudnn.benchmark = True
torch.set_num_threads(threads)
torch.set_flush_denormal(True)
torch.manual_seed(1)
SOURCE = pathlib.Path(__file__).resolve().parents[2]
DATA = SOURCE / "jobs" / "data" / "mnist"
with gzip.open(DATA / "train-images-idx3-ubyte.gz") as f:
    images = torch.from_numpy((np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28) * (1 / 255)).astype(np.float32))
with gzip.open(DATA / "train-labels-idx1-ubyte.gz") as f:
    labels = torch.from_numpy(np.frombuffer(f.read(), np.uint8, offset=8).astype(np.int64))

if net == "lenet":
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(3136, 512), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(512, 10))
elif net == "resnet18":
    model = torch_nets.resnet18(16)
elif net == "gpt_tiny":
    model = torch_nets.Gpt()
else:
    hidden = 512 if net == "mlp" else 32
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
model, images, labels = model.to(device), images.to(device), labels.to(device)
if layout == "channels_last":
    model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
if net == "gpt_tiny":
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, foreach=True)
    images, labels = (t.to(device) for t in torch_nets.characters(SOURCE / "jobs" / "data" / "prose" / "windows.npy"))
elif net == "resnet18":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, foreach=True)
else:
    for p in model.parameters():
        torch.nn.init.trunc_normal_(p, std=0.1) if p.dim() > 1 else torch.nn.init.zeros_(p)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = 32 if net in ("mlp_small", "gpt_tiny") else 100


def forward(x, y):
    with torch.autocast(device, torch.bfloat16, enabled=mode.endswith("-bfloat16")):
        logits = model(x).float()
    return F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none")


if "compiled" in mode:
    forward = torch.compile(forward, mode="reduce-overhead")


def step(s):
    first = s * batch % (len(images) - batch + 1) // batch * batch
    loss = forward(images[first:first + batch], labels[first:first + batch])
    optimizer.zero_grad(set_to_none=True)
    loss.mean().backward()
    if net == "gpt_tiny":
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if s % 20 == 0:
        loss.mean().item()


def seconds(count):
    """What so many steps take."""
    start = time.perf_counter()
    for s in range(count):
        step(s)
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def warm_up():
    """The first one compiles and chooses algorithms."""
    seconds(max(10, steps // 10))


def rate():
    warm_up()
    return steps / seconds(steps)


if sys.argv[6:] == ["each-line"]:
    warm_up()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(rate(), flush=True)
else:
    print(rate())
