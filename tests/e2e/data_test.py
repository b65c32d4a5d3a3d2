"""CSV files, parts of datasets and learned values: every row of every step is the one that NumPy predicts, to the last bit."""
import gzip
import json
import random
import unittest

import numpy as np

from data_reference import DataTest, batches, draws, in_order, mean_of, median_of, shuffled, std_of

KINDS = ["flat", "house", "Villa", "été", "NA", "semi detached"]
CITIES = ["Bonn", "Oslo", "Rome"]
COLUMNS = """
  houses:
    defaults: {csv: houses.csv, delimiter: ";"}
    options: {split: {validation: 0.2, test: 0.15, seed: 5}, on_bad_row: skip, max_bad_rows: 40}
    area: {mean: learn, std: learn, missing: median, scale: 1/3}
    rooms: {type: integer, missing: mean}
    garden: {type: bool, missing: mean}
    kind: {categories: learn, max_categories: 3, unknown: extra}
    city: {categories: [Rome, Oslo, Bonn], missing: extra, unknown: {category: Oslo}, one_hot: 5}
    floors: {columns: ["f*"], mean: learn, missing: mean}
    memo: {type: text, length: 5, pad: 0}
    memo_length: {column: memo, type: text, length: 5, take: lengths}
    price: {scale: 1/1000, mean: 100, std: 7}
"""


class Houses:
    """A CSV file and the values of its good rows."""
    HEADER = ["area", "rooms", "garden", "kind", "city", "f1", "f2", "memo", "price"]

    def __init__(self, seed, rows=3000):
        self.random = random.Random(seed)
        self.rows, self.bad, lines = [], 0, [";".join(self.HEADER)]
        for _ in range(rows):
            row = self.row()
            fields = [self.cell(key, value) for key, value in row.items()]
            spoiled = self.random.random() < 0.01
            if spoiled:
                fields = self.random.choice([fields[:-1], fields + ["1"], ["12x", *fields[1:]], [*fields[:-1], ""], [*fields[:3], "", *fields[4:]]])
                self.bad += 1
            else:
                self.rows.append(row)
            lines.append(";".join(fields))
        self.text = self.random.choice(["\n", "\r\n"]).join(lines) + "\n"

    def row(self):
        chance = self.random
        maybe = lambda p, value: None if chance.random() < p else value
        return {"area": maybe(0.1, chance.gauss(120, 40)), "rooms": maybe(0.1, chance.randrange(1, 9)), "garden": maybe(0.1, chance.randrange(2)),
                "kind": chance.choices(KINDS, [5, 9, 3, 4, 1, 2])[0], "city": maybe(0.1, chance.choice(CITIES + ["Paris"])),
                "f1": maybe(0.2, chance.random()), "f2": maybe(0.2, chance.expovariate(1)), "memo": chance.choice(["", "a", "né", "long; text", 'say "x"']),
                "price": chance.randrange(10**5, 10**6)}

    def cell(self, key, value):
        if value is None:
            return "" if key == "city" else self.random.choice(["", "NA", "?", "nan"])
        if key == "garden":
            return self.random.choice([["no", "0", "False"], ["yes", "1", "TRUE"]][value])
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"' if ";" in value or '"' in value or self.random.random() < 0.2 else value
        return repr(value)

    def values(self, key):
        return [row[key] for row in self.rows]


def parts_of(fractions, n, seed=5):
    """The rows of the parts, and at last the rest."""
    parts, rest = [[] for _ in fractions], []
    draws.cut(draws.permutation(seed, "houses/split", 0, n), fractions, parts, rest)
    return [sorted(rows) for rows in [*parts, rest]]


def present(values, rows):
    return [values[r] for r in rows if values[r] is not None]


def filled(values, fill):
    return np.array([fill if v is None else v for v in values], np.float64)


