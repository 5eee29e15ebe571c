"""The changes applied to a graph, through its public verbs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import omnigraph
from bench.systems.changes import ITEM, KNOWS, NOTE, PERSON, Change, Row
from omnigraph.graph.graph import Graph
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.objects import ObjectStore, open_store

SCHEMA = """
node Note { text: String  number: I64 }
node Item { slug: String @key  amount: I64 }
node Person { name: String @key  born: I64 }
edge Knows: Person -> Person { since: I64 }
"""

_MEMBERS = {NOTE: ("text", "number"), ITEM: ("slug", "amount"), PERSON: ("name", "born")}

MUTATIONS = {
    "insert": """query change($key: String, $value: I64) {
        insert Note { text: $key, number: $value }
    }""",
    "upsert": """query change($key: String, $value: I64) {
        insert Item { slug: $key, amount: $value }
    }""",
    "node and edge": """query change($key: String, $value: I64, $other: String) {
        insert Person { name: $key, born: $value }
        insert Knows { from: $key, to: $other, since: $value }
    }""",
    "update": """query change($key: String, $value: I64) {
        update Item set { amount: $value } where slug = $key
    }""",
    "delete": "query change($key: String) { delete Item where slug = $key }",
}


class SmallGraph:
    """A graph of the schema above, or of one that has some of its types, on one branch."""

    def __init__(self, graph: Graph, branch: str = "main") -> None:
        self.graph, self.branch = graph, branch

    @classmethod
    def create(cls, path: Path, rows: Sequence[Row], schema: str = SCHEMA) -> SmallGraph:
        graph = omnigraph.init(path, schema, actor="bench")
        if rows:
            graph.load([_record(row) for row in rows], "append")
        return cls(graph)

    @classmethod
    def open(cls, path: Path) -> SmallGraph:
        return cls(omnigraph.open(path, actor="bench"))

    def apply(self, change: Change) -> None:
        self.graph.mutate(
            MUTATIONS[change.kind], params=make_parameters(change), branch=self.branch
        )

    def rows(self) -> Iterable[Row]:
        return (make_row(record) for record in self.graph.export(branch=self.branch))


class CountingStore:
    """Proxy of a store that counts its calls by name."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner, self._lock = inner, threading.Lock()
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> object:
        member = getattr(self._inner, name)
        if callable(member) and name != "uri_of":
            with self._lock:
                self.calls[name] += 1
        return member


def counted(path: Path) -> tuple[SmallGraph, CountingStore]:
    """The graph at `path` again, with the calls to its control objects counted."""
    store = CountingStore(open_store(str(path)))
    return SmallGraph(Graph(GraphRoot(cast("ObjectStore", store)), actor="bench")), store


def make_parameters(change: Change) -> dict[str, object]:
    if change.drops:
        return {"key": change.drops[0].key}
    first = change.puts[0]
    given: dict[str, object] = {"key": first.key, "value": first.value}
    if change.kind == "node and edge":
        given["other"] = change.puts[1].ends[1]
    return given


def _record(row: Row) -> Mapping[str, object]:
    if row.table == KNOWS:
        source, target = row.ends
        return {"edge": KNOWS, "from": source, "to": target, "data": {"since": row.value}}
    key, value = _MEMBERS[row.table]
    return {"type": row.table, "data": {key: row.key, value: row.value}}


def make_row(record: Mapping[str, object]) -> Row:
    data = record["data"]
    assert isinstance(data, dict)
    if "edge" in record:
        return Row(KNOWS, f"{record['from']}>{record['to']}", data["since"])
    name = str(record["type"])
    key, value = _MEMBERS[name]
    return Row(name, data[key], data[value])
