#!/usr/bin/env python3
"""Five steps of ../ddp.yaml by PyTorch on two shards of each batch. Writes ../ddp.npz.

Usage: make.py (PyTorch with gloo, NumPy)

`ddp` comes from DistributedDataParallel on two processes, `accumulation` from one process that adds the gradients of the two shards.
"""
import pathlib
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

OUT = pathlib.Path(__file__).resolve().parents[1] / "ddp.npz"
STEPS, BATCH, SHARDS, SEED = 5, 8, 2, 7
ROWS = BATCH // SHARDS
RATE, MOMENTUM = 0.1, 0.9
CHANNELS, FILTERS, CLASSES, SIDE = 2, 4, 5, 6
NAMES = {"conv.weight": "conv/weight", "conv.bias": "conv/bias", "bn.weight": "bn/gamma", "bn.bias": "bn/beta",
         "linear.weight": "linear/weight", "linear.bias": "linear/bias"}


def load(name):
    with np.load(OUT) as file:
        return file[name]


def make_inputs():
    """Starts the archive: float32 numbers in every precision."""
    random = np.random.default_rng(SEED)
    arrays = {}
    arrays["data/images"] = random.uniform(-1, 1, (STEPS * BATCH, CHANNELS, SIDE, SIDE)).astype(np.float32)
    arrays["data/labels"] = random.integers(0, CLASSES, STEPS * BATCH).astype(np.int32)
    shapes = {"conv/weight": (FILTERS, CHANNELS, 3, 3), "conv/bias": (FILTERS,), "bn/gamma": (FILTERS,), "bn/beta": (FILTERS,),
              "linear/weight": (CLASSES, FILTERS * (SIDE // 2)**2), "linear/bias": (CLASSES,)}
    for name, shape in shapes.items():
        arrays["initial/net/" + name] = ((name == "bn/gamma") + random.uniform(-0.5, 0.5, shape)).astype(np.float32)
    arrays["initial/net/bn/moving_mean"] = np.zeros(FILTERS, np.float32)
    arrays["initial/net/bn/moving_variance"] = np.ones(FILTERS, np.float32)
    np.savez(OUT, **arrays)


class Net(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.conv = torch.nn.Conv2d(CHANNELS, FILTERS, 3, stride=2, padding=1)
        self.bn = torch.nn.BatchNorm2d(FILTERS)
        self.linear = torch.nn.Linear(FILTERS * (SIDE // 2)**2, CLASSES)
        self.to(dtype)
        with torch.no_grad():
            for theirs, ours in NAMES.items():
                self.get_parameter(theirs).copy_(torch.from_numpy(load("initial/net/" + ours)))

    def forward(self, x):
        x = self.conv(x)
        self.statistics = [x.detach().mean((0, 2, 3)).numpy(), x.detach().var((0, 2, 3), unbiased=False).numpy()]
        return self.linear(F.relu(self.bn(x)).flatten(1))


def shard_of(step, shard, dtype):
    first = step * BATCH + shard * ROWS
    images, labels = load("data/images")[first:first + ROWS], load("data/labels")[first:first + ROWS]
    return torch.tensor(images, dtype=dtype), torch.tensor(labels, dtype=torch.int64)


def train(net, model, dtype, shards):
    """Losses (step, row), statistics (step, shard, mean or variance, channel) of these shards, gradients of step 0, optimizer."""
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    losses, statistics, gradients = [], [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append([])
        statistics.append([])
        for shard in shards:
            images, labels = shard_of(step, shard, dtype)
            loss = F.cross_entropy(model(images), labels, reduction="none")
            (loss.mean() / len(shards)).backward()
            losses[-1].extend(loss.detach().numpy())
            statistics[-1].append(net.statistics)
        if step == 0:  # of the sum of the losses, as flow delivers gradients
            gradients = {ours: net.get_parameter(theirs).grad.numpy() * BATCH for theirs, ours in NAMES.items()}
        optimizer.step()
    return np.array(losses), np.array(statistics), gradients, optimizer


def save_run(folder, net, losses, statistics, gradients, optimizer):
    with np.load(OUT) as file:
        arrays = dict(file)
    arrays[f"{folder}/returns/loss/value"] = losses
    arrays[f"{folder}/statistics"] = statistics
    for theirs, ours in NAMES.items():
        parameter = net.get_parameter(theirs)
        arrays[f"{folder}/watch/net/{ours}/diff"] = gradients[ours][None]
        arrays[f"{folder}/checkpoint/net/{ours}"] = parameter.detach().numpy()
        arrays[f"{folder}/checkpoint/net/{ours}/momentum"] = optimizer.state[parameter]["momentum_buffer"].numpy()
    np.savez(OUT, **arrays)


def run_rank(rank, rendezvous, dtype, folder):
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=SHARDS)
    torch.set_num_threads(1)
    net = Net(dtype)
    losses, statistics, gradients, optimizer = train(net, torch.nn.parallel.DistributedDataParallel(net), dtype, [rank])
    parts = [None] * SHARDS
    torch.distributed.all_gather_object(parts, (losses, statistics))
    if rank == 0:
        losses, statistics = (np.concatenate(part, axis=1) for part in zip(*parts))
        save_run(folder, net, losses, statistics, gradients, optimizer)
    torch.distributed.destroy_process_group()


def main():
    make_inputs()
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        with tempfile.TemporaryDirectory() as rendezvous:
            torch.multiprocessing.spawn(run_rank, (f"{rendezvous}/file", dtype, f"ddp/{name}"), nprocs=SHARDS)
        net = Net(dtype)
        save_run(f"accumulation/{name}", net, *train(net, net, dtype, range(SHARDS)))
    losses = load("ddp/float64/returns/loss/value")
    print(f"PyTorch {torch.__version__}, mean losses: {np.round(losses.mean(1), 5)}")


if __name__ == "__main__":
    main()
