"""A proposal for a graph that has a schema already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import BadRequest, TypeNotFound
from omnigraph.interchange.schema_proposal import (
    ProposedEdge,
    ProposedNode,
    ProposedProperty,
    SchemaProposal,
)
from omnigraph.types.problems import describe_closest

TypeT = TypeVar("TypeT", NodeType, EdgeType)


def fit_proposal(proposal: SchemaProposal, catalog: Catalog) -> SchemaProposal:
    """The proposal with the types that the properties have in the graph.

    Raises:
        TypeNotFound: the graph has no type of that name.
        BadRequest: a type has no such property, or an edge type other ends.
    """
    nodes = tuple(
        replace(one, properties=_fit_properties(one, _find_type(one.name, "node", catalog.nodes)))
        for one in proposal.nodes
    )
    edges = []
    for edge in proposal.edges:
        type_ = _find_type(edge.name, "edge", catalog.edges)
        if (type_.from_type, type_.to_type) != (edge.source, edge.target):
            raise BadRequest(
                f"edges of {edge.name} go from {edge.source} to {edge.target} here, and from "
                f"{type_.from_type} to {type_.to_type} in the graph"
            )
        edges.append(replace(edge, properties=_fit_properties(edge, type_)))
    return replace(proposal, nodes=nodes, edges=tuple(edges))


def _find_type(name: str, kind: str, known: Mapping[str, TypeT]) -> TypeT:
    if name not in known:
        raise TypeNotFound(
            name, f"the graph has no {kind} type '{name}'{describe_closest(name, frozenset(known))}"
        )
    return known[name]


def _fit_properties(
    proposed: ProposedNode | ProposedEdge, type_: NodeType | EdgeType
) -> tuple[ProposedProperty, ...]:
    known = {one.name: one.type for one in type_.properties}
    for one in proposed.properties:
        if one.name not in known:
            raise BadRequest(
                f"{proposed.tables[0].origin}: column '{one.column}' is not a property of "
                f"{type_.name}{describe_closest(one.name, frozenset(known))}"
            )
    return tuple(replace(one, type=known[one.name]) for one in proposed.properties)
