"""Metrics over an epoch or a run: against their formulas in NumPy, on rows that do not fill the last batch, and after a resume."""
import json
import math

import numpy as np

from flow import FlowTest

CLASSES, ROWS, BATCH, TRAIN_ROWS = 4, 90, 16, 96

JOB = """flow: 1
seed: 3
data:
  train: {x: {npy: x.npy}, y: {npy: y.npy}}
  test: {x: {npy: tx.npy}, y: {npy: ty.npy}, odd: {npy: odd.npy}}
jobs:
  train:
    type: train
    inputs:
      x: {shape: [16, 5], dtype: float32, from: train.x}
      y: {shape: [16], dtype: int32, from: train.y}
    graph:
      hidden: {op: dense, in: x, units: 6, activation: tanh}
      logits: {op: dense, units: 4}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: y, logits: logits}
    optimizer: {type: sgd, learning_rate: 0.05, minimize: loss}
    metrics:
      accuracy: {type: accuracy, labels: y, predictions: logits, scale: 100, format: "%.1f"}
      perplexity: {type: perplexity, losses: loss}
    run: {epochs: 5, shuffle: true, checkpoint: {every: {steps: 4}, keep: 100}, also: [{job: test, every: {epochs: 1}}]}
  test:
    type: predict
    extends: train
    inputs:
      x: {from: test.x}
      y: {from: test.y}
      odd: {shape: [16], dtype: uint8, from: test.odd}
    graph:
      odds: {op: slice, in: logits, index: "[:, 1]"}
      pair: {op: slice, in: logits, index: "[:, :2]"}
      guess: {op: argmax, in: logits}
    metrics:
      accuracy: {type: accuracy, labels: y, predictions: guess}
      top2: {type: top_k_accuracy, k: 2, labels: y, predictions: logits}
      precision: {type: precision, labels: y, predictions: logits, classes: 4, format: numpy}
      recall: {type: recall, labels: y, predictions: logits, average: weighted}
      micro: {type: f1, labels: y, predictions: logits, average: micro}
      f1: {type: f1, labels: y, predictions: logits, ignore_label: 2}
      binary: {type: f1, labels: odd, predictions: odds, threshold: 0.1, average: binary}
      iou: {type: mean_iou, labels: y, predictions: logits}
      matrix: {type: confusion_matrix, labels: y, predictions: logits}
      auc: {type: auc, labels: odd, predictions: odds}
      auc2: {type: auc, labels: odd, predictions: pair}
      perplexity: {type: perplexity, losses: loss}
    returns: {value: {logits: logits, loss: loss}}
"""


def confusion(labels, predictions, classes=CLASSES):
    matrix = np.zeros((classes, classes), np.int64)
    np.add.at(matrix, (labels, predictions), 1)
    return matrix


def scores(kind, matrix, average="macro"):
    """Of each class from its counts, 0 where nothing counts; macro: the mean over classes that occur."""
    both, labels, predictions = np.diag(matrix).astype(float), matrix.sum(1), matrix.sum(0)
    if average == "micro":
        both, labels, predictions = both.sum(), labels.sum(), predictions.sum()
    top, bottom = {"precision": (both, predictions), "recall": (both, labels), "f1": (2 * both, labels + predictions),
                   "iou": (both, labels + predictions - both)}[kind]
    each = np.divide(top, bottom, out=np.zeros(np.shape(bottom)), where=np.asarray(bottom) > 0)
    if average == "micro":
        return float(each)
    if average == "binary":
        return each[1]
    weights = labels if average == "weighted" else ((labels > 0) | (predictions > 0))
    return float((weights * each).sum() / weights.sum())


def auc(labels, values):
    """Over all pairs."""
    ones, zeros = values[labels == 1][:, None], values[labels == 0][None, :]
    return float(((ones > zeros) + 0.5 * (ones == zeros)).mean())


