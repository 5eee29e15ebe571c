"""The memory of searches belongs to each open graph, whichever was opened last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import omnigraph
from omnigraph.execution.search import search_cache, vector_search
from omnigraph.settings import Settings

SCHEMA = """
node Doc {
    slug: String @key
    body: String?
    place: Vector(2)?
}
"""
ROWS = [
    {"type": "Doc", "data": {"slug": f"d{n}", "body": f"fox number {n}", "place": [n, 0]}}
    for n in range(5)
]
TEXT = """
query q() {
    match { $d: Doc  search($d.body, "fox") }
    return { $d.slug }
}
"""
VECTOR = """
query q() {
    match { $d: Doc }
    return { $d.slug }
    order { nearest($d.place, [0.0, 0.0]) }
    limit 5
}
"""


@pytest.fixture
def uris(tmp_path) -> list[str]:
    found = [str(tmp_path / name) for name in ("roomy.omni", "bare.omni")]
    for uri in found:
        with omnigraph.init(uri, SCHEMA) as graph:
            graph.load(ROWS, mode="append")
    return found


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The address of the table of every piece of a column that a search reads."""
    seen: list[str] = []
    for module in (search_cache, vector_search):
        monkeypatch.setattr(module, "read_piece", recording(module.read_piece, seen))
    return seen


def recording(read, seen):
    def recorded(table, *arguments):
        seen.append(table.location.uri)
        return read(table, *arguments)

    return recorded


@contextmanager
def opened(uri: str, mebibytes: int) -> Iterator[omnigraph.Graph]:
    settings = Settings(text_cache_bytes=mebibytes << 20, vector_cache_bytes=mebibytes << 20)
    with omnigraph.open(uri, read_only=True, settings=settings) as graph:
        yield graph


@pytest.mark.parametrize("roomy_is_last", [False, True])
def test_each_of_two_graphs_keeps_what_its_own_settings_allow(uris, reads, roomy_is_last):
    roomy, bare = uris
    order = [(bare, 0), (roomy, 64)] if roomy_is_last else [(roomy, 64), (bare, 0)]
    with opened(*order[0]) as one, opened(*order[1]) as other:
        for graph in (one, other) * 3:
            assert len(graph.query(TEXT).rows) == 5
    assert [sum(uri in read for read in reads) for uri in uris] == [1, 3]


@pytest.mark.parametrize("roomy_is_last", [False, True])
def test_a_vector_column_is_cached_by_the_graph_that_has_room_for_it(uris, reads, roomy_is_last):
    roomy, bare = uris
    order = [(bare, 0), (roomy, 64)] if roomy_is_last else [(roomy, 64), (bare, 0)]
    with opened(*order[0]) as one, opened(*order[1]) as other:
        answers = [graph.query(VECTOR).rows for graph in (one, other) * 3]
    assert all(answer == answers[0] for answer in answers)
    assert [sum(uri in read for read in reads) for uri in uris] == [1, 0]
