"""Jobs as the tests of ONNX run them: with random weights, on one batch, so that others can compute the same."""
import json
import subprocess

import numpy as np

LLAMA = ["vars.width=16", "vars.heads=4", "vars.inner=20", "vars.layers=2", "vars.vocabulary=23", "vars.context=8",
         "+jobs.predict.inputs.tokens.from={type: random_int, high: 23}"]
GPT2 = ["vars.width=16", "vars.layers=2", "vars.heads=2", "vars.context=8", "vars.vocabulary=50", "vars.batch=4"]
# What makes files of jobs/ small, and gives them data.
SETS = {
    "gpt2": [*GPT2, "+jobs.predict.inputs.tokens.from={type: random_int, high: 50}"],
    "llama": LLAMA,
    "bert_classify": ["vars.batch=3", "vars.width=12", "vars.heads=2", "vars.inner=20", "vars.layers=2", "vars.vocabulary=23", "vars.context=7", "vars.positions=9",
                      "jobs.predict.inputs.tokens.from={type: random_int, high: 23}", "jobs.predict.inputs.types.from={type: random_int, high: 2}",
                      "jobs.predict.inputs.lengths.from={type: random_int, low: 1, high: 8}"],
    "lora": GPT2,
    "lora_llama": LLAMA,
    # The noise is an input, because every program draws its own.
    "vae": ["+jobs.sample.inputs={noise: {shape: [$batch, $latent], dtype: float32, from: {type: random_normal}}}",
            "jobs.sample.graph.latent={op: identity, in: noise}"],
    # Values that a train job learns are given here.
    "images": ["vars.batch=2", "data.shapes.image.mean=0.5", "data.shapes.image.std=0.25", "+data.shapes.label.categories=[circle, square, triangle]"],
    "tabular": ["vars.batch=2", "data.houses.numbers.mean=60", "data.houses.numbers.std=30", "data.houses.numbers.missing=0",
                "data.houses.kind.categories=[apartment, cottage, farmhouse, villa]"],
    "text": [r'data.book.defaults.tokenizer={characters: "\n \",.:?ABFHIMNOPSTWYabcdefghiklmnopqrstuvwxy"}'],
    "vit": ["vars.batch=3", "vars.width=12", "vars.heads=2", "vars.inner=20", "vars.layers=2"],
}

DECISIONS = ("argmax", "equal", "greater", "greater_equal", "less", "less_equal")


