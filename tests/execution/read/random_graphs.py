"""Small random graphs as real ones, some of their edges without a node at one end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import lance
from hypothesis import strategies as st

from execution.read.naive_traversal import Edge, SmallGraph
from execution.read.query_runner import Reading
from omnigraph.execution.read.read_context import TraversalMethod
from omnigraph.execution.read.table_reader import Topology
from omnigraph.graph.graph import init
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.table import Table, open_newest

SCHEMA = """
node N { key: String @key  age: I32? }
node M { key: String @key }
edge Likes: N -> N { weight: I32? }
edge Knows: N -> N { weight: I32? }
edge Has: N -> M
"""


@st.composite
def small_graphs(draw) -> tuple[SmallGraph, frozenset[str]]:
    """A graph and its deleted nodes that edges still reference."""
    names = [f"n{i}" for i in range(draw(st.integers(1, 6)))]
    ends = st.tuples(st.sampled_from(names), st.sampled_from(names))
    edges = {}
    for prefix, type_name in (("l", "Likes"), ("k", "Knows")):
        pairs = draw(st.lists(ends, max_size=9))
        edges[type_name] = tuple(
            Edge(f"{prefix}{i}", source, target, draw(st.none() | st.integers(0, 3)))
            for i, (source, target) in enumerate(pairs)
        )
    gone = frozenset(draw(st.lists(st.sampled_from(names), max_size=1)))
    return SmallGraph(tuple(n for n in names if n not in gone), edges), gone


class NewestTables(Topology):
    """Open every table at its newest version instead of the pinned one."""

    def table(self, location: TableLocation, version: int) -> Table:
        return super().table(location, open_newest(location).version)


@contextmanager
def opened(graph: SmallGraph, gone: frozenset[str]) -> Iterator[list[Reading]]:
    """The graph stored, with one reading for every way of finding neighbours."""
    with tempfile.TemporaryDirectory() as folder:
        uri = str(Path(folder) / "g.omni")
        stored = init(uri, SCHEMA)
        records: list[dict[str, object]] = [
            {"type": "N", "data": {"key": name, "age": len(name) + int(name[1:])}}
            for name in (*graph.nodes, *gone)
        ]
        for type_name, edges in graph.edges.items():
            for edge in edges:
                data = {"id": edge.id} | ({} if edge.weight is None else {"weight": edge.weight})
                record = {"edge": type_name, "from": edge.source, "to": edge.target, "data": data}
                records.append(record)
        stored.load(records, "append")
        readings = [Reading(uri, traversal) for traversal in TraversalMethod]
        _remove(readings[0], gone)
        for reading in readings:
            reading.given = replace(reading.given, topology=NewestTables())
        yield readings


def _remove(reading: Reading, gone: frozenset[str]) -> None:
    """Delete nodes behind the graph's back, so that their edges dangle."""
    for name in gone:
        table = reading.views.read_newest("main").snapshot.table("node:N")
        lance.dataset(table.location.native_uri).delete(f"id = '{name}'")
