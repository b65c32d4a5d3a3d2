"""Distributed runs: ranks of Open MPI and of MPICH compute the bits of one process."""
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

from flow import BIN, FlowTest, Program

LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"], "mpich": ["mpirun.mpich"]}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

# Batch norm, dropout on rows and on another axis, clipping, LAMB, a dynamic loss scale, hooks of every kind, a called job.
JOB = """flow: 1
seed: 11
vars: {shards: 8, precision: float32, also: eval}
data: {d: {x: {npy: x.npy}, label: {npy: label.npy}}}
networks:
  net:
    inputs: [x]
    graph:
      conv:   {op: conv2d, in: x, filters: 3, kernel_size: 3, padding: same}
      normal: {op: batch_normalization}
      active: {op: relu}
      drop:   {op: dropout, rate: 0.3}
      flat:   {op: flatten}
      turned: {op: transpose, perm: [1, 0]}
      drop2:  {op: dropout, rate: 0.1}
      back:   {op: transpose, perm: [1, 0]}
      hidden: {op: dense, units: 70, activation: tanh, kernel_regularizer: {l2: 0.01}}
      wide:   {op: dense, units: 600}
      logits: {op: dense, units: 4}
    output: logits
jobs:
  train:
    type: train
    shards: $shards
    precision: $precision
    inputs:
      x: {shape: [48, 2, 6, 5], dtype: float32, from: d.x}
      label: {shape: [48], dtype: int32, from: d.label}
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
    inputs:
      x: {shape: [12, 2, 6, 5], dtype: float32, from: d.x}
    graph: {n: {op: net, in: x}}
    returns: {value: n, to: npy}
"""


class Ranks(FlowTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        np.save(self.dir / "x.npy", random.uniform(-1, 1, (240, 2, 6, 5)).astype(np.float32))
        np.save(self.dir / "label.npy", random.integers(0, 4, 240).astype(np.int32))
        self.write("job.yaml", JOB)

    def launch_words(self, mpi, ranks, *words):
        launcher = LAUNCHERS[mpi]
        if not shutil.which(launcher[0]) or not (BIN / f"libflow_{mpi}.so").exists():
            self.skipTest(f"{mpi} is not installed")
        return [*launcher, "-np", str(ranks), str(BIN / "flowrun"), *map(str, words), "--distributed"]

    def ranks(self, ranks, *words, mpi="openmpi", status=0, timeout=300):
        done = subprocess.run(self.launch_words(mpi, ranks, *words), cwd=self.dir, capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, **AS_ROOT}, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, f"{mpi}, {ranks} ranks: {words}\n{done.stdout}\n{done.stderr}")
        return done

    def outputs(self, out):
        return {f"{folder}/{name}": data for folder in ("returns", "watch", "checkpoints", "also")
                for name, data in self.files(f"{out}/{folder}").items() if name.endswith(".npy")}

    def assert_same(self, one, other):
        self.assertGreater(len(one), 15)
        self.assertEqual(one.keys(), other.keys())
        self.assertEqual([], [name for name, data in one.items() if other[name] != data])
