"""What NumPy writes is read, what is written NumPy reads, and arrays print as NumPy prints them."""
import io
import itertools
import os
import subprocess
import tokenize
import unittest
import warnings
import zipfile
import zlib

import numpy as np

from flow import BIN, FlowTest

FLOATS = [np.float16, np.float32, np.float64]
INTEGERS = [np.int8, np.int32, np.int64, np.uint8]
WIDENED = [np.int16, np.uint16]  # read as int32
DTYPES = FLOATS + INTEGERS + [np.bool_]
SHAPES = [(), (0,), (1,), (3,), (7,), (40,), (1001,), (2, 3), (3, 0), (1, 1, 1), (3, 40), (2, 3, 4), (100, 10), (101, 10),
          (7, 8, 20), (6, 7, 25), (2, 1, 2, 1, 2), (5, 6, 7, 8), (1200, 1), (1, 2000)]


class Probe(FlowTest):
    def save(self, arrays):
        paths = []
        for i, array in enumerate(arrays):
            paths.append(str(self.dir / f"{i}.npy"))
            np.save(paths[-1], array)
        return paths


class Printing(Probe):
    def check(self, arrays):
        done = self.call("npy_probe", "print", *self.save(arrays))
        texts = done.stdout.split("\n--\n")[:-1]
        self.assertEqual(len(texts), len(arrays))
        for array, text in zip(arrays, texts):
            self.assertEqual(text, str(array), f"{array.dtype} {array.shape} {array.tobytes()[:64]!r}")

    def random_arrays(self, seed, count):
        random = np.random.default_rng(seed)
        for _ in range(count):
            shape = SHAPES[random.integers(len(SHAPES))]
            dtype = DTYPES[random.integers(len(DTYPES))]
            kind = random.integers(6)
            if dtype in FLOATS:
                values = random.standard_normal(shape)
                with np.errstate(over="ignore"):
                    if kind == 1:
                        values = values * 10.0 ** random.integers(-12, 12)
                    elif kind == 2:
                        values = values * 10.0 ** random.integers(-9, 9, shape)
                    elif kind == 3:
                        values = np.round(values * 8) / 8
                    elif kind == 4:
                        values = np.where(random.random(shape) < 0.2, random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape), values)
                    elif kind == 5:
                        bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
                        values = random.integers(0, np.iinfo(bits).max, shape, dtype=bits, endpoint=True)
                        values = np.asarray(values).view(dtype)
                    array = np.asarray(values).astype(dtype)
            elif dtype in INTEGERS:
                info = np.iinfo(dtype)
                array = random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
                array = np.asarray(array) // dtype(1 if kind < 2 else 10)
            else:
                array = np.asarray(random.integers(0, 2, shape)).astype(bool)
            yield np.ascontiguousarray(array).reshape(shape)

    def test_every_dtype_in_every_shape(self):
        random = np.random.default_rng(1)
        self.check([np.asarray(random.standard_normal(s) * 100).astype(d) for d, s in itertools.product(DTYPES, SHAPES)])

    def test_random_arrays(self):
        self.check(list(self.random_arrays(int(os.environ.get("FLOW_SEED", 2)), int(os.environ.get("FLOW_ARRAYS", 600)))))

    def test_scalars_and_turning_points(self):
        values = [0, -0.0, 1, -1, 0.1, 1e-4, 9.999e-5, 1e-5, 123456.789, 1e8, 99999999, 1e15, 9.9e15, 1e16, 1.5e16, 1e-300, 1e300,
                  2.3025851, np.pi, np.nan, np.inf, -np.inf, 5e-324, 0.5, 1 / 3, 16777216, 123456789e6, 65504, 6e-8]
        with np.errstate(over="ignore"):
            scalars = [np.array(v, d) for v in values for d in FLOATS]
            pairs = [np.array([a, b], d) for a in values for b in values for d in FLOATS]
        self.check(scalars)
        self.check(pairs)

    def test_every_float16(self):
        halves = np.arange(65536, dtype=np.uint16).view(np.float16)
        self.check([halves[i].reshape(()) for i in range(0, 65536, 131)])
        self.check(list(halves.reshape(-1, 64)))


