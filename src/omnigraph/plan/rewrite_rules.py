"""Optimize a plan: join order, filter pushdown, column pruning and the limit of a ranking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

from omnigraph.catalog.catalog import Catalog
from omnigraph.plan.expressions import Output, Predicate
from omnigraph.plan.plan_nodes import (
    Aggregate,
    AntiJoin,
    CrossJoin,
    Direction,
    EdgeStep,
    Expand,
    FilterRows,
    Match,
    Node,
    NodeScan,
    OptionalJoin,
    OuterRows,
    Pattern,
    PatternEdge,
    PatternNode,
    Project,
    Rank,
    ReadPlan,
    Slice,
    Sort,
)
from omnigraph.plan.statistics import Estimator, Statistics
from omnigraph.plan.walk import (
    has_score,
    list_children,
    list_conjuncts,
    list_operands_of,
    list_predicate_variables,
    list_used_properties,
    map_children,
)

_REVERSED = {
    Direction.OUT: Direction.IN,
    Direction.IN: Direction.OUT,
    Direction.BOTH: Direction.BOTH,
}


def order_clauses(node: Node, estimator: Estimator) -> Node:
    """Replace every pattern by a tree of scans, expansions, filters and joins.

    Each connected part starts at the variable with the fewest rows and continues with the traversal
    that adds the fewest; traversals between two bound variables run as soon as possible, because
    they only remove rows. Unconnected parts are multiplied.
    """
    if isinstance(node, Match):
        return lower_pattern(node.pattern, None, estimator)
    return map_children(node, lambda child: order_clauses(child, estimator))


def lower_pattern(pattern: Pattern, base: Node | None, estimator: Estimator) -> Node:
    """The rows of `pattern`, starting from `base` when it continues the rows around it."""
    builder = _Builder(pattern, estimator)
    tree = builder.build(base)
    introduced = set(pattern.outer) | builder.bound
    for optional in pattern.optionals:
        inner = lower_pattern(optional, OuterRows(tuple(sorted(optional.outer))), estimator)
        fresh = tuple(sorted(list_pattern_variables(optional) - introduced))
        introduced |= set(fresh)
        tree = OptionalJoin(tree, inner, fresh)
    for predicate in pattern.filters:
        tree = FilterRows(tree, predicate)
    for negation in pattern.negations:
        inner = lower_pattern(negation, OuterRows(tuple(sorted(negation.outer))), estimator)
        tree = AntiJoin(tree, inner)
    return tree


def list_pattern_variables(pattern: Pattern) -> set[str]:
    """Every node, edge and hop variable of a pattern, those of optional parts included."""
    found = {n.variable for n in pattern.nodes}
    for edge in pattern.edges:
        names = (edge.source, edge.target, edge.edge_variable, edge.hop_variable)
        found |= {name for name in names if name is not None}
    for optional in pattern.optionals:
        found |= list_pattern_variables(optional)
    return found


@dataclass
class _Builder:
    """Puts a pattern together, one clause after the other."""

    pattern: Pattern
    estimator: Estimator
    bound: set[str] = field(default_factory=set)
    left: list[PatternEdge] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = {n.variable: n for n in self.pattern.nodes}
        self.asked_from = map_query_sources(self.pattern)
        self.left = list(self.pattern.edges)

    def build(self, base: Node | None) -> Node:
        tree = base
        if base is not None:
            self.bound = set(self.pattern.outer)
            tree = self._grow(base)
        while (root := self._choose_next_root()) is not None:
            self.bound.add(root.variable)
            part = self._grow(NodeScan(root.variable, root.types, root.filters))
            tree = part if tree is None else CrossJoin(tree, part)
        assert tree is not None, "a pattern has at least one clause"
        return self._filter_outer(self._close_remaining(tree))

    def _filter_outer(self, tree: Node) -> Node:
        """Apply the conditions on outer variables, which no scan has in scope."""
        for node in self.pattern.nodes:
            if node.variable in self.pattern.outer:
                for predicate in node.filters:
                    tree = FilterRows(tree, predicate)
        return tree

    def _choose_next_root(self) -> PatternNode | None:
        """The cheapest variable to start the next part from; ties go to the first written."""
        waiting = [n for n in self.pattern.nodes if n.variable not in self.bound]
        if not waiting:
            return None
        return min(waiting, key=lambda n: self.estimator.scan(n.types, n.filters))

    def _grow(self, tree: Node) -> Node:
        """Follow every traversal that can be reached, the cheapest one first."""
        here, rows = list_produced_variables(tree), self.estimator.rows(tree)
        # Within a part that is multiplied later, a traversal to a variable of another part
        # cannot run yet; `_close_remaining` picks it up.
        while reachable := [edge for edge in self.left if self._is_reachable(edge, here)]:
            expand, chosen = self._choose_cheapest(tree, rows, reachable)
            tree, rows = expand, self.estimator.estimate_expanded(expand, rows)
            self.left.remove(chosen)
            here |= {chosen.source, chosen.target}
            self.bound |= here
        return tree

    def _choose_cheapest(
        self, tree: Node, rows: float, edges: Iterable[PatternEdge]
    ) -> tuple[Expand, PatternEdge]:
        expanded = [(self._expand(tree, edge), edge) for edge in edges]
        return min(expanded, key=lambda pair: self._estimate_cost(pair[0], rows))

    def _is_reachable(self, edge: PatternEdge, here: set[str]) -> bool:
        """Return whether one end is in this part and neither belongs to another."""
        ends = {edge.source, edge.target}
        return bool(ends & here) and ends & self.bound <= here

    def _close_remaining(self, tree: Node) -> Node:
        for edge in self.left:
            tree = self._expand(tree, edge)
        self.left = []
        return tree

    def _estimate_cost(self, expand: Expand, reached: float) -> tuple[int, float]:
        return (0 if expand.closes else 1, self.estimator.estimate_expanded(expand, reached))

    def _expand(self, tree: Node, edge: PatternEdge) -> Expand:
        forward = edge.source in self.bound
        closes = forward and edge.target in self.bound
        source, target = (edge.source, edge.target) if forward else (edge.target, edge.source)
        node = self.nodes.get(target)
        return Expand(
            child=tree,
            source=source,
            target=target,
            steps=edge.steps if forward else reverse_steps(edge.steps),
            minimum=edge.minimum,
            maximum=edge.maximum,
            target_types=node.types if node else (),
            target_filters=() if closes or node is None else node.filters,
            edge_variable=edge.edge_variable,
            edge_filters=edge.edge_filters,
            hop_variable=edge.hop_variable,
            closes=closes,
            asked_from_target=edge.maximum > 1 and self.asked_from[id(edge)] != source,
        )


def reverse_steps(steps: Iterable[EdgeStep]) -> tuple[EdgeStep, ...]:
    return tuple(EdgeStep(s.edge_type, _REVERSED[s.direction]) for s in steps)


def list_produced_variables(tree: Node) -> set[str]:
    """The node variables a tree binds."""
    match tree:
        case NodeScan():
            return {tree.variable}
        case OuterRows():
            return set(tree.variables)
        case CrossJoin(left, right):
            return list_produced_variables(left) | list_produced_variables(right)
        case Expand():
            return list_produced_variables(tree.child) | {tree.target}
        case _:
            return set()


def map_query_sources(pattern: Pattern) -> dict[int, str]:
    """Map each traversal to the variable it starts at by the language, by identity of the edge.

    A bounded traversal starts at the end that is bound first when clauses are taken as written:
    outer variables and the first binding of each part, then the traversals in order. This
    determines where a self loop counts, so no reordering may change it.
    """
    bound, answer = set(pattern.outer), {}
    waiting = list(pattern.edges)
    starts = [n.variable for n in pattern.nodes if n.declared]
    starts += [e.source for e in pattern.edges]
    while waiting:
        edge = next((e for e in waiting if {e.source, e.target} & bound), None)
        if edge is None:
            bound.add(next(s for s in starts if s not in bound and _is_touching(s, waiting)))
            continue
        waiting.remove(edge)
        answer[id(edge)] = edge.source if edge.source in bound else edge.target
        bound |= {edge.source, edge.target}
    return answer


def _is_touching(variable: str, edges: Iterable[PatternEdge]) -> bool:
    return any(variable in (e.source, e.target) for e in edges)


def push_filters(node: Node, estimator: Estimator) -> Node:
    """Push the conditions on a single variable to that variable.

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


