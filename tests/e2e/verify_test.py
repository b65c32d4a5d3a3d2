"""`flowrun verify`: a job that is well passes, each kind of damage is noticed, and requests that make no sense are refused."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as xml

import numpy as np

from flow import AFFINE, BIN, ROWS, FlowTest, device, train_job
from launchers import available

# Everything that a run carries from step to step: slots, moving statistics, a loss scale, shuffled rows, masks.
FULL = """flow: 1
seed: 3
data: {d: {x: {npy: x.npy}, y: {npy: y.npy}}}
jobs:
  train:
    type: train
    precision: mixed_float16
    inputs:
      x: {shape: [8, 2, 6, 6], dtype: float32, from: d.x}
      y: {shape: [8], dtype: int32, from: d.y}
    graph:
      conv: {op: conv2d, in: x, filters: 4, kernel_size: 3}
      norm: {op: batch_normalization}
      relu: {op: relu}
      drop: {op: dropout, rate: 0.25}
      flat: {op: flatten}
      logits: {op: dense, units: 3}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: y, logits: logits}
    optimizer: {type: adam, learning_rate: 0.01, loss_scale: {type: dynamic, initial: 256, growth_interval: 3}, minimize: loss}
    returns: {value: loss}
    hooks:
      - {watch: norm, every: 2}
      - {watch_diff: logits/weight}
      - {watch: relu, to: {type: print, reduce: mean, every: 2}}
    run: {epochs: 10, shuffle: true, also: [{job: eval, every: {epochs: 1}}]}
  eval:
    type: predict
    inputs:
      x: {shape: [8, 2, 6, 6], dtype: float32, from: d.x}
    graph:
      conv: {op: conv2d, in: x, filters: 4, kernel_size: 3}
      flat: {op: flatten}
      best: {op: argmax}
    returns: {value: best, to: {type: print, reduce: mean}}
"""

BITWISE = ["repeat", "threads", "resume", "plan", "watch", "async"]

# A spawned program that changes the data after each step.
CHANGING = train_job(6).replace("from: {type: random_uniform, low: -1, high: 1}", "from: {npy: x.npy}") + """    returns: {value: loss}
    hooks: [{watch: loss, to: {type: command, mode: spawn, run: [/usr/bin/python3, change.py]}}]
