"""Let a ranking keep only the rows that can still be returned."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.plan.nodes import Node, Project, Rank, Slice
from omnigraph.plan.statistics import Estimator
from omnigraph.plan.walk import map_children


def fuse_rankings(node: Node, estimator: Estimator) -> Node:
    """Tell a ranking directly below a limit how many rows are asked for.

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
