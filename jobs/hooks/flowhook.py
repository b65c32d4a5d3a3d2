"""What a flow job watches or returns, as NumPy arrays, read from standard input as the run goes:

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
    """kind: return, watch or watch_diff; name, step, epoch; main_step and main_epoch: in a job that another one calls, the
    complete steps of that one and its epoch then; array: the first one; arrays: all, by position; value: the arrays in the lists and mappings that
    `returns:` has; header: the line of JSON itself."""

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
    """A pipe of which NumPy sees .read alone: it would seek in what it knows to be a file, and pipes cannot."""

    def __init__(self, stream):
        self.read = stream.read


def events(everything=False):
    """All events in order; with `everything` also `start`, `end` and, in a called job, the `pass_end` of each call. An event is acknowledged, where the
    job asks for that, when the next one is asked for."""
    stream = sys.stdin.buffer
    try:
        acknowledges = stat.S_ISFIFO(os.fstat(3).st_mode)  # open only where the job says `ack: true`
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
    sys.exit("flowhook: the run is gone, it did not say that it has ended")