"""


class VerifyTest(FlowTest):
    def verify(self, *words, **options):
        return self.flowrun("verify", *words, **options)

    def report(self, *words, **options):
        """The verdicts by property, and by kind of damage, and all of the report."""
        report = json.loads(self.verify(*words, "--json", **options).stdout)
        return ({one["name"]: one["verdict"] for one in report["properties"]},
                {one["damage"]: one["verdict"] for one in report.get("damage", [])}, report)

    def write_full(self):
        rng = np.random.default_rng(5)
        np.save(self.dir / "x.npy", rng.normal(size=(36, 2, 6, 6)).astype("f4"))
        np.save(self.dir / "y.npy", rng.integers(0, 3, 36).astype("i4"))
        self.write("full.yaml", FULL)

    def of_bits(self, verdicts):
        return {name: verdicts[name] for name in BITWISE}

    def bits(self, *words, **options):
        return self.report(*words, "--only", ",".join(BITWISE), **options)


class Properties(VerifyTest):
    def test_a_job_with_every_kind_of_state_holds(self):
        self.write_full()
        verdicts, _, report = self.bits("train", "full.yaml", "--steps", "12")
        self.assertEqual(verdicts, dict.fromkeys(BITWISE, "holds"), report)
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["full.yaml", "x.npy", "y.npy"])

    def test_a_plan_needs_no_job_file(self):
        self.write("job.yaml", train_job(9) + "    hooks: [{watch: hidden}]\n")
        self.call("flowc", "build", "job.yaml", "-o", "job.plan")
        (self.dir / "job.yaml").unlink()
        verdicts, _, report = self.bits("train", "job.plan", "--steps", "4")
        self.assertEqual(verdicts, {**dict.fromkeys(BITWISE, "holds"), "async": "n/a"}, report)

    def test_a_predict_job_has_nothing_to_resume(self):
        self.write("job.yaml", AFFINE)
        verdicts, _, report = self.report("double", "job.yaml", "--input", "x=random_normal:0:1", "--steps", "3")
        self.assertEqual(verdicts["resume"], "n/a")
        self.assertEqual({verdicts[name] for name in BITWISE if name != "resume"}, {"holds"}, report)
        reasons = {one["name"]: one["detail"] for one in report["properties"]}
        self.assertIn("predict job", reasons["resume"])

    def test_what_a_run_refuses_does_not_apply(self):
        """A last batch of fewer rows: what mixes rows cannot be watched."""
        np.save(self.dir / "x.npy", np.ones((10, 3), "f4"))
        self.write("job.yaml", ROWS.replace("    returns:", "      z: {op: reduce_mean, in: y}\n    returns:"))
        verdicts, _, report = self.report("double", "job.yaml", "--only", "repeat,watch")
        self.assertEqual(verdicts, {"repeat": "holds", "watch": "n/a"}, report)
        self.assertIn("`z`", report["properties"][1]["detail"])

    def test_a_resume_that_is_refused_differs(self):
        """The data changes between a run and its continuation."""
        np.save(self.dir / "x.npy", np.ones((8, 6), "f4"))
        self.write("change.py", "import numpy, os\nif os.environ['FLOW_STEP'] == '1': numpy.save('x.npy', numpy.load('x.npy') + 1)\n")
        self.write("job.yaml", CHANGING)
        verdicts, _, report = self.report("train", "job.yaml", "--only", "resume", "--steps", "6", "--at", "2", "--commands", status=1)
        self.assertEqual(verdicts, {"resume": "differs"}, report)
        self.assertIn("x.npy", report["properties"][0]["detail"])

    def test_the_table_is_for_people(self):
        self.write("job.yaml", train_job(9))
        lines = self.verify("train", "job.yaml", "--only", "repeat,async", "--steps", "4").stdout.splitlines()
        self.assertEqual(lines, ["property   verdict  runs compared",
                                 "repeat     holds    the same run again",
                                 "async      n/a      the job returns nothing",
                                 "2 properties: 1 hold, 1 n/a"])

    def test_a_job_named_verify_runs(self):
        self.write("job.yaml", train_job(2).replace("  train:", "  verify:"))
        self.flowrun("verify", "job.yaml", "-o", "a", "--quiet")
        self.flowrun("-o", "b", "verify", "job.yaml", "--quiet")
        self.assertEqual(self.outputs("a"), self.outputs("b"))
        verdicts, _, _ = self.report("verify", "job.yaml", "--only", "repeat", "--steps", "2")
        self.assertEqual(verdicts, {"repeat": "holds"})


class Tolerances(VerifyTest):
    """What is compared by distance."""

    def test_shards_and_ranks(self):
        self.write("job.yaml", train_job(9).replace("type: sgd", "type: sgd, momentum: 0.9"))
        verdicts, _, report = self.report("train", "job.yaml", "--only", "shards", "--steps", "4", "--device", "cpu")
        self.assertEqual(verdicts, {"shards": "holds"}, report)
        expected = "1 batch and 2 shards, float64, 1 batch and 4 shards, float64"
        if available(BIN):
            expected += ", 1 process and 2 ranks"
        self.assertEqual(report["properties"][0]["detail"], expected)

    def test_shards_that_take_statistics_of_their_own(self):
        self.write_full()
        report = self.report("train", "full.yaml", "--only", "shards", "--steps", "2", "--device", "cpu")[2]
        shards = report["properties"][0]
        self.assertIn("takes statistics of each shard", "".join(shards.get("notes", [])) + shards["detail"])

    def test_graphs_belong_to_a_gpu(self):
        self.write("job.yaml", train_job(3))
        verdicts, _, _ = self.report("train", "job.yaml", "--only", "graph", "--steps", "2")
        self.assertEqual(verdicts, {"graph": "n/a" if device() == "cpu" else "holds"})

    def test_values_that_a_run_follows_are_no_hooks_of_the_job(self):
        followed = "watch: loss, every: {steps: 3}, patience: 1"
        text = train_job(20).replace("learning_rate: $lr", f"learning_rate: {{type: plateau, base: $lr, {followed}}}, ema: {{decay: 0.9}}")
        text = text.replace("run: {", f"run: {{early_stopping: {{{followed.replace('1', '9')}}}, checkpoint: {{keep_best: {{by: loss, every: {{steps: 5}}}}}}, ")
        self.assertEqual(text.count("every"), 3)
        for hooks in ("", "    hooks: [{watch: loss}]\n"):
            self.write("job.yaml", text + "    returns: {value: loss}\n" + hooks)
            verdicts, _, report = self.report("train", "job.yaml", "--only", ",".join(BITWISE))
            self.assertEqual(verdicts, dict.fromkeys(BITWISE, "holds"), report)

    def test_gradients_of_the_whole_loss(self):
        self.write_full()
        words = ["train", "full.yaml", "--only", "gradients", "--steps", "2"]
        verdicts, proofs, report = self.report(*words, "--prove", "--strict")
        self.assertEqual((verdicts, proofs), ({"gradients": "holds"}, {"gradient": "caught"}), report)
        self.assertEqual(report["properties"][0]["detail"].split(" along ")[0], "6 gradients")
        found = report["damage"][0]["difference"]
        ratio = float(found["first"].split()[1]) / float(found["second"].split()[1])
        self.assertAlmostEqual(ratio, 1.001, places=6)

    def test_gradients_that_are_no_gradients_of_the_loss_are_listed(self):
        graph = """
      a: {op: dense, in: x, units: 4, activation: tanh}
      s: {op: stop_gradient, in: a}
      b: {op: dense, in: x, units: 4}
      m: {op: multiply, in: [s, b]}
      i: {op: argmax, in: b}
      o: {op: one_hot, in: i, depth: 4}
      p: {op: dense, in: x, units: 4}
      k: {op: cast, in: p, dtype: float32}
      c: {op: dense, in: x, units: 4}
      n: {op: add, in: [m, a, o, k, c]}
      loss: {op: square, in: n}
