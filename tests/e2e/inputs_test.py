"""Where inputs come from: arrays of .npz files, pipes of .npy records, generators."""
import contextlib
import io
import itertools
import os
import re
import struct
import subprocess
import sys
import threading
import unittest
import zipfile
import zlib

import numpy as np

from flow import BIN, ROWS, FlowTest, Program

NPZ = """
flow: 1
data:
  d:
    a: {npz: d.npz, array: a, scale: 2}
    b: {npz: packed.npz, array: b}
jobs:
  predict:
    type: predict
    inputs:
      a: {shape: [2, 3], dtype: float32, from: d.a}
      b: {shape: [2], dtype: int32, from: d.b}
    graph: {y: {op: relu, in: a}}
    returns: {value: [y, b]}
"""

FOLDS = """
flow: 1
vars: {fold: 0, size: 4, end: $((fold + 1) * size)}
data:
  others: {x: {npy: x.npy, rows: [0..$(fold * size), $(end)..12]}}
  fold: {x: {npy: x.npy, rows: $(fold * size)..$(end)}}
jobs:
  train:
    type: predict
    inputs: {x: {shape: [4], dtype: int32, from: others.x}}
    graph: {y: {op: identity, in: x}}
    returns: {value: y}
  validate:
    type: predict
    inputs: {x: {shape: [4], dtype: int32, from: fold.x}}
    graph: {y: {op: identity, in: x}}
    returns: {value: y}
"""

TWO_STREAMS = """flow: 1
jobs:
  predict:
    type: predict
    inputs: {x: {shape: [2], dtype: float32, from: {npy: a}},
             y: {shape: [2], dtype: float32, from: {npy: b}}}
    graph: {y2: {op: add, in: [x, y]}}
    returns: {value: {y: y2}, type: "Dict[str, Numpy]"}
"""
RECORD = """
def record(i):
    out = io.BytesIO()
    numpy.save(out, numpy.full(2, i, "float32"))
    return out.getvalue()
"""

STREAM = """
flow: 1
jobs:
  predict:
    type: predict
    inputs: {x: {shape: [2, 3], dtype: float32, from: {npy: pipe}}}
    graph: {y: {op: multiply, in: [x, 2]}}
    returns: {value: y}
  count:
    type: train
    inputs: {x: {shape: [2, 3], dtype: float32, from: {npy: pipe}}}
    graph: {m: {op: dense, in: x, units: 1}}
    optimizer: {type: sgd, learning_rate: 0.01, minimize: m}
    run: {checkpoint: {every: {steps: 2}}}
"""


def records(arrays):
    out = io.BytesIO()
    for array in arrays:
        np.save(out, array)
    return out.getvalue()


class RowsTest(FlowTest):
    def test_folds_are_held_out_of_what_is_trained_on(self):
        self.write("job.yaml", FOLDS)
        np.save(self.dir / "x.npy", np.arange(12, dtype=np.uint8))  # bytes, which a GPU keeps as they are
        for fold in range(3):
            for job in ("train", "validate"):
                self.flowrun(job, "job.yaml", "-o", f"{job}{fold}", "--set", f"vars.fold={fold}", "--quiet")
            held_out = self.load(f"validate{fold}/returns/y/value.npy")
            np.testing.assert_array_equal(held_out, np.arange(4 * fold, 4 * fold + 4))
            np.testing.assert_array_equal(self.load(f"train{fold}/returns/y/value.npy"), np.setdiff1d(np.arange(12), held_out))


RANGE = """
flow: 1
data: {d: {n: {npy: n.npy, rows: 1..}}}
jobs:
  predict:
    type: predict
    inputs:
      n: {shape: [2], dtype: DTYPE, from: SOURCE, range: [1, 4]}
    graph: {y: {op: identity, in: n}}
    returns: {value: y}
    run: {steps: 3}
"""


