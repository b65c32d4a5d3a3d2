"""The MPI launchers of this machine, for runs of several ranks."""
import os
import shutil
import subprocess

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
