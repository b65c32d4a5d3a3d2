"""ONNX's windows and layers, for onnx_ops.TABLE. What layers have as variables, ONNX gives them as operands."""
import numpy as np

from onnx_ops import Left, operator


def window(n, size):
    """(name of the op's end: 1d or 2d, attributes of its windows)."""
    if len(size) > 2:
        raise Left("windows of three dimensions")
    dimensions = len(size)
    return f"{dimensions}d", {"strides": n.take("strides", [1] * dimensions), "padding": padding(n, dimensions)}


def padding(n, dimensions):
    automatic = n.take("auto_pad", "NOTSET")
    pads = n.take("pads", [0] * 2 * dimensions)
    return automatic.lower() if automatic != "NOTSET" else [list(pair) for pair in zip(pads[:dimensions], pads[dimensions:])]


def weights(n, first=1):
    """A layer's weight and bias."""
    return {"weight": n.value(first), **({"bias": n.value(first + 1)} if n.has(first + 1) else {})}


@operator("Conv")
def convolution(n):
    weight = n.value(1)
    size = list(weight.shape[2:])
    n.take("kernel_shape")
    kind, attributes = window(n, size)
    return n.add(f"conv{kind}", n.operand(0), weights(n), filters=weight.shape[0], kernel_size=size, groups=n.take("group", 1),
                 dilation_rate=n.take("dilations", [1] * len(size)), use_bias=n.has(2), **attributes)


@operator("ConvTranspose")
def transposed(n):
    weight = n.value(1)
    size, image = list(weight.shape[2:]), n.tensor(0).shape[2:]
    if len(size) != 2:
        raise Left("ConvTranspose: images alone")
    n.take("kernel_shape")
    groups, dilations = n.take("group", 1), n.take("dilations", [1, 1])
    added, asked = n.take("output_padding", [0, 0]), n.take("output_shape")
    _, attributes = window(n, size)
    if asked:
        reach = [(i - 1) * s + d * (k - 1) + 1 + a for i, s, d, k, a in zip(image, attributes["strides"], dilations, size, added)]
        over = [r - o for r, o in zip(reach, asked)]
        if min(over) < 0:
            raise Left("ConvTranspose: more is asked for than windows reach")
        attributes["padding"] = [[o - o // 2, o // 2] for o in over]
    return n.add("conv2d_transpose", n.operand(0), weights(n), filters=weight.shape[1] * groups, kernel_size=size, groups=groups,
                 dilation_rate=dilations, output_padding=added, use_bias=n.has(2), **attributes)


@operator("MaxPool", "AveragePool")
def pool(n):
    size = n.take("kernel_shape")
    kind, attributes = window(n, size)
    if n.take("ceil_mode", 0):
        raise Left("pools: windows lie whole within what is padded")
    if not n.tensor(0).dtype.startswith("float"):
        raise Left("pools: floats alone")
    if any(d != 1 for d in n.take("dilations", [1])):
        raise Left("MaxPool: windows have no holes")
    if n.take("count_include_pad", 0) and np.any(attributes["padding"]):
        raise Left("AveragePool: padding does not count")
    n.take("storage_order")
    op = {"MaxPool": "max_pool", "AveragePool": "avg_pool"}[n.proto.op_type]
    return n.add(op + kind, n.operand(0), ksize=size, **attributes)


@operator("GlobalAveragePool")
def global_average(n):
    return n.add("global_avg_pool", n.operand(0), keepdims=True)


@operator("GlobalMaxPool")
def global_max(n):
    return n.add("reduce_max", n.operand(0), axis=list(range(2, len(n.tensor(0).shape))), keepdims=True)


@operator("BatchNormalization")
def batch_normalization(n):
    if n.take("training_mode", 0):
        raise Left("BatchNormalization: batch statistics belong to train jobs")
    for unused in ("momentum", "is_test", "spatial"):
        n.take(unused)
    names = ["gamma", "beta", "moving_mean", "moving_variance"]
    return n.add("batch_normalization", n.operand(0), {name: n.value(i + 1) for i, name in enumerate(names)}, epsilon=n.take("epsilon", 1e-5))


@operator("InstanceNormalization")
def instance_normalization(n):
    return n.add("group_norm", n.operand(0), {"gamma": n.value(1), "beta": n.value(2)}, groups=n.tensor(0).shape[1], epsilon=n.take("epsilon", 1e-5))


@operator("LayerNormalization")
def layer_normalization(n):
    return n.add("layer_norm", n.operand(0), {"gamma": n.value(1), "beta": n.value(2)}, axis=n.take("axis", -1), epsilon=n.take("epsilon", 1e-5))


@operator("Dropout")
def dropout(n):
    n.take("seed")
    if n.has(2) and n.value(2):
        raise Left("Dropout: other random numbers")
    rate = float(n.take("ratio", n.value(1, 0.5)))
    return n.add("dropout", n.operand(0), rate=rate)