class Csv(DataTest):
    INPUTS = {"area": ([8], "float64", "houses.area"), "rooms": ([8], "int32", "houses.rooms"), "garden": ([8], "int64", "houses.garden"),
              "kind": ([8], "int32", "houses.kind"), "city": ([8, 5], "float64", "houses.city"), "floors": ([8, 2], "float64", "houses.floors"),
              "memo": ([8, 5], "int32", "houses.memo"), "memo_length": ([8], "int32", "houses.memo_length"), "price": ([8], "float64", "houses.price")}

    def expected(self, houses, rest):
        """What is learned from the rows of `rest`, and the columns with all rows."""
        get, scale = houses.values, 1 / 3
        area, rooms, garden = get("area"), get("rooms"), get("garden")
        scaled = [v * scale for v in present(area, rest)]
        floors = [get("f1"), get("f2")]
        fills = [mean_of(present(f, rest)) for f in floors]
        kinds = [get("kind")[r] for r in rest]
        kept = sorted(sorted(set(kinds), key=lambda k: (-kinds.count(k), k.encode()))[:3], key=str.encode)
        learned = {"houses.area": {"mean": [mean_of(scaled)], "std": [std_of(scaled)], "fill": [median_of(present(area, rest))]},
                   "houses.rooms": {"fill": [mean_of(present(rooms, rest))]}, "houses.garden": {"fill": [mean_of(present(garden, rest))]},
                   "houses.kind": {"categories": kept}, "houses.floors": {"mean": [mean_of(present(f, rest)) for f in floors], "fill": fills}}
        of_area = learned["houses.area"]
        cities = ["Rome", "Oslo", "Bonn"]
        city = [3 if c is None else cities.index(c) if c in cities else 1 for c in get("city")]
        notes = [text.encode()[:5] for text in get("memo")]
        columns = {"area": (filled(area, of_area["fill"][0]) * scale - of_area["mean"][0]) / of_area["std"][0],
                   "rooms": filled(rooms, draws.half_even(learned["houses.rooms"]["fill"][0])),
                   "garden": filled(garden, learned["houses.garden"]["fill"][0] >= 0.5),
                   "kind": np.array([kept.index(k) if k in kept else 3 for k in get("kind")]), "city": np.eye(5)[city],
                   "floors": np.stack([filled(f, fill) - mean for f, fill, mean in zip(floors, fills, learned["houses.floors"]["mean"])], -1),
                   "memo": np.array([list(note.ljust(5, b"\0")) for note in notes]), "memo_length": np.array([len(note) for note in notes]),
                   "price": (np.array(get("price"), np.float64) * (1 / 1000) - 100) / 7}
        return learned, columns

    def test_all_types_of_columns(self):
        houses = Houses(1)
        (self.dir / "houses.csv").write_bytes(houses.text.encode())
        found = self.watched(COLUMNS, self.INPUTS, "{epochs: 2, shuffle: true}")
        parts = parts_of([0.2, 0.15], len(houses.rows))
        rest = parts[-1]
        learned, columns = self.expected(houses, rest)
        self.assert_rows(found, {key: values[rest] for key, values in columns.items()}, batches(shuffled("houses", len(rest)), 8, 2))
        self.assertEqual(json.loads(self.data_json("out")), learned)
        self.assertEqual(list(json.loads(self.data_json("out"))), sorted(learned))
        self.assertRegex(self.done.stderr, rf"{houses.bad} bad rows of dataset `houses` are left out, first \S*houses.csv:\d+")
        for part, rows in (("validation", parts[0]), ("test", parts[1])):
            inputs = {key: (shape, dtype, column.replace("houses", f"houses/{part}")) for key, (shape, dtype, column) in self.INPUTS.items()}
            found = self.watched(COLUMNS, inputs, "", "predict", ("--load", "out"), out=part)
            self.assert_rows(found, {key: values[rows] for key, values in columns.items()}, batches(in_order(len(rows)), 8, 1, train=False))

    def test_columns_that_take_over_all_keys_of_others(self):
        houses, more = Houses(2, 400), Houses(3, 60)
        (self.dir / "houses.csv").write_bytes(gzip.compress(houses.text.encode()))
        (self.dir / "more.csv").write_bytes(more.text.encode())
        data = COLUMNS.replace("split: {validation: 0.2, test: 0.15, seed: 5}, ", "") + \
            "  more:\n    defaults: {csv: more.csv}\n    options: {like: houses, on_bad_row: skip}\n    price: {like: houses.price, std: 1}\n"
        self.watched(data, self.INPUTS, "{epochs: 1}")
        inputs = {key: (shape, dtype, column.replace("houses", "more")) for key, (shape, dtype, column) in self.INPUTS.items()}
        found = self.watched(data, inputs, "", "predict", ("--load", "out"), out="more")
        learned, _ = self.expected(houses, range(len(houses.rows)))
        self.assertEqual(json.loads(self.data_json("out")), learned)
        both = Houses(2, 400)
        both.rows = houses.rows + more.rows
        _, columns = self.expected(both, range(len(houses.rows)))
        columns["price"] = columns["price"] * 7
        more_columns = {key: values[len(houses.rows):] for key, values in columns.items()}
        more_columns["price"] = np.array(more.values("price"), np.float64) * (1 / 1000) - 100
        self.assert_rows(found, more_columns, batches(in_order(len(more.rows)), 8, 1, train=False))

    def test_files_without_a_header_in_other_dialects(self):
        lines = ["# a comment", "1.234,5 |'x|y'|0", " 7,25|' x '|3", "", "-1.000.000|z|12"]
        (self.dir / "a.csv").write_bytes("left out\n".encode() + "\r\n".join(lines).encode("latin-1"))
        (self.dir / "b.csv").write_bytes("left out\n2|ä|1".encode("latin-1"))
        data = """
  d:
    defaults: {csv: ["a.csv", "b*.csv"], header: false, delimiter: "|", quote: "'", skip: 1, comment: "#", encoding: latin-1, decimal: ",", thousands: ".", trim: true}
    x: {column: 0}
    k: {column: 1, categories: learn}
    i: {column: 2, type: integer}
    both: {columns: [2, 0]}
"""
        found = self.watched(data, {"x": ([2], "float64", "d.x"), "k": ([2], "int32", "d.k"), "i": ([2], "int64", "d.i"), "both": ([2, 2], "float64", "d.both")},
                             "{epochs: 1}")
        x, i = np.array([1234.5, 7.25, -1e6, 2]), np.array([0, 3, 12, 1])
        self.assert_rows(found, {"x": x, "k": [1, 0, 2, 3], "i": i, "both": np.stack([i, x], -1)}, batches(in_order(4), 2, 1))
        self.assertEqual(json.loads(self.data_json("out")), {"d.k": {"categories": [" x ", "x|y", "z", "ä"]}})


