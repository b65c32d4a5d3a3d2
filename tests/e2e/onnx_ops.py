"""ONNX's operators in the language's ops: TABLE[OPERATOR](node) adds entries, and returns the names of their results."""
import functools

from onnx import TensorProto

TABLE = {}

DTYPES = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64", TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16",
          TensorProto.INT8: "int8", TensorProto.INT32: "int32", TensorProto.INT64: "int64", TensorProto.UINT8: "uint8", TensorProto.BOOL: "bool"}


class Left(Exception):
    """Why a case is left out."""


def dtype_name(number):
    """The language's name of a tensor's dtype."""
    if number not in DTYPES:
        raise Left(f"dtype {TensorProto.DataType.Name(number).lower()}")
    return DTYPES[number]


def operator(*names):
    def enter(function):
        TABLE.update({name: function for name in names})
        return function
    return enter


ONE = {"Abs": "abs", "Neg": "negative", "Sign": "sign", "Round": "round", "Ceil": "ceil", "Floor": "floor", "Sqrt": "sqrt", "Erf": "erf", "Exp": "exp", "Log": "log", "Sin": "sin", "Cos": "cos", "Tanh": "tanh",
       "Sigmoid": "sigmoid", "Relu": "relu", "HardSwish": "hardswish", "Softplus": "softplus", "Softsign": "softsign", "Mish": "mish", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh",
       "Reciprocal": "reciprocal", "Not": "logical_not", "Identity": "identity"}
TWO = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Pow": "pow", "Greater": "greater", "GreaterOrEqual": "greater_equal",
       "Less": "less", "LessOrEqual": "less_equal", "Equal": "equal", "And": "logical_and", "Or": "logical_or", "Xor": "not_equal", "MatMul": "matmul"}
MANY = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


@operator(*ONE)
def one(n):
    return n.add(ONE[n.proto.op_type], n.operand(0))


@operator(*TWO)
def two(n):
    if n.proto.op_type == "Pow" and n.tensor(0).dtype != n.tensor(1).dtype:
        raise Left("Pow: operands of two dtypes")
    if n.proto.op_type == "Div" and not n.tensor(0).dtype.startswith("float"):
        raise Left("Div: integers are not divided")
    n.take("broadcast")
    return n.add(TWO[n.proto.op_type], [n.operand(0), at_axis(n)])


def at_axis(n):
    """The second operand; before opset 7 its axes stand from `axis` on."""
    axis = n.take("axis")
    behind = 0 if axis is None else len(n.tensor(0).shape) - axis - len(n.tensor(1).shape)
    return n.add("reshape", n.operand(1), shape=[*n.tensor(1).shape, *[1] * behind]) if behind else n.operand(1)


def joined(n, op):
    """All operands by an op of two."""
    return functools.reduce(lambda a, b: n.add(op, [a, b]), n.operands())


@operator(*MANY)
def many(n):
    return n.add("identity", joined(n, MANY[n.proto.op_type]))


@operator("Mean")
def mean(n):
    return n.add("divide", [joined(n, "add"), len(n.proto.input)])


@operator("LeakyRelu")
def leaky_relu(n):
    return n.add("leaky_relu", n.operand(0), alpha=n.take("alpha", 0.01))


@operator("Elu")
def elu(n):
    return n.add("elu", n.operand(0), alpha=n.take("alpha", 1.0))


@operator("Celu")
def celu(n):
    return n.add("celu", n.operand(0), alpha=n.take("alpha", 1.0))


@operator("HardSigmoid")
def hard_sigmoid(n):
    return n.add("hard_sigmoid", n.operand(0), alpha=n.take("alpha", 0.2), beta=n.take("beta", 0.5))


@operator("Shrink")
def shrink(n):
    bias, lambd = n.take("bias", 0.0), n.take("lambd", 0.5)
    if bias != lambd:
        raise Left("Shrink: bias is not lambd")
    return n.add("softshrink", n.operand(0), lambd=lambd)


@operator("Selu")
def selu(n):
    alpha, gamma = n.take("alpha", 1.67326319217681884765625), n.take("gamma", 1.05070102214813232421875)
    return n.add("multiply", [n.add("elu", n.operand(0), alpha=alpha), gamma])


@operator("ThresholdedRelu")
def thresholded_relu(n):
    return n.add("threshold", n.operand(0), threshold=n.take("alpha", 1.0))


@operator("PRelu")
def prelu(n):
    slope, channels = n.operand(1), n.tensor(1).shape
    if n.opset < 7 and channels != (1,):        # one for each channel, axis 1
        slope = n.add("reshape", slope, shape=[-1, *[1] * (len(n.tensor(0).shape) - 2)])
    below = n.add("multiply", [slope, n.add("minimum", [n.operand(0), 0])])
    return n.add("add", [n.add("relu", n.operand(0)), below])


@operator("Clip")
def clip(n):
    least, most = (n.take(name, n.value(i)) for i, name in ((1, "min"), (2, "max")))
    if n.tensor(0).dtype.startswith("float"):
        ends = {"min": least, "max": most}
        ends = {name: float(end) for name, end in ends.items() if end is not None}
        return n.add("clip_by_value", n.operand(0), **ends) if ends else n.add("identity", n.operand(0))
    result = n.operand(0)
    for op, end in (("maximum", least), ("minimum", most)):
        result = result if end is None else n.add(op, [result, int(end)])
    return n.add("identity", result)


@operator("Cast")
def cast(n):
    return n.add("cast", n.operand(0), dtype=dtype_name(n.take("to")))


@operator("CastLike")
def cast_like(n):
    return n.add("cast", n.operand(0), dtype=n.tensor(1).dtype)


@operator("Where")
def where(n):
    return n.add("where", {"condition": n.operand(0), "x": n.operand(1), "y": n.operand(2)})


@operator("Gemm")
def gemm(n):
    n.take("broadcast")
    alpha, beta = n.take("alpha", 1.0), n.take("beta", 1.0)
    product = n.add("matmul", [n.operand(0), n.operand(1)], transpose_a=bool(n.take("transA", 0)), transpose_b=bool(n.take("transB", 0)))
    scaled = n.add("multiply", [product, alpha])
    return n.add("add", [scaled, n.add("multiply", [n.operand(2), beta])]) if n.has(2) else scaled


@operator("Softmax", "LogSoftmax")
def softmax(n):
    rank = len(n.tensor(0).shape)
    axis = n.take("axis", -1 if n.opset >= 13 else 1)
    if n.opset < 13 and axis % rank != rank - 1:
        raise Left("Softmax: before opset 13 it joins the axes behind")
    return n.add({"Softmax": "softmax", "LogSoftmax": "log_softmax"}[n.proto.op_type], n.operand(0), axis=axis)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(n):
    if n.has(2):
        raise Left("SoftmaxCrossEntropyLoss: no weights of classes")
    if n.take("ignore_index") in n.value(1):
        raise Left("SoftmaxCrossEntropyLoss: every row counts")
    reduction = n.take("reduction", "mean")
    rank = len(n.tensor(0).shape)
    last = n.add("transpose", n.operand(0), perm=[0, *range(2, rank), 1])
    loss = n.add("sparse_softmax_cross_entropy_with_logits", {"labels": n.operand(1), "logits": last})
    if reduction != "none":
        loss = n.add(f"reduce_{reduction}", loss)
    return [loss, n.add("log_softmax", n.operand(0), axis=1)] if n.outputs > 1 else loss
