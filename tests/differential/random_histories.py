"""Ways for a graph to come to have its contents: at once, in parts, or after changes.

What a table looks like inside depends on how it was written: several pieces, rows that were
replaced or deleted. None of it may matter to a read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random

import omnigraph
from differential.generate import GraphCase
from differential.random_contents import Record, make_value
from omnigraph.catalog.catalog import NodeType
from omnigraph.graph.graph import Graph

NOISE = {"key": {"String": "noise", "I64": 77, "Date": "1999-01-01"}, "part": "noise", "number": 9}
WAYS = 3


def write(case: GraphCase, place: Path) -> None:
    """Make the graph, in one of a few ways that its seed decides."""
    graph = omnigraph.init(place, case.schema)
    match case.seed % WAYS:
        case 0:
            _load(graph, case.records, "append")
        case 1:
            _load(graph, (r for r in case.records if "type" in r), "append")
            edges = [r for r in case.records if "edge" in r]
            for part in (edges[::2], edges[1::2]):
                _load(graph, part, "append")
        case _:
            _with_changes(graph, case)


def _load(graph: Graph, records: Iterable[Record], mode: str) -> None:
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    graph.load("".join(lines).encode(), mode)


def _with_changes(graph: Graph, case: GraphCase) -> None:
    """Other values and other nodes first; then the right values, and the others deleted."""
    random = Random(f"history {case.seed}")
    noise = [_noise(node, random) for node in case.catalog.nodes.values()]
    half = case.records[::2]
    outdated = [_outdated(record, case, random) for record in half if "type" in record]
    _load(graph, [*outdated, *noise], "append")
    _load(graph, case.records, "merge")
    deletions = "  ".join(f'delete {r["type"]} where name = "noise"' for r in noise)
    graph.mutate(f"query clean() {{ {deletions} }}")


def _noise(node: NodeType, random: Random) -> Record:
    """A node that will be deleted."""
    data: Record = {p.name: make_value(p.name, p.type, random) for p in node.properties}
    data["name"] = "noise"
    for member in node.key:
        value = NOISE[member.name]
        data[member.name] = value[str(member.type.scalar)] if isinstance(value, dict) else value
    if not node.key:
        data["id"] = "noise"
    return {"type": node.name, "data": data}


def _outdated(record: Record, case: GraphCase, random: Random) -> Record:
    """Return the node with other values."""
    node, data = case.catalog.nodes[str(record["type"])], record["data"]
    assert isinstance(data, dict)
    key = {p.name for p in node.key}
    others = {
        p.name: make_value(p.name, p.type, random) for p in node.properties if p.name not in key
    }
    return {"type": node.name, "data": {**data, **others}}
