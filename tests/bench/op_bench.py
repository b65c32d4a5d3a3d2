#!/usr/bin/env python3
"""Milliseconds of single ops beside PyTorch, at the sizes of the jobs in jobs/.

Usage: tests/bench/op_bench.py [--torch PYTHON] [--threads N] [--rounds N] [--only TEXT]

Columns: forward alone, then forward and backward. Medians over the rounds, in which the contestants take turns. What PyTorch adds
to a call (some 5 us of Python and dispatch) is in its figures, as it is in a user's program.
Of ours, what is backward is the gradient of sum(y * dy): a product and a sum over the result that PyTorch, which is handed dy, does
not make, and which are most of the time of an op that only moves or adds.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

from train_bench import BIN, OPENBLAS, has_torch, openblas_core

HERE = pathlib.Path(__file__).resolve().parent

# (call of ours, PyTorch's expression over a, b, c, ..., which are its operands)
CALLS = [
    ("matmul(f32[2048,64], f32[192,64]) transpose_b=true", "a @ b.T"),
    ("matmul(f32[2048,64], f32[128,64]) transpose_b=true", "a @ b.T"),
    ("scaled_dot_product_attention(f32[32,4,64,16], f32[32,4,64,16], f32[32,4,64,16]) causal=true", "attention(a, b, c)"),
    ("scaled_dot_product_attention(f32[8,8,256,64], f32[8,8,256,64], f32[8,8,256,64]) causal=true", "attention(a, b, c)"),
    ("scaled_dot_product_attention(f32[1,8,1024,64], f32[1,8,1024,64], f32[1,8,1024,64]) causal=true", "attention(a, b, c)"),
    ("convolution(f32[100,16,28,28], f32[16,16,3,3]) strides=[1,1] padding=[1,1,1,1] dilation=[1,1] groups=1", "F.conv2d(a, b, padding=1)"),
    ("convolution(f32[100,64,14,14], f32[64,64,3,3]) strides=[1,1] padding=[1,1,1,1] dilation=[1,1] groups=1", "F.conv2d(a, b, padding=1)"),
    ("convolution(f32[100,1,28,28], f32[32,1,5,5]) padding=same", "F.conv2d(a, b, padding=2)"),
    ("convolution(f32[100,32,14,14], f32[64,32,5,5]) padding=same", "F.conv2d(a, b, padding=2)"),
    ("convolution(f32[100,16,28,28], f32[32,16,3,3]) strides=[2,2] padding=[1,1,1,1]", "F.conv2d(a, b, stride=2, padding=1)"),
    ("convolution(f32[100,16,28,28], f32[32,16,1,1]) strides=[2,2] padding=[0,0,0,0]", "F.conv2d(a, b, stride=2)"),
    ("batch_norm(f32[100,16,28,28], f32[16], f32[16])", "F.batch_norm(a, None, None, b, c, True)"),
    ("batch_norm(f32[100,128,4,4], f32[128], f32[128])", "F.batch_norm(a, None, None, b, c, True)"),
    ("layer_normalize(f32[32,64,64], f32[64], f32[64]) axis=2", "F.layer_norm(a, (64,), b, c)"),
    ("group_normalize(f32[8,64,56,56], f32[64], f32[64]) groups=8", "F.group_norm(a, 8, b, c)"),
    ("max_pool2d(f32[100,32,28,28]) ksize=2", "F.max_pool2d(a, 2)"),
    ("avg_pool2d(f32[100,64,28,28]) ksize=[2,2]", "F.avg_pool2d(a, 2)"),
    ("dropout(f32[100,512]) rate=0.5", "F.dropout(a, 0.5)"),
    ("add(f32[100,64,28,28], f32[100,64,28,28])", "a + b"),
    ("add(f32[32,64,64], f32[64,64])", "a + b"),
    ("subtract(f32[100,128], f32[100,128])", "a - b"),
    ("multiply(f32[100,128], f32[100,128])", "a * b"),
    ("relu(f32[100,64,28,28])", "F.relu(a)"),
    ("leaky_relu(f32[100,784]) alpha=0.2", "F.leaky_relu(a, 0.2)"),
    ("gelu(f32[2048,256])", "F.gelu(a)"),
    ("tanh(f32[100,784])", "torch.tanh(a)"),
    ("sigmoid(f32[100,784])", "torch.sigmoid(a)"),
    ("square(f32[100,128])", "torch.square(a)"),
    ("softmax(f32[2048,128])", "torch.softmax(a, -1)"),
    ("log_softmax(f32[2048,128])", "torch.log_softmax(a, -1)"),
    ("sparse_softmax_cross_entropy_with_logits(i64[2048], f32[2048,128])", "F.cross_entropy(b, a, reduction='none')"),
    ("sigmoid_cross_entropy_with_logits(f32[100,784], f32[100,784])", "F.binary_cross_entropy_with_logits(b, a, reduction='none')"),
    ("reduce_sum(f32[2048,256]) axis=1", "a.sum(1)"),
    ("reduce_mean(f32[100,64,28,28]) axis=[0,2,3]", "a.mean((0, 2, 3))"),
    ("argmax(f32[100,10])", "a.argmax(-1)"),
    ("transpose(f32[32,64,3,4,16]) perm=[2,0,3,1,4]", "a.permute(2, 0, 3, 1, 4).contiguous()"),
    ("transpose(f32[32,4,64,16]) perm=[0,2,1,3]", "a.permute(0, 2, 1, 3).contiguous()"),
    ("slice(f32[32,64,192]) index=[:,:,64:128]", "a[:, :, 64:128].contiguous()"),
    ("gather(f32[128,64], i64[32,64])", "a[b]"),
]

TORCH = """
import math, statistics, sys, time
import torch, torch.nn.functional as F
torch.set_num_threads(int(sys.argv[1]))
torch.set_flush_denormal(True)

def attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = (q @ k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1]))
    return torch.softmax(scores + HIDDEN[q.shape[-2]], -1) @ v

HIDDEN = {n: torch.full((n, n), -math.inf).triu(1) for n in (64, 256, 1024)}

def operand(text):
    dtype, shape = text.split("[")
    shape = [int(n) for n in shape.split(",")]
    return torch.rand(shape).mul(2).sub(1).requires_grad_() if dtype == "f32" else torch.randint(0, 10, shape)

def milliseconds(run):
    times, end = [], time.perf_counter() + 0.25
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)

for call, expression in zip(sys.argv[2::2], sys.argv[3::2]):
    operands = [operand(text) for text in call[call.index("(") + 1:call.index(")")].rstrip("]").split("], ")]
    f = eval("lambda a=None, b=None, c=None: " + expression)
    wanted = [x for x in operands if x.requires_grad]
    with torch.no_grad():
        forward, y = milliseconds(lambda: f(*operands)), f(*operands)
    if y.is_floating_point():
        dy = torch.rand_like(y)
        print(forward, milliseconds(lambda: torch.autograd.grad(f(*operands), wanted, dy)))
    else:
        print(forward, forward)
"""


def figures(words, env=None):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [tuple(map(float, line.split())) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", default="/usr/bin/python3")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="calls that contain this text")
    options = parser.parse_args()
    calls = [call for call in CALLS if options.only in call[0]]
    torch = has_torch(options.torch)
    env = {"LD_LIBRARY_PATH": OPENBLAS + ":" + os.environ.get("LD_LIBRARY_PATH", ""), "OMP_NUM_THREADS": str(options.threads),
           "OPENBLAS_CORETYPE": openblas_core()}
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(figures([BIN / "op_bench", options.threads, *(call for call, _ in calls)]))
        if torch:
            theirs.append(figures([options.torch, "-c", TORCH, options.threads, *(word for call in calls for word in call)], env))
    print(f"{'ms: forward, both':18} {'PyTorch':18} call")
    for i, (call, _) in enumerate(calls):
        columns = []
        for rounds in (ours, theirs):
            pair = [statistics.median(one[i][k] for one in rounds) for k in (0, 1)] if rounds else []
            columns.append(" ".join(f"{ms:8.3f}" for ms in pair))
        print(f"{columns[0]:18} {columns[1]:18} {call}")


if __name__ == "__main__":
    main()
