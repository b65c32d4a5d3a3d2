"""An independent validator goes by the schemas: jobs and plans are valid, and of what the compiler refuses, what a schema
can know is refused by the schema too, in the same lines."""
import json
import re
import unittest

import core_yaml
import jsonschema
import yaml

from flow import JOBS, SOURCE, FlowTest

SCHEMAS = SOURCE / "schemas"
GOLDEN = SOURCE / "tests" / "golden"

# The diagnoses whose reasons stand in one place of the file as it is written.
KNOWN = {
    "E0119": "the version", "E0120": "unknown keys", "E0121": "missing keys", "E0122": "kinds", "E0123": "scalars",
    "E0124": "ranges", "E0125": "words", "E0201": "names", "E0202": "reserved names", "E0305": "attributes of ops",
    "E0306": "required attributes", "E0404": "ranges of rows", "E0407": "sources", "E0501": "return types",
    "E0505": "steps of hooks", "E0508": "commands", "E0601": "missing optimizers", "E0602": "optimizers of predict jobs",
    "E0608": "globs that exclude each other", "E0703": "placements", "E0704": "checkpoints of predict jobs",
}
# ... but for these lines, and why.
UNKNOWABLE = {
    "a number inside text": {("commands", 25), ("commands", 26), ("data_columns", 7), ("data_columns", 13), ("data_columns", 14), ("hooks_scope_wrong", 21)},
    "an escape": {("commands", 19)},
    "an order of numbers, how large one is": {("placement_machine", 12), ("placement_machine", 36), ("shards_number", 38), ("shards_number", 43)},
    "a device within two ranges": {("placement_machine", 48)},
    "an entry of what should be no list": {("file_dashes", 8)},
    "brackets within brackets": {("commands", 31), ("commands", 32), ("returns_types", 23), ("returns_types", 30)},
    "values of two keys": {("commands", 28), ("ops_elementwise", 12), ("optimizer_types", 65),
                           ("op_layers", 14), ("inputs_generators", 13),
                           ("inputs_generator_numbers", 24), ("graph_placement", 11), ("graph_placement", 21)},
    "what the job says": {("graph_placement", 10), ("graph_placement", 14), ("graph_placement", 15)},
    "the op's own rule": {("ops_elementwise", 24), ("losses", 14), ("losses", 110), ("op_resize", 13), ("op_resize", 14),
                          ("op_rope", 13), ("op_rope", 14), ("op_rope", 15), ("op_rope", 21), ("op_embedding_bag", 17)},
    "what `defaults` can supply": {("data_sources", 8), ("data_sources", 11)},
    "what a network takes": {("graph_params", 15), ("graph_params", 16)},
    "what a variable holds": {("graph_params", 7), ("file_checks", 7), ("vars_expressions", 14), ("vars_origin", 5), ("vars_origin", 9),
                              ("vars_several_uses", 8), ("vars_several_uses", 10), ("vars_several_uses", 11)},
    "numbers that YAML reads otherwise": {("scalars", 3), ("scalars", 13), ("inputs_range", 13)},
}


def validator(name):
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def leaves(errors):
    """The innermost reasons: those of alternatives stand inside of the error that none fits."""
    for error in errors:
        yield from leaves(error.context) if error.context else [error]


def mappings(node):
    """All mappings in a tree of JSON."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    if isinstance(node, dict):
        yield node
    for child in children:
        yield from mappings(child)


def node_at(node, path):
    """The node that a path of keys and positions leads to, and the key it stands at."""
    key = None
    for part in path:
        if isinstance(node, yaml.SequenceNode):
            key, node = None, node.value[part]
        else:
            key, node = next((k, v) for k, v in node.value if k.value == part)
    return key, node


def lines_of(error, root):
    """The lines that an editor underlines."""
    key, node = node_at(root, error.absolute_path)
    wrong = set()
    if error.validator == "additionalProperties":
        wrong = set(error.instance) - set(error.schema["properties"])
    elif "propertyNames" in error.absolute_schema_path:
        wrong = {error.instance}
    if wrong:
        return {k.start_mark.line + 1 for k, _ in node.value if k.value in wrong}
    return {mark.start_mark.line + 1 for mark in (key, node) if mark}


class Schemas(FlowTest):
    def test_every_job_is_valid(self):
        check = validator("job")
        for job in sorted(JOBS.glob("*.yaml")):
            check.validate(core_yaml.load(job.read_text()))

    def test_a_file_that_includes_others_leaves_out_what_they_say(self):
        part = "flow: 1\ninclude: [base.yaml]\njobs: {train: {graph: {conv1: {filters: 3}}, optimizer: {momentum: 0.9}}}\n"
        check = validator("job")
        check.validate(core_yaml.load(part))
        self.assertFalse(check.is_valid(core_yaml.load(part.replace("momentum: 0.9", "type: sgd, momentun: 0.9"))))
        self.assertFalse(check.is_valid(core_yaml.load(part.replace("include: [base.yaml]", ""))))

    def test_a_job_that_extends_another_leaves_out_what_that_says(self):
        job = """flow: 1
