"""Binary files, windows, texts, tar files and images: every row of every step is the one that NumPy predicts."""
import gzip
import io
import json
import struct
import tarfile
import unittest

import numpy as np

from data_reference import DataTest, batches, draws, in_order, png, shuffled
from flow import SOURCE, golden_arrays


def safetensors(arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        header[name] = {"dtype": {"f": "F", "i": "I", "u": "U"}[array.dtype.kind] + str(8 * array.itemsize), "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Windows(DataTest):
    def rows_of_windows(self, stream, length, stride=None, shift=0, reach=None):
        """All windows of a stream, as many as `reach`, the longest shift and length, allows."""
        stride = stride or length
        count = (len(stream) - (reach or shift + length)) // stride + 1
        return np.stack([stream[i * stride + shift:i * stride + shift + length] for i in range(count)])

    def test_windows_of_bin_files(self):
        """As nanoGPT reads its files: the targets are shifted by one."""
        stream = self.random.integers(0, 2**16, 1000).astype(np.uint16)
        (self.dir / "a.bin").write_bytes(b"head" + stream[:333].tobytes())
        (self.dir / "b.bin").write_bytes(b"HEAD" + stream[333:].tobytes())
        data = """
  corpus:
    defaults: {bin: [a.bin, b.bin], dtype: uint16, offset: 4}
    options: {split: {validation: 0.3, take: last}}
    x: {window: {length: 16, stride: 5}}
    y: {window: {length: 16, stride: 5, shift: 1}}
"""
        for part, rows in (("corpus", stream[:700]), ("corpus/validation", stream[700:])):
            found = self.watched(data, {"x": ([4, 16], "int32", part + ".x"), "y": ([4, 16], "int64", part + ".y")}, "{epochs: 2, shuffle: true}")
            x, y = (self.rows_of_windows(rows, 16, 5, shift, 17) for shift in (0, 1))
            self.assert_rows(found, {"x": x, "y": y}, batches(shuffled(part, len(x)), 4, 2))

    def test_element_types_of_bin_files(self):
        for dtype, numpy in (("int8", "i1"), ("uint8", "u1"), ("int16", "i2"), ("uint32", "u4"), ("int64", "i8"), ("uint64", "u8"), ("float16", "f2"),
                             ("float32", "f4"), ("float64", "f8"), ("bool", "?")):
            for endian, order in (("little", "<"), ("big", ">")):
                values = self.random.normal(0, 100, (6, 2, 3)).astype(numpy) if "f" in numpy else self.random.integers(0, 2 if numpy == "?" else 100, (6, 2, 3))
                values = values.astype(order + numpy if numpy != "?" else numpy)
                (self.dir / "x.bin").write_bytes(values.tobytes())
                found = self.watched(f"  d: {{x: {{bin: x.bin, dtype: {dtype}, endian: {endian}, shape: [2, 3], scale: 0.3}}}}", {"x": ([3, 2, 3], "float64", "d.x")})
                self.assert_rows(found, {"x": values.astype(np.float64) * 0.3}, batches(in_order(6), 3, 2))
        values = self.random.normal(size=(6, 4)).astype(np.float32).view(np.uint32) & 0xFFFF0000
        (self.dir / "x.bin").write_bytes((values >> 16).astype(np.uint16).tobytes())
        found = self.watched("  d: {x: {bin: x.bin, dtype: bfloat16}}", {"x": ([3, 4], "float32", "d.x")})
        self.assert_rows(found, {"x": values.view(np.float32)}, batches(in_order(6), 3, 2))

    def test_windows_of_arrays(self):
        x, load = self.random.normal(size=(50, 3)), self.random.normal(size=50).astype(np.float32)
        self.save("x", np.asfortranarray(x))
        np.savez_compressed(self.dir / "z.npz", x=x)
        (self.dir / "s.safetensors").write_bytes(safetensors({"other": x[:3], "load": load}))
        self.write("c.csv", "load\n" + "".join(f"{v!r}\n" for v in load.astype(np.float64).tolist()))
        windows = "window: {length: 6, stride: 4, shift: 2}"
        data = f"""
  d:
    n: {{npy: x.npy, {windows}, mean: [1, 2, 3], std: [1, 2, 4]}}
    z: {{npz: z.npz, array: x, window: {{length: 1, stride: 4}}}}
    s: {{safetensors: s.safetensors, array: load, window: {{length: 9, stride: 4}}}}
    c: {{csv: c.csv, column: load, {windows}}}
"""
        found = self.watched(data, {"n": ([2, 6, 3], "float64", "d.n"), "z": ([2, 1, 3], "float64", "d.z"), "s": ([2, 9], "float32", "d.s"), "c": ([2, 6], "float64", "d.c")},
                             "{epochs: 2, shuffle: true}")
        n = self.rows_of_windows((x - [1, 2, 3]) / [1, 2, 4], 6, 4, 2, 9)
        self.assert_rows(found, {"n": n, "z": self.rows_of_windows(x, 1, 4, 0, 9), "s": self.rows_of_windows(load, 9, 4, 0, 9),
                                 "c": self.rows_of_windows(load, 6, 4, 2, 9)}, batches(shuffled("d", len(n)), 2, 2))


TEXT = "\ufeffHello\n\nwörld 🙂, it's long\r\nlast"


class Text(DataTest):
    def lines(self): return [line.removesuffix("\r") for line in TEXT.removeprefix("\ufeff").split("\n")]

    def test_lines_of_bytes(self):
        self.write("t.txt", TEXT)
        for more, pad_side, truncate in (("", "right", "end"), ("begin: 256, end: 257, ", "left", "start")):
            data = f"""
  d:
    defaults: {{text: t.txt, lines: true, {more}length: 8}}
    ids: {{pad: 99, pad_side: {pad_side}, truncate: {truncate}}}
    lengths: {{take: lengths}}
"""
            found = self.watched(data, {"ids": ([2, 8], "int32", "d.ids"), "n": ([2], "int32", "d.lengths")}, "{epochs: 1}")
            ids, lengths, room = [], [], 6 if more else 8
            for line in self.lines():
                row = list(line.encode())
                row = row[:room] if truncate == "end" else row[max(0, len(row) - room):]
                row = [256, *row, 257] if more else row
                lengths.append(len(row))
                pad = [99] * (8 - len(row))
                ids.append(pad + row if pad_side == "left" else row + pad)
            self.assert_rows(found, {"ids": np.array(ids), "n": np.array(lengths)}, batches(in_order(4), 2, 1))

    def test_characters_are_learned_and_serve_without_their_file(self):
        (self.dir / "books").mkdir()
        self.write("books/b.txt", "zebra äöü\n")
        self.write("books/a.txt", "\ufeffabc 🙂\n")
        stream = "abc 🙂\nzebra äöü\n"
        alphabet = sorted(set(stream))
        data = "  book: {x: {text: \"books/*.txt\", tokenizer: characters, window: {length: 4}}}\n"
        found = self.watched(data, {"x": ([2, 4], "int32", "book.x")}, "{epochs: 1, shuffle: true}")
        ids = np.array([alphabet.index(c) for c in stream])
        windows = ids[:len(ids) // 4 * 4].reshape(-1, 4)
        self.assert_rows(found, {"x": windows}, batches(shuffled("book", len(windows)), 2, 1))
        self.assertEqual(json.loads(self.data_json("out")), {"book.x": {"categories": alphabet}})
        self.write("new.txt", "cab abe!")
        data += "  new: {x: {text: new.txt, like: book.x, unknown: extra}}\n"
        (self.dir / "books/a.txt").unlink()
        (self.dir / "books/b.txt").unlink()
        found = self.watched(data, {"x": ([2, 4], "int32", "new.x")}, "", "predict", ("--load", "out"), out="new")
        ids = [alphabet.index(c) if c in alphabet else len(alphabet) for c in "cab abe!"]
        self.assert_rows(found, {"x": np.reshape(ids, (2, 4))}, batches(in_order(2), 2, 1, train=False))

    def test_byte_pairs_give_the_ids_of_hugging_face(self):
        with gzip.open(SOURCE / "tests/golden/data/tokenizer_ids.json.gz") as file:
            golden = json.load(file)
        for name, text in golden["files"].items():
            self.write(name if "." in name else name + ".json", text)
        chosen = [i for i, text in enumerate(golden["texts"]) if "\n" not in text and "\r" not in text and "\0" not in text and not text.startswith("\ufeff")][:-1]
        chosen = chosen[:len(chosen) // 4 * 4]
        self.write("t.txt", "".join(golden["texts"][i] + "\n" for i in chosen))
        for name, tokenizer in (("plain", "{vocab: vocab.json, merges: merges.txt}"), ("nfc", "{json: nfc.json}"), ("cl100k", "{json: cl100k.json}")):
            rows = [golden["ids"][name][i] for i in chosen]
            length = max(map(len, rows))
            found = self.watched(f"  d: {{x: {{text: t.txt, lines: true, tokenizer: {tokenizer}, length: {length}, pad: -1}}}}", {"x": ([4, length], "int32", "d.x")}, "{epochs: 1}")
            self.assert_rows(found, {"x": np.array([row + [-1] * (length - len(row)) for row in rows])}, batches(in_order(len(rows)), 4, 1))


def add_member(tar, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


class Tar(DataTest):
    def test_fields_of_each_kind(self):
        images = self.random.integers(0, 256, (6, 3, 4, 5)).astype(np.uint8)
        arrays = self.random.normal(size=(6, 2, 3))
        labels, names, texts = [3, 1, 2, 3, 0, 1], ["b", "a", "b", "c", "a", "a"], ["one", "two two", "", "é", "x", "y"]
        values = self.random.normal(size=6).tolist()
        with tarfile.open(self.dir / "s-0.tar", "w", format=tarfile.USTAR_FORMAT) as first, tarfile.open(self.dir / "s-1.tar", "w", format=tarfile.PAX_FORMAT) as second:
            for i in range(6):
                tar, key = (first if i < 4 else second), f"part.d/{i:03}"
                saved = io.BytesIO()
                np.save(saved, arrays[i])
                add_member(tar, f"{key}.{'PNG' if i % 2 else 'left.png'}", png(images[i]))
                add_member(tar, key + ".cls", f" {labels[i]}\n".encode())
                add_member(tar, key + ".npy", saved.getvalue())
                add_member(tar, key + ".txt", texts[i].encode())
                add_member(tar, key + ".name.txt", names[i].encode())
                add_member(tar, key + ".json", json.dumps({"a": [{"b/c": values[i]}], "is": i % 2 == 0, "kind": names[i]}).encode())
        data = """
  d:
    defaults: {tar: "s-*.tar"}
    image: {field: [png, left.png], type: image}
    label: {field: cls}
    array: {field: npy, shape: [2, 3]}
    text: {field: txt, length: 8}
    name: {field: name.txt, type: category, categories: learn}
    number: {field: json, pointer: /a/0/b~1c}
    truth: {field: json, pointer: /is, type: bool}
    kind: {field: json, pointer: /kind, categories: [c, b, a], one_hot: 4}
"""
        found = self.watched(data, {"image": ([2, 3, 4, 5], "int32", "d.image"), "label": ([2], "int32", "d.label"), "array": ([2, 2, 3], "float64", "d.array"),
                                    "text": ([2, 8], "int32", "d.text"), "name": ([2], "int32", "d.name"), "number": ([2], "float64", "d.number"),
                                    "truth": ([2], "int32", "d.truth"), "kind": ([2, 4], "float32", "d.kind")}, "{epochs: 2, shuffle: true}")
        self.assert_rows(found, {
            "image": images, "label": np.array(labels), "array": arrays, "text": np.array([list(t.encode().ljust(8, b"\0")) for t in texts]),
            "name": np.array(["abc".index(n) for n in names]), "number": np.array(values), "truth": np.array([1, 0] * 3),
            "kind": np.eye(4)[["cba".index(n) for n in names]]}, batches(shuffled("d", 6), 2, 2))

    def test_predictions_are_listed_with_their_samples(self):
        with tarfile.open(self.dir / "s.tar", "w") as tar:
            for i in range(3):
                add_member(tar, f"x/{i}.cls", str(i).encode())
        self.watched("  d: {x: {tar: s.tar, field: cls}}", {"x": ([2], "float32", "d.x")}, "", "predict", ("--load", "none"))
        self.assertEqual((self.dir / "out/rows.txt").read_text(), "s.tar x/0\ns.tar x/1\ns.tar x/2\n")


class Folder(DataTest):
    def folder(self, shapes):
        """Images in folders of classes; their samples and classes in the order of their paths."""
        paths = sorted([f"{name}/{i}{suffix}" for i, (name, suffix) in enumerate([("dog", ".png"), ("cat", ".PNG"), ("Ant", ".png"), ("dog/old", ".png"), ("cat", ".jpg"), ("dog", ".png")])],
                       key=str.encode)
        images = []
        for path, shape in zip(paths, shapes):
            images.append(self.random.integers(0, 256, shape).astype(np.uint8))
            (self.dir / "pets" / path).parent.mkdir(parents=True, exist_ok=True)
            (self.dir / "pets" / path).write_bytes(png(images[-1]))
        (self.dir / "pets/empty").mkdir()
        self.write("pets/.hidden/x.png", "not an image")
        self.write("pets/cat/readme.txt", "not an image")
        names = ["Ant", "cat", "dog", "empty"]
        return paths, images, np.array([names.index(path.split("/")[0]) for path in paths])

    def test_images_and_the_classes_of_their_folders(self):
        paths, images, labels = self.folder([(3, 6, 7)] * 6)
        images = np.stack(images)
        data = """
  pets:
    defaults: {images: pets}
    image: {size: [6, 7], scale: 1/255, mean: [0.5, 0.25, 0.125], std: [0.3, 0.2, 0.1]}
    grey: {size: [6, 7], channels: grey}
    raw: {}
    label: {take: class}
"""
        inputs = {"image": ([2, 3, 6, 7], "float64", "pets.image"), "grey": ([2, 1, 6, 7], "int32", "pets.grey"), "raw": ([2, 3, 6, 7], "uint8", "pets.raw"),
                  "label": ([2], "int32", "pets.label")}
        found = self.watched(data, inputs, "{epochs: 2, shuffle: true}")
        shape = (3, 1, 1)
        normal = (images.astype(np.float64) * (1 / 255) - np.reshape([0.5, 0.25, 0.125], shape)) / np.reshape([0.3, 0.2, 0.1], shape)
        grey = np.stack([draws.grey(i.astype(np.int64))[None] for i in images])
        columns = {"image": normal, "grey": grey, "raw": images, "label": labels}
        self.assert_rows(found, columns, batches(shuffled("pets", 6), 2, 2))
        self.assertEqual(json.loads(self.data_json("out"))["pets.label"], {"categories": ["Ant", "cat", "dog", "empty"]})
        found = self.watched(data, inputs, "", "predict", ("--load", "out"), out="predicted")
        self.assert_rows(found, columns, batches(in_order(6), 2, 1, train=False))
        self.assertEqual((self.dir / "predicted/rows.txt").read_text(), "".join(f"pets/{path}\n" for path in paths))

    def test_sizes(self):
        """Against the resizing of the golden script, which repeats Pillow's integers."""
        shapes = [(3, 6, 7), (3, 12, 5), (3, 9, 9), (3, 4, 30), (3, 25, 40), (3, 8, 8)]
        _, images, _ = self.folder(shapes)
        for fit, size, name in (("crop", (8, 6), "bilinear"), ("stretch", (5, 9), "bicubic"), ("pad", (8, 8), "nearest"), ("crop", (7, 11), "bicubic"), ("pad", (6, 10), "bilinear")):
            with self.subTest(fit=fit, size=size, filter=name):
                expected = np.stack([self.fitted(image.astype(np.int64), fit, size, name) for image in images])
                more = ", fill: 7" if fit == "pad" else ""
                found = self.watched(f"  pets: {{x: {{images: pets, size: [{size[0]}, {size[1]}], fit: {fit}, filter: {name}{more}}}}}", {"x": ([2, 3, *size], "uint8", "pets.x")}, "{epochs: 1}")
                self.assert_rows(found, {"x": expected}, batches(in_order(6), 2, 1))

    def fitted(self, image, fit, size, name):
        (_, h, w), (height, width) = image.shape, size
        if fit == "stretch":
            return draws.resize(image, height, width, name, 255)
        if fit == "crop":
            inner = (height, w * height // h) if w * height >= h * width else (h * width // w, width)
            return draws.centre(draws.resize(image, *inner, name, 255), height, width)
        inner = (height, max(1, w * height // h)) if w * height <= h * width else (max(1, h * width // w), width)
        out = np.full((3, height, width), 7)
        top, left = (height - inner[0]) // 2, (width - inner[1]) // 2
        out[:, top:top + inner[0], left:left + inner[1]] = draws.resize(image, *inner, name, 255)
        return out

    def test_jpegs_have_the_samples_that_pillow_decodes(self):
        golden = golden_arrays("data/images")
        names = [name for name in ("jpeg444", "jpeg422", "jpeg420", "jpeg420_progressive", "jpeg_restarts") if name + ".file" in golden]
        self.assertGreater(len(names), 3)
        (self.dir / "j").mkdir()
        for name in names:
            (self.dir / f"j/{name}.jpeg").write_bytes(golden[name + ".file"].tobytes())
        found = self.watched("  d: {x: {images: j}}", {"x": ([1, *golden["jpeg444.rgb"].shape], "uint8", "d.x")}, "{epochs: 1}")
        for row, name in enumerate(sorted(names)):
            np.testing.assert_array_equal(found["x"][row], golden[name + ".rgb"])


if __name__ == "__main__":
    unittest.main()
