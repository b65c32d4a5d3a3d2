#!/usr/bin/env python3
"""How fast data are read, beside the programs that people use: CSV, byte-level BPE, folders of JPEGs; the wait of a training step; memory.

Usage: tests/bench/data_bench.py [--judge PYTHON] [--rounds N] [--scale S] [FIGURE...]

FIGURE is csv, bpe, images, wait or memory (default: all). PYTHON is an interpreter that has pandas, tokenizers, Pillow and NumPy. Figures
are medians over the rounds; each round runs flow and the judge in turn. `--scale 0.1` makes all files a tenth as large.

The times of flow begin with its process, except for images, where they begin with the second step. Those of the judges begin after their
imports. The judge of images is Pillow in two processes, which decode, crop, resize, flip and normalize as torchvision's transforms do:
the work of a DataLoader of PyTorch with two workers, without the transport of its batches.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("FLOW_BIN", SOURCE / "build" / "release" / "bin"))

CSV = """import sys, time, pandas
started = time.perf_counter()
table = pandas.read_csv(sys.argv[1], engine="c")
assert table.isna().sum().sum() == 0
print(time.perf_counter() - started)
"""
BPE = """import sys, time
from tokenizers import ByteLevelBPETokenizer
tokenizer = ByteLevelBPETokenizer("vocab.json", "merges.txt")
started = time.perf_counter()
with open("t.txt", newline="") as file:
    ids = [one.ids for one in tokenizer.encode_batch(file.read().split("\\n"))]
