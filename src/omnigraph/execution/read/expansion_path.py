"""What an expansion asks for, with the types at its ends."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.hop_walk import Hops
from omnigraph.plan.nodes import EdgeStep, Expand


@dataclass(frozen=True, slots=True)
class ExpansionPath:
    """Steps that all lead from one node type to one other, and how often they are taken."""

    steps: tuple[EdgeStep, ...]
    source_type: str
    target_type: str
    hops: Hops

    @property
    def is_possible(self) -> bool:
        return self.hops.minimum <= self.hops.maximum


def build_expansion_path(node: Expand, context: ReadContext) -> ExpansionPath:
    """The way of an expansion; between two types there is never a second hop."""
    source_type, target_type = context.ends_of(node.steps[0])
    maximum = node.maximum if source_type == target_type else min(node.maximum, 1)
    hops = Hops(node.minimum, maximum, is_backward=node.asked_from_target)
    return ExpansionPath(node.steps, source_type, target_type, hops)
