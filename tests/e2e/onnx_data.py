"""The cases of ONNX's operator tests (Debian's libonnx-testdata), each as entries of a job file.

A case is a model of one node or a few, its inputs and the outputs that are expected of it. What the cases' graphs
compute, their job file computes: nodes by way of onnx_ops, inputs that a node takes as attributes by their values,
those that a layer takes as its variables by way of a checkpoint.
"""
import json
import pathlib
import re

import numpy as np
import onnx
from onnx import helper, numpy_helper

import onnx_layers  # noqa: F401, they fill onnx_ops.TABLE
import onnx_ops
import onnx_shapes  # noqa: F401
from onnx_ops import Left, dtype_name

DATA = pathlib.Path("/usr/share/libonnx-testdata/data")


class Tensor:
    """A tensor of a case: its shape and dtype, its value where that is known before the run, how the job file refers to it."""

    def __init__(self, dtype, shape, array=None, reference=None):
        self.dtype, self.shape, self.array, self.reference = dtype, shape, array, reference

    @staticmethod
    def read(proto):
        if isinstance(proto, pathlib.Path):
            proto = onnx.load_tensor(proto)
        array = numpy_helper.to_array(proto)
        return Tensor(dtype_name(proto.data_type), array.shape, array)


class Node:
    """A node of a case's graph, as the functions of onnx_ops see it."""

    def __init__(self, case, proto, opset):
        self.case, self.proto, self.opset = case, proto, opset
        self.attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
        self.outputs = len(proto.output)

    def take(self, name, default=None):
        """An attribute. Those that nobody takes are ones that the language does not have."""
        value = self.attributes.pop(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def has(self, i):
        return i < len(self.proto.input) and self.proto.input[i] != ""

    def tensor(self, i):
        return self.case.tensors[self.proto.input[i]]

    def value(self, i, default=None):
        """An operand that the job file must know."""
        if not self.has(i):
            return default
        if self.tensor(i).array is None:
            raise Left(f"{self.proto.op_type}: operand {i + 1} is known only in the run")
        return self.tensor(i).array

    def operand(self, i):
        tensor = self.tensor(i)
        if not self.proto.op_type.startswith("Cast"):
            self.case.wide |= tensor.dtype == "float64"
            if tensor.dtype in ("float16", "bfloat16"):
                raise Left(f"{tensor.dtype} is converted, not computed with")
        return self.case.refer(tensor)

    def operands(self):
        return [self.operand(i) for i in range(len(self.proto.input))]

    def add(self, op, operands=(), variables=None, **rest):
        """Adds an entry; its name. `operands`: one, a list for `in:`, or a mapping of those that have names."""
        name = self.case.fresh()
        named = operands if isinstance(operands, dict) else {"in": operands} if operands != () else {}
        self.case.entries[name] = {"op": op, **named, **rest}
        self.case.variables.update({f"{name}/{key}": value for key, value in (variables or {}).items()})
        return name


class Case:
    """One case. Raises Left, with the reason, where the language cannot say it."""

    def __init__(self, folder):
        self.name = f"{folder.parent.name}/{folder.name.removeprefix('test_')}"
        self.prefix = re.sub(r"\W", "_", self.name)
        self.inputs, self.entries, self.variables, self.results = {}, {}, {}, []
        self.missing = []       # outputs that ours have no results for
        self.wide = False       # it has float64 operands, which are those of float64 jobs
        model = onnx.load(folder / "model.onnx")
        opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
        self.tensors = self.known_tensors(model, folder)
        for proto in model.graph.node:
            self.translate(Node(self, proto, opset))
        for i, info in enumerate(model.graph.output):
            tensor = self.tensors.get(info.name)
            if tensor and tensor.reference is None:
                raise Left("nothing is computed")
            if tensor:
                self.results.append((tensor.reference, Tensor.read(folder / "test_data_set_0" / f"output_{i}.pb")))
            else:
                self.missing.append(info.name)
        if any(0 in tensor.shape for tensor in [*self.inputs.values(), *(expected for _, expected in self.results)]):
            raise Left("an empty tensor")

    @staticmethod
    def known_tensors(model, folder):
        for op in (node.op_type for node in model.graph.node):
            if op not in onnx_ops.TABLE:
                raise Left(f"no op is {op}")
        for info in [*model.graph.input, *model.graph.output]:
            if info.type.WhichOneof("value") != "tensor_type":
                raise Left("no sequences, no optional tensors")
        tensors = {t.name: Tensor.read(t) for t in model.graph.initializer}
        given = [info.name for info in model.graph.input if info.name not in tensors]
        for i, name in enumerate(given):
            tensors[name] = Tensor.read(folder / "test_data_set_0" / f"input_{i}.pb")
        for info in onnx.shape_inference.infer_shapes(model).graph.value_info:
            shape = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
            tensors[info.name] = Tensor(dtype_name(info.type.tensor_type.elem_type), shape)
        for info in model.graph.output:
            tensors.pop(info.name, None)
        return tensors

    def fresh(self):
        return f"{self.prefix}__{len(self.entries) + len(self.inputs)}"

    def refer(self, tensor):
        """The name of a tensor in the job file. What is known becomes an input where it is first referred to."""
        if tensor.reference is None:
            tensor.reference = self.fresh()
            self.inputs[tensor.reference] = tensor
        return tensor.reference

    def translate(self, node):
        results = onnx_ops.TABLE[node.proto.op_type](node)
        if node.attributes:
            raise Left(f"{node.proto.op_type}: no attribute {min(node.attributes)}")
        for name, result in zip(node.proto.output, results if isinstance(results, list) else [results]):
            if isinstance(result, np.ndarray):
                self.tensors[name] = Tensor.read(numpy_helper.from_array(result))
            elif result is not None:
                inferred = self.tensors.get(name, Tensor(None, None))
                self.tensors[name] = Tensor(inferred.dtype, inferred.shape, reference=result)


def read_cases():
    """All cases, and the reason of each that is left: {name: Case or text}."""
    cases = {}
    for path in sorted(DATA.glob("*/*/model.onnx")):
        try:
            case = Case(path.parent)
            cases[case.name] = case
        except Left as left:
            cases[f"{path.parent.parent.name}/{path.parent.name.removeprefix('test_')}"] = str(left)
    return cases


def fnv1a64(data):
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return state


def write_checkpoint(folder, variables):
    """A checkpoint of these arrays, which `flowrun --load` reads."""
    sums = {}
    for name, array in variables.items():
        path = folder / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array)
        sums[f"{name}.npy"] = f"{fnv1a64(path.read_bytes()):016x}"
    record = {"also": {}, "checksums": sums, "epoch": 0, "job": "onnx", "plan_hash": "", "resume_hash": "", "row": 0, "seed": 0, "step": 0, "version": 1}
    (folder / "checkpoint.json").write_text(json.dumps(record))


def write_job(folder, cases):
    """job.yaml, whose job `onnx` computes all cases, with its inputs and, in ckpt/, its variables."""
    inputs, entries, variables, results = {}, {}, {}, []
    for case in cases:
        for name, tensor in case.inputs.items():
            np.save(folder / f"{name}.npy", tensor.array)
            inputs[name] = {"shape": list(tensor.shape), "dtype": tensor.dtype, "rows": False, "from": {"npy": f"{name}.npy"}}
        entries.update(case.entries)
        variables.update(case.variables)
        results += [name for name, _ in case.results]
    write_checkpoint(folder / "ckpt", variables)
    job = {"type": "predict", "inputs": inputs, "graph": entries, "returns": {"value": results, "to": "npy"}}
    # JSON is YAML; a comment before it, for a file that begins with a brace is a plan.
    (folder / "job.yaml").write_text("# Cases of ONNX\n" + json.dumps({"flow": 1, "jobs": {"onnx": job}}, indent=1))
