"""Files of a branch that no version names, found without asking about every other branch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import omnigraph
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.remove_versions import list_unreferenced_files

SCHEMA = "node A { k: String @key  n: I32? }"


@pytest.fixture
def graph(tmp_path: Path) -> omnigraph.Graph:
    made = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    made.load([{"type": "A", "data": {"k": f"k{n}"}} for n in range(20)], "append")
    made.create_branch("b")
    made.create_branch("untouched")
    for n in range(3):
        rows = [
            {"type": "A", "data": {"k": f"k{n}", "n": n}},
            {"type": "A", "data": {"k": f"x{n}"}},
        ]
        made.load(rows, "merge", branch="b")
    made.mutate('query q() { delete A where k = "x1" }', branch="b")
    return made


def branches_of(tmp_path: Path) -> list[TableLocation]:
    """Every branch of every table and of the manifest."""
    tables = [tmp_path / "g.omni" / "__manifest", *(tmp_path / "g.omni" / "nodes").iterdir()]
    return [
        TableLocation(str(table), branch.name)
        for table in tables
        for branch in sorted((table / "tree").iterdir())
    ]


def test_branches_in_use_have_none(graph, tmp_path: Path) -> None:
    locations = branches_of(tmp_path)
    assert len(locations) == 3, "two of the manifest, one of the table that was written"
    assert [list_unreferenced_files(location) for location in locations] == [[], [], []]
    graph.cleanup(keep=1, confirm=True)
    assert [list_unreferenced_files(location) for location in branches_of(tmp_path)] == [[], [], []]


@pytest.mark.parametrize(
    "stray",
    [
        "data/0123456789abcdef0123456789abcdef.lance",
        "_deletions/0-1-12345.arrow",
        "_indices/00000000-0000-4000-8000-000000000000/page_data.lance",
        "_transactions/1-00000000-0000-4000-8000-000000000000.txn",
    ],
)
def test_a_stray_file_of_any_kind_is_found_on_any_branch(graph, tmp_path: Path, stray) -> None:
    for location in branches_of(tmp_path):
        file = Path(location.native_uri) / stray
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"left")
        os.utime(file, (0, 0))  # records of transactions are found after a week
        found = [one.path for one in list_unreferenced_files(location)]
        assert found == [f"tree/{location.branch}/{stray}"], location
        file.unlink()
        assert list_unreferenced_files(location) == []


def test_files_that_only_a_branch_of_the_branch_needs_are_named(graph, tmp_path: Path) -> None:
    graph.create_branch("child", source="b")
    graph.load([{"type": "A", "data": {"k": "k5", "n": 5}}], "merge", branch="b")
    graph.mutate("query q() { delete A where n >= 0 }", branch="b")
    graph.optimize(branch="b")
    graph.cleanup(keep=1, confirm=True)
    rows = len(graph.nodes("A", branch="child"))
    for location in branches_of(tmp_path):
        named = {one.path for one in list_unreferenced_files(location)}
        assert not named, location
    assert len(omnigraph.open(tmp_path / "g.omni").nodes("A", branch="child")) == rows
