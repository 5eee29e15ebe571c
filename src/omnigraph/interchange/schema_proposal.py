"""A schema proposed for data: types, the source of their rows, guesses; and its fit to a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath
from typing import TypeVar

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import BadRequest, TypeNotFound
from omnigraph.interchange.source_tables import SourceTable
from omnigraph.types.property import PropertyType
from omnigraph.types.row_problems import describe_closest


@dataclass(frozen=True, slots=True)
class ProposedProperty:
    """A property, and the column its values are in."""

    name: str
    type: PropertyType
    column: str
    comment: str | None = None
    is_key: bool = False

    def render(self) -> str:
        notes = [] if self.column == self.name else [f'column "{_one_line(self.column)}"']
        notes += [self.comment] if self.comment else []
        key = " @key" if self.is_key else ""
        shown = f"  // {'; '.join(notes)}" if notes else ""
        return f"  {self.name}: {self.type}{key}{shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedNode:
    """A node type and its tables."""

    name: str
    tables: tuple[SourceTable, ...]
    rows: int
    properties: tuple[ProposedProperty, ...]
    id_column: str | None = None
    """The column that holds the id, where it is not made from a key."""
    comments: tuple[str, ...] = ()
    ids: pa.Array = field(repr=False, compare=False)
    """All ids, by which the ends of edges are found."""
    group: str | None = None

    def render(self) -> str:
        return _render(f"node {self.name}", self.properties, self._describe(), empty=" {}")

    def _describe(self) -> list[str]:
        comments = [f"{_name_origins(self.tables)}, {_count(self.rows)}"]
        if self.id_column is not None and not self.id_column.startswith(":"):
            comments.append(f'id: column "{_one_line(self.id_column)}"')
        return comments + list(self.comments)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedEdge:
    """An edge type, its tables, and how its rows are found in them."""

    name: str
    tables: tuple[SourceTable, ...]
    rows: int
    source: str
    target: str
    ends: tuple[str, str]
    """The columns of the ends."""
    candidates: tuple[tuple[str, ...], tuple[str, ...]]
    """The node types that each end may be of, in the order in which they are tried."""
    properties: tuple[ProposedProperty, ...] = ()
    id_column: str | None = None
    comments: tuple[str, ...] = ()

    def render(self) -> str:
        heading = f"edge {self.name}: {self.source} -> {self.target}"
        comments = [f"{_name_origins(self.tables)}, {_count(self.rows)}"]
        if not self.ends[0].startswith(":"):
            first, second = map(_one_line, self.ends)
            comments.append(f'from: column "{first}", to: column "{second}"')
        return _render(heading, self.properties, comments + list(self.comments), empty="")


@dataclass(frozen=True)
class SchemaProposal:
    """Result of `infer_schema`: the text of a schema, and what is uncertain about it.

    `print(proposal)` shows the text; `omnigraph.init(uri, proposal.source)` uses it as it is.
    """

    nodes: tuple[ProposedNode, ...]
    edges: tuple[ProposedEdge, ...]
    lost: tuple[str, ...] = ()
    """Data that cannot be imported."""

    @cached_property
    def source(self) -> str:
        """The schema, with comments where something was guessed."""
        heads = ["// Proposed from data. Lines that say `guess` are worth a look."]
        heads += [f"// Not carried over: {_one_line(one)}" for one in self.lost]
        nodes, edges = [one.render() for one in self.nodes], [one.render() for one in self.edges]
        parts = ["\n".join(heads), *nodes, *edges]
        return "\n\n".join(parts) + "\n"

    @property
    def guesses(self) -> tuple[str, ...]:
        """The lines of the schema that were guessed."""
        return tuple(line.strip() for line in self.source.splitlines()[1:] if "guess:" in line)

    def __str__(self) -> str:
        return self.source

    def wire(self) -> dict[str, object]:
        return {
            "schema_source": self.source,
            "nodes": [{"name": one.name, "rows": one.rows} for one in self.nodes],
            "edges": [
                {"name": one.name, "from": one.source, "to": one.target, "rows": one.rows}
                for one in self.edges
            ],
            "guesses": list(self.guesses),
            "lost": list(self.lost),
        }


def _render(
    heading: str, properties: tuple[ProposedProperty, ...], comments: list[str], *, empty: str
) -> str:
    lines = [f"// {_one_line(one)}" for one in comments]
    if not properties:
        return "\n".join([*lines, heading + empty])
    return "\n".join([*lines, f"{heading} {{", *(one.render() for one in properties), "}"])


def _name_origins(tables: tuple[SourceTable, ...]) -> str:
    names = list(dict.fromkeys(PurePath(one.origin).name for one in tables))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


def _one_line(text: str) -> str:
    return " ".join(text.split())


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
