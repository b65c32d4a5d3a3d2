#!/usr/bin/env python3
"""Records a real terminal session as docs/terminal.svg, an animated picture for light and dark pages.

    FLOW_BIN=$PWD/build/release/bin docs/record.py            runs the commands below in the root of the checkout

Every character comes from a real run in a pseudo-terminal. Commands that take long play faster. The picture plays once and stays at its end; a
viewer that asks for reduced motion sees the end at once.
"""
import html
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import tempfile
import time
import fcntl
import termios

SOURCE = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(os.environ.get("FLOW_BIN", SOURCE / "build" / "release" / "bin")).resolve()
COLUMNS, ROWS = 104, 40

COMMANDS = [
    "flowc check jobs/broken.yaml",
    "flowrun train jobs/lenet.yaml -o out/train",
    "flowrun accuracy jobs/lenet.yaml --load out/train --quiet",
    "flowrun eval jobs/lenet.yaml --load out/train -o out/eval --quiet",
    "flowrun eval jobs/lenet.yaml --load out/train -o out/eval1 --quiet --threads 1",
    "flowdiff out/eval out/eval1",
]
LONGEST_OUTPUT = 8  # lines of a command; of longer ones the middle is left out, and the picture says so
LONGEST_TIME = 4.0  # seconds of a command; longer ones play faster
TYPING = 0.8  # seconds that a command takes to appear

STYLE = """
  .window { fill: #f6f8fa; stroke: #d0d7de }
  text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre; fill: #1f2328 }
  .prompt { fill: #1a7f37 } .command { font-weight: 600 } .left-out { fill: #6e7781; font-style: italic }
  .error { fill: #cf222e; font-weight: 600 } .hint { fill: #0550ae }
  @media (prefers-color-scheme: dark) {
    .window { fill: #161b22; stroke: #30363d }
    text { fill: #e6edf3 }
    .prompt { fill: #3fb950 } .left-out { fill: #8b949e } .error { fill: #ff7b72 } .hint { fill: #79c0ff }
  }
  g { animation: show 0s both }
  g.brief { animation: flash both; opacity: 0 }
  @keyframes show { from { opacity: 0 } to { opacity: 1 } }
  @keyframes flash { from { opacity: 1 } to { opacity: 1 } }
  @media (prefers-reduced-motion: reduce) { g { animation: none } g.brief { display: none } }
"""


class Screen:
    """What a terminal shows of a command's output: its lines, and when each got which text."""

    def __init__(self):
        self.lines = [[]]  # of each line [(time, text), ...]
        self.row, self.column = 0, 0

    def text(self, row):
        return self.lines[row][-1][1] if self.lines[row] else ""

    def put(self, now, row, text):
        if self.lines[row] and self.lines[row][-1][0] == now:
            self.lines[row][-1] = (now, text)
        elif text != self.text(row):
            self.lines[row].append((now, text))

    def feed(self, now, data):
        for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|[\r\n])", data):
            if part == "\n":
                self.row += 1
                self.column = 0
                if self.row == len(self.lines):
                    self.lines.append([])
            elif part == "\r":
                self.column = 0
            elif part.startswith("\x1b["):
                self.control(now, part)
            elif part:
                old = self.text(self.row).ljust(self.column)
                self.put(now, self.row, old[:self.column] + part + old[self.column + len(part):])
                self.column += len(part)

    def control(self, now, code):
        if code == "\x1b[J":
            self.put(now, self.row, self.text(self.row)[:self.column])
            for row in range(self.row + 1, len(self.lines)):
                self.put(now, row, "")
        elif code == "\x1b[K":
            self.put(now, self.row, self.text(self.row)[:self.column])
        elif code.endswith("A"):
            self.row -= int(code[2:-1] or 1)
        elif not code.endswith("m"):
            raise SystemExit(f"record.py: unknown control sequence {code!r}")


def run(command, folder):
    """A screen with the output of a command, its times in seconds from the start of the command."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(folder), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=env, stdin=other, stdout=other, stderr=other, start_new_session=True)
    os.close(other)
    screen, begin, data = Screen(), time.monotonic(), b""
    while True:
        ready, _, _ = select.select([main], [], [], 0.2)
        try:
            data = os.read(main, 65536) if ready else b""
        except OSError:  # the other end is closed
            break
        if data:
            screen.feed(round(time.monotonic() - begin, 2), data.decode(errors="replace"))
        elif process.poll() is not None:
            break
    process.wait()
    os.close(main)
    return screen


def played(lines, offset):
    """A command's lines with the times at which the picture shows them, from `offset`, and the end."""
    last = max((when for line in lines for when, _ in line), default=0.0)
    speed = max(1.0, last / LONGEST_TIME)
    return [[(offset + when / speed, text) for when, text in line] for line in lines], offset + last / speed


