"""Saves and stops the run when the mean of the last N losses is below LIMIT: early_stop.py LIMIT [N], default N: 20."""
import collections
import sys

import flowhook

limit = float(sys.argv[1])
losses = collections.deque(maxlen=int(sys.argv[2]) if len(sys.argv) > 2 else 20)
for event in flowhook.events():
    losses.append(float(event.array.mean()))
    if len(losses) == losses.maxlen and sum(losses) / len(losses) < limit:
        print(f"the loss is below {limit} at step {event.step}")
        sys.exit(10)
