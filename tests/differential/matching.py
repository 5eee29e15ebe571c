"""Patterns by brute force: every traversal is walked exactly as the language describes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from differential.data import Edge, EdgeRef, GraphData, NodeRef, Value
from differential.model_evaluation import Evaluator
from omnigraph.catalog.catalog import Catalog
from omnigraph.plan.plan_nodes import Direction, EdgeStep, Pattern, PatternEdge, PatternNode

Row = Mapping[str, Value]

_BACKWARDS = {
    Direction.OUT: Direction.IN,
    Direction.IN: Direction.OUT,
    Direction.BOTH: Direction.BOTH,
}


class TooManyRows(Exception):
    """The pattern has more rows than a naive interpreter should hold."""


@dataclass
class Matcher:
    data: GraphData
    catalog: Catalog
    evaluator: Evaluator
    most_rows: int = 1_000_000

    def rows(self, pattern: Pattern, around: Row) -> list[Row]:
        """Every way to fit the pattern, given the variables around it.

        First nodes and edges, then optional parts one after another, then what must hold for the
        whole row, then what must not be there.
        """
        rows = [*self._fit(pattern, around)]
        for optional in pattern.optionals:
            rows = [wider for row in rows for wider in self._with_optional(optional, row)]
            self._count(rows)
        rows = [r for r in rows if all(self.evaluator.holds(f, r) for f in pattern.filters)]
        for negation in pattern.negations:
            rows = [row for row in rows if not self.rows(negation, row)]
        return rows

    def _count(self, rows: list[Row]) -> None:
        if len(rows) > self.most_rows:
            raise TooManyRows

    def _with_optional(self, optional: Pattern, row: Row) -> list[Row]:
        found = self.rows(optional, row)
        return found or [{**dict.fromkeys(introduced_by(optional)), **row}]

    # --- nodes and edges --------------------------------------------------------------------------

    def _fit(self, pattern: Pattern, around: Row) -> list[Row]:
        nodes = {node.variable: node for node in pattern.nodes}
        rows: list[Row] = [around]
        for step in taken_as_written(pattern):
            if isinstance(step, PatternNode):
                rows = [wider for row in rows for wider in self.scan(step, row)]
            else:
                edge, origin = step
                rows = [wider for row in rows for wider in self.walk(edge, origin, nodes, row)]
            self._count(rows)
        return rows

    def scan(self, node: PatternNode, row: Row) -> Iterator[Row]:
        for type_name in node.types:
            for node_id in self.data.nodes[type_name]:
                yield from self._bound(node, NodeRef(type_name, node_id), row)

    def _bound(self, node: PatternNode, ref: NodeRef, row: Row) -> Iterator[Row]:
        wider = {**row, node.variable: ref}
        if ref.type in node.types and all(self.evaluator.holds(f, wider) for f in node.filters):
            yield wider

    def walk(
        self, edge: PatternEdge, origin: str, nodes: Mapping[str, PatternNode], row: Row
    ) -> Iterator[Row]:
        """The rows a traversal makes of one, walked from `origin` to its other end."""
        start, other = row[origin], edge.target if origin == edge.source else edge.source
        if start is None:
            return
        assert isinstance(start, NodeRef)
        steps = edge.steps if origin == edge.source else [_reversed(s) for s in edge.steps]
        for found, extras in self._destinations(start, edge, steps):
            wider = {**row, **extras}
            if not all(self.evaluator.holds(f, wider) for f in edge.edge_filters):
                continue
            if other in row:
                if row[other] == found:
                    yield wider
            else:
                yield from self._bound(nodes[other], found, wider)

    def _destinations(
        self, start: NodeRef, edge: PatternEdge, steps: list[EdgeStep] | tuple[EdgeStep, ...]
    ) -> Iterator[tuple[NodeRef, Row]]:
        if edge.edge_variable is not None:
            for ref, found in self._edges_at(start, steps):
                yield found, {edge.edge_variable: ref}
            return
        for found, hops in self.reached(start, steps, edge.minimum, edge.maximum).items():
            yield found, {} if edge.hop_variable is None else {edge.hop_variable: hops}

    def reached(
        self,
        source: NodeRef,
        steps: list[EdgeStep] | tuple[EdgeStep, ...],
        minimum: int,
        maximum: int,
    ) -> dict[NodeRef, int]:
        """The destinations of a bounded traversal, each with the hop that found it.

        The start counts as visited, so no cycle leads back to it; an edge from a node to itself
        gives that node, one hop further on, and is not followed again.
        """
        same_type = all(self.catalog.edges[step.edge_type].same_ends for step in steps)
        visited = {source} if same_type else set()
        frontier, out = [source], {}
        for hop in range(1, (maximum if same_type else 1) + 1):
            following = []
            for node in frontier:
                for neighbour in self._neighbours(node, steps):
                    if same_type and neighbour == node:
                        if hop >= minimum:
                            out.setdefault(neighbour, hop)
                        continue
                    if not same_type or neighbour not in visited:
                        visited.add(neighbour)
                        following.append(neighbour)
                        if hop >= minimum:
                            out.setdefault(neighbour, hop)
            frontier = following
        return out

    def _neighbours(
        self, node: NodeRef, steps: list[EdgeStep] | tuple[EdgeStep, ...]
    ) -> Iterator[NodeRef]:
        for _, found in self._edges_at(node, steps):
            yield found

    def _edges_at(
        self, node: NodeRef, steps: list[EdgeStep] | tuple[EdgeStep, ...]
    ) -> Iterator[tuple[EdgeRef, NodeRef]]:
        """Each edge that leads away from a node, once, and where it leads."""
        for step in steps:
            edge_type = self.catalog.edges[step.edge_type]
            for edge in self.data.edges[step.edge_type]:
                ref = EdgeRef(step.edge_type, edge.id)
                source, target = _ends(edge, edge_type.from_type, edge_type.to_type)
                if step.direction is not Direction.IN and source == node:
                    yield ref, target
                elif step.direction is not Direction.OUT and target == node:
                    yield ref, source


def _ends(edge: Edge, from_type: str, to_type: str) -> tuple[NodeRef, NodeRef]:
    return NodeRef(from_type, edge.source), NodeRef(to_type, edge.target)


def _reversed(step: EdgeStep) -> EdgeStep:
    return EdgeStep(step.edge_type, _BACKWARDS[step.direction])


def introduced_by(pattern: Pattern) -> set[str]:
    """The variables an optional part adds to a row."""
    names = {node.variable for node in pattern.nodes}
    for edge in pattern.edges:
        names |= {name for name in (edge.edge_variable, edge.hop_variable) if name is not None}
    for optional in pattern.optionals:
        names |= introduced_by(optional)
    return names


def taken_as_written(pattern: Pattern) -> list[PatternNode | tuple[PatternEdge, str]]:
    """Scans and walks, each walk with the end it starts from.

    The first written traversal with a known end comes next, walked from its source if that end is
    known. When there is none, another part of the pattern begins: at the first binding there, or
    without one at the source of its first traversal.
    """
    known = set(pattern.outer)
    waiting = list(pattern.edges)
    nodes = {node.variable: node for node in pattern.nodes}
    steps: list[PatternNode | tuple[PatternEdge, str]] = []
    while True:
        ready = next((e for e in waiting if e.source in known or e.target in known), None)
        if ready is not None:
            waiting.remove(ready)
            steps.append((ready, ready.source if ready.source in known else ready.target))
            known |= {ready.source, ready.target}
            continue
        bindings = [n.variable for n in pattern.nodes if n.declared and n.variable not in known]
        beginning = next(iter(bindings or [edge.source for edge in waiting]), None)
        if beginning is None:
            return steps
        known.add(beginning)
        steps.append(nodes[beginning])
