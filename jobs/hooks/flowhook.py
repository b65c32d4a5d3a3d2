"""Reads the watched and returned values of a flow job from standard input, as NumPy arrays:

    import flowhook
    for event in flowhook.events():
        print(event.name, event.step, event.array.mean())
"""
import json
import os
import stat
import sys

import numpy


class Event:
    """One event of a run.

    kind: return, watch or watch_diff. name, step, epoch: of the event. array: the first array. arrays: all arrays.
    value: the arrays in the lists and mappings of `returns:`. header: the JSON line.
    main_step, main_epoch: for a job called through `also:`, the completed steps and the epoch of the calling job."""

    def __init__(self, header, arrays):
        self.header, self.arrays = header, arrays
        self.kind, self.job = header["event"], header["job"]
        self.name, self.step, self.epoch = header.get("name"), header.get("step"), header.get("epoch")
        self.main_step, self.main_epoch = header.get("main_step"), header.get("main_epoch")
        self.array = arrays[0] if arrays else None
        self.value = self._fill(header.get("value"))

    def _fill(self, index):
        if isinstance(index, list):
            return tuple(self._fill(item) for item in index)
        if isinstance(index, dict):
            return {key: self._fill(item) for key, item in index.items()}
        return None if index is None else self.arrays[index]


class _Pipe:
    """A pipe with only .read: NumPy seeks in objects that it knows to be files, and pipes cannot seek."""

    def __init__(self, stream):
        self.read = stream.read


def events(everything=False):
    """Yields all events in order; with `everything` also `start`, `end` and, in a called job, `pass_end` after each call.

    With `ack: true` in the job, asking for the next event acknowledges the one before."""
    stream = sys.stdin.buffer
    try:
        acknowledges = stat.S_ISFIFO(os.fstat(3).st_mode)  # open only with `ack: true`
    except OSError:
        acknowledges = False
    for line in iter(stream.readline, b""):
        header = json.loads(line)
        arrays = [numpy.lib.format.read_array(_Pipe(stream), allow_pickle=False) for _ in header["arrays"]]
        if everything or header["event"] not in ("start", "pass_end", "end"):
            yield Event(header, arrays)
        sys.stdout.flush()
        if header["event"] == "end":
            return
        if acknowledges:
            os.write(3, b"\n")
    sys.exit("flowhook: the stream ended without an end event; the run was killed or crashed")
