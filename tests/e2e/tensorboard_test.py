"""--tensorboard: event files with valid checksums, the numbers of metrics.jsonl, and each event once, also in resumed runs."""
import csv
import math
import re
import unittest

import numpy as np

from event_file import Events
from launchers import RanksTest

JOB = """flow: 1
seed: 3
jobs:
  train:
    type: train
    inputs: {x: {shape: [16, 4], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}}
    graph:
      hidden: {op: dense, in: x, units: 8, activation: relu}
      y:      {op: dense, units: 1}
      loss:   {op: reduce_mean, in: y}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
    returns: {value: loss, to: {type: print, reduce: mean, every: 2}}
    hooks:
      - {watch: hidden, to: {type: stats, bins: 7}}
      - {watch_diff: hidden/weight, to: stats, every: 3}
    run: {steps: 12, also: [{job: eval, every: {steps: 4}}, {job: tune, every: {steps: 6}}], checkpoint: {every: {steps: 4}}}
  eval:
    type: predict
    extends: train
    graph: {size: {op: negative, in: loss}}
    returns: {value: size, to: {type: print, label: size, reduce: mean, over: run}}
  tune:
    type: train
    extends: train
    optimizer: {type: sgd, learning_rate: 0.01, minimize: loss}
    returns: {value: loss, to: none}
    run: {steps: 2}
"""
START, CHECKPOINT = 1, 3  # of SessionLog


