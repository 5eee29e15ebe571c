"""Which types an operation reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.identity import EntityKind
from omnigraph.plan.nodes import Fact, Pattern

_KIND_ORDER = {str(EntityKind.NODE): 0, str(EntityKind.EDGE): 1}


def sort_facts(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Each fact once: nodes before edges, then by name."""
    return tuple(sorted(set(facts), key=lambda f: (_KIND_ORDER[f.kind], f.type_name)))


def make_fact(type_: NodeType | EdgeType) -> Fact:
    return Fact(str(type_.kind), type_.name)


def make_node_fact(type_name: str) -> Fact:
    return Fact(str(EntityKind.NODE), type_name)


def list_edge_facts(edge: EdgeType) -> Iterator[Fact]:
    """An edge type and the node types at its ends."""
    yield make_fact(edge)
    yield make_node_fact(edge.from_type)
    yield make_node_fact(edge.to_type)


def list_pattern_facts(pattern: Pattern, catalog: Catalog) -> tuple[Fact, ...]:
    """Every bound node type, every traversed edge type and its ends, in nested blocks too."""
    return sort_facts(_read_by(pattern, catalog))


def _read_by(pattern: Pattern, catalog: Catalog) -> Iterator[Fact]:
    for node in pattern.nodes:
        yield from (make_node_fact(type_name) for type_name in node.types)
    for edge in pattern.edges:
        for step in edge.steps:
            yield from list_edge_facts(catalog.edges[step.edge_type])
    for nested in (*pattern.negations, *pattern.optionals):
        yield from _read_by(nested, catalog)
