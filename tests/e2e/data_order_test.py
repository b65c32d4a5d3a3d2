"""Orders of epochs, augmentation and mixed batches: every row of every step is the one that NumPy predicts."""
import unittest

import numpy as np

from data_reference import DataTest, batches, draws, png


class Orders(DataTest):
    def setUp(self):
        super().setUp()
        self.x = np.arange(41, dtype=np.float64)
        self.w = np.where(self.random.random(41) < 0.3, 0.0, self.random.random(41) * 5)
        self.k = self.random.choice(["a", "b", "c"], 41, p=[0.6, 0.3, 0.1])
        rows = [f"{x!r},{w!r},{k}\n" for x, w, k in zip(self.x.tolist(), self.w.tolist(), self.k)]
        self.files = [13, 0, 20, 8]
        for i, start in enumerate(np.cumsum([0, *self.files[:-1]])):
            self.write(f"d{i}.csv", "x,w,k\n" + "".join(rows[start:start + self.files[i]]))
        self.files = [n for n in self.files if n]
        self.data = """
  d:
    defaults: {csv: [d0.csv, d2.csv, d3.csv]}
    x: {}
    w: {}
    k: {categories: learn}
    one: {column: k, categories: learn, one_hot: 3}
"""

    def check(self, run, order, epochs=3, data=None, name="d", x=None, seed=1):
        inputs = {"x": ([5], "float64", name + ".x")}
        found = self.watched(data or self.data, inputs, f"{{epochs: {epochs}, {run}}}", seed=seed)
        self.assert_rows(found, {"x": self.x if x is None else x}, batches(order, 5, epochs))

    def test_shuffled_with_a_buffer(self):
        for size, files in ((1, False), (7, False), (7, True), (40, True), (41, True), (1000, False)):
            with self.subTest(size=size, files=files):
                self.check(f"shuffle: {{buffer: {size}, files: {str(files).lower()}}}",
                           lambda epoch: draws.shuffle_buffer(1, "d", epoch, size, files, self.files))

    def test_shuffled_with_a_large_seed(self):
        seed = 2**63 - 25
        self.check("shuffle: true", lambda epoch: draws.permutation(seed, "d/shuffle", epoch, 41), seed=seed)

    def test_sampled(self):
        ids = [sorted(set(self.k)).index(k) for k in self.k]
        for sample, kind, column in (("uniform", "uniform", None), ("{weights: d.w}", "weighted", self.w.tolist()), ("{balance: d.k}", "balance", ids),
                                     ("{balance: d.one}", "balance", ids)):
            for more, positions in (("", 41), (", epoch_rows: 103", 103), (", epoch_rows: 12", 12)):
                with self.subTest(sample=sample, rows=positions):
                    self.check(f"sample: {sample}{more}", lambda epoch: draws.sample(kind, 1, "d", epoch, 41, column, positions))

    def test_parts_are_sampled_by_columns_of_their_own(self):
        data = self.data.replace("    x: {}", "    options: {split: {p: 0.6}}\n    x: {}")
        rows = draws.split("random", [0.6], 0, 41, dataset="d")[0]
        ids = [sorted(set(self.k)).index(k) for k in self.k]
        for sample, kind, column in (("{weights: d/p.w}", "weighted", self.w.tolist()), ("{balance: d/p.k}", "balance", ids)):
            with self.subTest(sample=sample):
                of_part = [column[r] for r in rows]
                self.check(f"sample: {sample}", lambda epoch: draws.sample(kind, 1, "d/p", epoch, len(rows), of_part, len(rows)), data=data, name="d/p", x=self.x[rows])


