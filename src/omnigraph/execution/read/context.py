"""What the operators of one execution share."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from omnigraph.catalog.catalog import Catalog
from omnigraph.execution.read.adjacency import (
    Adjacency,
    build_adjacency,
    number_edge_ends,
)
from omnigraph.execution.read.arrays import Codes, Doubles
from omnigraph.execution.read.entities import Numbered
from omnigraph.execution.read.execution_profile import ExecutionProfile
from omnigraph.execution.read.fixed_operands import Given
from omnigraph.execution.read.input import ReadInput
from omnigraph.execution.read.numbering import (
    EdgeNumbering,
    NodeNumbering,
    make_edge_key,
    make_node_key,
    number_edges,
    number_nodes,
)
from omnigraph.execution.read.table_reader import SnapshotTables
from omnigraph.execution.read.topology import Key
from omnigraph.plan.expressions import FusedScore
from omnigraph.plan.nodes import Direction, EdgeStep, ReadPlan
from omnigraph.storage.snapshot import Snapshot


class ReadContext:
    """The snapshot, the input and what has been read for this execution so far.

    What the cache is too small to keep is remembered here until the execution ends.
    """

    def __init__(
        self, plan: ReadPlan, snapshot: Snapshot, catalog: Catalog, given: ReadInput
    ) -> None:
        self.input = given
        self.given = Given(given.parameters, given.now)
        self.catalog = catalog
        self.topology = given.topology
        self.tables = SnapshotTables(snapshot, catalog, given.topology)
        self.profile = ExecutionProfile(plan.root, given.limits.check if given.limits else None)
        self.fused: dict[FusedScore, tuple[Codes, Doubles]] = {}
        self.searched: dict[Hashable, object] = {}
        self._nodes: dict[str, NodeNumbering] = {}
        self._edges: dict[str, EdgeNumbering] = {}
        self._adjacencies: dict[Key, Adjacency] = {}
        self._numbered: dict[str, Numbered] = {}

    # --- numbers ---------------------------------------------------------------------------------

    def nodes(self, type_name: str) -> NodeNumbering:
        """The nodes of a type, numbered."""
        found = self._nodes.get(type_name)
        if found is None:
            found = number_nodes(self.tables.node(type_name), self.topology)
            self._nodes[type_name] = found
        return found

    def edges(self, type_name: str) -> EdgeNumbering:
        found = self._edges.get(type_name)
        if found is None:
            found = number_edges(self.tables.edge(type_name), self.topology)
            self._edges[type_name] = found
        return found

    def number_type(self, type_name: str) -> Numbered:
        """All nodes of a type as entities, one and the same however often they are asked for."""
        found = self._numbered.get(type_name)
        if found is None:
            reader = self.tables.node(type_name)
            found = Numbered(reader, self.nodes(type_name), self.topology)
            self._numbered[type_name] = found
        return found

    # --- neighbours ------------------------------------------------------------------------------

    def ends(self, step: EdgeStep) -> tuple[Codes, Codes]:
        """The numbers of the nodes at both ends of every edge, as the edge is declared."""
        edge = self.catalog.edges[step.edge_type]
        edges = self.edges(step.edge_type)
        return number_edge_ends(edges, self.nodes(edge.from_type), self.nodes(edge.to_type))

    def adjacency(self, steps: Sequence[EdgeStep]) -> Adjacency:
        """Who can be reached in one hop by any of the steps."""
        key = self.adjacency_key(steps)
        found = self._adjacencies.get(key)
        if found is None:
            found = self.topology.get(key, lambda: self._build(steps))
            self._adjacencies[key] = found
        return found

    def adjacency_key(self, steps: Sequence[EdgeStep]) -> Key:
        """Edges and the nodes at their ends: an adjacency is made for one version of each."""
        edges = [(step.direction, self.tables.edge(step.edge_type).key) for step in steps]
        nodes = {end for step in steps for end in self.ends_of(step)}
        return (
            "adjacency",
            *sorted(edges),
            *sorted((name, self.tables.node(name).key) for name in nodes),
        )

    def ends_of(self, step: EdgeStep) -> tuple[str, str]:
        """The node types a step leads from and to."""
        edge = self.catalog.edges[step.edge_type]
        if step.direction is Direction.IN:
            return edge.to_type, edge.from_type
        return edge.from_type, edge.to_type

    def _build(self, steps: Sequence[EdgeStep]) -> Adjacency:
        sides: list[tuple[Codes, Codes]] = []
        for step in steps:
            sources, targets = self.ends(step)
            if step.direction is not Direction.IN:
                sides.append((sources, targets))
            if step.direction is not Direction.OUT:
                sides.append((targets, sources))
        source_type, _ = self.ends_of(steps[0])
        return build_adjacency(sides, self.nodes(source_type).size)

    # --- what is at hand -------------------------------------------------------------------------

    def has_adjacency(self, steps: Sequence[EdgeStep]) -> bool:
        key = self.adjacency_key(steps)
        return key in self._adjacencies or self.topology.holds(key)

    def has_nodes(self, type_name: str) -> bool:
        reader = self.tables.node(type_name)
        return type_name in self._nodes or self.topology.holds(make_node_key(reader))

    def has_edges(self, type_name: str) -> bool:
        reader = self.tables.edge(type_name)
        return type_name in self._edges or self.topology.holds(make_edge_key(reader))
