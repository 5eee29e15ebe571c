"""What an expansion asks for, with the types at its ends."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.execution.read.context import Context
from omnigraph.execution.read.walk import Hops
from omnigraph.plan.nodes import EdgeStep, Expand


@dataclass(frozen=True, slots=True)
class Way:
    """Steps that all lead from one node type to one other, and how often they are taken."""

    steps: tuple[EdgeStep, ...]
    source_type: str
    target_type: str
    hops: Hops

    @property
    def is_possible(self) -> bool:
        return self.hops.minimum <= self.hops.maximum


def way_of(node: Expand, context: Context) -> Way:
    """The way of an expansion; between two types there is never a second hop."""
    source_type, target_type = context.ends_of(node.steps[0])
    maximum = node.maximum if source_type == target_type else min(node.maximum, 1)
    hops = Hops(node.minimum, maximum, is_backward=node.asked_from_target)
    return Way(node.steps, source_type, target_type, hops)
