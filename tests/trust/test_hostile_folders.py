"""A graph folder that comes from a stranger: links in it lead nowhere when we write or delete."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import LinkInGraph, OmniError
from omnigraph.settings import Settings

SCHEMA = """
node Person { name: String @key  age: I32? @index }
edge Knows: Person -> Person
"""
INSERT = 'query q() { insert Person { name: "new", age: 1 } }'
DELETE = 'query q() { delete Person where name = "Ada" }'
PEOPLE = [{"type": "Person", "data": {"name": name, "age": 7}} for name in ("Ada", "Ben", "Cy")]


@pytest.fixture
def graph(tmp_path) -> Path:
    """A graph as a stranger hands it over: with a branch, a deletion and an index."""
    place = tmp_path / "graph.omni"
    with omnigraph.init(place, SCHEMA) as made:
        made.load(PEOPLE, "append")
        made.mutate('query q() { delete Person where name = "Cy" }')
        made.create_branch("side")
        made.branch("side").mutate('query q() { insert Person { name: "Dee", age: 2 } }')
        made.optimize()
        made.mutate('query q() { insert Person { name: "Eve", age: 3 } }')
    return place


def table_of(graph: Path) -> Path:
    (table,) = (graph / "nodes").iterdir()
    return table


def plant(place: Path, outside: Path) -> None:
    """Put a link where the file or folder is; what was there is outside now."""
    outside.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        shutil.move(place, outside)
    elif not outside.exists():
        outside.mkdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside)


def content(folder: Path) -> dict[str, bytes | None]:
    if folder.is_file():
        return {".": folder.read_bytes()}
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def write_everything(graph: Path) -> list[OmniError]:
    """Every verb that writes or deletes, each from a fresh handle; gives what was refused."""
    settings = Settings(cleanup_grace_s=0.0)
    verbs = [
        lambda g: g.mutate(INSERT),
        lambda g: g.mutate(DELETE),
        lambda g: g.load(PEOPLE, "merge"),
        lambda g: g.branch("side").mutate(INSERT),
        lambda g: g.create_branch("more"),
        lambda g: g.delete_branch("side"),
        lambda g: g.optimize(),
        lambda g: g.cleanup(keep=1, confirm=True),
        lambda g: g.cleanup(keep=1, confirm=True),
    ]
    refused = []
    for verb in verbs:
        try:
            with omnigraph.open(graph, settings=settings) as opened:
                result = verb(opened)
                errors = [e for t in getattr(result, "tables", ()) for e in _errors(t)]
                refused += [OmniError(e) for e in errors if "symbolic link" in e]
        except OmniError as error:
            refused.append(error)
    return refused


def _errors(table: object) -> list[str]:
    found = getattr(table, "error", None)
    return [found] if isinstance(found, str) else list(found or ())


CONTROL = [
    "__writer.lock",
    "__writer_queue.lock",
    ".omnigraph-objects.lock",
    "__recovery",
    "__maintenance",
    "_refs",
    "_refs/branches",
    "__manifest",
    "nodes",
]


@pytest.mark.parametrize("name", CONTROL)
def test_no_control_file_or_folder_is_written_through_a_link(graph, tmp_path, name):
    outside = tmp_path / "elsewhere" / "thing"
    if name.endswith(".lock"):
        outside.parent.mkdir()
        outside.write_text("precious")
        (graph / name).unlink(missing_ok=True)
    plant(graph / name, outside)
    before = content(outside)
    refused = write_everything(graph)
    assert any("symbolic link" in str(error) and name in str(error) for error in refused)
    assert content(outside) == before


@pytest.mark.parametrize(
    "folder", ["data", "_deletions", "_indices", "_versions", "_transactions", "_refs", "tree"]
)
def test_no_folder_of_a_table_is_written_through_a_link(graph, tmp_path, folder):
    outside = tmp_path / "elsewhere" / folder
    plant(table_of(graph) / folder, outside)
    before = content(outside)
    refused = write_everything(graph)
    assert any("symbolic link" in str(error) and folder in str(error) for error in refused)
    assert content(outside) == before


@pytest.mark.parametrize("folder", ["data", "_versions", "_transactions", "."])
def test_no_folder_of_a_branch_is_written_through_a_link(graph, tmp_path, folder):
    (fork,) = (table_of(graph) / "tree").iterdir()
    outside = tmp_path / "elsewhere" / "folder"
    plant(fork / folder if folder != "." else fork, outside)
    before = content(outside)
    refused = write_everything(graph)
    assert any("symbolic link" in str(error) for error in refused)
    assert content(outside) == before


@pytest.mark.parametrize("place", ["data/x", "_indices/x", "tree/*/_transactions/x"])
def test_cleanup_does_not_remove_old_files_of_a_folder_linked_within_a_table(
    graph, tmp_path, place
):
    """No version names them and they are older than a week, so they pass for leftovers."""
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    for name in ("thesis.lance", "thesis.txn", "thesis.txt"):
        (outside / name).write_bytes(b"precious")
        os.utime(outside / name, (0, 0))
    (folder,) = table_of(graph).glob(place.removesuffix("/x"))
    (folder / "x").symlink_to(outside)
    before = content(outside)
    with omnigraph.open(graph, settings=Settings(cleanup_grace_s=0.0)) as opened:
        opened.branch("side").mutate(INSERT)
        result = opened.cleanup(keep=1, confirm=True)
        opened.delete_branch("side")
        opened.cleanup(keep=1, confirm=True)
    assert content(outside) == before
    (refused,) = [one.error for one in result.tables if one.error]
    assert f"{folder / 'x'} is a symbolic link" in refused


def test_a_planted_orphan_candidate_does_not_make_cleanup_delete_a_folder_elsewhere(
    graph, tmp_path
):
    outside = tmp_path / "elsewhere"
    (outside / "photos").mkdir(parents=True)
    (outside / "photos" / "one.jpg").write_bytes(b"precious")
    (graph / "__staging").symlink_to(outside)
    note = graph / "__maintenance" / "unreferenced.json"
    note.parent.mkdir(exist_ok=True)
    note.write_text(json.dumps({"version": 1, "seen": {"__staging/photos": 0}}))
    with omnigraph.open(graph, settings=Settings(cleanup_grace_s=0.0)) as opened:
        for _ in range(3):
            result = opened.cleanup(keep=1, confirm=True)
    assert (outside / "photos" / "one.jpg").read_bytes() == b"precious"
    assert "symbolic link" in json.dumps(result.wire())


def test_a_planted_checksum_of_something_else_is_not_read(graph):
    """A stranger can compute what makes a line of the log whole."""
    newest = len(list(graph.glob("__manifest/_versions/*.manifest")))
    planted = [
        b"0 00000000 %d ../../../../../../../../../../../../dev/zero",  # never comes to an end
        b"0 00000000 %d /dev/zero",
        b"0 00000000 %d _versions/../../../../../../../../../../../dev/zero",
        b"1 00000000 %d a\x00b",
        b"1 00000000 %d \xff",
        b"one 00000000 %d data/x",
        b"1 00000000 %d00000000000000000000 data/x",
    ]
    with (graph / "__manifest" / "_checksums.log").open("ab") as log:
        for line in planted:
            body = line % newest
            log.write(b"\n%08x %b\n" % (zlib.crc32(body), body))
    with omnigraph.open(graph, settings=Settings(verify_reads=True)) as opened:
        assert opened.verify(deep=True, history=True).is_sound
        opened.mutate(INSERT)
        opened.cleanup(keep=1, confirm=True)


def test_the_error_names_the_link_and_its_code_is_stable(graph, tmp_path):
    plant(table_of(graph) / "data", tmp_path / "elsewhere" / "data")
    with omnigraph.open(graph) as opened, pytest.raises(LinkInGraph) as caught:
        opened.mutate(INSERT)
    assert caught.value.path == str(table_of(graph) / "data")
    assert caught.value.code == "link_in_graph"


def test_reading_and_the_way_to_the_graph_may_use_links(graph, tmp_path):
    """The address is the caller's own, and reading changes nothing."""
    (tmp_path / "by-another-name").symlink_to(graph)
    with omnigraph.open(tmp_path / "by-another-name") as opened:
        assert opened.mutate(INSERT).affected_nodes == 1
    plant(table_of(graph) / "data", tmp_path / "elsewhere" / "data")
    names = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
    with omnigraph.open(graph, read_only=True) as opened:
        found = [row["p.name"] for row in opened.query(names).rows]
    assert found == ["Ada", "Ben", "Eve", "new"]
