"""Hostile and damaged data: one message with the place, the right exit status, bad rows left out where that is asked for."""
import contextlib
import io
import json
import os
import signal
import struct
import subprocess
import tarfile
import time
import unittest
import zlib

import numpy as np

from data_reference import DataTest, chunk, job_text, png
from flow import BIN, golden_arrays

PIXELS = np.arange(48).reshape(3, 4, 4).astype(np.uint8)
GOOD = png(PIXELS)
HEADER, SIGNATURE = GOOD[8:33], GOOD[:8]


def idat(data): return chunk(b"IDAT", data)


END = chunk(b"IEND", b"")
RAW = b"".join(b"\0" + PIXELS[:, y].T.tobytes() for y in range(4))


def huge_png(height, width):
    return SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + idat(zlib.compress(b"")) + END


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


def tar(*members, form=tarfile.USTAR_FORMAT, edit=None):
    """An archive of (name, content or TarInfo)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    data = out.getvalue()
    return edit(data) if edit else data


def special(kind):
    info = tarfile.TarInfo("a/1.cls")
    info.type, info.linkname = kind, "x"
    return info


class Errors(DataTest):
    def fails(self, data, inputs, pattern, status=3, words=(), hint=None):
        """The job fails with one message, before its first step, within the limit."""
        self.write("job.yaml", job_text(data, inputs, "{epochs: 1}"))
        started = time.monotonic()
        done = self.flowrun("job.yaml", "-o", "out", "--force", "--quiet", *words, status=status, timeout=60)
        self.assertLess(time.monotonic() - started, 10)
        self.assertRegex(done.stderr, pattern)
        self.assertEqual(done.stderr.count("flowrun: error:"), 1, done.stderr)
        self.assertRegex(done.stderr, r"error: job\.yaml:\d+:\d+: ")
        if hint:
            self.assertRegex(done.stderr, "hint: .*" + hint)
        return done.stderr

    def bad_row(self, data, inputs, pattern, good):
        """A row fails the job, or is left out. `good`: the rows of the first input without it."""
        self.fails(data, inputs, pattern)
        skipping = data.replace("on_bad_row: fail", "on_bad_row: skip")
        found = self.watched(skipping, inputs, "{epochs: 1}")
        name = next(iter(inputs))
        np.testing.assert_array_equal(found[name], np.asarray(good).astype(found[name].dtype))
        self.assertRegex(self.done.stderr, r"1 bad row of dataset `d` is left out, first ")
        self.watched(data.replace("on_bad_row: fail", "on_bad_row: skip, max_bad_rows: 1"), inputs, "{epochs: 1}")
        self.fails(data.replace("on_bad_row: fail", "on_bad_row: skip, max_bad_rows: 0"), inputs, "more than 0 bad rows, the limit of `max_bad_rows`; the first is ")


class Csv(Errors):
    X = {"x": ([1], "float64", "d.x")}

    def data(self, more="", options=True):
        return f"  d:\n    {'options: {on_bad_row: fail}' if options else ''}\n    x: {{csv: d.csv{more}}}\n"

    def fatal(self, content, pattern, more="", hint=None):
        (self.dir / "d.csv").write_bytes(content)
        for options in ("", "options: {on_bad_row: skip}"):
            self.fails(f"  d:\n    {options}\n    x: {{csv: d.csv{more}}}\n", self.X, pattern, hint=hint)

    def test_fatal(self):
        place = r"d\.csv:"
        self.fatal(b'x\n1\n"2\n3\n', place + "3:1: a quote is not closed")
        self.fatal(b"x\n1\n2\0\n", place + "3:2: .*NUL")
        self.fatal(b"x\n1\r2\n", place + "2:2: .*")
        self.fatal("x\n1\n".encode("utf-16"), "UTF-16")
        self.fatal("x\n1\n".encode("utf-32"), "UTF-32")
        self.fatal(b"x\n1\n" + b"7" * (17 << 20) + b"\n", place + "3:1: a field has more than 16")
        self.fatal(b"x\n1" + b"," * 70000 + b"\n", place + "2:.*65536 fields")
        self.fatal(b"", r"d\.csv has no")
        self.fatal(b"x\n", r"d\.csv has no rows")
        self.fatal(b"y\n1\n", 'no column is named "x"')
        self.fatal(b"x,x\n1,2\n", 'column "x" occurs 2 times')

    def test_bad_rows(self):
        for content, pattern, more in ((b"x,y\n1,2\n3\n4,5\n", "d.csv:3:1: the record has 1 field, expected 2", ""),
                                       (b"x,y\n1,2\n3,4,5\n4,5\n", "d.csv:3:1: the record has 3 fields, expected 2", ""),
                                       (b"x\n1\n12x\n4\n", r'd.csv:3:1: "12x" is not a number \(column x\)', ""),
                                       (b"y,x\n0,1\n0,1_000\n0,4\n", r'd.csv:3:3: "1_000" is not a number \(column x\)', ""),
                                       (b"y,x\n0,1\n0,inf\n0,4\n", r'd.csv:3:3: "inf" is not a number \(column x\)', ""),
                                       (b"y,x\n0,1\n0,1e999\n0,4\n", "d.csv:3:3: ", ""),
                                       (b'x\n1\n""\n4\n', r"d.csv:3:1: a value is missing \(column x\)", ""),
                                       (b"x\n1\nNA\n4\n", r"d.csv:3:1: a value is missing \(column x\)", ""),
                                       (b"x\n1\n2.5\n4\n", r'd.csv:3:1: "2.5" is not an integer', ", type: integer"),
                                       (b'x\n1\n"2"x\n4\n', "d.csv:3:1: ", ""),
                                       (b'x,y\n1,"\n"\n7y,\n4,\n', 'd.csv:4:1: "7y" is not a number', "")):
            with self.subTest(content=content):
                (self.dir / "d.csv").write_bytes(content)
                self.bad_row(self.data(more), self.X, pattern, [1, 4])

    def test_bad_texts(self):
        for content, pattern, more, good in ((b"x\nb\n\xff\na\n", "d.csv:3:1: a field is not valid UTF-8", "categories: learn", [1, 0]),
                                             (b"x\nb\nc\na\n", "d.csv:3:1: unknown category `c`", "categories: [b, a]", [0, 1]),
                                             (b"x,y\nb,\n,\na,\n", "d.csv:3:1: a value is missing", "categories: [b, a]", [0, 1])):
            (self.dir / "d.csv").write_bytes(content)
            self.bad_row(self.data(", " + more), self.X, pattern, good)

    def test_columns_that_no_input_reads_make_bad_rows_too(self):
        (self.dir / "d.csv").write_bytes(b"x,y\n1,2\n3,z\n4,5\n")
        found = self.watched(self.data().replace("fail", "skip") + "    y: {csv: d.csv}\n", self.X, "{epochs: 1}")
        np.testing.assert_array_equal(found["x"], [1, 4])
        self.assertIn('d.csv:3:3: "z" is not a number (column y)', self.done.stderr)

    def test_headers_of_several_files_must_agree(self):
        self.write("a.csv", "x,y\n1,2\n")
        self.write("b.csv", "y,x\n1,2\n")
        self.fails("  d: {x: {csv: [a.csv, b.csv]}}", self.X, r"b\.csv:1.* the header differs from the one at .*a\.csv")

    def test_paths_of_images(self):
        (self.dir / "a.png").write_bytes(GOOD)
        for path in ("../a.png", str(self.dir / "a.png"), "none.png", "", "."):
            self.write("d.csv", f"x,y\na.png,1\n{path},2\na.png,3\n")
            self.bad_row(self.data(", type: image") + "    y: {csv: d.csv}\n", {"y": ([1], "float64", "d.y"), "x": ([1, 3, 4, 4], "uint8", "d.x")}, r"d\.csv:3:1|none\.png|\.: cannot read", [1, 3])


class Files(Errors):
    X = {"x": ([1], "float64", "d.x")}

    def test_missing_files(self):
        (self.dir / "empty").mkdir()
        for source in ("csv: none.csv", "csv: 'n*.csv'", "bin: none.bin, dtype: float64", "text: none.txt, window: {length: 1}", "safetensors: none.st, array: x", "tar: none.tar, field: cls"):
            with self.subTest(source=source):
                self.fails(f"  d: {{x: {{{source}}}}}", {"x": ([1, 1] if "window" in source else [1], "float64", "d.x")}, r"n(one|\*)\.")
        for folder in ("nowhere", "empty"):
            self.fails(f"  d: {{x: {{images: {folder}, size: 4}}}}", {"x": ([1, 3, 4, 4], "uint8", "d.x")}, folder)

    def test_pipes_are_refused_without_being_opened(self):
        os.mkfifo(self.dir / "pipe")
        (self.dir / "i").mkdir()
        (self.dir / "i/a.png").write_bytes(GOOD)
        os.mkfifo(self.dir / "i/b.png")
        for source in ("csv: pipe", "bin: pipe, dtype: float64", "safetensors: pipe, array: x", "tar: pipe, field: cls", "csv: /dev/zero", "tar: /dev/zero, field: cls"):
            self.fails(f"  d: {{x: {{{source}}}}}", self.X, "pipe or a device")
        self.fails("  d: {x: {text: pipe, window: {length: 1}}}", {"x": ([1, 1], "float64", "d.x")}, "pipe or a device")
        found = self.watched("  d: {x: {images: i}}", {"x": ([1, 3, 4, 4], "uint8", "d.x")}, "{epochs: 1}")
        np.testing.assert_array_equal(found["x"], PIXELS[None])

    def test_files_of_a_wrong_length(self):
        (self.dir / "x.bin").write_bytes(bytes(17))
        self.fails("  d: {x: {bin: x.bin, dtype: float64}}", self.X, "x.bin has 17 bytes")
        self.fails("  d: {x: {bin: x.bin, dtype: float64, offset: 18}}", self.X, "x.bin has 17 bytes")
        self.fails("  d: {x: {bin: x.bin, dtype: uint8, window: {length: 18}}}", {"x": ([1, 18], "float64", "d.x")}, "0 rows", status=2)
        (self.dir / "x.bin").write_bytes(b"\xff" * 8)
        self.fails("  d: {x: {bin: x.bin, dtype: uint64}}", self.X, "x.bin")
        (self.dir / "x.st").write_bytes(struct.pack("<Q", 2**40) + b"{}")
        self.fails("  d: {x: {safetensors: x.st, array: x}}", self.X, "x.st")
        header = json.dumps({"x": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}}).encode()
        (self.dir / "x.st").write_bytes(struct.pack("<Q", len(header)) + header + bytes(15))
        self.fails("  d: {x: {safetensors: x.st, array: x}}", self.X, "x.st")
        self.fails("  d: {x: {safetensors: x.st, array: y}}", self.X, "x.st")

    def test_texts_that_are_not_utf_8(self):
        (self.dir / "t.txt").write_bytes(b"ab\nc\xffd\n")
        inputs = {"x": ([1, 4], "int32", "d.x")}
        self.fails("  d: {x: {text: t.txt, lines: true, tokenizer: characters, length: 4}}", inputs, r"t\.txt:2:2")
        self.watched("  d: {x: {text: t.txt, lines: true, length: 4}}", inputs, "{epochs: 1}")

    def test_tokenizer_files_that_do_not_fit(self):
        self.write("t.txt", "ab\n")
        inputs = {"x": ([1, 4], "int32", "d.x")}
        alphabet = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
        vocab = {symbol: i for i, symbol in enumerate(alphabet)}
        data = "  d: {x: {text: t.txt, lines: true, length: 4, tokenizer: {vocab: v.json, merges: m.txt}}}"
        for ids, merges, pattern in ((vocab, "a b\n", "`ab` is not in v.json|m.txt:1"), ({**vocab, "ab": 256}, "a b c\n", "m.txt:1: expected two symbols"),
                                     ({**vocab, "ab": -1}, "a b\n", "v.json.*ab"), ({**vocab, "ab": 1.5}, "a b\n", "v.json.*ab"), ([1], "a b\n", "v.json: expected an object"),
                                     ({**vocab, "ab": 0}, "", "v.json.*same id 0")):
            self.write("v.json", json.dumps(ids))
            self.write("m.txt", merges)
            self.fails(data, inputs, pattern)
        self.write("v.json", "[" * 100 + "]" * 100)
        self.fails(data, inputs, "v.json")
        self.write("v.json", '{"a": ' * 3)
        self.fails(data, inputs, "v.json")

    def test_rows_that_are_too_long(self):
        self.write("t.txt", "ab\nabcde\nc\n")
        self.bad_row("  d:\n    options: {on_bad_row: fail}\n    x: {text: t.txt, lines: true, length: 4, truncate: error}", {"x": ([1, 4], "int32", "d.x")}, r"t\.txt:2", [[97, 98, 0, 0], [99, 0, 0, 0]])


class Images(Errors):
    DATA = "  d:\n    options: {on_bad_row: fail}\n    x: {images: i}\n"
    INPUTS = {"x": ([1, 3, 4, 4], "uint8", "d.x")}

    def image(self, content, name="i/b.png"):
        (self.dir / "i").mkdir(exist_ok=True)
        for good in ("i/a.png", "i/c.png"):
            (self.dir / good).write_bytes(GOOD)
        (self.dir / name).write_bytes(content)

    def test_bad_pngs(self):
        data = zlib.compress(RAW)
        for content, pattern in ((b"", "image is empty"), (b"GIF89a", "unknown image format"), (GOOD[:-20], "PNG"), (GOOD[:-12], "PNG"), (flipped(GOOD, 45), "PNG"), (flipped(GOOD, 20), "PNG"),
                                 (SIGNATURE + HEADER + END, "PNG"), (SIGNATURE + HEADER + idat(b"junk" * 9) + END, "PNG"), (SIGNATURE + HEADER + idat(data[:-8]) + END, "PNG"),
                                 (huge_png(10001, 10001), "the limit is 100000000"), (huge_png(2**31 - 1, 2**31 - 1), "")):
            with self.subTest(content=content[:60]):
                self.image(content)
                self.bad_row(self.DATA, self.INPUTS, r"i/b\.png: .*" + pattern, [PIXELS, PIXELS])

    def test_harmless_damages_of_pngs(self):
        text = chunk(b"tEXt", b"a\0b")
        for content in (GOOD + b"after the end", GOOD[:33] + flipped(text, 10) + GOOD[33:]):
            self.image(content)
            self.assertEqual(len(self.watched(self.DATA.replace("on_bad_row: fail", ""), self.INPUTS, "{epochs: 1}")["x"]), 3)

    def test_a_limit_of_pixels(self):
        self.image(GOOD)
        self.fails(self.DATA.replace("images: i", "images: i, max_pixels: 15"), self.INPUTS, "the limit is 15")

    def test_bad_jpegs(self):
        golden = golden_arrays("data/images")
        jpeg = golden["jpeg420.file"].tobytes()
        inputs = {"x": ([1, *golden["jpeg420.rgb"].shape], "uint8", "d.x")}
        (self.dir / "i").mkdir()
        for good in ("i/a.jpg", "i/c.jpg"):
            (self.dir / good).write_bytes(jpeg)
        scan = jpeg.index(b"\xff\xda")
        frame = jpeg.index(b"\xff\xc0")
        for content in (jpeg[:-50], jpeg[:200], jpeg[:scan + 40] + b"\xff\x77" + jpeg[scan + 40:], jpeg[:frame + 1] + b"\xc9" + jpeg[frame + 2:], jpeg[:frame + 4] + b"\x0c" + jpeg[frame + 5:],
                        jpeg[:frame + 1] + b"\xc3" + jpeg[frame + 2:]):
            (self.dir / "i/b.jpg").write_bytes(content)
            self.bad_row(self.DATA, inputs, r"i/b\.jpg: .*JPEG", [golden["jpeg420.rgb"]] * 2)

    def test_images_of_another_size(self):
        self.image(png(np.zeros((3, 5, 4), np.uint8)))
        self.fails(self.DATA, self.INPUTS, r"i/b\.png: the image has shape \[3, 5, 4\]; expected \[3, 4, 4\]", hint="size")

    def test_images_without_a_class(self):
        self.image(GOOD)
        self.fails("  d: {x: {images: i, take: class}}", {"x": ([1], "int32", "d.x")}, r"i/a\.png")


class Tar(Errors):
    INPUTS = {"x": ([1], "int32", "d.x")}
    DATA = "  d:\n    options: {on_bad_row: fail}\n    x: {tar: s.tar, field: cls}\n"

    def test_fatal(self):
        good = [("a/0.cls", b"0"), ("a/1.cls", b"1")]
        for content, pattern in ((tar(*good, edit=lambda d: flipped(d, 1024)), "offset 1024: wrong header checksum"), (tar(*good, edit=lambda d: d[:2048]), None), (tar(*good)[:1600], "offset"),
                                 (tar(("a/0.cls", special(tarfile.SYMTYPE))), "offset 0: .*link"), (tar(("a/0.cls", special(tarfile.LNKTYPE))), "link"),
                                 (tar(("a/0.cls", special(tarfile.FIFOTYPE))), "pipe"), (tar(("a/0.cls", special(tarfile.CHRTYPE))), "device"), (tar(("../0.cls", b"0")), r"`\.\.`"),
                                 (tar(("/etc/0.cls", b"0")), "absolute"), (tar(("a/0.cls", b"0"), ("a/0.CLS", b"1")), "twice"),
                                 (tar(("a/0.cls", b"0"), ("a/1.cls", b"0"), ("a/0.txt", b"0")), "returns after other samples"), (b"", "empty"), (b"\x1f\x8b" + bytes(600), "gzip"),
                                 (tar(("a/" + "k" * 200 + ".cls", b"1"), form=tarfile.PAX_FORMAT, edit=lambda d: d[:124] + b"77777777777\0" + d[136:]), "offset 0")):
            with self.subTest(pattern=pattern):
                (self.dir / "s.tar").write_bytes(content)
                if pattern is None:  # an archive that ends at a block border
                    self.watched(self.DATA.replace("on_bad_row: fail", ""), self.INPUTS, "{epochs: 1}")
                    continue
                for options in ("", "on_bad_row: skip"):
                    self.fails(self.DATA.replace("on_bad_row: fail", options), self.INPUTS, r"s\.tar.*" + pattern)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir() if p.name not in ("job.yaml", "out", "s.tar")), [])

    def test_bad_rows(self):
        for member, pattern in ((("a/1.txt", b"1"), "s.tar a/1: the sample has no field `cls`"), (("a/1.cls", b"x"), 's.tar a/1: "x" is not an integer'), (("a/1.cls", b""), "s.tar a/1: ")):
            (self.dir / "s.tar").write_bytes(tar(("a/0.cls", b" 0\n"), member, ("a/2.cls", b"2")))
            self.bad_row(self.DATA, self.INPUTS, pattern, [0, 2])


class Mistakes(Errors):
    def test_job_files_are_checked_without_their_data(self):
        for data, pattern in (("  d: {x: {csv: none.csv, speed: 1}}", "unknown key `speed`"), ("  d: {x: {csv: none.csv, endian: big}}", "endian"),
                              ("  d: {x: {csv: none.csv, type: category, categories: [a], missing: mean}}", "mean"), ("  d: {options: {split: {a: 0.6, b: 0.4}}, x: {csv: none.csv}}", "add up to 1"),
                              ("  d: {options: {mix: {mixup: 1, columns: [y]}}, x: {csv: none.csv}}", "unknown column `y`"), ("  d: {x: {csv: none.csv, like: d.x}}", "like"),
                              ("  d: {options: {on_bad_row: skip}, x: {csv: none.csv, window: {length: 1}}}", "window"), ("  d: {x: {csv: none.csv, npy: x.npy}}", "npy")):
            with self.subTest(data=data):
                self.write("job.yaml", job_text(data, {"x": ([2], "float32", "d.x")}))
                for done in (self.call("flowc", "check", "job.yaml", status=2), self.flowrun("job.yaml", "-o", "out", status=2)):
                    self.assertRegex(done.stderr, r"job\.yaml:\d+:\d+")
                    self.assertRegex(done.stderr, pattern)
        for column, shape in (("{images: i, size: [4, 5]}", [2, 3, 5, 4]), ("{images: i, size: 9, augment: [{crop: 8}]}", [2, 3, 9, 9]), ("{text: t.txt, lines: true, length: 7}", [2, 8]),
                              ("{csv: c.csv, categories: learn, one_hot: 4}", [2, 5]), ("{bin: x.bin, dtype: int8, window: {length: 4}}", [2, 5])):
            with self.subTest(column=column):
                self.write("job.yaml", job_text(f"  d: {{x: {column}}}", {"x": (shape, "float32", "d.x")}))
                self.assertIn("job.yaml:", self.call("flowc", "check", "job.yaml", status=2).stderr)
                self.write("job.yaml", job_text(f"  d: {{x: {column}}}", {"x": ([2, *self.right(column)], "float32", "d.x")}))
                self.call("flowc", "check", "job.yaml")

    def right(self, column):
        return {"size: [4": [3, 4, 5], "crop": [3, 8, 8], "lines": [7], "one_hot": [4], "window": [4]}[next(k for k in ("size: [4", "crop", "lines", "one_hot", "window") if k in column)]


class Changes(Errors):
    """Files that vanish, shrink or grow while a run reads them."""

    def run_while(self, data, inputs, change, steps=20000):
        """Changes files during a run; its exit status and messages."""
        self.write("job.yaml", job_text(data, inputs, f"{{steps: {steps}, shuffle: true}}").replace("    hooks: ", "    hooks: [] # "))
        log = self.dir / "out/metrics.jsonl"
        with subprocess.Popen([BIN / "flowrun", "job.yaml", "-o", "out", "--force", "--quiet"], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as process:
            limit = time.monotonic() + 60
            while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= 3) and time.monotonic() < limit:
                time.sleep(0.005)
            self.assertIsNone(process.poll(), "the run ended too early")
            change()
            try:
                said = process.communicate(timeout=60)[1]
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                raise
        return process.returncode, said

    def test_a_mapped_file_that_shrinks(self):
        path = self.dir / "x.bin"
        path.write_bytes(np.zeros(400_000).tobytes())
        with contextlib.suppress(FileNotFoundError):
            status, said = self.run_while("  d: {x: {bin: x.bin, dtype: float64, window: {length: 100, stride: 20}}}", {"x": ([8, 100], "float64", "d.x")}, lambda: os.truncate(path, 4096), 10**7)
        self.assertEqual(status, 3, said)
        self.assertIn("x.bin", said)

    def test_images_that_vanish_or_are_damaged(self):
        for change in (lambda: (self.dir / "i/07.png").unlink(), lambda: (self.dir / "i/07.png").write_bytes(b"\x89PNG")):
            (self.dir / "i").mkdir(exist_ok=True)
            for i in range(10):
                (self.dir / f"i/{i:02}.png").write_bytes(GOOD)
            status, said = self.run_while("  d: {x: {images: i}}", {"x": ([2, 3, 4, 4], "float64", "d.x")}, change, 10**7)
            self.assertEqual(status, 3, said)
            self.assertRegex(said, r"i/07\.png")

    def test_a_tar_that_shrinks(self):
        path = self.dir / "s.tar"
        path.write_bytes(tar(*((f"a/{i:03}.png", GOOD) for i in range(200))))
        status, said = self.run_while("  d: {x: {tar: s.tar, field: png}}", {"x": ([2, 3, 4, 4], "float64", "d.x")}, lambda: os.truncate(path, 2048), 10**7)
        self.assertEqual(status, 3, said)
        self.assertIn("s.tar", said)


if __name__ == "__main__":
    unittest.main()