Needs = frozenset[tuple[str, str]]


def prune_columns(node: Node, _estimator: Estimator) -> Node:
    """Give every scan and expansion the properties used outside its own filters.

    Conditions pushed into a scan are evaluated by it, so their properties need not be read out.
    """
    return _prune(node, frozenset(find_needed_columns(node)))


def find_needed_columns(node: Node) -> Iterator[tuple[str, str]]:
    for value in _list_values(node):
        yield from list_used_properties(value)
    for child in list_children(node):
        yield from find_needed_columns(child)


def _list_values(node: Node) -> Iterable[Output]:
    """Yield the expressions that a node evaluates on rows, without pushed-down filters."""
    match node:
        case FilterRows(_, predicate):
            return list_operands_of(predicate)
        case Project() | Aggregate():
            return (column.value for column in node.columns)
        case Sort():
            return (key.value for key in node.keys)
        case Rank():
            return (key.value for key in node.keys)
        case (
            Match()
            | OuterRows()
            | NodeScan()
            | CrossJoin()
            | Expand()
            | AntiJoin()
            | OptionalJoin()
            | Slice()
        ):
            return ()
        case _:
            assert_never(node)


def _prune(node: Node, needs: Needs) -> Node:
    node = map_children(node, lambda child: _prune(child, needs))
    match node:
        case NodeScan():
            return replace(node, columns=_list_columns(node.variable, needs))
        case Expand():
            return replace(
                node,
                target_columns=() if node.closes else _list_columns(node.target, needs),
                edge_columns=_list_columns(node.edge_variable, needs),
            )
        case _:
            return node


def _list_columns(variable: str | None, needs: Needs) -> tuple[str, ...]:
    return tuple(sorted(name for owner, name in needs if owner == variable))


def fuse_rankings(node: Node, estimator: Estimator) -> Node:
    """Push the limit directly above a ranking into it.

        order { nearest($d.vector, $q) } limit 10

    needs the ten best matches, not all of them in order. A distinct projection in between may
    drop rows, so there the ranking keeps everything.
    """
    node = map_children(node, lambda child: fuse_rankings(child, estimator))
    match node:
        case Slice(Project(Rank() as rank, _, False) as project, limit, offset) if (
            limit is not None
        ):
            keep = (limit,) if offset is None else (limit, offset)
            return replace(node, child=replace(project, child=replace(rank, keep=keep)))
        case _:
            return node


RewriteRule = Callable[[Node, Estimator], Node]

RULES: tuple[RewriteRule, ...] = (
    push_filters,  # before ordering: filters decide on the start of the order
    order_clauses,  # patterns become scans and expansions here
    fuse_rankings,
    prune_columns,  # last: it reads the properties that the others use
)


def optimize(plan: ReadPlan, catalog: Catalog, statistics: Statistics | None = None) -> ReadPlan:
    """Apply every rule to a plan."""
    estimator = Estimator(catalog, statistics or Statistics())
    root = plan.root
    for rule in RULES:
        root = rule(root, estimator)
    return replace(plan, root=root)
