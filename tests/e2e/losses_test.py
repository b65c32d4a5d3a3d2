"""Losses made of other ops: values against the formulas of PyTorch in NumPy, gradients against differences of these."""
import itertools
import unittest

import numpy as np

from flow import FlowTest

random = np.random.default_rng(20210611)
LABELS = np.array([[1, 4, 0], [2, 9, 3]])           # 9: left out where a case says so
KEPT = np.where(LABELS == 9, 2, LABELS)
WEIGHTS = np.array([0.5, 2.0, 0.25, 1.5, 0.75])
SCORES = random.normal(size=(2, 3, 5)) * 3
SIGNS = np.array([[1, -1, 1], [-1, 1, -1]])


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def picked(values, labels):
    return np.take_along_axis(values, labels[..., None], -1)[..., 0]


def class_loss(log_probs, labels, weights=None, ignored=None, reduction="none", smoothing=0.0):
    """torch.nn.functional.cross_entropy and nll_loss, with classes along the last axis."""
    counts = labels != ignored
    labels = np.where(counts, labels, 0)
    weights = np.ones(log_probs.shape[-1]) if weights is None else weights
    row = weights[labels] * counts
    loss = (1 - smoothing) * -row * picked(log_probs, labels)
    if smoothing:
        loss = loss + smoothing / log_probs.shape[-1] * -(weights * log_probs).sum(-1) * counts
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / row.sum()}[reduction]


def kl_div(log_probs, target, log_target=False):
    if log_target:
        return np.exp(target) * (target - log_probs)
    with np.errstate(invalid="ignore"):     # of differences at 0
        return np.where(target == 0, 0, target * (np.log(np.where(target == 0, 1, target)) - log_probs))


def huber(x, y, delta=1.0):
    d = np.abs(x - y)
    return np.where(d < delta, d * d / 2, delta * (d - delta / 2))


def focal(labels, logits, alpha=0.25, gamma=2.0):
    """torchvision.ops.sigmoid_focal_loss."""
    p = 1 / (1 + np.exp(-logits))
    entropy = np.logaddexp(0, logits) - logits * labels
    p_t = p * labels + (1 - p) * (1 - labels)
    return (alpha * labels + (1 - alpha) * (1 - labels)) * entropy * (1 - p_t) ** gamma


