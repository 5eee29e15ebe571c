"""Make a failing case small: drop whatever can be dropped while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace

from differential.data import read_records
from differential.generate import GraphCase
from omnigraph.language.query import ast
from omnigraph.language.query.parser import parse_query_file
from omnigraph.language.query.printer import print_query
from omnigraph.language.source import SourceText

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
    """Without some records, first many, then one; then without single properties."""
    size = len(graph.records) // 2
    while size:
        for start in range(0, len(graph.records), size):
            yield _with(graph, graph.records[:start] + graph.records[start + size :])
        size //= 2
    for at, record in enumerate(graph.records):
        data = record["data"]
        for name in data:  # type: ignore[attr-defined]
            left = {key: value for key, value in data.items() if key != name}  # type: ignore[attr-defined]
            yield _with(
                graph, (*graph.records[:at], {**record, "data": left}, *graph.records[at + 1 :])
            )


def _with(graph: GraphCase, records: tuple) -> GraphCase:  # type: ignore[type-arg]
    try:
        return replace(graph, records=records, data=read_records(graph.catalog, records))
    except KeyError:
        return graph


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
        case ast.And(items) | ast.Or(items):
            yield from items
            yield from (replace(tree, items=left) for left in _without_a_part(items) if left)
        case ast.Not(item):
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
