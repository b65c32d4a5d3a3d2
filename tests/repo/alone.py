#!/usr/bin/env python3
"""Checks that every source and every header compiles by itself.

The build joins sources and precompiles headers, which hides missing includes. This parses each file alone with clang.
A header that a source of the same name includes before all else is parsed there. A file that passed is not parsed again
until it, a header of ours that it includes, or the compiler changes; the keys of passed files are in ~/.cache/flow/alone.

Most of the time goes to headers that many files include. A file may be parsed behind one precompiled header of ours. It is
one that the file includes anyway, directly or through others, so that no include is missing because of it.

Usage: alone.py [FILE...]      without FILE: all tracked files. Exit status 1 when a file does not compile.
"""
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "flow" / "alone"
CUDA = pathlib.Path("/usr/local/cuda/include")
CUDNN = SOURCE / "build" / "cudnn-frontend" / "include"
MPI = next(pathlib.Path("/usr/lib").glob("*/openmpi/include"), None)
COMPILER = "clang++"
SOURCES = (".cpp", ".cu")

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
LIBRARY_INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.M)
ANY_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
# A precompiled header pays for itself from this many files on.
FEWEST_FILES = 6
# What the build generates.
STAND_INS = CACHE / "generated"
GENERATED = {"flow_build_id.h": '#define FLOW_BUILD_ID ""\n', "flow_version.h": '#define FLOW_VERSION ""\n'}
# Of ONNX's messages, which protoc makes.
PROTO = pathlib.Path("/usr/include/onnx/onnx.proto")
FLAGS = ["-std=c++20", "-fsyntax-only", "-w", "-I.", f"-I{STAND_INS}", "-DFMT_SHARED", '-DFLOW_SOURCE_DIR=""', '-DFLOW_STALE_MODULE=""',
         '-DFLOW_LACKING_MODULE=""', '-DFLOW_SEARCHING_MODULE=""', '-DFLOW_RUNTIME_LIBRARY=""', '-DFLOW_CUDA_MODULE=""']
# The CUDA backend for the CPU needs no toolkit; what calls CUDA's libraries does.
ON_CPU = ["-x", "c++", "-DFLOW_CUDA_ON_CPU", "-Itests/support/cuda"]
NEEDS_TOOLKIT = re.compile(r"^(runtime/cuda/(driver/(device|driver|runtime_error)|libraries/(cublas|cudnn|cudnn_attention|cudnn_recurrent|nvidia_libraries)|program/module)\b|tests/device/|tests/support/modules/)")


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=SOURCE, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if (SOURCE / name).is_file()]


class Files:
    """Contents and includes of our files, each read once."""

    def __init__(self):
        self.texts, self.closures, self.costs = {}, {}, {}

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
        """The file and all headers of ours that it includes, sorted."""
        if name not in self.closures:
            seen, left = {name}, [name]
            while left:
                for header in self.includes(left.pop()):
                    if header not in seen:
                        seen.add(header)
                        left.append(header)
            self.closures[name] = sorted(seen)
        return self.closures[name]

    def own_header(self, name):
        """The header that the source tests: it has the same name, and nothing is included before it. None where there is none."""
        first = ANY_INCLUDE.search(self.text(name))
        if name.endswith(SOURCES) and first and pathlib.PurePath(first[1]).stem == pathlib.PurePath(name).stem:
            return next(self.includes(name), None)
        return None

    def preludes(self, name):
        """Headers that may come before the file and hide nothing: those that what is tested here includes itself."""
        tested = self.own_header(name) or name
        return [header for header in self.closure(tested) if header != tested]

    def weight(self, name):
        """About how long the header and all that it includes takes to parse; a library's header as long as many lines."""
        lines, libraries = 0, set()
        for one in self.closure(name):
            if one not in self.costs:
                self.costs[one] = self.text(one).count("\n"), set(LIBRARY_INCLUDE.findall(self.text(one)))
            lines += self.costs[one][0]
            libraries |= self.costs[one][1]
        return lines + 1000 * len(libraries)


def flags_of(name):
    """How to parse a file; None where this machine lacks what it includes."""
    if name.startswith("runtime/mpi/"):
        return MPI and [*FLAGS, "-x", "c++", f"-isystem{MPI}", "-DOMPI_SKIP_MPICXX"]
    if name.startswith("runtime/onnx/") and not PROTO.is_file():
        return None
    if NEEDS_TOOLKIT.match(name):
        if not CUDA.is_dir() or not CUDNN.is_dir():
            return None
        return [*FLAGS, "-x", "c++", f"-isystem{CUDA}", f"-isystem{CUDNN}"]
    return [*FLAGS, *(ON_CPU if "cuda" in name else ["-x", "c++"])]


class Preludes:
    """Precompiled headers, one for each of the files that are left to parse, where that pays."""

    def __init__(self, files, left, folder):
        self.folder = folder
        by_use = collections.defaultdict(set)
        for name, (flags, _) in left.items():
            for header in files.preludes(name):
                by_use[header, tuple(flags)].add(name)
        weights = {use: files.weight(use[0]) for use in by_use}
        self.of_file, gained = {}, dict.fromkeys(left, 0)

        def gain(use):
            return sum(max(0, weights[use] - gained[name]) for name in by_use[use]) - FEWEST_FILES * weights[use]

        while by_use and gain(use := max(by_use, key=lambda use: (gain(use), use))) > 0:
            for name in by_use.pop(use):
                if weights[use] > gained[name]:
                    self.of_file[name], gained[name] = use, weights[use]

    def path(self, use):
        return self.folder / hashlib.sha256(repr(use).encode()).hexdigest()

    def compile(self, use):
        header, flags = use
        wrapper = self.path(use).with_suffix(".h")  # a main file that says `#pragma once` is included again
        wrapper.write_text(f'#include "{header}"\n')
        words = [word for word in flags if word not in ("-fsyntax-only", "-x", "c++")]
        subprocess.run([COMPILER, *words, "-x", "c++-header", str(wrapper), "-o", str(self.path(use))], cwd=SOURCE, capture_output=True)

    def flags(self, name):
        """None for a header that does not compile: the file says why."""
        path = self.path(self.of_file[name]) if name in self.of_file else None
        return ["-include-pch", str(path)] if path and path.exists() else []


def check(name, flags):
    done = subprocess.run([COMPILER, *flags, name], cwd=SOURCE, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def check_all(files, left):
    """Parses the files; yields each with its errors."""
    with tempfile.TemporaryDirectory(prefix="flow-alone-") as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        preludes = Preludes(files, left, pathlib.Path(folder))
        list(pool.map(preludes.compile, set(preludes.of_file.values())))
        yield from zip(left, pool.map(lambda name: check(name, [*left[name][0], *preludes.flags(name)]), left))


def main():
    files = Files()
    names = sys.argv[1:] or tracked("*.cpp", "*.h", "*.cu", "*.cuh")
    own = {files.own_header(name) for name in names}
    names = [name for name in names if name not in own]
    version = subprocess.run([COMPILER, "--version"], check=True, capture_output=True).stdout
    STAND_INS.mkdir(parents=True, exist_ok=True)
    for name, text in GENERATED.items():
        (STAND_INS / name).write_text(text)
    if PROTO.is_file() and not (STAND_INS / "onnx.pb.h").is_file():
        subprocess.run(["protoc", f"--proto_path={PROTO.parent}", f"--cpp_out={STAND_INS}", PROTO.name], check=True)
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
    for name, errors in check_all(files, left):
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
