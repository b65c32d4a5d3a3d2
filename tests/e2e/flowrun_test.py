"""flowrun's flags, and what it loads, reads and refuses."""
import json
import re
import shlex
import signal
import subprocess
import unittest

import numpy as np

from flow import AFFINE, BIN, JOBS, ROWS, FlowTest, device, train_job


# The gradient of sqrt at 0 is infinite: times x, which is 0 there, it is NaN, while the loss is finite.
ROOTS = """flow: 1
data:
  rows: {x: {npy: x.npy}, labels: {npy: labels.npy}}
jobs:
  train:
    type: train
    inputs:
      x: {shape: [3, 5], dtype: float32, from: rows.x}
      labels: {shape: [3], dtype: int64, from: rows.labels}
    graph:
      factor: {op: variable, shape: [5], initializer: ones}
      scaled: {op: multiply, in: [x, factor]}
      root: {op: sqrt, in: scaled}
      output: {op: dense, in: root, units: 3}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: output}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
    returns: {type: Numpy, value: loss}
    run: {steps: 6, checkpoint: {every: {steps: 1}}}
"""

ENDLESS = """flow: 1
vars: {lr: 0.1, to: [{type: print, label: loss, reduce: mean, every: 100}, {type: command, run: "touch ran; cat > /dev/null"}]}
jobs:
  train:
    type: train
    inputs: {x: {shape: [2, 3], dtype: float32, from: {npy: x.npy}}}
    graph:
      y: {op: dense, in: x, units: 1}
      loss: {op: mse, prediction: y, target: 1}
    optimizer: {type: sgd, learning_rate: $lr, minimize: loss}
    returns: {value: loss, to: $to}
  look:
    type: predict
    inputs: {x: {shape: [2, 3], dtype: float32, from: {npy: x.npy}}}
    graph:
      y: {op: dense, in: x, units: 1}
      z: {op: dense, units: 1}
    returns: {value: z, to: $to}
"""


class Loading(FlowTest):
    def test_a_predict_job_with_variables_needs_something_to_load(self):
        done = self.flowrun("eval", JOBS / "mlp.yaml", "-o", "out", status=2)
        self.assertIn("--load", done.stderr)

    def test_a_checkpoint_of_another_shape_prints_both_lists(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "a", "--steps", 1)
        done = self.flowrun("eval", JOBS / "mlp.yaml", "-o", "b", "--load", "a", "--set", "networks.mlp.graph.hidden.units=64", status=2)
        self.assertIn("[64, 784]", done.stderr)
        self.assertIn("[512, 784]", done.stderr)

    def test_a_variable_of_floats_takes_no_integers(self):
        self.write("job.yaml", train_job(1))
        self.flowrun("job.yaml", "-o", "a", "--quiet")
        for dtype in ("int32", "int64", "bool"):
            np.save(self.checkpoint("a") / "logits/bias.npy", np.zeros(4, dtype))
            done = self.flowrun("job.yaml", "-o", "b", "--load", "a", status=2)
            self.assertIn("does not match: 1 of 4 variables are missing or have a different shape", done.stderr)
            self.assertIn(f"\n  ! logits/bias [4] {dtype}\n", done.stderr)

    def test_variables_that_are_not_finite_are_told(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "a", "--steps", 4, "--set", "vars.lr=1e38", "--set", "+jobs.train.run.on_nonfinite=warn")
        told = r"(?m)^flowrun: a loaded variable is not finite: `mlp/\S+` is -?(nan|inf) at \[\d+(, \d+)?\] \(first of [234] such variables\)$"
        self.assertRegex(self.flowrun("eval", JOBS / "mlp.yaml", "-o", "b", "--load", "a").stderr, told)
        self.assertRegex(self.flowrun("train", JOBS / "mlp.yaml", "-o", "a", "--resume", "--steps", 5, "--set", "vars.lr=1e38",
                                      "--set", "+jobs.train.run.on_nonfinite=warn").stderr, told)
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "c", "--steps", 1)
        self.assertNotIn("finite", self.flowrun("eval", JOBS / "mlp.yaml", "-o", "d", "--load", "c").stderr)

    def test_a_damaged_checkpoint_is_refused(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "a", "--steps", 1)
        victim = self.checkpoint("a") / "mlp/output/weight.npy"
        content = bytearray(victim.read_bytes())
        content[-1] ^= 1
        victim.write_bytes(content)
        done = self.flowrun("eval", JOBS / "mlp.yaml", "-o", "b", "--load", "a", status=3)
        self.assertIn("weight.npy", done.stderr)


