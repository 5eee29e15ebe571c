"""A small library for schema changes, and the checks of every test."""

from __future__ import annotations

from pathlib import Path

import omnigraph
from omnigraph import Graph

SCHEMA = """\
node Author { slug: String @key  name: String  born: I32?  city: String? @index }
node Book { slug: String @key  title: String  pages: I32?  price: F32?  genre: enum(novel, poem)? }
edge Wrote: Author -> Book { year: I32? }
"""
AUTHORS = [
    {"type": "Author", "data": {"slug": f"a{n}", "name": f"Name {n}", "born": 1900 + n}}
    for n in range(4)
]
BOOKS = [
    {
        "type": "Book",
        "data": {"slug": f"b{n}", "title": f"Title {n}", "pages": 100 * n, "genre": "novel"},
    }
    for n in range(6)
]
WROTE = [
    {"edge": "Wrote", "from": f"a{n % 3}", "to": f"b{n}", "data": {"year": 1950 + n}}
    for n in range(6)
]
RECORDS = [*AUTHORS, *BOOKS, *WROTE]


def make_library(place: Path) -> Graph:
    graph = omnigraph.init(place, SCHEMA, actor="librarian")
    graph.load(RECORDS, "append")
    return graph


def changed(old: str, new: str, schema: str = SCHEMA) -> str:
    """The schema with one part of its text replaced."""
    assert schema.count(old) == 1, f"{old!r} is there {schema.count(old)} times"
    return schema.replace(old, new)


def values(graph: Graph, type_name: str, name: str, branch: str = "main") -> list[object]:
    """Return the values of one property of the entities of a type, by id."""
    records = [r["data"] for r in graph.export([type_name], branch=branch)]
    return [r[name] for r in sorted(records, key=lambda record: record["id"])]


def files_below(place: Path, folder: str = "") -> dict[str, bytes]:
    """Every file of a graph with its content."""
    root = place / folder
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
