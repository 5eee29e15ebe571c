"""What a read is given besides its plan and its snapshot."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import pyarrow as pa

from omnigraph.execution.read.topology import Topology

Embedder = Callable[[str, int, str | None], Sequence[float]]
"""A text, the dimension wanted and the model recorded in the schema, to a vector."""

BATCH_ROWS = 65_536


class TraversalMethod(StrEnum):
    """How an expansion finds neighbours; AUTO leaves it to what each way would cost."""

    AUTO = "auto"
    INDEXED = "indexed"
    ADJACENCY = "adjacency"


class ReadLimits(Protocol):
    """Asked while a query runs; whatever it raises ends the query."""

    def check(self) -> None:
        """Called before every block of rows that an operator makes."""
        ...

    def admit(self, batch: pa.RecordBatch) -> None:
        """Called with every batch of the result."""
        ...


def _read_clock() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class ReadInput:
    """Values and settings of one execution.

    `parameters` are coerced already and hold every declared one. `traversal` forces one way of
    finding neighbours; AUTO chooses by counts, and looks up neighbours of at most
    `indexed_max_frontier` nodes over at most `indexed_max_hops` hops. `topology` should outlive
    single reads: what it holds makes the next one fast.
    """

    parameters: Mapping[str, object] = field(default_factory=dict)
    now: datetime.datetime = field(default_factory=_read_clock)
    traversal: TraversalMethod = TraversalMethod.AUTO
    indexed_max_frontier: int | None = None
    indexed_max_hops: int | None = None
    embed: Embedder | None = None
    topology: Topology = field(default_factory=Topology)
    batch_rows: int = BATCH_ROWS
    limits: ReadLimits | None = None

    def __post_init__(self) -> None:
        # A stored DateTime has milliseconds; a moment with more could not be compared with it.
        milliseconds = self.now.microsecond // 1000 * 1000
        object.__setattr__(self, "now", self.now.replace(microsecond=milliseconds))
