#!/usr/bin/env python3
"""Training steps per second on a GPU beside PyTorch there, interleaved in one run; what a watch costs; time to the first step.

Usage: tests/bench/gpu_bench.py [--bin DIR] [--torch PYTHON] [--rounds N] [--nets NET,...] [--out FILE]

PyTorch runs eager, compiled, and with each whole step captured in one graph. Figures are medians over the rounds; each round runs every contestant once,
in turn, after a warm-up of its own. PyTorch's processes are started beforehand, compile, and wait for their turns: all of a net together, or, where
they do not fit on the device together, one after another. A call's time beside that of its steps says what is lost between them; steps are
timed by `--profile`, one after another and without a graph.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import threading
from typing import NamedTuple

import numpy as np

from train_bench import SOURCE, flow_run, output

HERE = pathlib.Path(__file__).resolve().parent

READY_SECONDS = 180  # then a compiler hangs
PRECISIONS = {"float32": "", "tf32": "-tf32", "mixed_bfloat16": "-bfloat16"}  # what PyTorch's mode has behind it
KINDS = {"eager": "cuda", "compiled": "cuda-compiled", "graph": "cuda-graph"}


class Net(NamedTuple):
    job: str
    steps: int  # of flow in a round
    torch_steps: int
    precisions: tuple = tuple(PRECISIONS)
    layouts: dict = {}  # by kind; others are contiguous
    words: tuple = ()  # of flowrun
    function: str = "train"  # of the job file
    precision: str = "+jobs.train.precision"  # what sets it
    watched: str = ""
    large: bool = False  # PyTorch's processes do not fit on the device together


EITHER = ("contiguous", "channels_last")
IMAGES = tempfile.TemporaryDirectory()  # for resnet50, as many as PyTorch's side has
IMAGENET = tuple(word for column in ("images", "labels") for word in ("--set", f"data.imagenet.{column}.npy={IMAGES.name}/{column}.npy"))
NETS = {
    "mlp": Net("mlp.yaml", 12000, 3000, watched="mlp:1"),  # what a disk takes at that rate: 4 kB a step
    "lenet": Net("lenet.yaml", 6000, 1500, layouts={"eager": EITHER, "graph": EITHER}, watched="lenet/dense1:1"),  # 200 kB a step
    "resnet50": Net("resnet50.yaml", 40, 40, ("mixed_bfloat16",), dict.fromkeys(KINDS, ("channels_last",)), IMAGENET, "train_imagenet", "vars.precision", large=True),
    "gpt2": Net("gpt2.yaml", 60, 60, ("mixed_bfloat16",), words=("--set", "jobs.train.run={steps: 1000000}"), precision="vars.precision",
                large=True),
    "resnet18": Net("resnet18.yaml", 400, 200, ("mixed_bfloat16",), dict.fromkeys(KINDS, ("channels_last",))),
}


class Torch:
    """PyTorch's side of one figure, in the faster of its layouts: a process for each, which sleeps between its turns."""

    def __init__(self, python, net, kind, precision):
        self.said = tempfile.TemporaryFile("w+")
        few_threads = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"}  # several compile at once
        self.processes = [subprocess.Popen([python, str(HERE / "torch_steps.py"), net, "1", layout, str(NETS[net].torch_steps),
                                            KINDS[kind] + PRECISIONS[precision], "each-line"],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True, env=few_threads)
                          for layout in NETS[net].layouts.get(kind, ("contiguous",))]

    def answer(self, process):
        line = process.stdout.readline()
        if not line:
            self.said.seek(0)
            raise RuntimeError(f"{' '.join(process.args[1:])} ended: {self.said.read()[-2000:]}")
        return line.strip()

    def await_ready(self):
        for process in self.processes:
            late = threading.Timer(READY_SECONDS, process.kill)
            late.start()
            try:
                self.answer(process)
            finally:
                late.cancel()

    def rate(self):
        rates = []
        for process in self.processes:
            print(file=process.stdin, flush=True)
            rates.append(float(self.answer(process)))
        return max(rates)

    def end(self):
        for process in self.processes:
            process.kill()
            process.communicate()


def write_images():
    """Random ones."""
    draw = np.random.default_rng(1)
    np.save(f"{IMAGES.name}/images.npy", draw.integers(256, size=(1024, 3, 224, 224), dtype=np.uint8))
    np.save(f"{IMAGES.name}/labels.npy", draw.integers(1000, size=1024, dtype=np.int32))


def of_precision(net, precision):
    return "--set", f"{NETS[net].precision}={precision}"


def flow(binaries, net, steps, *words):
    """(steps/s after a warm-up, seconds from process start to the end of the first step)"""
    return flow_run(binaries, NETS[net].job, steps, "--device", "gpu", *NETS[net].words, *words, function=NETS[net].function)[:2]


