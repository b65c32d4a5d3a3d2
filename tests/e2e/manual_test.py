"""`flowc help`, what completions ask for, man pages, and whether the reference names all files and variables."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from flow import BIN, JOBS, SOURCE, FlowTest, train_job


class Help(FlowTest):
    def test_lists_every_guide_and_page(self):
        topics = self.call("flowc", "help").stdout
        for path in sorted((SOURCE / "docs/guide").glob("*.md")):
            self.assertRegex(topics, rf"(?m)^  {path.stem} ")
        for name in ("job", "ops", "optimizers", "schedules", "errors", "files", "environment"):
            self.assertRegex(topics, rf"(?m)^  {name} ")

    def test_shows_every_topic_within_the_columns(self):
        for topic in self.call("flowc", "complete", "topics").stdout.split():
            text = self.call("flowc", "help", topic).stdout
            self.assertGreater(len(text), 200, topic)
            self.assertNotIn("](", text, topic)
            for line in text.splitlines():
                # Code and words without blanks stay whole.
                if not line.startswith("    ") and max(map(len, line.split()), default=0) < 60:
                    self.assertLessEqual(len(line), 100, f"{topic}: {line}")

    def test_unknown_topics(self):
        said = self.call("flowc", "help", "checkpoint", status=2).stderr
        self.assertEqual(said, "flowc: error: unknown topic `checkpoint`\n   hint: did you mean `checkpoints`?\n")
        said = self.call("flowc", "help", "quantum", status=2).stderr
        self.assertEqual(said, "flowc: error: unknown topic `quantum`\n   hint: run `flowc help` to list the topics\n")
        for topic, command in (("check", "check --help"), ("conv2d", "ops conv2d"), ("E0312", "explain E0312")):
            self.assertIn(f"hint: run `flowc {command}`\n", self.call("flowc", "help", topic, status=2).stderr)

    def test_links_have_the_commands_that_show_them(self):
        self.assertIn("see hooks (`flowc help hooks`).", " ".join(self.call("flowc", "help", "tutorial").stdout.split()))

    def test_the_hidden_command_is_not_listed(self):
        self.assertNotIn("complete", self.call("flowc", "--help").stdout)


class Completion(FlowTest):
    def complete(self, *words):
        return self.call("flowc", "complete", *words).stdout.split()

    def test_names_of_tables(self):
        self.assertIn("conv2d", self.complete("ops"))
        self.assertIn("E0302", self.complete("codes"))
        self.assertIn("lenet", self.complete("templates"))
        self.assertEqual(self.complete("nonsense"), [])

    def test_jobs_of_files(self):
        self.assertEqual(self.complete("jobs", JOBS / "lenet.yaml")[:3], ["train", "eval", "accuracy"])
        self.write("broken.yaml", "flow: 1\njobs:\n  one: {type: train}\n  two: {}\n")
        self.assertEqual(self.complete("jobs", "broken.yaml", "missing.yaml"), ["one", "two"])
        self.call("flowc", "build", JOBS / "mlp.yaml", "-o", "mlp.plan")
        self.assertIn("train", self.complete("jobs", "mlp.plan"))

    def test_paths_of_set(self):
        self.write("job.yaml", train_job(3))
        paths = lambda word: self.complete("paths", f"--word={word}", "job.yaml")
        self.assertEqual(paths("va"), ["vars."])
        self.assertEqual(paths("vars."), ["vars.lr="])
        self.assertEqual(paths("jobs.train.run.st"), ["jobs.train.run.steps="])
        self.assertIn("jobs.train.run.epochs=", paths("jobs.train.run."))  # the file has none
        self.assertIn("jobs.train.optimizer.momentum=", paths("jobs.train.optimizer."))
        self.assertIn("jobs.train.graph.hidden.kernel_initializer=", paths("jobs.train.graph.hidden.k"))
        self.assertEqual(paths("+jobs.train.h"), ["+jobs.train.hooks="])
        self.assertEqual(paths("~jobs.train.run.st"), ["~jobs.train.run.steps"])
        self.assertEqual(paths("jobs.nobody."), [])

    def bash(self, line):
        """What bash offers at the end of a line."""
        program = line.split()[0]
        script = f"""source {self.dir}/completions/bash/{program}
            compopt() {{ :; }}
            COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
            COMP_WORDS=({line.replace("=", " = ")}{' ""' if line.endswith(" ") else ""})
            COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
            _{program}
            printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=self.dir,
                              env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def generate(self):
        program = BIN / "flow_reference"
        if not program.exists():
            self.skipTest("flow_reference is not built")
        subprocess.run([program, "completions", BIN, self.dir / "completions"], check=True)

    def test_bash(self):
        self.generate()
        self.write("job.yaml", train_job(3))
        self.assertEqual(self.bash("flowc exp"), ["export", "explain"])
        self.assertEqual(self.bash("flowc ops conv2d_"), ["conv2d_transpose"])
        self.assertEqual(self.bash("flowc help sched"), ["schedules"])
        self.assertEqual(self.bash("flowrun tr"), ["train"])
        self.assertEqual(self.bash("flowrun train jo"), ["job.yaml"])
        self.assertEqual(self.bash("flowrun train job.yaml --set vars."), ["vars.lr="])
        self.assertIn("vars.", self.bash("flowrun train job.yaml --set "))
        self.assertEqual(self.bash("flowrun train job.yaml --res"), ["--resume"])
        self.assertEqual(self.bash("flowrun train job.yaml --device c"), ["cpu"])
        self.assertEqual(self.bash("flowrun train job.yaml --set vars.lr=0"), [])
        self.assertEqual(self.bash("flowrun --set vars.lr=0 train jo"), ["job.yaml"])
        self.assertEqual(self.bash("flowrun --set=vars.lr=0 --fingerprint=5 train jo"), ["job.yaml"])
        self.assertEqual(self.bash("flowdiff a b --jun"), ["--junit"])
        self.assertEqual(self.bash("flowdiff up"), ["update"])
        self.assertEqual(self.bash("flowdiff update a b --re"), ["--reason"])
        self.assertEqual(self.bash("flowdiff calibrate tr"), ["train"])
        self.assertEqual(self.bash("flowdiff jo"), ["job.yaml"])

    def test_zsh_and_fish_accept_theirs(self):
        self.generate()
        for shell, names in (("zsh", ["_flowc", "_flowrun", "_flowdiff"]), ("fish", ["flowc.fish", "flowrun.fish", "flowdiff.fish"])):
            if not shutil.which(shell):
                continue
            for name in names:
                done = subprocess.run([shell, "-n", self.dir / "completions" / shell / name], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_fish(self):
        self.generate()
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")
        self.write("job.yaml", train_job(3))

        def fish(line):
            script = f"for f in {self.dir}/completions/fish/*.fish; source $f; end; complete -C '{line}'"
            done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, cwd=self.dir,
                                  env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(self.dir)})
            return [one.split("\t")[0] for one in done.stdout.splitlines()]
        self.assertEqual(fish("flowc expl"), ["explain"])
        self.assertEqual(fish("flowc ops conv2d_"), ["conv2d_transpose"])
        self.assertIn("vars.lr=", fish("flowrun train job.yaml --set vars."))
        self.assertIn("vars.", fish("flowrun train job.yaml --set "))
        self.assertEqual(fish("flowrun train job.yaml --device c"), ["cpu"])


