"""Writers that stall while they hold the fence, and come back when others have moved on."""

from __future__ import annotations

import signal

import pytest

from processes.process_checks import check_line, check_pairs, check_recovered, check_tables
from processes.process_handles import PLACES
from store_places import open_graph

pytestmark = [pytest.mark.crash, pytest.mark.usefixtures("tables_in_turn")]

TERM_S = 2
BAG = 'query q() { insert Bag {slug: "another"} }'

CUTS = {
    "before the intent": ("before", "put", "__recovery/*"),
    "after the intent": ("after", "put", "__recovery/*"),
    "before the first table": ("before", "commit", "*/edges/*"),
    "after the first table": ("after", "commit", "*/edges/*"),
    "before the second table": ("before", "commit", "*/nodes/*"),
    "after the second table": ("after", "commit", "*/nodes/*"),
    "before the publish": ("before", "commit", "*/__manifest*"),
    "after the publish": ("after", "commit", "*/__manifest*"),
    "before the intent goes": ("before", "delete", "__recovery/*"),
    "after the intent is gone": ("after", "delete", "__recovery/*"),
}
FINISHED_BY_OTHERS = ("after the second table", "before the publish")
FINISHED = ("after the publish", "before the intent goes", "after the intent is gone")
QUICK = ("before the first table", "after the first table", "before the publish")
EVERY_CUT = [
    pytest.param(cut, marks=() if cut in QUICK else pytest.mark.slow, id=cut) for cut in CUTS
]


@pytest.mark.parametrize("cut", ["after the intent", "before the publish"])
def test_others_wait_for_a_stopped_holder_and_it_finishes(start_workers, place, cut):
    (holder,) = start_workers(1)
    (other,) = start_workers(1, wait_s=0.3)
    holder.start("pair", key="w0-0", by="w0", stop_at=CUTS[cut])
    holder.wait_for("stopping")
    (refused,) = other.ask("pair", key="w1-0", by="w1")
    assert refused["error"] == "WriterBusy"
    assert f"process {holder.pid} on" in refused["message"]
    assert other.ask("read", count=3)[-1] == {"seen": 1}
    holder.send(signal.SIGCONT)
    acks = [event["ack"] for event in holder.finish() if "ack" in event]
    (again,) = other.ask("pair", key="w1-1", by="w1")
    graph = check_recovered(place)
    check_line(graph, [*acks, again["ack"]])
    assert check_pairs(graph) == {"one", "w0-0", "w1-1"}
    check_tables(place)


def overtake(stalled, other, cut, between, branch="main"):
    """Stop one writer at a cut, let the other take over and write, and resume the first."""
    stalled.start("pair", key="w0-0", by="w0", stop_at=CUTS[cut], branch=branch)
    stalled.wait_for("stopping")
    (taken_over,) = between(other)
    assert taken_over.get("ack"), taken_over
    stalled.send(signal.SIGCONT)
    (late,) = [event for event in stalled.finish() if "stopping" not in event]
    return taken_over, late


def check_overtaken(place, stalled, other, cut, late, branch="main"):
    """The late writer's work is visible as a whole or not at all, and all others continue."""
    graph = open_graph(place, read_only=True)
    is_there = "w0-0" in check_pairs(graph, branch)
    assert is_there is (cut in FINISHED or cut in FINISHED_BY_OTHERS)
    assert ("ack" in late) is is_there, late
    if not is_there:
        assert late["error"] in ("ReadSetChanged", "RecoveryRequired")
    later = [stalled.ask("pair", key="w0-9", by="w0", branch=branch)]
    later += [other.ask("pair", key="w1-9", by="w1", branch=branch)]
    acks = [event["ack"] for events in later for event in events]
    graph = check_recovered(place)
    check_line(graph, acks + ([late["ack"]] if is_there else []), branch)
    assert {"w0-9", "w1-9"} <= check_pairs(graph, branch)
    assert ("w0-0" in check_pairs(graph, branch)) is is_there
    check_tables(place, branch)


@PLACES
@pytest.mark.parametrize("cut", EVERY_CUT)
def test_a_holder_overtaken_on_the_same_tables_shows_nothing_late(start_workers, place, cut):
    stalled, other = start_workers(2, term_s=TERM_S)
    _, late = overtake(stalled, other, cut, lambda w: w.ask("pair", key="w1-0", by="w1"))
    check_overtaken(place, stalled, other, cut, late)


@PLACES
@pytest.mark.parametrize("cut", EVERY_CUT)
def test_a_holder_overtaken_on_other_tables_shows_nothing_late(start_workers, place, cut):
    stalled, other = start_workers(2, term_s=TERM_S)
    _, late = overtake(stalled, other, cut, lambda w: w.ask("mutate", query=BAG))
    check_overtaken(place, stalled, other, cut, late)


@PLACES
@pytest.mark.slow
@pytest.mark.parametrize("cut", list(CUTS))
def test_a_holder_overtaken_on_its_first_write_to_a_branch(start_workers, place, cut):
    open_graph(place).create_branch("dev")
    stalled, other = start_workers(2, term_s=TERM_S)
    _, late = overtake(
        stalled,
        other,
        cut,
        lambda w: w.ask("pair", key="w1-0", by="w1", branch="dev"),
        branch="dev",
    )
    check_overtaken(place, stalled, other, cut, late, branch="dev")