print(time.perf_counter() - started)
"""
IMAGES = """import glob, math, multiprocessing, random, time
import numpy as np
from PIL import Image
MEAN, STD = (np.array(v, np.float32).reshape(3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
def load(path):
    image = Image.open(path).convert("RGB")
    w, h = image.size
    area, ratio = w * h * random.uniform(0.08, 1), math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
    cw, ch = min(w, round(math.sqrt(area * ratio))), min(h, round(math.sqrt(area / ratio)))
    left, top = random.randint(0, w - cw), random.randint(0, h - ch)
    image = image.crop((left, top, left + cw, top + ch)).resize((224, 224), Image.Resampling.BILINEAR)
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return float(((np.asarray(image).transpose(2, 0, 1).astype(np.float32) / 255 - MEAN) / STD).ravel()[0])
if __name__ == "__main__":
    paths = sorted(glob.glob("i/*/*.jpg"))
    with multiprocessing.Pool(2) as pool:
        pool.map(load, paths[:4])
        started = time.perf_counter()
        pool.map(load, paths, 8)
        print(len(paths) / (time.perf_counter() - started))
"""
MAKE_IMAGES = """import pathlib, sys
import numpy as np
from PIL import Image
draw = np.random.default_rng(1)
for i in range(int(sys.argv[1])):
    small = draw.integers(0, 256, (24, 32, 3)).astype(np.uint8)
    rough = np.asarray(Image.fromarray(small).resize((500, 375), Image.Resampling.BICUBIC)).astype(np.int16) + draw.normal(0, 9, (375, 500, 1)).astype(np.int16)
    path = pathlib.Path(f"i/{i % 10}/{i:05}.jpg")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rough.clip(0, 255).astype(np.uint8)).save(path, quality=90)
"""
TRAIN_BPE = """from tokenizers import ByteLevelBPETokenizer
tokenizer = ByteLevelBPETokenizer()
tokenizer.train(["sample.txt"], vocab_size=8000, show_progress=False)
tokenizer.save_model(".")
"""


def job(data, inputs, graph, run="{steps: 1}"):
    lines = "".join(f"      {key}: {value}\n" for key, value in inputs.items())
    return (f"flow: 1\ndata:\n{data}\njobs:\n  train:\n    type: train\n    inputs:\n{lines}    graph:\n{graph}"
            f"    optimizer: {{type: sgd, learning_rate: 1.0e-12, minimize: loss}}\n    run: {run}\n")


def of_first_element(name, rank):
    """A graph that does next to no work on a float input."""
    return (f"      part: {{op: slice, in: {name}, index: \"[:{', :1' * (rank - 1)}]\"}}\n"
            "      flat: {op: flatten, in: part}\n      z: {op: dense, units: 1}\n      loss: {op: square}\n")


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)

    def judge(self, script, *words):
        path = self.folder / "judge.py"
        path.write_text(script)
        environment = {**os.environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        done = subprocess.run([self.options.judge, path, *map(str, words)], cwd=self.folder, env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout or 0)

    def flow(self, text, *words):
        """Runs a job: seconds of its process, seconds of its steps, its record and its largest resident memory in bytes."""
        (self.folder / "job.yaml").write_text(text)
        started = time.perf_counter()
        process = subprocess.Popen([BIN / "flowrun", "train", "job.yaml", "-o", "out", "--force", "--quiet", *map(str, words)], cwd=self.folder)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        if status != 0:
            raise SystemExit(f"flowrun failed with {status}")
        steps = [json.loads(line)["seconds"] for line in (self.folder / "out/metrics.jsonl").read_text().splitlines()]
        return seconds, steps, json.loads((self.folder / "out/run.json").read_text()), usage.ru_maxrss * 1024

    def medians(self, first, second):
        """Medians of two contestants that take turns."""
        pairs = [(first(), second()) for _ in range(self.options.rounds)]
        return [statistics.median(column) for column in zip(*pairs)]

    def scaled(self, n): return max(64, int(n * self.options.scale))

    def csv(self):
        rows, draw = self.scaled(1_000_000), random.Random(1)
        with open(self.folder / "t.csv", "w") as file:
            file.write(",".join(f"c{i}" for i in range(20)) + "\n")
            for _ in range(rows):
                file.write(",".join([repr(draw.gauss(0, 100)) for _ in range(6)] + [f"{draw.random():.6f}" for _ in range(6)] + [str(draw.randrange(10**6)) for _ in range(8)]) + "\n")
        size = (self.folder / "t.csv").stat().st_size / 1e6
        text = job('  t: {x: {csv: t.csv, columns: ["c*"]}}', {"x": "{shape: [8, 20], dtype: float32, from: t.x}"}, of_first_element("x", 2))
        ours, theirs = self.medians(lambda: self.flow(text)[0], lambda: self.judge(CSV, "t.csv"))
        print(f"csv: {rows} rows of 20 numbers, {size:.0f} MB: flow {ours:.2f} s, pandas {theirs:.2f} s: {theirs / ours:.2f} x")

    def bpe(self):
        texts = [path.read_text(errors="ignore") for top in (SOURCE / "docs", pathlib.Path("/usr/lib/python3.11"))
                 for path in sorted(top.rglob("*")) if path.suffix in (".md", ".py") and path.is_file()]
        text = "\n".join(texts).replace("\r", "").replace("\0", "")[:self.scaled(20_000_000)]
        (self.folder / "t.txt").write_text(text)
        (self.folder / "sample.txt").write_text(text[:2_000_000])
        self.judge(TRAIN_BPE)
        size = len(text.encode()) / 1e6
        text = job("  t: {x: {text: t.txt, lines: true, length: 64, tokenizer: {vocab: vocab.json, merges: merges.txt}}}",
                   {"x": "{shape: [8, 64], dtype: float32, from: t.x}"}, of_first_element("x", 2), "{epochs: 1}")
        ours, theirs = self.medians(lambda: self.flow(text)[0], lambda: self.judge(BPE))
        print(f"bpe: {size:.1f} MB of text, 8000 symbols, one thread each: flow {size / ours:.1f} MB/s with all its steps, tokenizers {size / theirs:.1f} MB/s: {theirs / ours:.2f} x")

    IMAGE = ("  d:\n    image: {images: i, scale: 1/255, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225], "
             "augment: [{random_resized_crop: 224}, {flip: horizontal}]}\n    label: {images: i, take: class}\n")

    def make_images(self):
        if not (self.folder / "i").exists():
            self.judge(MAKE_IMAGES, self.scaled(2000))

    def images(self):
        self.make_images()
        text = job(self.IMAGE, {"image": "{shape: [32, 3, 224, 224], dtype: float32, from: d.image}"}, of_first_element("image", 4), "{epochs: 2, shuffle: true, data_threads: 2}")

        def ours():
            seconds = self.flow(text)[1]
            return 32 * (len(seconds) - 1) / (seconds[-1] - seconds[0])
        ours, theirs = self.medians(ours, lambda: self.judge(IMAGES))
        print(f"images: JPEG 500 x 375, random_resized_crop 224 and flip, two threads: flow {ours:.0f} rows/s, Pillow in two processes {theirs:.0f} rows/s: {ours / theirs:.2f} x")

    def wait(self):
        """ResNet-18 on images of 224 x 224, and the same on numbers that cost nothing to make."""
        self.make_images()
        networks = (SOURCE / "jobs/resnet18.yaml").read_text()
        networks = networks[networks.index("networks:"):networks.index("jobs:")]
        stem = "stem:   {op: convolve, in: images, filters: $width}\n      relu:   {op: relu}\n"  # of small images
        assert stem in networks
        networks = networks.replace(stem, stem.replace("$width", "$width, kernel: 7, stride: 2") + "      pooled: {op: max_pool2d, ksize: 3, strides: 2, padding: 1}\n")
        head = "vars: {width: 64, he: {type: kaiming}, decay: {l2: 5e-4}}\n"
        graph = ("      logits: {op: resnet18, in: image}\n      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: label, logits: logits}\n")
        real = {"image": "{shape: [32, 3, 224, 224], dtype: float32, from: d.image}", "label": "{shape: [32], dtype: int32, from: d.label, range: [0, 9]}"}
        free = {"image": "{shape: [32, 3, 224, 224], dtype: float32, from: {type: constant, value: 0.5}}", "label": "{shape: [32], dtype: int32, from: {type: constant, value: 3}}"}

        def seconds_of(inputs):
            text = job(self.IMAGE, inputs, graph, "{steps: 4}").replace("flow: 1\n", "flow: 1\n" + head + networks)
            seconds = self.flow(text, "--threads", 2)[1]
            return (seconds[-1] - seconds[0]) / (len(seconds) - 1)
        with_images, without = self.medians(lambda: seconds_of(real), lambda: seconds_of(free))
        print(f"wait: a step of ResNet-18, 32 images of 224 x 224: {with_images:.2f} s with JPEGs, {without:.2f} s with constants: {100 * (with_images / without - 1):.1f} % more")

    def memory(self):
        with open(self.folder / "x.bin", "wb") as file:
            file.truncate(self.scaled(20_000_000_000) // 2 * 2)
        text = job("  d: {x: {bin: x.bin, dtype: uint16, window: {length: 256, stride: 4096}}}", {"x": "{shape: [8, 256], dtype: float32, from: d.x}"}, of_first_element("x", 2),
                   "{steps: 200, shuffle: true}")
        runs = [self.flow(text) for _ in range(self.options.rounds)]
        print(f"memory: windows of a sparse file of {self.scaled(20_000_000_000) / 1e9:.0f} GB: {max(run[3] for run in runs) / 1e6:.0f} MB resident at most, "
              f"{statistics.median(run[0] for run in runs):.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    figures = ["csv", "bpe", "images", "wait", "memory"]
    parser.add_argument("figures", nargs="*", metavar="FIGURE", default=figures)
    parser.add_argument("--judge", default="python3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1)
    options = parser.parse_args()
    if set(options.figures) - set(figures):
        parser.error(f"figures are {', '.join(figures)}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        bench = Bench(options, folder)
        for figure in options.figures:
            getattr(bench, figure)()


main()
