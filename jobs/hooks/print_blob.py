"""Prints a label, the shape and the dtype of each value: print_blob.py LABEL [--values]

A hook is a plain program. Its arguments come from the job file, its values arrive on standard input."""
import sys

import flowhook

label = sys.argv[1] if len(sys.argv) > 1 else ""
values = "--values" in sys.argv[2:]

for event in flowhook.events():
    if values:
        print(event.array)
    print(label or event.name, event.array.shape, event.array.dtype)