class Inputs(FlowTest):
    def test_an_input_that_nobody_gives_is_an_error(self):
        self.write("one.yaml", AFFINE)
        done = self.flowrun("one.yaml", status=2)
        self.assertIn("--input x=", done.stderr)

    def test_an_npy_that_does_not_fit_is_an_error_with_both_shapes(self):
        self.write("one.yaml", AFFINE)
        np.save(self.dir / "x.npy", np.zeros((2, 4), np.float32))
        done = self.flowrun("one.yaml", "--input", "x=@x.npy", status=2)
        self.assertIn("[2, 4]", done.stderr)
        self.assertIn("[2, 3]", done.stderr)

    def test_one_more_axis_is_a_slice_a_step(self):
        self.write("one.yaml", AFFINE)
        x = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
        np.save(self.dir / "x.npy", x)
        self.flowrun("one.yaml", "--input", "x=@x.npy", "-o", "out")
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), 2 * x)

    def test_slices_beside_a_dataset_begin_again_with_each_epoch(self):
        np.save(self.dir / "rows.npy", np.ones((8, 2), np.float32))
        np.save(self.dir / "slices.npy", np.stack([np.full((4, 2), 1, np.float32), np.full((4, 2), 2, np.float32)]))
        self.write("job.yaml", """flow: 1
data: {d: {x: {npy: rows.npy}}}
jobs:
  train:
    type: train
    inputs:
      x: {shape: [4, 2], dtype: float32, from: d.x}
      s: {shape: [4, 2], dtype: float32, from: {npy: slices.npy}}
    graph: {y: {op: dense, in: x, units: 2}, z: {op: multiply, in: [y, s]}, loss: {op: square, in: z}}
    optimizer: {type: sgd, learning_rate: 0.01, minimize: loss}
    run: {epochs: 3}
    returns: {value: s}
""")
        self.flowrun("job.yaml", "-o", "out")
        self.assertEqual(np.load(self.dir / "out/returns/s/value.npy")[:, 0, 0].tolist(), [1, 2] * 3)

    def test_an_incomplete_last_batch_of_a_predict_job_has_only_real_rows(self):
        self.write("rows.yaml", ROWS)
        x = np.arange(30, dtype=np.float32).reshape(10, 3)
        np.save(self.dir / "x.npy", x)
        self.flowrun("rows.yaml", "-o", "out")
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), 2 * x)

    def test_root_moves_the_paths_of_a_plan(self):
        self.write("rows.yaml", ROWS)
        self.call("flowc", "build", "rows.yaml", "-o", "rows.plan")
        (self.dir / "elsewhere").mkdir()
        np.save(self.dir / "elsewhere/x.npy", np.ones((4, 3), np.float32))
        self.assertIn("`nowhere` is not a directory", self.flowrun("double", "rows.plan", "--root", "nowhere", status=2).stderr)
        self.flowrun("double", "rows.plan", "-o", "out", "--root", "elsewhere")
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), np.full((4, 3), 2))


