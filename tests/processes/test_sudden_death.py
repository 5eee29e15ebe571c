"""Writers killed in the middle of their work: what was acknowledged stays, the rest is whole."""

from __future__ import annotations

import os
import time
from random import Random

import pytest

from processes.process_checks import (
    acknowledged,
    check_line,
    check_pairs,
    check_recovered,
    check_tables,
    errors,
)
from processes.process_handles import PLACES
from store_places import open_graph

pytestmark = pytest.mark.crash


def seed_of_this_run():
    seed = int(os.environ.get("OMNIGRAPH_TEST_SEED", str(time.time_ns() % 2**32)))
    print(f"OMNIGRAPH_TEST_SEED={seed}")
    return seed


def kill_under_load(start_workers, place, chance, *, count, kills, branch="main"):
    """Keep writers busy, kill one after the other at odd moments, and start others instead."""
    workers = [*start_workers(count)]
    everyone = list(workers)
    for number, worker in enumerate(workers):
        worker.start("pairs", by=f"w{number}", count=None, branch=branch)
    events = []
    for kill in range(kills):
        victim = workers.pop(chance.randrange(len(workers)))
        victim.wait_for("ack", len(victim.events))
        time.sleep(chance.random() * 0.05)
        events += victim.kill()
        if kill + 1 < kills:
            (fresh,) = start_workers(1)
            everyone.append(fresh)
            workers.append(fresh)
            fresh.start("pairs", by=f"w{count + kill}", count=None, branch=branch)
    for worker in workers:
        events += worker.kill()
    return events


def check_survivors(place, events, branch="main"):
    assert not errors(events), [event for event in events if "error" in event]
    graph = check_recovered(place)
    acks = acknowledged(events)
    assert acks
    check_line(graph, acks, branch)
    stored = check_pairs(graph, branch)
    assert {event["key"] for event in acks.values()} <= stored
    for name in graph.branches():
        check_tables(place, branch=name)
    graph.mutate('query q() { insert Item {slug: "after"} }', branch=branch)


@PLACES
def test_killed_writers_lose_no_acknowledged_write(start_workers, place):
    chance = Random(seed_of_this_run())
    events = kill_under_load(start_workers, place, chance, count=2, kills=3)
    check_survivors(place, events)


@pytest.mark.slow
@pytest.mark.parametrize("branch", ["main", "dev"])
def test_many_writers_killed_one_after_the_other(start_workers, place, branch):
    chance = Random(seed_of_this_run())
    open_graph(place).create_branch("dev")
    events = kill_under_load(start_workers, place, chance, count=4, kills=40, branch=branch)
    check_survivors(place, events, branch)


@pytest.mark.slow
def test_all_writers_killed_at_once_again_and_again(start_workers, place):
    chance = Random(seed_of_this_run())
    events = []
    for round_number in range(10):
        workers = start_workers(4)
        for number, worker in enumerate(workers):
            worker.start("pairs", by=f"r{round_number}w{number}", count=None)
        workers[0].wait_for("ack", len(workers[0].events))
        time.sleep(chance.random() * 0.3)
        for worker in workers:
            worker.send(9)
        for worker in workers:
            events += worker.kill()
    check_survivors(place, events)
