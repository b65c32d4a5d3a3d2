#!/usr/bin/env python3
"""Writes windows.npy from ferry.txt: rows of 65 characters as bytes, one row every 16 characters.

Tokens are ASCII codes, so no vocabulary file is needed: bytes(row).decode() restores the text.
The network reads the first 64 characters of a row and predicts the last 64.
"""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
WINDOW, STRIDE = 65, 16


def main():
    text = (HERE / "ferry.txt").read_text(encoding="ascii").replace("\n\n", "\0").replace("\n", " ").replace("\0", "\n")
    codes = np.frombuffer(text.encode("ascii"), np.uint8)
    rows = np.lib.stride_tricks.sliding_window_view(codes, WINDOW)[::STRIDE]
    np.save(HERE / "windows.npy", rows)
    print(f"{len(codes)} characters, {len(rows)} rows, {len(set(codes.tolist()))} distinct characters")


if __name__ == "__main__":
    main()
