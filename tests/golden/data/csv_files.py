"""Golden CSV files and their values as pandas reads them, in csv_files.json. Usage: python3 csv_files.py (pandas 3).

Where pandas has no such rule or another one, the script computes the value from the cells that it wrote:
- pandas has no `trim`: texts outside of quotes lose their blanks here.
- pandas fills records that are too short with NaN and fails on records that are too long: both are bad rows here.
- pandas accepts text after a closing quote: it makes a bad row here.
- pandas parses bools only in columns without other texts, and integers such as 1e3 only as floats: the values
  are those from which the script made the texts.
- pandas rounds some numbers to a neighbor, even with `round_trip`: the values are those of Python's float.
- pandas cuts comments anywhere in a line: the comment character occurs only at the start of lines here.
"""
import io
import json
import math
import pathlib
import random
import struct

import pandas as pd

MISSING = ["na", "N/A", "NaN", "null", "NONE", "?"]
WORDS = ["red", "Red", "blue sky", "NA", "x", "été", "naïve", "=1+1", "-", "0", "a'b", "tab\there"]
BOOLS = {"true": 1, "False": 0, "YES": 1, "no": 0, "t": 1, "F": 0, "y": 1, "n": 0, "On": 1, "oFF": 0, "1": 1, "0": 0}


def with_groups(digits, mark):
    return f"{int(digits):,}".replace(",", mark)


def random_bits(draw):
    while True:
        value = struct.unpack("<d", draw.randbytes(8))[0]
        if math.isfinite(value):
            return value


def number(draw, style):
    """A spelling of a number, and the same with a point and without groups."""
    value = draw.choice([draw.gauss(0, 100), draw.random(), draw.randrange(10**6), draw.gauss(0, 1) * 10.0 ** draw.randrange(-30, 30),
                         random_bits(draw), 5e-324, 1.7976931348623157e308, 2.0**53 + 2, 0.1 + 0.2])
    plain = draw.choice([repr(float(value)), f"{value:.17g}", f"{value:.25g}", f"{value:.3f}" if abs(value) < 1e20 else "7.", f"{value:e}",
                         f"{value:.6g}", str(draw.randrange(10**7)), ".5", "5.", "-0", "+1.5E+3", "00012", "0.000000000000000000000000012345678901234567"])
    if plain.startswith("-") and draw.random() < 0.5:
        plain = plain[1:]
    sign, digits = (plain[0], plain[1:]) if plain[0] in "+-" else ("", plain)
    whole, dot, fraction = digits.partition(".")
    text = whole
    if style["thousands"] and whole.isdigit() and draw.random() < 0.7:
        text = with_groups(whole, style["thousands"])
        plain = sign + str(int(whole)) + dot + fraction
    return sign + text + (style["decimal"] if dot else "") + fraction, plain


def integer(draw):
    value = draw.choice([draw.randrange(-1000, 1000), draw.randrange(-(2**63), 2**63), 2**63 - 1, -(2**63), 0])
    text = draw.choice([str(value), f"{value}.000", f"{value}e0", f"{value * 1000}e-3", str(value)])
    return text, value


def cell(draw, kind, style):
    """The text of a field without quotes, and its value; None if it is missing."""
    if draw.random() < 0.12:
        return ("", "" if kind == "text" else None)
    if kind in ("number", "integer", "bool") and draw.random() < 0.08:
        return draw.choice(MISSING), None
    if kind == "number":
        text, plain = number(draw, style)
        return text, float(plain)
    if kind == "integer":
        text, value = integer(draw)
        return text.replace(".", style["decimal"]), value
    if kind == "bool":
        return draw.choice(list(BOOLS.items()))
    text = draw.choice(WORDS + [f'say "{draw.randrange(9)}"', f"a{style['delimiter']}b", "two\nlines", "two\r\nlines", " padded "])
    if style["trim"] and draw.random() < 0.5:
        text = text.strip(" \t")
    return text, text


def spelled(draw, text, style):
    """The field in the file, and whether it is quoted."""
    special = [style["delimiter"], "\n", "\r"]
    quote = style["quote"]
    if quote is None:
        return text, False
    if any(one in text for one in special) or text.startswith(quote) or draw.random() < 0.25:
        return quote + text.replace(quote, quote * 2) + quote, True
    return text, False


def make_style(draw):
    delimiter = draw.choice([",", ",", ";", "\t", "|"])
    decimal = draw.choice([".", ".", ","])
    thousands = draw.choice([None, None, "." if decimal == "," else ",", "'"])
    return {"delimiter": delimiter, "decimal": decimal, "thousands": thousands, "quote": draw.choice(['"', '"', "~", None]),
            "header": draw.random() < 0.8, "comment": draw.choice(["", "", "#"]), "skip": draw.choice([0, 0, 2]),
            "trim": draw.random() < 0.3 and delimiter != "\t", "latin1": draw.random() < 0.25}


