#!/usr/bin/env python3
"""Training steps per second beside PyTorch, interleaved in one run; the machine's GEMM roof; time to the first step; compile time.

Usage: tests/bench/train_bench.py [--torch PYTHON] [--rounds N] [--threads 1,2] [--nets lenet,lenet-bfloat16,mlp,mlp-bfloat16,...] [--out FILE]

PYTHON is an interpreter that has PyTorch (default: Debian's /usr/bin/python3, if it has one). Figures are medians over the rounds;
each round runs every contestant once, in turn, so that a machine whose speed drifts is fair to all. A net
with `-bfloat16` behind its name is trained with `precision: mixed_bfloat16`, by PyTorch under autocast.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
BIN = SOURCE / "build" / "release" / "bin"
OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"  # Debian's PyTorch is slow on the reference BLAS

NETS = {  # name: (job file, overrides, steps of ours, steps of PyTorch, layouts, GFLOP a step or None)
    "lenet": ("lenet.yaml", [], 120, 60, ["contiguous", "channels_last"], 7.24),
    "mlp": ("mlp.yaml", [], 3000, 1000, ["contiguous"], None),
    "mlp_small": ("mlp.yaml", ["vars.batch=32", "networks.mlp.graph.hidden.units=32"], 30000, 5000, ["contiguous"], None),
    "resnet18-16": ("resnet18.yaml", ["vars.width=16"], 40, 20, ["contiguous", "channels_last"], None),
    "gpt_tiny": ("gpt_tiny.yaml", [], 300, 150, ["contiguous"], None),
    "gpt2-128": ("gpt2.yaml", ["vars.batch=2", "vars.context=128"], 10, 10, ["contiguous"], None),
    "lstm_text": ("lstm_text.yaml", [], 300, 150, ["contiguous"], None),
    "unet": ("unet.yaml", [], 200, 100, ["contiguous", "channels_last"], None),
}
MIXED = "-bfloat16"
for name in ("lenet", "mlp", "resnet18-16", "gpt_tiny"):
    job, sets, *rest = NETS[name]
    NETS[name + MIXED] = (job, [*sets, "+jobs.train.precision=mixed_bfloat16"], *rest[:-1], None)


def output(*words, env=None):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True, env={**os.environ, **(env or {})}).stdout


def flow_run(binaries, job, steps, *words, function="train"):
    """(steps/s after a warm-up, seconds from process start to the end of the first step, peak bytes)."""
    with tempfile.TemporaryDirectory() as folder:
        output(binaries / "flowrun", function, SOURCE / "jobs" / job, "-o", f"{folder}/out", "--quiet",
               "--set", f"jobs.{function}.run={{steps: {steps}}}", *words)
        record = json.load(open(f"{folder}/out/run.json"))
        with open(f"{folder}/out/metrics.jsonl") as lines:
            seconds = [row["seconds"] for row in map(json.loads, lines) if "job" not in row]
    warm = steps // 10  # as PyTorch is given
    rate = (len(seconds) - 1 - warm) / (seconds[-1] - seconds[warm])
    return rate, record["seconds_to_first_step"], record["peak_memory_bytes"]


def flow_steps(net, threads, steps):
    job, sets, *_ = NETS[net]
    return flow_run(BIN, job, steps, "--threads", threads, *(word for s in sets for word in ("--set", s)))


def openblas_core():
    """OpenBLAS takes CPUs newer than itself for a Prescott; the name of the best kernels that this one runs."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return next((core for flag, core in (("avx512_bf16", "Cooperlake"), ("avx512f", "SkylakeX"), ("avx2", "Haswell")) if flag in flags), "")


def torch_steps(python, net, threads, steps):
    env = {"LD_LIBRARY_PATH": OPENBLAS + ":" + os.environ.get("LD_LIBRARY_PATH", ""), "OMP_NUM_THREADS": str(threads),
           "OPENBLAS_CORETYPE": openblas_core()}
    plain, mode = net.removesuffix(MIXED), "cpu-bfloat16" if net.endswith(MIXED) else "cpu"

    def rate(layout):
        return float(output(python, HERE / "torch_steps.py", plain, threads, layout, steps, mode, env=env))

    try:
        return max(map(rate, NETS[net][4]))
    except subprocess.CalledProcessError as failure:
        if failure.returncode != -signal.SIGILL:
            raise
        env["DNNL_MAX_CPU_ISA"] = "AVX512_CORE_BF16"  # its oneDNN takes tiles (AMX) that a virtual machine may hide
        return max(map(rate, NETS[net][4]))


def has_torch(python):
    return python and subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode == 0


def compile_milliseconds(rounds):
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(max(5, rounds)):
            start = time.perf_counter()
            output(BIN / "flowc", "build", SOURCE / "jobs" / "lenet.yaml", "-o", f"{folder}/plan")
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", default="/usr/bin/python3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--out")
    options = parser.parse_args()
    torch = has_torch(options.torch)
    if torch and options.torch == parser.get_default("torch") and not pathlib.Path(OPENBLAS).exists():
        parser.error("Debian's PyTorch needs OpenBLAS to be fast: install libopenblas0-openmp")
    rows = []
    for threads in map(int, options.threads.split(",")):
        for net in options.nets.split(","):
            _, _, ours, theirs, _, gflop = NETS[net]
            flows, torches, firsts, roofs, peak = [], [], [], [], 0
            for _ in range(options.rounds):
                rate, first, peak = flow_steps(net, threads, ours)
                flows.append(rate), firsts.append(first)
                roofs.append(float(output(BIN / "gemm_roof", threads)))
                if torch:
                    torches.append(torch_steps(options.torch, net, threads, theirs))
            row = {"net": net, "threads": threads, "flow": statistics.median(flows), "first step s": statistics.median(firsts),
                   "peak MiB": peak / 2**20}
            if torch:
                row["torch"] = statistics.median(torches)
                row["ratio"] = statistics.median(a / b for a, b in zip(flows, torches))
            if gflop:
                row["of GEMM roof"] = statistics.median(gflop * a / b for a, b in zip(flows, roofs))
            rows.append(row)
            print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
    compiled = compile_milliseconds(options.rounds)
    print(f"flowc build jobs/lenet.yaml: {compiled:.1f} ms")
    if options.out:
        json.dump({"rows": rows, "compile_ms": compiled}, open(options.out, "w"), indent=1)


if __name__ == "__main__":
    main()
