#!/usr/bin/env python3
"""Training steps per second on a GPU beside PyTorch there, eager and compiled, interleaved in one run; what a watch costs; time to the first step.

Usage: tests/bench/gpu_bench.py [--bin DIR] [--torch PYTHON] [--rounds N] [--out FILE]

Figures are medians over the rounds; each round runs every contestant once, in turn, after a warm-up of its own. PyTorch's processes are
started beforehand, all together, compile, and wait for their turns. A call's time beside that of its steps says what is lost between them; steps are timed by
`--profile`, one after another and without a graph.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import threading

from train_bench import SOURCE, flow_run, output

HERE = pathlib.Path(__file__).resolve().parent

NETS = {"lenet": ("lenet.yaml", 6000, 1500), "mlp": ("mlp.yaml", 12000, 3000)}  # job file, steps of ours, steps of PyTorch
LAYOUTS = {"lenet": ("contiguous", "channels_last"), "mlp": ("contiguous",)}
WATCHED = {"lenet": "lenet/dense1:1", "mlp": "mlp:1"}  # what a disk takes at that rate: 200 kB, 4 kB a step
READY_SECONDS = 120  # then a compiler hangs
PRECISIONS = {"float32": "", "tf32": "-tf32", "mixed_bfloat16": "-bfloat16"}  # what PyTorch's mode has behind it
KINDS = {"eager": "cuda", "compiled": "cuda-compiled"}


class Torch:
    """PyTorch's side of one figure, in the faster of its layouts: a process for each, which sleeps between its turns."""

    def __init__(self, python, net, mode):
        self.said = tempfile.TemporaryFile("w+")
        few_threads = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"}  # all compile at once
        self.processes = [subprocess.Popen([python, str(HERE / "torch_steps.py"), net, "1", layout, str(NETS[net][2]), mode, "each-line"],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True, env=few_threads)
                          for layout in LAYOUTS[net]]

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


def flow(binaries, net, steps, *words):
    """(steps/s after a warm-up, seconds from process start to the end of the first step)"""
    return flow_run(binaries, NETS[net][0], steps, "--device", "gpu", *words)[:2]


def of_precision(precision):
    return "--set", f"+jobs.train.precision={precision}"


def seconds_of_steps(binaries, net):
    """What the steps of a call take, each by itself."""
    with tempfile.TemporaryDirectory() as folder:
        output(binaries / "flowrun", "train", SOURCE / "jobs" / NETS[net][0], "-o", f"{folder}/out", "--steps", 200, "--quiet",
               "--device", "gpu", "--profile")
        job, = json.load(open(f"{folder}/out/profile.json"))["jobs"]
    return sum(step["median"] * step["calls"] / 200 for step in job["steps"])


def contestants(options, net, torches):
    """name -> steps/s of one run, in the order in which a round runs them"""
    steps = NETS[net][1]
    for precision in PRECISIONS:
        yield f"flow {precision}", lambda precision=precision: flow(options.bin, net, steps, *of_precision(precision))[0]
        for kind in KINDS:
            name = f"torch {kind} {precision}"
            if name in torches:
                yield name, torches[name].rate
    yield "flow float32, a watch each step", lambda: flow(options.bin, net, steps // 4, "--watch", WATCHED[net])[0]
    yield "flow float32, --eager", lambda: flow(options.bin, net, steps // 4, "--eager")[0]


def told(net, name, value):
    print(f"{net:6} {name:40} {value:10.4g}", flush=True)


def drop(net, name, torches, error):
    """Goes on without a contestant."""
    said = error.stderr[-2000:] if isinstance(error, subprocess.CalledProcessError) else ""
    print(f"{net:6} {name}: {error} {said}", flush=True)
    if name in torches:
        torches.pop(name).end()


def start_torches(options, net):
    """Those that come up, by name; what became of the others is said."""
    if not options.torch:
        return {}
    torches = {f"torch {kind} {precision}": Torch(options.torch, net, mode + tail)
               for precision, tail in PRECISIONS.items() for kind, mode in KINDS.items()}
    for name, torch in list(torches.items()):
        try:
            torch.await_ready()
        except RuntimeError as error:
            drop(net, name, torches, error)
    return torches


FAILURES = (RuntimeError, BrokenPipeError, subprocess.CalledProcessError)  # of PyTorch's processes, and of ours


def measure(options, net, figures):
    """Fills in name -> figure, and tells each once it is known."""
    torches = start_torches(options, net)
    rates = {name: [] for name, _ in contestants(options, net, torches)}
    dropped = set()
    for _ in range(options.rounds):
        for name, run in contestants(options, net, torches):
            if name in dropped:
                continue
            try:
                rates[name].append(run())
            except FAILURES as error:
                drop(net, name, torches, error)
                dropped.add(name)
    for torch in torches.values():
        torch.end()

    def add(name, value):
        figures[name] = value
        told(net, name, value)

    def ratio(name, other):
        if not dropped & {name, other} and other in rates:
            add(f"flow / {other}", statistics.median(a / b for a, b in zip(rates[name], rates[other])))

    for name in rates:
        if name not in dropped:
            add(name, statistics.median(rates[name]))
    for precision in PRECISIONS:
        for kind in KINDS:
            ratio(f"flow {precision}", f"torch {kind} {precision}")
    try:
        if "flow float32" in figures:
            add("a call / its steps, float32", 1 / figures["flow float32"] / seconds_of_steps(options.bin, net))
        add("first step, seconds", statistics.median(flow(options.bin, net, 20)[1] for _ in range(options.rounds)))
    except FAILURES as error:
        drop(net, "what a call takes", torches, error)


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
        table[net] = {}
        measure(options, net, table[net])
        if options.out:
            pathlib.Path(options.out).write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