""".strip("\n")
        job = train_job(3)
        begin, end = job.index("      hidden:"), job.index("    optimizer:")
        job = job[:begin] + graph + "\n" + job[end:]
        self.write("job.yaml", "".join(line for line in job.splitlines(True) if "labels" not in line).replace("[m, a, o, k, c]", "[m, c]").replace(
            "n: {op: add, in: [m, c]}", "n1: {op: add, in: [m, c]}\n      n2: {op: add, in: [n1, a]}\n      n3: {op: add, in: [n2, o]}\n      n: {op: add, in: [n3, k]}"))
        verdicts, _, report = self.report("train", "job.yaml", "--only", "gradients", "--steps", "2")
        self.assertEqual(verdicts, {"gradients": "holds"}, report)
        self.assertEqual(report["properties"][0]["detail"], "2 gradients along 4 directions, float64")
        reasons = {note.split("`")[1]: note.split(" through ")[1].split(" (")[0] for note in report["properties"][0]["notes"]}
        self.assertEqual(reasons, {"a/weight": "stop_gradient `s`", "a/bias": "stop_gradient `s`", "b/weight": "argmax `i`",
                                   "b/bias": "argmax `i`", "p/weight": "cast `k`", "p/bias": "cast `k`"})

    def test_a_gradient_at_a_kink_is_left_out(self):
        # Rows of zeros: relu is at its kink for the first bias.
        self.write("job.yaml", train_job(3).replace("from: {type: random_uniform, low: -1, high: 1}", "from: {type: constant, value: 0}"))
        verdicts, _, report = self.report("train", "job.yaml", "--only", "gradients", "--steps", "2")
        self.assertEqual(verdicts, {"gradients": "holds"}, report)
        self.assertEqual(report["properties"][0]["notes"], ["left out at a kink: `hidden/bias`"])

    def test_precision_is_measured(self):
        self.write("job.yaml", train_job(5))
        verdicts, _, report = self.report("train", "job.yaml", "--only", "precision", "--steps", "5", "--watch", "hidden")
        self.assertEqual(verdicts, {"precision": "measured"})
        measured = {name: float(distance) for distance, name in (note.split("  ") for note in report["properties"][0]["notes"])}
        self.flowrun("job.yaml", "-o", "single", "--quiet", "--watch", "hidden")
        self.flowrun("job.yaml", "-o", "double", "--quiet", "--watch", "hidden", "--set", "jobs.train.precision=float64")
        self.assertIn("watch/hidden/value", measured)
        for name, distance in measured.items():
            file = name.replace("checkpoint", "checkpoints/000005") + ".npy"
            a, b = self.load(f"single/{file}"), self.load(f"double/{file}")
            self.assertAlmostEqual(np.linalg.norm(a - b) / np.linalg.norm(b), distance, delta=0.06 * distance)
        # The bias is subtracted with the mean: its gradient is rounding, whatever the precision.
        self.write("norm.yaml", train_job(5).replace("units: 8, in: x, activation: relu}", "units: 8, in: x}\n      norm: {op: batch_normalization}\n      act: {op: relu}"))
        _, _, report = self.report("train", "norm.yaml", "--only", "precision", "--steps", "5", "--watch-diff", "hidden/bias", "--watch-diff", "hidden/weight")
        zero = [note.removesuffix(", 0 in theory").split() for note in report["properties"][0]["notes"] if note.endswith(", 0 in theory")]
        self.assertEqual({name for _, name in zero}, {"watch/hidden/bias/diff", "checkpoint/hidden/bias"})
        self.assertTrue(all(float(distance) > 1 for distance, _ in zero))
        self.assertLess(float(report["properties"][0]["detail"].split("at most ")[1].split()[0]), 1e-3)
        self.write("exact.yaml", train_job(5).replace("type: train", "type: train\n    precision: float64"))
        self.assertEqual(self.report("train", "exact.yaml", "--only", "precision", "--steps", "2")[0], {"precision": "n/a"})


class Differences(VerifyTest):
    def setUp(self):
        super().setUp()
        self.data = np.random.default_rng(1).normal(size=(8, 6)).astype("f4")
        np.save(self.dir / "x.npy", self.data)
        self.write("change.py", "import numpy, os\nx = numpy.load('x.npy')\nx[2, 3] += 1\nnumpy.save('x.npy', x)\n")
        self.write("job.yaml", CHANGING)

    def test_commands_do_not_start_unless_asked_to(self):
        verdicts, _, report = self.report("train", "job.yaml", "--only", "repeat,resume", "--steps", "6")
        self.assertEqual(verdicts, {"repeat": "holds", "resume": "holds"}, report)
        np.testing.assert_array_equal(self.load("x.npy"), self.data)

    def test_the_first_difference_has_its_step_tensor_values_and_line(self):
        words = ["train", "job.yaml", "--only", "repeat", "--steps", "6", "--commands", "--watch", "hidden/matmul", "--watch", "x"]
        verdicts, _, report = self.report(*words, status=1)
        self.assertEqual(verdicts, {"repeat": "differs"})
        found = report["properties"][0]["difference"]
        self.assertEqual((found["step"], found["tensor"], found["index"]), (0, "watch/x/value", [2, 3]))
        self.assertEqual(np.float32(found["first"]), self.data[2, 3])
        self.assertEqual(np.float32(found["second"]), self.data[2, 3] + np.float32(6))
        self.assertEqual(found["where"].split(":")[:2], ["job.yaml", "7"])

    def test_junit_has_a_case_for_each_property(self):
        self.verify("train", "job.yaml", "--only", "repeat,async", "--steps", "6", "--commands", "--junit", "out.xml", status=1)
        suite = xml.parse(self.dir / "out.xml").getroot()
        self.assertEqual([case.get("name") for case in suite], ["repeat", "async"])
        self.assertEqual(suite.get("failures"), "2")
        self.assertIn("step 0", suite.find("testcase[@name='repeat']/failure").text)

    def test_a_property_that_fails_without_damage_proves_nothing(self):
        words = ["train", "job.yaml", "--only", "repeat", "--steps", "6", "--commands", "--prove", "--damage", "bit"]
        verdicts, proofs, report = self.report(*words, status=1)
        self.assertEqual((verdicts["repeat"], proofs), ("differs", {"bit": "unproved"}), report)
        self.assertIn("repeat", report["damage"][0]["failing_undamaged"])
        self.assertNotIn("repeat", report["damage"][0]["caught_by"])
        self.assertIn("fails even without damage: repeat", self.verify(*words, status=1).stdout)


class Proofs(VerifyTest):
    def test_each_kind_of_state_is_noticed(self):
        self.write_full()
        verdicts, proofs, report = self.bits("train", "full.yaml", "--steps", "10", "--prove", "--strict")
        self.assertEqual(set(verdicts.values()), {"holds"})
        self.assertEqual(proofs, dict.fromkeys(["slot", "step", "position", "seed", "moving", "loss-scale", "bit"], "caught"), report)
        caught = {one["damage"]: one["caught_by"] for one in report["damage"]}
        self.assertEqual(caught.pop("bit"), BITWISE)
        self.assertEqual(set(map(tuple, caught.values())), {("resume",)})
        done = {one["damage"]: one["done"] for one in report["damage"]}
        self.assertRegex(done["slot"], "`conv/weight/[mv]`")
        self.assertIn("`norm/moving_", done["moving"])

    def test_damage_that_changes_nothing_is_unproved(self):
        job = train_job(9).replace("from: {type: random_uniform, low: -1, high: 1}", "from: {npy: x.npy}").replace(
            "from: {type: random_int, low: 0, high: 4}", "from: {npy: y.npy}")
        self.write("sgd.yaml", job)
        np.save(self.dir / "x.npy", np.random.default_rng(2).normal(size=(8, 6)).astype("f4"))
        np.save(self.dir / "y.npy", np.arange(8, dtype="i4") % 4)
        words = ["train", "sgd.yaml", "--only", "resume", "--steps", "6", "--prove"]
        _, proofs, report = self.report(*words)
        self.assertEqual(proofs, {**dict.fromkeys(["slot", "step", "position", "seed", "moving", "loss-scale"], "unproved"), "bit": "caught"}, report)
        self.report(*words, "--strict", status=1)
        self.report(*words, "--strict", "--damage", "bit")
        suite = xml.fromstring(self.verify(*words, "--strict", "--junit", "-", status=1).stdout)
        self.assertEqual(suite.get("failures"), "6")

    def test_the_learning_rate_shows_the_step(self):
        schedule = "learning_rate: {type: exponential, base: 0.1, steps: 10, decay_rate: 0.5}"
        self.write("job.yaml", train_job(9).replace("learning_rate: $lr", schedule).replace("vars: {lr: 0.1}\n", ""))
        _, proofs, _ = self.report("train", "job.yaml", "--only", "resume", "--prove", "--damage", "step", "--steps", "6")
        self.assertEqual(proofs, {"step": "caught"})

    def test_a_bit_of_what_a_predict_job_returns_is_noticed(self):
        self.write("job.yaml", AFFINE)
        _, proofs, report = self.report("double", "job.yaml", "--input", "x=random_normal:0:1", "--steps", "3", "--prove",
                                        "--damage", "bit,position", "--only", "repeat,threads")
        self.assertEqual(proofs, {"bit": "caught", "position": "caught"}, report)


class Refusals(VerifyTest):
    def refused(self, *words, status=2):
        done = self.verify(*words, status=status)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_requests_that_make_no_sense(self):
        self.write("job.yaml", train_job(3))
        for words, expected in [(["--only", "repeet"], "unknown property `repeet`\n   hint: did you mean `repeat`?"),
                                (["--prove", "--damage", "wheel"], "unknown kind of damage `wheel`"),
                                (["--at", "30"], "--at is 30; expected 1 to 19"),
                                (["--at", "0"], "--at is 0; expected 1 to 19"),
                                (["--steps", "0"], "--steps"),
                                (["--steps", "1", "--at", "1"], "one step cannot be divided"),
                                (["--strict"], "--strict requires --prove"),
                                (["--damage", "bit"], "--damage requires --prove"),
                                (["--only", "repeat", "--prove", "--damage", "bit,gradient"],
                                 "--damage gradient: none of the properties in --only can notice it\n   hint: add to --only: gradients"),
                                (["--only", "precision", "--prove"], "can notice any damage"),
                                (["--json", "--junit", "-"], "both write to standard output"),
                                (["--junit", "a.npy"], "may overwrite a file of a run"),
                                (["--input", "y"], "has no `=`"),
                                (["--set", "vars.rate=1"], "job.yaml")]:
            with self.subTest(words):
                self.assertIn(expected, self.refused("train", "job.yaml", *words))
        self.assertIn("did you mean `train`?", self.refused("trian", "job.yaml"))
        self.assertIn("no such file: jov.yaml", self.refused("train", "jov.yaml"))
        self.assertIn("standard input can be read only once", self.refused("train", "-"))
        self.assertIn("FILE", self.refused("train"))
        self.assertIn("missing JOB before job.yaml\n   hint: write flowrun verify train job.yaml", self.refused("job.yaml"))

    def test_a_job_that_reads_a_pipe(self):
        self.write("job.yaml", AFFINE)
        os.mkfifo(self.dir / "rows")
        self.assertIn("input `x` reads a pipe, which can be read only once", self.refused("double", "job.yaml", "--input", "x=@rows"))

    def test_a_job_that_ends_too_early(self):
        self.write("job.yaml", train_job(3).replace("run: {steps: 3}", "run: {epochs: 1}").replace(
            "from: {type: random_uniform, low: -1, high: 1}", "from: d.x").replace("jobs:", "data: {d: {x: {npy: x.npy}}}\njobs:"))
        np.save(self.dir / "x.npy", np.zeros((24, 6), "f4"))
        self.assertIn("the job ends after 3 steps; --at 10 leaves none", self.verify("train", "job.yaml", "--at", "10", "--only", "resume", status=2).stderr)
        self.report("train", "job.yaml", "--only", "resume")

    def test_a_job_that_does_not_run(self):
        self.write("job.yaml", train_job(3).replace("$lr", "1.0e+30"))
        self.assertIn("the loss `loss` is", self.verify("train", "job.yaml", "--only", "repeat", status=1).stderr)
        self.write("job.yaml", AFFINE)
        self.assertIn("input `x` has no source", self.verify("double", "job.yaml", "--only", "repeat", status=2).stderr)

    def test_it_leaves_nothing_where_it_is_interrupted(self):
        self.write("job.yaml", train_job(3))
        temporary = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
        with subprocess.Popen([str(BIN / "flowrun"), "verify", "train", "job.yaml", "--steps", "1000000000", "--only", "repeat"], cwd=self.dir,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(temporary)}) as process:
            while not list(temporary.glob("*/reference/metrics.jsonl")):
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), -signal.SIGTERM)
        self.assertEqual(list(temporary.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
