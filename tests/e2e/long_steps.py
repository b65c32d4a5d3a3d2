"""A run of two million steps stays as it began: its memory, its open files and its speed.

long_steps.py [STEPS]. tests/long.sh runs it."""
import os
import pathlib
import statistics
import subprocess
import sys
import time
import unittest

from flow import BIN, FlowTest

STEPS = 2_000_000
MOST_GROWTH = 512  # KiB, from a tenth of the run to its end
SLOWEST = 1.5      # times the median of the first half

JOB = """flow: 1
jobs:
  train:
    type: train
    inputs:
      x: {shape: [2, 3], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}
    graph:
      y: {op: dense, in: x, units: 1}
      loss: {op: mse, prediction: y, target: 1}
    optimizer: {type: adam, learning_rate: 0.001, minimize: loss}
    hooks:
      - {watch: y, every: 100, to: [stats, npy]}
      - {watch: loss, every: 50, when: max > 1e9, to: npy}
    returns: {value: loss, to: npy}
    run: {steps: STEPS, log_every: 20, checkpoint: {every: {steps: EVERY}, keep: 3}}
"""


class Steps(FlowTest):
    def sample(self, run):
        """The run's resident memory in KiB and its open files; nothing when it has ended."""
        try:
            status = pathlib.Path(f"/proc/{run.pid}/status").read_text()
            files = len(os.listdir(f"/proc/{run.pid}/fd"))
        except OSError:
            return None
        resident = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")]
        return (int(resident[0]), files) if resident else None

    def test_memory_open_files_and_speed_stay_as_they_are(self):
        self.write("job.yaml", JOB.replace("STEPS", str(STEPS)).replace("EVERY", str(STEPS // 100)))
        metrics, samples = self.dir / "out/metrics.jsonl", []
        with subprocess.Popen([BIN / "flowrun", "train", "job.yaml", "-o", "out", "--quiet", "--threads", "1"], cwd=self.dir, stdin=subprocess.DEVNULL) as run:
            while run.poll() is None:
                length = metrics.stat().st_size if metrics.exists() else 0
                if found := self.sample(run):
                    samples.append((length, *found))
                time.sleep(0.1)
        self.assertEqual(run.returncode, 0)
        rows = self.metrics("out")
        self.assertEqual(len(rows), STEPS // 20)
        self.assertEqual(self.load("out/returns/loss/steps.npy").size, STEPS)
        self.assertEqual(len((self.dir / "out/watch/y/stats.csv").read_text().splitlines()), STEPS // 100 + 1)
        self.assertEqual(len(list((self.dir / "out/checkpoints").iterdir())), 3)

        # Lines of metrics have much the same length: the share of the file is that of the run.
        whole = metrics.stat().st_size
        later = [sample for sample in samples if sample[0] >= whole / 10]
        self.assertGreater(len(later), 20)
        resident, files = [sample[1] for sample in later], [sample[2] for sample in later]
        first, last = statistics.median(resident[:5]), statistics.median(resident[-5:])
        self.assertLess(last - first, MOST_GROWTH, f"KiB: {first} at a tenth of the run, {last} at its end")
        self.assertLessEqual(max(files), min(files[:5]) + 3, "open files; a checkpoint opens some for a moment")
        tenths = [rows[len(rows) * (i + 1) // 10 - 1]["seconds"] - rows[len(rows) * i // 10]["seconds"] for i in range(10)]
        self.assertLess(statistics.median(tenths[5:]), SLOWEST * statistics.median(tenths[:5]), f"seconds of each tenth: {tenths}")
        print(f"{STEPS} steps in {rows[-1]['seconds']:.0f} s: {first:.0f} KiB at a tenth, {last:.0f} KiB at the end, "
              f"{min(files)} to {max(files)} files, {1e6 * tenths[0] * 10 / STEPS:.1f} and {1e6 * tenths[-1] * 10 / STEPS:.1f} us a step first and last")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        STEPS = int(sys.argv.pop(1))
    unittest.main()
