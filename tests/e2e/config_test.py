"""`flowc config` writes job files that say the same: of the same plan hash, and valid by the schema."""
import json
import unittest

import core_yaml
import jsonschema

from flow import JOBS, SOURCE, FlowTest

FORMS = ((), ("--full",), ("--minimal",))

HARD = """include: [base.yaml]
flow: 1
seed: $env(FLOW_NO_SUCH_SEED:-7)
vars:
  width: 8
  index: 3
  price: 5$$
  sink: {type: command, run: "cat > $FLOW_RUN_DIR/$width", env: {WIDTH: "$(width)$$", in: words}}
networks:
  block:
    inputs: [x]
    params: {units: required, rate: 0.5, norm: layer_norm, width: 2}
    graph:
      up:   {op: dense, units: "$(units * width + index)", kernel_regularizer: {l2: 1e-3}}
      norm: {op: $norm}
      drop: {op: dropout, rate: $rate}
      down: {op: dense, units: $(width * 4)}
      sum:  {op: add, in: [down, x], note: around}
    output: sum
jobs:
  train:
    placement: {device: auto}
    graph:
      c: {op: relu}
      a: {op: block, in: x, units: $width}
      blocks: {op: block, in: c, units: $(index + 1), repeat: 2}
      loss: {op: mse, in: [blocks, c]}
    hooks:
      - {watch: c, to: [$sink, {type: print, label: $price, every: 1}], every: 1}
      - {watch_scope: a, steps: [0, 2..8], to: npy}
    returns: {value: [loss, c], type: "Tuple[Numpy, Numpy]", to: none}
    run: {steps: $width, checkpoint: {keep: 3, every: {steps: 4}}}
"""

BASE = """flow: 1
note: the base
jobs:
  train:
    type: train
    inputs:
      x: {shape: [4, 8], dtype: float32, from: {type: random_normal}}
    graph:
      c: {in: a}
      d: {op: identity, in: loss}
    optimizer: {type: sgd, momentum: 0.0, learning_rate: {type: constant, base: 1/10}, minimize: loss}
"""