def make_file(draw, style, kinds, rows, damage):
    """The text of a file, the values of its rows, and the raw texts of its cells."""
    end = draw.choice(["\n", "\r\n"])
    lines = ["left out, \"all of it" + end] * style["skip"]
    if style["header"]:
        lines.append(style["delimiter"].join(f"c{i}" for i in range(len(kinds))) + end)
    values, texts, bad = [], [], []
    for row in range(rows):
        fields = []
        for kind in kinds:
            while True:
                text, value = cell(draw, kind, style)
                field, quoted = spelled(draw, text, style)
                unsafe = any(one in text for one in [style["delimiter"], "\n"]) or (style["quote"] or "\0") in text
                if not quoted and unsafe:
                    continue
                if not quoted and isinstance(value, str) and style["trim"]:
                    value = text = text.strip(" \t")
                if kind == "category" and value == "":
                    value = None
                break
            if style["trim"] and draw.random() < 0.5:
                field = " " * draw.randrange(3) + field + draw.choice(["", " ", "\t "])
            fields.append((field, value, text))
        record = style["delimiter"].join(field for field, _, _ in fields)
        if record.strip(" \t") == "" or len(kinds) == 1 and record == "":
            record, fields = (style["quote"] or "x") * 2, [(None, None if kinds[0] != "text" else "", "")] * len(kinds)
            if len(kinds) > 1 or style["quote"] is None:
                raise ValueError("an empty record")
        if damage and row > 0 and draw.random() < 0.3:
            bad.append(row)
            record = draw.choice([record + style["delimiter"] + "more", "1" if len(kinds) > 1 else f"1{style['delimiter']}"])
            fields = None
        lines.append(record + end)
        values.append(fields and [value for _, value, _ in fields])
        texts.append(fields and [text for _, _, text in fields])
        if draw.random() < 0.1:
            lines.append(end)
        if style["comment"] and draw.random() < 0.2:
            lines.append(f"#a comment with {style['delimiter']} and \"" + end)
    text = "".join(lines)
    if draw.random() < 0.3:
        text = text.removesuffix(end)
    return text, values, texts, bad


def check_with_pandas(data, style, kinds, values, texts):
    """Asserts that pandas reads the same records and numbers."""
    common = dict(sep=style["delimiter"], header=0 if style["header"] else None, skiprows=style["skip"], encoding="latin-1" if style["latin1"] else "utf-8-sig",
                  comment=style["comment"] or None, quotechar=style["quote"] or '"', quoting=0 if style["quote"] else 3)
    frame = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False, na_filter=False, **common)
    assert frame.shape == (len(values), len(kinds)), (frame.shape, len(values), len(kinds), data)
    for i, kind in enumerate(kinds):
        read = list(frame.iloc[:, i])
        assert read == [row[i] for row in texts], (read, texts, data)
    for i, kind in enumerate(kinds):
        if kind != "number":
            continue
        numbers = pd.read_csv(io.BytesIO(data), usecols=[i], decimal=style["decimal"], thousands=style["thousands"], na_values=[*MISSING, ""],
                              float_precision="round_trip", **common).iloc[:, 0]
        if numbers.dtype == object or str(numbers.dtype).startswith("str"):  # pandas refuses a spelling, such as `7.` with groups
            continue
        for value, row in zip(numbers, values):
            if row[i] is None:
                assert pd.isna(value), (value, data)
            elif math.isfinite(value):
                assert abs(value - row[i]) <= 2 * math.ulp(row[i]), (value, row[i], data)


def make_case(draw, index):
    style = make_style(draw)
    kinds = [draw.choice(["number", "number", "integer", "bool", "category", "text"]) for _ in range(draw.choice([1, 2, 3, 4]))]
    damage = index % 5 == 4
    files, values, bad = [], [], []
    for _ in range(draw.choice([1, 1, 1, 2])):
        text, rows, texts, wrong = make_file(draw, style, kinds, draw.randrange(1, 6), damage)
        data = text.encode("latin-1" if style["latin1"] else "utf-8")
        if not damage and not style["trim"]:
            check_with_pandas(data, style, kinds, rows, texts)
        if not style["latin1"] and draw.random() < 0.3:
            data = b"\xef\xbb\xbf" + data
        bad += [len(values) + row for row in wrong]
        values += rows
        files.append(data.decode("latin-1"))  # one character for each byte
    columns = [{"type": kind, "values": [row and row[i] for row in values]} for i, kind in enumerate(kinds)]
    return {"files": files, **style, "columns": columns, "bad": bad}


def main():
    cases, seed = [], 0
    while len(cases) < 200:
        seed += 1
        try:
            cases.append(make_case(random.Random(seed), len(cases)))
        except (ValueError, UnicodeEncodeError):
            continue
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")
    print(len(cases), "cases,", seed, "seeds,", path.stat().st_size, "bytes")


main()
