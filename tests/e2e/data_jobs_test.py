"""The jobs that read tables, images, text and tokens, and what they do with the small data sets of jobs/data."""
import json
import shutil
import unittest

import numpy as np

from flow import JOBS, FlowTest

SMALL = ["vars.width=16", "vars.heads=2", "vars.batch=8", "vars.context=16", "vars.steps=40", "vars.lr=1e-2", "vars.new=5"]
STORY = (JOBS / "data/prose/ferry.txt").read_text()


def sets(*changes):
    return [word for change in changes for word in ("--set", change)]


class DataJobs(FlowTest):
    def train(self, file, *changes):
        self.flowrun("train", JOBS / file, "-o", "out", "--quiet", *sets(*changes))

    def printed(self, job, file, *changes):
        """The number that a job prints."""
        done = self.flowrun(job, JOBS / file, "-o", job, "--load", "out", "--quiet", *sets(*changes))
        return float(done.stdout.split()[-1])

    def learned(self):
        return json.loads((self.checkpoint("out") / "data.json").read_text())

    def test_prices_are_predicted_without_the_training_table(self):
        self.train("tabular.yaml")
        self.assertLess(self.printed("eval", "tabular.yaml"), 60)  # the mean absolute deviation of all prices is 135
        self.assertEqual(self.learned()["houses.kind"], {"categories": ["apartment", "cottage", "farmhouse", "villa"]})
        shutil.copytree(JOBS / "data/houses", self.dir / "data/houses")
        (self.dir / "data/houses/houses.csv").unlink()
        self.flowrun("predict", JOBS / "tabular.yaml", "--root", self.dir, "-o", "new", "--load", "out")
        prices = self.load("new/returns/model/value.npy").ravel()
        self.assertEqual(prices.shape, (5,))
        self.assertEqual(prices.argmax(), 2)  # the villa

    def test_images_are_classified_by_their_folder(self):
        self.train("images.yaml")
        self.assertGreater(self.printed("eval", "images.yaml"), 70)
        self.flowrun("predict", JOBS / "images.yaml", "-o", "new", "--load", "out")
        guesses = self.load("new/returns/guess/value.npy")
        self.assertGreaterEqual((guesses == [2, 0, 1, 0]).sum(), 3)
        names = [line.rsplit("/", 1)[1] for line in (self.dir / "new/rows.txt").read_text().splitlines()]
        self.assertEqual(names, ["0.png", "1.png", "2.png", "3.png"])
        self.assertEqual({len(self.learned()["shapes.image"][key]) for key in ("mean", "std")}, {3})

    def test_text_is_learned_by_characters(self):
        self.train("text.yaml", *SMALL)
        losses = [line["loss"] for line in self.metrics("out")]
        self.assertLess(np.mean(losses[-5:]), np.mean(losses[:5]))
        self.assertLess(self.printed("eval", "text.yaml", *SMALL), losses[0])
        self.assertEqual(self.learned(), {"book.x": {"categories": sorted(set(STORY[:round(0.9 * len(STORY))]))}})
        self.flowrun("predict", JOBS / "text.yaml", "-o", "new", "--load", "out", *sets(*SMALL))
        self.assertEqual(self.load("new/returns/next/value.npy").shape, (12, 5))  # 192 characters in windows of 16

    def test_tokens_are_windows_of_a_file_of_numbers(self):
        ids = np.fromfile(JOBS / "data/prose/tokens.bin", "<u2")
        self.assertEqual("".join(sorted(set(STORY))[i] for i in ids), STORY)
        self.flowrun("train", JOBS / "tokens.yaml", "-o", "out", "--quiet", "--watch", "x", "--watch", "y",
                     *sets(*SMALL, "jobs.train.run.shuffle=false"))
        for name, shift in (("x", 0), ("y", 1)):
            windows = np.lib.stride_tricks.sliding_window_view(ids[shift:], 16)[::8]
            np.testing.assert_array_equal(self.load(f"out/watch/{name}/value.npy")[0], windows[:8])
        self.assertTrue(np.isfinite(self.printed("eval", "tokens.yaml", *SMALL)))
        self.flowrun("predict", JOBS / "tokens.yaml", "-o", "new", "--load", "out", *sets(*SMALL))
        self.assertEqual(self.load("new/returns/next/value.npy").shape[1], 5)


if __name__ == "__main__":
    unittest.main()