class Metrics(FlowTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        for prefix, rows in (("", TRAIN_ROWS), ("t", ROWS)):
            x = random.normal(size=(rows, 5)).astype(np.float32)
            np.save(self.dir / f"{prefix}x.npy", x)
            np.save(self.dir / f"{prefix}y.npy", np.clip(np.round(x[:, 0] + x[:, 1] + 1.5), 0, 3).astype(np.int32))
        np.save(self.dir / "odd.npy", (np.load(self.dir / "ty.npy") % 2).astype(np.uint8))
        self.write("job.yaml", JOB)

    def values(self, run, job):
        """By label: the values of a job in metrics.jsonl."""
        found = {}
        for row in self.rows(run):
            if "label" in row and row.get("job") == job:
                found.setdefault(row["label"], []).append(row["value"])
        return found

    def returned(self):
        return [self.load(f"test/returns/{name}/value.npy") for name in ("logits", "loss")]

    def check_all(self, got, logits, losses):
        labels, odd = self.load("ty.npy"), self.load("odd.npy")
        guess = logits.argmax(1)
        matrix = confusion(labels, guess)
        kept = labels != 2
        order = np.argsort(-logits, axis=1, kind="stable")
        expected = {
            "accuracy": (guess == labels).mean(), "top2": (order[:, :2] == labels[:, None]).any(1).mean(),
            "precision": scores("precision", matrix), "recall": scores("recall", matrix, "weighted"), "micro": scores("f1", matrix, "micro"),
            "f1": scores("f1", confusion(labels[kept], guess[kept])),
            "binary": scores("f1", confusion(odd, (logits[:, 1] > np.float32(0.1)).astype(int), 2), "binary"),
            "iou": scores("iou", matrix), "auc": auc(odd, logits[:, 1]), "auc2": auc(odd, logits[:, 1] - logits[:, 0]),
            "perplexity": math.exp(losses.astype(np.float64).mean())}
        self.assertEqual(set(got), {*expected, "matrix"})
        for name, value in expected.items():
            np.testing.assert_allclose(got[name][-1], value, rtol=1e-12, err_msg=name)
        np.testing.assert_array_equal(got["matrix"][-1], matrix)
        self.assertLess(0.3, expected["f1"])
        self.assertLess(expected["f1"], 0.999)

    def test_metrics_of_the_same_predictions_find_the_classes_once(self):
        shown = self.call("flowc", "show", "job.yaml", "--job", "test").stdout
        self.assertEqual(len([line for line in shown.splitlines() if " argmax " in f" {line} "]), 1, shown)

    def test_a_predict_job_has_the_metrics_of_all_its_rows(self):
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        done = self.flowrun("test", "job.yaml", "-o", "test", "--load", "out")
        logits, loss = self.returned()
        self.assertEqual(len(logits), ROWS)
        got = self.values("test", "test")
        self.check_all(got, logits, loss)
        self.assertRegex(done.stdout, r"(?m)^f1: 0\.\d{4}$")
        self.assertIn(f"precision: {got['precision'][-1]!r}\n", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^matrix: \[\[")

    def test_a_called_job_has_those_of_each_call_and_a_train_job_of_each_epoch(self):
        done = self.flowrun("train", "job.yaml", "-o", "out")
        called, own = self.values("out", "test"), self.values("out", "train")
        self.assertEqual({name: len(values) for name, values in own.items()}, {"accuracy": 5, "perplexity": 5})
        self.assertTrue(all(len(values) == 5 for values in called.values()))
        losses = [row["loss"] for row in self.metrics("out") if "loss" in row]
        np.testing.assert_allclose(own["perplexity"][-1], math.exp(np.mean(losses[-6:])), rtol=1e-6)
        self.assertIn("test epoch 5 f1: ", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^accuracy: \d\d\.\d$")
        self.flowrun("test", "job.yaml", "-o", "test", "--load", "out", "--quiet")
        self.check_all(called, *self.returned())

    def test_shards_make_the_metrics_of_the_whole_batch(self):
        shards = ("--set", "+jobs.train.shards=4", "--quiet")
        self.flowrun("train", "job.yaml", "-o", "out", *shards)
        self.flowrun("test", "job.yaml", "-o", "test", "--load", "out", *shards)
        self.check_all(self.values("test", "test"), *self.returned())

    def test_a_resumed_run_has_the_same_metrics(self):
        self.flowrun("train", "job.yaml", "-o", "whole", "--quiet")
        for steps in (4, 8, 20):  # inside epochs of 6 steps
            out = f"cut{steps}"
            self.flowrun("train", "job.yaml", "-o", out, "--steps", steps, "--quiet")
            self.flowrun("train", "job.yaml", "-o", out, "--resume", "--quiet")
            for job in ("train", "test"):
                self.assertTrue(self.values("whole", job))
                self.assertEqual(self.values("whole", job), self.values(out, job))

    def test_a_run_can_follow_a_metric(self):
        self.write("job.yaml", JOB.replace("keep: 100}", "keep: 100, keep_best: {by: test.f1}}").replace(
            "run: {epochs: 5,", "run: {epochs: 60, early_stopping: {watch: test.auc, patience: 3},"))
        self.flowrun("train", "job.yaml", "-o", "out", "--quiet")
        aucs = self.values("out", "test")["test.auc"]
        best = max(range(len(aucs)), key=lambda i: aucs[i])
        self.assertEqual(len(aucs), best + 4)
        self.assertLess(len(aucs), 60)
        self.flowrun("test", "job.yaml", "-o", "test", "--load", "out/best", "--quiet")
        self.assertEqual(self.values("test", "test")["f1"][-1], max(self.values("out", "test")["test.f1"]))

    def test_a_metric_decides_which_of_its_values_are_better(self):
        modes = dict.fromkeys(("accuracy", "top2", "precision", "recall", "f1", "iou", "auc"), "max") | {"perplexity": "min", "loss": "min"}
        for name, mode in modes.items():
            for written, expected in ((f"test.{name}", mode), (f"test.{name}, mode: min", "min"), (f"test.{name}, mode: max", "max")):
                self.write("job.yaml", JOB.replace("keep: 100}", f"keep: 100, keep_best: {{by: {written}}}}}").replace(
                    "run: {epochs: 5,", f"run: {{epochs: 5, early_stopping: {{watch: {written}, patience: 3}},").replace(
                    "learning_rate: 0.05", f"learning_rate: {{type: plateau, base: 0.05, watch: {written}}}"))
                job, = (job for job in json.loads(self.call("flowc", "show", "job.yaml", "--format", "json").stdout)["jobs"] if job["train"])
                found = job["run"]["checkpoint"]["keep_best"], job["run"]["early_stopping"]["value"], job["optimizer"]["learning_rate"]["follows"]
                self.assertEqual([value["mode"] for value in found], [expected] * 3, written)
        shown = self.call("flowc", "show", "job.yaml", "--job", "train").stdout
        self.assertRegex(shown, r"early stopping +by the largest test\.loss, patience 3\n +best state +by the largest test\.loss\n")
        self.assertRegex(shown, r"plateau +by the largest test\.loss\n")

    def test_an_auc_of_one_label_is_nan(self):
        self.write("job.yaml", JOB.replace("learning_rate: 0.05", "learning_rate: {type: plateau, base: 0.05, watch: test.auc}"))
        np.save(self.dir / "odd.npy", np.zeros(ROWS, np.uint8))
        self.assertIn("test epoch 1 auc: nan\n", self.flowrun("train", "job.yaml", "-o", "out", "--quiet").stdout)
        self.assertEqual(self.values("out", "test")["auc"], [None] * 5)

    def test_what_is_wrong_is_named(self):
        def refusal(change, *words, status=2):
            self.write("bad.yaml", JOB.replace(*change))
            return self.call("flowc", "check", "bad.yaml", *words, status=status).stderr

        top2 = "top2: {type: top_k_accuracy, k: 2"
        self.assertIn("metric `guess` has the name of an entry", refusal((top2, top2.replace("top2", "guess", 1))))
        self.assertIn("k is 5 for 4 classes", refusal((top2, top2.replace("k: 2", "k: 5"))))
        self.assertIn("unknown tensor `logit`", refusal((top2 + ", labels: y, predictions: logits", top2 + ", labels: y, predictions: logit")))
        self.assertIn("unknown metric `f2`", refusal(("binary: {type: f1", "binary: {type: f2")))
        self.assertIn("the labels are", refusal(("auc: {type: auc, labels: odd, predictions: odds}", "auc: {type: accuracy, labels: odd, predictions: x, axis: 0}")))
        self.assertIn("expected a score for each label", refusal(("predictions: pair}", "predictions: logits}")))
        self.assertIn("is a matrix", refusal(("run: {epochs: 5,", "run: {epochs: 5, early_stopping: {watch: test.matrix, patience: 1},")))

    def test_a_label_that_is_no_class_ends_the_run(self):
        labels = self.load("ty.npy")
        labels[70] = -1
        np.save(self.dir / "ty.npy", labels)
        self.write("job.yaml", JOB.replace("loss: {op: sparse_softmax_cross_entropy_with_logits, labels: y", "loss: {op: sparse_softmax_cross_entropy_with_logits, labels: safe")
                   .replace("      hidden:", "      safe: {op: maximum, in: [y, 0]}\n      hidden:"))
        done = self.flowrun("test", "job.yaml", "-o", "out", "--load", "none", status=3)
        self.assertRegex(done.stderr, r"job\.yaml:\d+:\d+: metric `\w+`: label -1 is not a class; expected at least 0")


if __name__ == "__main__":
    import unittest
    unittest.main()