class Config(FlowTest):
    def hash(self, *words):
        self.call("flowc", "build", *words, "-o", "a.plan")
        return json.loads((self.dir / "a.plan").read_text())["hash"]

    def forms(self, job, *sets):
        """The three texts; each is one that a schema takes, and compiles to the plan that `job` does."""
        check = jsonschema.Draft202012Validator(json.loads((SOURCE / "schemas" / "job.schema.json").read_text()))
        wanted = self.hash(job, *sets)
        texts = []
        for form in FORMS:
            texts.append(self.call("flowc", "config", job, *form, *sets).stdout)
            self.write("again.yaml", texts[-1])
            self.assertEqual(self.hash("again.yaml"), wanted, texts[-1])
            check.validate(core_yaml.load(texts[-1]))
        return texts

    def test_every_job_says_the_same_in_every_form(self):
        for job in sorted(JOBS.glob("*.yaml")):
            resolved, full, minimal = self.forms(job)
            for text, form, wanted in ((resolved, (), resolved), (resolved, ("--full",), full), (full, ("--minimal",), minimal),
                                       (minimal, ("--full",), full)):
                self.write("again.yaml", text)
                self.assertEqual(self.call("flowc", "config", "again.yaml", *form).stdout, wanted, (job, form))

    def test_overrides_and_variables_are_put_in(self):
        resolved, full, minimal = self.forms(JOBS / "lenet.yaml", "--set", "vars.lr=0.05", "--set", "jobs.train.run.shuffle=true")
        for text in (resolved, full, minimal):
            self.assertIn("learning_rate: 0.05", text)
            self.assertIn("shuffle: true", text)
            self.assertNotIn("$", text)
            self.assertNotIn("vars", text)

    def test_includes_params_copies_and_dollar_signs_keep_their_meaning(self):
        self.write("base.yaml", BASE)
        self.write("hard.yaml", HARD)
        resolved, full, minimal = self.forms("hard.yaml")
        file = core_yaml.load(resolved)
        self.assertEqual(list(file)[0], "flow")
        self.assertEqual(file["seed"], 7)
        self.assertEqual(file["vars"], {"index": 3})  # the rest is put in, or hidden by params
        block = file["networks"]["block"]["graph"]
        self.assertEqual(block["up"]["units"], "$(units * width + index)")
        train = file["jobs"]["train"]
        self.assertEqual(list(train["graph"]), ["c", "d", "a", "blocks", "loss"])
        self.assertEqual(train["graph"]["blocks"]["units"], "$(index + 1)")
        sink, printed = train["hooks"][0]["to"]
        self.assertEqual(sink["run"], "cat > $FLOW_RUN_DIR/$width")
        self.assertEqual(sink["env"], {"WIDTH": "8$$", "in": "words"})
        self.assertEqual(printed["label"], "5$$")
        full, minimal = core_yaml.load(full), core_yaml.load(minimal)
        self.assertEqual(full["jobs"]["train"]["graph"]["a"]["rate"], 0.5)
        self.assertEqual(full["jobs"]["train"]["returns"]["to"], "none")
        self.assertEqual(minimal["jobs"]["train"]["optimizer"], {"type": "sgd", "learning_rate": "1/10", "minimize": "loss"})
        self.assertEqual(minimal["jobs"]["train"]["returns"], {"value": ["loss", "c"], "to": "none"})
        self.assertEqual(minimal["jobs"]["train"]["run"], {"steps": 8, "checkpoint": {"every": {"steps": 4}, "keep": 3}})
        self.assertNotIn("placement", minimal["jobs"]["train"])
        self.assertNotIn("output", minimal["networks"]["block"])

    def test_an_entry_says_what_it_reads_where_another_stands_above_it_now(self):
        self.write("base.yaml", "flow: 1\njobs: {j: {type: predict, graph: {a: {op: relu, in: x}, z: {op: exp, in: x}}}}\n")
        self.write("main.yaml", """flow: 1
include: [base.yaml]
jobs:
  j:
    inputs: {x: {shape: [4], dtype: float32}}
    graph:
      a: {op: relu}
      b: {op: tanh}
    returns: {value: [b, z]}
""")
        resolved, full, minimal = self.forms("main.yaml")
        for text in (resolved, full, minimal):
            self.assertEqual(core_yaml.load(text)["jobs"]["j"]["graph"]["b"], {"op": "tanh", "in": "a"})

    def test_an_entry_that_is_included_reads_what_stands_above_it_in_its_file(self):
        self.write("base.yaml", "jobs: {j: {type: predict, graph: {a: {op: relu, in: x}, y: {op: exp}, z: {op: tanh}}}}\n")
        self.write("main.yaml", """flow: 1
include: [base.yaml]
jobs:
  j:
    inputs: {x: {shape: [4], dtype: float32}}
    graph:
      b: {op: relu, in: x}
      y: {op: abs}
      c: {op: square}
    returns: {value: [b, c, z]}
""")
        for text in self.forms("main.yaml"):
            graph = core_yaml.load(text)["jobs"]["j"]["graph"]
            self.assertEqual(list(graph), ["a", "y", "z", "b", "c"])
            self.assertEqual(graph["c"], {"op": "square", "in": "y"})
            self.assertEqual(graph["z"].get("in", "y"), "y")
            self.assertEqual(graph["y"].get("in", "a"), "a")

    def test_what_is_shared_and_what_stands_inside_text_keep_their_meaning(self):
        self.write("shared.yaml", """flow: 1
networks:
  n: {inputs: [x], params: {t: 1.0}, graph: {d: {op: slice, in: x, index: "[:, 0:$(t)]"}}}
jobs:
  j:
    type: train
    inputs: {x: {shape: [4, 3], dtype: float32, from: {type: random_normal}}}
    graph:
      a: {op: dense, in: x, units: 3, kernel_initializer: ones}
      b: {op: dense, in: a, units: 3, variables: a}
      c: {op: n, in: b, t: 1}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: c}
""")
        self.forms("shared.yaml")

    def test_an_extended_job_is_written_out(self):
        self.write("base.yaml", """flow: 1
jobs:
  train:
    type: train
    note: of train alone
    precision: float64
    inputs: {x: {shape: [4, 3], dtype: float64, from: {type: random_normal}}}
    graph:
      net: {op: dense, in: x, units: 3, note: of train alone}
      out: {op: tanh}
      loss: {op: square}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
""")
        self.write("main.yaml", """flow: 1
include: [base.yaml]
jobs:
  train: {graph: {out: {op: relu}}}
  eval:
    extends: train
    type: predict
    graph: {~loss: true, net: {trainable: false}, guess: {op: argmax, in: out}}
    returns: {value: guess}
""")
        for text in self.forms("main.yaml"):
            job = core_yaml.load(text)["jobs"]["eval"]
            self.assertEqual([key for key in job if key in ("extends", "type", "precision", "inputs", "graph")], ["type", "precision", "inputs", "graph"])
            self.assertEqual(list(job["graph"]), ["net", "out", "guess"])
            self.assertEqual(job["graph"]["out"]["op"], "relu")
            self.assertNotIn("note", job["graph"]["net"])
        resolved = core_yaml.load(self.call("flowc", "config", "main.yaml").stdout)["jobs"]["eval"]["graph"]
        self.assertEqual(resolved["net"], {"op": "dense", "in": "x", "units": 3, "trainable": False})
        self.assertEqual(resolved["guess"], {"op": "argmax", "in": "out"})

    def test_a_wrong_file_is_told_and_not_written(self):
        self.write("wrong.yaml", "flow: 1\njobs: {j: {type: predict, graph: {y: {op: rleu, in: 1}}}}\n")
        done = self.call("flowc", "config", "wrong.yaml", "-o", "out.yaml", status=2)
        self.assertIn("did you mean `relu`?", done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertFalse((self.dir / "out.yaml").exists())


if __name__ == "__main__":
    unittest.main()
