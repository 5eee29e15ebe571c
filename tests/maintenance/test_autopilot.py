"""Automatic maintenance of a graph: its triggers, its work, and that no write waits for it."""

from __future__ import annotations

import time

import pytest

import omnigraph
from maintenance.library_graph import BOOK, entry, fragments, rows_of, run, write_a_little
from omnigraph.maintenance.autopilot import find_due_work
from omnigraph.settings import AutopilotSettings, Settings

EAGER = AutopilotSettings(
    enabled=True, interval_s=0, fragments=3, unindexed_rows=0, versions=0, keep=1, age_s=0
)


def opened(place, **changes):
    fields = {f: getattr(EAGER, f) for f in EAGER.__slots__} | changes
    settings = Settings(autopilot=AutopilotSettings(**fields), cleanup_grace_s=0)
    return omnigraph.open(place, actor="tester", settings=settings)


def test_it_is_off_unless_requested(place):
    graph = omnigraph.open(place)
    assert not graph.settings.autopilot.enabled
    write_a_little(graph, 70)
    graph.close()
    assert len(fragments(graph, BOOK)) == 71


def test_it_optimizes_once_enough_fragments_are_there(place):
    with opened(place) as graph:
        write_a_little(graph, 6)
    assert len(fragments(graph, BOOK)) <= 4
    assert graph._open.autopilot.last_result.error is None


def test_it_records_no_commit_so_that_a_head_stays_what_it_was(place):
    with opened(place) as graph:
        write_a_little(graph, 6)
        graph._open.autopilot.wait()
        head = graph.snapshot().graph_commit_id
        assert len(graph.commits()) == 8
        assert graph.maintain().error is None
        graph.mutate('query q() { insert Reader {slug: "q", name: "Q"} }', expected_head=head)


def test_thresholds_say_what_is_due_and_why(place, library):
    write_a_little(library)
    views = library._open.views
    assert not find_due_work(views, AutopilotSettings()).is_any
    due = find_due_work(views, AutopilotSettings(fragments=5))
    assert any("node:Book has 5 fragments" in reason for reason in due.optimize)
    due = find_due_work(views, AutopilotSettings(fragments=0, unindexed_rows=6))
    assert any("does not cover 6 rows" in reason for reason in due.optimize)
    due = find_due_work(views, AutopilotSettings(versions=3, keep=1, age_s=0))
    assert any("versions that nothing needs" in reason for reason in due.cleanup)
    due = find_due_work(views, AutopilotSettings(versions=0, bytes=100, keep=1, age_s=0))
    assert any("bytes are unreferenced" in reason for reason in due.cleanup)
    assert not find_due_work(views, AutopilotSettings(versions=3)).is_any, (
        "the commits are too young"
    )


def test_it_cleans_up_what_its_policy_allows(place):
    with opened(place, versions=3) as graph:
        write_a_little(graph, 10)
    graph.maintain()
    assert graph.maintain().due.cleanup == ()
    assert graph.verify(deep=True).is_sound


def test_it_is_not_tried_again_before_its_time(place):
    with opened(place, interval_s=3_600) as graph:
        write_a_little(graph, 1)
        graph._open.autopilot.wait()
        first = graph._open.autopilot.last_result
        write_a_little(graph, 6, mark="y")
    assert graph._open.autopilot.last_result is first
    assert len(fragments(graph, BOOK)) == 8


def test_a_failure_is_reported_and_no_write_fails_for_it(place):
    with opened(place) as graph:
        write_a_little(graph, 6)
        graph._open.autopilot.wait()
        (place / "__recovery").mkdir(exist_ok=True)
        (place / "__recovery/01BROKEN.json").write_text("{")
        result = graph.maintain()
        assert result.error is None or "01BROKEN" in result.error
        (place / "__recovery/01BROKEN.json").unlink()
        write_a_little(graph, 2, mark="z")


@pytest.mark.parametrize("kind", ["update", "delete", "merge"])
def test_writers_of_all_kinds_continue_while_it_works(place, kind):
    """Each of them reads rows before it changes them, and none has to start over."""
    with opened(place) as graph:
        statements = {
            "update": 'update Book set {{year: {n}}} where slug = "a"',
            "delete": 'insert Reader {{slug: "t{n}", name: "T"}}',
            "merge": 'merge Book {{slug: "a", title: "T{n}"}}',
        }
        for number in range(25):
            run(graph, statements[kind].format(n=number))
            if kind == "delete" and number:
                run(graph, f'delete Reader where slug = "t{number - 1}"')
    assert entry(graph, BOOK).row_count == 2
    assert graph.verify(deep=True).is_sound
    assert rows_of(graph)


def test_closing_waits_for_the_running_turn(place):
    graph = opened(place)
    write_a_little(graph, 4)
    graph.close()
    seen = graph.snapshot()
    time.sleep(0.1)
    assert graph.snapshot() == seen