class Plans(FlowTest):
    def test_a_plan_runs_alone_and_gives_the_bits_of_its_file(self):
        self.call("flowc", "build", JOBS / "mlp.yaml", "-o", "mlp.plan", "--device", device())
        self.flowrun("train", "mlp.plan", "-o", "a", "--steps", 3)
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "b", "--steps", 3)
        weights = [self.files(run)["checkpoints/000003/mlp/hidden/weight.npy"] for run in "ab"]
        self.assertEqual(*weights)

    def test_the_same_file_gives_the_same_bytes(self):
        for name in ("a.plan", "b.plan"):
            self.call("flowc", "build", JOBS / "lenet.yaml", "-o", name)
        self.assertEqual((self.dir / "a.plan").read_bytes(), (self.dir / "b.plan").read_bytes())

    def test_a_changed_plan_and_one_of_another_version_are_refused(self):
        self.call("flowc", "build", JOBS / "mlp.yaml", "-o", "mlp.plan")
        text = (self.dir / "mlp.plan").read_text()
        self.write("changed.plan", text.replace("[512,784]", "[513,784]"))
        self.write("future.plan", text.replace('"version":1', '"version":2').replace('"version": 1', '"version": 2'))
        self.assertIn("changed.plan", self.flowrun("train", "changed.plan", status=2).stderr)
        self.assertIn("version", self.flowrun("train", "future.plan", status=2).stderr)

    def test_set_needs_a_job_file(self):
        self.call("flowc", "build", JOBS / "mlp.yaml", "-o", "mlp.plan")
        self.assertIn("job file", self.flowrun("train", "mlp.plan", "--set", "vars.lr=1", status=2).stderr)


