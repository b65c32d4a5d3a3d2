"""flowc data lists what datasets contain, and flowc init --from writes jobs for data that run as they are."""
import json
import random
import struct
import unittest
import zlib

import numpy as np

from data_reference import DataTest, job_text, png

HOUSES = """
  houses:
    defaults: {csv: houses.csv, delimiter: ";"}
    options: {split: {validation: 0.25}}
    area: {missing: median, scale: 1/10}
    garden: {type: bool, missing: 0}
    kind: {categories: learn, missing: extra}
"""
ROWS = "area;garden;kind\n100;yes;flat\n;no;house\n80.5;no;\n12x;yes;flat\n120;1;house\n99;f;flat\n1;2\n"


def unfiltered(kind, line, above, pixel):
    """Reverses a filter of PNG: section 9 of its specification."""
    line = bytearray(line)
    for i in range(len(line)):
        a, b, c = (line[i - pixel] if i >= pixel else 0), above[i], (above[i - pixel] if i >= pixel else 0)
        p = a + b - c
        nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        line[i] = (line[i] + [0, a, b, (a + b) // 2, nearest][kind]) & 255
    return bytes(line)


def decoded(data):
    """The samples of a PNG file as (C, H, W)."""
    at, chunks = 8, {}
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        chunks[kind] = chunks.get(kind, b"") + data[at + 8:at + 8 + length]
        at += 12 + length
    width, height, _, color = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    channels = {0: 1, 2: 3, 6: 4}[color]
    raw, above, lines = zlib.decompress(chunks[b"IDAT"]), bytes(width * channels), []
    for y in range(height):
        start = y * (width * channels + 1)
        above = unfiltered(raw[start], raw[start + 1:start + 1 + width * channels], above, channels)
        lines.append(above)
    return np.frombuffer(b"".join(lines), np.uint8).reshape(height, width, channels).transpose(2, 0, 1)


class Data(DataTest):
    def job(self, data, inputs, **options):
        return self.write("job.yaml", job_text(data, inputs, **options))

    def summary(self, *words, status=0):
        return json.loads(self.call("flowc", "data", "job.yaml", "--format", "json", *words, status=status).stdout)

    def houses(self):
        self.write("houses.csv", ROWS)
        self.job(HOUSES, {"area": ((1, 1), "float32", "houses.area")}, kind="predict")

    def test_numbers_categories_and_bad_rows(self):
        self.houses()
        houses = self.summary(status=1)["houses"]
        self.assertEqual(list(houses), ["rows", "bad_rows", "parts", "columns", "bad"])
        self.assertEqual((houses["rows"], houses["bad_rows"], houses["parts"]), (5, 2, {"validation": 1}))
        values = np.array([100, 80.5, 120, 99])
        area = houses["columns"]["area"]
        self.assertEqual(list(area), ["type", "shape", "missing", "min", "max", "mean", "std"])
        self.assertEqual((area["type"], area["shape"], area["missing"], area["min"], area["max"]), ("number", [], 1, 80.5, 120))
        self.assertAlmostEqual(area["mean"], values.mean(), delta=1e-12)
        self.assertAlmostEqual(area["std"], values.std(), delta=1e-12)
        self.assertEqual(houses["columns"]["kind"],
                         {"type": "category", "shape": [], "missing": 1, "categories": ["flat", "house"], "counts": [2, 2]})
        self.assertEqual([(bad["file"], bad["line"], bad["column"]) for bad in houses["bad"]], [("houses.csv", 5, 1), ("houses.csv", 8, 1)])
        self.assertIn('"12x" is not a number', houses["bad"][0]["message"])

    def test_table(self):
        self.houses()
        lines = self.call("flowc", "data", "job.yaml", "houses", status=1).stdout.splitlines()
        self.assertEqual(lines[0], "houses: 5 rows, 2 bad rows; validation 1, the rest 4")
        self.assertEqual(lines[1].split(), ["column", "type", "shape", "missing", "values"])
        self.assertIn("80.5 to 120, mean 99.875, std ", lines[2])
        self.assertTrue(lines[4].endswith("flat 2, house 2"), lines[4])
        self.assertTrue(lines[6].startswith('    houses.csv:5:1: "12x" is not a number'), lines[6])

    def test_json_lists_at_most_100_bad_rows(self):
        self.write("houses.csv", "area;garden;kind\n1;no;a\n" + "x;no;a\n" * 150 + "2;no;b\n3;no;b\n")
        self.job(HOUSES, {"area": ((1, 1), "float32", "houses.area")}, kind="predict")
        houses = self.summary(status=1)["houses"]
        self.assertEqual((houses["rows"], houses["bad_rows"], len(houses["bad"])), (3, 150, 100))
        table = self.call("flowc", "data", "job.yaml", status=1).stdout
        self.assertEqual(table.count("is not a number"), 150)

    def test_good_rows_are_no_failure_and_unread_datasets_are_read(self):
        self.write("a.csv", "x\n1\n2\n")
        np.save(self.dir / "b.npy", np.array([[1, np.nan], [3, 4]], np.float32))
        self.job("  a:\n    x: {csv: a.csv}\n  b:\n    y: {npy: b.npy}", {"x": ((1, 1), "float32", "a.x")}, kind="predict")
        found = self.summary()
        self.assertEqual(found["b"]["columns"]["y"]["nonfinite"], 1)
        self.assertEqual(found["b"]["columns"]["y"]["shape"], [2])
        self.assertEqual(list(self.summary("b")), ["b"])
        self.assertIn("unknown dataset `c`", self.call("flowc", "data", "job.yaml", "c", status=2).stderr)

    def test_data_that_cannot_be_read(self):
        self.job("  a:\n    x: {csv: a.csv}", {"x": ((1, 1), "float32", "a.x")}, kind="predict")
        self.assertIn("a.csv", self.call("flowc", "data", "job.yaml", status=3).stderr)
        self.write("a.csv", 'x\n1\n"2\n')
        self.assertIn("a.csv:3", self.call("flowc", "data", "job.yaml", status=3).stderr)

    def images(self, sizes=((9, 7), (8, 12), (20, 10), (6, 6))):
        self.pixels = [self.random.integers(0, 256, (3, *size), dtype=np.uint8) for size in sizes]
        for i, pixels in enumerate(self.pixels):
            path = self.dir / "pets" / ["cat", "dog"][i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(pixels))

    def test_images_and_samples_as_they_are(self):
        self.images()
        (self.dir / "pets/dog/broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
        self.job("  pets:\n    defaults: {images: pets}\n    image: {size: 4, augment: [{flip: horizontal, p: 1}]}\n    label: {take: class}",
                 {"image": ((2, 3, 4, 4), "uint8", "pets.image")}, kind="predict")
        pets = self.summary("-o", "samples", "--samples", "3", status=1)["pets"]
        self.assertEqual((pets["rows"], pets["columns"]["image"]["shape"]), (4, [3, 4, 4]))
        self.assertEqual(pets["columns"]["image"]["sizes"], [[6, 6], [20, 10]])
        self.assertEqual(pets["columns"]["label"]["counts"], [2, 2])
        self.assertEqual(pets["bad"][0]["file"], "pets/dog/broken.png")
        written = sorted(path.name for path in (self.dir / "samples/pets/image").iterdir())
        self.assertEqual(written, ["000000.png", "000001.png", "000002.png"])

    def test_samples_are_the_augmented_rows_of_a_train_job(self):
        self.images()
        data = ("  pets:\n    defaults: {images: pets}\n    options: {split: {validation: 0.25}}\n"
                "    image: {size: 6, scale: 1/255, augment: [{flip: horizontal}, {crop: 5, pad: 2}, {brightness: 0.5}]}")
        raw = data.replace(" scale: 1/255,", "")
        found = self.watched(raw, {"image": ((1, 3, 5, 5), "float32", "pets.image")}, run="{epochs: 2}")["image"]
        self.job(data, {"image": ((1, 3, 5, 5), "float32", "pets.image")})
        self.summary("-o", "first", "--job", "train")
        self.summary("-o", "second", "--job", "train", "--epoch", "1")
        for row in range(3):
            for folder, expected in (("first", found[row]), ("second", found[3 + row])):
                pixels = decoded((self.dir / folder / f"pets/image/{row:06}.png").read_bytes())
                np.testing.assert_array_equal(pixels, expected.astype(np.uint8))
        self.assertFalse((self.dir / "first/pets/image/000003.png").exists())
        self.call("flowc", "data", "job.yaml", "--job", "train", status=2)  # requires -o

    def test_samples_of_texts(self):
        self.write("x.txt", "abc\nh\u00e9llo world\n")
        self.job("  lines:\n    x: {text: x.txt, lines: true, length: 6}", {"x": ((1, 6), "int32", "lines.x")}, kind="predict")
        self.summary("-o", "samples")
        self.assertEqual([(self.dir / f"samples/lines/x/00000{i}.txt").read_text() for i in range(2)], ["abc", "h\u00e9llo"])


class InitFrom(DataTest):
    def houses(self, rows=200, delimiter=";"):
        chance = random.Random(2)
        lines = [["id", "area", "rooms", "garden", "kind", "country", "Sale Price ($)"]]
        for i in range(rows):
            area, rooms, kind = chance.uniform(20, 200), chance.randrange(1, 7), chance.choice(["flat", "house", "villa"])
            price = 3000.5 * area + {"flat": 0, "house": 50000, "villa": 200000}[kind]
            lines.append([f"h{i}", "" if i % 9 == 3 else f"{area:.1f}", rooms, chance.choice(["yes", "no"]), kind, "NL", f"{price:.2f}"])
        self.write("houses.csv", "".join(delimiter.join(map(str, line)) + "\n" for line in lines))

    def run_all(self, job, name):
        self.call("flowc", "check", job)
        said = self.flowrun("train", job, "-o", "out/train").stdout
        self.flowrun("eval", job, "--load", "out/train", "-o", "out/eval")
        self.flowrun("predict", job, "--load", "out/train", "-o", "out/predict")
        return said, self.load(f"out/predict/returns/{name}/value.npy")

    def test_regression(self):
        self.houses()
        said = self.call("flowc", "init", "--from", "houses.csv").stderr
        self.assertIn("predicts `Sale Price ($)`, the last column", said)
        text = (self.dir / "houses.yaml").read_text()
        self.assertIn("# Column `id` is left out: it has 200 different values.", text)
        self.assertIn("# Column `country` is left out: it has fewer than two values.", text)
        self.assertIn("numbers: {mean: learn, std: learn, missing: median, columns: [area, rooms]}", text)
        self.assertIn("flags: {type: bool, missing: median, columns: [garden]}", text)
        self.assertIn("vocab_size: 4", text)
        _, predicted = self.run_all("houses.yaml", "prediction")
        prices = [float(line.rsplit(";", 1)[1]) for line in (self.dir / "houses.csv").read_text().splitlines()[1:]]
        self.assertEqual(predicted.shape, (200, 1))
        error = np.abs(predicted[:, 0] - prices).mean()
        self.assertLess(error, np.abs(np.mean(prices) - prices).mean() / 2)

    def test_classification(self):
        self.houses(delimiter="|")
        said = self.call("flowc", "init", "--from", "houses.csv", "--target", "kind", "-o", "kinds.yaml").stderr
        self.assertNotIn("last column", said)
        text = (self.dir / "kinds.yaml").read_text()
        self.assertIn("split: {validation: 0.1, by: kind}", text)
        self.assertIn("# Classes: 0 = flat, 1 = house, 2 = villa", text)
        _, predicted = self.run_all("kinds.yaml", "guess")
        kinds = [["flat", "house", "villa"].index(line.split("|")[4]) for line in (self.dir / "houses.csv").read_text().splitlines()[1:]]
        self.assertGreater((predicted == kinds).mean(), 0.7)

    def test_without_a_header_and_with_bad_rows(self):
        chance = random.Random(3)
        lines = [f"{x:.3f},{chance.choice('ab')},{chance.random():.3f},{int(x > 0.5)}" for x in (chance.random() for _ in range(120))]
        self.write("sub dir/1 points.csv", "\n".join(lines[:60] + ["1,2", "0.1,a,0.5,"] + lines[60:]) + "\n")
        self.call("flowc", "init", "--from", "sub dir/1 points.csv", "-o", "jobs.yaml")
        text = (self.dir / "jobs.yaml").read_text()
        self.assertIn("header: false", text)
        self.assertIn("columns: [0, 2]", text)
        self.assertIn("on_bad_row: skip", text)
        _, predicted = self.run_all("jobs.yaml", "guess")
        self.assertEqual(len(predicted), 121)  # the row without a class has a prediction

    def test_folder_of_images(self):
        for i in range(40):
            path = self.dir / "pets" / ["cat", "dog"][i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(self.random.integers(0, 100, (3, 30, 33), dtype=np.uint8) + np.uint8(100 * (i % 2))))
        self.call("flowc", "init", "--from", "pets/")
        text = (self.dir / "pets.yaml").read_text()
        self.assertIn("size: 24", text)
        self.assertIn("split: {validation: 0.1, by: label}", text)
        _, predicted = self.run_all("pets.yaml", "guess")
        self.assertEqual(predicted.tolist(), [0] * 20 + [1] * 20)

    def test_refusals(self):
        self.houses()
        refused = lambda *words, status=2: self.call("flowc", "init", *words, status=status).stderr
        self.assertIn("no column `prise`", refused("--from", "houses.csv", "--target", "prise"))
        self.assertIn("fewer than two values", refused("--from", "houses.csv", "--target", "country"))
        self.assertIn("too many different values", refused("--from", "houses.csv", "--target", "id"))
        self.assertIn("no such file", refused("--from", "missing.csv"))
        self.write("small.csv", "a,b\n1,2.5\n2,3.5\n3,1\n")
        self.assertIn("expected at least 5", refused("--from", "small.csv"))
        self.assertIn("no column to predict", refused("--from", self.write("one.csv", "a\n" + "1.5\n2.5\n" * 5).name))
        (self.dir / "flat").mkdir()
        (self.dir / "flat/1.png").write_bytes(png(np.zeros((1, 4, 4), np.uint8)))
        self.assertIn("no folders of classes", refused("--from", "flat"))
        self.assertIn("--target is for CSV files", refused("--from", "flat", "--target", "x"))
        self.call("flowc", "init", "--from", "houses.csv")
        self.assertIn("already exists", refused("--from", "houses.csv"))
        refused("lenet", "--from", "houses.csv")
        refused("--target", "x")


if __name__ == "__main__":
    unittest.main()
