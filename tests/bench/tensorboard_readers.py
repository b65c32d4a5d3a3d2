#!/usr/bin/env python3
"""Reads the event files of a directory with TensorBoard's own readers and prints what they found. Not part of the tests, which have a reader of
their own: this needs packages from PyPI.

    python3 -m venv /tmp/tb && /tmp/tb/bin/pip install tensorboard tbparse
    flowrun train job.yaml -o out --tensorboard tb
    /tmp/tb/bin/python tests/bench/tensorboard_readers.py tb

The exit status is 1 where two readers see different scalars, or a tag has a step twice."""
import sys

from tbparse import SummaryReader
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main(directory):
    accumulator = EventAccumulator(directory, size_guidance={"scalars": 0, "histograms": 0})
    accumulator.Reload()
    tags = accumulator.Tags()
    print("scalars:", ", ".join(f"{tag} ({len(accumulator.Scalars(tag))})" for tag in tags["scalars"]))
    print("histograms:", ", ".join(f"{tag} ({len(accumulator.Histograms(tag))})" for tag in tags["histograms"]))
    wrong = []
    for tag in tags["scalars"]:
        steps = [event.step for event in accumulator.Scalars(tag)]
        if len(set(steps)) != len(steps):
            wrong.append(f"{tag} has a step twice")
    for tag in tags["histograms"]:
        for event in accumulator.Histograms(tag):
            found = event.histogram_value
            if len(found.bucket_limit) != len(found.bucket) or sum(found.bucket) != found.num or found.bucket_limit[-1] != found.max:
                wrong.append(f"{tag}, step {event.step}: a malformed histogram")
    if tags["graph"]:
        graph = accumulator.Graph()
        names = {node.name for node in graph.node}
        print(f"graph: {len(names)} nodes, {sum(len(node.input) for node in graph.node)} edges")
        wrong += [f"{node.name} reads {name}, which is no node" for node in graph.node for name in node.input if name.split(":")[0] not in names]
    frame = SummaryReader(directory).scalars
    for tag in tags["scalars"]:
        rows = frame[frame.tag == tag]
        if list(zip(rows.step, rows.value)) != [(event.step, event.value) for event in accumulator.Scalars(tag)]:
            wrong.append(f"{tag}: tbparse reads other values")
    print("\n".join(wrong) or "both readers agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