def thinned(line):
    """A line with at most four changes: a progress bar changes often."""
    if len(line) <= 4:
        return line
    step = (len(line) - 1) / 3
    return [line[round(i * step)] for i in range(3)] + [line[-1]]


def shortened(lines):
    """Lines that show something, with the middle of long outputs left out."""
    while lines and not (lines[-1] and lines[-1][-1][1]):
        last = lines.pop()
        if last and lines:  # a progress bar that was cleared
            lines.append(last)
            break
    if len(lines) <= LONGEST_OUTPUT:
        return lines
    head, tail = LONGEST_OUTPUT // 2, LONGEST_OUTPUT - LONGEST_OUTPUT // 2
    hidden = lines[head:-tail]
    bars = [change for line in hidden for change in line[:-1]]  # the progress bar moves on while lines are left out
    step = max(1, len(bars) // 12)
    return lines[:head] + [bars[::step] + [(lines[-tail][0][0], f"... {len(hidden)} lines ...")]] + lines[-tail:]


def css_class(text):
    if re.match(r"\.\.\. \d+ lines", text):
        return "left-out"
    if ": error:" in text:
        return "error"
    if text.strip().startswith("hint:"):
        return "hint"
    return ""


def picture(sessions):
    """The SVG of [(command, lines)], lines of [(time, text)]."""
    rows, body, height = 0, [], 19
    for start, command, lines in sessions:
        y = 44 + rows * height
        body.append(f'<g style="animation-delay:{start:.2f}s"><text x="18" y="{y:.0f}"><tspan class="prompt">$ </tspan>'
                    f'<tspan class="command">{html.escape(command)}</tspan></text></g>')
        rows += 1
        for line in lines:
            y = 44 + rows * height
            for number, (when, text) in enumerate(line):
                if not text.strip():
                    continue
                end = line[number + 1][0] if number + 1 < len(line) else None
                how = f'style="animation-delay:{when:.2f}s"'
                if end is not None:
                    how = f'class="brief" style="animation-delay:{when:.2f}s;animation-duration:{max(0.01, end - when):.2f}s;animation-fill-mode:none"'
                kind = f' class="{css_class(text)}"' if css_class(text) else ""
                body.append(f'<g {how}><text x="18" y="{y:.0f}"{kind}>{html.escape(text)}</text></g>')
            rows += 1
        rows += 0.4
    width, tall = 18 * 2 + COLUMNS * 7.83, 44 + rows * height
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{tall:.0f}" viewBox="0 0 {width:.0f} {tall:.0f}" role="img">\n'
            f"<title>A terminal: flowc finds an error, flowrun trains LeNet and prints its accuracy, flowdiff compares two runs.</title>\n"
            f"<style>{STYLE}</style>\n"
            f'<rect class="window" x="0.5" y="0.5" width="{width - 1:.0f}" height="{tall - 1:.0f}" rx="8"/>\n'
            '<circle cx="18" cy="16" r="5" fill="#ff5f57"/><circle cx="36" cy="16" r="5" fill="#febc2e"/><circle cx="54" cy="16" r="5" fill="#28c840"/>\n'
            + "\n".join(body) + "\n</svg>\n")


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="flow-record-"))
    try:
        for name in ("jobs", "schemas"):
            shutil.copytree(SOURCE / name, folder / name)
        broken = (folder / "jobs/lenet.yaml").read_text().replace("filters: 64, kernel_size: 5, padding: same", "filters: 64, kernel_size: 15")
        (folder / "jobs/broken.yaml").write_text(broken)
        sessions, now = [], 0.3
        for command in COMMANDS:
            screen = run(command, folder)
            lines, end = played(shortened([thinned(line) for line in screen.lines]), now + TYPING)
            sessions.append((now, command, lines))
            now = end + TYPING
        (SOURCE / "docs" / "terminal.svg").write_text(picture(sessions))
        print(f"docs/terminal.svg: {now:.0f} s")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
