"""Jobs of which some gradients are wanted and others not: they run, and watching changes no bit of what is trained."""
import json
import unittest

import numpy

from flow import FlowTest

JOB = """flow: 1
jobs:
  train:
    type: train
    inputs: {{{inputs}}}
    graph:
{graph}
    optimizer: {{{optimizer}, minimize: l}}
    run: {{steps: 3}}
"""
ROWS = "x: {shape: [4, 6, 8], dtype: float32, from: {type: random_normal}}, mem: {shape: [4, 5, 8], dtype: float32, from: {type: random_normal}}"
IMAGES = "x: {shape: [4, 3, 8, 8], dtype: float32, from: {type: random_normal}}"
MATRIX = "x: {shape: [8, 5], dtype: float32, from: {type: random_normal}}"
ADAM = "type: adam, learning_rate: 0.1"
SGD = "type: sgd, learning_rate: 0.1"
CONV = """c: {op: conv2d, in: b, filters: 2, kernel_size: 3}
l: {op: square, in: c}"""
ATTEND = """a: {op: scaled_dot_product_attention, query: q, key: k, value: v}
l: {op: square, in: a}"""

CASES = {
    "attention over given keys and values": (ROWS, ADAM, "q: {op: dense, in: x, units: 8}\n" + ATTEND.replace("key: k, value: v", "key: mem, value: mem")),
    "attention with a trained key alone": (ROWS, ADAM, "k: {op: dense, in: mem, units: 8}\n" + ATTEND.replace("query: q", "query: x").replace("value: v", "value: mem")),
    "attention with a trained value alone": (ROWS, ADAM, "v: {op: dense, in: mem, units: 8}\n" + ATTEND.replace("query: q", "query: x").replace("key: k", "key: mem")),
    "attention whose keys are left as they are": (ROWS, ADAM + ", variables: ['q/**']", """q: {op: dense, in: x, units: 8}
k: {op: dense, in: mem, units: 8}
v: {op: identity, in: k}
""" + ATTEND),
    "batch normalization without an offset, of an input": (IMAGES, ADAM, "b: {op: batch_normalization, in: x, center: false}\n" + CONV),
    "batch normalization whose scale alone is trained": (IMAGES, ADAM + ", variables: ['**/gamma']", "b: {op: batch_normalization, in: x}\n" + CONV),
    "a variable on the left of a product": (MATRIX, SGD, """v: {op: variable, shape: [1, 8], initializer: {type: random_normal}}
m: {op: matmul, a: v, b: x}
l: {op: reduce_mean, in: m}"""),
    "variables on the left of products, one after another": (MATRIX, SGD, """x1: {op: transpose, in: x}
v: {op: variable, shape: [6, 5], initializer: {type: random_normal}}
h: {op: matmul, a: v, b: x1}
u: {op: variable, shape: [3, 6], initializer: {type: random_normal}}
h2: {op: matmul, a: u, b: h}
w: {op: variable, shape: [8, 3], initializer: {type: random_normal}}
h3: {op: matmul, a: h2, b: w}
l: {op: square, in: h3}"""),
    "products on one weight": ("x: {shape: [2, 8], dtype: float32, from: {type: random_normal}}", ADAM, """c: {op: dense, in: x, units: 8, activation: tanh}
d: {op: dense, units: 8, activation: tanh, variables: c, repeat: 4}
l: {op: square, in: d}"""),
    "products on one weight, the first of a variable": ("x: {shape: [2, 8], dtype: float32, from: {type: random_normal}}", SGD, """v: {op: variable, shape: [2, 8], initializer: {type: random_normal}}
c: {op: dense, in: v, units: 8, activation: tanh}
d: {op: dense, units: 8, activation: tanh, variables: c, repeat: 4}
y: {op: add, in: [d, x]}
l: {op: square}"""),
    "products on one weight, the first of a variable in another shape": ("x: {shape: [2, 8], dtype: float32, from: {type: random_normal}}", SGD, """v: {op: variable, shape: [16], initializer: {type: random_normal}}
r: {op: reshape, shape: [2, 8]}
c: {op: dense, units: 8, activation: tanh}
d: {op: dense, units: 8, activation: tanh, variables: c, repeat: 4}
y: {op: add, in: [d, x]}
l: {op: square}"""),
}


