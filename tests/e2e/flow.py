"""What the end-to-end tests share: the programs, run in a fresh directory, and NumPy as the outside judge."""
import atexit
import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import numpy as np

# As fault_injector.cpp lists them.
CALLS = ["write", "pwrite", "fsync", "syncfs", "rename", "open", "mkdir", "unlink", "truncate", "mmap", "mprotect", "malloc", "close", "spawn", "thread"]

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("FLOW_BIN", SOURCE / "build" / "release" / "bin"))
JOBS = SOURCE / "jobs"

# A shell has what it starts in the background ignore Ctrl-C, and programs of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.default_int_handler)  # of timeout(1): what was started is ended then, too


class Program(subprocess.Popen):
    """A process in a session of its own. It ends with its test, as does all that it started there."""
    started = []

    def __init__(self, *words, **options):
        super().__init__(*words, **{"start_new_session": True, **options})
        if options.get("start_new_session", True):
            self.started.append(self)

    def __exit__(self, kind, *rest):
        if kind:  # else a failed check would wait for what runs for ever
            self.kill()
        return super().__exit__(kind, *rest)

    @classmethod
    def end_all(cls):
        while cls.started:
            program = cls.started.pop()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(program.pid, signal.SIGKILL)


subprocess.Popen = Program  # which subprocess.run uses, too
atexit.register(Program.end_all)


@functools.cache
def device():
    """What `--device auto` is on this machine: "gpu" or "cpu". FLOW_DEVICE says what it has to be."""
    with tempfile.TemporaryDirectory(prefix="flow-e2e-") as folder:
        (pathlib.Path(folder) / "job.yaml").write_text(train_job(1))
        subprocess.run([str(BIN / "flowrun"), "job.yaml", "-o", "out", "--quiet"], cwd=folder, check=True, timeout=60, stdin=subprocess.DEVNULL)
        record = json.loads((pathlib.Path(folder) / "out/run.json").read_text())
    found = "cpu" if record["device"] == "cpu" else "gpu"
    if os.environ.get("FLOW_DEVICE", found) != found:
        raise RuntimeError(f"FLOW_DEVICE is {os.environ['FLOW_DEVICE']}, and jobs run on {record['device']}")
    return found


class FlowTest(unittest.TestCase):
    """Each test has a directory of its own, `self.dir`, removed at its end."""

    @classmethod
    def setUpClass(cls):
        if "FLOW_DEVICE" in os.environ:
            device()

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="flow-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.addCleanup(Program.end_all)

    def call(self, program, *words, status=0, env=None, timeout=600):
        """Runs a program and checks its exit status; the finished process, its output as text."""
        done = subprocess.run([str(BIN / program), *map(str, words)], cwd=self.dir, capture_output=True, text=True,
                              timeout=timeout, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, f"{program} {' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}")
        return done

    def flowrun(self, *words, **options):
        return self.call("flowrun", *words, **options)

    def write(self, name, text):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def load(self, path):
        return np.load(self.dir / path)

    def save(self, name, array):
        """Writes NAME.npy."""
        path = self.dir / (name + ".npy")
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array)

    def faults(self, **settings):
        """The environment of a program in which calls fail or are recorded: `call="fsync", at=2` is FAULT_CALL=fsync FAULT_AT=2, see
        fault_injector.cpp. Skips the test where the library is not built (sanitizers)."""
        library = BIN / "libfault_injector.so"
        if not library.exists():
            self.skipTest("no fault injector under sanitizers")
        return {"LD_PRELOAD": str(library), **{"FAULT_" + name.upper(): str(value) for name, value in settings.items()}}

    def recorded(self, *words, path="", **options):
        """Runs flowrun and returns its calls on paths that contain `path`, in order: [kind, path], for rename [kind, path, new path]."""
        log = self.dir / "calls.log"
        log.unlink(missing_ok=True)
        self.flowrun(*words, env=self.faults(log=log, **({"path": path} if path else {})), **options)
        return [line.split("\t") for line in log.read_text().splitlines()]

    def rows(self, run):
        """All rows of metrics.jsonl."""
        return [json.loads(line) for line in (self.dir / run / "metrics.jsonl").read_text().splitlines()]

    def rows_without_seconds(self, run):
        """Those that two equal runs leave alike."""
        return [{key: value for key, value in row.items() if key != "seconds"} for row in self.rows(run)]

    def metrics(self, run):
        """The rows of the main job's steps."""
        return [row for row in self.rows(run) if "job" not in row]

    def checkpoint(self, run):
        """The newest checkpoint of a run directory."""
        return max((self.dir / run / "checkpoints").iterdir())

    def state(self, checkpoint):
        """What two equal runs leave alike in a checkpoint: all but files.json, which has the times of this run's files."""
        return {name: data for name, data in self.files(checkpoint).items() if not name.endswith("files.json")}

    def outputs(self, out):
        """The arrays that a run leaves."""
        return {f"{folder}/{name}": data for folder in ("returns", "watch", "checkpoints", "also")
                for name, data in self.files(f"{out}/{folder}").items() if name.endswith(".npy")}

    def files(self, folder):
        root = self.dir / folder
        return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


# A predict job of an input that has to be given.
AFFINE = """flow: 1
jobs:
  double:
    type: predict
    inputs:
      x: {shape: [2, 3], dtype: float32}
    graph:
      y: {op: add, in: [x, x]}
    returns: {type: Numpy, value: y}
"""

# A predict job on the rows of x.npy.
ROWS = """flow: 1
data:
  d:
    x: {npy: x.npy}
jobs:
  double:
    type: predict
    inputs:
      x: {shape: [4, 3], dtype: float32, from: d.x}
    graph:
      y: {op: add, in: [x, x]}
    returns: {type: Numpy, value: y}
"""


def train_job(steps):
    """A small train job on numbers made from the seed, its learning rate a variable; `hooks:` may be written behind it."""
    return f"""flow: 1
vars: {{lr: 0.1}}
jobs:
  train:
    type: train
    inputs:
      x: {{shape: [8, 6], dtype: float32, from: {{type: random_uniform, low: -1, high: 1}}}}
      labels: {{shape: [8], dtype: int32, from: {{type: random_int, low: 0, high: 4}}}}
    graph:
      hidden: {{op: dense, units: 8, in: x, activation: relu}}
      logits: {{op: dense, units: 4}}
      loss: {{op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: logits}}
    optimizer: {{type: sgd, learning_rate: $lr, minimize: loss}}
    run: {{steps: {steps}}}
"""


def golden_arrays(name):
    """The arrays of tests/golden/NAME.npz, by their names."""
    with np.load(SOURCE / "tests" / "golden" / f"{name}.npz") as file:
        return dict(file)


def part_of(arrays, folder):
    """The arrays below a folder of an archive, by their names in it."""
    return {name.removeprefix(folder + "/"): array for name, array in arrays.items() if name.startswith(folder + "/")}


def relative(a, b):
    """Relative L2 distance from b."""
    return float(np.linalg.norm(np.asarray(a, np.float64) - b) / max(np.linalg.norm(b), 1e-300))


class PairsTest(FlowTest):
    """Arrays that flowdiff compares."""

    def pair(self, name, golden, out):
        self.save("golden/" + name, golden)
        self.save("out/" + name, out)
