"""Processes suspended before a step that lose their lease and take the step late.

With the fence off, a process is kept from what others do as little as by a lease that it lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from crash.fault_points import MANIFEST, At, Stopped, stop, watched
from evolution.beside import run_apart
from omnigraph.errors import (
    AlreadyExists,
    AlreadyInitialized,
    CloneUnfinished,
    ConflictError,
    WriteNotFound,
)
from omnigraph.graph.graph import Graph
from omnigraph.settings import FenceMode, Settings
from omnigraph.storage.layout import CLONE_CLAIM
from trust.test_clocks import SCHEMA, make_people, names

CITIES = f"{SCHEMA} node City {{ name: String @key }}"
CITY_NAMES = "query q() { match { $p: City } return { $p.name } }"

OPENS = """
import sys
from pathlib import Path
from trust.test_late_steps import CITIES, open_late

graph = open_late(Path(sys.argv[1]))
"""


def open_late(place: Path) -> Graph:
    return omnigraph.open(place, settings=Settings(writer_fence=FenceMode.OFF))


def others_do(place: Path, script: str) -> str:
    """Run another process from beginning to end while this one is suspended."""
    return run_apart(OPENS + script, place)


APPLY_AGAIN = """
graph.recover()
graph.apply_schema(CITIES)
graph.mutate('query q() { insert City { name: "Bern" } }')
"""


def test_a_late_removal_of_a_new_table_does_not_meet_one_that_was_created_since(tmp_path):
    place = make_people(tmp_path)
    with watched(At("before", "commit", MANIFEST, stop)), pytest.raises(Stopped):
        open_late(place).apply_schema(CITIES)
    suspension = At("before", "delete_prefix", "nodes/*", lambda: others_do(place, APPLY_AGAIN))
    with watched(suspension):
        open_late(place).recover()
    assert suspension.met == 1
    with omnigraph.open(place) as graph:
        assert {row["p.name"] for row in graph.query(CITY_NAMES).rows} == {"Bern"}
        assert names(graph) == {"Ada", "Ben", "Cy"}
        assert graph.verify(deep=True).findings == ()


def test_every_attempt_to_add_a_type_has_an_address_of_its_own(tmp_path):
    place = make_people(tmp_path)
    made = []
    for _ in range(2):
        at = At("before", "commit", MANIFEST, stop)
        with watched(at), pytest.raises(Stopped):
            open_late(place).apply_schema(CITIES)
        made.append({path.name for path in (place / "nodes").iterdir()})
        omnigraph.open(place).recover()
    assert len(set.union(*made)) == 1 + len(made)


def test_a_plan_of_new_types_is_the_same_every_time(tmp_path):
    graph = omnigraph.open(make_people(tmp_path))
    assert graph.plan_schema(CITIES) == graph.plan_schema(CITIES)


CREATE_AGAIN = """
graph.create_branch("side", idempotency_key="k")
graph.mutate('query q() { insert Person { name: "Dee" } }', branch="side")
"""
BRANCH_RECORDS = "_refs/branches/*"


def die_before_the_name(place: Path) -> None:
    """Leave a branch of the manifest that was about to be called `side`."""
    with watched(At("before", "put_if_absent", BRANCH_RECORDS, stop)), pytest.raises(Stopped):
        open_late(place).create_branch("side", idempotency_key="k")


def test_a_branch_that_a_cleanup_is_about_to_remove_gets_no_name(tmp_path):
    place = make_people(tmp_path)
    die_before_the_name(place)
    suspension = At("before", "delete_branch", MANIFEST, lambda: others_do(place, CREATE_AGAIN))
    with watched(suspension):
        open_late(place).cleanup(keep=1, confirm=True)
    assert suspension.met == 1
    with omnigraph.open(place) as graph:
        assert names(graph, "side") == {"Ada", "Ben", "Cy", "Dee"}
        assert graph.create_branch("side", idempotency_key="k").is_replayed
        graph.cleanup(keep=1, confirm=True)
        assert graph.verify(deep=True).findings == ()


def test_a_late_attempt_to_name_a_branch_finds_that_another_one_created_it(tmp_path):
    place = make_people(tmp_path)
    suspension = At(
        "before", "put_if_absent", BRANCH_RECORDS, lambda: others_do(place, CREATE_AGAIN)
    )
    with watched(suspension):
        made = open_late(place).create_branch("side", idempotency_key="k")
    assert made.is_replayed
    with omnigraph.open(place) as graph:
        assert [graph.branch(name).name for name in graph.branches()] == ["main", "side"]
        assert graph.create_branch("side", idempotency_key="k").incarnation == made.incarnation
        assert names(graph, "side") == {"Ada", "Ben", "Cy", "Dee"}


def test_a_branch_that_was_created_and_renamed_is_not_created_again(tmp_path):
    place = make_people(tmp_path)
    with watched(At("after", "put_if_absent", BRANCH_RECORDS, stop)), pytest.raises(Stopped):
        open_late(place).create_branch("side", idempotency_key="k")
    with omnigraph.open(place) as graph:
        renamed = graph.rename_branch("side", "other")
        again = graph.create_branch("side", idempotency_key="k")
        assert (again.incarnation, again.is_replayed) == (renamed.incarnation, True)
        assert graph.branches() == ["main", "other"]
        graph.tag("here", at="other")  # it does not count as deleted
        assert graph.verify().findings == ()


DELETE_AGAIN = """
graph.delete_branch("child")
graph.delete_branch("side", idempotency_key="k")
graph.create_branch("side")
"""


def test_a_refusal_that_is_recorded_late_does_not_replace_an_answer(tmp_path):
    place = make_people(tmp_path)
    with omnigraph.open(place) as graph:
        graph.create_branch("side")
        graph.create_branch("child", source="side")
    recording = "_refs/requests/*"
    suspension = At("before", "*", recording, lambda: others_do(place, DELETE_AGAIN), nth=2)
    with watched(suspension), pytest.raises(ConflictError, match="is the source of child"):
        open_late(place).delete_branch("side", idempotency_key="k")
    assert suspension.met == 2
    with omnigraph.open(place) as graph:
        assert graph.delete_branch("side", idempotency_key="k").is_replayed
        assert graph.branches() == ["main", "side"]


def test_the_key_of_what_was_refused_can_be_used_for_anything(tmp_path):
    with omnigraph.open(make_people(tmp_path)) as graph:
        graph.create_branch("side")
        for _ in range(2):
            with pytest.raises(AlreadyExists):
                graph.create_branch("side", idempotency_key="k")
        with pytest.raises(WriteNotFound):
            graph.find_write("k")
        graph.delete_branch("side", idempotency_key="k")
        assert graph.find_write("k").operation == "delete_branch"
        assert graph.verify().findings == ()


CLONE_HALFWAY = """
import omnigraph
from crash.fault_points import At, Stopped, stop, watched

