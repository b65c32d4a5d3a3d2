"""The MPI launchers of this machine, for runs of several ranks."""
import functools
import os
import shutil
import subprocess

# mpirun refuses root and more ranks than cores without these.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
OPTIONS = {"openmpi": ["--oversubscribe", "--bind-to", "none"], "mpich": ["-bind-to", "none"]}


@functools.cache
def programs():
    """{"openmpi": PATH, "mpich": PATH}, those that are installed. A plain `mpirun` is of either."""
    found = {name: path for name in OPTIONS if (path := shutil.which(f"mpirun.{name}"))}
    if not found and (path := shutil.which("mpirun")):
        version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        found["openmpi" if "Open MPI" in version else "mpich"] = path
    return found


def launch(name, ranks):
    """The words in front of a program that start it on this many ranks."""
    return [programs()[name], *OPTIONS[name], "-np", str(ranks)]


def environment():
    return {**os.environ, **AS_ROOT}


def missing(flowrun):
    """Why this machine cannot run a job on several ranks; empty if it can."""
    if not programs():
        return "no mpirun is installed"
    has_flag = "--distributed" in subprocess.run([flowrun, "--help"], capture_output=True, text=True).stdout
    return "" if has_flag else "this flowrun has no --distributed"