class Gradients(FlowTest):
    def test_what_is_not_wanted_is_not_needed(self):
        for name, (inputs, optimizer, lines) in CASES.items():
            with self.subTest(name):
                graph = "\n".join("      " + line for line in lines.splitlines())
                self.write("job.yaml", JOB.format(inputs=inputs, optimizer=optimizer, graph=graph))
                self.flowrun("job.yaml", "-o", "plain", "--force", "--quiet")
                trained = self.state("plain/checkpoints/000003")
                for watched in (["--watch-diff", "**"], ["--watch-diff", "x"], ["--watch", "**", "--watch-diff", "**"]):
                    self.flowrun("job.yaml", "-o", "watched", "--force", "--quiet", *watched)
                    found = self.files("watched/checkpoints/000003")
                    for file in trained:
                        if file != "checkpoint.json":
                            self.assertEqual(found[file], trained[file], f"{name}: {file}")

    def test_equal_elements_are_sorted_with_their_gradients_in_their_order(self):
        """The judge is NumPy's stable argsort: element i of the sorted axis has the gradient of the element that argsort names."""
        x = numpy.array([[2, 1, 1, 2, 1, -1], [0, 0, 0, 0, 0, 0]], numpy.float32)
        numpy.save(self.dir / "x.npy", x)
        for precision in ("float32", "float64"):
            for descending in ("false", "true"):
                self.write("job.yaml", f"""flow: 1
jobs:
  train:
    type: train
    precision: {precision}
    inputs: {{c: {{shape: [2, 6], dtype: float32, from: {{type: iota}}}}}}
    graph:
      x:     {{op: variable, shape: [2, 6], initializer: {{type: npy, path: x.npy}}}}
      s:     {{op: sort, in: x, axis: 1, descending: {descending}}}
      order: {{op: argsort, in: x, axis: 1, descending: {descending}}}
      loss:  {{op: multiply, in: [s, c]}}
    optimizer: {{type: sgd, learning_rate: 0.1, minimize: loss}}
    hooks: [{{watch_diff: x, to: npy}}]
    returns: {{value: [order, s], to: npy}}
    run: {{steps: 1}}
""")
                self.flowrun("job.yaml", "-o", "out", "--force", "--quiet")
                order = numpy.argsort(-x if descending == "true" else x, axis=1, kind="stable")
                expected = numpy.zeros((2, 6))
                numpy.put_along_axis(expected, order, numpy.arange(12.0).reshape(2, 6), 1)
                numpy.testing.assert_array_equal(self.load("out/returns/order/value.npy")[0], order)
                numpy.testing.assert_array_equal(self.load("out/returns/s/value.npy")[0], numpy.take_along_axis(x, order, 1))
                numpy.testing.assert_array_equal(self.load("out/watch/x/diff.npy")[0], expected)

    def test_of_losses_of_any_size_the_sum_of_their_means_is_minimized(self):
        x = numpy.arange(12, dtype=numpy.float32).reshape(4, 3) / 8
        numpy.save(self.dir / "x.npy", x)
        self.write("job.yaml", """flow: 1
vars: {shards: 1, losses: [rows, penalty, each]}
jobs:
  train:
    type: train
    precision: float64
    shards: $shards
    inputs: {x: {shape: [4, 3], dtype: float32, from: {npy: x.npy}}}
    graph:
      w:       {op: variable, shape: [3], initializer: {type: constant, value: 0.5}}
      each:    {op: multiply, in: [x, w]}
      rows:    {op: reduce_sum, in: each, axis: 1}
      squares: {op: square, in: w}
      penalty: {op: reduce_sum, in: squares}
    optimizer: {type: sgd, learning_rate: 1, minimize: $losses}
    hooks: [{watch_diff: w, of: mean, to: npy}]
    run: {steps: 1}
""")
        x = x.astype(numpy.float64)
        expected = x.mean(0) + 2 * 0.5 + x.mean(0) / 3
        loss = (x * .5).sum(1).mean() + 3 * .25 + (x * .5).mean()
        for losses in ("[rows, penalty, each]", "[penalty, each, rows]", "[each, rows, penalty]"):
            for shards in (1, 2):
                self.flowrun("job.yaml", "-o", "out", "--force", "--quiet", "--set", f"vars.losses={losses}", "--set", f"vars.shards={shards}")
                numpy.testing.assert_allclose(self.load("out/watch/w/diff.npy")[0], expected, rtol=1e-12)
                numpy.testing.assert_allclose(numpy.load(self.checkpoint("out") / "w.npy"), 0.5 - expected, rtol=1e-12)
                self.assertAlmostEqual(json.loads((self.dir / "out/metrics.jsonl").read_text())["loss"], loss, 12)

    def test_the_gradient_of_a_shared_weight_is_the_sum_of_those_of_its_copies(self):
        def write(file, shared):
            cells = [f"c{i}: {{op: dense, units: 9, activation: tanh{shared if i else ', in: x'}}}" for i in range(6)]
            self.write(file, JOB.format(inputs="x: {shape: [2, 9], dtype: float32, from: {type: random_normal}}", optimizer=SGD,
                                        graph="\n".join("      " + line for line in [*cells, "l: {op: square}"])))

        def gradient(run, name):
            return numpy.load(self.dir / run / "watch" / name / "diff.npy")[0]

        write("apart.yaml", "")
        write("one.yaml", ", variables: c0")
        rng = numpy.random.default_rng(1)
        w, b = rng.normal(size=(9, 9)).astype("f4") / 3, rng.normal(size=9).astype("f4")
        numpy.savez(self.dir / "w.npz", **{f"c{i}/{name}": value for i in range(6) for name, value in (("weight", w), ("bias", b))})
        for run in ("apart", "one"):
            self.flowrun(f"{run}.yaml", "--load", "w.npz", "--steps", "1", "-o", run, "--quiet", "--watch-diff", "**")
        for name in ("weight", "bias"):
            sum_of_copies = sum(gradient("apart", f"c{i}/{name}") for i in range(6))
            numpy.testing.assert_allclose(gradient("one", f"c0/{name}"), sum_of_copies, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
