"""The library of documents in a graph, searched through the library as a program would search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow.parquet as pq

import omnigraph
from bench.generators.documents import schema_text
from bench.generators.files import write_jsonl
from bench.generators.tables import GraphTables
from bench.systems.retrieval import DOCUMENTS, Find, Search, search_all

_GRAPH = "graph"
# The library imports it when it first needs it, which is no part of opening a graph.
_IMPORTED_BEFORE = lance

_TEXTS = {
    "vector": """query near($vector: Vector(128)) {
        match { $d: Document }
        return { $d.slug as slug }
        order { nearest($d.embedding, $vector) }
        limit 10
    }""",
    "text": """query about($text: String) {
        match { $d: Document }
        return { $d.slug as slug }
        order { bm25($d.body, $text) desc }
        limit 10
    }""",
    "hybrid": """query both($vector: Vector(128), $text: String) {
        match { $d: Document }
        return { $d.slug as slug }
        order { rrf(nearest($d.embedding, $vector), bm25($d.body, $text)) desc }
        limit 10
    }""",
}
_PARAMETERS = {"vector": ("vector",), "text": ("text",), "hybrid": ("vector", "text")}


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """Load the documents as one commit, and build the indices the schema declares."""
    root = Path(spec["root"])
    documents = pq.read_table(Path(spec["inputs"]) / DOCUMENTS)
    library = GraphTables(schema_text(), {"Document": documents}, {}, {"Document": "slug"}, {})
    lines = root / "documents.jsonl"
    write_jsonl(library, lines)
    graph = omnigraph.init(root / _GRAPH, library.schema_text)
    graph.load(lines, "append", engine="local")
    graph.ensure_indices()
    lines.unlink()
    return {}


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """The three kinds of search."""

    def open_it() -> Find:
        graph = omnigraph.open(Path(spec["store"]) / _GRAPH, read_only=True)

        def find(kind: str, search: Search) -> list[str]:
            given = {name: search[name] for name in _PARAMETERS[kind]}
            return [str(row["slug"]) for row in graph.query(_TEXTS[kind], params=given).rows]

        return find

    return search_all(spec, open_it, notes={"indices": _indices(spec)})


def _indices(spec: dict[str, Any]) -> list[str]:
    """The kinds of index the documents have."""
    path = Path(spec["store"]) / _GRAPH
    graph = omnigraph.open(path, read_only=True)
    info = next(one for one in graph.snapshot().tables if one.table_key == "node:Document")
    table = lance.dataset(str(path / info.table_path), version=info.manifest_version)
    return sorted(str(index.index_type) for index in table.describe_indices())
