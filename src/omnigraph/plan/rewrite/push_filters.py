"""Move each condition to the one variable it speaks of."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.plan.expressions import Predicate
from omnigraph.plan.nodes import Match, Node, Pattern, PatternEdge, PatternNode
from omnigraph.plan.statistics import Estimator
from omnigraph.plan.walk import has_score, list_conjuncts, list_predicate_variables, map_children


def push_filters(node: Node, estimator: Estimator) -> Node:
    """Give every variable of a pattern the conditions that concern it alone.

        match { $a: Artist  $a made $b  $a.born > 1980 and $b.rating > 7.0 }

    becomes a scan of artists born after 1980 and an expansion to albums rated above 7. A
    condition on several variables, on an outer variable or on a score stays with the pattern.
    """
    if isinstance(node, Match):
        return Match(push_into(node.pattern))
    return map_children(node, lambda child: push_filters(child, estimator))


def push_into(pattern: Pattern) -> Pattern:
    stays: list[Predicate] = []
    moved: dict[str, list[Predicate]] = {}
    own = {n.variable for n in pattern.nodes if n.variable not in pattern.outer}
    own |= {e.edge_variable for e in pattern.edges if e.edge_variable is not None}
    for filter_ in pattern.filters:
        for predicate in list_conjuncts(filter_):
            variables = list_predicate_variables(predicate)
            if len(variables) == 1 and variables <= own and not has_score(predicate):
                moved.setdefault(next(iter(variables)), []).append(predicate)
            else:
                stays.append(predicate)
    return replace(
        pattern,
        nodes=tuple(_add_node_filters(n, moved.get(n.variable, [])) for n in pattern.nodes),
        edges=tuple(_add_edge_filters(e, moved) for e in pattern.edges),
        filters=tuple(stays),
        negations=tuple(push_into(p) for p in pattern.negations),
        optionals=tuple(push_into(p) for p in pattern.optionals),
    )


def _add_node_filters(node: PatternNode, filters: list[Predicate]) -> PatternNode:
    return replace(node, filters=(*node.filters, *filters)) if filters else node


def _add_edge_filters(edge: PatternEdge, moved: dict[str, list[Predicate]]) -> PatternEdge:
    filters = moved.get(edge.edge_variable) if edge.edge_variable is not None else None
    return replace(edge, edge_filters=(*edge.edge_filters, *filters)) if filters else edge
