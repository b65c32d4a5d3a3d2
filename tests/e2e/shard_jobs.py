"""A job with everything that shards and ranks compute, and its data."""
import numpy as np

# A normalization, dropout on rows and on another axis, clipping, LAMB, hooks of every kind, a called job.
TEMPLATE = """flow: 1
seed: 11
vars: {shards: 8, precision: float32, also: eval}
data: {d: {x: {npy: x.npy}, label: {npy: label.npy}}}
networks:
  net:
    inputs: [x]
    graph:
      conv:   {op: conv2d, in: x, filters: 3, kernel_size: 3, padding: same}
      normal: {op: NORMALIZATION}
      active: {op: relu}
      drop:   {op: dropout, rate: 0.3}
      flat:   {op: flatten}
      turned: {op: transpose, perm: [1, 0]}
      drop2:  {op: dropout, rate: 0.1}
      back:   {op: transpose, perm: [1, 0]}
      hidden: {op: dense, units: HIDDEN, activation: tanh, kernel_regularizer: {l2: 0.01}}
      wide:   {op: dense, units: WIDE}
      logits: {op: dense, units: 4}
    output: logits
jobs:
  train:
    type: train
    shards: $shards
    precision: $precision
    inputs:
      x: {shape: [BATCH, 2, 6, 5], dtype: float32, from: d.x}
      label: {shape: [BATCH], dtype: int32, from: d.label}
    graph:
      n:      {op: net, in: x}
      loss:   {op: sparse_softmax_cross_entropy_with_logits, labels: label, logits: n}
      guess:  {op: argmax, in: n}
      same:   {op: equal, in: [guess, label]}
      hit:    {op: cast, dtype: float32}
    optimizer:
      type: lamb
      learning_rate: 0.05
      minimize: loss
      grad_clipping: {type: by_global_norm, clip_norm: 1}
    returns: {type: "Dict[str, Numpy]", value: {logits: n, loss: loss}}
    hooks:
      - {watch: n/conv, to: npy}
      - {watch: n/turned, to: npy}
      - {watch: x, to: npy}
      - {watch_diff: n/conv/weight, to: npy, steps: "1..3"}
      - {watch_diff: n/hidden, to: npy}
      - {watch: hit, to: {type: print, reduce: mean, over: epoch}}
      - {watch: hit, to: {type: command, run: [sh, -c, "cat > hit.events; env | grep -cE '^(OMPI|PMI|PMIX)_' > hit.env || true"]}}
    run: {epochs: 2, shuffle: true, also: [{job: $also, every: {epochs: 1}}]}
  eval:
    type: predict
    precision: $precision
    inputs:
      x: {shape: [12, 2, 6, 5], dtype: float32, from: d.x}
    graph: {n: {op: net, in: x}}
    returns: {value: n, to: npy}
"""


def job_text(batch, hidden, wide, normalization):
    """`batch`: rows of a step; `hidden`, `wide`: units of layers; `normalization`: the op behind the convolution."""
    values = {"BATCH": batch, "HIDDEN": hidden, "WIDE": wide, "NORMALIZATION": normalization}
    text = TEMPLATE
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


# With gradients of several buckets.
JOB = job_text(batch=48, hidden=70, wide=600, normalization="batch_normalization")


def write_data(folder, rows=240):
    """What the job reads."""
    random = np.random.default_rng(1)
    np.save(folder / "x.npy", random.uniform(-1, 1, (rows, 2, 6, 5)).astype(np.float32))
    np.save(folder / "label.npy", random.integers(0, 4, rows).astype(np.int32))
