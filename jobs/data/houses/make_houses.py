#!/usr/bin/env python3
"""Writes houses.csv, 300 made-up houses with prices, and new.csv, five houses without.

Some areas and years are missing, as in real files: empty, or "NA".
"""
import csv
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
KINDS = {"apartment": 0.9, "cottage": 1.1, "farmhouse": 0.8, "villa": 1.6}
NAMES = ["area", "rooms", "built", "kind", "garden"]


def main():
    random = np.random.default_rng(3)
    rows = []
    for _ in range(300):
        area = random.uniform(35, 240)
        rooms = 1 + int(area / 32 + random.uniform(0, 2))
        built = int(random.integers(1880, 2025))
        kind = random.choice(list(KINDS), p=[0.5, 0.25, 0.15, 0.1])
        garden = kind != "apartment" and random.random() < 0.7
        price = 2300 * area * KINDS[kind] * (1 + (built - 1950) / 500) + 40000 * garden
        price *= random.normal(1, 0.05)
        area = "NA" if random.random() < 0.03 else f"{area:.1f}"
        built = "" if random.random() < 0.05 else built
        rows.append([area, rooms, built, kind, "yes" if garden else "no", round(price, -2)])
    with open(HERE / "houses.csv", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([*NAMES, "price"])
        table.writerows([*row[:-1], int(row[-1])] for row in rows)
    with open(HERE / "new.csv", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerows([NAMES, [80, 3, 1990, "apartment", "no"], [80, 3, 1990, "cottage", "yes"],
                         [200, 7, 2010, "villa", "yes"], [120, 5, "", "farmhouse", "yes"],
                         [65, 2, 1930, "houseboat", "no"]])


if __name__ == "__main__":
    main()
