"""Choose the method of an expansion by estimated cost: edge lookups or an adjacency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omnigraph.catalog.catalog import Catalog
from omnigraph.execution.read.adjacency import Hops, make_node_key
from omnigraph.execution.read.read_context import ReadContext, ReadInput, TraversalMethod
from omnigraph.execution.read.table_reader import DST, SRC, Reader, Topology
from omnigraph.plan.explain import Notes
from omnigraph.plan.plan_nodes import Direction, EdgeStep, Expand, Node, ReadPlan
from omnigraph.plan.statistics import Estimator
from omnigraph.plan.walk import list_children
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import LanceIndexKind, describe_indices


@dataclass(frozen=True, slots=True)
class ExpansionPath:
    """Steps from one node type to one other, and the range of hops."""

    steps: tuple[EdgeStep, ...]
    source_type: str
    target_type: str
    hops: Hops

    @property
    def is_possible(self) -> bool:
        return self.hops.minimum <= self.hops.maximum


def build_expansion_path(node: Expand, context: ReadContext) -> ExpansionPath:
    """The path of an expansion; between two types there is no second hop."""
    source_type, target_type = context.ends_of(node.steps[0])
    maximum = node.maximum if source_type == target_type else min(node.maximum, 1)
    hops = Hops(node.minimum, maximum, is_backward=node.asked_from_target)
    return ExpansionPath(node.steps, source_type, target_type, hops)


_PER_LOOKUP = 2.5
_PER_KEY = 0.12
_PER_FOUND_EDGE = 2e-3
_PER_FETCHED_NODE = 0.03
_PER_LISTED_NODE = 1e-3
_PER_SCANNED_ROW = 6e-5
_PER_CODED_EDGE = 1.5e-4
_PER_SORTED_EDGE = 8e-5
_PER_ENCODED_NODE = 2e-4
_PER_TABLE_READ = 1.5

_ENCODED_NODE_BYTES = 48

_EXPECTED_AGAIN = 3.0
"""Weight of the cost spent on lookups so far: repeated queries are expected to recur."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Share of the rows covered by the index of each indexed column."""

    of: Mapping[str, float]
    nbytes: int = 256


def get_index_coverage(reader: Reader, topology: Topology) -> Coverage:
    return topology.get(("coverage", *reader.key), lambda: _read_coverage(reader))


def _read_coverage(reader: Reader) -> Coverage:
    shares: dict[str, float] = {}
    for index in describe_indices(reader.table):
        if index.kind.upper().startswith(LanceIndexKind.BTREE) and len(index.columns) == 1:
            total = index.indexed_rows + index.unindexed_rows
            shares[index.columns[0]] = index.indexed_rows / max(1, total)
    return Coverage(shares)


def estimate_search_cost(context: ReadContext, steps: tuple[EdgeStep, ...], keys: float) -> float:
    """Estimate the cost of looking up the edges of this many nodes."""
    cost = 0.0
    for step in steps:
        reader = context.tables.edge(step.edge_type)
        known = get_index_coverage(reader, context.topology).of
        for column in _list_columns(step):
            share = known.get(column, 0.0)
            scanned = _PER_SCANNED_ROW * reader.row_count
            looked_up = min(_PER_KEY * keys, scanned)
            cost += _PER_LOOKUP + share * looked_up + (1.0 - share) * scanned
    return cost


def _estimate_edges(context: ReadContext, steps: tuple[EdgeStep, ...], keys: float) -> float:
    """Estimate the number of edges at this many nodes, from the mean degree."""
    found = 0.0
    for step in steps:
        start_type, _ = context.ends_of(step)
        nodes = max(1, context.tables.node(start_type).row_count)
        edges = context.tables.edge(step.edge_type).row_count
        found += min(1.0, keys / nodes) * edges * len(_list_columns(step))
    return found


def _list_columns(step: EdgeStep) -> tuple[str, ...]:
    match step.direction:
        case Direction.OUT:
            return (SRC,)
        case Direction.IN:
            return (DST,)
        case _:
            return (SRC, DST)


def estimate_build_cost(context: ReadContext, path: ExpansionPath) -> float:
    """Estimate the remaining cost to build the adjacency."""
    if context.has_adjacency(path.steps):
        return 0.0
    cost = 0.0
    for type_name in {path.source_type, path.target_type}:
        if not context.has_nodes(type_name):
            nodes = context.tables.node(type_name).row_count
            cost += _PER_TABLE_READ + _PER_ENCODED_NODE * nodes
    for step in path.steps:
        edges = context.tables.edge(step.edge_type).row_count
        cost += _PER_SORTED_EDGE * edges
        if not context.has_edges(step.edge_type):
            cost += _PER_TABLE_READ + _PER_CODED_EDGE * edges
    return cost


def estimate_walk_cost(context: ReadContext, path: ExpansionPath, frontier: int) -> float:
    """Estimate the cost to look up every hop, if frontiers grow by the mean degree."""
    edges = sum(context.tables.edge(step.edge_type).row_count for step in path.steps)
    nodes = max(1, context.tables.node(path.source_type).row_count)
    degree, keys, cost = edges / nodes, float(frontier), 0.0
    for _ in range(path.hops.maximum):
        cost += estimate_search_cost(context, path.steps, keys)
        cost += _PER_FOUND_EDGE * _estimate_edges(context, path.steps, keys)
        keys = min(float(nodes), keys * max(degree, 1.0))
        cost += estimate_fetch_cost(context, path, keys)
    return cost


