#!/usr/bin/env python3
"""What `Callback` buys: steps a second of one job, synchronous and asynchronous, whose producer and sink wait as long as a step computes.

Usage: tests/bench/async_bench.py [--steps N] [--rounds N] [--threads N] [--wait SECONDS] [--python PYTHON]

The producer is at the other end of a pipe, with arrays larger than a pipe holds, so that it cannot run ahead of the reader; the sink
acknowledges every event. Two producers are tried: one waits while its array is read, in the midst of it; the other makes the array
first and then writes it, so that a synchronous run overlaps with its waiting too, which nobody but the producer could keep from it.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("FLOW_BIN", SOURCE / "build" / "release" / "bin"))
ROWS, WIDTH = 256, 1024  # 1 MiB an array; a pipe holds 64 KiB

JOB = """flow: 1
vars: {layers: 1}
networks:
  layer:
    inputs: [x]
    graph: {y: {op: dense, in: x, units: %(width)d, use_bias: false}}
jobs:
  run:
    type: predict
    inputs: {x: {shape: [%(rows)d, %(width)d], dtype: float32, from: {npy: /dev/stdin}}}
    graph:
      layers: {op: layer, in: x, repeat: $layers}
      mean: {op: reduce_mean, in: layers}
    returns: {type: Numpy, value: mean, to: {type: command, run: [%(python)s, sink.py], ack: true}}
    run: {pipeline: 4, checkpoint: {load: none}}
"""
PRODUCER = """
import io, sys, time
import numpy
steps, wait, when = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
record = io.BytesIO()
numpy.save(record, numpy.ones((%d, %d), numpy.float32))
record = record.getvalue()
half = len(record) // 2
for step in range(steps):
    if when == "before":
        time.sleep(wait)
    sys.stdout.buffer.write(record[:half])
    sys.stdout.buffer.flush()
    if when == "amid":
        time.sleep(wait)
    sys.stdout.buffer.write(record[half:])
    sys.stdout.buffer.flush()
""" % (ROWS, WIDTH)
SINK = """
import os, time
import flowhook
wait = float(os.environ["SINK_WAIT"])
for event in flowhook.events():
    time.sleep(wait)
"""


class Bench:
    def __init__(self, folder, python, threads):
        self.folder, self.python, self.threads = folder, python, threads
        (folder / "job.yaml").write_text(JOB % {"rows": ROWS, "width": WIDTH, "python": python})
        (folder / "produce.py").write_text(PRODUCER)
        (folder / "sink.py").write_text(SINK)
        (folder / "flowhook.py").write_text((SOURCE / "jobs" / "hooks" / "flowhook.py").read_text())

    def seconds_a_step(self, steps, wait, when, *words):
        """Of all steps but the first."""
        with subprocess.Popen([self.python, "produce.py", str(steps), str(wait), when], cwd=self.folder, stdout=subprocess.PIPE) as producer:
            subprocess.run([BIN / "flowrun", "run", "job.yaml", "-o", "out", "--force", "--quiet", "--threads", str(self.threads), *words],
                           cwd=self.folder, stdin=producer.stdout, check=True, env={**os.environ, "SINK_WAIT": str(wait)})
        record = json.loads((self.folder / "out" / "run.json").read_text())
        assert record["last_step"] == steps, record
        return record["seconds"] / steps

    def layers_for(self, seconds):
        """How many layers compute for about so long."""
        few, many = (statistics.median(self.seconds_a_step(20, 0, "amid", "--set", f"vars.layers={n}") for _ in range(3)) for n in (4, 24))
        return max(1, round(20 * seconds / max(many - few, 1e-6)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wait", type=float, default=0.05, help="seconds that producer, step and sink take each")
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that has NumPy")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(folder), options.python, options.threads)
        layers = ["--set", f"vars.layers={bench.layers_for(options.wait)}"]
        kinds = {"synchronous": [*layers, "--set", "jobs.run.returns.type=Numpy"],
                 "asynchronous": [*layers, "--set", "jobs.run.returns.type='Callback[Numpy]'"]}
        print(f"producer, step and sink take {1e3 * options.wait:.0f} ms each; {options.steps} steps, {options.rounds} rounds, pipeline 4")
        for when, what in (("amid", "a producer that waits amid its array"), ("before", "a producer that waits before its array")):
            times = {kind: [] for kind in kinds}
            for _ in range(options.rounds):
                for kind, words in kinds.items():
                    times[kind].append(bench.seconds_a_step(options.steps, options.wait, when, *words))
            ratio = statistics.median(a / b for a, b in zip(times["synchronous"], times["asynchronous"]))
            figures = ", ".join(f"{kind} {1e3 * statistics.median(seconds):.1f} ms a step" for kind, seconds in times.items())
            print(f"{what}: {figures}, ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
