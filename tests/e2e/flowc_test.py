"""flowc's commands, and the help texts of all programs."""
import json
import os
import re
import resource
import subprocess
import unittest
from xml.etree import ElementTree

from flow import BIN, JOBS, SOURCE, FlowTest, train_job

BROKEN = """flow: 1
jobs:
  train:
    type: train
    inputs:
      x: {shape: [4, 3], dtype: float32, from: {type: random_normal}}
    graph:
      y: {op: dens, in: x, units: 2}
      z: {op: relu, in: y}
    optimiser: {type: sgd}
"""


class Commands(FlowTest):
    def test_check_reads_several_files_and_reports_every_error_of_each(self):
        self.write("broken.yaml", BROKEN)
        done = self.call("flowc", "check", JOBS / "lenet.yaml", "broken.yaml", JOBS / "mlp.yaml", status=2)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn("broken.yaml:8:15: error:", done.stderr)
        self.assertIn("did you mean `dense`", done.stderr)
        self.assertIn("optimizer", done.stderr)
        self.assertIn("broken.yaml: ", done.stderr.splitlines()[-1])

    def test_options_go_anywhere(self):
        mlp, other = JOBS / "mlp.yaml", self.write("-b.yaml", train_job(1))
        for words in ((mlp, "--set", "seed=1", other), ("--set", "seed=1", "--set=seed=2", mlp, other), ("--set", "seed=1", "--", mlp, "-b.yaml"), (mlp, "--", "-b.yaml")):
            self.assertEqual(len(self.call("flowc", "check", *words).stdout.splitlines()), 2, words)
        self.call("flowc", "build", "--set", "seed=1", mlp, "--output=a.plan")
        self.call("flowc", "diff", "--set", "seed=1", "a.plan", "a.plan", status=2)
        self.call("flowc", "show", "--set", "seed=1", mlp)
        self.write("build", train_job(1))
        self.call("flowc", "check", "build", "--set", "seed=1")

    def test_messages_as_json_say_what_the_text_says(self):
        def objects(*words, status=2):
            done = self.call("flowc", "check", "--format", "json", *words, status=status)
            self.assertEqual(done.stderr, "")
            return [json.loads(line) for line in done.stdout.splitlines()]
        keys = ["severity", "code", "file", "line", "column", "end_line", "end_column", "message", "notes", "hints", "related"]
        self.write("broken.yaml", BROKEN)
        found = objects("broken.yaml", JOBS / "mlp.yaml", "absent.yaml")
        for each in found:
            self.assertEqual(list(each), keys)
        text = self.call("flowc", "check", "broken.yaml", status=2).stderr
        for each in found[:-1]:
            self.assertIn("{file}:{line}:{column}: {severity}: {message} [{code}]\n".format(**each), text)
        self.assertEqual(len(found) - 1, text.count(": error: ") + text.count(": warning: "))
        self.assertEqual({"file": "absent.yaml", "line": None, "code": None, "message": "no such file: absent.yaml"},
                         {key: found[-1][key] for key in ("file", "line", "code", "message")})
        self.assertEqual(objects(JOBS / "mlp.yaml", status=0), [])
        [warning] = objects(JOBS / "mlp.yaml", "--set", "+vars.zz=1", status=0)
        self.assertEqual((warning["severity"], warning["file"]), ("warning", "--set +vars.zz=1"))
        folder = self.write("a\x1b[2J\u202e\nb.yaml", "flow: 1\njobs:\n  a\u0301: 1\n  a\u0301: 1\n  \"\\e[2J\": 2\n")
        hostile = objects(folder.name)
        self.assertEqual({each["file"] for each in hostile}, {folder.name})
        twice = next(each for each in hostile if each["code"] == "E0107")
        self.assertEqual([twice[key] for key in ("line", "column", "end_line", "end_column")], [4, 3, 4, 5])
        self.assertEqual([(each["line"], each["column"]) for each in twice["related"]], [(3, 3)])
        (self.dir / "bytes.yaml").write_bytes(b"flow: 1\n\xff\x9b")
        self.assertEqual([(each["line"], each["column"]) for each in objects("bytes.yaml")], [(2, 1)])

    def test_explain_describes_every_code_it_prints(self):
        self.write("broken.yaml", BROKEN)
        errors = self.call("flowc", "check", "broken.yaml", status=2).stderr
        codes = {word.strip("[]") for word in errors.split() if word.startswith("[E") and word.endswith("]")}
        self.assertTrue(codes)
        for code in codes:
            self.assertTrue(self.call("flowc", "explain", code).stdout.startswith(code + ": "))
            self.assertTrue(self.call("flowc", "explain", code[2:]).stdout.startswith(code + ": "))

    def test_explain_of_an_unknown_code_is_a_wrong_request(self):
        self.call("flowc", "explain", "E9999", status=2)

    def test_show_names_every_step_and_its_line(self):
        text = self.call("flowc", "show", JOBS / "lenet.yaml", "--job", "train", "--steps").stdout
        for word in ("lenet/conv1/conv", "lenet/dense2/weight", "truncated_normal", "lenet.yaml:", "mnist_train.images"):
            self.assertIn(word, text)

    def shown(self, *words):
        """Each line of `flowc show`, in cells, by its first cell; and all of it."""
        text = self.call("flowc", "show", *words).stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 100, text)
        return {cells[0]: cells[1:] for cells in (re.split(r"  +", line.strip()) for line in text.splitlines())}, text

    def test_show_has_a_line_for_each_entry_and_the_totals(self):
        lines, _ = self.shown(JOBS / "lenet.yaml", "--job", "train")
        self.assertEqual(lines["images"], ["input", "[100, 1, 28, 28]", "306 KiB", "38"])
        self.assertEqual(lines["conv1"], ["conv2d + relu", "[100, 32, 28, 28]", "832", "130 M", "9.57 MiB", "25"])
        self.assertEqual(lines["flat"], ["flatten", "[100, 3136]", "1.20 MiB", "29"])
        self.assertEqual(lines["dense1"], ["dense + relu", "[100, 512]", "1.61 M", "321 M", "200 KiB", "30"])
        self.assertEqual(lines["parameters"], ["1,663,370, all trained"])
        self.assertEqual(lines["FLOPs a step"], ["7.26 G: 2.47 G forward, 4.79 G backward and update"])
        self.assertEqual(lines["learning rate"], ["constant 0.1"])
        self.assertEqual(lines["run"], ["1 epoch"])
        predict, _ = self.shown(JOBS / "lenet.yaml", "--job", "eval")
        self.assertNotIn("drop", predict)  # a predict job has none
        self.assertEqual(predict["parameters"], ["1,663,370"])
        frozen, _ = self.shown(JOBS / "lenet.yaml", "--job", "train", "--set", "jobs.train.optimizer.variables=lenet/dense2/*")
        self.assertEqual(frozen["parameters"], ["1,663,370: 5,130 trained, 1,658,240 frozen"])

    def test_show_fits_resnet_on_a_screen_and_counts_repeats(self):
        lines, text = self.shown(JOBS / "resnet18.yaml", "--job", "train")
        self.assertLess(len(text.splitlines()), 50)
        self.assertEqual(lines["stage1 x 2"][:3], ["block", "[100, 64, 28, 28]", "148 k"])
        self.assertEqual(lines["stage3"][:3], ["stage, as stage2", "[100, 256, 7, 7]", "2.10 M"])
        _, full = self.shown(JOBS / "resnet18.yaml", "--job", "train", "--all")
        self.assertGreater(len(full.splitlines()), 90)
        self.assertIn("stage1/1", full)
        # The same sums, with or without it.
        self.assertEqual(text.splitlines()[-9:], full.splitlines()[-9:])

    def test_show_counts_the_known_operations_of_resnet_18(self):
        """1.82 G multiply-adds for an image of 224 x 224 (He et al., 2016: 1.8 G), and 11.69 M parameters."""
        changes = ("networks.resnet18.graph.stem={op: convolve, in: images, filters: 64, kernel: 7, stride: 2}",
                   "networks.resnet18.graph.relu={op: max_pool2d, in: stem, ksize: 3, strides: 2, padding: same}",
                   "networks.resnet18.params.classes=1000", "vars.batch=2",
                   "jobs.train_cifar.inputs.images={shape: [2, 3, 224, 224], dtype: float32, from: {type: random_normal}}")
        lines, _ = self.shown(JOBS / "resnet18.yaml", "--job", "train_cifar", *(word for change in changes for word in ("--set", change)))
        forward = float(re.search(r"([0-9.]+) G forward", lines["FLOPs a step"][0])[1])
        self.assertAlmostEqual(forward / 4, 1.82, delta=0.03)
        self.assertEqual(lines["parameters"], ["11,689,512, all trained, and 9,600 moving statistics"])

    def test_show_counts_the_known_parameters_and_operations_of_resnet_50_and_gpt_2(self):
        """torchvision: 25,557,032 parameters, 4.09 G multiply-adds an image, without those of sums and norms. GPT-2: 124,439,808 parameters."""
        lines, _ = self.shown(JOBS / "resnet50.yaml", "--job", "train", "--set", "vars.batch=1")
        forward = float(re.search(r"([0-9.]+) G forward", lines["FLOPs a step"][0])[1])
        self.assertAlmostEqual(forward / 2, 4.09, delta=0.07)
        self.assertEqual(lines["parameters"], ["25,557,032, all trained, and 53,120 moving statistics"])
        lines, _ = self.shown(JOBS / "gpt2.yaml", "--job", "train")
        self.assertEqual(lines["parameters"], ["124,439,808, all trained"])

    def test_show_of_a_plan_has_the_entries_of_the_job_file(self):
        """Networks have no names in a plan, and ops that are other ops: else it is the same."""
        for name in ("lenet", "gpt_tiny", "gpt2", "siamese", "gan", "autoencoder"):
            self.call("flowc", "build", JOBS / f"{name}.yaml", "-o", "job.plan")
            of_file, of_plan = (self.call("flowc", "show", source, "--all").stdout.splitlines() for source in (JOBS / f"{name}.yaml", "job.plan"))
            numbers = [[re.findall(r"^ *[a-z0-9_/]+|\[[^]]*\]|[0-9.]+ (?:[kMG]|[KM]iB|B)\b", line) for line in lines if line.startswith("  ")] for lines in (of_file, of_plan)]
            self.assertEqual(*numbers)

    def test_show_takes_linear_time(self):
        """20,000 entries in a chain, each of which reads the first one, too."""
        entries = "".join(f"      e{i}: {{op: add, in: [e{i - 1}, e0]}}\n" for i in range(1, 20_000))
        self.write("job.yaml", "flow: 1\njobs:\n  look:\n    type: predict\n    inputs: {x: {shape: [2], dtype: float32, from: {type: random_normal}}}\n"
                   f"    graph:\n      e0: {{op: relu, in: x}}\n{entries}    returns: {{value: e19999}}\n")
        self.call("flowc", "build", "job.yaml", "-o", "job.plan")
        for flags in ((), ("--all",), ("--steps",), ("--memory",), ("--format", "dot"), ("--format", "svg")):
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            self.call("flowc", "show", "job.plan", *flags)
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 10, flags)

    def test_show_as_json_is_the_plan(self):
        shown = self.call("flowc", "show", JOBS / "mlp.yaml", "--format", "json").stdout
        self.call("flowc", "build", JOBS / "mlp.yaml", "-o", "mlp.plan")
        self.assertEqual(shown, (self.dir / "mlp.plan").read_text())
        self.assertEqual([job["name"] for job in json.loads(shown)["jobs"]], ["train", "eval", "accuracy"])

    def test_show_of_one_job_as_json_is_a_plan_with_what_it_calls(self):
        called = self.call("flowc", "show", JOBS / "gan.yaml", "--job", "train_discriminator", "--format", "json").stdout
        self.call("flowc", "build", JOBS / "gan.yaml", "-o", "plan.json")
        self.assertEqual(json.loads(called)["jobs"], json.loads(self.call("flowc", "show", "plan.json", "--job", "train_discriminator", "--format", "json").stdout)["jobs"])
        self.assertGreater(len(json.loads(called)["jobs"]), 1)

    def test_a_plan_is_no_job_file(self):
        self.call("flowc", "build", JOBS / "mlp.yaml", "-o", "plan.json")
        for words in (["check", "plan.json"], ["config", "plan.json"], ["build", "plan.json", "-o", "other.json"]):
            self.assertIn("plan.json is a plan, not a job file", self.call("flowc", *words, status=2).stderr)

    def test_check_goes_on_after_a_file_that_is_not_there(self):
        os.mkdir(self.dir / "folder")
        self.assertIn("mlp.yaml: ok", self.call("flowc", "check", "folder", JOBS / "mlp.yaml", status=2).stdout)
        with open(JOBS / "mlp.yaml", encoding="utf-8") as piped:
            done = subprocess.run(["sh", "-c", f"cat | {BIN / 'flowc'} check /dev/stdin"], stdin=piped, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run([BIN / "flowc", "check", "-"], input="flow: 2", capture_output=True, text=True)
        self.assertIn("\n-:1:7: error: ", done.stderr)
        done = self.call("flowc", "check", "nosuch.yaml", JOBS / "mlp.yaml", status=2)
        self.assertIn("no such file: nosuch.yaml", done.stderr)
        self.assertIn("mlp.yaml: ok", done.stdout)

    def test_a_missing_file_is_one_clear_line(self):
        self.write("lenet.yaml", "flow: 1")
        done = self.call("flowc", "check", "lenett.yaml", status=2)
        self.assertEqual(done.stderr, "flowc: error: no such file: lenett.yaml\n   hint: did you mean lenet.yaml?\n")
        for word in ("lenet.yml", "lenet"):
            self.assertIn("did you mean lenet.yaml?", self.call("flowc", "check", word, status=2).stderr)

    def test_a_wrong_command_or_none_gets_the_commands(self):
        self.assertIn("did you mean `check`?", self.call("flowc", "chekc", status=2).stderr)
        for words in ([], ["-x"]):
            self.assertIn("hint: use one of check, build,", self.call("flowc", *words, status=2).stderr)
        self.write("job.yaml", "flow: 1")
        self.assertIn("missing command before job.yaml\n   hint: to check it, run flowc check job.yaml", self.call("flowc", "job.yaml", status=2).stderr)
        self.assertIn("error: FILE is required", self.call("flowc", "show", status=2).stderr)

    def test_build_does_not_touch_the_plan_of_a_broken_file(self):
        self.write("broken.yaml", BROKEN)
        self.write("old.plan", "precious")
        self.call("flowc", "build", "broken.yaml", "-o", "old.plan", status=2)
        self.assertEqual((self.dir / "old.plan").read_text(), "precious")

    def test_output_goes_through_links_and_into_what_is_no_file(self):
        self.write("real.json", "old")
        (self.dir / "link.json").symlink_to("real.json")
        self.call("flowc", "schema", "-o", "link.json")
        self.assertTrue((self.dir / "link.json").is_symlink())
        self.assertTrue((self.dir / "real.json").read_text().startswith("{"))
        self.assertEqual(self.call("flowc", "schema", "-o", "/dev/stdout").stdout, (self.dir / "real.json").read_text())
        done = self.call("flowc", "schema", "-o", "/dev/full", status=3)
        self.assertIn("/dev/full: No space left on device", done.stderr)

    def test_no_output_goes_over_the_job_file(self):
        self.write("one.yaml", (JOBS / "mlp.yaml").read_text())
        (self.dir / "same.yaml").symlink_to("one.yaml")
        for command, output in (("build", "one.yaml"), ("config", "same.yaml")):
            done = self.call("flowc", command, "one.yaml", "-o", output, status=2)
            self.assertIn(f"-o {output} would overwrite the job file", done.stderr)
        self.assertEqual((self.dir / "one.yaml").read_text(), (JOBS / "mlp.yaml").read_text())
        self.write("vars.yaml", "vars: {lr: 0.1}\n")
        self.write("two.yaml", "flow: 1\ninclude: [vars.yaml]\njobs:\n  j: {type: predict, inputs: {x: {shape: [2], dtype: float32}}, graph: {y: {op: multiply, in: [x, $lr]}}}\n")
        done = self.call("flowc", "config", "two.yaml", "-o", "vars.yaml", status=2)
        self.assertIn("-o vars.yaml would overwrite a file that the job file includes", done.stderr)
        self.assertEqual((self.dir / "vars.yaml").read_text(), "vars: {lr: 0.1}\n")

    def test_what_cannot_be_printed_is_an_error(self):
        for words in (["flowc", "ops"], ["flowc", "show", JOBS / "mlp.yaml"], ["flowrun", "train", JOBS / "mlp.yaml", "--dry-run"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([BIN / words[0], *words[1:]], cwd=self.dir, stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("cannot write to standard output", done.stderr)

    def test_dump_after_knows_the_passes(self):
        done = self.call("flowc", "build", JOBS / "mlp.yaml", "-o", "plan", "--dump-after", "fuse_epilogue", status=2)
        self.assertIn("did you mean `fuse_epilogues`?", done.stderr)

    def test_show_memory_says_who_holds_how_much_when(self):
        """y takes 4 MiB and is cut off in its own place; z 8 MiB; both live at step 2, as w reads them."""
        self.write("job.yaml", """flow: 1
jobs:
  look:
    type: predict
    inputs: {x: {shape: [1024, 1024], dtype: float32, from: {type: random_normal}}}
    graph:
      y: {op: exp, in: x}
      cut: {op: relu, in: y}
      z: {op: concat, in: [cut, cut], axis: 1}
      w: {op: matmul, a: cut, b: z}
      mean: {op: reduce_mean, in: w}
    returns: {value: mean}
""")
        lines = self.call("flowc", "show", "job.yaml", "--memory").stdout.splitlines()
        self.assertEqual(lines[0], "job look: 24.0 MiB at peak, without workspaces and layouts")
        self.assertEqual([line.split()[-2:] for line in lines[1:4]], [["0", "B"], ["4.00", "MiB"], ["20.0", "MiB"]])
        steps = {line.split()[1]: line for line in lines if line.strip()[:1].isdigit()}
        self.assertIn("z 8.00 MiB until 3", steps["z"])
        self.assertEqual(steps["w"].count("#"), 40)
        self.assertEqual(steps["y"].count("="), 8)
        held = lines[lines.index("live at the peak, step 3, w") + 1:]
        self.assertEqual([line.split() for line in held],
                         [["z", "8.00", "MiB", "2..3", "..==."], ["w", "8.00", "MiB", "3..4", "...=="], ["y", "4.00", "MiB", "0..3", "====."]])
        # What the CPU takes is as much, and what it adds of its own.
        exact = self.call("flowrun", "job.yaml", "--dry-run").stdout.splitlines()
        self.assertRegex(exact[0], r"^job look: 3\d\.\d MiB at peak$")
        self.assertRegex("\n".join(exact), r"arena +20\.\d MiB, peak at w\n")
        self.call("flowc", "show", "job.yaml", "--memory", "--commands", status=2)

    def test_show_says_what_a_tap_costs(self):
        watched = "+jobs.train.hooks=[{watch: mlp/hidden/matmul, every: 10}]"
        shown = self.call("flowc", "show", JOBS / "mlp.yaml", "--job", "train", "--set", watched).stdout
        self.assertRegex(shown, r"taps\n  mlp/hidden/matmul:tap  adds about \d+ % to a step in which its hook fires\n")
        self.assertNotIn("taps", self.call("flowc", "show", JOBS / "mlp.yaml", "--job", "train").stdout)
        self.write("hooks.yaml", """flow: 1
jobs:
  look: {type: predict, inputs: {x: {shape: [2], dtype: float32}}, graph: {y: {op: relu, in: x}}, hooks: [{watch: y}]}
""")
        self.assertIn("runs only in steps in which its hook fires", self.call("flowc", "show", "hooks.yaml").stdout)

    def test_show_names_what_may_change_from_run_to_run(self):
        def shown(*sets):
            return self.call("flowc", "show", JOBS / "lenet.yaml", "--job", "train", *(word for one in sets for word in ("--set", one))).stdout

        off = "+jobs.train.determinism=off"
        self.assertNotIn("determinism", shown())
        self.assertIn("determinism is off: on a GPU, results of these can vary from run to run: lenet/conv1/conv, lenet/conv2/conv, ", shown(off))
        self.assertIn("determinism is off, without effect: the job has no convolution\n",
                      self.call("flowc", "show", JOBS / "mlp.yaml", "--job", "train", "--set", off).stdout)

    def drawn(self, *words):
        """The texts of an SVG, by class, and all of it."""
        text = self.call("flowc", "show", *words, "--format", "svg").stdout
        texts = [(one.get("class"), one.text) for one in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
        return [one for kind, one in texts if kind == "name"], text

    def test_show_draws_one_job_as_a_graph(self):
        self.assertIn("--job", self.call("flowc", "show", JOBS / "mlp.yaml", "--format", "svg", status=2).stderr)
        job = (JOBS / "mlp.yaml", "--job", "train")
        names, text = self.drawn(*job)
        self.assertEqual(sorted(names), ["flat", "hidden", "images", "labels", "loss", "mlp", "output"])
        self.assertIn("prefers-color-scheme: dark", text)
        self.assertIn('marker-end="url(#head)"', text)
        dot = self.call("flowc", "show", *job, "--format", "dot").stdout
        self.assertEqual(dot.count(" [label="), len(names) - 1)
        self.assertEqual(dot.count("subgraph cluster_"), 1)
        self.assertIn(r'[label="hidden\ndense + relu\n[100, 512], 402 k params"]', dot)

    def test_show_draws_repeats_once_and_more_where_it_is_asked_for(self):
        job = (JOBS / "resnet18.yaml", "--job", "train")
        names, text = self.drawn(*job)
        self.assertIn("stage1 x 2", names)
        self.assertEqual(names.count("widen"), 1)
        self.assertNotIn('class="gradient"', text)
        self.assertEqual(self.drawn(*job, "--all")[0].count("widen"), 3)
        trained = self.drawn(*job, "--gradients", "--hooks")[1]
        self.assertIn('class="gradient"', trained)
        self.assertIn("return loss: print mean every 20", trained)
        self.assertIn("--hooks is for pictures", self.call("flowc", "show", *job, "--hooks", status=2).stderr)


class FromTheTables(FlowTest):
    def test_ops_lists_each_op_and_tells_all_about_one(self):
        self.assertIn("  conv2d ", self.call("flowc", "ops").stdout)
        self.assertNotIn("conv2d_grad", self.call("flowc", "ops").stdout)
        about = self.call("flowc", "ops", "dropout").stdout
        self.assertRegex(self.call("flowc", "ops", "relu").stdout, r"entry keys\n  repeat +number of chained copies")
        self.assertIn("  trainable ", self.call("flowc", "ops", "dense").stdout)
        self.assertIn("did you mean `dense`?", self.call("flowc", "ops", "nn.Linear", status=2).stderr)
        self.assertIn("NAME.mask", about)
        self.assertIn("did you mean `conv2d`?", self.call("flowc", "ops", "conv2", status=2).stderr)

    def test_init_writes_a_job_file_that_compiles_and_overwrites_none(self):
        names = [line.split()[0] for line in self.call("flowc", "init").stdout.splitlines()[1:]]
        self.assertIn("lenet", names)
        for name in names:
            os.mkdir(self.dir / name)
            self.call("flowc", "init", name, "-o", f"{name}/{name}.yaml")
            self.assertEqual(self.call("flowc", "check", f"{name}/{name}.yaml").stderr, "")
        self.call("flowc", "init", "lenet")
        self.call("flowc", "init", "lenet", status=2)
        self.assertIn("hint: create it: mkdir -p 'a b'", self.call("flowc", "init", "lenet", "-o", "a b/x.yaml", status=2).stderr)
        self.call("flowc", "init", "lenet", "-o", "mine.yaml")
        mine, lenet = ((folder / name).read_text().split("\n", 1) for folder, name in ((self.dir, "mine.yaml"), (JOBS, "lenet.yaml")))
        self.assertEqual(mine, ["# yaml-language-server: $schema=job.schema.json", lenet[1].replace("jobs/lenet.yaml", "mine.yaml")])
        self.assertEqual((self.dir / "job.schema.json").read_text(), self.call("flowc", "schema").stdout)

    def test_init_names_the_first_job_and_the_folders_that_are_missing(self):
        said = self.call("flowc", "init", "lenet").stderr
        self.assertIn("next: flowc check lenet.yaml, then flowrun train lenet.yaml; ", said)
        self.assertIn("lenet.yaml: copy data/mnist and hooks from", said)
        os.makedirs(self.dir / "data/mnist")
        said = self.call("flowc", "init", "gan", "-o", "my gan.yaml").stderr
        self.assertIn("then flowrun train_discriminator 'my gan.yaml'; ", said)
        self.assertNotIn("copy", said)
        self.assertIn("then flowrun hooks.yaml; ", self.call("flowc", "init", "hooks").stderr)
        said = self.call("flowc", "init", "resnet18", "-o", "new.yaml").stderr
        self.assertIn("new.yaml: put your own data in data/cifar10; the comment at the top", said)
        self.assertIn(" reads data/cifar10/{images,labels}.npy", (self.dir / "new.yaml").read_text())
        os.mkdir(self.dir / "sub")
        self.call("flowc", "init", "resnet18", "-o", "sub/new.yaml")
        self.assertIn(" reads sub/data/cifar10/{images,labels}.npy", (self.dir / "sub/new.yaml").read_text())

    def test_init_writes_what_the_file_includes_and_leaves_what_is_there(self):
        os.mkdir(self.dir / "jobs")
        said = self.call("flowc", "init", "lora", "-o", "jobs/mine.yaml").stderr
        self.assertIn("jobs/mine.yaml: written, with jobs/gpt2.yaml; next: ", said)
        self.assertIn("jobs/mine.yaml: put your own data in data/prompts or data/tokens", said)
        self.assertEqual(sorted(self.files("jobs")), ["gpt2.yaml", "job.schema.json", "mine.yaml"])
        self.write("llama.yaml", (JOBS / "llama.yaml").read_text() + "\n# mine\n")
        self.assertIn("lora_llama.yaml: written; next: ", self.call("flowc", "init", "lora_llama").stderr)
        self.assertIn("# mine", (self.dir / "llama.yaml").read_text())

    def test_init_leaves_a_schema_that_is_there(self):
        self.write("jobs/job.schema.json", "mine")
        self.call("flowc", "init", "mlp", "-o", "jobs/mine.yaml")
        self.assertEqual(sorted(self.files("jobs")), ["job.schema.json", "mine.yaml"])
        self.assertEqual((self.dir / "jobs/job.schema.json").read_text(), "mine")

    def test_diff_names_what_differs(self):
        lenet = JOBS / "lenet.yaml"
        self.assertEqual(self.call("flowc", "diff", lenet, lenet).stdout, "the plans are equivalent\n")
        self.call("flowc", "build", lenet, "-o", "slow.plan", "--set", "vars.lr=0.01")
        found = self.call("flowc", "diff", lenet, "slow.plan", status=1).stdout.splitlines()
        self.assertEqual(found, ["job train", "  changed  learning rate  constant 0.1 -> constant 0.01",
                                 "1 difference in the plans; --values lists each of them"])
        found = self.call("flowc", "diff", lenet, "slow.plan", "--values", status=1).stdout.splitlines()
        self.assertEqual(found, ["~ train.optimizer.learning_rate.values.base: 0.1 -> 0.01", "1 difference in the plans"])

    def test_diff_of_one_job(self):
        self.call("flowc", "build", JOBS / "lenet.yaml", "--job", "train", "-o", "train.plan")
        self.assertIn("job eval: removed", self.call("flowc", "diff", JOBS / "lenet.yaml", "train.plan", status=1).stdout)
        self.assertEqual(self.call("flowc", "diff", JOBS / "lenet.yaml", "train.plan", "--job", "train").stdout, "the plans are equivalent\n")
        self.assertIn("no job `eval` in", self.call("flowc", "diff", JOBS / "lenet.yaml", "train.plan", "--job", "eval", status=2).stderr)

    def test_diff_says_in_words_what_changed(self):
        text = (JOBS / "lenet.yaml").read_text()
        self.write("a.yaml", text)
        for old, new in (("units: 512", "units: 256"), (re.search("      drop: .*\n", text)[0], ""),
                         ("      flat:   {op: flatten}\n", "      flat:   {op: flatten}\n      more:   {op: dense, units: 100}\n"),
                         ("momentum: 0\n", "momentum: 0.9\n"), ("  eval:\n", "  other:\n"), ("extends: eval", "extends: other"),
                         ("      epochs: $epochs ", "      epochs: 2 ")):
            self.assertIn(old, text)
            text = text.replace(old, new)
        self.write("b.yaml", text)
        found = [re.split(r"  +", line.strip()) for line in self.call("flowc", "diff", "a.yaml", "b.yaml", status=1).stdout.splitlines()]
        train = found[:found.index(["job eval: removed"])]
        for line in (["removed", "lenet/drop", "dropout, float32 [100, 512]"],
                     ["added", "lenet/more", "dense, float32 [100, 100], 314 k parameters"],
                     ["changed", "lenet/dense1", "output float32 [100, 512] -> float32 [100, 256]"],
                     ["changed", "parameters", "1,663,370 -> 394,222 (-76.3 %)"],
                     ["changed", "run.epochs", "1 -> 2"]):
            self.assertIn(line, train)
        self.assertTrue(any(line[1:2] == ["checkpoint"] for line in train))
        self.assertIn(["job other: added"], found)

    def test_diff_puts_equal_changes_of_copies_on_one_line(self):
        found = self.call("flowc", "diff", JOBS / "gpt_tiny.yaml", "wide.plan", status=1).stdout if self.call(
            "flowc", "build", JOBS / "gpt_tiny.yaml", "-o", "wide.plan", "--set", "vars.width=128") else ""
        self.assertRegex(found, r"changed  gpt/blocks/0/attention/out_proj and 1 more +parameters 4,160 -> 16,512\n")

    def test_diff_takes_linear_time(self):
        def job(op):
            entries = "".join(f"      e{i}: {{op: {op}, in: [e{i - 1}, e0]}}\n" for i in range(1, 10_000))
            return ("flow: 1\njobs:\n  look:\n    type: predict\n    inputs: {x: {shape: [2], dtype: float32, from: {type: random_normal}}}\n"
                    f"    graph:\n      e0: {{op: relu, in: x}}\n{entries}    returns: {{value: e9999}}\n")
        for name, op in (("a", "add"), ("b", "maximum")):
            self.write(f"{name}.yaml", job(op))
            self.call("flowc", "build", f"{name}.yaml", "-o", f"{name}.plan")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        self.assertIn("changed  e1 and 9998 more  op add -> maximum", self.call("flowc", "diff", "a.plan", "b.plan", status=1).stdout)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 10)


class Help(FlowTest):
    """FLOW_REBASE=1 writes the texts anew."""

    def test_a_dash_is_standard_output(self):
        self.assertEqual(self.call("flowc", "schema", "-o", "-").stdout, self.call("flowc", "schema").stdout)
        self.assertTrue(self.call("flowc", "build", JOBS / "mlp.yaml", "-o", "-").stdout.startswith("{"))
        self.assertFalse((self.dir / "-").exists())

    def test_codes_are_explained_as_they_stand_in_messages(self):
        self.assertEqual(self.call("flowc", "explain", "[E0302]").stdout, self.call("flowc", "explain", "E0302").stdout)

    def test_tables_have_no_other_format(self):
        for flag in ("--memory", "--commands", "--steps"):
            told = self.call("flowc", "show", JOBS / "mlp.yaml", flag, "--format", "json", status=2).stderr
            self.assertIn(f"{flag} prints a table; --format json does not have it", told)
        self.assertIn("--steps and --all: expected one of them", self.call("flowc", "show", JOBS / "mlp.yaml", "--all", "--steps", status=2).stderr)

    def test_help_texts_are_the_golden_ones(self):
        commands = ("check", "build", "show", "ops", "diff", "names", "export", "import", "data", "init", "config", "report", "schema", "explain", "help")
        for words in (["flowc"], *(["flowc", command] for command in commands), ["flowrun"], ["flowrun", "verify"], ["flowdiff"], ["flowdiff", "update"],
                      ["flowdiff", "calibrate"]):
            text = self.call(*words, "--help").stdout
            golden = SOURCE / "tests" / "golden" / "help" / ("_".join(words) + ".txt")
            if os.environ.get("FLOW_REBASE"):
                golden.write_text(text)
            self.assertEqual(text, golden.read_text(), f"{' '.join(words)} --help")

    def test_help_of_a_command_that_is_none_fails(self):
        for word, hint in (("bogus", "use one of check, build"), ("chekc", "did you mean `check`?")):
            done = self.call("flowc", word, "--help", status=2)
            self.assertIn(f"unknown command `{word}`\n   hint: {hint}", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_ops_tells_what_to_write_for_a_word_of_another_tool(self):
        for word, hint in (("transformer", "write a network with `scaled_dot_product_attention`"), ("Linear", "did you mean `dense`?"), ("qqqqq", "list the ops with `flowc ops`")):
            self.assertIn(hint, self.call("flowc", "ops", word, status=2).stderr)

    def test_a_device_of_another_name_is_answered_with_ours(self):
        for word in ("cuda", "cuda:0", "gpuu"):
            done = self.call("flowrun", "train", JOBS / "mlp.yaml", "--device", word, status=2)
            self.assertIn(f"error: --device is `{word}`; expected `auto`, `cpu` or `gpu`\n   hint: did you mean `gpu`?\n", done.stderr)

    def test_show_marks_variables_that_the_optimizer_leaves_out(self):
        def remarks(*sets):
            text = self.call("flowc", "show", JOBS / "mlp.yaml", "--job", "train", "--steps", *sets).stdout
            return {name: "not trained" in line for name in ("mlp/hidden/weight", "mlp/output/bias")
                    for line in text.splitlines() if line.split()[:1] == [name] and "float32" in line}
        self.assertEqual(remarks(), {"mlp/hidden/weight": False, "mlp/output/bias": False})
        self.assertEqual(remarks("--set", "jobs.train.optimizer.variables=mlp/output/*"), {"mlp/hidden/weight": True, "mlp/output/bias": False})
        text = self.call("flowc", "show", JOBS / "mlp.yaml", "--job", "eval", "--steps").stdout
        self.assertNotIn("not trained", text)

    def test_hooks_compile_in_linear_time(self):
        """Ten times as many take ten times the processor time, where each is compared with all they take a hundred times."""
        def seconds(hooks, line=False, to="none"):
            hook = f"{{watch: loss, to: {to}}}"
            listed = f"    hooks: [{', '.join([hook] * hooks)}]\n" if line else "    hooks:\n" + f"    - {hook}\n" * hooks
            self.write("job.yaml", train_job(3) + listed)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            self.call("flowc", "check", "job.yaml", status=0 if to == "none" else 2)
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        self.assertLess(seconds(100_000), 30 * max(seconds(10_000), 0.05))
        self.assertLess(seconds(40_000, line=True), 4 * max(seconds(40_000), 0.1))
        self.assertLess(seconds(20_000, line=True, to="bad"), 8 * max(seconds(20_000), 0.1))

    def test_every_program_knows_its_version(self):
        for program in ("flowc", "flowrun", "flowdiff"):
            self.assertRegex(self.call(program, "--version").stdout, rf"^{program} \d+\.\d+\.\d+$")

    def test_the_version_as_json_lists_what_the_machine_has(self):
        report = json.loads(self.call("flowrun", "--version", "--json").stdout)
        self.assertEqual(list(report), ["name", "version", "build", "cpu", "gpu", "mpi", "libraries"])
        self.assertGreaterEqual(report["cpu"]["cores"], 1)
        self.assertEqual(set(report["gpu"]), {"usable", "devices"} if report["gpu"]["usable"] else {"usable", "problem", "remedy"})


if __name__ == "__main__":
    unittest.main()
