"""Blobs: read whole or by range from any view, through the library and the command."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph
from commands.quick_command import quick_command
from omnigraph.errors import (
    BadRequest,
    BlobIntegrity,
    BlobIsNull,
    BlobRangeNotSatisfiable,
    CompileError,
    EntityNotFound,
    ExternalBlobSource,
)
from omnigraph.graph.blobs import Blob, BlobSelector, describe_blob

SCHEMA = """\
node Page { slug: String @key  body: Blob?  note: String? }
edge Cites: Page -> Page { scan: Blob? }
"""
SMALL, LARGE = b"hello blob", bytes(range(256)) * 40_000  # the large one has a file of its own


def b64(data: bytes) -> str:
    return "base64:" + base64.b64encode(data).decode()


def page(slug: str, body: bytes | None, **data: object) -> dict:
    return {"type": "Page", "data": {"slug": slug, "body": body and b64(body), **data}}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    graph = omnigraph.init(tmp_path / "pages.omni", SCHEMA)
    records = [
        page("small", SMALL),
        page("large", LARGE),
        page("null", None),
        {"type": "Page", "data": {"slug": "empty", "body": "base64:"}},
        {"edge": "Cites", "from": "small", "to": "large", "data": {"id": "c1", "scan": b64(b"on")}},
    ]
    graph.load(records, "append")
    return tmp_path / "pages.omni"


@pytest.fixture
def graph(place: Path) -> omnigraph.Graph:
    return omnigraph.open(place)


@pytest.fixture
def command(place: Path):
    def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            quick_command("blob", *arguments),
            capture_output=True,
            env={**os.environ, "OMNIGRAPH_HOME": str(place.parent)},
            check=False,
            timeout=600,
        )

    return run


@pytest.mark.parametrize(
    ("entity", "expected"), [("small", SMALL), ("large", LARGE), ("empty", b"")]
)
def test_a_blob_is_read_whole(graph, entity: str, expected: bytes) -> None:
    blob = graph.read_blob("Page", entity, "body")
    assert (blob.size, len(blob), blob.content_range) == (len(expected), len(expected), None)
    assert blob.read() == bytes(blob) == b"".join(blob.chunks(1000)) == expected


def test_the_blob_of_an_edge_is_read_by_its_id(graph) -> None:
    assert graph.read_blob("Cites", "c1", "scan", kind="edge").read() == b"on"


@pytest.mark.parametrize(
    ("start", "length", "expected", "content_range"),
    [
        (0, 5, SMALL[:5], "bytes 0-4/10"),
        (6, None, SMALL[6:], "bytes 6-9/10"),
        (None, 3, SMALL[:3], "bytes 0-2/10"),
        (6, 1000, SMALL[6:], "bytes 6-9/10"),
        (9, 1, SMALL[9:], "bytes 9-9/10"),
        (0, 1000, SMALL, None),
    ],
)
def test_a_range_is_cut_at_the_end(graph, start, length, expected, content_range) -> None:
    blob = graph.read_blob("Page", "small", "body", start=start, length=length)
    assert (blob.read(), blob.content_range, blob.size) == (expected, content_range, 10)


@pytest.mark.parametrize(("entity", "start"), [("small", 10), ("small", 99), ("empty", 1)])
def test_a_range_behind_the_end_is_refused(graph, entity: str, start: int) -> None:
    with pytest.raises(BlobRangeNotSatisfiable) as refused:
        graph.read_blob("Page", entity, "body", start=start, length=1)
    assert refused.value.wire()["blob_range"]["start"] == start


def test_an_empty_blob_from_its_start_is_no_bytes(graph) -> None:
    assert graph.read_blob("Page", "empty", "body", start=0, length=5).read() == b""


@pytest.mark.parametrize(
    ("start", "length"), [(0, 0), (-1, 1), (0, -1), (1 << 63, 1), (5, 1 << 63)]
)
def test_an_invalid_range_is_refused_before_any_lookup(graph, start, length) -> None:
    with pytest.raises(BadRequest, match="range"):
        graph.read_blob("Nothing", "nobody", "nowhere", start=start, length=length)


@pytest.mark.parametrize(
    ("cell", "error", "words"),
    [
        (("Page", "nobody", "body"), EntityNotFound, "nobody"),
        (("Page", "null", "body"), BlobIsNull, "has no body"),
        (("Page", "small", "nothing"), BadRequest, "no property 'nothing'"),
        (("Page", "small", "note"), BadRequest, "not a Blob"),
        (("Nothing", "small", "body"), BadRequest, "no such type 'Nothing'"),
    ],
)
def test_an_unreadable_blob_is_named(graph, cell, error, words: str) -> None:
    with pytest.raises(error, match=words):
        graph.read_blob(*cell)


def test_the_kind_must_fit(graph) -> None:
    with pytest.raises(BadRequest, match="no such edge type 'Page'"):
        graph.read_blob("Page", "small", "body", kind="edge")
    with pytest.raises(BadRequest, match="a node or an edge"):
        graph.read_blob("Page", "small", "body", kind="table")


def test_a_blob_is_never_a_value_of_a_query(graph) -> None:
    with pytest.raises(CompileError, match="Blob"):
        graph.query("query q() { match { $p: Page } return { $p.body } }")


def test_a_blob_opens_as_a_file(graph) -> None:
    with graph.read_blob("Page", "large", "body", start=100, length=5000).open() as file:
        assert file.read(10) == LARGE[100:110]
        assert file.seek(-10, io.SEEK_END) == 4990
        assert file.read() == LARGE[5090:5100]
        assert file.read() == b""
        file.seek(0)
        assert file.read() == LARGE[100:5100]


def test_reading_piece_by_piece_does_not_hold_the_whole_value(graph) -> None:
    blob = graph.read_blob("Page", "large", "body")
    tracemalloc.start()
    try:
        total = sum(len(piece) for piece in blob.chunks(1 << 16))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == len(LARGE)
    assert peak < len(LARGE) / 4


def test_the_etag_changes_with_every_write_to_the_table_and_only_then(graph) -> None:
    first = graph.read_blob("Page", "small", "body")
    assert first.etag == graph.read_blob("Page", "small", "body").etag
    assert first.etag != graph.read_blob("Page", "large", "body").etag
    assert first.etag.startswith('"')
    graph.load([page("other", b"x")], "append")
    assert graph.read_blob("Page", "small", "body").etag != first.etag


def test_a_blob_stays_what_it_was_while_others_write(graph) -> None:
    blob = graph.read_blob("Page", "small", "body")
    graph.load([page("small", b"changed")], "merge")
    assert blob.read() == SMALL
    assert graph.read_blob("Page", "small", "body").read() == b"changed"


def test_blobs_of_branches_and_of_the_past(graph) -> None:
    before = graph.commits()[0].commit_id
    graph.create_branch("review")
    graph.branch("review").load([page("small", b"on review")], "merge")
    assert graph.branch("review").read_blob("Page", "small", "body").read() == b"on review"
    assert graph.read_blob("Page", "small", "body", branch="review").read() == b"on review"
    assert graph.read_blob("Page", "small", "body").read() == SMALL
    graph.mutate('query q() { delete Page where slug = "empty" }')
    with pytest.raises(EntityNotFound):
        graph.read_blob("Page", "empty", "body")
    assert graph.at(commit=before).read_blob("Page", "empty", "body").read() == b""


def test_blobs_survive_changes_of_their_neighbours(graph) -> None:
    for number in range(3):
        graph.mutate(f'query q() {{ update Page set {{ note: "{number}" }} where slug = "large" }}')
    assert graph.read_blob("Page", "large", "body").read() == LARGE


def test_blobs_survive_compaction_on_branches_too(graph) -> None:
    for number in range(4):
        graph.load([page(f"more-{number}", b"m%d" % number)], "append")
    graph.create_branch("review")
    before = graph.at(commit=graph.commits()[0].commit_id)
    graph.branch("review").load([page("small", b"on review"), page("own", SMALL)], "merge")
    graph.optimize()
    graph.optimize(branch="review")
    for branch, small in (("main", SMALL), ("review", b"on review")):
        found = graph.at(branch=branch)
        assert found.read_blob("Page", "small", "body").read() == small
        assert found.read_blob("Page", "large", "body").read() == LARGE
        assert found.read_blob("Page", "empty", "body").read() == b""
        assert found.read_blob("Page", "more-3", "body").read() == b"m3"
        with pytest.raises(BlobIsNull):
            found.read_blob("Page", "null", "body")
    assert before.read_blob("Page", "large", "body").read() == LARGE


def test_the_stat_names_the_cell(graph) -> None:
    stat = graph.read_blob("Page", "small", "body").stat
    assert stat.wire() == {
        "entity_kind": "node",
        "type_name": "Page",
        "entity_id": "small",
        "property": "body",
        "storage": "managed",
        "size": 10,
        "etag": stat.etag,
        "uri": None,
        "snapshot_id": graph.commits()[0].commit_id,
    }


def described(graph, **facts: object):
    view = graph.at()._view
    descriptor = {"kind": 3, "position": 0, "size": 0, "blob_uri": "s3://b/k", **facts}
    selector = BlobSelector("Page", "small", "body")
    return describe_blob(view, view.catalog.nodes["Page"], selector, descriptor, '"tag"'), view


def test_bytes_stored_elsewhere_are_named_and_never_fetched(graph) -> None:
    stat, view = described(graph)
    assert (stat.storage, stat.uri, stat.size, stat.etag) == ("external", "s3://b/k", None, None)
    blob = Blob(stat, view.snapshot.table("node:Page"), 0, None)
    for read in (blob.read, blob.open, lambda: len(blob), lambda: list(blob.chunks())):
        with pytest.raises(ExternalBlobSource, match="never fetched"):
            read()


def test_a_part_of_something_elsewhere_is_damage(graph) -> None:
    with pytest.raises(BlobIntegrity, match="a part of"):
        described(graph, position=10, size=5)


def test_threads_read_one_blob_at_once(graph) -> None:
    blob, found = graph.read_blob("Page", "large", "body"), []
    threads = [threading.Thread(target=lambda: found.append(blob.read())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [LARGE] * 4


@given(st.integers(0, 12), st.integers(1, 12), st.integers(1, 5))
def test_any_range_in_any_pieces_is_the_slice(tmp_path_factory, start, length, piece) -> None:
    graph = _shared(tmp_path_factory)
    if start >= len(SMALL):
        with pytest.raises(BlobRangeNotSatisfiable):
            graph.read_blob("Page", "small", "body", start=start, length=length)
        return
    blob = graph.read_blob("Page", "small", "body", start=start, length=length)
    assert b"".join(blob.chunks(piece)) == SMALL[start : start + length]


_SHARED: list[omnigraph.Graph] = []


def _shared(factory) -> omnigraph.Graph:
    if not _SHARED:
        graph = omnigraph.init(factory.mktemp("shared") / "g.omni", SCHEMA)
        graph.load([page("small", SMALL)], "append")
        _SHARED.append(graph)
    return _SHARED[0]


# --- the command ---------------------------------------------------------------------------------


def test_the_command_writes_the_bytes_and_nothing_else(command, place: Path) -> None:
    done = command("get", "node", "Page", "large", "body", str(place))
    assert (done.returncode, done.stdout, done.stderr) == (0, LARGE, b"")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--offset", "6"), SMALL[6:]),
        (("--offset", "2", "--length", "3"), SMALL[2:5]),
        (("--length", "3"), SMALL[:3]),
        (("--range", "2-4"), SMALL[2:5]),
        (("--range", "6-"), SMALL[6:]),
        (("--range=-4",), SMALL[-4:]),
        (("--range=-400",), SMALL),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_the_command_reads_ranges(command, place: Path, flags, expected: bytes) -> None:
    done = command("get", "node", "Page", "small", "body", "--store", str(place), *flags)
    assert (done.returncode, done.stdout) == (0, expected)


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--offset", "10"), 1),
        (("--length", "0"), 2),
        (("--range", "4-2"), 2),
        (("--range", "x"), 2),
        (("--range", "1-2", "--offset", "1"), 2),
        (("--branch", "a", "--snapshot", "b"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_the_command_refuses_bad_ranges(command, place: Path, flags, code: int) -> None:
    done = command("get", "node", "Page", "small", "body", "--store", str(place), *flags)
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.startswith(b"error: ")


def test_a_failure_leaves_the_file_that_was_there(command, place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.bin"
    out.write_bytes(b"before")
    done = command("get", "node", "Page", "large", "body", str(place), "--out", str(out))
    assert (done.returncode, out.read_bytes()) == (1, b"before")
    assert b"exists; give --force to replace it" in done.stderr
    forced = ("--force", "--out", str(out))
    done = command("get", "node", "Page", "null", "body", str(place), *forced)
    assert (done.returncode, out.read_bytes()) == (1, b"before")
    done = command("get", "node", "Page", "large", "body", str(place), *forced)
    assert (done.returncode, done.stdout, out.read_bytes()) == (0, b"", LARGE)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.bin", "pages.omni"]


def test_the_command_reports_what_it_knows(command, place: Path, graph) -> None:
    done = command("stat", "edge", "Cites", "c1", "scan", str(place), "--json")
    body = json.loads(done.stdout)
    assert body == graph.read_blob("Cites", "c1", "scan").stat.wire()
    done = command("stat", "edge", "Cites", "c1", "scan", str(place))
    assert b"size: 2\n" in done.stdout
    done = command("stat", "node", "Page", "null", "body", str(place), "--json")
    assert (done.returncode, json.loads(done.stdout)["kind"]) == (1, "blob_is_null")