def cosine_embedding(a, b, labels, margin=0.0):
    cosine = (a * b).sum(-1) / np.sqrt(((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12))
    return np.where(labels > 0, 1 - cosine, np.maximum(0, cosine - margin))


def triplet(anchor, positive, negative, margin=1.0, p=2, epsilon=1e-6, swap=False):
    def distance(x, y):
        return (np.abs(x - y + epsilon) ** p).sum(-1) ** (1 / p)
    far = distance(anchor, negative)
    if swap:
        far = np.minimum(far, distance(positive, negative))
    return np.maximum(0, distance(anchor, positive) - far + margin)


def ctc(labels, log_probs, label_lengths, input_lengths, blank=0):
    """The sum over all paths (Graves et al., 2006)."""
    found = []
    for own, x, count, frames in zip(labels, log_probs, label_lengths, input_lengths):
        total = 0.0
        for path in itertools.product(range(x.shape[1]), repeat=int(frames)):
            merged = [c for c, _ in itertools.groupby(path) if c != blank]
            if merged == list(own[:count]):
                total += np.exp(sum(x[t, c] for t, c in enumerate(path)))
        found.append(-np.log(total) if total else np.inf)
    return np.array(found)


def drawn(*shape):
    return random.normal(size=shape)


SPARSE = "sparse_softmax_cross_entropy_with_logits"
TARGET = np.where(random.random((2, 3, 5)) < 0.3, 0, random.random((2, 3, 5)))
HALF = (random.random((4, 3)) < 0.5).astype(float)
# name: (entry, operands by name, the formula with operands in order); arrays of floats are variables.
CASES = {
    "plain": (f"op: {SPARSE}", {"labels": KEPT, "logits": SCORES}, lambda t, x: class_loss(log_softmax(x), t)),
    "weighted": (f"op: {SPARSE}", {"labels": KEPT, "logits": SCORES, "weights": WEIGHTS}, lambda t, x, w: class_loss(log_softmax(x), t, w)),
    "weighted_mean": (f"op: {SPARSE}, reduction: mean", {"labels": KEPT, "logits": SCORES, "weights": WEIGHTS},
                      lambda t, x, w: class_loss(log_softmax(x), t, w, reduction="mean")),
    "mean": (f"op: {SPARSE}, reduction: mean", {"labels": KEPT, "logits": SCORES}, lambda t, x: class_loss(log_softmax(x), t, reduction="mean")),
    "ignored": (f"op: {SPARSE}, ignore_index: 9", {"labels": LABELS, "logits": SCORES}, lambda t, x: class_loss(log_softmax(x), t, ignored=9)),
    "ignored_mean": (f"op: {SPARSE}, ignore_index: 9, reduction: mean", {"labels": LABELS, "logits": SCORES},
                     lambda t, x: class_loss(log_softmax(x), t, ignored=9, reduction="mean")),
    "ignored_class": (f"op: {SPARSE}, ignore_index: 2, reduction: sum", {"labels": KEPT, "logits": SCORES, "weights": WEIGHTS},
                      lambda t, x, w: class_loss(log_softmax(x), t, w, ignored=2, reduction="sum")),
    "smooth": (f"op: {SPARSE}, label_smoothing: 0.1", {"labels": KEPT, "logits": SCORES}, lambda t, x: class_loss(log_softmax(x), t, smoothing=0.1)),
    "smooth_all": (f"op: {SPARSE}, label_smoothing: 0.3, ignore_index: 9, reduction: mean", {"labels": LABELS, "logits": SCORES, "weights": WEIGHTS},
                   lambda t, x, w: class_loss(log_softmax(x), t, w, 9, "mean", 0.3)),
    "nll": ("op: nll", {"labels": KEPT, "log_probs": SCORES}, lambda t, x: class_loss(x, t)),
    "nll_all": ("op: nll, ignore_index: 9, reduction: mean", {"labels": LABELS, "log_probs": SCORES, "weights": WEIGHTS},
                lambda t, x, w: class_loss(x, t, w, 9, "mean")),
    "ctc": ("op: ctc", {"labels": np.array([[1, 1], [1, 2], [2, 2], [2, 1]]), "log_probs": log_softmax(drawn(4, 4, 3)),
                        "label_lengths": np.array([2, 2, 1, 0]), "input_lengths": np.array([4, 3, 2, 3])}, ctc),
    "ctc_blank": ("op: ctc, blank: 2", {"labels": np.array([[0, 1], [1, 1]]), "log_probs": drawn(2, 4, 3),
                                        "label_lengths": np.array([2, 2]), "input_lengths": np.array([4, 4])}, lambda *a: ctc(*a, blank=2)),
    "kl": ("op: kl_div", {"log_probs": SCORES, "target": TARGET}, kl_div),
    "kl_log": ("op: kl_div, log_target: true", {"log_probs": SCORES, "target": drawn(2, 3, 5)}, lambda x, t: kl_div(x, t, True)),
    "hinge": ("op: hinge", {"labels": SIGNS.astype(float), "scores": drawn(2, 3)}, lambda t, x: np.maximum(0, 1 - t * x)),
    "hinge_margin": ("op: hinge, margin: 0.3", {"labels": SIGNS.astype(float), "scores": drawn(2, 3)}, lambda t, x: np.maximum(0, 0.3 - t * x)),
    "huber": ("op: huber", {"prediction": 2 * drawn(4, 3), "target": drawn(4, 3)}, huber),
    "huber_delta": ("op: huber, delta: 0.5", {"prediction": drawn(4, 3), "target": drawn(4, 3)}, lambda x, y: huber(x, y, 0.5)),
    "focal": ("op: focal", {"labels": HALF, "logits": 2 * drawn(4, 3)}, focal),
    "focal_1": ("op: focal, gamma: 1, alpha: 0.5", {"labels": HALF, "logits": drawn(4, 3)}, lambda t, x: focal(t, x, 0.5, 1)),
    "focal_soft": ("op: focal, gamma: 1.5, alpha: 0.7", {"labels": random.random((4, 3)), "logits": drawn(4, 3)}, lambda t, x: focal(t, x, 0.7, 1.5)),
    "focal_half": ("op: focal, gamma: 0.5", {"labels": random.uniform(0.2, 0.8, (4, 3)), "logits": drawn(4, 3)}, lambda t, x: focal(t, x, gamma=0.5)),
    "focal_0": ("op: focal, gamma: 0", {"labels": HALF, "logits": drawn(4, 3)}, lambda t, x: focal(t, x, gamma=0)),
    "cosine": ("op: cosine_embedding, margin: 0.1", {"a": drawn(2, 3, 4), "b": drawn(2, 3, 4), "labels": SIGNS}, lambda a, b, t: cosine_embedding(a, b, t, 0.1)),
    "triplet": ("op: triplet_margin", {"anchor": drawn(5, 4), "positive": drawn(5, 4), "negative": drawn(5, 4)}, triplet),
    "triplet_1": ("op: triplet_margin, p: 1, margin: 2, swap: true", {"anchor": drawn(5, 4), "positive": drawn(5, 4), "negative": drawn(5, 4)},
                  lambda a, p, n: triplet(a, p, n, 2, 1, swap=True)),
}


def differences(formula, operands, at):
    """Central differences of the sum of the losses with respect to operand `at`."""
    found, step = np.zeros_like(operands[at]), 1e-5
    for index in np.ndindex(found.shape):
        sums = []
        for sign in (1, -1):
            moved = [operand.copy() for operand in operands]
            moved[at][index] += sign * step
            sums.append(formula(*moved).sum())
        found[index] = (sums[0] - sums[1]) / (2 * step)
    return found


class Losses(FlowTest):
    def write_job(self, precision):
        inputs, graph, sums = "", "", []
        for name, (entry, operands, _) in CASES.items():
            for operand, values in operands.items():
                np.save(self.dir / f"{name}_{operand}.npy", values)
                if values.dtype.kind == "i":
                    inputs += f"      {name}_{operand}: {{shape: {list(values.shape)}, dtype: {values.dtype}, rows: false, from: {{npy: {name}_{operand}.npy}}}}\n"
                else:
                    graph += f"      {name}_{operand}: {{op: variable, shape: {list(values.shape)}, initializer: {{type: npy, path: {name}_{operand}.npy}}}}\n"
            graph += f"      {name}: {{{entry}, {', '.join(f'{operand}: {name}_{operand}' for operand in operands)}}}\n"
            graph += f"      {name}_sum: {{op: reduce_sum, in: {name}}}\n"
            sums.append(f"{name}_sum")
        self.write("job.yaml", f"flow: 1\njobs:\n  j:\n    type: train\n    precision: {precision}\n    inputs:\n{inputs}    graph:\n{graph}"
                   f"    optimizer: {{type: sgd, learning_rate: 0, minimize: [{', '.join(sums)}]}}\n    run: {{steps: 1}}\n"
                   f"    returns: {{value: [{', '.join(CASES)}], to: npy}}\n")

    def variables(self):
        for name, (_, operands, formula) in CASES.items():
            for at, (operand, values) in enumerate(operands.items()):
                if values.dtype.kind == "f":
                    yield f"{name}_{operand}", formula, list(operands.values()), at

    def test_values_and_gradients_are_those_of_the_formulas(self):
        self.write_job("float64")
        watched = [word for name, *_ in self.variables() for word in ("--watch-diff", name)]
        self.flowrun("j", "job.yaml", "-o", "out", "--quiet", *watched)
        for name, (_, operands, formula) in CASES.items():
            with self.subTest(name):
                np.testing.assert_allclose(self.load(f"out/returns/{name}/value.npy")[0], formula(*operands.values()), rtol=1e-12, atol=1e-12)
        for name, formula, operands, at in self.variables():
            with self.subTest("gradient", of=name):
                got = self.load(f"out/watch/{name}/diff.npy")[0]
                if name == "kl_target":         # a target of 0 has no derivative
                    got = np.where(operands[at] == 0, differences(formula, operands, at), got)
                np.testing.assert_allclose(got, differences(formula, operands, at), rtol=1e-6, atol=1e-8)

    def test_float32_is_near(self):
        self.write_job("float32")
        self.flowrun("j", "job.yaml", "-o", "out", "--quiet")
        for name, (_, operands, formula) in CASES.items():
            with self.subTest(name):
                np.testing.assert_allclose(self.load(f"out/returns/{name}/value.npy")[0], formula(*operands.values()), rtol=1e-4, atol=1e-5)

    def test_focal_of_a_sure_prediction_has_a_finite_gradient(self):
        """Where the power below 1 is one of 0."""
        np.save(self.dir / "x.npy", np.array([40, -40, 40, -40], np.float32))
        np.save(self.dir / "t.npy", np.array([1, 0, 0, 1], np.float32))
        self.write("job.yaml", """flow: 1
jobs:
  j:
    type: train
    inputs: {t: {shape: [4], dtype: float32, rows: false, from: {npy: t.npy}}}
    graph:
      x: {op: variable, shape: [4], initializer: {type: npy, path: x.npy}}
      focal: {op: focal, labels: t, logits: x, gamma: 0.5}
    optimizer: {type: sgd, learning_rate: 0, minimize: focal}
    run: {steps: 1}
    returns: {value: focal, to: npy}
""")
        self.flowrun("j", "job.yaml", "-o", "out", "--quiet", "--watch-diff", "x")
        np.testing.assert_allclose(self.load("out/returns/focal/value.npy")[0], [0, 0, 30, 10], atol=1e-6)
        np.testing.assert_allclose(self.load("out/watch/x/diff.npy")[0], [0, 0, 0.75, -0.25], atol=1e-6)

    def test_probabilities_of_a_loss_with_options(self):
        options = {"mean": "reduction: mean", "ignored": "ignore_index: 9", "smooth": "label_smoothing: 0.1, reduction: sum"}
        np.save(self.dir / "x.npy", SCORES)
        np.save(self.dir / "t.npy", KEPT)
        graph = "".join(f"      {name}: {{op: {SPARSE}, labels: t, logits: x, {option}}}\n" for name, option in options.items())
        self.write("job.yaml", f"""flow: 1
jobs:
  j:
    type: predict
    precision: float64
    inputs:
      x: {{shape: {list(SCORES.shape)}, dtype: float64, rows: false, from: {{npy: x.npy}}}}
      t: {{shape: {list(KEPT.shape)}, dtype: {KEPT.dtype}, rows: false, from: {{npy: t.npy}}}}
    graph:
{graph}    run: {{steps: 1}}
    returns: {{value: [{", ".join(f"{name}.prob" for name in options)}], to: npy}}
""")
        self.flowrun("j", "job.yaml", "-o", "out", "--quiet")
        for name in options:
            with self.subTest(name):
                np.testing.assert_allclose(self.load(f"out/returns/{name}.prob/value.npy")[0], np.exp(log_softmax(SCORES)), rtol=1e-12)

    def test_rows_that_are_left_out_count_neither_in_the_loss_nor_in_gradients(self):
        """Also with logits that are not finite there, and where no row is left."""
        np.save(self.dir / "x.npy", np.array([[1, 2, 3], [0, -np.inf, 1]], np.float32))
        np.save(self.dir / "t.npy", np.array([2, -1], np.int32))
        self.write("job.yaml", """flow: 1
jobs:
  j:
    type: predict
    inputs: {x: {shape: [2, 3], dtype: float32, rows: false, from: {npy: x.npy}}, t: {shape: [2], dtype: int32, rows: false, from: {npy: t.npy}}}
    graph:
      sparse: {op: sparse_softmax_cross_entropy_with_logits, labels: t, logits: x, ignore_index: -1}
      nll: {op: nll, labels: t, log_probs: x, ignore_index: -1}
    run: {steps: 1}
    returns: {value: [sparse, nll], to: npy}
""")
        self.flowrun("j", "job.yaml", "-o", "out", "--quiet")
        np.testing.assert_allclose(self.load("out/returns/sparse/value.npy")[0], [0.40760596, 0], rtol=1e-6)
        np.testing.assert_array_equal(self.load("out/returns/nll/value.npy")[0], [-3, 0])
        done = self.flowrun("j", "job.yaml", "-o", "bad", "--quiet", "--set", "jobs.j.graph.nll.ignore_index=-2", status=3)
        self.assertRegex(done.stderr, "nll/labels.*-1")


if __name__ == "__main__":
    unittest.main()
