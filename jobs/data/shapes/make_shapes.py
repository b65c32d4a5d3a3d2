#!/usr/bin/env python3
"""Draws the images of this folder with Pillow: train/CLASS/N.png and N.jpg, and new/N.png without classes.

The images are RGB or grey, and their sizes differ, as in a collection from several sources.
"""
import pathlib

import numpy as np
from PIL import Image, ImageDraw

HERE = pathlib.Path(__file__).resolve().parent
CLASSES = ["circle", "square", "triangle"]


def draw(random, kind):
    width, height = (int(side) for side in random.integers(24, 41, 2))
    paper, ink = random.integers(150, 256, 3), random.integers(0, 110, 3)
    image = Image.new("RGB", (width, height), tuple(map(int, paper)))
    radius = random.uniform(7, 10)
    x, y = (random.uniform(radius + 1, side - radius - 1) for side in (width, height))
    box = [x - radius, y - radius, x + radius, y + radius]
    corners = [(x, box[1]), (box[2], box[3]), (box[0], box[3])]
    pen, fill = ImageDraw.Draw(image), tuple(map(int, ink))
    if kind == "circle":
        pen.ellipse(box, fill)
    elif kind == "square":
        pen.rectangle(box, fill)
    else:
        pen.polygon(corners, fill)
    return image if random.random() < 0.8 else image.convert("L")


def main():
    random = np.random.default_rng(5)
    for kind in CLASSES:
        folder = HERE / "train" / kind
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(30):
            image = draw(random, kind)
            if number % 3 == 0:
                image.save(folder / f"{number:02}.jpg", quality=90)
            else:
                image.save(folder / f"{number:02}.png", optimize=True)
    (HERE / "new").mkdir(exist_ok=True)
    for number, kind in enumerate(["triangle", "circle", "square", "circle"]):
        draw(random, kind).save(HERE / "new" / f"{number}.png", optimize=True)


if __name__ == "__main__":
    main()
