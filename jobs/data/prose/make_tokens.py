#!/usr/bin/env python3
"""Writes tokens.bin from ferry.txt in the format of nanoGPT: one uint16 for each token, little-endian.

As in nanoGPT's shakespeare_char, a token is a character, and its id is its position among the sorted characters of the text.
"""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent


def main():
    text = (HERE / "ferry.txt").read_text(encoding="utf-8")
    characters = sorted(set(text))
    ids = {character: number for number, character in enumerate(characters)}
    np.array([ids[character] for character in text], "<u2").tofile(HERE / "tokens.bin")
    print(f"{len(text)} tokens, {len(characters)} distinct")


if __name__ == "__main__":
    main()
