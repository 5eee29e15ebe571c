"""Deleting a branch reads its related branches, and no others."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lance
import pytest

import omnigraph
from crash.fault_points import At, Stopped, stop, watched
from omnigraph.errors import ConflictError
from omnigraph.storage.sealed_records import SEAL, seal

SCHEMA = "node Note { text: String @key }"
ALL = "query q() { match { $n: Note } return { $n.text } order { $n.text } }"


@pytest.fixture
def place(tmp_path):
    graph = omnigraph.init(tmp_path / "graph", SCHEMA)
    graph.load([{"type": "Note", "data": {"text": "first"}}], "append")
    return tmp_path / "graph"


@pytest.fixture
def graph(place):
    """`dev` was made from main, and `child` from it; both have rows of their own."""
    settings = omnigraph.Settings(cleanup_grace_s=0)  # no other process writes
    graph = omnigraph.open(place, settings=settings)
    graph.create_branch("dev")
    write(graph, "dev")
    graph.create_branch("child", source="dev")
    write(graph, "child")
    return graph


def write(graph, branch: str) -> None:
    graph.load([{"type": "Note", "data": {"text": branch}}], "append", branch=branch)


def read(graph, branch: str) -> list[str]:
    return [row["n.text"] for row in graph.query(ALL, branch=branch).rows]


def find_ref_file(place: Path, branch: str) -> Path:
    return place / "_refs/branches" / f"{branch}.json"


def list_marks(place: Path) -> list[str]:
    return sorted(path.stem for path in place.glob("_refs/related/*.json"))


_opened: list[str] | None = None


def _note_opened(event: str, arguments: tuple) -> None:
    if event == "open" and _opened is not None and isinstance(arguments[0], str):
        _opened.append(arguments[0])


sys.addaudithook(_note_opened)


def test_of_many_branches_only_the_deleted_one_is_read(place):
    global _opened
    graph = omnigraph.open(place)
    others = [graph.create_branch(f"other{number}") for number in range(5)]
    doomed = graph.create_branch("doomed")
    write(graph, "doomed")
    before, _opened = int(lance.iops_counter()), []
    try:
        graph.delete_branch("doomed")
        opened, reads = _opened, int(lance.iops_counter()) - before
    finally:
        _opened = None
    strangers = {text for other in others for text in (other.name, other.incarnation)}
    assert not [path for path in opened if any(text in path for text in strangers)]
    assert reads == 0, "the tables were asked about their branches"
    assert not list(place.glob(f"__manifest/**/*{doomed.incarnation}*"))
    assert graph.branches() == ["main", *(other.name for other in others)]
    assert graph.verify(deep=True).is_sound


def test_a_parent_is_retained_until_its_children_are_deleted(graph, place):
    with pytest.raises(ConflictError, match="is the source of child"):
        graph.delete_branch("dev")
    graph.delete_branch("child")
    assert len(list_marks(place)) == 1
    graph.delete_branch("dev")
    assert list_marks(place) == []
    assert not list((place / "__manifest/tree").glob("*"))
    assert graph.verify(deep=True).is_sound


def test_a_record_from_before_there_were_marks_says_nothing(graph, place):
    for path in place.glob("_refs/related/*.json"):
        path.unlink()
    for name in ("dev", "child"):
        record = json.loads(find_ref_file(place, name).read_text())
        record.pop("leaves_marks")
        record.pop(SEAL)
        find_ref_file(place, name).write_text(json.dumps(seal(record)))
    graph = omnigraph.open(place)
    with pytest.raises(ConflictError, match="is the source of child"):
        graph.delete_branch("dev")
    graph.create_branch("late", source="child")
    with pytest.raises(ConflictError, match="is the source of late"):
        graph.delete_branch("child")
    assert read(graph, "late") == ["child", "dev", "first"]


def test_a_mark_that_is_lost_costs_no_child_its_parent(graph, place):
    graph.create_branch("lone")
    graph.rename_branch("lone", "sole")
    graph.create_branch("pup", source="sole")
    for path in place.glob("_refs/related/*.json"):
        path.unlink()
    graph = omnigraph.open(place)
    for parent, child in (("dev", "child"), ("sole", "pup")):
        with pytest.raises(ConflictError, match=f"is the source of {child}"):
            graph.delete_branch(parent)
    assert read(graph, "child") == ["child", "dev", "first"]
    assert read(graph, "pup") == ["first"]


def test_a_child_whose_record_is_lost_keeps_the_files_of_its_parent(graph, place):
    record = find_ref_file(place, "child").read_bytes()
    find_ref_file(place, "child").unlink()
    graph.delete_branch("dev")
    find_ref_file(place, "child").write_bytes(record)
    assert read(omnigraph.open(place), "child") == ["child", "dev", "first"]


@pytest.mark.parametrize(
    ("moment", "action", "path"),
    [
        ("before", "put_if_absent", "_refs/related/*"),
        ("after", "put_if_absent", "_refs/related/*"),
        ("before", "create_branch", "*/__manifest*"),
        ("after", "create_branch", "*/__manifest*"),
        ("before", "put_if_absent", "_refs/branches/*"),
    ],
)
def test_a_child_that_was_never_finished_is_no_obstacle_for_long(place, moment, action, path):
    settings = omnigraph.Settings(cleanup_grace_s=0)  # no other process writes
    graph = omnigraph.open(place, settings=settings)
    graph.create_branch("dev")
    write(graph, "dev")
    with watched(At(moment, action, path, stop)), pytest.raises(Stopped):
        omnigraph.open(place).create_branch("child", source="dev")
    graph = omnigraph.open(place, settings=settings)
    graph.create_branch("second", source="dev")
    assert read(graph, "second") == ["dev", "first"]
    graph.delete_branch("second")
    graph.delete_branch("dev")
    assert graph.branches() == ["main"]
    for _ in range(2):
        graph.cleanup(keep=1, confirm=True)
    assert list_marks(place) == []
    assert not list((place / "__manifest/tree").glob("*"))
    assert graph.verify(deep=True).is_sound


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("action", ["delete_branch", "drop_tree"])
def test_leftovers_of_a_killed_deletion_are_removed_by_the_next_cleanup(place, moment, action):
    settings = omnigraph.Settings(cleanup_grace_s=0)  # no other process writes
    graph = omnigraph.open(place, settings=settings)
    doomed = graph.create_branch("doomed")
    write(graph, "doomed")
    with watched(At(moment, action, "*/__manifest*", stop)), pytest.raises(Stopped):
        omnigraph.open(place).delete_branch("doomed")
    graph = omnigraph.open(place, settings=settings)
    assert graph.branches() == ["main"]
    graph.create_branch("doomed")
    assert read(graph, "doomed") == ["first"]
    for _ in range(2):
        graph.cleanup(keep=1, confirm=True)
    assert not list(place.glob(f"__manifest/**/*{doomed.incarnation}*"))
    assert read(graph, "doomed") == ["first"]
    assert graph.verify(deep=True).is_sound


def test_a_tag_of_the_table_itself_keeps_the_files_of_its_branch(place):
    graph = omnigraph.open(place)
    dev = graph.create_branch("dev")
    write(graph, "dev")
    tree = place / "__manifest/tree" / dev.incarnation
    newest = lance.dataset(str(tree)).version
    lance.dataset(str(place / "__manifest")).tags.create("keep", (dev.incarnation, newest))
    graph.delete_branch("dev")
    assert lance.dataset(str(tree), version=newest).count_rows() > 0


def test_a_clone_knows_which_branches_have_to_do_with_others(graph, tmp_path):
    omnigraph.clone(graph.uri, str(tmp_path / "copy"))
    copy = omnigraph.open(tmp_path / "copy")
    with pytest.raises(ConflictError, match="is the source of child"):
        copy.delete_branch("dev")
    copy.create_branch("late", source="child")
    with pytest.raises(ConflictError, match="is the source of late"):
        copy.delete_branch("child")
    for name in ("late", "child", "dev"):
        copy.delete_branch(name)
    assert copy.branches() == ["main"]
    assert copy.verify(deep=True).is_sound


def test_a_renamed_branch_is_deleted_with_all_that_is_left_of_it(graph, place):
    graph.create_branch("lone")
    graph.rename_branch("lone", "sole")
    graph.rename_branch("dev", "prod")
    with pytest.raises(ConflictError, match="is the source of child"):
        graph.delete_branch("prod")
    for name in ("sole", "child", "prod"):
        graph.delete_branch(name)
    assert list_marks(place) == []
    assert graph.branches() == ["main"]
