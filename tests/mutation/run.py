#!/usr/bin/env python3
"""Measures how many planted defects the tests find.

A mutant is a small defect, given as data in mutants/ROOM.yaml (the name has `-` for `/`):

  - file: runtime/io/npy.cpp
    line: "count <= limit"          # code that occurs exactly once in the file
    becomes: "count < limit"        # "" deletes a statement

Code that ends with `;` is replaced as a statement, other code as an expression. All mutants
are compiled into one copy of the sources, under build/mutation; the environment variable FLOW_MUTANT
chooses the one that is active. A mutant is found when a test fails, crashes or takes too long.

Usage: run.py [--rooms ROOM,...] [--only NUMBER,...] [--jobs N] [--json FILE]
Prints a table with a row per room, and the mutants that no test found. Exit status 1 when the tests
find less than 95 % of them, 2 when a mutant does not apply or the tests fail without any mutant.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
WORK = SOURCE / "build" / "mutation"
FLOOR = 0.95

# The end-to-end tests that can see a defect of a room, the most likely first. All rooms run the unit tests.
END_TO_END = {
    "cli": "flowc flowrun flowdiff goldens directories config world schema language",
    "compiler-diag": "language flowc",
    "compiler-grad": "gradients nets shared_statistics onnx",
    "compiler-job": "language config inputs hooks also",
    "compiler-lower": "jobs hooks bits",
    "compiler-passes": "gradients nets mixed bits",
    "compiler-schema": "schema",
    "compiler-source": "language",
    "compiler-yaml": "language",
    "ops": "flowc gradients nets onnx loading",
    "runtime-base": "directories world bits npy",
    "runtime-compare": "goldens flowdiff",
    "runtime-cpu": "onnx gradients nets mixed bits",
    "runtime-cuda": "",
    "runtime-exec": "also hooks directories loading inputs bad_data world",
    "runtime-io": "npy hooks inputs bad_data world",
    "runtime-plan": "flowc also loading",
    "runtime-verify": "verify",
}


class Refused(Exception):
    """A mutant that does not apply, or tests that fail without a mutant."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    number: int
    room: str
    file: str
    line: str
    becomes: str

    def code(self):
        chosen = f"flow::mutant({self.number})"
        if self.line.endswith(";"):
            return f"{{ if ({chosen}) {{ {self.becomes} }} else {{ {self.line} }} }}"
        return f"({chosen} ? ({self.becomes}) : ({self.line}))"

    def __str__(self):
        return f"{self.number} {self.file}: `{self.line}` -> `{self.becomes}`"


@dataclasses.dataclass(frozen=True)
class Check:
    """A command that passes without a mutant, and the seconds of one processor that a test in it may take."""
    words: tuple
    seconds: float


def read_mutants():
    entries = []
    for path in sorted((HERE / "mutants").glob("*.yaml")):
        for entry in yaml.safe_load(path.read_text()):
            entries.append((path.stem, entry["file"], entry["line"], entry["becomes"]))
    return [Mutant(number, *entry) for number, entry in enumerate(entries, 1)]


def mutated(text, mutants):
    """The text with every mutant in it, each behind the switch."""
    places = []
    for mutant in mutants:
        if text.count(mutant.line) != 1:
            raise Refused(f"{mutant}: found {text.count(mutant.line)} times, expected once")
        places.append((text.index(mutant.line), mutant))
    places.sort(key=lambda place: place[0], reverse=True)
    end = len(text)
    for start, mutant in places:
        if start + len(mutant.line) > end:
            raise Refused(f"{mutant}: overlaps another mutant")
        text = text[:start] + mutant.code() + text[start + len(mutant.line):]
        end = start
    return '#include "tests/mutation/switch.h"\n' + text


def write_if_new(path, content):
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def copy_sources(mutants):
    """The tracked files of the project under WORK/source, with all mutants in them."""
    by_file = collections.defaultdict(list)
    for mutant in mutants:
        by_file[mutant.file].append(mutant)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=SOURCE, check=True, capture_output=True, text=True)
    names = {name for name in listed.stdout.splitlines() if (SOURCE / name).is_file()}
    for name in by_file.keys() - names:
        raise Refused(f"{by_file[name][0]}: no such file")
    for name in sorted(names):
        content = (SOURCE / name).read_bytes()
        if name in by_file:
            content = mutated(content.decode(), by_file[name]).encode()
        target = WORK / "source" / name
        write_if_new(target, content)
        shutil.copymode(SOURCE / name, target)
    for path in [p for p in (WORK / "source").rglob("*") if p.is_file()]:
        if str(path.relative_to(WORK / "source")) not in names:
            path.unlink()  # gone from the project


