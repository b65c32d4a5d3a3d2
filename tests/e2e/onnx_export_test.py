"""`flowc export` to ONNX, and back by `flowc import`: every predict job, a job with every op, and models that are refused."""
import os
import shutil
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import onnx_jobs
from flow import BIN, JOBS, FlowTest

MOST = 1e-5  # of the largest magnitude

DENSE = """flow: 1
jobs:
  predict:
    type: predict
    inputs: {x: {shape: [4, 3], dtype: float32, from: {type: iota}}}
    graph:
      net: {op: dense, in: x, units: 2, activation: relu}
    returns: {value: net}
"""


def job_with(graph, inputs="x: {shape: [4, 3], dtype: float32, from: {type: iota}}", value="y", **keys):
    lines = [f"    {key}: {text}" for key, text in keys.items()]
    return "\n".join(["flow: 1", "jobs:", "  predict:", "    type: predict", *lines, f"    inputs: {{{inputs}}}", "    graph:",
                      *(f"      {line}" for line in graph), f"    returns: {{value: {value}}}", ""])


class OnnxTest(FlowTest):
    def export(self, *words, **options):
        return self.call("flowc", "export", *words, **options).stderr

    def model(self, name="m.onnx"):
        """The model, which ONNX's checker accepts, with the shapes that it infers."""
        model = onnx.load(self.dir / name)
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        return model

    def shapes(self, infos):
        return {info.name: [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim] for info in infos}


class Jobs(OnnxTest):
    def round_trip(self, file, job, place):
        """Exports the job, imports the model, and compares what both compute."""
        place.mkdir()
        flags = onnx_jobs.sets_of(file)
        if weights := onnx_jobs.random_weights(job):
            np.savez(place / "weights.npz", **weights)
            flags += ["--load", place / "weights.npz"]
        inputs, expected = onnx_jobs.run_once(BIN / "flowrun", file, job, place / "out", *flags)
        self.export(file, "--job", job["name"], "-o", place / "m.onnx", *flags)
        model = self.model(place / "m.onnx")
        self.assertEqual({"batch"}, {shape[0] for name, shape in self.shapes(model.graph.input).items() if name != "rows"})
        self.call("flowc", "import", place / "m.onnx", "-o", place / "m.yaml")
        rows = next(iter(inputs.values())).shape[0]
        flags = ["--set", f"vars.batch={rows}"]
        back = onnx_jobs.predict_jobs(BIN / "flowc", place / "m.yaml", *flags)["predict"]
        for name in (one["tensor"] for one in back["inputs"]):
            np.save(place / f"{name}.npy", inputs[name])
            flags += ["--input", f"{name}=@{place}/{name}.npy"]
        _, results = onnx_jobs.run_once(BIN / "flowrun", place / "m.yaml", back, place / "back", *flags)
        self.assertEqual(len(expected), len(results))
        for name, array in expected.items():
            self.assertLess(onnx_jobs.distance(results[name.replace(".", "_")], array), MOST, f"{file.name} {job['name']}: {name}")

    def test_every_predict_job_survives_the_round_trip(self):
        for file in sorted(JOBS.glob("*.yaml")):
            for job in onnx_jobs.predict_jobs(BIN / "flowc", file, *onnx_jobs.sets_of(file)).values():
                with self.subTest(file.name, job=job["name"]):
                    self.round_trip(file, job, self.dir / f"{file.stem}-{job['name']}")

    def test_all_ops_that_models_lack_are_listed(self):
        self.write("job.yaml", job_with(["y: {op: ctc, labels: labels, log_probs: log_probs, label_lengths: lengths, input_lengths: lengths}",
                                         "z: {op: ctc, labels: labels, log_probs: log_probs, label_lengths: lengths, input_lengths: lengths, blank: 1}"],
                                        "log_probs: {shape: [2, 4, 3], dtype: float32}, labels: {shape: [2, 2], dtype: int32}, lengths: {shape: [2], dtype: int32}",
                                        "[y, z]"))
        done = self.call("flowc", "export", "job.yaml", "--load", "none", "-o", "m.onnx", status=2)
        self.assertRegex(done.stderr, r"has 2 ops without an equivalent in ONNX:\n  job.yaml:7:\d+: op `ctc` of `y`\n  job.yaml:8:\d+: op `ctc` of `z`")

    def test_every_op_survives_the_round_trip(self):
        file = self.dir / "every_op.yaml"
        onnx_jobs.write_every_op(file)
        self.round_trip(file, onnx_jobs.predict_jobs(BIN / "flowc", file)["ops"], self.dir / "ops")


