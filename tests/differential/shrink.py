"""Make a failing case small: drop whatever can be dropped while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace

from differential.data import GraphData, read_records
from differential.generate import GraphCase
from differential.random_contents import Record
from omnigraph.catalog.catalog import EntityType
from omnigraph.language import query_ast
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.language.syntax_printer import print_query

Fails = Callable[[GraphCase, str], bool]


def shrink(graph: GraphCase, text: str, fails: Fails) -> tuple[GraphCase, str]:
    """A graph and a query that still fail, none of whose parts can be left out alone."""
    while True:
        smaller_text = next((t for t in _smaller_queries(text) if fails(graph, t)), None)
        if smaller_text is not None:
            text = smaller_text
            continue
        smaller = next((g for g in _smaller_graphs(graph) if fails(g, text)), None)
        if smaller is None:
            return graph, text
        graph = smaller


def _smaller_graphs(graph: GraphCase) -> Iterator[GraphCase]:
    """Without some records, first many, then one; edges go with the nodes at their ends."""
    size = len(graph.records) // 2
    while size:
        for start in range(0, len(graph.records), size):
            left = graph.records[:start] + graph.records[start + size :]
            yield _with(graph, _connected(left, read_records(graph.catalog, left), graph))
        size //= 2
    for at, record in enumerate(graph.records):
        without = {**record, "data": _required(record, graph)}
        if without != record:
            yield _with(graph, (*graph.records[:at], without, *graph.records[at + 1 :]))


def _with(graph: GraphCase, records: tuple[Record, ...]) -> GraphCase:
    return replace(graph, records=records, data=read_records(graph.catalog, records))


def _connected(
    records: tuple[Record, ...], data: GraphData, graph: GraphCase
) -> tuple[Record, ...]:
    """The records without edges that lead nowhere."""

    def has_ends(record: Record) -> bool:
        if "edge" not in record:
            return True
        edge = graph.catalog.edges[str(record["edge"])]
        sources, targets = data.nodes[edge.from_type], data.nodes[edge.to_type]
        return record["from"] in sources and record["to"] in targets

    return tuple(filter(has_ends, records))


def _required(record: Record, graph: GraphCase) -> Record:
    """The values of a record that cannot be left out."""
    catalog = graph.catalog
    is_node = "type" in record
    type_: EntityType
    type_ = catalog.nodes[str(record["type"])] if is_node else catalog.edges[str(record["edge"])]
    data = record["data"]
    assert isinstance(data, dict)
    return {
        name: value
        for name, value in data.items()
        if (found := type_.property(name)) is None or not found.type.nullable
    }


def _smaller_queries(text: str) -> Iterator[str]:
    (decl,) = parse_query_file(SourceText(text, "query.gq")).queries
    for smaller in _without_a_part(decl.body):
        yield print_query(replace(decl, body=smaller))
    for parameters in _without_a_part(decl.parameters):
        yield print_query(replace(decl, parameters=parameters))


def _without_a_part(tree: object) -> Iterator:  # type: ignore[type-arg]
    """The tree with one member of some tuple dropped, or one optional part left out."""
    match tree:
        case tuple():
            for at in range(len(tree)):
                yield tree[:at] + tree[at + 1 :]
            for at, item in enumerate(tree):
                for smaller in _without_a_part(item):
                    yield (*tree[:at], smaller, *tree[at + 1 :])
        case query_ast.And(items) | query_ast.Or(items):
            yield from items
            yield from (replace(tree, items=left) for left in _without_a_part(items) if left)
        case query_ast.Not(item):
            yield item
            yield from (replace(tree, item=smaller) for smaller in _without_a_part(item))
        case _ if is_dataclass(tree):
            for member in fields(tree):
                value = getattr(tree, member.name)
                if member.name.endswith("span"):
                    continue
                if member.name in ("limit", "offset", "hops", "edge_variable", "hop_variable"):
                    choices = [None] if value is not None else []
                elif member.name in ("distinct", "undirected"):
                    choices = [False] if value else []
                else:
                    choices = list(_without_a_part(value))
                yield from (replace(tree, **{member.name: choice}) for choice in choices)  # type: ignore[type-var]
