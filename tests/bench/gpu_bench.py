#!/usr/bin/env python3
"""Training steps per second on a GPU beside PyTorch there, eager and compiled, interleaved in one run; what a watch costs; time to the first step.

Usage: tests/bench/gpu_bench.py [--bin DIR] [--torch PYTHON] [--rounds N] [--out FILE]

Figures are medians over the rounds; each round runs every contestant once, in turn.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

from train_bench import flow_run

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]

NETS = {"lenet": ("lenet.yaml", 6000, 1500), "mlp": ("mlp.yaml", 12000, 3000)}  # job file, steps of ours, steps of PyTorch
WATCHED = {"lenet": "lenet/conv1:1", "mlp": "mlp/hidden:1"}
PRECISIONS = {"float32": "", "tf32": "-tf32", "mixed_bfloat16": "-bfloat16"}  # what PyTorch's mode has behind it


def flow(binaries, net, steps, *words):
    """(steps/s after a warm-up, seconds from process start to the end of the first step)"""
    return flow_run(binaries, NETS[net][0], steps, "--device", "gpu", *words)[:2]


def torch_rate(python, net, mode):
    layouts = ("contiguous", "channels_last") if net == "lenet" else ("contiguous",)
    rates = [float(subprocess.run([python, str(HERE / "torch_steps.py"), net, "1", layout, str(NETS[net][2]), mode], check=True,
                                  capture_output=True, text=True).stdout) for layout in layouts]
    return max(rates)


def contestants(options, net):
    """name -> steps/s of one run, in the order in which a round runs them"""
    steps = NETS[net][1]
    for precision, tail in PRECISIONS.items():
        sets = ("--set", f"+jobs.train.precision={precision}")
        yield f"flow {precision}", lambda sets=sets: flow(options.bin, net, steps, *sets)[0]
        if options.torch:
            yield f"torch eager {precision}", lambda tail=tail: torch_rate(options.torch, net, "cuda" + tail)
            yield f"torch compiled {precision}", lambda tail=tail: torch_rate(options.torch, net, "cuda-compiled" + tail)
    yield "flow float32, a watch each step", lambda: flow(options.bin, net, steps // 4, "--watch", WATCHED[net])[0]
    yield "flow float32, --eager", lambda: flow(options.bin, net, steps // 4, "--eager")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "release" / "bin")
    parser.add_argument("--torch", default="python3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    if subprocess.run([options.torch, "-c", "import torch; assert torch.cuda.is_available()"], capture_output=True).returncode != 0:
        options.torch = ""
    table = {}
    for net in NETS:
        rates = {name: [] for name, _ in contestants(options, net)}
        for _ in range(options.rounds):
            for name, run in contestants(options, net):
                rates[name].append(run())
        first = statistics.median(flow(options.bin, net, 20)[1] for _ in range(options.rounds))
        table[net] = {**{name: statistics.median(r) for name, r in rates.items()}, "first step, seconds": first}
        for name, value in table[net].items():
            print(f"{net:6} {name:34} {value:10.4g}", flush=True)
    if options.out:
        json.dump(table, open(options.out, "w"), indent=1)


if __name__ == "__main__":
    main()
