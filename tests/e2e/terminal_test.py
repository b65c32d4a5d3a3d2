"""What names, labels and values of users may not do: reach a terminal as something that it obeys."""
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import unittest
import unicodedata
import zipfile

import numpy as np

from flow import BIN, JOBS, ROWS, FlowTest, Program, train_job

# Clears the screen, sets the title, rings, deletes, a C1 control, turns the direction of text, begins a line.
HOSTILE = "\x1b[2J\x1b]0;x\x07\x7f\x9b31m\u202e\u2066\nerror"


class TerminalTest(FlowTest):
    def output(self, program, *words, status=None):
        """What a program writes: text that moves no cursor, every byte of it UTF-8."""
        done = subprocess.run([BIN / program, *words], cwd=self.dir, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        text = (done.stdout + done.stderr).decode()
        obeyed = {char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cf")}
        self.assertEqual(obeyed, set(), text)
        for line in text.splitlines():
            self.assertFalse(line.startswith("error"), text)
        if status is not None:
            self.assertEqual(done.returncode, status, text)
        return text

    def test_a_path_in_an_error(self):
        for words in ((f"{HOSTILE}.yaml",), ("train", f"{HOSTILE}.yaml"), ("job.yaml", "-o", f"job.yaml/{HOSTILE}"), ("job.yaml", "--load", HOSTILE),
                      ("job.yaml", "--root", HOSTILE), ("job.yaml", f"--{HOSTILE}"), ("job.yaml", "--steps", HOSTILE), ("job.yaml", "--input", f"x=@{HOSTILE}.npy")):
            self.write("job.yaml", train_job(2))
            self.assertIn("\\x1b[2J", self.output("flowrun", *words))
        for words in (("check", HOSTILE), ("show", HOSTILE), (HOSTILE,), ("ops", HOSTILE), ("explain", HOSTILE)):
            self.assertIn("\\x1b[2J", self.output("flowc", *words, status=2))
        self.assertIn("\\x1b[2J", self.output("flowdiff", HOSTILE, HOSTILE, status=2))

    def test_a_name_that_is_no_utf8(self):
        self.assertIn("no such file: a\\xff\\x1b.yaml", self.output("flowrun", b"train", b"a\xff\x1b.yaml", status=2))

    def test_text_of_the_job_file_and_of_set(self):
        self.write("job.yaml", train_job(2).replace("sgd", '"\\e[2J\\x9b\\u202e"'))
        self.output("flowc", "check", "job.yaml", status=2)
        self.write("job.yaml", train_job(2))
        self.assertIn("\\x1b", self.output("flowrun", "job.yaml", "--set", f"vars.lr={HOSTILE}", status=2))
        self.assertIn("\\x1b", self.output("flowrun", "job.yaml", "--set", f"vars.{HOSTILE}=1", status=2))

    def test_the_directory_of_a_run(self):
        self.write("job.yaml", train_job(2))
        text = self.output("flowrun", "job.yaml", "-o", HOSTILE, status=0)
        self.assertIn("writing to \\x1b[2J", text)
        self.assertIn("--load $'\\x1b[2J", text)
        again = subprocess.run(["bash", "-c", "printf %s " + text.rsplit("--load ")[1].rstrip("\n")], capture_output=True, timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8"})
        self.assertEqual(again.stdout.decode(), HOSTILE)
        self.output("flowrun", "job.yaml", "-o", HOSTILE, "--force", "--json", status=0)

    def test_a_label_of_a_print_sink(self):
        label = HOSTILE.encode("unicode_escape").decode()
        self.write("job.yaml", train_job(2) + f'    hooks: [{{watch: loss, to: {{type: print, label: "{label}"}}}}]\n')
        self.assertIn("\\x1b[2J\\x1b]0;x\\x07\\u007f\\u009b31m\\u202e\\u2066\\nerror: ", self.output("flowrun", "job.yaml", "-o", "out", status=0))
        self.output("flowrun", "job.yaml", "-o", "json", "--json", status=0)

    def test_a_format_of_a_print_sink(self):
        self.write("job.yaml", train_job(2) + '    hooks: [{watch: loss, to: {type: print, format: "\\e[31m\\t\\u202e%g\\n"}}]\n')
        printed = subprocess.run([BIN / "flowrun", "job.yaml", "--quiet", "-o", "out"], cwd=self.dir, capture_output=True, text=True, check=True).stdout
        self.assertRegex(printed, r"^loss: \[(\\x1b\[31m\t\\u202e[0-9.]+\\n\n? ?){8}\]\n")

    def test_what_flowc_shows(self):
        label = HOSTILE.encode("unicode_escape").decode()
        self.write("job.yaml", train_job(2) + f'    hooks: [{{watch: loss, to: {{type: command, run: ["{label}"], env: {{A: "{label}"}}}}}}, {{watch: logits, to: {{type: print, label: "{label}"}}}}]\n')
        for flags in ((), ("--steps",), ("--commands",), ("--format", "json"), ("--format", "dot"), ("--format", "svg")):
            self.output("flowc", "show", "job.yaml", *flags, status=0)
        self.output("flowc", "config", "job.yaml", status=0)
        self.write("other.yaml", (self.dir / "job.yaml").read_text().replace("\\x9b", ""))
        self.output("flowc", "diff", "job.yaml", "other.yaml", status=1)

    def test_an_array_of_an_archive(self):
        self.write("job.yaml", ROWS.replace("{npy: x.npy}", "{npz: x.npz, array: x}"))
        with zipfile.ZipFile(self.dir / "x.npz", "w") as archive:
            archive.writestr(HOSTILE + ".npy", b"")
        self.assertIn("use `\\x1b[2J", self.output("flowrun", "job.yaml", "-o", "out", status=3))

    def test_names_that_flowdiff_compares(self):
        for side, value in (("golden", 0), ("out", 1)):
            (self.dir / side).mkdir()
            np.save(self.dir / side / HOSTILE, np.full(2, value))
            (self.dir / side / f"{HOSTILE} damaged.npy").write_bytes(b"\x1b[2J\x9b")
        for flags in ((), ("--md", "-"), ("--junit", "-"), ("--json", "-"), ("--tol", f"{HOSTILE}=1")):
            self.output("flowdiff", "golden", "out", *flags)
        for flag in ("--md", "--junit"):
            self.output("flowdiff", "golden", "out", flag, "report")
            report = (self.dir / "report").read_text()
            self.assertEqual({char for char in report if unicodedata.category(char) in ("Cc", "Cf")}, {"\n"})


class Screen:
    """What a terminal shows of a program's output: text, line ends, and the escapes that the bar of flowrun uses."""

    def __init__(self, columns):
        self.columns, self.lines, self.row, self.column = columns, [""], 0, 0

    def feed(self, text):
        for piece in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|.", text, re.DOTALL):
            if piece == "\r":
                self.column = 0
            elif piece == "\x1b[J":
                self.lines[self.row:] = [self.lines[self.row][:self.column]]
            elif piece == "\x1b[A":
                self.row -= 1
            elif piece == "\n":
                self.next_line()
            else:
                self.put(piece)

    def next_line(self):
        self.row += 1
        self.lines += [""] * (self.row + 1 - len(self.lines))

    def put(self, piece):
        if self.column == self.columns:
            self.next_line()
            self.column = 0
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[:self.column] + piece + line[self.column + 1:]
        self.column += 1


class ProgressTest(FlowTest):
    def shown(self, program, *words, columns=70, output=None, stop=None, **env):
        """The lines on a terminal after each write of a program; `stop`: a signal once a bar is drawn."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        screen, shown = Screen(columns), []
        with open(ours, "rb", buffering=0) as terminal, Program([BIN / program, *map(str, words)], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=theirs if output is None else output,
                                                                stderr=theirs, env={**os.environ, "TERM": "xterm", **env}) as running:
            os.close(theirs)
            with contextlib.suppress(OSError):  # nobody has the terminal any more
                while piece := terminal.read(65536):
                    for part in re.split("(?=\r\x1b\\[J)", piece.decode()):
                        screen.feed(part)
                        shown.append([line for line in screen.lines if line])
                    if stop and "/1000000" in shown[-1][-1]:
                        running.send_signal(stop)
                        stop = None
            running.wait(60)
        return shown

    def write_job(self, steps, sink):
        self.write("job.yaml", train_job(steps) + f"    returns: {{value: loss, to: {sink}}}\n")

    def test_the_bar_is_below_the_lines_and_goes_at_the_end(self):
        self.write_job(3, "{type: print, reduce: mean}")
        shown = self.shown("flowrun", "job.yaml", "-o", "out", columns=200)
        bars = [lines for lines in shown if "/3" in lines[-1]]
        self.assertTrue([lines for lines in bars if lines[-2].startswith("step 1 loss: ")], shown)
        self.assertRegex(bars[-1][-1], r"^train \[[= ]+\] [123]/3  .* steps/s  loss [0-9.]+  .* left$")
        self.assertEqual([line.split(":")[0] for line in shown[-1]], ["flowrun", "step 0 loss", "step 1 loss", "step 2 loss", "flowrun"])

    def test_the_bar_shows_though_the_output_goes_elsewhere(self):
        self.write_job(3, "{type: print, reduce: mean}")
        with open(self.dir / "log", "wb") as log:
            shown = self.shown("flowrun", "job.yaml", "-o", "out", output=log)
        self.assertTrue([lines for lines in shown if "3/3" in lines[-1]], shown)
        self.assertRegex((self.dir / "log").read_text(), r"^(loss: [0-9.]+\n){3}$")

    def test_print_lines_have_the_step_where_it_is_chosen(self):
        self.write_job(2, "{type: print, reduce: mean, step: true}")
        self.assertRegex(self.flowrun("job.yaml", "-o", "a", "--quiet").stdout, r"^step 0 loss: .*\nstep 1 loss: .*\n$")
        self.write_job(2, "{type: print, reduce: mean, step: false}")
        self.assertEqual([line.split(":")[0] for line in self.shown("flowrun", "job.yaml", "-o", "b", "--quiet")[-1]], ["loss", "loss"])

    def test_no_bar_is_longer_than_the_terminal(self):
        self.write_job(3, "none")
        for columns in (1, 9, 30):
            left = "".join(self.shown("flowrun", "job.yaml", "-o", "out", "--force", columns=columns)[-1])
            self.assertRegex(left, "^flowrun: train on.*writing to outflowrun: train done, 3 steps.*--load out$")

    def test_where_no_bar_is_wanted_there_is_none(self):
        self.write_job(3, "none")
        for words, env in (((), {"TERM": "dumb"}), (("--quiet",), {})):
            shown = self.shown("flowrun", "job.yaml", "-o", "out", "--force", *words, **env)
            self.assertFalse([line for lines in shown for line in lines if "/3" in line], shown)

    def test_a_run_that_fails_or_is_stopped_leaves_no_bar(self):
        self.write_job(1_000_000, "none")
        for words, stop in (((), signal.SIGINT), (("--set", "vars.lr=1e38"), None)):
            shown = self.shown("flowrun", "job.yaml", "-o", "out", "--force", *words, stop=stop, columns=200)
            self.assertTrue([lines for lines in shown if "starting" in lines[-1] or "/1000000" in lines[-1]], shown)
            self.assertTrue(shown[-1][-1].startswith("flowrun: "), shown[-1])
            self.assertFalse([line for line in shown[-1] if "/1000000" in line], shown[-1])

    def test_tables_and_lists_fit_the_terminal(self):
        self.write("lenet.yaml", (JOBS / "lenet.yaml").read_text())
        for columns in (40, 60, 80):
            for words in (["init"], ["show", "lenet.yaml"], ["show", "lenet.yaml", "--steps"]):
                lines = self.shown("flowc", *words, columns=1000)[-1]
                fitting = self.shown("flowc", *words, columns=columns)[-1]
                self.assertLessEqual(max(map(len, fitting)), columns)
                self.assertGreaterEqual(len(fitting), len(lines))


if __name__ == "__main__":
    unittest.main()