class Manuals(FlowTest):
    def test_troff_has_no_complaint(self):
        program = BIN / "flow_reference"
        if not program.exists() or not shutil.which("groff"):
            self.skipTest("no flow_reference, or no groff")
        subprocess.run([program, "man", BIN, self.dir / "man"], check=True)
        pages = sorted((self.dir / "man").iterdir())
        self.assertEqual([page.name for page in pages], ["flow-job.5", "flowc.1", "flowdiff.1", "flowrun.1"])
        for page in pages:
            done = subprocess.run(["groff", "-man", "-Tutf8", "-P-c", "-ww", page], capture_output=True, text=True)
            self.assertEqual(done.stderr, "", page.name)
            self.assertIn(page.stem, done.stdout)
            self.assertNotIn("YAML-LANGUAGE-SERVER", done.stdout)


class Tables(FlowTest):
    """The tables that no reader of the language goes by: against the sources, and against what a run writes."""

    def page(self, name):
        if not (BIN / "flow_reference").exists():
            self.skipTest("flow_reference is not built")
        self.call("flow_reference", "write", BIN, self.dir / "reference")
        return (self.dir / "reference" / f"{name}.md").read_text()

    def test_every_variable_that_is_read_or_set_is_listed(self):
        page = self.page("environment")
        listed = set(re.findall(r"^\| `(\w+)` ", page, re.M))
        used = set()
        for folder in ("cli", "runtime"):
            for path in (SOURCE / folder).rglob("*.cpp"):
                text = path.read_text()
                used |= set(re.findall(r'getenv\("(\w+)"\)|folder\("(\w+)"\)', text) and
                            [a or b for a, b in re.findall(r'getenv\("(\w+)"\)|folder\("(\w+)"\)', text)])
                used |= set(re.findall(r'"(FLOW_[A-Z_]+)"', text))
                used |= set(re.findall(r'const char\* k\w+ = "([A-Z]+(?:_[A-Z]+)+)";', text))
                used |= set(re.findall(r'\.rank = "(\w+)"', text))  # of a launcher; the others stand with it
                used |= set(re.findall(r'(?:environment_\(|path_in\(environment_, |const char\* name : \{)"([A-Z_]+)"', text))  # likewise
        self.assertEqual(used - listed, set())
        self.assertEqual(listed - used, {"LD_LIBRARY_PATH", "ONEDNN_MAX_CPU_ISA"})  # which the loader and oneDNN read

    def test_every_file_of_a_run_is_listed(self):
        self.write("job.yaml", train_job(4).replace("    run: {steps: 4}", """    returns: {value: loss}
    hooks: [{watch: hidden, every: 2}, {watch_diff: hidden}, {watch_scope: logits, to: {type: npy, layout: per_step}}]
    run: {steps: 4, also: [{job: other, every: {steps: 2}}]}
  other:
    type: predict
    inputs: {x: {shape: [8, 6], dtype: float32, from: {type: iota}}}
    graph: {y: {op: relu, in: x}}
    returns: {value: y}"""))
        self.flowrun("train", "job.yaml", "-o", "out", "--profile", "--quiet")
        page = self.page("files")
        rows = re.findall(r"^\| `([^`]+)` ", page, re.M)
        pattern = lambda row: re.compile(re.sub(r"NAME|SCOPE|SLOT|JOB", "[^.]+", re.escape(row)).replace("000200", r"\d+") + ("" if row.endswith("/") else "$"))
        files = [str(path.relative_to(self.dir / "out")) for path in (self.dir / "out").rglob("*") if path.is_file()]
        self.assertGreater(len(files), 12)
        for name in files:
            inner = re.sub(r"^(checkpoints/\d+|also/\w+)/", "", name)
            self.assertTrue(any(pattern(row).match(inner) for row in rows), name)
        keys = {key for row in self.rows("out") for key in row}
        self.assertLessEqual(keys, set(rows))


if __name__ == "__main__":
    unittest.main()
