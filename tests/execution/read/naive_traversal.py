"""Traversals one row at a time, straight from the rules of the language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Edge:
    id: str
    source: str
    target: str
    weight: int | None = None


@dataclass(frozen=True)
class SmallGraph:
    """Nodes of one type and its edge types; an edge counts only if both its nodes exist."""

    nodes: tuple[str, ...]
    edges: Mapping[str, tuple[Edge, ...]]

    def followed(self, types: Iterable[str], direction: str) -> list[tuple[str, Edge, str]]:
        """(from, edge, to) for every way an edge of these types can be followed."""
        found = []
        for name in types:
            for edge in self.edges[name]:
                if edge.source not in self.nodes or edge.target not in self.nodes:
                    continue
                if direction in ("out", "both"):
                    found.append((edge.source, edge, edge.target))
                if direction == "in" or (direction == "both" and edge.source != edge.target):
                    found.append((edge.target, edge, edge.source))
        return found

    def neighbours(self, node: str, types: Iterable[str], direction: str) -> list[str]:
        return [far for near, _, far in self.followed(types, direction) if near == node]

    def reach(
        self, source: str, types: Iterable[str], direction: str, minimum: int, maximum: int
    ) -> dict[str, int]:
        """The nodes reached from a source, each with the hop it is first reached at."""
        types, visited, frontier, out = list(types), {source}, [source], {}
        for hop in range(1, maximum + 1):
            following = []
            for node in frontier:
                for far in self.neighbours(node, types, direction):
                    if far == node:
                        if hop >= minimum:
                            out.setdefault(far, hop)
                        continue
                    if far not in visited:
                        visited.add(far)
                        following.append(far)
                        if hop >= minimum:
                            out.setdefault(far, hop)
            frontier = following
        return out

    def rows(
        self, types: Iterable[str], direction: str, minimum: int, maximum: int
    ) -> list[tuple[str, str, int]]:
        """(source, target, hops) for every source."""
        return sorted(
            (source, target, hop)
            for source in self.nodes
            for target, hop in self.reach(source, types, direction, minimum, maximum).items()
        )