class RangeTest(FlowTest):
    def refused(self, source, *words, dtype="int32"):
        self.write("job.yaml", RANGE.replace("SOURCE", source).replace("DTYPE", dtype))
        done = self.flowrun("job.yaml", "-o", "out", "--force", "--quiet", *words, status=3)
        self.assertFalse((self.dir / "out/returns").exists(), "a step ran")
        self.assertRegex(done.stderr, r"error: (job\.yaml:8:\d+|--input n): ")
        self.assertIn("hint: correct the data, or the `range` of the input\n", done.stderr)
        return done.stderr

    def test_values_are_checked_before_the_first_step(self):
        for dtype in ("int8", "int32", "int64", "uint8"):
            np.save(self.dir / "n.npy", np.array([9, 1, 2, 4, 3, 4, 5], dtype))
            self.assertIn(f": input `n` contains 5 in row 6 of {self.dir}/n.npy; expected 1 to 4\n", self.refused("d.n", dtype=dtype))
            np.save(self.dir / "s.npy", np.array([[1, 2], [3, 4], [4, 0]], dtype))
            self.assertIn("input `n` contains 0 at [1] of step 2; expected 1 to 4", self.refused("{npy: s.npy}", dtype=dtype))
            np.save(self.dir / "w.npy", np.array([5, 1], dtype))
            self.assertIn("input `n` contains 5 at [0] of step 0; expected 1 to 4", self.refused("{npy: w.npy}", dtype=dtype))
        self.assertIn("--input n: input `n` contains 0 at [0] of step 0; expected 1 to 4", self.refused("d.n", "--input", "n=constant:0"))

    def test_pipes_and_generators_are_checked_in_each_step(self):
        os.mkfifo(self.dir / "pipe")
        data = records([np.array([1, 2], np.int32), np.array([4, 7], np.int32)])
        writer = threading.Thread(target=lambda: (self.dir / "pipe").write_bytes(data), daemon=True)
        writer.start()
        self.write("job.yaml", RANGE.replace("SOURCE", "{npy: pipe}").replace("DTYPE", "int32"))
        done = self.flowrun("job.yaml", "-o", "out", "--quiet", status=3)
        self.assertIn("input `n` contains 7 at [1] of step 1; expected 1 to 4", done.stderr)
        writer.join(10)
        done = self.flowrun("job.yaml", "-o", "drawn", "--quiet", "--input", "n=random_int:-3:-2", status=3)
        self.assertIn("--input n: input `n` contains -3 at [0] of step 0; expected 1 to 4", done.stderr)

    def test_values_in_range_pass(self):
        np.save(self.dir / "n.npy", np.array([9, 1, 2, 4, 3, 1, 1], np.int32))
        self.write("job.yaml", RANGE.replace("SOURCE", "d.n").replace("DTYPE", "int32"))
        self.flowrun("job.yaml", "-o", "out", "--quiet")
        self.call("flowc", "build", "job.yaml", "-o", "job.plan")
        self.flowrun("job.plan", "-o", "again", "--quiet")
        np.testing.assert_array_equal(self.load("again/returns/y/value.npy"), [1, 2, 4, 3, 1, 1])
        np.save(self.dir / "n.npy", np.array([9, 1, 2, 4, 3, 1, 0], np.int32))
        self.flowrun("job.plan", "-o", "third", "--quiet", status=3)


class NpzTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", NPZ)
        self.a = np.arange(15, dtype=np.float64).reshape(5, 3)
        self.b = np.arange(5, dtype=np.int64)
        np.savez(self.dir / "d.npz", other=self.b, a=self.a)
        np.savez_compressed(self.dir / "packed.npz", b=self.b, c=np.zeros(1000))

    def test_arrays_are_columns(self):
        self.flowrun("predict", "job.yaml", "-o", "out", "--quiet")
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), np.float32(self.a * 2))
        np.testing.assert_array_equal(self.load("out/returns/b/value.npy"), self.b)

    def test_arrays_in_fortran_order_are_columns(self):
        np.savez(self.dir / "d.npz", a=np.asfortranarray(self.a))
        self.flowrun("predict", "job.yaml", "-o", "out", "--quiet")
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), np.float32(self.a * 2))

    def test_an_array_that_is_not_there_is_named_with_those_that_are(self):
        np.savez(self.dir / "d.npz", z=self.a, y=self.b)
        done = self.flowrun("predict", "job.yaml", "-o", "out", status=3)
        self.assertIn("has no array `a`", done.stderr)
        self.assertIn("hint: use `y` or `z`\n", done.stderr)

    def test_an_archive_may_end_with_a_comment(self):
        with zipfile.ZipFile(self.dir / "d.npz", "a") as archive:
            archive.comment = b"what PK\5\6 ends" + bytes(30)
        self.flowrun("predict", "job.yaml", "-o", "out", "--quiet")
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), np.float32(self.a * 2))

    def test_an_array_that_is_encrypted_is_refused(self):
        packed = (self.dir / "packed.npz").read_bytes()
        entry = packed.index(b"PK\1\2")
        self.assertEqual(packed[entry + 8] & 1, 0)
        (self.dir / "packed.npz").write_bytes(packed[:entry + 8] + bytes([packed[entry + 8] | 1]) + packed[entry + 9:])
        done = self.flowrun("predict", "job.yaml", "-o", "out", status=3)
        self.assertIn("packed.npz: `b.npy` is encrypted", done.stderr)

    def test_an_array_whose_two_names_differ_is_refused_as_numpy_refuses_it(self):
        whole = (self.dir / "d.npz").read_bytes()
        at = whole.index(b"a.npy")
        (self.dir / "d.npz").write_bytes(whole[:at] + b"z" + whole[at + 1:])
        with self.assertRaisesRegex(zipfile.BadZipFile, "differ"):
            np.load(self.dir / "d.npz")["a"]
        done = self.flowrun("predict", "job.yaml", "-o", "out", status=3)
        self.assertIn("d.npz is not a valid .npz: the zip directory says `a.npy`, the file header `z.npy`", done.stderr)

    def pack(self, header, unpacked, rest):
        """packed.npz with one array: its header, then `rest` as packed data, said to unpack to `unpacked` bytes."""
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        start = io.BytesIO()
        np.lib.format.write_array_header_1_0(start, header)
        packed = packer.compress(start.getvalue()) + packer.flush(zlib.Z_FULL_FLUSH) + rest
        local = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 8, 0, 0, 0, len(packed), unpacked, 5, 0) + b"b.npy"
        entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 8, 0, 0, 0, len(packed), unpacked, 5, 0, 0, 0, 0, 0, 0) + b"b.npy"
        end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(local) + len(packed), 0)
        (self.dir / "packed.npz").write_bytes(local + packed + entry + end)
        return len(start.getvalue())

    def test_an_array_that_does_not_fit_is_refused_before_it_is_unpacked(self):
        """What follows the headers is damaged: nobody has looked at it."""
        def header(shape, descr="<i8"):
            return {"descr": descr, "fortran_order": False, "shape": shape}
        self.pack(header((5, 7)), 128 + 5 * 7 * 8, b"\xff" * 100)
        self.assertIn("has rows of [7]; expected []", self.flowrun("predict", "job.yaml", "-o", "out", status=3).stderr)
        self.pack(header((10**9,)), 128 + 40, b"\xff" * 100)
        self.assertIn("`b` is truncated: 40 bytes of data; [1000000000] of int64 requires 8000000000",
                      self.flowrun("predict", "job.yaml", "-o", "out", "--force", status=3).stderr)
        self.pack(header((5,), "<c16"), 128 + 80, b"\xff" * 100)
        self.assertIn("has unsupported dtype `<c16`", self.flowrun("predict", "job.yaml", "-o", "out", "--force", status=3).stderr)
        self.pack(header((5,)), 128 + 40, b"\xff" * 100)
        self.assertIn("is damaged: invalid deflate stream", self.flowrun("predict", "job.yaml", "-o", "out", "--force", status=3).stderr)

    def test_a_damaged_archive_never_passes(self):
        """Every byte changed and every length cut: refused, or the very same values."""
        for name in ["d.npz", "packed.npz"]:
            whole = (self.dir / name).read_bytes()
            step = max(1, len(whole) // 40)
            for at in range(0, len(whole), step):
                for damaged in [whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1:]]:
                    (self.dir / name).write_bytes(damaged)
                    done = subprocess.run([BIN / "flowrun", "predict", "job.yaml", "-o", "out", "--force", "--quiet"],
                                          cwd=self.dir, capture_output=True, text=True)
                    self.assertIn(done.returncode, (0, 2, 3), f"{name} at {at}: {done.stderr}")
                    if done.returncode == 0:
                        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), np.float32(self.a * 2))
            (self.dir / name).write_bytes(whole)


class NpyTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("rows.yaml", ROWS)

    def test_a_column_may_be_of_any_order_of_axes_and_bytes(self):
        x = np.random.default_rng(4).random((8, 3))
        for dtype, order in itertools.product(["<f4", ">f4", "<f8", ">f8"], "CF"):
            np.save(self.dir / "x.npy", np.asarray(x.astype(dtype), order=order))
            self.flowrun("rows.yaml", "-o", "out", "--force", "--quiet")
            np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), x.astype(np.float32) * 2, dtype + order)

    def test_a_scalar_is_no_column(self):
        np.save(self.dir / "x.npy", np.float32(1))
        done = self.flowrun("rows.yaml", "-o", "out", status=3)
        self.assertRegex(done.stderr, r"rows.yaml:4:\d+: .*x.npy is a scalar; expected an array with rows\n")

    def test_bytes_of_bools_are_true_where_they_are_not_zero(self):
        self.write("bools.yaml", ROWS.replace("float32", "bool").replace("op: add, in: [x, x]", "op: cast, in: x, dtype: float32"))
        np.save(self.dir / "x.npy", np.array([[0, 1, 2], [255, 0, 3]] * 2, np.uint8).view(bool))
        self.flowrun("bools.yaml", "-o", "out", "--quiet", "--watch", "x")
        self.assertEqual(self.load("out/returns/y/value.npy").tolist(), [[0, 1, 1], [1, 0, 1]] * 2)
        self.assertEqual(set((self.dir / "out/watch/x/value.npy").read_bytes()[-12:]), {0, 1})


class SliceTest(FlowTest):
    def test_slices_of_two_inputs_and_of_a_dataset_have_one_length(self):
        self.write("job.yaml", """flow: 1
data: {d: {x: {npy: x.npy}}}
jobs:
  predict:
    type: predict
    inputs: {a: {shape: [2], dtype: float32}, b: {shape: [2], dtype: float32}, x: {shape: [2], dtype: float32, from: d.x}}
    graph: {s: {op: add, in: [a, b]}, y: {op: add, in: [s, x]}}
    returns: {value: y}
""")
        for slices in (3, 4):
            np.save(self.dir / f"{slices}.npy", np.ones((slices, 2), np.float32))
        np.save(self.dir / "x.npy", np.ones(8, np.float32))

        def given(*inputs, **options):
            return self.flowrun("job.yaml", "-o", "out", *(word for one in inputs for word in ("--input", one)), **options).stderr

        self.assertIn("--input b: input `b` has 4 slices, `a` has 3\n", given("a=@3.npy", "b=@4.npy", "x=iota", status=2))
        self.assertIn("--input a: input `a` has 3 slices, but an epoch has 4 steps\n", given("a=@3.npy", "b=@3.npy", status=2))
        given("a=@4.npy", "b=@4.npy")
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), np.full(8, 3, np.float32))


class StreamTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", STREAM)
        os.mkfifo(self.dir / "pipe")
        self.feeding = None
        self.x = np.random.default_rng(1).random((5, 2, 3)).astype(np.float32)

    def feed(self, data):
        """Writes to the pipe, once the data before it is written or its reader is gone."""
        def write():
            with contextlib.suppress(BrokenPipeError), open(self.dir / "pipe", "wb", 0) as pipe:
                for at in range(0, len(data), 100):
                    pipe.write(data[at:at + 100])
        if self.feeding:
            self.feeding.join(10)
        self.feeding = threading.Thread(target=write, daemon=True)
        self.feeding.start()
        self.addCleanup(self.feeding.join, 10)

    def test_each_step_reads_a_record_until_the_pipe_ends(self):
        self.feed(records(self.x))
        self.flowrun("predict", "job.yaml", "-o", "out", "--quiet")
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), self.x * 2)

    def test_records_are_converted_like_files(self):
        self.feed(records([self.x[0].astype(">f8"), np.asfortranarray(self.x[1]), self.x[2]]))
        self.flowrun("predict", "job.yaml", "-o", "out", "--quiet")
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), self.x[:3] * 2)

    def test_records_may_be_of_any_version_order_and_dtype_one_after_another(self):
        made = [x.astype(dtype) for x, dtype in zip(self.x, ["<f4", "<f8", ">f8", ">f4", "<f2"])]
        made[2] = np.asfortranarray(made[2])
        pipe = io.BytesIO()
        for array, version in zip(made, [(2, 0), (1, 0), (1, 0), (3, 0), (2, 0)]):
            np.lib.format.write_array(pipe, array, version=version)
        self.feed(pipe.getvalue())
        self.flowrun("predict", "job.yaml", "-o", "out", "--quiet")
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), np.stack([array.astype(np.float32) for array in made]) * 2)

    def read_two(self, program, *words, status=0):
        """A run of two FIFOs that a program of Python feeds."""
        self.write("two.yaml", TWO_STREAMS)
        for name in "ab":
            if not (self.dir / name).exists():
                os.mkfifo(self.dir / name)
        producer = Program([sys.executable, "-c", "import io, numpy\n" + RECORD + program], cwd=self.dir)
        with producer:
            done = self.flowrun("two.yaml", "-o", "out", "--force", "--quiet", *words, status=status)
            producer.wait(30)
        return done.stderr

    def test_a_program_may_open_several_pipes_in_any_order(self):
        for first, second in ("ab", "ba"):
            self.read_two(f"one = open('{first}', 'wb', 0); other = open('{second}', 'wb', 0)\nfor i in range(3): other.write(record(i)); one.write(record(i))\n")
            np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), np.full((3, 2), [[0], [2], [4]], np.float32))

    def test_a_program_that_dies_between_its_pipes_is_an_error_that_names_both(self):
        each = "a, b = open('a', 'wb', 0), open('b', 'wb', 0)\n"
        for program, message in (("b = open('b', 'wb', 0)", "two.yaml:6:52: b ended before its first record; a of input `x` is at record 0"),
                                 ("a = open('a', 'wb', 0)", "two.yaml:5:52: a ended before its first record; b of input `y` is at record 0"),
                                 (each + "a.write(record(0))", "two.yaml:6:52: b ended before its first record; a of input `x` is at record 1"),
                                 (each + "b.write(record(0))", "two.yaml:5:52: a ended before its first record; b of input `y` is at record 0"),
                                 (each + "b.write(record(0)); a.write(record(0)); a.write(record(1))", "two.yaml:6:52: b ended after 1 record, but a of input `x` has more"),
                                 (each + "b.write(record(0)); a.write(record(0)); b.write(record(1))", "two.yaml:5:52: a ended after 1 record, but b of input `y` has more"),
                                 (each + "a.write(record(0)); b.write(record(0)[:-1])", "two.yaml:6:52: b ends inside record 0; a of input `x` is at record 1")):
            with self.subTest(program=program):
                error = self.read_two(program, status=3).replace(f"{self.dir}/", "")
                self.assertRegex(error, f"^flowrun: error: {re.escape(message)}\n(   hint: check the program.*\n)?$")

    def test_a_descriptor_is_a_stream_too(self):
        done = subprocess.run([BIN / "flowrun", "predict", "job.yaml", "-o", "out", "--quiet",
                               "--input", "x=@/dev/stdin"], cwd=self.dir, input=records(self.x), capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), self.x * 2)

    def test_standard_input_has_the_usual_name(self):
        done = subprocess.run([BIN / "flowrun", "predict", "job.yaml", "-o", "out", "--quiet", "--input", "x=@-"],
                              cwd=self.dir, input=records(self.x), capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), self.x * 2)
        self.assertIn("--input x=@: ", self.flowrun("predict", "job.yaml", "-o", "none", "--input", "x=@", status=2).stderr)

    def test_a_job_file_from_a_pipe_reads_paths_from_the_working_directory(self):
        np.save(self.dir / "x.npy", self.x[0])
        self.write("seed.yaml", "seed: 3")
        job = STREAM.replace("npy: pipe", "npy: x.npy").replace("flow: 1", "flow: 1\ninclude: [seed.yaml]")
        for name in ("-", "/dev/stdin"):
            done = subprocess.run([BIN / "flowrun", "predict", name, "-o", "out", "--force", "--quiet"],
                                  cwd=self.dir, input=job.encode(), capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_array_equal(self.load("out/returns/y/value.npy"), self.x[:1] * 2)

    def test_a_truncated_record_is_a_failure(self):
        self.feed(records(self.x)[:-1])
        done = self.flowrun("predict", "job.yaml", "-o", "out", status=3)
        self.assertIn("ends inside record 4", done.stderr)
        self.assertEqual(len(self.load("out/returns/y/value.npy")), 4)

    def test_text_between_records_is_told_as_text(self):
        for before in (0, 1):
            self.feed(records(self.x[:before]) + b"epoch 1 done\n")
            done = self.flowrun("predict", "job.yaml", "-o", "out", "--force", status=3)
            self.assertIn(f"pipe: record {before} is not a .npy file: it begins with `epoch `\n"
                          "   hint: write only .npy records to the pipe, and text to standard error", done.stderr)

    def test_a_pipe_that_ends_before_its_first_record_is_a_failure(self):
        self.feed(b"")
        done = self.flowrun("predict", "job.yaml", "-o", "out", status=3)
        self.assertIn("pipe ended before its first record", done.stderr)

    def test_a_record_of_another_shape_is_refused(self):
        self.feed(records([self.x[0], self.x[0].T]))
        done = self.flowrun("predict", "job.yaml", "-o", "out", status=2)
        self.assertIn("record 1 is [3, 2]", done.stderr)

    def test_a_sink_or_check_that_fails_ends_the_run_while_records_come(self):
        endless = self.write("endless.py", "import sys; data = open('x', 'rb').read()\nwhile True: sys.stdout.buffer.write(data)\n")
        (self.dir / "x").write_bytes(records(self.x))
        fails = "jobs.predict.returns.to={type: command, mode: spawn, run: 'cat > /dev/null; [ $FLOW_STEP = 3 ] && exit 3; true'}"
        for words, status, said in [(["--set", fails], 3, "step 3"), (["--set", "+jobs.predict.hooks=[{watch: y, check: finite}]"], 1, "expected finite values")]:
            for _ in range(4):
                if status == 1:
                    (self.dir / "x").write_bytes(records(self.x) + records(self.x[:1] * np.nan))
                with subprocess.Popen(["python3", endless], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as maker:
                    done = subprocess.run([BIN / "flowrun", "predict", "job.yaml", "-o", "out", "--force", "--quiet", "--input", "x=@/dev/stdin", *words],
                                          cwd=self.dir, stdin=maker.stdout, capture_output=True, text=True, timeout=60)
                    maker.kill()
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(said, done.stderr)

    def test_steps_stop_before_the_stream_ends(self):
        self.feed(records(self.x))
        self.flowrun("predict", "job.yaml", "-o", "out", "--quiet", "--steps", 2)
        self.assertEqual(len(self.load("out/returns/y/value.npy")), 2)

    def test_a_resumed_run_passes_over_what_it_has_read(self):
        self.feed(records(self.x))
        self.flowrun("count", "job.yaml", "-o", "whole", "--quiet")
        self.feed(records(self.x))
        self.flowrun("count", "job.yaml", "-o", "parts", "--quiet", "--steps", 2)
        self.feed(records(self.x))
        self.flowrun("count", "job.yaml", "-o", "parts", "--quiet", "--resume")
        self.assertEqual(self.state("whole/checkpoints/000005"), self.state("parts/checkpoints/000005"))


class GeneratorTest(FlowTest):
    JOB = """
flow: 1
jobs:
  predict:
    type: predict
    inputs: {x: {shape: [2, 3], dtype: int8%s}}
    graph: {y: {op: cast, in: x, dtype: float32}}
    returns: {value: y}
"""

    def test_numbers_that_make_no_sense_are_refused_wherever_they_are_given(self):
        self.write("job.yaml", self.JOB % "")
        for given, said in [("random_int:1:0", "`low` is 1 and `high` 0; expected `low` < `high`"),
                            ("random_int:0:300", "`high` is 300, so 299 can occur, which is not a valid int8"),
                            ("constant:2.5", "`value` is 2.5, which is not a valid int8"),
                            ("random_uniform:0:1", "`random_uniform` produces fractions, not int8")]:
            done = self.flowrun("job.yaml", "--input", f"x={given}", "-o", "out", status=2)
            self.assertIn(f"--input x: input `x`: {said}", done.stderr)
            kind, *numbers = given.split(":")
            keys = dict(zip(["value"] if kind == "constant" else ["low", "high"], numbers))
            source = ", ".join([f"type: {kind}", *(f"{key}: {number}" for key, number in keys.items())])
            self.write("bad.yaml", self.JOB % f", from: {{{source}}}")
            done = self.call("flowc", "check", "bad.yaml", status=2)
            self.assertIn(f": error: {said} [E0", done.stderr)

    def test_the_ends_of_a_dtype_are_reached(self):
        self.write("job.yaml", self.JOB % ", from: {type: random_int, low: -128, high: 128}")
        self.flowrun("job.yaml", "-o", "out", "--quiet", "--steps", 100)
        values = self.load("out/returns/y/value.npy")
        self.assertLess(values.min(), -100)
        self.assertGreater(values.max(), 100)


if __name__ == "__main__":
    unittest.main()