class Parts(DataTest):
    def check(self, options, parts, inputs=None):
        """Compares the rows of each part and of the rest, which are [(name, rows)]."""
        data = f"  houses:\n    options: {{split: {options}}}\n    x: {{csv: d.csv}}\n    k: {{csv: d.csv, type: category, categories: learn}}\n"
        for name, rows in parts:
            full = "houses" + (f"/{name}" if name else "")
            found = self.watched(data, {"x": ([3], "float64", full + ".x")}, "{epochs: 2, shuffle: true}")
            self.assert_rows(found, {"x": self.x[rows]}, batches(shuffled(full, len(rows)), 3, 2))

    def setUp(self):
        super().setUp()
        self.x = self.random.normal(size=97)
        self.k = self.random.choice(["b", "é", "a", "B"], 97)
        self.write("d.csv", "x,k\n" + "".join(f"{x!r},{k}\n" for x, k in zip(self.x.tolist(), self.k)))

    def split(self, how, fractions, seed=0):
        ids = {k: i for i, k in enumerate(sorted(set(self.k), key=str.encode))}
        return draws.split(how, fractions, seed, 97, [ids[k] for k in self.k])

    def test_random_parts(self):
        self.check("{a: 0.25, b: 1/8}", zip(["a", "b", ""], self.split("random", [0.25, 0.125])))
        self.check("{a: 0.25, seed: 77}", zip(["a", ""], self.split("random", [0.25], 77)))

    def test_the_last_rows(self): self.check("{a: 0.25, b: 0.13, take: last}", zip(["a", "b", ""], self.split("last", [0.25, 0.13])))

    def test_equal_fractions_of_each_class(self): self.check("{a: 0.3, by: k}", zip(["a", ""], self.split("by", [0.3])))

    def test_groups_that_stay_together(self): self.check("{a: 0.3, b: 0.3, group: k}", zip(["a", "b", ""], self.split("group", [0.3, 0.3])))

    def test_ranges_of_rows_come_before_parts(self):
        data = "  houses:\n    options: {split: {a: 0.5}}\n    x: {csv: d.csv, rows: [10..20, 0..4, 90..]}\n"
        selected = np.concatenate([self.x[10:20], self.x[0:4], self.x[90:]])
        part, rest = draws.split("random", [0.5], 0, len(selected))
        for name, rows in (("houses/a", part), ("houses", rest)):
            found = self.watched(data, {"x": ([2], "float64", name + ".x")})
            self.assert_rows(found, {"x": selected[rows]}, batches(in_order(len(rows)), 2, 2))

    def test_values_are_learned_from_the_rows_that_train(self):
        data = "  houses:\n    options: {split: {a: 0.5}}\n    x: {csv: d.csv, mean: learn, std: learn}\n"
        part, rest = self.split("random", [0.5])
        for name, rows in (("houses/a", part), ("houses", rest)):
            found = self.watched(data, {"x": ([2], "float32", name + ".x")})
            mean, std = mean_of(self.x[rows]), std_of(self.x[rows])
            self.assertEqual(json.loads(self.data_json("out")), {"houses.x": {"mean": [mean], "std": [std]}})
            self.assert_rows(found, {"x": ((self.x[rows] - mean) / std).astype(np.float32)}, batches(in_order(len(rows)), 2, 2))