def call(*words, cwd):
    """Runs a program; its standard output. RuntimeError with all that it said where it fails."""
    done = subprocess.run(list(map(str, words)), cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def sets_of(file):
    """The flags with which a file of jobs/ is tested."""
    return [word for value in SETS.get(file.stem, []) for word in ("--set", value)]


def predict_jobs(flowc, file, *flags):
    """Plans of the predict jobs of a file that have inputs and no loop, by name, with the tensors of each by name."""
    jobs = json.loads(call(flowc, "show", file, "--format", "json", *flags, cwd=file.parent))["jobs"]
    taken = [job for job in jobs if not job["train"] and job["inputs"] and "loop" not in job]
    return {job["name"]: {**job, "tensors": {one["name"]: one for one in job["tensors"]}} for job in taken}


def scores(job):
    """Entries of floats of which the job returns only a decision, such as logits behind classes: equal classes prove little."""
    made_by = {name: step["op"] for step in job["steps"] for name in step["outputs"]}
    compared = [name for step in job["steps"] if step["op"] in DECISIONS for name in step["inputs"]
                if job["tensors"][name]["dtype"] == "float32" and made_by.get(name, "fill") not in ("cast", "fill")]
    returned = json.dumps(job["returns"])
    return list(dict.fromkeys(name.split("/")[0] for name in compared if f'"{name}"' not in returned))


def random_weights(job, seed=1):
    """An array for each variable; those of batch normalization are as after training."""
    random = np.random.default_rng(seed)
    weights = {}
    for variable in job["variables"]:
        name = variable["tensor"]
        shape = job["tensors"][name]["shape"]
        positive = name.endswith(("variance", "gamma"))
        array = random.uniform(0.5, 1.5, size=shape) if positive else random.normal(size=shape) / np.sqrt(np.prod(shape[1:], dtype=int))
        weights[name] = array.astype(np.float32)
    return weights


def run_once(flowrun, file, job, out, *flags):
    """One batch of a job: the arrays of its inputs, and those that its model of ONNX gives: what it returns, or else what its hooks watch."""
    inputs = [one["tensor"] for one in job["inputs"]]
    watched = [hook["name"] for hook in job["hooks"]]
    names = list(dict.fromkeys([*inputs, *watched]))
    watches = [word for name in names for word in ("--watch", name)]
    returns = ["--set", f"jobs.{job['name']}.returns.to=npy"] if job["returns"] else []
    call(flowrun, job["name"], file, "-o", out, "--steps", 1, "--quiet", "--no-commands", *watches, *returns, *flags, cwd=out.parent)
    arrays = {name: np.load(out / "watch" / name / "value.npy").reshape(job["tensors"][name]["shape"]) for name in names}
    folder = out / "returns"
    returned = {path.parent.relative_to(folder).as_posix(): np.load(path) for path in sorted(folder.rglob("value.npy"))}
    return {name: arrays[name] for name in inputs}, returned or {name: arrays[name] for name in watched}


def distance(array, expected):
    """The largest difference, as a part of the largest magnitude; 0 where both are NaN or infinite alike."""
    array, expected = np.asarray(array, np.float64).reshape(np.shape(expected)), np.asarray(expected, np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(array[~finite], expected[~finite], equal_nan=True):
        return np.inf
    if not finite.any():
        return 0.0
    return float(np.abs(array - expected)[finite].max() / max(np.abs(expected[finite]).max(), 1e-30))


# An entry for each op that a model of ONNX can have, of all kinds of operands; x (6, 4), y (6, 4) in (0, 1], i (6, 5) and k (6,) integers,
# images (6, 4, 9, 8), m (6, 4) bools.
EVERY_OP = """flow: 1
jobs:
  ops:
    type: predict
    inputs:
      x: {shape: [6, 4], dtype: float32, from: {type: random_uniform, low: -3, high: 3}}
      y: {shape: [6, 4], dtype: float32, from: {type: random_uniform, low: 0.1, high: 0.9}}
      i: {shape: [6, 5], dtype: int32, from: {type: random_int, low: 0, high: 4}}
      k: {shape: [6], dtype: uint8, from: {type: random_int, low: 0, high: 4}}
      images: {shape: [6, 4, 9, 8], dtype: float32, from: {type: random_normal}}
      rows: {shape: [3, 4], dtype: float32, rows: false, from: {type: random_normal}}
    graph:
      m: {op: greater, in: [x, 0]}
      n: {op: less, in: [x, y]}
ENTRIES
    returns: {value: [RESULTS]}
"""
ENTRIES = """
      negative: {op: negative, in: x}
      abs: {op: abs, in: x}
      sign: {op: sign, in: x}
      square: {op: square, in: x}
      floor: {op: floor, in: x}
      ceil: {op: ceil, in: x}
      round: {op: round, in: x}
      trunc: {op: trunc, in: x}
      relu: {op: relu, in: x}
      relu6: {op: relu6, in: x}
      leaky_relu: {op: leaky_relu, in: x, alpha: 0.2}
      elu: {op: elu, in: x, alpha: 0.7}
      selu: {op: selu, in: x}
      celu: {op: celu, in: x, alpha: 0.7}
      gelu: {op: gelu, in: x}
      gelu_tanh: {op: gelu, in: x, approximate: tanh}
      silu: {op: silu, in: x}
      hardswish: {op: hardswish, in: x}
      mish: {op: mish, in: x}
      hard_sigmoid: {op: hard_sigmoid, in: x}
      log_sigmoid: {op: log_sigmoid, in: x}
      softsign: {op: softsign, in: x}
      softshrink: {op: softshrink, in: x}
      threshold: {op: threshold, in: x, threshold: 0.3, value: -2}
      softplus: {op: softplus, in: x}
      sigmoid: {op: sigmoid, in: x}
      tanh: {op: tanh, in: x}
      erf: {op: erf, in: x}
      exp: {op: exp, in: x}
      expm1: {op: expm1, in: x}
      log: {op: log, in: y}
      log1p: {op: log1p, in: y}
      sqrt: {op: sqrt, in: y}
      rsqrt: {op: rsqrt, in: y}
      reciprocal: {op: reciprocal, in: y}
      sin: {op: sin, in: x}
      cos: {op: cos, in: x}
      tan: {op: tan, in: y}
      asin: {op: asin, in: y}
      acos: {op: acos, in: y}
      atan: {op: atan, in: x}
      sinh: {op: sinh, in: x}
      cosh: {op: cosh, in: x}
      clip: {op: clip_by_value, in: x, min: -1, max: 0.5}
      clip_below: {op: clip_by_value, in: x, max: 0.5}
      add: {op: add, in: [x, y]}
      subtract: {op: subtract, in: [1, x]}
      multiply: {op: multiply, in: [x, y]}
      divide: {op: divide, in: [x, y]}
      pow: {op: pow, in: [y, x]}
      pow_u8: {op: pow, in: [k, k]}
      maximum: {op: maximum, in: [x, y]}
      minimum: {op: minimum, in: [x, 0.5]}
      mixed: {op: equal, in: [i, 2]}
      unequal: {op: not_equal, in: [k, narrow]}
      narrow: {op: cast, in: k, dtype: int8}
      greater_equal: {op: greater_equal, in: [x, y]}
      less_equal: {op: less_equal, in: [x, y]}
      both: {op: logical_and, in: [m, n]}
      either: {op: logical_or, in: [m, n]}
      neither: {op: logical_not, in: either}
      where: {op: where, condition: m, x: x, y: y}
      mse: {op: mse, in: [x, y]}
      l1: {op: l1, in: [x, y]}
      smooth: {op: smooth_l1, in: [x, y], beta: 0.5}
      binary_loss: {op: sigmoid_cross_entropy_with_logits, labels: y, logits: x}
      sparse_loss: {op: sparse_softmax_cross_entropy_with_logits, labels: k, logits: x}
      dense_loss: {op: softmax_cross_entropy_with_logits, labels: y, logits: x}
      reshape: {op: reshape, in: images, shape: [-1, 8, 36]}
      more_rows: {op: reshape, in: images, shape: [-1, 8]}
      flatten: {op: flatten, in: images}
      transpose: {op: transpose, in: images, perm: [2, 0, 3, 1]}
      concat: {op: concat, in: [x, y], axis: 1}
      stack: {op: stack, in: [x, y], axis: 1}
      split: {op: split, in: images, axis: 2, parts: [4, 5]}
      slice: {op: slice, in: images, index: "[:, 1, ::-2, 2:-1]"}
      added_axis: {op: slice, in: x, index: "[:, None, 1:]"}
      pad: {op: pad, in: x, paddings: [[0, 0], [1, 2]], value: -1.5}
      reflected: {op: pad, in: images, paddings: [[0, 0], [0, 0], [2, 1], [0, 3]], mode: reflect}
      tile: {op: tile, in: x, multiples: [1, 3]}
      flip: {op: flip, in: images, axis: [1, 3]}
      squeeze: {op: squeeze, in: more_axes, axis: 1}
      more_axes: {op: expand_dims, in: x, axis: 1}
      gather: {op: gather, params: rows, indices: i, axis: 1}
      embedding: {op: embedding, in: k, vocab_size: 5, units: 3}
      bag_sum: {op: embedding_bag, in: i, lengths: k, weights: bag_weights, vocab_size: 9, units: 3, mode: sum}
      bag_weights: {op: slice, in: images, index: "[:, 0, 0, 0:5]"}
      bag_mean: {op: embedding_bag, in: i, vocab_size: 9, units: 3, padding: 2}
      bag_max: {op: embedding_bag, in: i, lengths: k, padding: 1, vocab_size: 9, units: 3, mode: max}
      scatter: {op: scatter_add, in: x, indices: places, updates: y, axis: 1}
      places: {op: argmax, in: ones, axis: 0}
      ones: {op: constant, value: 1, shape: [3, 4]}
      one_hot: {op: one_hot, in: i, depth: 4, on_value: 0.9, off_value: 0.1}
      tril: {op: tril, in: images, diagonal: -1}
      triu: {op: triu, in: images, diagonal: 1}
      top: {op: top_k, in: x, k: 2}
      argmax: {op: argmax, in: images, axis: 2}
      argmin: {op: argmin, in: x}
      softmax: {op: softmax, in: images, axis: 1}
      log_softmax: {op: log_softmax, in: x}
      sum: {op: reduce_sum, in: images, axis: [1, 2]}
      sum_u8: {op: reduce_sum, in: bytes, axis: 1}
      bytes: {op: cast, in: i, dtype: uint8}
      mean: {op: reduce_mean, in: images, axis: [2, 3], keepdims: true}
      max: {op: reduce_max, in: images, axis: 3}
      min: {op: reduce_min, in: x, axis: 1}
      prod: {op: reduce_prod, in: x, axis: 1}
      any: {op: reduce_any, in: m, axis: 1}
      all: {op: reduce_all, in: m, axis: 1}
      logsumexp: {op: logsumexp, in: images, axis: [2, 3]}
      batch_mean: {op: reduce_mean, in: x}
      cumsum: {op: cumsum, in: images, axis: 2, exclusive: true}
      cumsum_i8: {op: cumsum, in: bytes, axis: 1, reverse: true}
      cumprod: {op: cumprod, in: images, axis: 2, exclusive: true}
      cumprod_back: {op: cumprod, in: x, axis: -1, reverse: true}
      cumprod_u8: {op: cumprod, in: bytes, axis: 1}
      matmul: {op: matmul, in: [images, images], transpose_b: true}
      product: {op: matmul, in: [x, rows], transpose_b: true}
      dense: {op: dense, in: images, units: 3, activation: relu}
      conv1d: {op: conv1d, in: lines, filters: 3, kernel_size: 3, padding: same}
      lines: {op: reshape, in: images, shape: [-1, 4, 72]}
      conv2d: {op: conv2d, in: images, filters: 6, kernel_size: [3, 2], strides: 2, padding: same, groups: 2, activation: tanh}
      dilated: {op: conv2d, in: images, filters: 2, kernel_size: 3, dilation_rate: 2, padding: [[1, 0], [2, 1]], use_bias: false}
      transposed: {op: conv2d_transpose, in: images, filters: 3, kernel_size: 3, strides: 2, padding: same, activation: relu}
      transposed2: {op: conv2d_transpose, in: images, filters: 2, kernel_size: 3, strides: 3, output_padding: 1, groups: 2}
      max_pool: {op: max_pool2d, in: images, ksize: 3, strides: 2, padding: same}
      avg_pool: {op: avg_pool2d, in: images, ksize: [2, 3], strides: 2, padding: [[1, 0], [1, 1]]}
      max_pool1d: {op: max_pool1d, in: lines, ksize: 2}
      global: {op: global_avg_pool, in: images}
      batch_norm: {op: batch_normalization, in: images}
      last_norm: {op: batch_normalization, in: images, axis: -1}
      by_batch: {op: batch_normalization, in: images, training: true}
      layer_norm: {op: layer_norm, in: images, axis: 2}
      rms_norm: {op: rms_norm, in: images}
      group_norm: {op: group_norm, in: images, groups: 2}
      attention: {op: scaled_dot_product_attention, query: images, key: images, value: images, causal: true}
      masked: {op: scaled_dot_product_attention, query: images, key: images, value: images, mask: lets}
      lets: {op: less, in: [compared, 0.2]}
      compared: {op: slice, in: images, index: "[:, :, :, 0:1]"}
      turned: {op: transpose, in: images, perm: [0, 1, 3, 2]}
      shared: {op: slice, in: turned, index: "[:, 0:2]"}
      scores: {op: slice, in: images, index: "[:, :, 0:8]"}
      grouped: {op: scaled_dot_product_attention, query: turned, key: shared, value: shared}
      all_forms: {op: scaled_dot_product_attention, query: turned, key: shared, value: shared, bias: scores, lengths: k, causal: true, window: 3}
      few: {op: slice, in: images, index: "[:, :, 0:4]"}
      last_queries: {op: scaled_dot_product_attention, query: few, key: images, value: images, causal: true, align: bottom_right, window: 6}
      late_queries: {op: scaled_dot_product_attention, query: images, key: few, value: few, causal: true, align: bottom_right}
      padded: {op: scaled_dot_product_attention, query: images, key: images, value: images, mask: lets, lengths: k}
      rope: {op: rope, in: images}
      rope_pairs: {op: rope, in: images, positions: positions, layout: pairs, dims: 4}
      positions: {op: cast, in: first_column, dtype: int32}
      first_column: {op: slice, in: images, index: "[:, 0, :, 0]"}
      asinh: {op: asinh, in: x}
      acosh: {op: acosh, in: above_one}
      above_one: {op: add, in: [y, 1]}
      atanh: {op: atanh, in: y}
      isnan: {op: isnan, in: root}
      root: {op: sqrt, in: x}
      isinf: {op: isinf, in: x}
      isfinite: {op: isfinite, in: root}
      mod: {op: mod, in: [x, y]}
      fmod: {op: fmod, in: [x, y]}
      floor_divide: {op: floor_divide, in: [x, 0.7]}
      signed: {op: subtract, in: [i, 2]}
      mod_ints: {op: mod, in: [signed, 3]}
      fmod_ints: {op: fmod, in: [signed, 3]}
      floor_ints: {op: floor_divide, in: [signed, 2]}
      taken: {op: take_along_axis, in: x, indices: top.indices, axis: 1}
      put: {op: put_along_axis, in: x, indices: top.indices, updates: top.values, axis: 1}
      added: {op: add_along_axis, in: x, indices: top.indices, updates: top.values, axis: 1}
      written: {op: scatter_update, in: x, indices: places, updates: y, axis: 1}
      range: {op: range, start: 1, stop: 9, step: 2}
      halves: {op: range, stop: 3, step: 0.5, dtype: float32}
      eye: {op: eye, rows: 3, columns: 4}
      resized: {op: resize, in: images, scale: 2, mode: bilinear}
      resized_size: {op: resize, in: images, size: [5, 11], mode: bicubic, cubic_coefficient: -0.5}
      resized_scale: {op: resize, in: images, scale: 1.7, rounding: floor, coordinates: asymmetric}
      global_max: {op: global_max_pool, in: images}
      einsum: {op: einsum, in: [x, rows], equation: "ij,kj->ik"}
      prelu: {op: prelu, in: images}
      instance_norm: {op: instance_norm, in: images}
      response_norm: {op: local_response_norm, in: images, size: 3}
      unfold: {op: unfold, in: images, kernel_size: [3, 2], strides: [2, 1], padding: [[1, 0], [1, 1]], dilation_rate: [1, 2]}
      unfold_plain: {op: unfold, in: images, kernel_size: 2}
      fold: {op: fold, in: unfold, output_size: [9, 8], kernel_size: [3, 2], strides: [2, 1], padding: [[1, 0], [1, 1]], dilation_rate: [1, 2]}
      fold_apart: {op: fold, in: columns, output_size: [8, 11], kernel_size: [2, 1], strides: 3}
      columns: {op: reshape, in: images, shape: [-1, 24, 12]}
      shuffled: {op: pixel_shuffle, in: images, factor: 2}
      volumes: {op: reshape, in: images, shape: [-1, 2, 2, 9, 8]}
      conv3d: {op: conv3d, in: volumes, filters: 2, kernel_size: 2}
      max_pool3d: {op: max_pool3d, in: volumes, ksize: [1, 3, 2]}
      avg_pool3d: {op: avg_pool3d, in: volumes, ksize: 2, padding: same}
      series: {op: reshape, in: images, shape: [-1, 4, 72]}
      counts: {op: add, in: [wide_k, 1]}
      wide_k: {op: cast, in: k, dtype: int32}
      lstm: {op: lstm, in: series, units: 3, layers: 2, direction: bidirectional, lengths: counts}
      lstm_h: {op: identity, in: lstm.h}
      lstm_c: {op: identity, in: lstm.c}
      lstm_plain: {op: lstm, in: series, units: 4, use_bias: false, initial_h: x, initial_c: y}
      gru: {op: gru, in: series, units: 4, initial_h: y}
      gru_first: {op: gru, in: series, units: 5, direction: reverse, linear_before_reset: false, use_bias: false}
      gru_h: {op: identity, in: last_gru.h}
      last_gru: {op: gru, in: series, units: 2}
      rnn: {op: rnn, in: series, units: 3, direction: reverse, activation: relu, lengths: counts}
      rnn_tanh: {op: rnn, in: series, units: 2}
      transposed1d: {op: conv1d_transpose, in: lines, filters: 2, kernel_size: 3, strides: 2}
      nll: {op: nll, labels: k, log_probs: log_softmax, reduction: mean}
      sort: {op: sort, in: x}
      roll: {op: roll, in: x, shift: 1, axis: 1}
      variable: {op: variable, shape: [4], initializer: ones}
      shifted: {op: bias_add, in: images, bias: variable}
      l2_norm: {op: l2_normalize, in: images, axis: 1}
      dropped: {op: dropout, in: x, rate: 0.5}
      stopped: {op: stop_gradient, in: relu}
      log_y: {op: log, in: y}
      kl_div: {op: kl_div, log_probs: log_y, target: y}
      hinge: {op: hinge, labels: x, scores: y}
      huber: {op: huber, in: [x, y], delta: 0.7}
      focal: {op: focal, labels: y, logits: x}
      cosine_loss: {op: cosine_embedding, a: x, b: y, labels: first_x}
      first_x: {op: slice, in: x, index: "[:, 0]"}
      triplet: {op: triplet_margin, anchor: x, positive: y, negative: square, swap: true}
      pairs: {op: slice, in: i, index: "[:, 0:1]"}
      gathered: {op: gather_nd, params: halves, indices: pairs}
      counted: {op: bincount, in: row_pairs, size: 5}
      argsort: {op: argsort, in: x, descending: true}
      sorted: {op: sort, in: images, axis: 2, descending: true}
      sampled: {op: sample, in: x, temperature: 0}
      sampled_likeliest: {op: sample, in: x, position: zero, temperature: 0.5, top_k: 3, top_p: 0.01}
      sampled_first: {op: sample, in: x, position: zero, top_k: 1}
      zero: {op: constant, value: 0, dtype: int32}
      adaptive: {op: adaptive_avg_pool, in: images, output_size: [4, 3]}
      global_avg: {op: adaptive_avg_pool, in: images, output_size: 1}
      avg_pool1d: {op: avg_pool1d, in: lines, ksize: 3, padding: same}
      linspace: {op: linspace, start: 0, stop: 1, num: 5}
      repeated: {op: repeat_elements, in: x, repeats: 2, axis: 1}
      spread: {op: broadcast_to, in: more_axes, shape: [6, 3, 4]}
      unshuffled: {op: pixel_unshuffle, in: even, factor: 2}
      even: {op: slice, in: images, index: "[:, :, 1:]"}
      dotted: {op: dot, in: [x, y]}
      outer: {op: outer, in: [x, y]}
      smoothed: {op: sparse_softmax_cross_entropy_with_logits, labels: k, logits: x, label_smoothing: 0.1, ignore_index: 2, reduction: mean}
      scattered: {op: scatter_nd, in: rows, indices: row_pairs, updates: added_rows, reduction: add}
      row_pairs: {op: cast, in: row_halves, dtype: int32}
      row_halves: {op: reshape, in: starts, shape: [3, 1]}
      starts: {op: range, stop: 3, dtype: float32}
      added_rows: {op: constant, value: 2, shape: [3, 4]}
      added_u8: {op: add, in: [bytes, 250]}
      largest_i8: {op: maximum, in: [narrow, 2]}
      chosen_i8: {op: where, condition: both_i8, x: narrow, y: 1}
      both_i8: {op: greater, in: [narrow, 1]}
      sorted_u8: {op: sort, in: bytes}
      tril_bool: {op: tril, in: any_pair}
      any_pair: {op: greater, in: [x, y]}
      tril_u8: {op: tril, in: bytes}
""".strip("\n").splitlines()


def write_every_op(path):
    """Writes a job with an entry for each op, all of them returned."""
    names = [line.split(":")[0].strip() for line in ENTRIES]
    results = [name for name in names if name not in ("split", "top")]
    results += ["split.out0", "split.out1", "top.values", "top.indices"]
    path.write_text(EVERY_OP.replace("ENTRIES", "\n".join(ENTRIES)).replace("RESULTS", ", ".join(results)))
