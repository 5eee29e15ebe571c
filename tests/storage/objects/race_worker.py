"""A process that races others for objects: `race_worker.py create|swap URI ROUNDS`.

It reports that it is ready, and then waits for the start.
"""

from __future__ import annotations

import json
import os
import sys
import time

from omnigraph.settings import Settings
from omnigraph.storage.objects.open_store import open_store

_STEP_S = 0.01


def create(store, rounds, start):
    """Try to create one object per round, all processes at the same moment."""
    name, won = str(os.getpid()), []
    for number in range(rounds):
        time.sleep(max(0.0, start + number * _STEP_S - time.time()))
        if store.put_if_absent(f"claims/{number}", name.encode() * 100):
            won.append(number)
    return won


def swap(store, rounds, start):
    """Add one to a shared counter in each round, by compare and swap."""
    time.sleep(max(0.0, start - time.time()))
    refused = 0
    for _ in range(rounds):
        while True:
            seen = store.get_versioned("counter")
            if store.put_if_match("counter", b"%d" % (int(seen.data) + 1), seen.tag):
                break
            refused += 1
    return refused


if __name__ == "__main__":
    verb, uri, rounds = sys.argv[1:]
    store = open_store(uri, Settings.from_environment(os.environ))
    print("ready", flush=True)
    start = sys.stdin.readline()
    result = {"create": create, "swap": swap}[verb](store, int(rounds), float(start))
    print(json.dumps({"pid": os.getpid(), "result": result}))
