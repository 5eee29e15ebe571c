"""How many rows every operator gave and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from omnigraph.plan.explain import PlanStep, describe_node
from omnigraph.plan.nodes import Node
from omnigraph.plan.walk import list_children

BlockT = TypeVar("BlockT")


@dataclass(slots=True)
class Measure:
    """Rows given and time taken, the operators below included."""

    rows: int = 0
    seconds: float = 0.0
    notes: dict[str, object] = field(default_factory=dict)


class ExecutionProfile:
    """The measures of one execution, complete once its result has been read to the end.

    Operators are addressed as the plan describes them: `step()` is the tree of `explain` with
    what was measured among the facts.
    """

    def __init__(self, root: Node, check: Callable[[], None] | None = None) -> None:
        self.root, self._check = root, check
        self._measures: dict[int, Measure] = {}

    def of(self, node: Node) -> Measure:
        """The measure of one node of the plan, by identity."""
        return self._measures.setdefault(id(node), Measure())

    def measure(
        self, node: Node, blocks: Iterator[BlockT], count: Callable[[BlockT], int]
    ) -> Iterator[BlockT]:
        """The same blocks, counted and timed as they are asked for."""
        measure, check = self.of(node), self._check
        while True:
            if check is not None:
                check()
            started = time.perf_counter()
            block = next(blocks, None)
            measure.seconds += time.perf_counter() - started
            if block is None:
                return
            measure.rows += count(block)
            yield block

    def step(self) -> PlanStep:
        return self._annotate(self.root, describe_node(self.root))

    def _annotate(self, node: Node, step: PlanStep) -> PlanStep:
        measure = self.of(node)
        facts = {
            **step.facts,
            **measure.notes,
            "rows": measure.rows,
            "milliseconds": round(measure.seconds * 1000, 3),
        }
        below = zip(list_children(node), step.children, strict=True)
        children = tuple(self._annotate(child, described) for child, described in below)
        return PlanStep(step.operator, facts, children)
