"""What names, labels and values of users may not do: reach a terminal as something that it obeys."""
import os
import subprocess
import unittest
import unicodedata
import zipfile

import numpy as np

from flow import BIN, ROWS, FlowTest, train_job

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


if __name__ == "__main__":
    unittest.main()