def estimate_fetch_cost(context: ReadContext, path: ExpansionPath, nodes: float) -> float:
    """Estimate the cost to read this many target nodes by id instead of by entity code."""
    if context.has_nodes(path.target_type):
        return _PER_LISTED_NODE * nodes
    rows = context.tables.node(path.target_type).row_count
    return min(_PER_FETCHED_NODE * nodes, _PER_SCANNED_ROW * rows + _PER_LISTED_NODE * nodes)


def is_encoding_worthwhile(context: ReadContext, type_name: str, nodes: int) -> bool:
    """Return whether to find this many nodes by entity code, building the codes if necessary.

    Otherwise the cost of the search is recorded, so that codes are built after enough of them.
    Where lookups are forced, searches are as well.
    """
    if context.input.traversal is TraversalMethod.INDEXED:
        return False
    if context.has_nodes(type_name):
        return True
    reader, topology = context.tables.node(type_name), context.topology
    if reader.row_count * _ENCODED_NODE_BYTES > topology.largest_entry_bytes:
        return False
    cost = _PER_LOOKUP + _PER_FETCHED_NODE * nodes
    # Numbers bring no properties: one more search has those.
    price = _PER_TABLE_READ + _PER_ENCODED_NODE * reader.row_count + _PER_LOOKUP
    if topology.find_spent(make_node_key(reader)) + cost >= price:
        return True
    topology.spend(make_node_key(reader), cost)
    return False


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen method to find neighbours, and the reason."""

    traversal: TraversalMethod
    reason: str

    def facts(self, start: str) -> dict[str, object]:
        """Describe the choice for `explain`; `start` is the number of start nodes."""
        return {"traversal": str(self.traversal), "because": f"start nodes: {start}; {self.reason}"}


def choose_traversal(context: ReadContext, path: ExpansionPath, frontier: int) -> Choice:
    """Choose the cheaper method from this many nodes, unless the input forces one."""
    forced = context.input.traversal
    if forced is not TraversalMethod.AUTO:
        return Choice(forced, "the settings ask for it")
    if _is_beyond(context.input, path, frontier):
        return Choice(TraversalMethod.ADJACENCY, "beyond the limits set for look-ups")
    build = estimate_build_cost(context, path)
    if not build:
        return Choice(TraversalMethod.ADJACENCY, "the adjacency is in memory")
    walk = estimate_walk_cost(context, path, frontier)
    spent = _EXPECTED_AGAIN * context.topology.find_spent(context.adjacency_key(path.steps))
    history = f" and {spent:.1f} ms for earlier ones" if spent else ""
    costs = f"look-ups cost about {walk:.1f} ms{history}, building the adjacency {build:.1f} ms"
    return Choice(
        TraversalMethod.INDEXED if walk + spent < build else TraversalMethod.ADJACENCY, costs
    )


def _is_beyond(given: ReadInput, path: ExpansionPath, frontier: int) -> bool:
    """Return whether the settings forbid this many lookups."""
    most_nodes, most_hops = given.indexed_max_frontier, given.indexed_max_hops
    return (most_nodes is not None and frontier > most_nodes) or (
        most_hops is not None and path.hops.maximum > most_hops
    )


class LookupBudgetExceeded(Exception):
    """Lookups cost more than building the adjacency, with which the walk restarts."""


class LookupBudget:
    """Cost limit of the lookups of one expansion; beyond it they are abandoned."""

    def __init__(self, context: ReadContext, path: ExpansionPath) -> None:
        self._context, self._way = context, path
        self._key = context.adjacency_key(path.steps)
        is_forced = context.input.traversal is TraversalMethod.INDEXED
        self._limit = float("inf") if is_forced else estimate_build_cost(context, path)

    def look_up(self, keys: int) -> None:
        """Charge a lookup of the edges at this many nodes, or raise `LookupBudgetExceeded`."""
        self._pay(estimate_search_cost(self._context, self._way.steps, keys))

    def record_search(self, edges: int) -> None:
        """Charge the edges found by a lookup: those of a hub are many."""
        self._note(_PER_FOUND_EDGE * edges)

    def fetch(self, nodes: int) -> None:
        """Charge reading this many target nodes, or raise `LookupBudgetExceeded`."""
        self._pay(estimate_fetch_cost(self._context, self._way, nodes))

    def _pay(self, cost: float) -> None:
        if self._limit < cost:
            raise LookupBudgetExceeded
        self._note(cost)

    def _note(self, cost: float) -> None:
        self._limit -= cost
        self._context.topology.spend(self._key, cost)


def forecast_traversals(
    plan: ReadPlan, snapshot: Snapshot, catalog: Catalog, given: ReadInput, estimator: Estimator
) -> Notes:
    """Return the choice of the executor for each expansion as of now, and the reason.

    The executor chooses again with the actual number of rows.
    """
    context = ReadContext(plan, snapshot, catalog, given)
    notes: dict[int, dict[str, object]] = {}
    for node in _list_expansions(plan.root):
        path = build_expansion_path(node, context)
        if path.is_possible:
            nodes = context.tables.node(path.source_type).row_count
            frontier = round(min(max(1.0, estimator.rows(node.child)), nodes))
            choice = choose_traversal(context, path, frontier)
            notes[id(node)] = choice.facts(f"{frontier} expected")
    return notes


def _list_expansions(node: Node) -> Iterator[Expand]:
    if isinstance(node, Expand):
        yield node
    for child in list_children(node):
        yield from _list_expansions(child)