def seconds_of_steps(binaries, net, precision):
    """What the steps of a call take, each by itself."""
    calls = min(200, NETS[net].steps)
    with tempfile.TemporaryDirectory() as folder:
        output(binaries / "flowrun", NETS[net].function, SOURCE / "jobs" / NETS[net].job, "-o", f"{folder}/out", "--steps", calls, "--quiet",
               "--device", "gpu", "--profile", *NETS[net].words, *of_precision(net, precision))
        job, = json.load(open(f"{folder}/out/profile.json"))["jobs"]
    return sum(step["median"] * step["calls"] / calls for step in job["steps"])


def rivals_of(net):
    """name -> (kind, precision) of what PyTorch runs"""
    return {f"torch {kind} {precision}": (kind, precision) for precision in NETS[net].precisions for kind in KINDS}


def flow_contestants(options, net):
    """name -> one run's steps/s"""
    steps = NETS[net].steps
    made = {f"flow {precision}": lambda precision=precision: flow(options.bin, net, steps, *of_precision(net, precision))[0]
            for precision in NETS[net].precisions}
    if NETS[net].watched:
        made["flow float32, a watch each step"] = lambda: flow(options.bin, net, steps // 4, "--watch", NETS[net].watched)[0]
        made["flow float32, --eager"] = lambda: flow(options.bin, net, steps // 4, "--eager")[0]
    return made


FAILURES = (RuntimeError, BrokenPipeError, subprocess.CalledProcessError)  # of PyTorch's processes, and of ours


class Measurement:
    """The figures of a net: name -> value, each printed once it is known."""

    def __init__(self, options, net, figures):
        self.options, self.net, self.figures = options, net, figures
        self.ours = flow_contestants(options, net)
        self.rates = {}

    def add(self, name, value):
        self.figures[name] = value
        print(f"{self.net:8} {name:40} {value:10.4g}", flush=True)

    def drop(self, name, error):
        """Goes on without a contestant."""
        said = error.stderr[-2000:] if isinstance(error, subprocess.CalledProcessError) else ""
        print(f"{self.net:8} {name}: {error} {said}", flush=True)

    def run_group(self, rivals):
        """Rounds of ours and of these of PyTorch's, name -> (kind, precision)."""
        torches = {name: Torch(self.options.torch, self.net, *rival) for name, rival in rivals.items()}
        runs = dict(self.ours)
        for name, torch in torches.items():
            try:
                torch.await_ready()
                runs[name] = torch.rate
            except RuntimeError as error:
                self.drop(name, error)
        rates = {name: [] for name in runs}
        for _ in range(self.options.rounds):
            for name in list(runs):
                try:
                    rates[name].append(runs[name]())
                except FAILURES as error:
                    self.drop(name, error)
                    del runs[name], rates[name]
        for torch in torches.values():
            torch.end()
        for name, measured in rates.items():
            self.rates.setdefault(name, []).extend(measured)
            if name in rivals:
                self.add(name, statistics.median(measured))
                own = rates.get(f"flow {rivals[name][1]}")
                if own:
                    self.add(f"flow / {name}", statistics.median(a / b for a, b in zip(own, measured)))

    def run(self):
        rivals = rivals_of(self.net) if self.options.torch else {}
        groups = [{name: rival} for name, rival in rivals.items()] if NETS[self.net].large else [rivals]
        for group in groups or [{}]:
            self.run_group(group)
        for name in self.ours:
            if name in self.rates:
                self.add(name, statistics.median(self.rates[name]))
        precision = NETS[self.net].precisions[0]
        try:
            if f"flow {precision}" in self.figures:
                steps = seconds_of_steps(self.options.bin, self.net, precision)
                self.add(f"a call / its steps, {precision}", 1 / self.figures[f"flow {precision}"] / steps)
            if not NETS[self.net].large:
                firsts = (flow(self.options.bin, self.net, 20)[1] for _ in range(self.options.rounds))
                self.add("first step, seconds", statistics.median(firsts))
        except FAILURES as error:
            self.drop("what a call takes", error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "release" / "bin")
    parser.add_argument("--torch", default="python3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--out")
    options = parser.parse_args()
    if subprocess.run([options.torch, "-c", "import torch; assert torch.cuda.is_available()"], capture_output=True).returncode != 0:
        options.torch = ""
    table = {}
    if "resnet50" in options.nets.split(","):
        write_images()
    for net in options.nets.split(","):
        table[net] = {}
        Measurement(options, net, table[net]).run()
        if options.out:
            pathlib.Path(options.out).write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
