"""Which types an operation reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.identity import EntityKind
from omnigraph.plan.nodes import Fact, Pattern

_KIND_ORDER = {str(EntityKind.NODE): 0, str(EntityKind.EDGE): 1}


def sorted_facts(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Each fact once: nodes before edges, then by name."""
    return tuple(sorted(set(facts), key=lambda f: (_KIND_ORDER[f.kind], f.type_name)))


def fact_of(type_: NodeType | EdgeType) -> Fact:
    return Fact(str(type_.kind), type_.name)


def node_fact(type_name: str) -> Fact:
    return Fact(str(EntityKind.NODE), type_name)


def facts_of_edge(edge: EdgeType) -> Iterator[Fact]:
    """An edge type and the node types at its ends."""
    yield fact_of(edge)
    yield node_fact(edge.from_type)
    yield node_fact(edge.to_type)


def facts_of_pattern(pattern: Pattern, catalog: Catalog) -> tuple[Fact, ...]:
    """Every bound node type, every traversed edge type and its ends, in nested blocks too."""
    return sorted_facts(_read_by(pattern, catalog))


def _read_by(pattern: Pattern, catalog: Catalog) -> Iterator[Fact]:
    for node in pattern.nodes:
        yield from (node_fact(type_name) for type_name in node.types)
    for edge in pattern.edges:
        for step in edge.steps:
            yield from facts_of_edge(catalog.edges[step.edge_type])
    for nested in (*pattern.negations, *pattern.optionals):
        yield from _read_by(nested, catalog)