def build():
    flags = ["-DFLOW_CUDA=OFF", "-DFLOW_WERROR=OFF", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG -w", "-DCMAKE_BUILD_TYPE=Release",
             "-DCMAKE_UNITY_BUILD=ON"]
    if shutil.which("ccache"):
        flags.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run(["cmake", "-G", "Ninja", "-S", WORK / "source", "-B", WORK / "build", *flags], **quiet)
    subprocess.run(["cmake", "--build", WORK / "build"], **quiet)


def run(words, seconds, number=0):
    """Whether the command passes in time. Ends everything that it started.

    The limit is processor time, so that a busy machine does not find mutants. One that sleeps forever is found after four times as long."""
    with tempfile.TemporaryDirectory(prefix="flow-mutant-") as folder:
        environment = {**os.environ, "FLOW_MUTANT": str(number), "TMPDIR": folder}
        process = subprocess.Popen(["prlimit", f"--cpu={math.ceil(seconds)}", *words], cwd=WORK / "build", env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            return process.wait(4 * seconds) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def commands_of(room):
    """The tests that look at a room, the quickest and most likely first."""
    programs = WORK / "build" / "bin"
    end_to_end = [("ctest", "--test-dir", str(WORK / "build"), "-R", f"^e2e_{name}$") for name in END_TO_END[room].split()]
    if room == "runtime-cuda":
        return [(str(programs / "flow_cuda_tests"), "--abort"), *end_to_end,
                ("ctest", "--test-dir", str(WORK / "build"), "-R", "^stand_in_", "--stop-on-failure")]
    tag = f"[{room.split('-')[-1]}]"
    # A room without unit tests passes the first at once.
    first, others, random = ((str(programs / "flow_tests"), "--abort", spec) for spec in (tag, f"~[property]~{tag}", "[property]"))
    if room in ("runtime-cpu", "ops", "compiler-grad", "compiler-passes"):
        return [first, random, others, *end_to_end]
    return [first, *end_to_end, others, random]


def checks_of(rooms, jobs):
    """Runs every command once without a mutant: it has to pass, and its time sets the limit."""
    commands = {room: commands_of(room) for room in rooms}
    limits = {}

    def measure(words):
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not run(words, 900):
            raise Refused(f"fails without a mutant: {' '.join(words)}")
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 15 + 3 * (end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime)

    every = sorted({words for list_ in commands.values() for words in list_})
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        limits = dict(zip(every, pool.map(measure, every)))
    return {room: [Check(words, limits[words]) for words in list_] for room, list_ in commands.items()}


def found(mutant, checks):
    return not all(run(check.words, check.seconds, mutant.number) for check in checks)


def table(results):
    rooms = collections.defaultdict(lambda: [0, 0])
    for mutant, seen in results.items():
        rooms[mutant.room][0] += 1
        rooms[mutant.room][1] += seen
    total = [sum(counts[i] for counts in rooms.values()) for i in range(2)]
    lines = ["| room | mutants | found | |", "| --- | --- | --- | --- |"]
    for name, (count, seen) in [*sorted(rooms.items()), ("all", total)]:
        lines.append(f"| {name.replace('-', '/')} | {count} | {seen} | {100 * seen / count:.0f} % |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", type=lambda text: text.split(","), help="only these rooms")
    parser.add_argument("--only", type=lambda text: {int(n) for n in text.split(",")}, help="only these mutants, by number")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants that are tried at once")
    parser.add_argument("--json", type=pathlib.Path, help="write the result of each mutant to this file")
    options = parser.parse_args()
    mutants = read_mutants()
    copy_sources(mutants)
    build()
    chosen = [m for m in mutants if (not options.rooms or m.room in options.rooms) and (not options.only or m.number in options.only)]
    checks = checks_of(sorted({m.room for m in chosen}), options.jobs)
    results = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(found, mutant, checks[mutant.room]): mutant for mutant in chosen}
        for done in concurrent.futures.as_completed(running):
            mutant = running[done]
            results[mutant] = done.result()
            print("found   " if results[mutant] else "SURVIVED", mutant, file=sys.stderr, flush=True)
    if options.json:
        rows = [{**dataclasses.asdict(m), "found": seen} for m, seen in sorted(results.items(), key=lambda item: item[0].number)]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(results))
    for mutant, seen in sorted(results.items(), key=lambda item: item[0].number):
        if not seen:
            print(f"survived: {mutant}")
    return 0 if sum(results.values()) >= FLOOR * len(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Refused as refusal:
        print(f"run.py: {refusal}", file=sys.stderr)
        sys.exit(2)
