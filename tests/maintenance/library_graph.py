"""The library graph the maintenance tests look after, and short ways to use and damage it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, TypeVar

import lance

from omnigraph import Graph
from omnigraph.storage.manifest.manifest_state import TableEntry
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.indices import describe_indices
from omnigraph.storage.tables.table import Table, find_latest_version


class Report(Protocol):
    """The maintenance report of one table."""

    @property
    def table_key(self) -> str: ...


OfTable = TypeVar("OfTable", bound=Report)

SCHEMA = """
node Book {
  slug: String @key
  title: String @index
  year: I32? @index
  bought: DateTime? @index
  shelf: enum(low, high)? @index
  feel: Vector(3)? @index
  cover: Blob?
}
node Reader { slug: String @key  name: String }
edge Reads: Reader -> Book { at: Date? @index }
edge Likes: Reader -> Reader
"""

BOOK, READER, READS, LIKES = "node:Book", "node:Reader", "edge:Reads", "edge:Likes"
TABLES = (LIKES, READS, BOOK, READER)


def book(slug: str, **more: object) -> dict[str, object]:
    return {"type": "Book", "data": {"slug": slug, "title": f"The {slug} of time", **more}}


def reader(slug: str) -> dict[str, object]:
    return {"type": "Reader", "data": {"slug": slug, "name": slug.title()}}


def reads(source: str, target: str) -> dict[str, object]:
    return {"edge": "Reads", "from": source, "to": target, "data": {"at": "2020-02-02"}}


def write_a_little(graph: Graph, times: int = 4, *, branch: str = "main", mark: str = "x") -> None:
    """Some small commits to every table but one."""
    for n in range(times):
        rows = [book(f"{mark}{n}", year=1900 + n, shelf="low"), reader(f"r{mark}{n}")]
        graph.load([*rows, reads(f"r{mark}{n}", f"{mark}{n}")], "append", branch=branch)


def run(graph: Graph, statements: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {statements} }}", branch=branch)


def snapshot(graph: Graph, branch: str = "main") -> Snapshot:
    return graph._open.views.read_newest(branch).snapshot


def entry(graph: Graph, key: str, branch: str = "main") -> TableEntry:
    return snapshot(graph, branch).entries[key]


def table(graph: Graph, key: str, branch: str = "main") -> Table:
    return snapshot(graph, branch).table(key)


def fragments(graph: Graph, key: str, branch: str = "main") -> list[int]:
    """Return the number of rows in each fragment of a table."""
    return [fragment.rows for fragment in table(graph, key, branch).fragments()]


def unindexed(graph: Graph, key: str, branch: str = "main") -> dict[str, int]:
    """Return the number of rows each index of a table does not cover, by column."""
    found = describe_indices(table(graph, key, branch))
    return {index.columns[0]: index.unindexed_rows for index in found}


def head(graph: Graph, key: str, branch: str = "main") -> int:
    one = entry(graph, key, branch)
    return find_latest_version(graph._open.views.root.location(one.path, one.owner_branch))


def native(graph: Graph, key: str) -> lance.LanceDataset:
    """The table as a stranger opens it."""
    return lance.dataset(table(graph, key).location.native_uri)


def rows_of(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(str(record) for record in graph.export(branch=branch))


def intents(place: Path) -> list[str]:
    return sorted(path.name for path in (place / "__recovery").glob("*.json"))


def by_key(rows: Iterable[OfTable]) -> dict[str, OfTable]:
    return {row.table_key: row for row in rows}
