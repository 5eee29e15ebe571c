"""Does one random operation after the other until it is killed.

random_worker.py PLACE SEED, with the steps that happened so far as lines on its input. Prints each
step before it is tried, and an empty line once it is done.
"""

from __future__ import annotations

import json
import random
import sys

import omnigraph
from crash.expected_contents import ExpectedGraph, do


def main() -> None:
    place, seed = sys.argv[1], int(sys.argv[2])
    expected, dice = ExpectedGraph(), random.Random(seed)
    for line in sys.stdin:
        expected = expected.after(json.loads(line))
    graph = omnigraph.open(place, actor="rambler")
    while True:
        step = expected.choose(dice)
        print(json.dumps(step), flush=True)
        do(graph, step)
        expected = expected.after(step)
        print(flush=True)


if __name__ == "__main__":
    main()
