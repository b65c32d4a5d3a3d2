"""PyTorch's side of the training benchmarks: steps/s of one net after a warm-up.
Usage: torch_steps.py NET THREADS LAYOUT STEPS [MODE [each-line]]

NET is lenet, mlp, mlp_small, resnet18 (resnet18-16: 16 filters in its first stage), resnet50, gpt_tiny, gpt2 (gpt2-128: 2 rows of 128 tokens),
lstm_text or unet. LAYOUT is contiguous or channels_last.
MODE is cpu, cuda, cuda-compiled (torch.compile, reduce-overhead) or cuda-graph (a whole step in one torch.cuda.graph); in plain float32, in tf32 with
`-tf32` behind it, or under bfloat16's autocast with `-bfloat16`. Everything that helps is done: the training set is converted beforehand and lies on
the device, batches are slices of it, optimizers are fused where PyTorch has it, gradients are set to None, and the loss is read every 20th step only.
Prints one number; with `each-line` "ready" once it has started and compiled, and then one for each line that it reads.
"""
import gzip
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import torch_nets

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DATA = SOURCE / "jobs" / "data"
BATCH = {"mlp_small": 32, "gpt_tiny": 32, "gpt2": 8, "gpt2-128": 2, "lstm_text": 32, "unet": 50, "resnet50": 256}  # of others 100
ADAMW = {"gpt_tiny": 1e-3, "gpt2": 6e-4, "gpt2-128": 6e-4}  # learning rates
ADAM = {"lstm_text": 5e-3, "unet": 3e-3}  # others are trained by SGD
CLIPPED = {*ADAMW, "lstm_text"}


def read_idx(name, header):
    with gzip.open(DATA / "mnist" / name) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def load(net):
    """Inputs and labels of a training set: MNIST, the prose of gpt_tiny, or random ones."""
    if net in ("gpt_tiny", "lstm_text"):
        return torch_nets.characters(DATA / "prose" / "windows.npy")
    if net.startswith("gpt2"):
        tokens = torch.randint(50257, (512, 129 if net == "gpt2-128" else 1025))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    if net == "resnet50":
        return torch.rand(1024, 3, 224, 224) * 4 - 2, torch.randint(1000, (1024,))
    images = (read_idx("train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28) * (1 / 255)).astype(np.float32)
    if net == "unet":
        return torch.from_numpy(images), torch.from_numpy((images > 0.5).astype(np.float32))
    return torch.from_numpy(images), torch.from_numpy(read_idx("train-labels-idx1-ubyte.gz", 8).astype(np.int64))


def make_perceptron(hidden):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))


def make_lenet():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(3136, 512), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(512, 10))


MODELS = {
    "lenet": make_lenet, "mlp": lambda: make_perceptron(512), "mlp_small": lambda: make_perceptron(32),
    "resnet18": lambda: torch_nets.resnet18(64), "resnet18-16": lambda: torch_nets.resnet18(16), "resnet50": torch_nets.resnet50,
    "gpt_tiny": torch_nets.Gpt, "gpt2": torch_nets.gpt2,
    "gpt2-128": lambda: torch_nets.gpt2(128), "lstm_text": torch_nets.Lstm, "unet": torch_nets.UNet,
}


class Training:
    """A net, its data and its optimizer."""

    def __init__(self, net, layout, mode):
        self.net, self.mode = net, mode
        self.device = "cuda" if mode.startswith("cuda") else "cpu"
        self.batch = BATCH.get(net, 100)
        self.model = MODELS[net]().to(self.device)
        self.inputs, self.labels = (tensor.to(self.device) for tensor in load(net))
        if layout == "channels_last":
            self.model, self.inputs = (one.to(memory_format=torch.channels_last) for one in (self.model, self.inputs))
        self.optimizer = self.make_optimizer()
        self.losses = torch.compile(self.forward, mode="reduce-overhead") if "compiled" in mode else self.forward
        self.graph = None

    def make_optimizer(self):
        parameters = self.model.parameters()
        fast = {"fused": True} if self.device == "cuda" else {"foreach": True}
        if self.net in ADAMW:
            captured = {"capturable": True} if "graph" in self.mode else {}
            return torch.optim.AdamW(parameters, lr=ADAMW[self.net], weight_decay=0.1, **fast, **captured)
        if self.net in ADAM:
            return torch.optim.Adam(parameters, lr=ADAM[self.net], **fast)
        if self.net.startswith("resnet"):
            return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-4, **fast)
        for p in self.model.parameters():
            torch.nn.init.trunc_normal_(p, std=0.1) if p.dim() > 1 else torch.nn.init.zeros_(p)
        return torch.optim.SGD(parameters, lr=0.1, **(fast if self.device == "cuda" else {}))

    def forward(self, x, y):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.mode.endswith("-bfloat16")):
            logits = self.model(x).float()
        if y.is_floating_point():
            return F.binary_cross_entropy_with_logits(logits, y, reduction="none")
        return F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none")

    def train(self, x, y):
        """The mean loss of a step."""
        loss = self.losses(x, y).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.net in CLIPPED:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def capture(self):
        """A whole step on one batch, whose memory later batches are copied to. First some steps beside the graph, as PyTorch's manual asks."""
        self.x, self.y = (tensor[:self.batch].clone() for tensor in (self.inputs, self.labels))
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(3):
                self.train(self.x, self.y)
        torch.cuda.current_stream().wait_stream(beside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.train(self.x, self.y)

    def step(self, s):
        first = s * self.batch % (len(self.inputs) - self.batch + 1) // self.batch * self.batch
        x, y = (tensor[first:first + self.batch] for tensor in (self.inputs, self.labels))
        if self.graph:
            self.x.copy_(x), self.y.copy_(y)
            self.graph.replay()
            loss = self.loss
        else:
            loss = self.train(x, y)
        if s % 20 == 0:
            loss.item()

    def seconds(self, steps):
        """Seconds that this many steps take."""
        start = time.perf_counter()
        for s in range(steps):
            self.step(s)
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start


def main():
    net, threads, layout, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    mode = sys.argv[5] if len(sys.argv) > 5 else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode.endswith("-tf32")
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    training = Training(net, layout, mode)
    if "graph" in mode:
        training.capture()

    def warm_up():
        """The first one compiles and chooses algorithms."""
        training.seconds(max(min(10, steps), steps // 10))

    def rate():
        warm_up()
        return steps / training.seconds(steps)

    if sys.argv[6:] == ["each-line"]:
        warm_up()
        print("ready", flush=True)
        for _ in sys.stdin:
            print(rate(), flush=True)
    else:
        print(rate())


if __name__ == "__main__":
    main()
