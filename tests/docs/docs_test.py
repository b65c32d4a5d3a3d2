"""Runs every example of the documents and compares the output that they show.

    FLOW_BIN=$PWD/build/release/bin /usr/bin/python3 tests/docs/docs_test.py                       all pages, and all links
    FLOW_BIN=... /usr/bin/python3 tests/docs/docs_test.py docs/guide/hooks.md                      one page
    FLOW_BIN=... /usr/bin/python3 tests/docs/docs_test.py --update [PAGE ...]                      rewrites the shown outputs

How to write a page
-------------------
Of the reference, which the build writes, only the links are checked. Any other page runs from top to bottom in one fresh, empty folder, `~/work`. The programs are on PATH, `python3` has NumPy, and
`~/flow` is the checkout, so that a page copies what it needs: `cp -r ~/flow/jobs/data .`. Files that a command writes
below `~/flow` disappear with the page. Paths print as `/home/you/work/...`. Runs use the CPU.

The first word behind the opening fence says what a block is; the second is a file name:

    ```yaml lenet.yaml         writes lenet.yaml to the current folder (any language, also below it: ```python hooks/mean.py); the text
                               above the block names the file. A page may write a file again, later commands then see the new text
    ```yaml lenet.yaml append  adds to the end of that file
    ```yaml                    without a name: a fragment, which must parse as YAML. Prefer whole files
    ```python                  without a name: must compile. ```json must parse, as a whole or line by line
    ```console                 commands and their output, see below
    ```sh                      without a name: commands for a machine that the test does not have. Each line must be in NOT_RUN
    ```text ```cpp ```cmake ```diff     are not run

In a console block, a line `$ COMMAND` is run by bash; lines `> MORE` directly below continue it. `cd` and `export` hold for the
rest of the page. The lines below a command are its standard output and error together, compared line by line:

- A line `...` stands for any number of lines.
- No line at all: the output is not shown and not compared.
- A command fails the test unless it exits with 0. If it should fail, the last line shown is `[exit status 2]`.
- Numbers with a decimal point or an exponent may differ by a tenth, sizes (`12 MiB`) by a quarter: CPUs differ.
- Durations (`12 s`, `3.1 ms`), rates (`50 steps/s`), dates, process ids and long hexadecimal digests may be anything. VOLATILE lists
  the patterns. Lines of progress are left out. The reason in `on cpu (REASON)` is cut out.
- A block with `mpirun` is left out, as a whole, where flow is built without an MPI library.

`--update` keeps a shown output that still matches. It replaces others by the real output and keeps their `...`: as many lines above and
below as before.

Keep a page under ten seconds: small networks, `--steps`, generated data.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
import launchers  # noqa: E402

BIN = pathlib.Path(os.environ.get("FLOW_BIN", SOURCE / "build" / "release" / "bin")).resolve()
TIMEOUT = 300  # seconds a command; the machine may be busy

# Commands that the test does not run, and why.
NOT_RUN = {
    r"git clone .*": "needs the network",
    r"cd (flow|~)": "goes to the checkout, or back",
    r"(sudo )?\./setup\.sh.*": "installs packages",
    r"(sudo )?(apt|apt-get|dpkg) .*": "installs packages",
    r"jobs/quickstart\.sh.*": "installs packages and builds; tests of the release run it in a fresh Debian",
    r"tests/(run|long)\.sh.*": "installs packages, builds and runs this test",
    r"tests/device/run\.sh.*": "needs a GPU",
    r"cmake .*|cpack.*|ctest.*": "builds; minutes",
    r"export PATH=.*": "the programs are on PATH",
    r"mpirun .*--(hostfile|bind-to|map-by|oversubscribe|mca) .*|export OMPI_.*": "needs several machines, or more cores",
    r"(mpirun|flowrun) .*--device gpu.*": "needs several GPUs",
    r"(srun|sbatch) .*": "needs Slurm",
}

# Documents that are still to come: links to them may lead nowhere.
COMING = set()

# What differs from run to run, in both the shown and the real output.
VOLATILE = [
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*", "DATE"),
    (r"\b[0-9a-f]{16,}\b", "DIGEST"),
    (r"\b(pid|process) \d+", r"\1 PID"),
    (r"\b[\d,.]+ ?((?:steps|rows|calls|images)/s|(?:steps|rows) (?:a|per) second)", "RATE"),
    (r"\b(\d+ (h|min) )*\d[\d,]*(\.\d+)? ?(ns|us|µs|ms|s|min|h)\b", "TIME"),
    (r'"seconds": ?[\d.e+-]+', '"seconds":TIME'),
]
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?![\w.]|\.\d)")
SIZE = re.compile(r"(?<![\w.])([\d,]+(?:\.\d+)?) ?([KMG]i?B|B|bytes)\b")
UNIT = {"B": 1, "bytes": 1, "KB": 1e3, "KiB": 2**10, "MB": 1e6, "MiB": 2**20, "GB": 1e9, "GiB": 2**30}
PROGRESS = re.compile(r"flowrun: \w+ (epoch )?[\d,/ ]+ .*(left|/s)")  # of a slow machine: after each 30 s
FREE = {"text", "cpp", "cmake", "diff"}
FENCE = re.compile(r"^(`{3,}|~{3,})(.*)$")


def pages():
    """The documents of the checkout."""
    return sorted([SOURCE / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md") if (SOURCE / name).exists()] +
                  list((SOURCE / "docs").rglob("*.md")))


class Block:
    """A fenced block: its language, its file name or "", its lines and the number of the first."""

    def __init__(self, info, first):
        self.language, _, self.name = info.strip().partition(" ")
        self.name, _, mode = self.name.strip().partition(" ")
        if mode not in ("", "append"):
            raise AssertionError(f"line {first}: unknown word `{mode}`; expected `append` or nothing")
        self.append = mode == "append"
        self.first = first
        self.lines = []

    def text(self):
        return "".join(line + "\n" for line in self.lines)


def split(text):
    """The fenced blocks of a page and, for links, its other lines."""
    blocks, prose, fence = [], [], None
    for number, line in enumerate(text.splitlines()):
        match = FENCE.match(line)
        if fence is None and match:
            fence = match[1]
            blocks.append(Block(match[2], number + 1))
        elif fence is not None and line.rstrip() == fence:
            fence = None
        elif fence is not None:
            blocks[-1].lines.append(line)
        else:
            prose.append(line)
    if fence is not None:
        raise AssertionError(f"line {blocks[-1].first}: the block is not closed")
    return blocks, prose


class Command:
    """A command of a console block, and the output that the page shows: lines `first` to `last` of the block."""

    def __init__(self, text, first):
        self.text = text
        self.first = self.last = first

    def shown(self, block):
        return block.lines[self.first:self.last]


def commands(block):
    found, continues = [], False
    for number, line in enumerate(block.lines):
        if line.startswith("$ "):
            found.append(Command(line[2:], number + 1))
            continues = True
        elif not found:
            raise AssertionError(f"line {block.first + number + 1}: a console block begins with `$ COMMAND`")
        elif continues and line.startswith("> "):
            found[-1].text += "\n" + line[2:]
            found[-1].first = found[-1].last = number + 1
        else:
            continues = False
            found[-1].last = number + 1
    return found


def reason_not_to_run(command):
    return next((why for pattern, why in NOT_RUN.items() if re.fullmatch(pattern, command.strip())), None)


def needs_ranks(block):
    return any(command.text.startswith("mpirun ") for command in commands(block))


def normal(line):
    for pattern, replacement in VOLATILE:
        line = re.sub(pattern, replacement, line)
    return line.rstrip()


def close(a, b, tolerance):
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def same_line(shown, real):
    shown, real = normal(shown), normal(real)
    if shown == real:
        return True
    sizes = [SIZE.findall(line) for line in (shown, real)]
    numbers = [NUMBER.findall(SIZE.sub("SIZE", line)) for line in (shown, real)]
    texts = [" ".join(NUMBER.sub("NUMBER", SIZE.sub("SIZE", line)).split()) for line in (shown, real)]
    return (texts[0] == texts[1] and all(close(float(a), float(b), 0.1) for a, b in zip(*numbers)) and
            all(close(float(a.replace(",", "")) * UNIT[x], float(b.replace(",", "")) * UNIT[y], 0.25)
                for (a, x), (b, y) in zip(*sizes)))


def same_lines(shown, real):
    return len(shown) == len(real) and all(map(same_line, shown, real))


def parts(lines):
    """Between the lines `...`."""
    found = [[]]
    for line in lines:
        if line.strip() == "...":
            found.append([])
        else:
            found[-1].append(line)
    return found


def matches(shown, real):
    first, *others = parts(shown)
    if not others:
        return same_lines(first, real)
    *middle, last = others
    if len(first) + len(last) > len(real) or not same_lines(first, real[:len(first)]) or not same_lines(last, real[len(real) - len(last):]):
        return False
    rest = real[len(first):len(real) - len(last)]
    for part in middle:
        at = next((i for i in range(len(rest) - len(part) + 1) if same_lines(part, rest[i:i + len(part)])), None)
        if at is None:
            return False
        rest = rest[at + len(part):]
    return True


def updated(shown, real):
    """The real output with the `...` of the shown one."""
    first, *others = parts(shown)
    if not others or len(first) + sum(map(len, others)) >= len(real):
        return real
    *middle, last = others
    text, rest = real[:len(first)] + ["..."], real[len(first):len(real) - len(last)]
    for part in middle:  # the lines that match best
        best = max(range(max(1, len(rest) - len(part) + 1)), key=lambda i: sum(map(same_line, part, rest[i:i + len(part)])))
        text, rest = text + rest[best:best + len(part)] + ["..."], rest[best + len(part):]
    return text + (real[len(real) - len(last):] if last else [])


class Shell:
    """Runs commands as one session of a user in ~/work."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="flow-docs-"))
        self.home = self.root / "you"
        self.work = self.home / "work"
        self.work.mkdir(parents=True)
        (self.home / "flow").mkdir()
        for entry in SOURCE.iterdir():
            if entry.name not in (".git", "runs", "out"):
                (self.home / "flow" / entry.name).symlink_to(entry)
        kept = {name: value for name, value in os.environ.items() if name in ("TMPDIR", "LD_LIBRARY_PATH", "ONEDNN_MAX_CPU_ISA")}
        self.env = {**kept, "PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(self.home), "LC_ALL": "C.UTF-8", "TERM": "dumb", "USER": "you",
                    "PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": "-1", **launchers.AS_ROOT,
                    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
        self.folder = str(self.work)

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, command):
        """The lines that a command prints, the last of which is `[exit status N]` if that is not 0."""
        state = self.root / "state"
        script = f"{command}\nstatus=$?; (pwd; export -p) >{state} 2>/dev/null; exit $status"
        with open(self.root / "output", "w+b") as output:
            shell = subprocess.Popen(["bash", "-c", script], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = shell.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(shell.pid, 9)
                status = shell.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
        if state.exists():  # not where the command exits the shell
            folder, *_ = state.read_text().splitlines()
            self.folder = folder
            exported = subprocess.run(["bash", "-c", f". <(tail -n +2 {state}); env -0"], env=self.env, capture_output=True, text=True).stdout
            self.env = dict(entry.split("=", 1) for entry in exported.split("\0") if "=" in entry)
            state.unlink()
        text = re.sub(r"\bon cpu \([^)\n]*\)", "on cpu", text.replace(str(self.home), "/home/you"))
        lines = [line.split("\r")[-1].rstrip() for line in text.splitlines()]
        lines = [line for line in lines if not PROGRESS.match(line)]
        while lines and not lines[-1]:
            lines.pop()
        return lines + ([f"[exit status {status}]"] if status else [])


def check_still(block):
    """Of a block that is not run: what is wrong with it, or None."""
    try:
        if block.language == "yaml":
            list(yaml.safe_load_all(block.text()))
        elif block.language == "python":
            compile(block.text(), "page", "exec")
        elif block.language == "json":
            try:
                json.loads(block.text())
            except ValueError:
                for line in block.lines:
                    json.loads(line)
        elif block.language == "sh":
            for line in block.lines:
                command = line.split("#")[0].strip()
                if command and not reason_not_to_run(command):
                    return f"`{command}` is not in NOT_RUN: use a console block, or name the file"
        elif block.language not in FREE:
            return f"unknown kind of block `{block.language}`; expected one of the docstring of docs_test.py"
    except (ValueError, SyntaxError, yaml.YAMLError) as error:
        return f"the {block.language} block does not parse: {error}"
    return None


def run_page(path, update=False):
    """What is wrong with a page. With `update`, its shown outputs are rewritten first."""
    text = path.read_text()
    blocks, _ = split(text)
    lines, wrong, shell, edits, no_ranks = text.splitlines(), [], Shell(), [], launchers.missing(BIN)
    try:
        for block in blocks:
            where = f"{path.relative_to(SOURCE)}:{block.first}"
            if block.language == "console" and needs_ranks(block) and no_ranks:
                continue
            if block.language == "console":
                for command in commands(block):
                    if reason_not_to_run(command.text):
                        continue
                    real = shell.run(command.text)
                    shown = command.shown(block)
                    while shown and not shown[-1].strip():
                        shown.pop()
                    failed = bool(real) and real[-1].startswith("[exit status ")
                    if (not shown and not failed) or (shown and matches(shown, real)):
                        continue
                    if update and shown:
                        edits.append((block.first + command.first, block.first + command.first + len(shown), updated(shown, real)))
                        continue
                    wrong.append(f"{where}: $ {command.text}\n--- shown\n" + "\n".join(shown) + "\n--- real\n" + "\n".join(real) + "\n---")
            elif block.name:
                file = pathlib.Path(shell.folder) / block.name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text((file.read_text() if block.append else "") + block.text())
                if block.text().startswith("#!"):
                    file.chmod(0o755)
            elif message := check_still(block):
                wrong.append(f"{where}: {message}")
    finally:
        shell.close()
    if edits:
        for first, last, real in reversed(edits):
            lines[first:last] = real
        path.write_text("\n".join(lines) + "\n")
    return wrong


def slug(heading):
    """The anchor that GitHub gives a heading."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    found, seen = set(), {}
    for line in split(path.read_text())[1]:
        if match := re.match(r"#{1,6} +(.*?)#*$", line):
            name = slug(match[1])
            found.add(f"{name}-{seen[name]}" if name in seen else name)
            seen[name] = seen.get(name, 0) + 1
        found.update(re.findall(r'<a (?:name|id)="([^"]+)"', line))
    return found


def wrong_links(path):
    text = re.sub(r"`[^`\n]*`", "", "\n".join(split(path.read_text())[1]))
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]+)"', text)
    wrong = []
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = urllib.parse.unquote(target).partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            if os.path.relpath(file, SOURCE) not in COMING:
                wrong.append(f"{os.path.relpath(path, SOURCE)}: link to {target}: no such file")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            wrong.append(f"{os.path.relpath(path, SOURCE)}: link to {target}: no such heading; expected one of {', '.join(sorted(anchors(file)))}")
    return wrong


def unnamed_files(path):
    """Files of a page that no text shortly above their blocks names: readers do not see what is behind a fence."""
    text = path.read_text()
    lines = text.splitlines()
    return [f"{path.relative_to(SOURCE)}:{block.first}: write above the block: Save this file as `{block.name}`"
            for block in split(text)[0] if block.name and f"`{block.name}`" not in "".join(lines[max(0, block.first - 6):block.first - 1])]


class Documents(unittest.TestCase):
    chosen = []

    def test_every_example_runs_and_prints_what_the_page_shows(self):
        def timed(path):
            begin = time.monotonic()
            return run_page(path), time.monotonic() - begin
        paths = self.chosen or pages()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for path, (wrong, seconds) in zip(paths, pool.map(timed, paths)):
                print(f"{seconds:6.1f} s  {path.relative_to(SOURCE)}", file=sys.stderr)
                for message in wrong:
                    with self.subTest(page=path.name):
                        self.fail(message)

    def test_links_lead_to_files_and_headings(self):
        self.assertEqual([], [message for path in self.chosen or pages() for message in wrong_links(path)])

    def test_links_of_the_reference_lead_to_files_and_headings(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "guide").symlink_to(SOURCE / "docs" / "guide")
            subprocess.run([BIN / "flow_reference", "write", BIN, root / "reference"], check=True)
            self.assertEqual([], [message for path in sorted(root.glob("reference/*.md")) for message in wrong_links(path)])

    def test_the_text_names_the_files_of_blocks(self):
        self.assertEqual([], [message for path in self.chosen or pages() for message in unnamed_files(path)])


class Comparison(unittest.TestCase):
    """The test's own rules."""

    def test_volatile_parts_and_numbers_may_differ(self):
        self.assertTrue(matches(["done, 600 steps in 12 s, loss 0.2931"], ["done, 600 steps in 9.8 s, loss 0.2932"]))
        self.assertTrue(matches(["120 steps/s"], ["1,000 steps/s"]))
        self.assertTrue(matches(["memory 12 MiB"], ["memory 12.5 MiB"]))
        self.assertFalse(matches(["memory 12 MiB"], ["memory 17 MiB"]))
        self.assertFalse(matches(["600 steps, loss 0.29"], ["601 steps, loss 0.29"]))
        self.assertFalse(matches(["loss 0.29"], ["loss 0.35"]))

    def test_dots_stand_for_any_number_of_lines(self):
        self.assertTrue(matches(["a", "...", "d"], ["a", "b", "c", "d"]))
        self.assertTrue(matches(["a", "...", "d"], ["a", "d"]))
        self.assertTrue(matches(["...", "c", "..."], ["a", "b", "c", "d"]))
        self.assertFalse(matches(["a", "...", "d"], ["a", "b", "c"]))
        self.assertFalse(matches(["...", "x", "..."], ["a", "b", "c", "d"]))

    def test_updates_keep_dots(self):
        self.assertEqual(["A", "...", "D"], updated(["a", "...", "d"], ["A", "b", "c", "D"]))
        self.assertEqual(["A", "B"], updated(["a", "...", "d"], ["A", "B"]))
        self.assertEqual(["...", "c", "...", "E"], updated(["...", "c", "...", "d"], ["a", "b", "c", "d", "E"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="rewrite the shown outputs from a real run")
    parser.add_argument("pages", nargs="*", type=lambda name: pathlib.Path(name).resolve())
    options, rest = parser.parse_known_args()
    if options.update:
        for path in options.pages or pages():
            for message in run_page(path, update=True):
                print(message)
        return
    Documents.chosen = options.pages
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
