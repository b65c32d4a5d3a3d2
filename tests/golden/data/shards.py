#!/usr/bin/env python3
"""Writes shards_*.tar, shards_*.gz, shards_*.zst and shards.json next to this file.

The archives come from Python's tarfile in its three formats, the elements of `bin` from NumPy, and
the packed files from gzip and zstd.
"""

import gzip
import io
import json
import pathlib
import subprocess
import tarfile

import numpy as np

HERE = pathlib.Path(__file__).parent


def members():
    """The names and contents of an archive; None is a folder."""
    deep = "part-0/" + "d" * 90 + "/" + "e" * 60  # needs the prefix of ustar
    yield "part-0", None
    yield "part-0/000.jpg", b"\xff\xd8first"
    yield "part-0/000.CLS", b" 3\n"
    yield "part-0/000.seg.png", b"\x89PNG"
    yield "part-0/.hidden.jpg", b"no"
    yield "part-0/README", b"no"
    yield "part-0/__meta__.json", b"{}"
    yield "part-0/001.jpg", b""
    yield "part-0/001.cls", b"4"
    yield deep + "/002.txt", b"x" * 512
    yield deep + "/002.json", b'{"a": 1}' * 65
    yield "part-1/\u00e9t\u00e9.txt", "\u00e9".encode()


def long_members():
    """Names that ustar cannot store."""
    yield "l" * 300 + "/003.txt", b"long"
    yield "l" * 300 + "/003.cls", b"5"
    yield "s/" + "m" * 180 + ".txt", b"longer"


def archive(path, form):
    names = list(members()) + ([] if form == tarfile.USTAR_FORMAT else list(long_members()))
    with tarfile.open(path, "w", format=form) as tar:
        for name, data in names:
            info = tarfile.TarInfo(name)
            # pax keeps the fraction in an extended header.
            info.mtime = 1.5 if form == tarfile.PAX_FORMAT else 1
            if data is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def samples(path):
    """The samples of an archive, by the rules of WebDataset."""
    found = []
    with tarfile.open(path) as tar:
        for info in tar:
            base = info.name.rsplit("/", 1)[-1]
            stem, dot, field = base.partition(".")
            if not info.isfile() or not stem or not dot or (
                    stem.startswith("__") and stem.endswith("__")):
                continue
            key = info.name[:len(info.name) - len(field) - 1]
            if not found or found[-1]["key"] != key:
                found.append({"key": key, "fields": []})
            found[-1]["fields"].append([field.lower(), info.offset_data, info.size])
    return found


def elements(name):
    """Six values of an element type as bytes in both orders, and as numbers."""
    if name == "bool":
        array = np.array([0, 1, 1, 0, 1, 0], np.bool_)
    elif name == "bfloat16":
        array = (np.array([0, 1, -2.5, 3.0e38, 1e-3, 7], np.float32).view(np.uint32) >> 16)
        values = (array << 16).astype(np.uint32).view(np.float32)
        array = array.astype(np.uint16)
    elif name.startswith("float"):
        array = np.array([0, 1, -2.5, 65504, 1e-3, 7], name)
    else:
        limits = np.iinfo(name)
        top = min(limits.max, 2**63 - 1)
        array = np.array([0, 1, limits.min, top, top - 1, 7], name)
    if name != "bfloat16":
        values = array
    integers = name.startswith(("int", "uint", "bool"))
    return {
        "little": array.astype(array.dtype.newbyteorder("<")).tobytes().hex(),
        "big": array.astype(array.dtype.newbyteorder(">")).tobytes().hex(),
        "values": [int(v) for v in values] if integers else [float(v) for v in values],
    }


TYPES = ("uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 "
         "bool").split()


def packed():
    halves = [b"".join(b"%d\n" % i for i in range(start, start + 2000)) for start in (0, 2000)]
    members = b"".join(gzip.compress(half, mtime=0) for half in halves)
    (HERE / "shards_two.gz").write_bytes(members)
    frames = [subprocess.run(["zstd", "-qc"], input=half, capture_output=True, check=True).stdout
              for half in halves]
    # A skippable frame (RFC 8878, 3.1.2), as parallel programs write, begins the file.
    skipped = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    (HERE / "shards_two.zst").write_bytes(skipped + b"".join(frames))


def main():
    record = {"samples": {}, "elements": {name: elements(name) for name in TYPES}}
    for name, form in (("ustar", tarfile.USTAR_FORMAT), ("pax", tarfile.PAX_FORMAT),
                       ("gnu", tarfile.GNU_FORMAT)):
        path = HERE / f"shards_{name}.tar"
        archive(path, form)
        record["samples"][name] = samples(path)
    packed()
    (HERE / "shards.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