class Learned(DataTest):
    def test_channels_of_long_columns(self):
        """More than one chunk of sums, and a channel without deviation."""
        x = self.random.normal(3, 50, (700, 3, 5))
        x[:, 1] = 7.25
        self.save("x", x)
        b = self.random.integers(0, 256, (700, 2, 2, 4)).astype(np.uint8)
        self.save("b", b)
        data = "  d:\n    x: {npy: x.npy, mean: learn, std: learn, scale: 0.5}\n    b: {npy: b.npy, mean: learn, std: learn, scale: 1/255}\n"
        found = self.watched(data, {"x": ([4, 3, 5], "float64", "d.x"), "b": ([4, 2, 2, 4], "float64", "d.b")}, "{epochs: 1, shuffle: true}")
        learned, columns = {}, {}
        for key, array, scale in (("b", b, 1 / 255), ("x", x, 0.5)):
            scaled = array.astype(np.float64) * scale
            channels = [scaled[:, c].reshape(-1) for c in range(array.shape[1])]
            mean, std = [mean_of(c) for c in channels], [std_of(c) for c in channels]
            learned["d." + key] = {"mean": mean, "std": std}
            shape = [-1] + [1] * (array.ndim - 2)
            columns[key] = (scaled - np.reshape(mean, shape)) / np.reshape(std, shape)
        self.assertEqual(json.loads(self.data_json("out")), learned)
        self.assertEqual("".join(self.data_json("out").split()), json.dumps(learned, separators=(",", ":")))
        self.assert_rows(found, columns, batches(shuffled("d", 700), 4, 1))
        self.assertIn("all values of column `x` in channel 1 are equal; its standard deviation is taken as 1", self.done.stderr)


if __name__ == "__main__":
    unittest.main()