try:
    with watched(At("before", "put", "*_versions*", stop)):
        omnigraph.clone(sys.argv[1], sys.argv[2], force=True)
except (Stopped, omnigraph.errors.AlreadyInitialized) as error:
    print(type(error).__name__)
"""


def test_a_clone_that_finishes_late_does_not_finish_another(tmp_path):
    source, there = make_people(tmp_path), tmp_path / "there.omni"
    said = []
    start_over = OPENS + CLONE_HALFWAY
    suspension = At(
        "before", "delete", CLONE_CLAIM, lambda: said.append(run_apart(start_over, source, there))
    )
    with watched(suspension):
        omnigraph.clone(source, there)
    assert said == ["AlreadyInitialized\n"]
    with omnigraph.open(there) as graph:
        assert names(graph) == {"Ada", "Ben", "Cy"}
        assert graph.verify(deep=True).findings == ()


def test_a_clone_that_was_started_over_concurrently_does_not_continue(tmp_path):
    source, there = make_people(tmp_path), tmp_path / "there.omni"
    said = []
    start_over = OPENS + CLONE_HALFWAY
    suspension = At(
        "before",
        "put_if_match",
        CLONE_CLAIM,
        lambda: said.append(run_apart(start_over, source, there)),
    )
    with watched(suspension), pytest.raises(ConflictError, match="another clone"):
        omnigraph.clone(source, there)
    assert said == ["Stopped\n"]
    with pytest.raises(CloneUnfinished):
        omnigraph.open(there)
    omnigraph.clone(source, there, force=True)
    assert names(omnigraph.open(there)) == {"Ada", "Ben", "Cy"}


CLONE_AND_WRITE = """
import omnigraph

omnigraph.clone(sys.argv[1], sys.argv[2], force=True)
omnigraph.open(sys.argv[2]).mutate('query q() { insert Person { name: "Dee" } }')
"""


def test_starting_a_clone_over_late_spares_one_that_was_finished_concurrently(tmp_path):
    source, there = make_people(tmp_path), tmp_path / "there.omni"
    with watched(At("before", "put", "*_versions*", stop)), pytest.raises(Stopped):
        omnigraph.clone(source, there)
    suspension = At(
        "before", "put*", CLONE_CLAIM, lambda: run_apart(OPENS + CLONE_AND_WRITE, source, there)
    )
    with watched(suspension), pytest.raises(ConflictError, match="another clone"):
        omnigraph.clone(source, there, force=True)
    with omnigraph.open(there) as graph:
        assert names(graph) == {"Ada", "Ben", "Cy", "Dee"}
        assert graph.verify(deep=True).findings == ()


def test_a_claim_that_was_released_and_not_removed_blocks_no_clone(tmp_path):
    source, there = make_people(tmp_path), tmp_path / "there.omni"
    with watched(At("before", "delete", CLONE_CLAIM, stop)), pytest.raises(Stopped):
        omnigraph.clone(source, there)
    with omnigraph.open(there) as graph:
        graph.mutate('query q() { insert Person { name: "Dee" } }')
    for force in (False, True):
        with pytest.raises(AlreadyInitialized):
            omnigraph.clone(source, there, force=force)
    with omnigraph.open(there) as graph:
        assert names(graph) == {"Ada", "Ben", "Cy", "Dee"}
        assert graph.verify(deep=True).findings == ()


def test_recording_a_new_address_late_restores_no_removed_version(tmp_path):
    place = make_people(tmp_path)
    with omnigraph.open(place) as graph:
        graph.create_branch("side")
        graph.mutate('query q() { insert Person { name: "Dee" } }', branch="side")
    moved = place.rename(tmp_path / "moved.omni")
    suspension = At(
        "before",
        "put*",
        "__manifest/tree/*",
        lambda: others_do(moved, 'graph.delete_branch("side")'),
    )
    with watched(suspension):
        open_late(moved)
    assert suspension.met >= 1
    assert list(moved.glob("__manifest/tree/**/*.manifest")) == []
    with omnigraph.open(moved) as graph:
        graph.cleanup(keep=1, confirm=True)
        assert graph.verify(deep=True).findings == ()
