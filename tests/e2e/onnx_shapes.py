"""ONNX's operators of shape, data and reductions, for onnx_ops.TABLE."""
import numpy as np
from onnx import numpy_helper

from onnx_ops import Left, operator


def integers(values):
    return [int(v) for v in np.reshape(values, -1)]


@operator("Constant")
def constant(n):
    for name, convert in (("value", numpy_helper.to_array), ("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
                          ("value_ints", np.int64)):
        if name in n.attributes:
            return np.asarray(convert(n.take(name)))
    raise Left(f"Constant: no attribute {min(n.attributes)}")


@operator("ConstantOfShape")
def constant_of_shape(n):
    value = n.take("value")
    value = numpy_helper.to_array(value)[0] if value is not None else np.float32(0)
    return n.add("constant", value=value.item(), shape=integers(n.value(0)), dtype=str(value.dtype))


@operator("Reshape")
def reshape(n):
    asked = integers(n.take("shape", n.value(1)))
    if n.take("allowzero", 0) == 0:
        asked = [n.tensor(0).shape[i] if extent == 0 else extent for i, extent in enumerate(asked)]
    return n.add("reshape", n.operand(0), shape=asked)


@operator("Flatten")
def flatten(n):
    axis, shape = n.take("axis", 1), n.tensor(0).shape
    if axis == 1 and len(shape) > 1:
        return n.add("flatten", n.operand(0))
    return n.add("reshape", n.operand(0), shape=[int(np.prod(shape[:axis], dtype=int)), -1])


@operator("Transpose")
def transpose(n):
    perm = n.take("perm")
    return n.add("transpose", n.operand(0), **({"perm": perm} if perm else {}))


@operator("Concat")
def concat(n):
    return n.add("concat", n.operands(), axis=n.take("axis"))


@operator("Split")
def split(n):
    sizes = n.take("split", n.value(1))
    parts = n.outputs if sizes is None else integers(sizes)
    name = n.add("split", n.operand(0), axis=n.take("axis", 0), parts=parts)
    return [f"{name}.out{i}" for i in range(n.outputs)]


def slice_text(start, end, step):
    """NumPy's text of a slice. ONNX says by huge numbers that it goes to the end."""
    return f"{start}:{'' if abs(end) >= 2**31 - 1 else end}:{step}"


@operator("Slice")
def slice_of(n):
    starts, ends = integers(n.take("starts", n.value(1))), integers(n.take("ends", n.value(2)))
    axes = integers(n.take("axes", n.value(3, np.arange(len(starts)))))
    steps = integers(n.value(4, np.ones(len(starts))))
    index = [":"] * len(n.tensor(0).shape)
    for axis, *cut in zip(axes, starts, ends, steps):
        index[axis] = slice_text(*cut)
    return n.add("slice", n.operand(0), index=f"[{', '.join(index)}]")


@operator("Pad")
def pad(n):
    pads = integers(n.take("pads", n.value(1)))
    value = n.take("value", n.value(2, 0))
    half = len(pads) // 2
    return n.add("pad", n.operand(0), paddings=[list(pair) for pair in zip(pads[:half], pads[half:])], mode=n.take("mode", "constant"),
                 value=float(value))


@operator("Squeeze")
def squeeze(n):
    axes = n.take("axes", n.value(1))
    return n.add("squeeze", n.operand(0), **({} if axes is None else {"axis": integers(axes)}))


@operator("Unsqueeze")
def unsqueeze(n):
    return n.add("expand_dims", n.operand(0), axis=integers(n.take("axes", n.value(1))))


@operator("Tile")
def tile(n):
    return n.add("tile", n.operand(0), multiples=integers(n.value(1)))


@operator("Gather")
def gather(n):
    if n.has(1) and n.tensor(1).array is not None and (n.tensor(1).array < 0).any():
        raise Left("Gather: negative indices stop the run")
    return n.add("gather", {"params": n.operand(0), "indices": n.operand(1)}, axis=n.take("axis", 0))


@operator("ScatterElements", "ScatterND")
def scatter(n):
    if n.take("reduction", "none") != "add":
        raise Left(f"{n.proto.op_type}: sums alone")
    shape, indices = n.tensor(0).shape, n.value(1)
    if n.proto.op_type == "ScatterND":
        axis, of_slices = 0, indices.shape[1:] == (1,)
    else:
        axis = n.take("axis", 0)
        of_slices = indices.size == indices.shape[axis] and np.prod(shape) == shape[axis]
    if not of_slices or (indices < 0).any():
        raise Left(f"{n.proto.op_type}: indices of slices, from 0 on")
    flat = n.add("reshape", n.operand(1), shape=[indices.size])
    return n.add("scatter_add", {"in": n.operand(0), "indices": flat, "updates": n.operand(2)}, axis=axis)


@operator("OneHot")
def one_hot(n):
    indices, depth, values = n.value(0), int(np.reshape(n.value(1), ())), n.value(2)
    if (indices < 0).any() or (indices >= depth).any():
        raise Left("OneHot: indices out of range stop the run")
    whole = n.operand(0) if n.tensor(0).dtype.startswith("int") else n.add("cast", n.operand(0), dtype="int64")
    hot = n.add("one_hot", whole, depth=depth, off_value=values[0].item(), on_value=values[1].item(), dtype=n.tensor(2).dtype)
    rank = indices.ndim + 1
    order = list(range(rank - 1))
    order.insert(n.take("axis", -1) % rank, rank - 1)
    return n.add("transpose", hot, perm=order)


@operator("Trilu")
def triangle(n):
    return n.add("triu" if n.take("upper", 1) else "tril", n.operand(0), diagonal=int(n.value(1, 0)))


@operator("CumSum")
def cumulative_sum(n):
    return n.add("cumsum", n.operand(0), axis=int(np.reshape(n.value(1), ())), exclusive=bool(n.take("exclusive", 0)),
                 reverse=bool(n.take("reverse", 0)))


@operator("TopK")
def top_k(n):
    if not n.take("largest", 1):
        raise Left("TopK: the largest alone")
    n.take("sorted")
    name = n.add("top_k", n.operand(0), k=int(np.reshape(n.take("k", n.value(1)), ())), axis=n.take("axis", -1))
    return [f"{name}.values", f"{name}.indices"]


@operator("ArgMax", "ArgMin")
def arg(n):
    if n.take("select_last_index", 0):
        raise Left("ArgMax: the first of equals alone")
    axis = n.take("axis", 0)
    name = n.add(n.proto.op_type.lower(), n.operand(0), axis=axis)
    return n.add("expand_dims", name, axis=axis % len(n.tensor(0).shape)) if n.take("keepdims", 1) else name


BEFORE = {"ReduceL1": "abs", "ReduceL2": "square", "ReduceSumSquare": "square"}
BEHIND = {"ReduceL2": "sqrt", "ReduceLogSum": "log"}
REDUCTIONS = {"ReduceMean": "reduce_mean", "ReduceMax": "reduce_max", "ReduceMin": "reduce_min", "ReduceProd": "reduce_prod",
              "ReduceLogSumExp": "logsumexp"}


@operator("ReduceSum", *BEFORE, *BEHIND, *REDUCTIONS)
def reduce(n):
    op = n.proto.op_type
    axes = n.take("axes", n.value(1))
    axes = [] if axes is None else integers(axes)
    if n.take("noop_with_empty_axes", 0) and not axes:
        raise Left("ReduceSum: no axes are all axes")
    result = n.add(BEFORE[op], n.operand(0)) if op in BEFORE else n.operand(0)
    result = n.add(REDUCTIONS.get(op, "reduce_sum"), result, keepdims=bool(n.take("keepdims", 1)), **({"axis": axes} if axes else {}))
    return n.add(BEHIND[op], result) if op in BEHIND else result
