"""What the golden steps share: data, names, initial values, and how large arrays are cut down."""
import gzip, os
import numpy as np
import flow_random as R

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..")
MNIST = os.path.join(HERE, "..", "..", "..", "..", "jobs", "data", "mnist")
BATCH, SEED, LR = 100, 1, 0.1
KERNELS = {
    "lenet": {"conv1": (32, 1, 5, 5), "conv2": (64, 32, 5, 5), "dense1": (512, 3136), "dense2": (10, 512)},
    "mlp": {"hidden": (512, 784), "output": (10, 512)},
}


def mnist(part, first, rows):
    with gzip.open(f"{MNIST}/{part}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)[first:first + rows]
    with gzip.open(f"{MNIST}/{part}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(), np.uint8, offset=8)[first:first + rows]
    return (x * (1 / 255)).astype(np.float32), y.astype(np.int32)


def initial(net):
    """{"lenet/conv1/weight": float32 array, ...}: truncated normal of deviation 0.1, biases zero."""
    values = {}
    for layer, shape in KERNELS[net].items():
        name = f"{net}/{layer}"
        values[name + "/weight"] = R.truncated_normal(SEED, name + "/weight", shape, 0.1)
        values[name + "/bias"] = np.zeros(shape[0], np.float32)
    return values


def keep_mask(net, step):
    return R.dropout_keep(SEED, "lenet/drop", step, (BATCH, 512), 0.5) if net == "lenet" else None


def cut(a):
    """Arrays of more than 60,000 elements are kept as row sums, column sums (of the 2-D view) and every 401st element."""
    if a.size <= 60000:
        return {"": a}
    m = a.reshape(a.shape[0], -1)
    return {"_rowsum": m.sum(1, dtype=np.float64), "_colsum": m.sum(0, dtype=np.float64), "_every401": m.reshape(-1)[::401].copy()}


def load(net):
    """The arrays of its archive, by their names."""
    with np.load(os.path.join(OUT, net + ".npz")) as file:
        return dict(file)


def save(net, arrays):
    np.savez(os.path.join(OUT, net + ".npz"), **arrays)


def add(arrays, name, a):
    """Adds an array, or the parts to which it is cut down."""
    for suffix, part in cut(np.asarray(a)).items():
        arrays[name + suffix] = part