class Manners(FlowTest):
    def test_a_dry_run_says_the_memory_and_writes_nothing(self):
        done = self.flowrun("train", JOBS / "lenet.yaml", "--dry-run")
        self.assertIn("at peak", done.stdout)
        self.assertEqual(self.files("."), {})

    def test_a_dry_run_says_it_in_json_too(self):
        told = json.loads(self.flowrun("train", JOBS / "mlp.yaml", "--device", "cpu", "--dry-run", "--json").stdout)
        self.assertEqual((told["event"], told["job"]), ("memory", "train"))
        self.assertEqual(told["bytes"]["variables"], sum((784 * 512 * 4, 512 * 4, 512 * 10 * 4, 64)))
        self.assertEqual(told["bytes"]["total"], sum(told["bytes"][part] for part in ("variables", "inputs", "outputs", "datasets", "arena")))

    def test_variables_beyond_all_memory_are_refused_by_name(self):
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--set", "networks.mlp.graph.hidden.units=2147483647", status=3)
        self.assertRegex(done.stderr, r"variable `mlp/hidden/weight` is [0-9.]+ TiB; all variables of the run need [0-9.]+ TiB of memory")
        self.assertEqual(self.files("out"), {})

    def test_a_run_is_not_both_resumed_and_removed(self):
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--steps", 2)
        before = self.files("out")
        self.assertIn("--resume continues the run that --force removes",
                      self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--resume", "--force", status=2).stderr)
        self.assertEqual(self.files("out"), before)

    def test_a_hook_that_cannot_fire_is_said_once(self):
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--steps", 5, "--watch", "mlp/hidden:1000",
                            "--set", "+jobs.train.hooks=[{watch_scope: mlp/output, steps: [100]}]")
        self.assertEqual([line.rpartition(": ")[2] for line in done.stderr.splitlines() if "never fires" in line],
                         ["the hook never fires in steps 0 to 4"])

    def test_a_glob_leaves_out_what_a_hook_of_the_file_names(self):
        self.write("job.yaml", train_job(6) + "    hooks: [{watch: hidden, every: 3}, {watch_diff: logits, as: hidden}]\n")
        self.flowrun("job.yaml", "-o", "out", "--watch", "*:2", "--watch-diff", "logits")
        self.assertEqual(self.load("out/watch/hidden/steps.npy").tolist(), [0, 3])
        self.assertEqual(self.load("out/watch/logits/steps.npy").tolist(), [0, 2, 4])
        told = self.flowrun("job.yaml", "-o", "no", "--watch-diff", "*", status=2).stderr  # `hidden` is another gradient
        self.assertIn("two hooks write `hidden`", told)

    def test_json_prints_one_object_a_line(self):
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--steps", 40, "--json")
        printed = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(printed), 2)
        told = [json.loads(line) for line in done.stderr.splitlines()]
        self.assertEqual([(line["event"], line["directory"]) for line in (told[0], told[-1])], [("start", "out"), ("end", "out")])
        self.assertEqual({line["job"] for line in printed}, {"train"})

    def test_json_prints_what_is_wrong_as_objects_too(self):
        def told(status, *words):
            done = self.flowrun("train", JOBS / "mlp.yaml", "--device", "cpu", "--json", *words, status=status)
            return [json.loads(line) for line in done.stderr.splitlines()]
        [refused] = told(2, "-o", "a", "--set", "vars.none=1")
        self.assertEqual(refused["event"], "error")
        self.assertIn("vars.none", refused["text"])
        self.assertEqual([line["event"] for line in told(2, "-o", "b", "--load", "absent")], ["start", "error"])
        failed = told(1, "-o", "c", "--steps", 40, "--set", "jobs.train.optimizer.learning_rate=1e30")
        self.assertEqual([line["event"] for line in failed][-2:], ["error", "end"])
        self.assertIn("is nan", failed[-2]["text"])
        self.assertEqual(failed[-1]["exit_status"], 1)
        warned = told(0, "-o", "d", "--steps", 1, "--set", "+vars.zz=1")
        self.assertEqual([line["event"] for line in warned][:2], ["warning", "start"])
        self.assertIn("`zz`", warned[0]["text"])

    def test_quiet_says_nothing_but_what_was_asked_for(self):
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--steps", 20, "--quiet")
        self.assertEqual((len(done.stdout.splitlines()), done.stderr), (1, ""))

    def test_the_command_behind_an_interruption_has_all_that_shapes_the_run(self):
        def interrupted(*words):
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            with subprocess.Popen([BIN / "flowrun", *words], cwd=self.dir, **pipes) as run:
                self.assertRegex(run.stdout.readline(), "^loss: ")
                run.send_signal(signal.SIGINT)
                said = run.stderr.read()
            self.assertEqual(run.returncode, -signal.SIGINT, said)
            how, command = re.search(r"stopped after \d+ steps?; (.*) with: flowrun (.*)\n$", said).groups()
            return how, shlex.split(command)

        self.write("job.yaml", ENDLESS)
        (self.dir / "my data").mkdir()
        np.save(self.dir / "my data/x.npy", np.ones((2, 3), np.float32))
        shape = ["--set", "vars.lr=0.01", "--set", "+jobs.look.note='a b'", "--input", "x=constant:2", "--watch", "y:1000000",
                 "--watch-diff", "y:1000000", "--watch-scope", "y:1000000", "--steps", "1000000000"]
        rest = ["--root", "my data", "--device", "cpu", "--no-commands"]
        how, words = interrupted("train", "job.yaml", "-o", "out", "--load", "none", *shape, "--save", "last", *rest)
        self.assertEqual((how, words), ("continue", ["train", "job.yaml", "-o", "out", "--resume", *shape, "--save", "last", *rest]))
        self.assertEqual(interrupted(*words), (how, words))
        shape[8:10] = []  # no gradients
        load = ["--load", "out", "--load-partial", "z/*"]
        how, words = interrupted("look", "job.yaml", "-o", "look", *shape, *load, *rest)
        self.assertEqual((how, words), ("restart", ["look", "job.yaml", "-o", "look", "--force", *shape, *load, *rest]))
        self.assertEqual(interrupted(*words), (how, words))
        self.assertFalse((self.dir / "ran").exists())

    def test_a_reader_that_has_seen_enough_ends_the_printing_and_not_the_run(self):
        words = [str(BIN / "flowrun"), "train", str(JOBS / "mlp.yaml"), "-o", "out", "--steps", "100", "--quiet"]
        with subprocess.Popen(words, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            self.assertRegex(run.stdout.readline(), r"^loss: \d")
            run.stdout.close()
            self.assertEqual((run.stderr.read(), run.wait()), ("", 0))
        self.assertEqual(json.loads((self.dir / "out/run.json").read_text())["last_step"], 100)
        self.assertTrue((self.dir / "out/checkpoints/000100").is_dir())

    def test_a_profile_says_where_the_time_went_and_changes_no_bit(self):
        words = ["--device", "cpu", "--steps", 30, "--set", "jobs.train.returns.to=npy", "--watch", "mlp/hidden/matmul:3"]
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "quiet", *words)
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--profile", *words)
        for folder in ("returns", "watch", "checkpoints/000030/mlp"):
            self.assertEqual(self.files(f"out/{folder}"), self.files(f"quiet/{folder}"))
        self.assertRegex(done.stderr, r"(?m)^profile of train: 30 steps of [0-9.]+ ms$")
        self.assertRegex(done.stderr, r"(?m)^  mlp/hidden/matmul +matmul +oneDNN sgemm; \d threads? +30 ")
        self.assertRegex(done.stderr, r"(?m)^  mlp/hidden/matmul:tap +matmul +oneDNN sgemm; \d threads? +10 ")
        self.assertRegex(done.stderr, r"(?m)^  background +load inputs +30 ")
        trace = json.loads((self.dir / "out/profile.json").read_text())
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        launches = {event["args"]["step"]: event for event in spans if event["name"] == "launch"}
        self.assertEqual(sorted(launches), list(range(30)))
        steps = [event for event in spans if event["tid"] == 1]
        for event in steps:  # each step of a call within its call
            call = launches[event["args"]["step"]]
            self.assertGreaterEqual(event["ts"], call["ts"])
            self.assertLessEqual(event["ts"] + event["dur"], call["ts"] + call["dur"] + 0.01)
        table, = trace["jobs"]
        self.assertAlmostEqual(sum(row["seconds"] for row in table["steps"]), sum(event["dur"] for event in steps) * 1e-6, places=6)
        self.assertFalse((self.dir / "quiet/profile.json").exists())
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "json", "--profile", "--json", *words)
        told = [json.loads(line) for line in done.stderr.splitlines()]
        self.assertEqual([(line["job"], line["calls"]) for line in told if line["event"] == "profile"], [("train", 30)])

    def test_a_nan_in_the_loss_fails_the_run_at_its_step(self):
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--set", "vars.lr=1e30", status=1)
        self.assertRegex(done.stderr, r"mlp.yaml:\d+:\d+: step \d+: the loss `loss` is (nan|inf)")
        self.assertIn("hint: try a smaller learning rate", done.stderr)
        record = json.loads((self.dir / "out/run.json").read_text())
        self.assertEqual(record["exit_status"], 1)

    def test_sums_of_the_smallest_numbers_do_not_depend_on_what_is_saved(self):
        """The CPU's kernels flush them to 0 on the thread that computes."""
        np.save(self.dir / "x.npy", np.full((4, 8, 6), 1e-40, np.float32))
        self.write("job.yaml", train_job(4).replace("{type: random_uniform, low: -1, high: 1}", "{npy: x.npy}") + """
    hooks: [{watch: x, to: {type: print, reduce: sum, over: run, scale: 1.0e+40, format: "%.4g"}}]
""")
        told = [self.flowrun("job.yaml", "-o", f"out{every}", "--quiet", "--set", f"+jobs.train.run.checkpoint={{every: {{steps: {every}}}}}").stdout
                for every in (1, 3)]
        self.assertEqual(told, ["x: 192\n"] * 2)

    def test_a_variable_that_is_not_finite_is_not_saved(self):
        """It became NaN in a step whose loss is finite."""
        x = np.random.default_rng(3).random((12, 5), np.float32)
        x[6, 2] = 0
        np.save(self.dir / "x.npy", x)
        np.save(self.dir / "labels.npy", np.arange(12) % 3)
        self.write("job.yaml", ROOTS)
        done = self.flowrun("job.yaml", "-o", "out", status=1)
        self.assertRegex(done.stderr, r"job.yaml:\d+:\d+: after step 2: the variable `factor` is nan at \[2\]")
        self.assertEqual(sorted(path.name for path in (self.dir / "out/checkpoints").iterdir()), ["000001", "000002"])
        self.assertEqual(json.loads((self.dir / "out/run.json").read_text())["exit_status"], 1)
        finite = self.flowrun("job.yaml", "-o", "found", "--set", "+jobs.train.hooks=[{watch_diff: '**', check: finite, to: none}]", status=1)
        self.assertFalse((self.dir / "found/watch").exists())
        self.assertNotIn("to find where it begins", finite.stderr)
        self.assertRegex(finite.stderr, r"step 2: the gradient of `scaled` is -?inf at \[0, 2\]")
        warned = self.flowrun("job.yaml", "-o", "kept", "--set", "+jobs.train.run.on_nonfinite=warn")
        self.assertEqual(len(re.findall("continuing, as `on_nonfinite` is set", warned.stderr)), 1)
        self.assertTrue((self.dir / "kept/checkpoints/000006").is_dir())

    def test_keys_of_a_dict_and_gradients_have_labels_of_their_own(self):
        self.write("job.yaml", train_job(1) + """
    returns: {value: {error: loss, rows: labels}, to: {type: print, reduce: sum}}
    hooks:
      - {watch: hidden, to: {type: print, reduce: norm}}
      - {watch_diff: hidden, to: {type: print, reduce: norm}}
""")
        told = self.flowrun("job.yaml", "-o", "out", "--quiet").stdout
        self.assertEqual([line.split(":")[0] for line in told.splitlines()], ["hidden", "hidden/diff", "error", "rows"])

    def test_lars_and_lamb_move_a_variable_that_is_zero_at_the_whole_rate(self):
        self.write("job.yaml", """flow: 1
jobs:
  train:
    type: train
    inputs: {x: {shape: [4, 3], dtype: float32, from: {type: random_normal}}}
    graph:
      y: {op: dense, units: 2, in: x}
      squares: {op: mse, prediction: y, target: 1}
      loss: {op: reduce_mean}
    hooks: [{watch_diff: y/bias}]
    optimizer: {type: lars, learning_rate: 0.125, minimize: loss}
""")
        self.flowrun("job.yaml", "-o", "lars", "--steps", 1)
        gradient = self.load("lars/watch/y/bias/diff.npy")[0]
        np.testing.assert_allclose(np.load(self.checkpoint("lars") / "y/bias.npy"), -gradient / 8, rtol=1e-6)
        self.flowrun("job.yaml", "-o", "lamb", "--steps", 1, "--set", "jobs.train.optimizer.type=lamb")
        np.testing.assert_allclose(np.load(self.checkpoint("lamb") / "y/bias.npy"), -np.sign(gradient) / 8, rtol=1e-4)

    def test_what_is_random_and_nobody_trains_or_loads_is_told(self):
        self.write("job.yaml", train_job(1))
        self.assertNotIn("nothing loads", self.flowrun("job.yaml", "-o", "out").stderr)
        frozen = ["--set", "jobs.train.graph.hidden.trainable=false"]
        done = self.flowrun("job.yaml", "-o", "frozen", *frozen)
        self.assertIn("flowrun: neither loaded nor trained: `hidden/weight` of job `train`; the random initial values remain", done.stderr)
        self.assertNotIn("nothing loads", self.flowrun("job.yaml", "-o", "loaded", "--load", "out", *frozen).stderr)

    def gpu_problem(self):
        """Why no job runs on a GPU here; skips the test where one does."""
        if device() == "gpu":
            self.skipTest("this machine has a GPU")
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "probe", "--steps", 1)
        return re.search(r"flowrun: train on cpu \((.*)\), writing to probe", done.stderr)[1]

    def test_without_a_gpu_auto_says_why_the_cpu_computes(self):
        module = (BIN / "libflow_cuda.so").exists()
        problem = self.gpu_problem()
        self.assertEqual(problem == "flow was built without CUDA", not module, problem)

    def test_gpu_without_a_gpu_fails_and_says_what_to_do(self):
        problem = self.gpu_problem()
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--device", "gpu", status=3)
        first, hint = done.stderr.splitlines()
        self.assertEqual(first, f"flowrun: error: --device gpu requires a GPU, but none is usable: {problem}")
        self.assertRegex(hint, r"hint: .*; or run on the CPU: --device cpu$")
        self.assertFalse((self.dir / "out").exists())

    def test_a_job_placed_on_a_gpu_compiles_everywhere_and_runs_where_there_is_one(self):
        problem = self.gpu_problem()
        placed = ("--set", "+jobs.train.placement.device=gpu")
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", *placed, status=3)
        self.assertRegex(done.stderr, r"mlp.yaml:\d+:\d+: job `train` runs on a GPU, but none is usable: " + re.escape(problem))
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--steps", 1, *placed, "--device", "cpu")
        self.call("flowc", "build", JOBS / "mlp.yaml", "-o", "gpu.plan", *placed, "--job", "train")
        self.flowrun("gpu.plan", "-o", "of_plan", "--root", JOBS, status=3)
        done = self.flowrun("gpu.plan", "-o", "of_plan", "--root", JOBS, "--device", "cpu", status=2)
        self.assertIn("flowc build --device cpu", done.stderr)

    def test_a_layer_placed_on_a_gpu_is_named_where_there_is_none_and_moves_to_the_cpu(self):
        problem = self.gpu_problem()
        placed = ("--set", "+networks.mlp.graph.hidden.placement={device: gpu}")
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", *placed, status=3)
        self.assertRegex(done.stderr, r"mlp.yaml:\d+:\d+: `mlp/hidden/matmul` of job `train` runs on a GPU, but none is usable: " + re.escape(problem))
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "placed", "--steps", 3, *placed, "--device", "cpu")
        self.flowrun("train", JOBS / "mlp.yaml", "-o", "plain", "--steps", 3, "--device", "cpu")
        self.call("flowdiff", "plain", "placed", "--rtol", 0, "--atol", 0)
        shown = self.call("flowc", "show", JOBS / "mlp.yaml", *placed, "--job", "train").stdout
        self.assertIn("job train: training on cpu and gpu, ", shown)
        self.assertRegex(shown, r"hidden +dense .* gpu +24\n")
        self.assertRegex(shown, r"output +dense .* cpu +25\n")
        steps = self.call("flowc", "show", JOBS / "mlp.yaml", *placed, "--job", "train", "--steps").stdout
        self.assertRegex(steps, r"gpu +mlp/flat:gpu +copy ")

    def test_tf32_is_refused_on_the_cpu(self):
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "out", "--set", "+jobs.train.precision=tf32", "--device", "cpu", status=2)
        self.assertIn("precision `tf32`, which requires a GPU", done.stderr)

    def test_of_a_flag_given_twice_the_last_counts_and_of_set_each(self):
        flags = ("--steps", 9, "--set", "vars.lr=0.01", "--set", "vars.batch=10", "--steps", 3)
        done = self.flowrun("train", JOBS / "mlp.yaml", "-o", "a", *flags)
        self.assertRegex(done.stderr, "train done, 3 steps")
        overrides = json.loads((self.dir / "a/run.json").read_text())["overrides"]
        self.assertEqual(["--set vars.lr=0.01", "--set vars.batch=10", "--steps 3"], overrides)

    def test_a_wrong_flag_gets_a_suggestion(self):
        self.assertIn("--steps", self.flowrun("train", JOBS / "mlp.yaml", "--stpes", 3, status=2).stderr)

    def test_a_job_without_its_file_gets_the_command(self):
        self.write("job.yaml", train_job(2))
        self.assertIn("error: missing FILE for job `train`\n   hint: write flowrun train job.yaml\n", self.flowrun("train", status=2).stderr)
        self.assertIn("hint: did you mean job.yaml?\n", self.flowrun("job", status=2).stderr)
        self.assertIn("error: FILE is required", self.flowrun(status=2).stderr)

    def test_options_go_anywhere_and_each_takes_one_value(self):
        for name in ("job.yaml", "verify", "-o.yaml", "1e5"):
            self.write(name, train_job(2))
        self.flowrun("train", "job.yaml", "-o", "a", "--quiet")
        for words in (("train", "--set", "seed=2", "job.yaml"), ("--set", "seed=2", "--set", "vars.lr=1", "train", "job.yaml"), ("--watch", "loss", "job.yaml"),
                      ("train", "--load", "none", "job.yaml", "--steps", 1), ("--watch-diff", "hidden", "train", "--watch", "loss", "job.yaml"),
                      ("train", "--set=vars.lr=0.5", "-o=b", "job.yaml"), ("-ob", "--set", "seed=1", "--", "train", "job.yaml"),
                      ("--set", "vars.lr=1", "--", "-o.yaml"), ("train", "--set", "vars.lr=1", "--", "-o.yaml"),
                      ("--input", "x=random_normal:0:1", "train", "verify"), ("train", "verify", "--set", "seed=3"), ("train", "--set", "seed=1", "1e5")):
            done = self.flowrun(*words, "--dry-run") if "--" not in words else self.flowrun("--dry-run", *words)
            self.assertRegex(done.stdout, "^job train: ", words)
        verified = self.flowrun("verify", "--set", "vars.lr=0.5", "train", "--only", "repeat,plan", "--steps", 2, "job.yaml")
        self.assertIn("repeat", verified.stdout)
        self.assertIn("no variable matches `[a,b]`", self.flowrun("train", "--load", "a", "--load-partial", "[a,b]", "job.yaml", status=2).stderr)
        self.assertIn("-o: empty directory name", self.flowrun("train", "--output=", "job.yaml", status=2).stderr)
        self.assertIn("--set: 1 required", self.flowrun("train", "job.yaml", "--set", status=2).stderr)
        self.assertIn("unexpected argument c\n", self.flowrun("--", "train", "job.yaml", "c", status=2).stderr)

    def test_a_command_line_as_other_tools_have_it_gets_ours(self):
        mlp = JOBS / "mlp.yaml"
        for words, hint in [
                (("train", mlp, "--resume", "r"), "-o r --resume"),
                (("train", "--resume", "r", mlp), "-o r --resume"),
                (("train", mlp, "--quiet", "yes"), "--quiet takes no value"),
                (("train", mlp, "--fingerprint", "5"), "write the value with `=`: --fingerprint=5"),
                (("train", mlp, "--fingerprint-size", "5"), "--fingerprint-size requires --fingerprint"),
                (("train", mlp, "out"), "did you mean -o out?"),
                (("train", mlp, "--set vars.lr=0.1"), 'write two words: --set "vars.lr=0.1"'),
                (("train", mlp, "--vars.lr", "0.1"), "did you mean --set vars.lr=0.1?"),
                (("train", mlp, "--vars.lr=0.1"), "did you mean --set vars.lr=0.1?"),
                (("train", "--file", mlp), "without a flag"),
                (("train", mlp, mlp), "--help")]:
            self.assertIn(hint, self.flowrun(*words, status=2).stderr)


if __name__ == "__main__":
    unittest.main()
