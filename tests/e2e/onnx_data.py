"""The cases of ONNX's operator tests (Debian's libonnx-testdata): models of one node or a few, their inputs and the outputs expected of them."""
import pathlib
import re

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

DATA = pathlib.Path("/usr/share/libonnx-testdata/data")


class Left(Exception):
    """Why a case is left out."""


def read_tensor(path):
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        array = numpy_helper.to_array(tensor)
    except Exception as error:
        raise Left("no sequences, no optional tensors") from error
    return array


class Case:
    """A case whose model is written with the values of some inputs in it: `fixed`, first none, then all but the first, then all."""

    def __init__(self, folder):
        self.name = f"{folder.parent.name}/{folder.name.removeprefix('test_')}"
        self.model = onnx.load(folder / "model.onnx")
        known = {tensor.name for tensor in self.model.graph.initializer}
        given = [info.name for info in self.model.graph.input if info.name not in known]
        if any(info.type.tensor_type.elem_type == TensorProto.BFLOAT16 for info in [*self.model.graph.input, *self.model.graph.output]):
            raise Left("NumPy has no bfloat16")
        data = folder / "test_data_set_0"
        self.inputs = {name: read_tensor(data / f"input_{i}.pb") for i, name in enumerate(given)}
        self.outputs = {info.name: read_tensor(data / f"output_{i}.pb") for i, info in enumerate(self.model.graph.output)}
        if re.search("(blackman|hamming|hann)window.*_expanded", self.name):
            raise Left("ONNX computed the output with 3.1415 as pi")
        if self.name.endswith("gridsample_bicubic"):
            raise Left("ONNX rounded the output to four digits")
        if "bernoulli" in self.name:
            raise Left("the output is random")
        if any(0 in array.shape for array in self.outputs.values()):
            raise Left("an empty tensor")

    def write_defaults(self, path, fixed):
        """The same, with the attributes written out that have default values; operators, versions and names of these."""
        model, added = onnx.ModelProto(), set()
        model.CopyFrom(self.model)
        versions = {opset.domain: opset.version for opset in model.opset_import}
        for node in model.graph.node:
            if not onnx.defs.has(node.op_type, node.domain):
                continue
            schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
            written = {attribute.name for attribute in node.attribute}
            for name, attribute in schema.attributes.items():
                if attribute.default_value.name and name not in written:
                    node.attribute.append(attribute.default_value)
                    added.add((node.op_type, schema.since_version, name))
        self.write(path, fixed, model)
        return added

    def write(self, path, fixed, of=None):
        model = onnx.ModelProto()
        model.CopyFrom(of or self.model)
        names = list(self.inputs)[:len(self.inputs) - fixed] if fixed < len(self.inputs) else []
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in self.inputs.items() if name not in names)
        path.write_bytes(model.SerializeToString())
        return {name: self.inputs[name] for name in names}

    def attempts(self):
        """How many of the last inputs to fix, from the least."""
        return sorted({0, max(0, len(self.inputs) - 1), len(self.inputs)})


def folders():
    return [path.parent for path in sorted(DATA.glob("*/*/model.onnx"))]


def legal(name):
    """The name as flowc makes it legal, but for words that are reserved."""
    name = re.sub(r"[^A-Za-z0-9]", "_", name)
    return f"t{name}" if not name or name[0].isdigit() else name
