"""Several jobs over one set of variables in one run: validation while training, alternating optimizers."""
import json
import shutil
import signal
import subprocess
import unittest

import numpy as np

from flow import BIN, FlowTest, device

JOB = """
flow: 1
seed: 3
data:
  train: {x: {npy: x.npy}, y: {npy: y.npy}}
  test: {x: {npy: tx.npy}, y: {npy: ty.npy}}
networks:
  net:
    inputs: [x]
    graph:
      a: {op: dense, units: 8, activation: relu}
      drop: {op: dropout, rate: 0.5}
      b: {op: dense, units: 3}
jobs:
  train:
    type: train
    inputs:
      x: {shape: [4, 5], dtype: float32, from: train.x}
      y: {shape: [4], dtype: int32, from: train.y}
    graph:
      net: {op: net, in: x}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: y, logits: net}
    optimizer: {type: sgd, momentum: 0.9, learning_rate: 0.1, minimize: loss}
    returns: {value: loss}
    run:
      epochs: 3
      shuffle: true
      checkpoint: {every: {steps: 5}, keep: 100}
      also: [{job: eval, every: {epochs: 1}}]
  eval:
    type: predict
    inputs:
      x: {shape: [4, 5], dtype: float32, from: test.x}
      y: {shape: [4], dtype: int32, from: test.y}
    graph:
      net: {op: net, in: x}
      label: {op: argmax}
      right: {op: equal, in: [label, y]}
    returns:
      value: right
      to: [{type: npy}, {type: print, label: accuracy, reduce: mean, over: run, format: "%.4f"}]
  tune:
    type: train
    inputs:
      x: {shape: [4, 5], dtype: float32, from: test.x}
      y: {shape: [4], dtype: int32, from: test.y}
    graph:
      net: {op: net, in: x}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: y, logits: net}
    optimizer: {type: sgd, learning_rate: 0.05, minimize: loss}
    hooks: [{watch: net/drop}]
    run: {steps: 2}
"""


class AlsoTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)
        random = np.random.default_rng(5)
        for prefix, rows in [("", 18), ("t", 10)]:
            x = random.normal(size=(rows, 5)).astype(np.float32)
            np.save(self.dir / f"{prefix}x.npy", x)
            np.save(self.dir / f"{prefix}y.npy", (x[:, 0] > 0).astype(np.int32) + (x[:, 1] > 0))

    def test_validation_while_training_is_what_evaluation_afterwards_says(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        right = self.load("out/also/eval/returns/right/value.npy")
        self.assertEqual(right.shape, (30,))  # three passes over ten rows
        np.testing.assert_array_equal(self.load("out/also/eval/returns/right/steps.npy"), np.arange(9))
        self.flowrun("eval", "job.yaml", "-o", "eval", "--quiet", "--load", "out/checkpoints/000012")
        np.testing.assert_array_equal(right[20:], self.load("eval/returns/right/value.npy"))

    def test_predict_jobs_change_nothing_of_the_training(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        self.flowrun("train", "job.yaml", "-o", "alone", "--quiet", "--set", "~jobs.train.run.also")
        np.testing.assert_array_equal(self.load("out/returns/loss/value.npy"), self.load("alone/returns/loss/value.npy"))
        for name, data in self.files("alone/checkpoints/000012").items():
            if name.endswith(".npy"):
                self.assertEqual((self.dir / "out/checkpoints/000012" / name).read_bytes(), data, name)

    def test_over_run_means_one_call(self):
        done = self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        right = self.load("out/also/eval/returns/right/value.npy").reshape(3, 10)
        self.assertEqual(done.stdout.splitlines(),
                         [f"eval epoch {epoch} accuracy: {mean:.4f}" for epoch, mean in enumerate(right.mean(1), 1)])

    def test_lines_of_a_job_that_is_called_after_steps_say_the_step(self):
        done = self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--set", "jobs.train.run.also=[{job: eval, every: {steps: 5}}]",
                            "--set", "jobs.eval.returns.to=[{type: print, label: '', reduce: sum}]")
        right = self.reference("out", [5, 10])
        self.assertEqual(done.stdout.splitlines(), [f"eval step {step}: {part.sum()}" for step, parts in right for part in parts])

    def reference(self, run, steps):
        """What `eval` says of the state after these steps: rows in batches of four."""
        for step in steps:
            self.flowrun("eval", "job.yaml", "-o", f"eval-{step}", "--quiet", "--load", f"{run}/checkpoints/{step:06}")
        return [(step, np.split(self.load(f"eval-{step}/returns/right/value.npy"), [4, 8])) for step in steps]

    def test_validation_leaves_rows_in_the_metrics_of_the_run(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", *self.ALTERNATING)
        rows = self.rows("out")
        right = self.load("out/also/eval/returns/right/value.npy").reshape(3, 10)
        self.assertEqual([row for row in rows if row.get("job") == "eval"],
                         [{"step": 4 * call, "epoch": call, "job": "eval", "job_step": 3 * call - 1, "name": "right", "label": "accuracy",
                           "value": right[call - 1].mean()} for call in (1, 2, 3)])
        self.assertEqual([row for row in rows if row.get("job") == "tune"],
                         [{"step": line["main_step"], "epoch": line["main_step"] // 4, "job": "tune", "job_step": line["step"],
                           "loss": line["loss"], "learning_rate": line["learning_rate"]} for line in self.metrics("out/also/tune")])
        # In the order of the run: a call stands before the step that it precedes.
        self.assertEqual([(row.get("job"), row["step"]) for row in rows[:6]],
                         [(None, 0), (None, 1), (None, 2), ("tune", 3), ("tune", 3), (None, 3)])
        self.assertEqual([set(row) for row in self.metrics("out")], [{"step", "epoch", "loss", "learning_rate", "seconds"}] * 12)

    def test_numbers_that_the_main_job_prints_are_rows_too(self):
        hook = "[{watch: loss, to: [{type: print, reduce: mean, over: epoch, every: 2}, {type: print, over: run}]}]"
        done = self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--json", "--set", f"+jobs.train.hooks={hook}")
        printed = [json.loads(line) for line in done.stdout.splitlines()]
        rows = [row for row in self.rows("out") if row.get("job") == "train"]
        self.assertEqual([(row["step"], row["epoch"]) for row in rows], [(3, 0), (11, 2)])
        told = [event for event in printed if event["job"] == "train" and isinstance(event["value"], float)]
        for row, event in zip(rows, told, strict=True):
            self.assertEqual(row, {key: event[key] for key in ("step", "epoch", "job", "name", "label", "value")})

    def test_a_predict_job_that_reduces_something_leaves_it_in_metrics(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        self.flowrun("eval", "job.yaml", "-o", "eval", "--quiet", "--load", "out")
        mean = self.load("eval/returns/right/value.npy").mean()
        self.assertEqual(self.rows("eval"), [{"step": 2, "epoch": 0, "job": "eval", "name": "right", "label": "accuracy", "value": mean}])
        self.flowrun("eval", "job.yaml", "-o", "bare", "--quiet", "--load", "out", "--set", "jobs.eval.returns.to=npy")
        self.assertFalse((self.dir / "bare/metrics.jsonl").exists())

    def test_a_number_that_is_not_finite_is_null(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--steps", 4, "--set", "jobs.eval.returns={value: net, to: {type: print, reduce: max, over: run, scale: 1e39}}")
        self.assertEqual([(row["label"], row["value"]) for row in self.rows("out") if "job" in row], [("net", None)])

    ALTERNATING = ["--set", "jobs.train.run.also=[{job: tune, every: {steps: 3}}, {job: eval, every: {steps: 4}}]"]

    def test_two_train_jobs_alternate_on_one_set_of_variables(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", *self.ALTERNATING)
        lines = self.metrics("out/also/tune")
        self.assertEqual([line["step"] for line in lines], list(range(8)))
        self.assertEqual([line["epoch"] for line in lines], [0, 0, 1, 1, 2, 2, 3, 3])
        record = json.loads((self.dir / "out/checkpoints/000012/checkpoint.json").read_text())
        self.assertEqual(record["also"], {"tune": 8, "eval": 9})
        self.assertIn("net/a/weight/momentum.npy", record["checksums"])
        self.flowrun("train", "job.yaml", "-o", "alone", "--quiet", "--set", "~jobs.train.run.also")
        losses, alone = (self.load(f"{run}/returns/loss/value.npy") for run in ["out", "alone"])
        np.testing.assert_array_equal(losses[:3], alone[:3])
        self.assertFalse(np.array_equal(losses[3], alone[3]))

    def test_a_called_job_calls_nobody(self):
        called = ["--set", "jobs.train.run.also=[{job: tune, every: {steps: 3}}]",
                  "--set", "jobs.tune.run.also=[{job: eval, every: {steps: 1}}]"]
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", *called)
        self.assertEqual([path.name for path in (self.dir / "out/also").iterdir()], ["tune"])
        self.flowrun("tune", "job.yaml", "-o", "tuned", "--quiet", *called)
        self.assertEqual([path.name for path in (self.dir / "tuned/also").iterdir()], ["eval"])

    def test_what_a_called_job_draws_has_a_name_of_its_own(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", *self.ALTERNATING)
        self.flowrun("tune", "job.yaml", "-o", "alone", "--quiet")
        called = self.load("out/also/tune/watch/net/drop/value.npy")[0] != 0
        alone = self.load("alone/watch/net/drop/value.npy")[0] != 0
        self.assertFalse(np.array_equal(called, alone))

    def test_events_of_a_called_job_say_where_the_main_one_stands(self):
        called = ["--set", "jobs.train.run.also=[{job: tune, every: {steps: 3}}, {job: eval, every: {epochs: 1}}]"]
        hook = "[{type: print, reduce: mean}, {type: command, run: 'cat > $FLOW_RUN_DIR/stream', format: text}, " \
               "{type: command, mode: spawn, run: 'cat > /dev/null; echo $FLOW_STEP $FLOW_MAIN_STEP >> $FLOW_RUN_DIR/spawned'}]"
        done = self.flowrun("train", "job.yaml", "-o", "out", "--json", *called, "--set", f"jobs.tune.hooks.0.to={hook}",
                            "--set", "+jobs.train.hooks=[{watch: loss, to: {type: print, reduce: mean}}]")
        tuned = list(zip(range(8), [3, 3, 6, 6, 9, 9, 12, 12]))  # two steps a call
        stream = [json.loads(line) for line in (self.dir / "out/stream").read_text().splitlines() if line.startswith("{")]
        self.assertEqual([(event["step"], event["main_step"]) for event in stream if event["event"] == "watch"], tuned)
        self.assertEqual((self.dir / "out/spawned").read_text().splitlines(), [f"{step} {main}" for step, main in tuned])
        printed = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(event["step"], event["main_step"]) for event in printed if event["name"] == "net/drop"], tuned)
        self.assertEqual([event["main_step"] for event in printed if event["label"] == "accuracy"], [4, 8, 12])
        self.assertTrue(all("main_step" not in event for event in printed if event["name"] == "loss"))
        self.assertEqual([(line["step"], line["main_step"]) for line in self.metrics("out/also/tune")], tuned)
        self.assertNotIn("main_step", self.metrics("out")[0])

    def test_a_stream_hears_of_the_end_of_each_pass(self):
        stream = "{type: command, run: 'cat > $FLOW_RUN_DIR/$FLOW_NONE.told', format: text, env: {FLOW_NONE: stream}}"
        spawned = "{type: command, mode: spawn, run: 'cat > /dev/null; echo $FLOW_EVENT $FLOW_MAIN_EPOCH >> $FLOW_RUN_DIR/spawned'}"
        hooks = [f"+jobs.{job}.hooks=[{{watch: loss, to: [{stream}, {spawned}]}}, {{watch: net, to: {stream}}}]" for job in ("eval", "tune")]
        hooks[0] = hooks[0].replace("watch: loss", "watch: right")
        hooks[1] = hooks[1].replace("+jobs.tune.hooks", "jobs.tune.hooks").replace("stream}}", "tuned}}")
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", *self.ALTERNATING, *(word for hook in hooks for word in ("--set", hook)))
        for job, name, each, passes in (("eval", "stream", 3, [(4, 1), (8, 2), (12, 3)]), ("tune", "tuned", 2, [(3, 0), (6, 1), (9, 2), (12, 3)])):
            events = [json.loads(line) for line in (self.dir / f"out/{name}.told").read_text().splitlines() if line.startswith("{")]
            # Two hooks share the stream: one event a pass, behind those of its steps.
            self.assertEqual([event["event"] for event in events], ["start", *(["watch"] * 2 * each + ["pass_end"]) * len(passes), "end"])
            steps_an_epoch = {"eval": 3, "tune": 2}[job]
            self.assertEqual([event for event in events if event["event"] == "pass_end"],
                             [{"flow": 1, "event": "pass_end", "job": job, "step": each * call - 1, "epoch": (each * call - 1) // steps_an_epoch,
                               "main_step": step, "main_epoch": epoch, "arrays": []} for call, (step, epoch) in enumerate(passes, 1)])
            self.assertTrue(all(event["main_epoch"] in (0, 1, 2, 3) for event in events if event["event"] == "watch"))
        self.assertEqual({line.split()[0] for line in (self.dir / "out/spawned").read_text().splitlines()}, {"watch"})

    def test_a_command_may_end_the_run_at_the_end_of_a_pass(self):
        stops = "{type: command, run: 'while read -r line; do case $line in *pass_end*) exit CODE;; esac; printf \"\\n\" >&3; done', format: text, ack: true}"
        for code, status in ((10, 0), (4, 3)):
            hook = f"+jobs.eval.hooks=[{{watch: right, to: {stops.replace('CODE', str(code))}}}]"
            hook = hook.replace("read -r line; do", "read -r line; do case $line in {*) ;; *) continue;; esac;")
            done = self.flowrun("train", "job.yaml", "-o", "out", "--force", "--set", hook, status=status)
            self.assertEqual(self.load("out/also/eval/returns/right/value.npy").shape, (10,))
            self.assertIn("stopped by a command after 4 steps" if code == 10 else "of the end of a pass exited with status 4", done.stderr)
            if code == 4:
                self.assertIn("load the state after 4 steps with --load out/rescued", done.stderr)

    def test_a_checkpoint_that_is_due_with_a_call_holds_the_state_after_it(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--set", "jobs.train.run.also=[{job: tune, every: {steps: 5}}]")
        record = json.loads((self.dir / "out/checkpoints/000005/checkpoint.json").read_text())
        self.assertEqual((record["also"], record["metrics_rows"]), ({"tune": 2}, 7))
        self.flowrun("train", "job.yaml", "-o", "alone", "--quiet", "--set", "~jobs.train.run.also")
        weights = [self.load(f"{run}/checkpoints/000005/net/a/weight.npy") for run in ("out", "alone")]
        self.assertFalse(np.array_equal(*weights))

    def test_every_of_a_called_job_keeps_its_phase_over_a_resume(self):
        for over, of in (("step", 9), ("epoch", 3), ("run", 3)):
            words = ["--set", f"jobs.eval.returns.to=[{{type: print, reduce: sum, over: {over}, every: 2}}]"]
            whole = self.flowrun("train", "job.yaml", "-o", "whole", "--quiet", "--force", *words).stdout
            self.assertEqual(len(whole.splitlines()), (of + 1) // 2)
            for stop in (4, 8):  # after one pass of three steps, and after two
                before = self.flowrun("train", "job.yaml", "-o", "parts", "--quiet", "--force", "--steps", stop, *words).stdout
                self.assertEqual(before + self.flowrun("train", "job.yaml", "-o", "parts", "--quiet", "--resume", *words).stdout, whole)

    def test_called_jobs_are_profiled_and_their_memory_is_told(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--profile", *self.ALTERNATING)
        jobs = json.loads((self.dir / "out/profile.json").read_text())["jobs"]
        self.assertEqual([(job["job"], job["calls"]) for job in jobs], [("train", 12), ("tune", 8), ("eval", 9)])
        told = self.flowrun("train", "job.yaml", "--dry-run", "--device", "cpu", *self.ALTERNATING).stdout
        # All variables are those of `train`: 75 floats and as many of momentum, each in whole 64 bytes.
        self.assertEqual([line.split()[1:] for line in told.splitlines() if line.startswith("  variables")],
                         [["896", "B"], ["0", "B"], ["0", "B"]])
        self.assertRegex(told.splitlines()[-1], r"^total: \S+ KiB$")

    def test_a_command_of_a_called_job_stops_the_run(self):
        asks = "[{watch: label, to: {type: command, mode: spawn, run: 'cat > /dev/null; [ $FLOW_STEP = 1 ] && exit 10; true'}}]"
        told = "[{watch: right, to: {type: command, run: 'cat > $FLOW_RUN_DIR/told', format: text}}]"
        done = self.flowrun("train", "job.yaml", "-o", "out", "--set", f"+jobs.eval.hooks={asks}")
        self.assertIn("stopped by a command after 4 steps", done.stderr)
        self.assertEqual(len(self.load("out/also/eval/returns/right/value.npy")), 10)  # that pass is whole
        self.flowrun("train", "job.yaml", "-o", "told", "--quiet", "--set", f"+jobs.eval.hooks={told}",
                     "--set", "+jobs.train.hooks=[{watch: loss, to: {type: command, mode: spawn, run: 'cat > /dev/null; [ $FLOW_STEP = 6 ] && exit 10; true'}}]")
        self.assertIn('"event":"end","job":"eval","status":"stopped"', (self.dir / "told/told").read_text())

    def test_a_pass_that_is_interrupted_prints_nothing_and_is_made_again(self):
        for fails in [1, 4, 5]:  # within a pass of three; in its last step, after which the main job stops
            once = f"jobs.eval.hooks=[{{watch: label, to: {{type: command, mode: spawn, run: 'cat > /dev/null; [ $FLOW_STEP = {fails} ] && [ ! -e $FLOW_RUN_DIR/once ] && touch $FLOW_RUN_DIR/once && kill -INT $PPID; sleep 0.1'}}}}]"
            run = subprocess.run([BIN / "flowrun", "train", "job.yaml", "-o", "out", "--force", "--set", "+" + once], cwd=self.dir, capture_output=True, text=True)
            self.assertEqual(run.returncode, -signal.SIGINT, run.stderr)
            whole = [line for line in run.stdout.splitlines() if line.startswith("eval epoch ")]
            self.assertEqual(len(whole), (fails + 1) // 3, run.stdout)
            self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--quiet", "--set", "+" + once)
            self.flowrun("train", "job.yaml", "-o", "whole", "--force", "--quiet")
            np.testing.assert_array_equal(self.load("out/also/eval/returns/right/value.npy"), self.load("whole/also/eval/returns/right/value.npy"))
            np.testing.assert_array_equal(self.load("out/also/eval/returns/right/steps.npy"), np.arange(9))
            self.assertEqual(self.rows_without_seconds("out"), self.rows_without_seconds("whole"))
            (self.dir / "out/once").unlink()

    def test_where_a_called_job_fails_the_next_is_not_called(self):
        called = ["--set", "jobs.train.run.also=[{job: eval, every: {steps: 4}}, {job: tune, every: {steps: 4}}]"]
        x = self.load("tx.npy")
        x[1, 2] = np.nan
        np.save(self.dir / "tx.npy", x)
        done = self.flowrun("train", "job.yaml", "-o", "out", *called, "--set", "+jobs.eval.hooks=[{watch: x, check: finite}]", status=1)
        self.assertIn("step 0: tensor `x` is nan at [1, 2]; expected finite values", done.stderr)
        self.assertEqual(self.metrics("out/also/tune"), [])

    def test_an_input_of_the_main_job_is_not_one_of_a_called_job(self):
        called = ["--set", "jobs.train.run.also=[{job: eval, every: {steps: 4}}]", "--set", "+jobs.eval.hooks=[{watch: x}]"]
        self.flowrun("train", "job.yaml", "-o", "plain", "--quiet", *called, "--steps", 4)
        self.flowrun("train", "job.yaml", "-o", "given", "--quiet", *called, "--steps", 4, "--input", "x=random_normal:0:1")
        seen = [self.load(f"{run}/also/eval/watch/x/value.npy") for run in ("plain", "given")]
        np.testing.assert_array_equal(*seen)
        self.assertNotEqual(self.metrics("plain")[0]["loss"], self.metrics("given")[0]["loss"])

    def test_the_state_outlives_a_called_job_that_fails(self):
        fails = "+jobs.eval.hooks=[{watch: x, to: {type: command, mode: spawn, run: 'cat >/dev/null; exit 4'}}]"
        done = self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--set", "jobs.train.run.also=[{job: eval, every: {steps: 4}}]",
                            "--set", fails, status=3)
        self.assertIn("load the state after 4 steps with --load out/rescued", done.stderr)
        self.flowrun("eval", "job.yaml", "-o", "seen", "--quiet", "--load", "out/rescued")

    def test_a_called_job_that_shuffles_has_another_order_in_each_epoch(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", *self.ALTERNATING, "--set", "+jobs.tune.run.shuffle=true",
                     "--set", "jobs.tune.hooks.0.watch=x")
        places = {row.tobytes(): place for place, row in enumerate(self.load("tx.npy"))}
        epochs = [[places[row.tobytes()] for row in epoch] for epoch in self.load("out/also/tune/watch/x/value.npy").reshape(4, 8, 5)]
        for order in epochs:
            self.assertEqual(len(set(order)), 8)
            self.assertNotEqual(order, list(range(8)))
        self.assertNotEqual(epochs[0], epochs[1])

    def test_inputs_that_a_called_job_draws_are_its_own(self):
        source = "{type: random_uniform, low: -1, high: 1}"
        words = [word for job in ("train", "eval") for set in (f"jobs.{job}.inputs.x.from={source}", f"+jobs.{job}.hooks=[{{watch: x}}]")
                 for word in ("--set", set)]
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", *words)
        self.flowrun("train", "job.yaml", "-o", "again", "--quiet", *words)
        main, called = (self.load(f"out/{folder}watch/x/value.npy").reshape(-1, 5) for folder in ("", "also/eval/"))
        self.assertFalse(np.isin(called, main).any())
        np.testing.assert_array_equal(called, self.load("again/also/eval/watch/x/value.npy").reshape(-1, 5))

    def same_runs(self, one, other):
        self.assertEqual(self.rows_without_seconds(one), self.rows_without_seconds(other))
        a, b = ({name: data for name, data in self.files(run).items()
                 if name.endswith(".npy") or name.endswith("checkpoint.json")} for run in [one, other])
        self.assertEqual(sorted(a), sorted(b))
        for name, data in a.items():
            self.assertEqual(data, b[name], name)

    def test_a_resumed_run_goes_on_to_the_same_bits(self):
        each_step = "+jobs.eval.hooks=[{watch: label, to: [{type: print, reduce: sum, every: 2}]}]"
        printed = "+jobs.train.hooks=[{watch: loss, to: [{type: print, reduce: mean, over: run}, {type: print, reduce: sum, over: epoch}]}]"
        rows = ["--set", each_step, "--set", printed]
        for words in [[], self.ALTERNATING, rows, [*rows, "--set", "+jobs.train.returns.type=Callback", "--set", "+jobs.train.run.log_every=3"]]:
            self.flowrun("train", "job.yaml", "-o", "whole", "--quiet", "--force", *words)
            for stop in [1, 3, 4, 6, 7, 9]:
                self.flowrun("train", "job.yaml", "-o", "parts", "--quiet", "--force", "--steps", stop, *words)
                self.flowrun("train", "job.yaml", "-o", "parts", "--quiet", "--resume", *words)
                # The stop left a checkpoint of its own.
                if stop % 5:
                    shutil.rmtree(self.dir / f"parts/checkpoints/{stop:06}")
                self.same_runs("whole", "parts")

    def test_a_run_that_is_killed_resumes_to_the_same_bits(self):
        self.flowrun("train", "job.yaml", "-o", "whole", "--quiet", *self.ALTERNATING)
        run = subprocess.Popen([BIN / "flowrun", "train", "job.yaml", "-o", "parts", *self.ALTERNATING, "--set",
                                "jobs.train.hooks=[{watch: loss, to: {type: print}}]"],
                               cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(5):
            run.stdout.readline()
        run.send_signal(signal.SIGINT)
        run.communicate()
        self.flowrun("train", "job.yaml", "-o", "parts", "--quiet", "--resume", *self.ALTERNATING)
        self.assertEqual(self.rows_without_seconds("whole"), self.rows_without_seconds("parts"))
        stopped = {path.name for path in (self.dir / "parts/checkpoints").iterdir()}
        for name in stopped - {path.name for path in (self.dir / "whole/checkpoints").iterdir()}:
            shutil.rmtree(self.dir / "parts/checkpoints" / name)
        for tensor in ["returns/loss", "also/eval/returns/right", "also/tune/watch/net/drop"]:
            np.testing.assert_array_equal(self.load(f"whole/{tensor}/value.npy"), self.load(f"parts/{tensor}/value.npy"))
        for name, data in self.files("whole/checkpoints/000012").items():
            if name.endswith(".npy"):
                self.assertEqual((self.dir / "parts/checkpoints/000012" / name).read_bytes(), data, name)

    def test_what_is_called_belongs_to_what_resumes(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--steps", 3)
        done = self.flowrun("train", "job.yaml", "-o", "out", "--resume", *self.ALTERNATING, status=2)
        self.assertIn("job `train` differs from the run", done.stderr)
        self.assertIn("\n  job tune: none in the run, called now\n", done.stderr)

    def test_a_called_job_that_fails_fails_the_run(self):
        np.save(self.dir / "ty.npy", np.full(10, 7, np.int32))
        done = self.flowrun("train", "job.yaml", "-o", "out", *self.ALTERNATING, status=3)
        self.assertIn("contains 7", done.stderr)

    def test_a_plan_holds_all_jobs_of_a_run(self):
        self.call("flowc", "build", "job.yaml", "--job", "train", "-o", "plan.json", "--device", device())
        self.flowrun("train", "plan.json", "-o", "plan", "--quiet")
        self.flowrun("train", "job.yaml", "-o", "file", "--quiet")
        self.same_runs("plan", "file")


if __name__ == "__main__":
    unittest.main()