class Files(Probe):
    def rewritten(self, path, status=0):
        done = self.call("npy_probe", "rewrite", path, self.dir / "out.npy", status=status)
        return np.load(self.dir / "out.npy") if status == 0 else done.stderr

    def test_every_dtype_shape_order_byte_order_and_version_is_read(self):
        random = np.random.default_rng(3)
        for dtype, shape in itertools.product(DTYPES + WIDENED, [(), (0,), (5,), (2, 3), (2, 3, 4), (4, 0, 2)]):
            plain = np.asarray(random.standard_normal(shape) * 50 if dtype in DTYPES else random.integers(0, 1 << 16, shape)).astype(dtype)
            for order, swap, version in (("C", False, (1, 0)), ("F", False, (2, 0)), ("C", True, (3, 0)), ("F", True, (1, 0))):
                array = plain.astype(plain.dtype.newbyteorder(">")) if swap else plain
                with open(self.dir / "in.npy", "wb") as file:
                    np.lib.format.write_array(file, np.asarray(array, order=order), version=version)
                back = self.rewritten("in.npy")
                self.assertEqual(back.dtype, np.int32 if dtype in WIDENED else plain.dtype)
                self.assertEqual(back.shape, plain.shape)
                np.testing.assert_array_equal(back, plain)
                self.assertTrue(back.flags.c_contiguous)

    def test_what_is_not_ours_is_refused_by_name(self):
        for array, word in ((np.zeros(2, np.complex64), "<c8"), (np.zeros(2, np.uint32), "<u4"), (np.array(["ab"]), "<U2"),
                            (np.zeros(2, [("a", "f4")]), "structured")):
            np.save(self.dir / "in.npy", array)
            message = self.rewritten("in.npy", status=3)
            self.assertIn(word, message)
            self.assertIn("in.npy", message)

    def test_truncated_and_overlong_files_are_refused(self):
        np.save(self.dir / "whole.npy", np.arange(6, dtype=np.float32))
        whole = (self.dir / "whole.npy").read_bytes()
        for cut in (0, 3, 6, 9, 11, 50, 127, 128, len(whole) - 1):
            (self.dir / "in.npy").write_bytes(whole[:cut])
            self.assertIn("in.npy", self.rewritten("in.npy", status=3))
        (self.dir / "in.npy").write_bytes(whole + b"x")
        self.assertIn("too long", self.rewritten("in.npy", status=3))


    def judged(self, header, version=b"\1\0", data=bytes(24)):
        """Is such a file read? NumPy and flow must agree."""
        length = len(header).to_bytes(2 if version[0] == 1 else 4, "little")
        (self.dir / "in.npy").write_bytes(b"\x93NUMPY" + version + length + header + data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                array = np.load(self.dir / "in.npy")
        except (ValueError, TypeError, tokenize.TokenError):
            self.assertIn("in.npy", self.rewritten("in.npy", status=3), header)
            return False
        np.testing.assert_array_equal(self.rewritten("in.npy"), array, str(header))
        return True

    def test_headers_that_numpy_refuses_are_refused(self):
        """Each is one change away from a header that both read."""
        good = b"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }"
        for header in (good, good + b" \n", good.replace(b"6,", b"6L,"), good.replace(b"6,", b"3, 2"), good.replace(b"6,", b"00, 1")):
            self.assertTrue(self.judged(header, data=bytes(24) if b"00" not in header else b""), header)
        for header in (good + b"\0", good + b"\0" * 6 + b"\n", good.replace(b"6,", b"06,"), good.replace(b"6,", b"6"), good.replace(b", }", b", }}"),
                       good.replace(b", }", b"\0, }"), good.replace(b"6,", b"6,,"), good.replace(b"False", b"0"),
                       good.replace(b"'<f4'", b"'f4\0'"), good + b" " * 10_000):
            self.assertFalse(self.judged(header), header)

    def test_versions_that_numpy_refuses_are_refused(self):
        good = b"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }\n"
        for major, minor in itertools.product((0, 1, 2, 3, 4, 255), (0, 1, 128)):
            self.assertEqual(self.judged(good, bytes([major, minor])), minor == 0 and 1 <= major <= 3, (major, minor))
        self.assertFalse(self.judged(good, b"\1\x80"))
        self.assertIn("in.npy has unsupported .npy version 1.128; expected 1.0, 2.0 or 3.0", self.rewritten("in.npy", status=3))


class Archives(Probe):
    def contents(self, damaged):
        """For each archive what npy_probe says: its arrays, or why it is refused."""
        for i, data in enumerate(damaged):
            (self.dir / f"{i}.npz").write_bytes(data)
        done = subprocess.run([BIN / "npy_probe", "npz", *(self.dir / f"{i}.npz" for i in range(len(damaged)))], capture_output=True, check=True)
        return done.stdout.decode(errors="replace").removesuffix("\n").split("\n")

    def numpy_reads(self, data):
        try:
            with np.load(io.BytesIO(data)) as file:
                return all(file[name] is not None for name in file.zip.namelist() if name.endswith(".npy"))
        except (ValueError, OSError, EOFError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error, tokenize.TokenError):
            return False

    def test_what_numpy_refuses_is_refused(self):
        """Each byte of the zip format changed in three ways; data have checksums."""
        for save in (np.savez, np.savez_compressed):
            file = io.BytesIO()
            save(file, a=np.arange(3), bc=np.zeros(2, np.float32))
            whole = file.getvalue()
            self.assertEqual(self.contents([whole]), ["a=[0 1 2] bc=[0. 0.] "])
            directory = whole.index(b"PK\1\2")
            places = [at for at in range(len(whole)) if at < 60 or at >= directory]
            damaged = [whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1:] for at in places for bits in (1, 0x40, 0xff)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                refused = [not self.numpy_reads(data) for data in damaged]
            for data, said, is_refused in zip(damaged, self.contents(damaged), refused):
                if is_refused:
                    at = next(i for i in range(len(whole)) if data[i] != whole[i])
                    self.assertIn("refused: ", said, f"byte {at} of {len(whole)}, directory at {directory}: {data[at]:#x}")

    def test_archives_of_other_makers_that_numpy_refuses_are_refused(self):
        file = io.BytesIO()
        np.savez(file, a=np.arange(3))
        whole, end = file.getvalue(), file.getvalue().index(b"PK\5\6")
        before = b"#!/bin/sh\n" + whole
        at = before.index(b"PK\1\2")  # with offsets that count what is before
        shifted = bytearray(before)
        shifted[at + 42:at + 46] = (10).to_bytes(4, "little")
        shifted[10 + end + 16:10 + end + 20] = at.to_bytes(4, "little")
        objects = io.BytesIO()
        np.savez(objects, a=np.array([None, {}], object))
        commented = whole[:-2] + b"\5\0hello"
        said = self.contents([bytes(shifted), objects.getvalue(), commented])
        self.assertIn("does not begin with a file", said[0])
        self.assertIn("unsupported dtype `|O`", said[1])
        self.assertEqual(said[2], "a=[0 1 2] ", "a comment is allowed, as in NumPy")
        for data in (bytes(shifted), objects.getvalue()):
            self.assertFalse(self.numpy_reads(data))


if __name__ == "__main__":
    unittest.main()
