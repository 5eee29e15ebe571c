"""Requests about branches with an idempotency key: carried out once, also after a crash."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import omnigraph
from graph.failing_observers import Trouble, observed
from omnigraph.errors import (
    AlreadyExists,
    BranchNotFound,
    IdempotencyKeyReused,
    WriteNotFound,
)
from omnigraph.storage.branch_requests import REQUEST_RECORDS, remove_old_requests

SCHEMA = "node Person { name: String @key }"
ADD = 'query add() { insert Person { name: "a" } }'


class Crash(BaseException):
    """The process has ended: nothing after this line runs."""


def crash() -> None:
    raise Crash


@pytest.fixture
def place(tmp_path):
    omnigraph.init(tmp_path / "g.omni", SCHEMA, actor="ada").close()
    return tmp_path / "g.omni"


@pytest.fixture
def graph(place):
    return omnigraph.open(place, actor="ada")


def test_a_branch_is_created_once(graph) -> None:
    first = graph.create_branch("side", idempotency_key="k")
    again = graph.create_branch("side", idempotency_key="k")
    assert (first.is_replayed, again.is_replayed) == (False, True)
    assert (again.incarnation, again.wire()) == (first.incarnation, first.wire())
    with pytest.raises(AlreadyExists):
        graph.create_branch("side")
    with pytest.raises(AlreadyExists):
        graph.create_branch("side", idempotency_key="other")
    for asked in ({"name": "another"}, {"name": "side", "source": "side"}):
        with pytest.raises(IdempotencyKeyReused):
            graph.create_branch(**asked, idempotency_key="k")
    with pytest.raises(IdempotencyKeyReused):
        graph.delete_branch("side", idempotency_key="k")
    assert graph.create_branch("third", actor="ben", idempotency_key="k").actor_id == "ben"


def test_a_deletion_that_is_sent_again_spares_a_branch_that_was_created_since(graph) -> None:
    graph.create_branch("side")
    assert not graph.delete_branch("side", idempotency_key="k").is_replayed
    made = graph.create_branch("side")
    assert graph.delete_branch("side", idempotency_key="k").is_replayed
    assert graph.branches() == ["main", "side"]
    assert graph.delete_branch("side", idempotency_key="k2").name == made.name
    with pytest.raises(BranchNotFound):
        graph.delete_branch("side", idempotency_key="k3")
    graph.create_branch("side")
    graph.delete_branch("side", idempotency_key="k3")  # a refused request may be repeated
    assert graph.branches() == ["main"]


def test_a_branch_is_renamed_once(graph) -> None:
    graph.create_branch("old")
    first = graph.rename_branch("old", "new", idempotency_key="k")
    graph.create_branch("old")
    again = graph.rename_branch("old", "new", idempotency_key="k")
    assert (again.is_replayed, again.incarnation) == (True, first.incarnation)
    assert graph.branches() == ["main", "new", "old"]


def test_its_outcome_is_found_by_its_key(graph) -> None:
    graph.create_branch("side", idempotency_key="k")
    found = graph.find_write("k")
    assert (found.operation, found.commit, found.answer["name"]) == ("create_branch", None, "side")
    assert found.wire()["commit"] is None
    for missing in ({"idempotency_key": "x"}, {"idempotency_key": "k", "actor": "ben"}):
        with pytest.raises(WriteNotFound):
            graph.find_write(**missing)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("path", ["*_refs/requests/*", "*_refs/branches/*"])
@pytest.mark.parametrize("verb", ["create", "rename", "delete"])
def test_a_crash_anywhere_leaves_a_request_that_can_be_sent_again(
    place, verb: str, path: str, moment: str
) -> None:
    """Whatever was done before the crash is recognised, and the rest is done."""

    def ask(graph):
        if verb == "create":
            return graph.create_branch("side", idempotency_key="k")
        if verb == "rename":
            return graph.rename_branch("old", "side", idempotency_key="k")
        return graph.delete_branch("old", idempotency_key="k")

    if verb != "create":
        omnigraph.open(place, actor="ada").create_branch("old")
    with observed(Trouble(moment, "*", path, instead=crash)):
        graph = omnigraph.open(place, actor="ada")
        with pytest.raises(Crash):
            ask(graph)
    reopened = omnigraph.open(place, actor="ada")
    done = ask(reopened)
    assert done.wire()["name"] == ("old" if verb == "delete" else "side")
    assert ask(reopened).is_replayed
    assert reopened.branches() == (["main"] if verb == "delete" else ["main", "side"])
    assert reopened.verify().is_sound


def test_requests_that_race_with_one_key_make_one_branch(place) -> None:
    barrier = threading.Barrier(6)

    def create(_: int):
        graph = omnigraph.open(place, actor="ada")
        barrier.wait()
        return graph.create_branch("side", idempotency_key="k")

    with ThreadPoolExecutor(6) as threads:
        made = list(threads.map(create, range(6)))
    assert len({one.incarnation for one in made}) == 1


def test_cleanup_keeps_the_newest_records(place, graph) -> None:
    for number in range(5):
        graph.create_branch(f"b{number}", idempotency_key=f"k{number}")
    root = graph._open.views.root
    assert remove_old_requests(root, retained=3) == 2
    assert len(REQUEST_RECORDS.list_names(root.store)) == 3
    with pytest.raises(WriteNotFound):
        graph.find_write("k0")
    assert graph.find_write("k4").answer["name"] == "b4"
    graph.cleanup(keep=1, confirm=True)
    assert graph.find_write("k4").answer["name"] == "b4"
