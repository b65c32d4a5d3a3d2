"""Jobs that use what a train job learned: without its files, with other numbers, anew."""
import json
import unittest

import numpy as np

from data_reference import DataTest, batches, in_order, job_text, mean_of, std_of

DATA = """
  houses:
    defaults: {csv: houses.csv}
    options: {split: {validation: 0.25, take: last}}
    area: {mean: learn, std: learn, missing: mean}
    kind: {categories: learn, unknown: extra}
  new:
    defaults: {csv: new.csv}
    options: {like: houses}
"""


def inputs(name): return {"area": ([4], "float64", name + ".area"), "kind": ([4], "int32", name + ".kind")}


class Serving(DataTest):
    def setUp(self):
        super().setUp()
        self.area = self.random.normal(100, 30, 40)
        self.kind = self.random.choice(["a", "b", "c"], 40)
        self.write("houses.csv", "area,kind\n" + "".join(f"{a!r},{k}\n" for a, k in zip(self.area.tolist(), self.kind)))
        self.write("new.csv", "area,kind\n50,b\n,c\n200,zzz\n")
        self.jobs(DATA)
        self.flowrun("train", "job.yaml", "-o", "run", "--quiet")
        self.mean, self.std = mean_of(self.area[:30]), std_of(self.area[:30])

    def jobs(self, data):
        self.write("job.yaml", job_text(data, inputs("houses"), "{epochs: 2, shuffle: true}") + job_text(data, inputs("new"), "", "predict", "serve", head=False)
                   + job_text(data, inputs("houses/validation"), "", "predict", "eval", head=False))

    def new_rows(self, mean=None, std=None, fill=None):
        mean, std, fill = (a if b is None else b for a, b in ((self.mean, mean), (self.std, std), (self.mean, fill)))
        return {"area": (np.array([50, fill, 200]) - mean) / std, "kind": np.array([1, 2, 3])}

    def served(self, expected, *words, out="served"):
        done = self.flowrun("serve", "job.yaml", "-o", out, "--force", *words)
        self.assert_rows(self.rows_of(out, inputs("new")), expected, batches(in_order(3), 4, 1, train=False))
        return done

    def test_without_the_training_file(self):
        (self.dir / "houses.csv").unlink()
        self.served(self.new_rows(), "--load", "run")
        said = self.flowrun("serve", "job.yaml", "-o", "failed", "--load", "none", status=2).stderr
        self.assertRegex(said, r"job\.yaml:\d+:\d+: column `area` needs the mean that a train job learned as `houses\.area`")
        self.assertIn("--load", said.partition("hint: ")[2])
        self.assertIn("houses.csv", self.flowrun("train", "job.yaml", "-o", "again", status=3).stderr)

    def test_without_a_checkpoint_at_all(self):
        (self.dir / "alone").mkdir()
        self.write("alone/job.yaml", (self.dir / "job.yaml").read_text())
        self.write("alone/new.csv", (self.dir / "new.csv").read_text())
        self.assertIn("--load", self.flowrun("serve", "alone/job.yaml", "-o", "failed", status=2).stderr)

    def test_numbers_in_the_job_file_win(self):
        self.jobs(DATA.replace("area: {mean: learn, std: learn, missing: mean}", "area: {mean: 7, std: learn, missing: 60}"))
        self.served(self.new_rows(mean=7, fill=60), "--load", "run")
        self.jobs(DATA + "    area: {like: houses.area, std: 2}\n")
        self.served(self.new_rows(std=2), "--load", "run")

    def test_values_that_a_checkpoint_lacks(self):
        self.jobs(DATA.replace("std: learn, missing: mean", "missing: mean"))
        self.flowrun("train", "job.yaml", "-o", "less", "--quiet")
        self.jobs(DATA)
        self.assertIn("standard deviation", self.flowrun("serve", "job.yaml", "-o", "failed", "--load", "less", status=2).stderr)

    def test_training_goes_on_with_learned_values_or_learns_anew(self):
        self.write("houses.csv", "area,kind\n" + "".join(f"{a!r},{k}\n" for a, k in zip((self.area * 2).tolist(), self.kind)))
        before = json.loads(self.data_json("run"))
        self.flowrun("train", "job.yaml", "-o", "tuned", "--load", "run", "--quiet")
        self.assertEqual(json.loads(self.data_json("tuned")), before)
        self.flowrun("train", "job.yaml", "-o", "anew", "--load", "none", "--quiet")
        self.assertEqual(json.loads(self.data_json("anew"))["houses.area"]["mean"], [mean_of(self.area[:30] * 2)])
        self.served(self.new_rows(), "--load", "tuned")

    def test_parts_share_what_the_rest_learned(self):
        self.flowrun("eval", "job.yaml", "-o", "eval", "--load", "run", "--quiet")
        expected = {"area": (self.area[30:] - self.mean) / self.std, "kind": np.array(["abc".index(k) for k in self.kind[30:]])}
        self.assert_rows(self.rows_of("eval", inputs("houses/validation")), expected, batches(in_order(10), 4, 1, train=False))

    def test_a_job_that_is_called_uses_them(self):
        text = (self.dir / "job.yaml").read_text().replace("{epochs: 2, shuffle: true}", "{epochs: 2, shuffle: true, also: [{job: eval, every: {epochs: 1}}]}")
        self.write("job.yaml", text)
        self.flowrun("train", "job.yaml", "-o", "both", "--quiet")
        found = [np.load(path) for path in sorted((self.dir / "both/also").rglob("watch/area/value.npy"))]
        self.assertGreater(len(found), 0)
        np.testing.assert_array_equal(found[-1].reshape(-1)[-10:], (self.area[30:] - self.mean) / self.std)

    def test_damaged_checkpoints(self):
        path = self.checkpoint("run") / "data.json"
        content = path.read_bytes()
        for damage in (content[:-5], content.replace(b'"c"', b'"d"'), b"", b"[" * 9999, content + b"x"):
            path.write_bytes(damage)
            said = self.flowrun("serve", "job.yaml", "-o", "failed", "--force", "--load", "run", status=2).stderr
            self.assertIn("data.json", said)
            self.assertNotIn("terminate", said)
        path.unlink()
        self.assertIn("data.json", self.flowrun("serve", "job.yaml", "-o", "failed", "--force", "--load", "run", status=3).stderr)


if __name__ == "__main__":
    unittest.main()
