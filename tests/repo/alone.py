#!/usr/bin/env python3
"""Checks that every source and every header compiles by itself.

The build joins sources and precompiles headers, which hides missing includes. This parses each file alone with clang.
A header that a source of the same name includes first is parsed there. A file that passed is not parsed again until
it, a header of ours that it includes, or the compiler changes; the keys of passed files are in ~/.cache/flow/alone.

Usage: alone.py [FILE...]      without FILE: all tracked files. Exit status 1 when a file does not compile.
"""
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "flow" / "alone"
CUDA = pathlib.Path("/usr/local/cuda/include")
CUDNN = SOURCE / "build" / "cudnn-frontend" / "include"
MPI = next(pathlib.Path("/usr/lib").glob("*/openmpi/include"), None)
COMPILER = "clang++"

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
# What the build generates.
STAND_INS = CACHE / "generated"
GENERATED = {"flow_build_id.h": '#define FLOW_BUILD_ID ""\n', "flow_version.h": '#define FLOW_VERSION ""\n'}
FLAGS = ["-std=c++20", "-fsyntax-only", "-w", "-I.", f"-I{STAND_INS}", "-DFMT_SHARED", '-DFLOW_SOURCE_DIR=""', '-DFLOW_STALE_MODULE=""',
         '-DFLOW_LACKING_MODULE=""', '-DFLOW_SEARCHING_MODULE=""', '-DFLOW_RUNTIME_LIBRARY=""', '-DFLOW_CUDA_MODULE=""']
# The CUDA backend for the CPU needs no toolkit; what calls CUDA's libraries does.
ON_CPU = ["-x", "c++", "-DFLOW_CUDA_ON_CPU", "-Itests/support/cuda"]
NEEDS_TOOLKIT = re.compile(r"^(runtime/cuda/(driver/(device|driver|runtime_error)|libraries/(cublas|cudnn|nvidia_libraries)|program/module)\b|tests/device/|tests/support/modules/)")


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=SOURCE, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if (SOURCE / name).is_file()]


class Files:
    """Contents and includes of our files, each read once."""

    def __init__(self):
        self.texts = {}

    def text(self, name):
        if name not in self.texts:
            path = SOURCE / name
            self.texts[name] = path.read_text() if path.is_file() else ""
        return self.texts[name]

    def includes(self, name):
        """Paths from the root, or beside the file."""
        beside = str(pathlib.PurePosixPath(name).parent)
        for header in INCLUDE.findall(self.text(name)):
            for found in (header, os.path.normpath(f"{beside}/{header}"), f"tests/support/cuda/{header}"):
                if (SOURCE / found).is_file():
                    yield found
                    break

    def closure(self, name):
        seen, left = {name}, [name]
        while left:
            for header in self.includes(left.pop()):
                if header not in seen:
                    seen.add(header)
                    left.append(header)
        return sorted(seen)


def flags_of(name):
    """How to parse a file; None where this machine lacks what it includes."""
    if name.startswith("runtime/mpi/"):
        return MPI and [*FLAGS, "-x", "c++", f"-isystem{MPI}", "-DOMPI_SKIP_MPICXX"]
    if NEEDS_TOOLKIT.match(name):
        if not CUDA.is_dir() or not CUDNN.is_dir():
            return None
        return [*FLAGS, "-x", "c++", f"-isystem{CUDA}", f"-isystem{CUDNN}"]
    return [*FLAGS, *(ON_CPU if "cuda" in name else ["-x", "c++"])]


def check(name, flags):
    done = subprocess.run([COMPILER, *flags, name], cwd=SOURCE, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def main():
    files = Files()
    names = sys.argv[1:] or tracked("*.cpp", "*.h", "*.cu", "*.cuh")
    first = {next(iter(INCLUDE.findall(files.text(name))), "") for name in names if name.endswith((".cpp", ".cu"))}
    names = [name for name in names if name.endswith((".cpp", ".cu")) or name not in first]
    version = subprocess.run([COMPILER, "--version"], check=True, capture_output=True).stdout
    STAND_INS.mkdir(parents=True, exist_ok=True)
    for name, text in GENERATED.items():
        (STAND_INS / name).write_text(text)
    left = {}
    for name in names:
        flags = flags_of(name)
        if flags is None:
            continue
        key = hashlib.sha256(version + repr((name, flags)).encode())
        for one in files.closure(name):
            key.update(f"\0{one}\0{files.text(one)}".encode())
        if not (CACHE / key.hexdigest()).exists():
            left[name] = (flags, key.hexdigest())
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, errors in zip(left, pool.map(lambda name: check(name, left[name][0]), left)):
            if errors:
                failed += 1
                print(errors, file=sys.stderr, end="")
                print(f"{name} does not compile by itself", file=sys.stderr, flush=True)
            else:
                (CACHE / left[name][1]).touch()
    print(f"{len(names)} files: {len(left)} parsed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
