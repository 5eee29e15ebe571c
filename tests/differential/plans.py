"""Plans after the rules, run by brute force: checks that a rule preserves the meaning of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from differential.data import NodeRef
from differential.matching import Matcher, Row, TooManyRows
from omnigraph.plan.plan_nodes import (
    AntiJoin,
    CrossJoin,
    Expand,
    FilterRows,
    Match,
    Node,
    NodeScan,
    OptionalJoin,
    OuterRows,
    PatternEdge,
    PatternNode,
)


@dataclass
class PlanRunner:
    """The rows of the part of a plan below its tail."""

    matcher: Matcher

    def rows(self, node: Node, around: Row) -> list[Row]:
        """The rows of a node, inside a nested block those for one row around it."""
        rows = [*self._rows(node, around)]
        if len(rows) > self.matcher.most_rows:
            raise TooManyRows
        return rows

    def _rows(self, node: Node, around: Row) -> Iterator[Row]:
        match node:
            case Match(pattern):
                yield from self.matcher.rows(pattern, around)
            case OuterRows():
                yield around
            case NodeScan(variable, types, filters):
                wanted = PatternNode(variable, types, filters=filters)
                yield from self.matcher.scan(wanted, around)
            case CrossJoin(left, right):
                for row in self.rows(left, around):
                    yield from ({**row, **other} for other in self.rows(right, around))
            case FilterRows(child, predicate):
                evaluator = self.matcher.evaluator
                yield from (r for r in self.rows(child, around) if evaluator.holds(predicate, r))
            case AntiJoin(child, inner):
                yield from (r for r in self.rows(child, around) if not self.rows(inner, r))
            case OptionalJoin(child, inner, introduces):
                for row in self.rows(child, around):
                    yield from self.rows(inner, row) or [{**dict.fromkeys(introduces), **row}]
            case Expand():
                for row in self.rows(node.child, around):
                    yield from self._expand(node, row)
            case _:
                raise AssertionError(f"{type(node).__name__} makes no rows of a match")

    def _expand(self, expand: Expand, row: Row) -> Iterator[Row]:
        """Walk in the direction of the query, backwards if it requests so."""
        edge = PatternEdge(
            source=expand.source,
            target=expand.target,
            steps=expand.steps,
            minimum=expand.minimum,
            maximum=expand.maximum,
            edge_variable=expand.edge_variable,
            hop_variable=expand.hop_variable,
            edge_filters=expand.edge_filters,
        )
        target = PatternNode(expand.target, expand.target_types, filters=expand.target_filters)
        assert expand.closes == (expand.target in row), "a target is bound before, or by this"
        if not expand.asked_from_target:
            yield from self.matcher.walk(edge, expand.source, {expand.target: target}, row)
        elif expand.closes:
            yield from self.matcher.walk(edge, expand.target, {}, row)
        else:
            for wider in self.matcher.scan(target, row):
                assert isinstance(wider[expand.target], NodeRef)
                yield from self.matcher.walk(edge, expand.target, {}, wider)