class RandomNumbers(OnnxTest):
    def test_random_numbers_are_drawn_by_the_model_anew(self):
        """A model has no seed. A job that is made of it has entries of the same names, which draw the same numbers."""
        draws = {"normal": "{op: random_normal, like: x, mean: 2, stddev: 0.5}", "uniform": "{op: random_uniform, shape: [2, 3], minimum: -1}",
                 "one": "{op: random_uniform}", "ones": "{op: bernoulli, in: x, dtype: int32}", "picked": "{op: multinomial, in: x, samples: 5}",
                 "gumbel": "{op: gumbel, like: x}"}
        self.write("job.yaml", job_with([f"{name}: {draw}" for name, draw in draws.items()], value=f"[{', '.join(draws)}]",
                                        inputs="x: {shape: [4, 3], dtype: float32, from: {type: constant, value: 0.5}}"))
        self.export("job.yaml", "--load", "none", "-o", "m.onnx")
        nodes = {node.op_type for node in self.model().graph.node}
        self.assertLessEqual({"RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}, nodes)
        self.call("flowc", "import", "m.onnx", "-o", "m.yaml")
        self.flowrun("predict", "job.yaml", "-o", "out", "--quiet", "--steps", 1, "--set", "jobs.predict.returns.to=npy")
        self.flowrun("predict", "m.yaml", "-o", "back", "--quiet", "--steps", 1, "--set", "vars.batch=4", "--input", "x=constant:0.5")
        for name in ("normal", "uniform", "ones", "picked"):
            np.testing.assert_array_equal(self.load(f"back/returns/{name}/value.npy"), self.load(f"out/returns/{name}/value.npy"), name)


class Export(OnnxTest):
    def setUp(self):
        super().setUp()
        self.weights = {"net/weight": np.arange(6, dtype=np.float32).reshape(2, 3), "net/bias": np.ones(2, np.float32)}
        self.write("job.yaml", DENSE)
        np.savez(self.dir / "w.npz", **self.weights)

    def test_initializers_are_the_variables_and_names_are_those_of_the_job(self):
        said = self.export("job.yaml", "--load", "w.npz", "-o", "m.onnx")
        self.assertEqual("m.onnx: job `predict`, 2 nodes and 2 arrays from w.npz\n", said)
        model = self.model()
        self.assertEqual({"x": ["batch", 3]}, self.shapes(model.graph.input))
        self.assertEqual({"net": ["batch", 2]}, self.shapes(model.graph.output))
        for tensor in model.graph.initializer:
            np.testing.assert_array_equal(self.weights[tensor.name], numpy_helper.to_array(tensor))
        self.assertEqual((17, "flow"), (model.opset_import[0].version, model.producer_name))

    def test_initial_values_are_exported_like_those_of_a_run(self):
        told = self.refused("job.yaml", "-o", "m.onnx")
        self.assertIn("job `predict` has 2 variables, but nothing to load them from\n   hint: add --load CHECKPOINT or --load RUN; --load none initializes them", told)
        self.assertIn("--ema requires a checkpoint to load", self.refused("job.yaml", "--load", "none", "--ema", "-o", "m.onnx"))
        said = self.export("job.yaml", "--load", "none", "-o", "m.onnx")
        self.assertEqual("m.onnx: job `predict`, 2 nodes and 2 arrays from initial values\n", said)
        self.flowrun("job.yaml", "-o", "out", "--load", "none", "--quiet", "--watch", "net", "--steps", 1)
        weight, bias = ({t.name: numpy_helper.to_array(t) for t in self.model().graph.initializer}[f"net/{name}"] for name in ("weight", "bias"))
        np.testing.assert_allclose(self.load("out/watch/net/value.npy")[0], np.maximum(np.arange(12).reshape(4, 3) @ weight.T + bias, 0), rtol=1e-5)

    def test_a_plan_is_exported_like_its_job_file(self):
        self.call("flowc", "build", "job.yaml", "-o", "job.plan")
        self.export("job.yaml", "--load", "w.npz", "-o", "a.onnx")
        self.export("job.plan", "--load", "w.npz", "-o", "b.onnx")
        self.assertEqual((self.dir / "a.onnx").read_bytes(), (self.dir / "b.onnx").read_bytes())

    def test_rules_for_names_apply_to_what_is_loaded(self):
        np.savez(self.dir / "other.npz", w=self.weights["net/weight"].T, b=self.weights["net/bias"])
        self.write("named.yaml", DENSE + "    run: {checkpoint: {load: other.npz, names: [{from: w, to: net/weight, perm: [1, 0]}, {from: b, to: net/bias}]}}\n")
        self.export("named.yaml", "-o", "m.onnx")
        weight = next(t for t in self.model().graph.initializer if t.name == "net/weight")
        np.testing.assert_array_equal(self.weights["net/weight"], numpy_helper.to_array(weight))

    def test_averages_take_the_place_of_variables(self):
        self.write("train.yaml", DENSE.replace("type: predict", "type: train").replace("returns: {value: net}", "optimizer: {type: sgd, learning_rate: 0.1, minimize: net, "
                                               "ema: {decay: 0.5}}\n    run: {steps: 3}"))
        self.flowrun("train.yaml", "-o", "run", "--quiet")
        self.export("job.yaml", "--load", "run", "-o", "m.onnx")
        self.export("job.yaml", "--load", "run", "--ema", "-o", "ema.onnx")
        states = [{t.name: numpy_helper.to_array(t) for t in self.model(name).graph.initializer} for name in ("m.onnx", "ema.onnx")]
        checkpoint = self.checkpoint("run")
        for state, file in zip(states, ("net/bias.npy", "net/bias/ema.npy")):
            np.testing.assert_array_equal(np.load(checkpoint / file), state["net/bias"])

    def test_what_depends_on_the_size_of_the_batch_fixes_it(self):
        for graph in (["y: {op: reshape, in: z, shape: [12]}", "z: {op: transpose, in: x}"],
                      ["y: {op: add, in: [x, z]}", "z: {op: variable, shape: [4, 3], initializer: ones}"],
                      ["y: {op: slice, in: x, index: \"[1:3]\"}"],
                      ["y: {op: concat, in: [x, z], axis: 1}", "z: {op: constant, value: 1, shape: [4, 1]}"]):
            with self.subTest(graph):
                self.write("fixed.yaml", job_with(graph))
                np.savez(self.dir / "z.npz", z=np.ones((4, 3), np.float32))
                said = self.export("fixed.yaml", "--load", "z.npz", "-o", "fixed.onnx")
                self.assertIn("fixed.onnx: `y` depends on the size of the batch; the model takes 4 rows\n", said)
                self.assertEqual({"x": [4, 3]}, self.shapes(self.model("fixed.onnx").graph.input))
                (self.dir / "fixed.onnx").unlink()

    def test_float64_jobs_have_float64_models(self):
        self.write("wide.yaml", DENSE.replace("type: predict", "type: predict\n    precision: float64"))
        self.export("wide.yaml", "--load", "w.npz", "-o", "m.onnx")
        self.assertEqual({TensorProto.DOUBLE}, {t.data_type for t in self.model().graph.initializer})
        self.call("flowc", "import", "m.onnx", "-o", "back.yaml")
        self.assertIn("precision: float64", (self.dir / "back.yaml").read_text())

    def refused(self, *words, status=2):
        said = self.export(*words, status=status)
        self.assertEqual([], [one.name for one in self.dir.iterdir() if "onnx" in one.name])
        return said

    def test_jobs_that_are_no_models_are_refused_with_a_remedy(self):
        self.write("mixed.yaml", DENSE.replace("type: predict", "type: predict\n    precision: mixed_bfloat16"))
        self.assertIn("--set jobs.predict.precision=float32", self.refused("mixed.yaml", "--load", "w.npz", "-o", "m.onnx"))
        self.write("shards.yaml", DENSE.replace("type: predict", "type: predict\n    shards: 2"))
        self.assertIn("--set jobs.predict.shards=1", self.refused("shards.yaml", "--load", "w.npz", "-o", "m.onnx"))
        self.assertIn("has 3 predict jobs", self.refused(JOBS / "lenet.yaml", "-o", "m.onnx"))
        self.assertIn("only predict jobs are exported", self.refused(JOBS / "lenet.yaml", "--job", "train", "--load", "w.npz", "-o", "m.onnx"))
        self.assertIn("nothing to load them from", self.refused("job.yaml", "-o", "m.onnx"))
        self.assertIn("does not match", self.refused(JOBS / "mlp.yaml", "--job", "eval", "--load", "w.npz", "-o", "m.onnx"))
        self.assertIn("--names does not apply", self.refused("job.yaml", "--load", "w.npz", "--names", "job.yaml", "-o", "m.onnx"))
        self.assertIn("is a directory", self.refused(".", "-o", "m.onnx"))
        self.assertIn("--load applies only to ONNX", self.refused("w.npz", "--load", "w.npz", "-o", "x.npz"))

    def test_nothing_is_overwritten(self):
        self.write("m.onnx", "mine")
        self.assertIn("already exists", self.export("job.yaml", "--load", "w.npz", "-o", "m.onnx", status=2))
        self.assertEqual("mine", (self.dir / "m.onnx").read_text())

    def test_a_failed_write_leaves_nothing(self):
        self.export("job.yaml", "--load", "w.npz", "-o", "m.onnx", status=3, env=self.faults(call="fsync", at=1, path="onnx"))
        self.assertEqual(["job.yaml", "w.npz"], sorted(one.name for one in self.dir.iterdir()))


class Import(OnnxTest):
    def save(self, nodes, inputs=None, outputs=("y",), initializers=(), opset=17, domain=""):
        """Writes m.onnx. Inputs are float32, by name and shape."""
        inputs = {"x": ["n", 3]} if inputs is None else inputs
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
        graph = helper.make_graph(list(nodes), "g", values, [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs], list(initializers))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)])
        (self.dir / "m.onnx").write_bytes(model.SerializeToString())

    def refused(self, *words, status=2):
        """What `flowc import` says; nothing is written."""
        before = sorted(one.name for one in self.dir.iterdir())
        said = self.call("flowc", "import", "m.onnx", "-o", "m.yaml", *words, status=status).stderr
        self.assertEqual(before, sorted(one.name for one in self.dir.iterdir()))
        return said

    def imported(self, *words):
        for name in ("m.yaml", "m.npz"):
            (self.dir / name).unlink(missing_ok=True)
        self.call("flowc", "import", "m.onnx", "-o", "m.yaml", *words)
        return (self.dir / "m.yaml").read_text()

    def test_all_operators_that_are_lacking_are_named(self):
        nodes = [helper.make_node("Det", ["x"], ["a"], "first"), helper.make_node("Relu", ["a"], ["b"]),
                 helper.make_node("Gelu2", ["b"], ["c"], domain="com.other"), helper.make_node("MaxPool", ["x"], ["d"], "pool", kernel_shape=[1, 2, 3, 4]),
                 helper.make_node("Add", ["c", "d"], ["y"]), helper.make_node("Unheard", ["x"], ["unread"])]
        self.save(nodes)
        self.assertEqual("flowc: error: m.onnx: 3 operators cannot be imported:\n"
                         "  Det of node `first`: not supported\n"
                         "  com.other.Gelu2 of node `c`: an operator of another domain than ONNX's\n"
                         "  MaxPool of node `pool`: windows of 4 dimensions\n"
                         "   hint: list the ops of flow with `flowc ops`; export the model without it\n", self.refused())

    def test_operators_of_other_domains_are_named_as_what_they_are(self):
        for domain, reason in (("com.microsoft", "an operator of ONNX Runtime, not of ONNX"), ("ai.onnx.ml", "an operator of ONNX-ML, for classical machine learning"),
                               ("ai.onnx.preview.training", "a preview operator of ONNX")):
            self.save([helper.make_node("Unheard", ["x"], ["y"], domain=domain)], domain=domain, opset=1)
            self.assertIn(f"\n  {domain}.Unheard of node `y`: {reason}\n   hint: export the", self.refused())
        self.save([helper.make_node("twice", ["x"], ["y"], domain="mine")])
        model = onnx.load(self.dir / "m.onnx")
        model.functions.append(helper.make_function("mine", "twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]))
        onnx.save(model, self.dir / "m.onnx")
        self.assertIn("\n  mine.twice of node `y`: a function of the model\n   hint: inline functions: onnx.inliner", self.refused())

    def test_hints_are_those_of_the_reasons(self):
        self.save([helper.make_node("MatMul", ["x", "w"], ["y"])], inputs={"x": [1, 4]}, initializers=[numpy_helper.from_array(np.ones((3, 2), np.float32), "w")])
        self.assertNotIn("hint", self.refused())
        for mixed in (False, True):
            self.save([helper.make_node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16), helper.make_node("MatMul", ["half", "w"], ["h"]),
                       helper.make_node("Det" if mixed else "Relu", ["x" if mixed else "h"], ["y"])], inputs={"x": [3, 3]},
                      outputs=["h", "y"], initializers=[numpy_helper.from_array(np.ones((3, 2), np.float16), "w")])
            self.assertIn("  MatMul of node `h`: float16 arithmetic is not supported\n" + "  Det of node `y`: not supported\n" * mixed +
                          "   hint: convert the model to float32" + "; list the ops of flow with `flowc ops`" * mixed + "\n", self.refused())

    def test_a_float64_tensor_that_only_casts_read_does_not_widen_the_job(self):
        for to, precision in ((TensorProto.FLOAT, "float32"), (TensorProto.DOUBLE, "float64")):
            self.save([helper.make_node("Cast", ["x"], ["c"], to=to), helper.make_node("Relu", ["c"], ["y"])], inputs={"x": [2, 3]})
            model = onnx.load(self.dir / "m.onnx")
            model.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
            onnx.save(model, self.dir / "m.onnx")
            self.imported()
            y = self.run_imported(x=np.full((2, 3), 0.1))["y"]
            np.testing.assert_array_equal(y, np.full((2, 3), 0.1, precision))
            self.assertEqual(y.dtype, precision)

    def test_names_become_legal_and_stay_unique(self):
        nodes = [helper.make_node("Relu", ["a b"], ["1/2"]), helper.make_node("Tanh", ["1/2"], ["1_2"]), helper.make_node("Exp", ["1_2"], ["in"]),
                 helper.make_node("Sin", ["in"], ["true"]), helper.make_node("Cos", ["true"], ["\n# {x: $y}"]), helper.make_node("Neg", ["\n# {x: $y}"], ["batch"])]
        self.save(nodes, inputs={"a b": ["n", 3]}, outputs=["batch", "1/2"])
        text = self.imported()
        for line in ("      a_b: {shape: [$n, 3]", "      t1_2: {op: relu, in: a_b}", "      t1_2_2: {op: tanh, in: t1_2}", "      in_: {op: exp, in: t1_2_2}",
                     "      true_: {op: sin, in: in_}", "      batch: {op: negative, in: ____x___y_}", "returns: {value: {batch: batch, t1_2: t1_2}}"):
            self.assertIn(line, text)

    def test_symbolic_sizes_are_variables(self):
        self.save([helper.make_node("Relu", ["x"], ["y"])], inputs={"x": ["rows", "length", None, 2]})
        self.assertIn("hint: give it one: --dim length=SIZE", self.refused())
        self.assertIn("hint: give it one: --dim x_2=SIZE", self.refused("--dim", "length=5"))
        text = self.imported("--dim", "length=5", "--dim", "x_2=7", "--dim", "rows=3")
        self.assertIn("# For inputs of other sizes, add --set vars.rows=SIZE --set vars.length=SIZE --set vars.x_2=SIZE.\nflow: 1\nvars: {rows: 3, length: 5, x_2: 7}", text)
        self.assertIn("x: {shape: [$rows, $length, $x_2, 2], dtype: float32}", text)
        (self.dir / "m.yaml").unlink()
        for bad in ("length", "length=", "length=0", "length=x", "length=9999999999999"):
            self.assertIn("expected NAME=SIZE", self.refused("--dim", bad))
        self.assertIn("no symbolic dimension is called `width`\n   hint: use one of rows, length, x_2",
                      self.refused("--dim", "length=5", "--dim", "x_2=7", "--dim", "width=1"))

    def test_the_name_of_the_file_may_have_any_characters(self):
        weight = numpy_helper.from_array(np.arange(9, dtype=np.float32).reshape(3, 3), "w")
        self.save([helper.make_node("MatMul", ["x", "w"], ["y"])], inputs={"x": [1, 3]}, initializers=[weight])
        name = 'a "b" $c\\d'
        self.call("flowc", "import", "m.onnx", "-o", f"{name}.yaml")
        np.save(self.dir / "x.npy", np.ones((1, 3), np.float32))
        self.flowrun(f"{name}.yaml", "--input", "x=@x.npy", "-o", "out", "--quiet")
        np.testing.assert_array_equal([[9, 12, 15]], self.load("out/returns/y/value.npy").reshape(1, 3))

    def test_equal_weights_of_layers_are_shared(self):
        weight = numpy_helper.from_array(np.ones((3, 3), np.float32), "w")
        self.save([helper.make_node("Gemm", ["x", "w"], ["a"], transB=1), helper.make_node("Gemm", ["a", "w"], ["b"], transB=1),
                   helper.make_node("MatMul", ["b", "w"], ["y"])], initializers=[weight])
        text = self.imported()
        self.assertIn("b: {op: dense, in: a, units: 3, use_bias: false, variables: a}", text)
        self.assertEqual(["a/weight"], list(np.load(self.dir / "m.npz")))

    def test_shapes_that_exporters_compute_are_known(self):
        ints = {name: numpy_helper.from_array(np.array(value, np.int64), name) for name, value in {"zero": [0], "rest": [-1], "i": 0}.items()}
        self.save([helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "i"], ["rows"]), helper.make_node("Unsqueeze", ["rows", "zero"], ["first"]),
                   helper.make_node("Concat", ["first", "rest"], ["shape"], axis=0), helper.make_node("Reshape", ["x", "shape"], ["y"])],
                  inputs={"x": ["n", 3, 2]}, initializers=ints.values())
        self.assertIn("y: {op: reshape, in: x, shape: [-1, 6]}", self.imported())

    def run_imported(self, *words, **inputs):
        """What the imported job returns: as many rows as its inputs have, or numbers."""
        flags = list(words)
        for name, array in inputs.items():
            np.save(self.dir / f"{name}.npy", array)
            flags += ["--input", f"{name}=@{name}.npy"]
        self.flowrun("m.yaml", *flags, "-o", "out", "--quiet", "--steps", 1)
        results = {path.parent.name: np.load(path)[0] for path in (self.dir / "out/returns").rglob("value.npy")}
        shutil.rmtree(self.dir / "out")
        return results

    def save_sizes(self):
        """x (batch, seq, 2): its first half, itself by the root of seq, means over seq, itself by batch, and its last two steps."""
        node, ints = helper.make_node, {"one": 1, "zero": 0, "two": 2, "ax0": [0], "ax1": [1], "start": [0], "last": [-2], "end": [2**63 - 1]}
        self.save([node("Shape", ["x"], ["sh"]), node("Gather", ["sh", "one"], ["t"]), node("Gather", ["sh", "zero"], ["b"]),
                   node("Div", ["t", "two"], ["half"]), node("Unsqueeze", ["half", "ax0"], ["stop"]), node("Slice", ["x", "start", "stop", "ax1"], ["y_half"]),
                   node("Cast", ["t"], ["tf"], to=1), node("Sqrt", ["tf"], ["ts"]), node("Div", ["x", "ts"], ["y_scaled"]),
                   node("ReduceSum", ["x", "ax1"], ["s"], keepdims=0), node("Div", ["s", "tf"], ["y_mean"]),
                   node("Cast", ["b"], ["bf"], to=1), node("Mul", ["x", "bf"], ["y_batch"]),
                   node("Slice", ["x", "last", "end", "ax1"], ["y_last"]), node("Range", ["zero", "t", "one"], ["y_range"])],
                  inputs={"x": ["batch", "seq", 2]}, outputs=["y_half", "y_scaled", "y_mean", "y_batch", "y_last", "y_range"],
                  initializers=[numpy_helper.from_array(np.array(value, np.int64), name) for name, value in ints.items()])

    def test_numbers_computed_from_a_size_follow_it(self):
        self.save_sizes()
        text = self.imported("--dim", "seq=4")
        self.assertIn("# For inputs of other sizes, add --set vars.batch=SIZE --set vars.seq=SIZE.\n", text)
        self.assertIn('index: "[:, 0:$(seq // 2), :]"', text)
        x = np.random.default_rng(0).standard_normal((3, 7, 2)).astype(np.float32)
        results = self.run_imported("--set", "vars.batch=3", "--set", "vars.seq=7", x=x)
        expected = {"y_half": x[:, :3], "y_scaled": x / np.sqrt(7), "y_mean": x.mean(1), "y_batch": 3 * x, "y_last": x[:, -2:], "y_range": np.arange(7)}
        for name, array in expected.items():
            np.testing.assert_allclose(results[name], array, rtol=1e-5, atol=1e-6)

    def test_a_number_without_an_expression_refuses_other_sizes(self):
        node = helper.make_node
        self.save([node("Shape", ["x"], ["sh"]), node("Gather", ["sh", "one"], ["t"]), node("Cast", ["t"], ["tf"], to=1), node("Mul", ["tf", "half"], ["h"]),
                   node("Floor", ["h"], ["hf"]), node("Cast", ["hf"], ["stop"], to=7), node("Slice", ["x", "zero", "stop", "one"], ["y"])],
                  inputs={"x": ["batch", "seq"]},
                  initializers=[numpy_helper.from_array(array, name) for name, array in
                                {"one": np.array([1]), "zero": np.array([0]), "half": np.array([0.5], np.float32)}.items()])
        text = self.imported("--dim", "seq=4")
        self.assertIn("# For inputs of other sizes, add --set vars.batch=SIZE.\n#\n# For other sizes, import the model again with --dim seq=SIZE.\n", text)
        said = self.call("flowc", "check", "m.yaml", "--set", "vars.seq=8", status=2).stderr
        self.assertIn("seq is 8; the graph was imported for 4; import the model again with --dim seq=8", said)
        x = np.arange(16, dtype=np.float32).reshape(2, 8)
        self.imported("--dim", "seq=8")
        np.testing.assert_array_equal(self.run_imported("--set", "vars.batch=2", x=x)["y"], x[:, :4])

    def test_a_squeeze_that_may_drop_the_batch_refuses_other_sizes(self):
        self.save([helper.make_node("Squeeze", ["x"], ["y"])], inputs={"x": ["n", 1, 3]})
        self.imported()
        self.assertIn("n is 2; the graph was imported for 1", self.call("flowc", "check", "m.yaml", "--set", "vars.n=2", status=2).stderr)
        self.imported("--dim", "n=2")
        self.assertEqual((2, 3), self.run_imported(x=np.zeros((2, 1, 3), np.float32))["y"].shape)

    def test_dimensions_of_minus_1_or_of_no_name_are_variables_of_their_own(self):
        self.save([helper.make_node("Relu", ["x"], ["y"])], inputs={"x": [-1, 3]})
        self.assertIn("x: {shape: [$batch, 3], dtype: float32}", self.imported())
        self.save([helper.make_node("Relu", ["x"], ["y"])], inputs={"x": ["?", "?", -1, "a-b", "a_b", "max"]})
        sizes = {"x_1": 2, "x_2": 3, "a_b": 4, "a_b_2": 5, "max_": 6}
        text = self.imported(*(f"--dim={name}={size}" for name, size in sizes.items()))
        self.assertIn("x: {shape: [$batch, $x_1, $x_2, $a_b, $a_b_2, $max_], dtype: float32}", text)

    def test_a_window_that_starts_in_the_padding_at_the_end_does_not_count(self):
        for rank, extent, size, stride, pad in ((1, 7, 2, 2, 1), (2, 7, 2, 2, 1), (3, 4, 2, 3, 1), (2, 8, 3, 2, 1), (1, 6, 3, 3, 1), (2, 5, 4, 3, 2)):
            self.save([helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[size] * rank, strides=[stride] * rank, pads=[pad] * 2 * rank,
                                        ceil_mode=1, count_include_pad=1)], inputs={"x": [1, 1] + [extent] * rank}, opset=19)
            x = np.random.default_rng(1).standard_normal([1, 1] + [extent] * rank).astype(np.float32)
            starts = [at for at in range(-pad, extent, stride) if at - stride + size < extent + pad]
            padded = np.pad(x[0, 0], pad)
            expected = np.empty([len(starts)] * rank)
            for index in np.ndindex(expected.shape):
                expected[index] = padded[tuple(slice(starts[i] + pad, starts[i] + pad + size) for i in index)].mean()
            self.imported()
            np.testing.assert_allclose(self.run_imported(x=x)["y"][0, 0], expected, rtol=1e-5, atol=1e-6)

    def test_what_exporters_compute_of_constants_is_known(self):
        """As the TorchScript exporter writes `expand(x.size(0), -1, 4)`, and the remainder in a split of heads."""
        node, ints = helper.make_node, {"zero": 0, "ax0": [0], "rest": [-1, 4], "minus": -1, "two": 2, "three": [3]}
        self.save([node("Shape", ["x"], ["sh"]), node("Gather", ["sh", "zero"], ["b"]), node("Unsqueeze", ["b", "ax0"], ["first"]),
                   node("Concat", ["first", "rest"], ["want"], axis=0), node("ConstantOfShape", ["three"], ["ones"], value=numpy_helper.from_array(np.array([1]))),
                   node("Mul", ["ones", "minus"], ["open"]), node("Equal", ["want", "open"], ["is_open"]), node("Where", ["is_open", "ones", "want"], ["shape"]),
                   node("Expand", ["x", "shape"], ["wide"]), node("Mod", ["three", "two"], ["copies1"]), node("Concat", ["copies1", "copies1", "three"], ["copies"], axis=0),
                   node("Tile", ["wide", "copies"], ["y"])],
                  inputs={"x": ["batch", 5, 1]}, initializers=[numpy_helper.from_array(np.array(value, np.int64), name) for name, value in ints.items()])
        text = self.imported()
        self.assertNotIn("checks:", text)
        x = np.random.default_rng(2).standard_normal((3, 5, 1)).astype(np.float32)
        np.testing.assert_array_equal(self.run_imported("--set", "vars.batch=3", x=x)["y"], np.tile(np.broadcast_to(x, (3, 5, 4)), (1, 1, 3)))

    def test_many_outputs_of_one_name_take_linear_time(self):
        names = [f"{i:015b}".replace("0", ".").replace("1", "-") for i in range(20_000)]
        self.save([helper.make_node("Relu", ["x"], [name]) for name in names], outputs=names)
        self.assertIn(f"{'_' * 15}_20000: ", self.imported())

    def save_lstm(self, weights, direction, states):
        arrays = [numpy_helper.from_array(array, name) for name, array in weights.items()]
        node = helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["y", "h1", "c1"], hidden_size=2, direction=direction)
        initial = [numpy_helper.from_array(array, name) for name, array in zip("hc", states)]
        self.save([node], inputs={"x": [4, 3, 5]}, outputs=["y", "h1", "c1"], initializers=arrays + initial)

    def test_both_directions_of_a_recurrent_layer_are_those_of_two(self):
        random = np.random.default_rng(1)
        draw = lambda *shape: random.normal(size=shape).astype(np.float32)
        x, weights, states = draw(4, 3, 5), {"w": draw(2, 8, 5), "r": draw(2, 8, 2), "b": draw(2, 16)}, [draw(2, 3, 2), draw(2, 3, 2)]

        def results(direction, part=slice(None), order=1):
            self.save_lstm({name: array[part] for name, array in weights.items()}, direction, [state[part] for state in states])
            self.imported()
            return self.run_imported(x=x[::order])
        both, forward, back, flipped = results("bidirectional"), results("forward", slice(1)), results("reverse", slice(1, 2)), results("forward", slice(1, 2), -1)
        for name in ("h1", "c1"):
            np.testing.assert_allclose(both[name], np.concatenate([forward[name], flipped[name]]), rtol=1e-6)
            np.testing.assert_allclose(back[name], flipped[name], rtol=1e-6)
        np.testing.assert_allclose(both["y"], np.concatenate([forward["y"], flipped["y"][::-1]], axis=1), rtol=1e-6)
        np.testing.assert_allclose(back["y"], flipped["y"][::-1], rtol=1e-6)

    def test_results_that_nothing_reads_have_no_entries(self):
        self.save_lstm({"w": np.ones((1, 8, 5), np.float32), "r": np.ones((1, 8, 2), np.float32), "b": np.ones((1, 16), np.float32)}, "forward",
                       [np.ones((1, 3, 2), np.float32)] * 2)
        model = onnx.load(self.dir / "m.onnx")
        del model.graph.output[1:]
        onnx.save(model, self.dir / "m.onnx")
        self.assertNotIn(".c", self.imported())
        self.assertNotIn("warning", self.call("flowc", "check", "m.yaml").stderr)

    def test_indices_below_0_count_from_the_end(self):
        indices = np.array([[0, -1], [-3, 2], [1, -2]])
        for kind in ("known", "given"):
            arrays = [numpy_helper.from_array(indices, "i")] if kind == "known" else []
            self.save([helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)], inputs={"x": [3, 3]}, initializers=arrays)
            if kind == "given":
                model = onnx.load(self.dir / "m.onnx")
                model.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, [3, 2]))
                onnx.save(model, self.dir / "m.onnx")
            self.imported()
            x = np.arange(9, dtype=np.float32).reshape(3, 3)
            results = self.run_imported(x=x, **({"i": indices} if kind == "given" else {}))
            np.testing.assert_array_equal(np.take_along_axis(x, indices, 1), results["y"])

    def test_integers_are_divided_toward_0(self):
        a, b = np.array([7, -7, 7, -7, 6, -6], np.int32), np.array([2, 2, -2, -2, 3, 3], np.int32)
        values = [helper.make_tensor_value_info(name, TensorProto.INT32, [6]) for name in "ab"]
        graph = helper.make_graph([helper.make_node("Div", ["a", "b"], ["y"])], "g", values, [helper.make_tensor_value_info("y", TensorProto.INT32, None)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.dir / "m.onnx")
        self.imported()
        np.testing.assert_array_equal([3, -3, -3, 3, 2, -2], self.run_imported(a=a, b=b)["y"])

    def test_columns_of_windows_become_an_image(self):
        sizes = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in {"image": [5, 6], "block": [2, 3]}.items()]
        node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], pads=[1, 0, 0, 1], strides=[2, 1])
        self.save([node], inputs={"x": [2, 12, 15]}, initializers=sizes, opset=18)
        self.imported()
        x = np.random.default_rng(2).normal(size=(2, 12, 15)).astype(np.float32)
        padded, windows = np.zeros((2, 2, 6, 7)), x.reshape(2, 2, 2, 3, 3, 5)
        for row in range(3):
            for column in range(5):
                padded[:, :, 2 * row:2 * row + 2, column:column + 3] += windows[..., row, column]
        np.testing.assert_allclose(self.run_imported(x=x)["y"], padded[:, :, 1:, :6], rtol=1e-5, atol=1e-6)
        for attribute, value, reason in (("pads", [1], "1 pads"), ("strides", [1, 1, 1], "3 strides")):
            self.save([helper.make_node("Col2Im", ["x", "image", "block"], ["y"], **{attribute: value})], inputs={"x": [2, 12, 15]}, initializers=sizes, opset=18)
            (self.dir / "m.yaml").unlink(missing_ok=True)
            self.assertIn(reason, self.refused())

    def check(self, nodes, x, expected, **arguments):
        """Imports nodes that make of `x` what is expected."""
        inputs = {"x": list(np.shape(x))}
        self.save(nodes, **{"inputs": inputs, "outputs": list(expected), **arguments})
        self.imported()
        results = self.run_imported(x=np.asarray(x, np.float32))
        for name, array in expected.items():
            np.testing.assert_allclose(results[name], array, rtol=1e-5, atol=1e-6)
            self.assertEqual(np.shape(array), results[name].shape)

    def test_resize_takes_any_axes_behind_the_first(self):
        defaults = {"keep_aspect_ratio_policy": "stretch", "antialias": 0, "cubic_coeff_a": -0.75, "exclude_outside": 0, "extrapolation_value": 0.0}
        for shape, factors, mode in (([2, 3, 4], [1, 1, 2], "linear"), ([1, 2, 3, 4], [1, 1, 2, 2], "linear"), ([1, 2, 3, 4, 5], [1, 1, 2, 1, 2], "linear"),
                                     ([1, 2, 3, 4, 5], [1, 1, 2, 2, 2], "linear"), ([1, 2, 4], [1, 2, 1], "linear"), ([2, 3], [1, 2], "nearest")):
            x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
            y = x
            for axis, factor in enumerate(factors):
                if factor == 2 and mode == "nearest":
                    y = y.repeat(2, axis)
                elif factor == 2:  # a pixel of half the size lies a quarter of a pixel from the middle of the large one
                    place = np.clip(np.arange(2 * shape[axis]) / 2 - 0.25, 0, shape[axis] - 1)
                    low, weight = np.floor(place).astype(int), np.expand_dims(place % 1, list(range(1, y.ndim - axis)))
                    y = y.take(low, axis) * (1 - weight) + y.take(np.minimum(low + 1, shape[axis] - 1), axis) * weight
            scales = numpy_helper.from_array(np.array(factors, np.float32), "scales")
            for more in ({}, defaults, {"coordinate_transformation_mode": "half_pixel_symmetric"}):
                with self.subTest(shape=shape, factors=factors, **more):
                    self.check([helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode, **more)], x, {"y": y}, initializers=[scales], opset=19)
        sizes = numpy_helper.from_array(np.array([6], np.int64), "sizes")
        self.check([helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], axes=[-2])], np.arange(12).reshape(1, 1, 3, 4),
                   {"y": np.arange(12).reshape(1, 1, 3, 4).repeat(2, 2)}, initializers=[sizes], opset=18)
        for shape, more, reason in (([3], {}, "operand [3]; expected two or more axes"), ([2, 1, 3], {"keep_aspect_ratio_policy": "not_larger"}, "not_larger"),
                                    ([1, 1, 3], {"coordinate_transformation_mode": "tf_crop_and_resize"}, "tf_crop_and_resize")):
            (self.dir / "m.yaml").unlink(missing_ok=True)
            self.save([helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], axes=[0], **more)], inputs={"x": shape}, initializers=[sizes], opset=19)
            self.assertIn(reason, self.refused())

    def test_old_squeezes_name_the_axes_that_they_drop(self):
        ends = {name: numpy_helper.from_array(np.array([value], np.int64), name) for name, value in {"zero": 0, "one": 1}.items()}
        nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[2, 0, 1]), helper.make_node("Slice", ["t", "zero", "one", "zero"], ["q"]),
                 helper.make_node("Squeeze", ["q"], ["y"], axes=[0])]
        self.save(nodes, inputs={"x": ["n", 5, 3]}, initializers=ends.values(), opset=12)
        x = np.arange(60, dtype=np.float32).reshape(4, 5, 3)
        self.imported()
        np.save(self.dir / "x.npy", x)
        self.flowrun("m.yaml", "--input", "x=@x.npy", "-o", "out", "--quiet", "--set", "vars.n=4")
        np.testing.assert_array_equal(x[None, :, :, 0], self.load("out/returns/y/value.npy"))

    def test_a_matrix_times_a_vector_has_an_axis_less(self):
        x, v, w = np.arange(24.0).reshape(2, 3, 4), np.array([1, 2, 3, 4], np.float32), np.arange(24, dtype=np.float32).reshape(2, 4, 3)
        arrays = [numpy_helper.from_array(array, name) for name, array in {"v": v, "w": w, "w2": w[0]}.items()]
        nodes = [helper.make_node("MatMul", names, [f"y{i}"]) for i, names in enumerate((["x", "v"], ["v", "w"], ["v", "w2"], ["v", "v"], ["x", "w2"]))]
        self.check(nodes, x, {"y0": x @ v, "y1": v @ w, "y2": v @ w[0], "y3": v @ v, "y4": x @ w[0]}, initializers=arrays)
        (self.dir / "m.yaml").unlink()
        (self.dir / "m.npz").unlink()
        for operands in (["x", "one"], ["one", "x"], ["x", "scalar"]):
            initializers = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in {"one": [1], "scalar": []}.items()]
            self.save([helper.make_node("MatMul", operands, ["y"])], inputs={"x": [3, 4]}, initializers=initializers)
            self.assertIn("MatMul of node `y`: cannot multiply ", self.refused())

    def test_the_last_part_of_a_split_may_be_smaller(self):
        x = np.arange(30.0).reshape(10, 3)
        self.check([helper.make_node("Split", ["x"], ["a", "b", "c"], num_outputs=3)], x, {"a": x[:4], "b": x[4:8], "c": x[8:]}, opset=18)
        for opset, count, outputs in ((13, {}, 3), (18, {"num_outputs": 2}, 3), (18, {"num_outputs": 7}, 7)):
            (self.dir / "m.yaml").unlink(missing_ok=True)
            names = [f"y{i}" for i in range(outputs)]
            self.save([helper.make_node("Split", ["x"], names, **count)], inputs={"x": [10, 3]}, outputs=names, opset=opset)
            self.assertIn("Split of node `y0`: ", self.refused())

    def test_nodes_may_be_in_any_order(self):
        self.check([helper.make_node("Add", ["b", "x"], ["y"]), helper.make_node("Exp", ["y"], ["unread"]), helper.make_node("Neg", ["a"], ["b"]),
                    helper.make_node("Relu", ["x"], ["a"])], [[1, -2, 3]], {"y": [[0, -2, 0]]})

    def test_old_softmaxes_join_the_axes_behind(self):
        x = np.random.default_rng(1).normal(size=(2, 3, 2, 2)).astype(np.float32)
        flat = np.exp(x.reshape(2, 12))
        soft = (flat / flat.sum(1, keepdims=True)).reshape(x.shape)
        nodes = [helper.make_node(op, ["x"], [op]) for op in ("Softmax", "LogSoftmax", "Hardmax")]
        self.check(nodes, x, {"Softmax": soft, "LogSoftmax": np.log(soft), "Hardmax": soft == soft.max((1, 2, 3), keepdims=True)}, opset=12)
        pixel = np.exp(x[:, :, :1, :1])
        self.check([helper.make_node("Softmax", ["x"], ["y"], axis=1)], x[:, :, :1, :1], {"y": pixel / pixel.sum(1, keepdims=True)}, opset=9)

    def test_attention_of_new_opsets(self):
        random = np.random.default_rng(1)
        draw = lambda *shape: random.normal(size=shape).astype(np.float32)
        query, key, value, past_key, past_value, bias = draw(2, 4, 3, 6), draw(2, 2, 5, 6), draw(2, 2, 5, 2), draw(2, 2, 2, 6), draw(2, 2, 2, 2), draw(3, 5)
        hides = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])

        def expected(key, value, bias=0, visible=True, cap=None, scale=6**-0.5):
            scores = query @ key.repeat(2, 1).swapaxes(2, 3) * scale
            scores = np.where(visible, (scores if cap is None else cap * np.tanh(scores / cap)) + bias, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e9))
            return weights / np.maximum(weights.sum(-1, keepdims=True), 1e-9) @ value.repeat(2, 1)

        rows, columns = np.mgrid[:3, :5]
        joined_key, joined_value = np.concatenate([past_key, key], 2), np.concatenate([past_value, value], 2)
        late, lengths = np.mgrid[:3, :7], np.array([3, 5])
        for arrays, attributes, y in (({}, {}, expected(key, value)), ({}, {"scale": 0.25}, expected(key, value, scale=0.25)),
                                      ({"mask": bias}, {}, expected(key, value, bias)), ({"mask": hides}, {}, expected(key, value, visible=hides)),
                                      ({}, {"is_causal": 1}, expected(key, value, visible=columns <= rows)),
                                      ({}, {"is_causal": 1, "left_window_size": 1}, expected(key, value, visible=(columns <= rows) & (columns >= rows - 1))),
                                      ({}, {"right_window_size": 1}, expected(key, value, visible=columns <= rows + 1)),
                                      ({"mask": hides}, {"softcap": 0.5}, expected(key, value, visible=hides, cap=0.5)),
                                      ({"mask": bias[:, :4]}, {}, expected(key[:, :, :4], value[:, :, :4], bias[:, :4])),
                                      ({"past_key": past_key, "past_value": past_value}, {"is_causal": 1},
                                       expected(joined_key, joined_value, visible=late[1] <= late[0] + 2)),
                                      ({"lengths": lengths}, {}, expected(key, value, visible=columns < lengths[:, None, None, None])),
                                      ({"lengths": lengths}, {"is_causal": 1}, expected(key, value, visible=columns <= rows + lengths[:, None, None, None] - 3))):
            with self.subTest(arrays=list(arrays), **attributes):
                names = [name if name in arrays else "" for name in ("mask", "past_key", "past_value", "lengths")]
                initializers = [numpy_helper.from_array(array, name) for name, array in {"k": key, "v": value, **arrays}.items()]
                self.check([helper.make_node("Attention", ["x", "k", "v", *names], ["y"], **attributes)], query, {"y": y}, initializers=initializers, opset=25)
        rows_of = lambda x: x.swapaxes(1, 2).reshape(2, x.shape[2], -1)
        initializers = [numpy_helper.from_array(rows_of(array), name) for name, array in {"k": key, "v": value}.items()]
        self.check([helper.make_node("Attention", ["x", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=2)], rows_of(query),
                   {"y": rows_of(expected(key, value))}, initializers=initializers, opset=23)

    def test_normalizations_of_new_opsets(self):
        x, gamma, beta = np.random.default_rng(1).normal(size=(2, 4, 3)), np.array([1, 2, 3, 4.0]), np.array([4, 3, 2, 1.0])
        grouped = x.reshape(2, 2, -1)
        plain = ((grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + 1e-5)).reshape(x.shape)
        for opset, count in ((20, 2), (21, 4)):  # weights of groups, and of channels
            weights = [numpy_helper.from_array(array[:count].astype(np.float32), name) for name, array in {"g": gamma, "b": beta}.items()]
            each = [array[:count].repeat(4 // count)[:, None] for array in (gamma, beta)]
            self.check([helper.make_node("GroupNormalization", ["x", "g", "b"], ["y"], num_groups=2)], x, {"y": plain * each[0] + each[1]},
                       initializers=weights, opset=opset)
        weight = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")
        root = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
        norm = np.sqrt((x**2).sum(1, keepdims=True))
        self.check([helper.make_node("RMSNormalization", ["x", "w"], ["y"]), helper.make_node("RMSNormalization", ["x", "x"], ["z"]),
                    helper.make_node("LpNormalization", ["x"], ["l"], axis=1), helper.make_node("Swish", ["x"], ["s"], alpha=2.0)],
                   x, {"y": root * [1, 2, 3], "z": root * x, "l": x / norm, "s": x / (1 + np.exp(-2 * x))}, initializers=[weight], opset=24)

    def test_a_part_of_each_head_is_turned(self):
        x, angle = np.random.default_rng(1).normal(size=(2, 3, 4, 6)), np.random.default_rng(2).normal(size=(2, 4, 2))
        tables = [numpy_helper.from_array(table.astype(np.float32), name) for name, table in {"c": np.cos(angle), "s": np.sin(angle)}.items()]
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        for interleaved, a, b in ((0, x[..., :2], x[..., 2:4]), (1, x[..., 0:4:2], x[..., 1:4:2])):
            turned = np.stack([c * a - s * b, s * a + c * b], -1 if interleaved else -2).reshape(2, 3, 4, 4)
            self.check([helper.make_node("RotaryEmbedding", ["x", "c", "s"], ["y"], interleaved=interleaved, rotary_embedding_dim=4)], x,
                       {"y": np.concatenate([turned, x[..., 4:]], -1)}, initializers=tables, opset=23)

    def test_pools_may_have_holes(self):
        x = np.random.default_rng(1).normal(size=(1, 1, 9)).astype(np.float32)

        def pooled(function, fill, ends=(2, 1), count=5, padded=True):
            values = np.full(40, float(fill))
            values[ends[0]:ends[0] + 9] = x[0, 0]
            counted = np.zeros(40, bool)
            counted[0 if padded else ends[0]:ends[0] + 9 + (ends[1] if padded else 0)] = True
            at = [np.array([2 * window, 2 * window + 3, 2 * window + 6]) for window in range(count)]
            return [[[function(values[one][counted[one]]) for one in at]]]

        window = {"kernel_shape": [3], "dilations": [3], "strides": [2], "pads": [2, 1]}
        two_norm = lambda values: np.sqrt((values**2).sum())
        for ceil, count in ((0, 3), (1, 4)):
            nodes = [helper.make_node(op, ["x"], [name], ceil_mode=ceil, **window, **more)
                     for op, name, more in (("MaxPool", "max", {}), ("AveragePool", "inside", {}), ("AveragePool", "all", {"count_include_pad": 1}), ("LpPool", "norm", {}))]
            self.check(nodes, x, {"max": pooled(np.max, -np.inf, count=count), "inside": pooled(np.mean, 0, count=count, padded=False),
                                  "all": pooled(np.mean, 0, count=count), "norm": pooled(two_norm, 0, count=count)}, opset=19)

    def test_pads_cut_off_and_wrap_around(self):
        x = np.arange(12.0).reshape(3, 4)
        names = {"cut": [-1, 0, 0, 2], "all": [0, 0, 0, -1], "wrap": [1, 0, 2, 3], "row": [1, 2]}
        pads = [numpy_helper.from_array(np.array(pads, np.int64), name) for name, pads in {**names, "axis": [-1]}.items()]
        self.check([helper.make_node("Pad", ["x", "cut"], ["a"]), helper.make_node("Pad", ["x", "all"], ["b"], mode="reflect"),
                    helper.make_node("Pad", ["x", "wrap"], ["c"], mode="wrap"), helper.make_node("Pad", ["x", "row", "", "axis"], ["d"], mode="edge")], x,
                   {"a": np.pad(x[1:], ((0, 0), (0, 2))), "b": x[:, :-1], "c": np.pad(x, ((1, 2), (0, 3)), mode="wrap"), "d": np.pad(x, ((0, 0), (1, 2)), mode="edge")},
                   initializers=pads, opset=19)

    def test_parts_of_axes(self):
        x = np.arange(24.0).reshape(4, 6)
        sizes = {"shape": [3, 3], "width": [9], "parts": [0, 4, 0, 2], "condition": [0, 1, 1]}
        arrays = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in sizes.items()]
        self.check([helper.make_node("CenterCropPad", ["x", "shape"], ["a"]), helper.make_node("CenterCropPad", ["x", "width"], ["b"], axes=[-1]),
                    helper.make_node("Split", ["x", "parts"], ["p", "q", "r", "s"], axis=1), helper.make_node("Concat", ["s", "p", "q"], ["c"], axis=1),
                    helper.make_node("Cast", ["condition"], ["bools"], to=TensorProto.BOOL), helper.make_node("Compress", ["x", "bools"], ["d"], axis=1)], x,
                   {"a": x[:3, 1:4], "b": np.pad(x, ((0, 0), (1, 2))), "c": np.concatenate([x[:, 4:], x[:, :4]], 1), "d": x[:, 1:3]},
                   initializers=arrays, opset=18)

    def test_shifts_of_integers_keep_the_sign(self):
        x, places = np.array([5, -5, 7, -7, 9, -1, 2**23], np.int32), np.array([1, 1, 31, 31, 40, -1, 22], np.int32)
        numbers = [numpy_helper.from_array(array, name) for name, array in {"x": x, "n": places}.items()]
        self.save([helper.make_node("BitShift", ["x", "n"], ["y"], direction="RIGHT"), helper.make_node("BitShift", ["x", "n"], ["z"], direction="LEFT")],
                  inputs={}, outputs=["y", "z"], initializers=numbers, opset=28)
        self.imported()
        results = self.run_imported()
        np.testing.assert_array_equal([2, -3, 0, -1, 0, -1, 2], results["y"])
        np.testing.assert_array_equal([10, -10, -2**31, -2**31, 0, 0, 0], results["z"])

    def save_external(self, location="w.data", **keys):
        """A model whose weight, with 12 bytes, lies in another file."""
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
        for key, value in {"location": location, **keys}.items():
            weight.external_data.add(key=key, value=value)
        self.save([helper.make_node("Add", ["x", "w"], ["y"])], inputs={"x": [1, 3]}, initializers=[weight])

    def test_weights_may_lie_in_a_file_next_to_the_model(self):
        (self.dir / "w.data").write_bytes(b"4bytes.." + np.array([1, 2, 3], np.float32).tobytes() + b"more")
        for keys in ({"offset": "8", "length": "12"}, {"location": "./w.data", "offset": "8", "length": "12", "checksum": "unread"}, {"location": "link.data"}):
            (self.dir / "link.data").unlink(missing_ok=True)
            (self.dir / "part").write_bytes(np.array([1, 2, 3], np.float32).tobytes())
            (self.dir / "link.data").symlink_to("part")
            self.save_external(**keys)
            self.imported()
            np.testing.assert_array_equal([[2, 3, 4]], self.run_imported(x=np.ones((1, 3), np.float32))["y"])
        (self.dir / "below").mkdir()
        for name in ("m.onnx", "link.data", "part"):
            (self.dir / name).rename(self.dir / "below" / name)
        self.call("flowc", "import", "below/m.onnx", "-o", "other.yaml")

    def test_files_of_weights_are_not_trusted(self):
        (self.dir / "w.data").write_bytes(bytes(12))
        (self.dir / "folder").mkdir()
        os.mkfifo(self.dir / "pipe")
        (self.dir / "out_of_it").symlink_to("/etc/passwd")
        (self.dir / "up").symlink_to("..")
        outside = ("../w.data", "/etc/passwd", "folder/../w.data", "", "w.data\0")
        cases = [({"location": location}, "outside the folder of the model") for location in outside]
        cases += [({"location": "out_of_it"}, "a link out of the folder of the model"), ({"location": "up/w.data"}, ""), ({"location": "missing"}, "which is missing"),
                  ({"location": "folder"}, "not a regular file"), ({"location": "pipe"}, "not a regular file"),
                  ({"offset": "4", "length": "12"}, "12 bytes from 4 on; it has 12"), ({"offset": "13", "length": "0"}, "0 bytes from 13 on"),
                  ({"length": str(2**63 - 1), "offset": "8"}, "it has 12"), ({"length": str(2**64)}, "the length of its data is `18446744073709551616`"),
                  ({"offset": "-4"}, "the offset of its data is `-4`"), ({"length": "8"}, "2 elements of data; expected 3"), ({"length": "11"}, "2 elements of data"),
                  ({"length": "ten"}, "the length of its data is `ten`")]
        for keys, reason in cases:
            with self.subTest(keys=keys):
                self.save_external(**keys)
                self.assertIn("initializer `w`: ", said := self.refused())
                self.assertIn(reason, said)

    def test_models_that_are_not_valid_are_refused(self):
        relu, huge = helper.make_node("Relu", ["x"], ["y"]), 2**40
        short = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[huge, huge], raw_data=b"1234")
        wrong = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], raw_data=b"1234")
        foreign = TensorProto(name="w", data_type=TensorProto.COMPLEX64, dims=[1], raw_data=b"12345678")
        none = numpy_helper.from_array(np.zeros(0, np.int64), "none")
        add = helper.make_node("Add", ["x", "w"], ["y"])
        cases = [({"nodes": [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["b"], ["y"])]},
                  "nodes form a circle, each reads from the next: `a` (Add), `b` (Relu)\n"),
                 ({"nodes": [helper.make_node("Add", ["x", "y"], ["y"])]}, "nodes form a circle, each reads from the next: `y` (Add)\n"),
                 ({"nodes": [add]}, "reads `w`, which nothing produces"),
                 ({"nodes": [relu], "outputs": ["z"]}, "nothing makes the output `z`"),
                 ({"nodes": [relu], "outputs": []}, "the model has no outputs"),
                 ({"nodes": [relu, relu]}, "two tensors are called `y`"),
                 ({"nodes": [relu], "opset": 99}, "opset 99 of ONNX; supported are 1 to 28"),
                 ({"nodes": [relu], "domain": "ai.onnx.ml"}, "opset 0 of ONNX"),
                 ({"nodes": [relu], "inputs": {"x": ["n", 0]}}, "input `x` has a dimension of 0"),
                 ({"nodes": [relu], "inputs": {"x": [huge, huge]}}, "has a dimension of"),
                 ({"nodes": [relu], "inputs": {"x": [2**31 - 1] * 8}}, "input `x` is too large"),
                 ({"nodes": [relu], "inputs": {"x": [1] * 40}}, "40 dimensions"),
                 ({"nodes": [add], "initializers": [short]}, "initializer `w`: a dimension of"),
                 ({"nodes": [add], "initializers": [wrong]}, "initializer `w`: 1 elements of data; expected 3"),
                 ({"nodes": [add], "initializers": [foreign]}, "initializer `w`: dtype COMPLEX64"),
                 ({"nodes": [helper.make_node("Softmax", ["x"], ["y"], axis=5)]}, "Softmax of node `y`: no axis 5"),
                 ({"nodes": [helper.make_node("Softmax", ["x"], ["y"], axis="1")]}, "Softmax of node `y`: attribute axis is not of type INT"),
                 ({"nodes": [helper.make_node("Relu", ["x"], ["y"], beta=1)]}, "Relu of node `y`: attribute beta"),
                 ({"nodes": [helper.make_node("Relu", [], ["y"])]}, "Relu of node `y`: no operand 1"),
                 ({"nodes": [helper.make_node("Einsum", ["x"], ["y"], equation='ij->"#')]}, "an equation of other signs than letters"),
                 ({"nodes": [helper.make_node("Einsum", ["x"], ["y"], equation="ijk")]}, "the term ijk for [1, 3]"),
                 ({"nodes": [helper.make_node("Einsum", ["x"], ["y"], equation="ij->k")]}, "an axis of the result that no operand has"),
                 ({"nodes": [helper.make_node("Einsum", ["x"], ["y"], equation="i.j")]}, "the term i.j"),
                 ({"nodes": [helper.make_node("LRN", ["x"], ["y"], size=2)]}, "LRN of node `y`: the size 2"),
                 ({"nodes": [helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2**62)], "inputs": {"x": [1, 4, 2, 2]}}, "blocks of 4611686018427387904"),
                 ({"nodes": [helper.make_node("Pad", ["x", "pads", "none"], ["y"])], "initializers": [numpy_helper.from_array(np.zeros(4, np.int64), "pads"), none]},
                  "Pad of node `y`: a pad value that is not one number"),
                 ({"nodes": [helper.make_node("Add", ["none", "one"], ["y"])], "initializers": [none, numpy_helper.from_array(np.ones(1, np.int64), "one")]},
                  "Add of node `y`: "),
                 ({"nodes": [helper.make_node("LSTM", ["x", "x", "x"], ["y"])]}, "LSTM of node `y`: operands")]
        for arguments, reason in cases:
            with self.subTest(reason):
                self.save(**arguments)
                self.assertIn(reason, self.refused())

    def test_damaged_files_are_refused(self):
        self.save([helper.make_node("Relu", ["x"], ["y"])])
        whole = (self.dir / "m.onnx").read_bytes()
        for data in (b"", whole[:-3], whole[:20], b"\xff" * 100, b"PK\x03\x04"):
            (self.dir / "m.onnx").write_bytes(data)
            self.assertIn("m.onnx", self.refused())
        self.assertIn("cannot", self.call("flowc", "import", "missing.onnx", "-o", "m.yaml", status=3).stderr)

    def test_nothing_is_overwritten(self):
        self.save([helper.make_node("Relu", ["x"], ["y"])])
        for name in ("m.npz", "m.yaml"):
            self.write(name, "mine")
            self.assertIn(f"{name} already exists", self.refused())
            (self.dir / name).unlink()
        self.assertIn("is not a job file", self.call("flowc", "import", "m.onnx", "-o", "m.txt", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