class Images(DataTest):
    OPS = [("crop", {"size": (10, 11), "pad": 2}), ("flip", {"axis": "horizontal"}), ("flip", {"axis": "vertical", "p": 0.25}), ("brightness", {"b": 0.4}),
           ("contrast", {"b": 0.5}), ("saturation", {"b": 0.6}), ("erase", {"p": 0.7, "value": 2.0}), ("cutout", {"n": 4, "value": -1.5})]
    YAML = ("augment: [{crop: [10, 11], pad: 2}, {flip: horizontal}, {flip: vertical, p: 0.25}, {brightness: 0.4}, {contrast: 0.5}, {saturation: 0.6}, "
            "{erase: {p: 0.7, value: 2}}, {cutout: 4, value: -1.5}]")

    def setUp(self):
        super().setUp()
        self.images = self.random.integers(0, 256, (12, 3, 12, 13)).astype(np.uint8)
        self.masks = self.random.integers(0, 256, (12, 1, 12, 13)).astype(np.uint8)
        self.labels = self.random.integers(0, 4, 12)
        (self.dir / "i").mkdir()
        for i, (image, mask) in enumerate(zip(self.images, self.masks)):
            (self.dir / f"i/{i:02}.png").write_bytes(png(image))
            (self.dir / f"i/m{i:02}.png").write_bytes(png(mask))
        self.write("list.csv", "image,mask,label\n" + "".join(f"{i:02}.png,m{i:02}.png,{label}\n" for i, label in enumerate(self.labels)))

    def normalize(self, v):
        return (v.astype(np.float64) * (1 / 255) - 0.5) / 0.25

    def augmented(self, images, ops, steps, dataset, normalize, uses=None, train=True):
        """The augmented rows of steps, in their order."""
        rows = []
        for epoch in sorted({step[0] for step in steps}):
            order = [row for of, _, of_step in steps if of == epoch for row in of_step]
            for row, attempt in zip(order, uses(epoch) if uses else [0] * len(order)):
                rows.append(draws.augment(images[row], 8, train, ops, row, epoch, attempt, 1, dataset, normalize))
        return np.stack(rows)

    def data(self, yaml=YAML, more=""):
        return f"""
  d:
    defaults: {{csv: list.csv, type: image, root: i}}
    {more}
    image: {{scale: 1/255, mean: 0.5, std: 0.25, {yaml}}}
    mask: {{channels: grey, augment: [{{crop: [10, 11], pad: 2}}, {{flip: horizontal}}]}}
    label: {{type: integer, one_hot: 5}}
"""

    INPUTS = {"image": ([4, 3, 10, 11], "float64", "d.image"), "mask": ([4, 1, 10, 11], "int32", "d.mask"), "label": ([4, 5], "float64", "d.label")}

    def check(self, run, order, epochs=3, name="d", uses=None, words=(), more="", rows=None):
        inputs = {key: (shape, dtype, column.replace("d.", name + ".")) for key, (shape, dtype, column) in self.INPUTS.items()}
        found = self.watched(self.data(more=more), inputs, f"{{epochs: {epochs}, {run}}}", words=words)
        steps = batches(order, 4, epochs)
        rows = range(12) if rows is None else rows
        np.testing.assert_array_equal(found["mask"], self.augmented(self.masks[rows], self.OPS[:2], steps, name, lambda v: v, uses))
        np.testing.assert_array_equal(found["image"], self.augmented(self.images[rows], self.OPS, steps, name, self.normalize, uses))
        self.assert_rows(found, {"label": np.eye(5)[self.labels[rows]]}, steps)

    def test_augmentation_of_images_and_their_masks(self):
        self.check("shuffle: true", lambda epoch: draws.permutation(1, "d/shuffle", epoch, 12))
        self.check("data_threads: 3", lambda epoch: range(12))

    def test_augmentation_of_parts(self):
        part, rest = draws.split("random", [0.6], 0, 12, dataset="d")
        for name, rows in (("d/p", part), ("d", rest)):
            self.check("shuffle: true", lambda epoch: draws.permutation(1, name + "/shuffle", epoch, len(rows)), name=name, rows=rows, more="options: {split: {p: 0.6}}")

    def test_rows_that_are_drawn_again_are_augmented_again(self):
        order = lambda epoch: draws.sample("uniform", 1, "d", epoch, 12, None, 24)
        self.check("sample: uniform, epoch_rows: 24", order, uses=lambda epoch: draws.uses_before(order(epoch)))

    def test_the_cache_changes_no_row(self):
        for _ in range(2):
            self.check("shuffle: true", lambda epoch: draws.permutation(1, "d/shuffle", epoch, 12), more="options: {cache: cache}")
        self.assertTrue((self.dir / "cache/d.image.npy").exists())
        np.testing.assert_array_equal(self.load("cache/d.image.npy").reshape(self.images.shape), self.images)

    def test_random_resized_crops(self):
        for arguments, yaml in (({"size": (6, 7)}, "{random_resized_crop: [6, 7]}"),
                                ({"size": 5, "area": (0.3, 0.9), "aspect": (0.5, 2.0), "filter": "bicubic"},
                                 "{random_resized_crop: 5, area: [0.3, 0.9], aspect: [1/2, 2], filter: bicubic}")):
            shape = [3, 6, 7] if arguments["size"] != 5 else [3, 5, 5]
            inputs = {"image": ([4, *shape], "float64", "d.image")}
            data = self.data(f"augment: [{yaml}]")
            found = self.watched(data, inputs, "{epochs: 2}")
            ops = [("random_resized_crop", arguments)]
            np.testing.assert_array_equal(found["image"], self.augmented(self.images, ops, batches(lambda _: range(12), 4, 2), "d", self.normalize))
            found = self.watched(data, inputs, "", "predict", ("--load", "none"), out="predicted")
            np.testing.assert_array_equal(found["image"], self.augmented(self.images, ops, batches(lambda _: range(12), 4, 1), "d", self.normalize, train=False))

    def test_predict_jobs_only_crop(self):
        found = self.watched(self.data(), self.INPUTS, "", "predict", ("--load", "none"))
        steps = batches(lambda _: range(12), 4, 1)
        np.testing.assert_array_equal(found["image"], self.augmented(self.images, self.OPS, steps, "d", self.normalize, train=False))

    def test_mixed_batches(self):
        for parameters in ({"mixup": 0.3}, {"cutmix": 1.0}, {"mixup": 0.2, "cutmix": 0.8}):
            for run, order in (("shuffle: true", lambda epoch: draws.permutation(1, "d/shuffle", epoch, 12)), ("data_threads: 2", lambda _: range(12))):
                mix = ", ".join(f"{key}: {value}" for key, value in parameters.items())
                found = self.watched(self.data(more=f"options: {{mix: {{{mix}, columns: [image, label]}}}}"), self.INPUTS, f"{{epochs: 4, {run}}}")
                steps = batches(order, 4, 4)
                image = self.augmented(self.images, self.OPS, steps, "d", self.normalize)
                label = np.eye(5)[self.labels[[row for _, _, rows in steps for row in rows]]]
                for number, (epoch, batch, _) in enumerate(steps):
                    part = slice(4 * number, 4 * number + 4)
                    mixed = draws.mix(parameters.get("mixup"), parameters.get("cutmix"), epoch, batch, image[part], label[part], 1, "d")
                    for key, expected in zip(("image", "label"), mixed):
                        np.testing.assert_array_equal(found[key][part], expected, f"{parameters}, step {number}, {key}")


if __name__ == "__main__":
    unittest.main()
