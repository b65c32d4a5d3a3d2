"""The MPI launchers of this machine, and what tests of runs on several ranks share."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time

from flow import BIN, FlowTest

# What Open MPI asks of root, and where there are more ranks than cores.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"], "mpich": ["mpirun.mpich"]}


def available(binaries):
    """Names of the MPI libraries that have a launcher here and a module of flow."""
    return [name for name, words in LAUNCHERS.items() if shutil.which(words[0]) and (binaries / f"libflow_{name}.so").exists()]


def missing(binaries):
    """Why these programs cannot run a job on several ranks; empty if they can."""
    help_text = subprocess.run([binaries / "flowrun", "--help"], capture_output=True, text=True).stdout
    if "--distributed" not in help_text:
        return "this flowrun has no --distributed"
    return "" if available(binaries) else "no MPI library with its mpirun is installed"


def launch(name, ranks):
    """The words in front of a program that start it on this many ranks."""
    return [*LAUNCHERS[name], "-np", str(ranks)]


def environment():
    return {**os.environ, **AS_ROOT}


class RanksTest(FlowTest):
    def launch_words(self, mpi, ranks, *words):
        if mpi not in available(BIN):
            self.skipTest(f"{mpi} is not installed")
        return [*launch(mpi, ranks), str(BIN / "flowrun"), *map(str, words), "--distributed"]

    def ranks(self, ranks, *words, mpi="openmpi", status=0, timeout=300):
        done = subprocess.run(self.launch_words(mpi, ranks, *words), cwd=self.dir, capture_output=True, text=True, timeout=timeout,
                              env=environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, f"{mpi}, {ranks} ranks: {words}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, path):
        return json.loads((self.dir / path).read_text())

    def assert_same(self, one, other):
        self.assertGreater(len(one), 15)
        self.assertEqual(one.keys(), other.keys())
        self.assertEqual([], [name for name, data in one.items() if other[name] != data])

    def wait_for(self, path):
        limit = time.monotonic() + 60
        while not path.exists() or path.stat().st_size == 0:
            self.assertLess(time.monotonic(), limit, path)
            time.sleep(0.01)

    def running(self, processes):
        """Those of them that have not ended."""
        found = []
        for process in processes:
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX":
                    found.append(process)
        return found

    def processes_of(self, out):
        """Of a run: process numbers by rank."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (path / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"flowrun") and out.encode() in words:
                    variables = dict(v.split(b"=", 1) for v in (path / "environ").read_bytes().split(b"\0") if b"=" in v)
                    found[int(variables.get(b"OMPI_COMM_WORLD_RANK", variables.get(b"PMI_RANK", b"-1")))] = int(path.name)
        return found