jobs:
  train: {type: train, inputs: {x: {shape: [4], dtype: float32}}, graph: {y: {op: square, in: x}}, optimizer: {type: sgd, learning_rate: 1, minimize: y}}
  eval: {type: predict, extends: train, inputs: {x: {shape: [8]}}, graph: {'~z': true, y: {op: abs}}}
"""
        check = validator("job")
        check.validate(core_yaml.load(job))
        for right, wrong in (("extends: train, ", ""), ("type: predict, ", ""), ("'~z': true", "'~z': 3"), ("shape: [8]", "shap: [8]"), ("type: train, inputs", "inputs")):
            self.assertFalse(check.is_valid(core_yaml.load(job.replace(right, wrong))), wrong)
        part = "flow: 1\ninclude: [base.yaml]\njobs: {'~eval': true, train: {optimizer: {'~momentum': true}, run: {'~epochs': true}}}\n"
        check.validate(core_yaml.load(part))
        self.assertFalse(check.is_valid(core_yaml.load(part.replace("include: [base.yaml]", ""))))

    def test_nothing_is_said_in_words_that_editors_misread(self):
        """yaml-language-server completes by the beginning of a condition's `const`, offers a line with all that an
        object both requires and describes, and shows the first description and title that it meets."""
        schema = json.loads((SCHEMAS / "job.schema.json").read_text())
        self.assertNotIn("title", schema)
        self.assertNotIn("description", schema["$defs"]["variable"])
        conditions = [at["if"] for at in mappings(schema) if "if" in at]
        self.assertGreater(len(conditions), 100)
        for condition in conditions:
            self.assertFalse(any("const" in at for at in mappings(condition)), condition)
        for name, call in schema["$defs"].items():
            if name.startswith("op_"):
                self.assertNotIn("required", call, name)

    def test_every_plan_is_valid(self):
        check = validator("plan")
        for job in sorted(JOBS.glob("*.yaml")):
            self.call("flowc", "build", job, "-o", "job.plan")
            check.validate(json.loads((self.dir / "job.plan").read_text()))

    def test_a_changed_plan_is_not(self):
        self.call("flowc", "build", JOBS / "mlp.yaml", "-o", "mlp.plan")
        plan = json.loads((self.dir / "mlp.plan").read_text())
        plan["jobs"][0]["run"]["shuffle"] = "yes"
        self.assertFalse(validator("plan").is_valid(plan))

    def test_what_a_schema_can_know_it_refuses_where_the_compiler_does(self):
        check = validator("job")
        seen, missed = set(), {}
        for golden in sorted([*GOLDEN.glob("errors/*.yaml"), *GOLDEN.glob("renderings/*.yaml")]):
            if golden.name.startswith("yaml_"):  # no YAML, no schema
                continue
            text = golden.read_text()
            rows = re.findall(r"^#\| (\d+):\d+-\S+ (E\d+) (.*)$", text, re.M)
            rendered = re.findall(rf"^#\| {re.escape(golden.name)}:(\d+):\d+: error: (.*) \[(E\d+)\]$", text, re.M)
            found = rows + [(line, code, message) for line, message, code in rendered]
            known = [(int(line), code, message) for line, code, message in found if code in KNOWN]
            if not known:
                continue
            root = yaml.compose(text, core_yaml.Loader)
            refused = set()
            for error in leaves(check.iter_errors(core_yaml.load(text))):
                refused |= lines_of(error, root)
            for line, code, message in known:
                seen.add(code)
                if line not in refused:
                    missed[(golden.stem, line)] = f"{message} [{code}]"
        excused = set().union(*UNKNOWABLE.values())
        self.assertEqual(missed.keys(), excused, {place: missed.get(place) for place in missed.keys() ^ excused})
        self.assertEqual(seen, set(KNOWN))


if __name__ == "__main__":
    unittest.main()