class TensorBoard(RanksTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)

    def train(self, out, *words, events="tb", **options):
        return self.flowrun("train", "job.yaml", "-o", out, "--quiet", "--tensorboard", events, *words, **options)

    def events(self, directory="tb"):
        return Events(self.dir / directory)

    def without_times(self, directory):
        events = self.events(directory)
        return events.scalars, events.histograms, events.sessions, events.graphs

    def test_scalars_are_the_rows_of_the_metrics(self):
        self.train("out")
        events = self.events()
        self.assertEqual(len(events.files), 1)
        self.assertRegex(events.files[0].name, r"^events\.out\.tfevents\.\d{10}\..*\.flow$")
        self.assertEqual(events.versions, [b"brain.Event:2"])
        self.assertEqual(events.wall_times, sorted(events.wall_times))
        expected = {}
        for row in self.rows("out"):
            if "job" not in row:
                for key in ("loss", "learning_rate"):
                    expected.setdefault(f"train/{key}", []).append((row["step"], row[key]))
            elif "value" in row:
                tag = "eval/size" if row["job"] == "eval" else "train/loss (reduced)"
                expected.setdefault(tag, []).append((row["step"], row["value"]))
            else:
                for key in ("loss", "learning_rate"):
                    expected.setdefault(f"tune/{key}", []).append((row["job_step"], row[key]))
        self.assertEqual({len(values) for values in expected.values()}, {3, 4, 6, 12})
        self.assertEqual(events.scalars, {tag: [(step, float(np.float32(value))) for step, value in values] for tag, values in expected.items()})
        for tag, values in events.scalars.items():
            self.assertEqual(len({step for step, _ in values}), len(values), tag)  # readers drop others

    def test_a_value_that_is_printed_and_followed_has_two_tags(self):
        self.train("out", "--set", "+jobs.train.run.early_stopping={watch: eval.size, patience: 100}", "--set", "+jobs.train.run.checkpoint.keep_best={by: loss, every: {steps: 4}, mode: min}")
        scalars = self.events().scalars
        self.assertEqual([step for step, _ in scalars["eval/size (monitored)"]], [4, 8, 12])
        self.assertEqual(scalars["eval/size (monitored)"], scalars["eval/size"])
        self.assertEqual([step for step, _ in scalars["train/loss (monitored)"]], [3, 7, 11])
        for tag, values in scalars.items():
            self.assertEqual(len({step for step, _ in values}), len(values), tag)

    def test_histograms_are_those_of_the_stats_sinks(self):
        self.train("out")
        events = self.events()
        for tag, path in (("train/hidden", "watch/hidden/stats.csv"), ("train/hidden/weight/diff", "watch/hidden/weight/diff_stats.csv")):
            with open(self.dir / "out" / path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([step for step, _ in events.histograms[tag]], [int(row["step"]) for row in rows])
            for (_, found), row in zip(events.histograms[tag], rows):
                bins = [float(row[key]) for key in row if key.startswith("bin")]
                self.assertEqual(list(found["counts"]), bins)
                self.assertEqual((found["min"], found["max"], found["num"]), (float(row["min"]), float(row["max"]), sum(bins)))
                self.assertEqual((found["limits"][-1], len(found["limits"])), (found["max"], len(bins)))
                np.testing.assert_allclose(np.diff([found["min"], *found["limits"]]), (found["max"] - found["min"]) / len(bins), rtol=1e-6)
                np.testing.assert_allclose(found["sum"] / found["num"], float(row["mean"]), rtol=1e-12)
                np.testing.assert_allclose(found["sum_squares"] / found["num"], float(row["std"])**2 + float(row["mean"])**2, rtol=1e-12)
        self.assertEqual(set(events.histograms), {"train/hidden", "train/hidden/weight/diff"})

    def test_the_graph_has_every_step_and_its_operands(self):
        self.train("out")
        nodes = self.events().nodes()
        self.assertEqual(nodes["train/x"], ("Placeholder", []))
        self.assertEqual(nodes["train/hidden/weight"], ("Variable", []))
        for op, inputs in nodes.values():
            for name in inputs:
                self.assertIn(re.sub(r":\d+$", "", name), nodes, op)
        reached, waiting = set(), [name for name in nodes if name.startswith("train/loss")]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += [re.sub(r":\d+$", "", each) for each in nodes[name][1]]
        self.assertLessEqual({"train/x", "train/hidden/weight", "train/hidden/bias", "train/y/weight"}, reached)
        self.assertEqual({name.split("/")[0] for name in nodes}, {"train", "eval", "tune"})

    def test_a_resumed_run_has_each_event_once(self):
        self.train("whole", events="whole_tb")
        self.train("out", "--steps", "6")  # two steps after a checkpoint, and one at the end
        self.train("out", "--resume")
        self.assertEqual(len(self.events().files), 1)
        self.assertEqual(self.without_times("tb")[:2], self.without_times("whole_tb")[:2])

    def test_what_a_killed_run_wrote_after_its_checkpoint_goes(self):
        self.train("whole", events="whole_tb")
        for at in (9, 20, 31, 40):
            with self.subTest(at=at):
                events = f"tb{at}"
                self.train(f"out{at}", events=events, status=-9, env=self.faults(call="pwrite", path="tfevents", at=at, kill=1))
                name = self.events(events).files[0].name
                with open(self.dir / events / name, "ab") as file:
                    file.write(b"\x21\0\0\0")  # the start of a record
                self.write(f"{events}/.{name}.0123456789abcdef.tmp", "of a run that was killed at its start")
                self.train(f"out{at}", "--resume", events=events)
                self.assertEqual(len(list((self.dir / events).iterdir())), 1)
                found = self.events(events)
                self.assertGreater(found.files[0].name, name)  # which a reader takes for a newer one
                self.assertEqual(self.without_times(events), self.without_times("whole_tb"))
                self.assertEqual(found.sessions, [(0, START), *((step, CHECKPOINT) for step in (4, 8, 12))])  # first: forget earlier files

    def test_events_may_begin_at_a_resume(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet", "--steps", "8")
        text = self.flowrun("train", "job.yaml", "-o", "out", "--resume", "--tensorboard", "tb").stderr
        self.assertIn("no events of the steps before 8", text)
        self.assertEqual([step for step, _ in self.events().scalars["train/loss"]], [8, 9, 10, 11])

    def test_events_of_others_are_left_alone(self):
        self.train("first")
        before = self.events().files[0].read_bytes()
        text = self.train("second", status=2).stderr
        self.assertIn("--tensorboard tb: has the events of an earlier run", text)
        self.assertIn("hint: name another directory, or use --force to remove them", text)
        self.assertFalse((self.dir / "second/plan.json").exists())
        self.flowrun("train", "job.yaml", "-o", "third", "--quiet", "--steps", "4", "--set", "vars={}", "--set", "jobs.train.optimizer.learning_rate=0.2")
        text = self.flowrun("train", "job.yaml", "-o", "third", "--quiet", "--resume", "--set", "jobs.train.optimizer.learning_rate=0.2", "--tensorboard", "tb", status=2).stderr
        self.assertIn("has the events of another job", text)
        self.assertEqual(self.events().files[0].read_bytes(), before)
        self.write("tb/events.out.tfevents.1.other", "of another program")
        self.train("second", "--force")
        self.assertEqual((self.dir / "tb/events.out.tfevents.1.other").read_text(), "of another program")
        self.assertEqual(len(list((self.dir / "tb").glob("*.flow"))), 1)

    def test_a_wrong_directory_is_refused_before_the_run(self):
        self.write("file", "")
        for words, message in ((("file",), "is a file, not a directory"), (("",), "empty directory name"), (("out/watch",), "the run writes other files there"), (("out",), "the run writes other files there"), ((".",), "the run writes other files there")):
            text = self.flowrun("train", "job.yaml", "-o", "out", "--tensorboard", *words, status=2).stderr
            self.assertIn(message, text)
            self.assertFalse((self.dir / "out/plan.json").exists())
        self.flowrun("train", "job.yaml", "--dry-run", "--tensorboard", "tb")
        self.assertFalse((self.dir / "tb").exists())

    def test_a_full_disk_ends_the_run_as_with_other_outputs(self):
        text = self.train("out", status=3, env=self.faults(call="pwrite", path="tfevents", at=5, errno=28)).stderr
        self.assertIn("cannot write", text)
        self.assertIn("tfevents", text)
        self.assertIn("No space left on device", text)

    def test_of_several_ranks_the_first_writes(self):
        self.write("job.yaml", JOB.replace("type: train\n    inputs", "type: train\n    shards: 2\n    inputs", 1))
        self.train("one", events="one_tb")
        self.ranks(2, "train", "job.yaml", "-o", "two", "--quiet", "--tensorboard", "two_tb")
        self.assertEqual(len(self.events("two_tb").files), 1)
        self.assertEqual(self.without_times("two_tb"), self.without_times("one_tb"))

    def test_a_predict_job_has_a_graph_and_histograms(self):
        self.write("ask.yaml", """flow: 1
jobs:
  ask:
    type: predict
    inputs: {x: {shape: [6, 2], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}}
    graph: {twice: {op: multiply, in: [x, 2]}}
    returns: {value: twice, to: {type: stats, bins: 4}}
""")
        self.flowrun("ask", "ask.yaml", "-o", "out", "--quiet", "--tensorboard", "tb")
        events = self.events()
        self.assertEqual((list(events.histograms), events.scalars), (["ask/twice"], {}))
        self.assertIn("ask/x", events.nodes())

    def test_a_loss_that_is_not_finite_is_a_nan(self):
        self.write("nan.yaml", JOB.replace("run: {steps: 12,", "run: {steps: 12, on_nonfinite: warn,").replace(", {job: tune, every: {steps: 6}}", "").replace("learning_rate: 0.1", "learning_rate: 1e38"))
        self.flowrun("train", "nan.yaml", "-o", "out", "--quiet", "--tensorboard", "tb")
        self.assertTrue(any(math.isnan(value) for _, value in self.events().scalars["train/loss"]))


if __name__ == "__main__":
    unittest.main()
