"""Simulate many runs, and print the counts as one line of JSON.

    python -m simulation.run_simulation --seed 1 --runs 1000
    python -m simulation.run_simulation --seed 4711 --trace        one run, step by step

Interrupted, it ends after the current run and prints the same.

Run it with PYTHONHASHSEED=0 and `tests` on the path: sets of texts are then walked in one order,
and a seed shows the same run every time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from functools import partial

from simulation.simulated_lance import replace_lance
from simulation.simulated_time import replace_clocks_and_pools, replace_threads

COUNTED = (
    *("steps", "effects", "crashes", "suspensions", "faults"),
    *("writes", "acknowledged", "reads", "cleanups", "removals", "branches"),
)


def prepare() -> None:
    """Put simulated things in the place of real ones; before our code is imported."""
    replace_clocks_and_pools()
    replace_lance()
    from omnigraph.storage import lease_fence, publish, staging_heartbeat

    replace_threads(lease_fence, staging_heartbeat)
    # A run has a dozen commits. Its history is set aside and merged as that of thousands is.
    publish.make_state_file = partial(publish.make_state_file, recent_lineage=1)
    publish.compact_lineage = partial(publish.compact_lineage, small_fragments=2)


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--seed", type=int, default=1, help="of the first run")
    given.add_argument("--runs", type=int, default=1)
    given.add_argument("--seconds", type=float, default=float("inf"), help="of processor time")
    given.add_argument("--trace", action="store_true", help="print every step of one run")
    given.add_argument("--theme", default=None, help="the theme of all runs")
    given.add_argument("--problems", type=int, default=5, help="after how many to stop")
    given.add_argument("--plant", default=None, help="a fault to put into our code")
    asked = given.parse_args()
    assert os.environ.get("PYTHONHASHSEED") == "0", "set PYTHONHASHSEED=0, or seeds mean nothing"
    clock = time.process_time
    prepare()
    from simulation.simulated_run import SimulatedRun, make_template

    if asked.plant is not None:
        from simulation.planted_faults import PLANTED

        PLANTED[asked.plant]()
    template = make_template()
    if asked.trace:
        one = SimulatedRun(asked.seed, template, asked.theme, traced=True)
        try:
            one.run()
        finally:
            print("\n".join(one.turns.trace or []))
        return 0
    began, runs = clock(), 0
    total: Counter[str] = Counter()
    problems: dict[int, str] = {}
    is_asked_to_stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: is_asked_to_stop.set())
    for seed in range(asked.seed, asked.seed + asked.runs):
        if is_asked_to_stop.is_set() or clock() - began > asked.seconds:
            break
        result = SimulatedRun(seed, template, asked.theme).run()
        runs += 1
        total.update({name: getattr(result, name) for name in COUNTED})
        if result.problem is not None:
            problems[seed] = result.problem
            if len(problems) == asked.problems:
                break
    taken = round(clock() - began, 1)
    print(json.dumps({"runs": runs, "seconds": taken, **total, "problems": problems}))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
