"""The graph, as the processes of Spark reach it.

The pipeline stands below the graph and does not import it. Like a kernel, what opens a graph is
named here and loaded by the process that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.execution.load import LoadMode
from omnigraph.pipeline.kernels.stage import StagedSplit
from omnigraph.pipeline.source.options import Pin, QueryText
from omnigraph.settings import Settings
from omnigraph.storage.snapshot import Snapshot

_GRAPH = "omnigraph.graph.spark_access"


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """Rows that executors staged, and how they become a commit."""

    uri: str
    branch: str
    mode: LoadMode
    partial: bool
    actor: str | None
    area: str
    ir: str
    splits: Sequence[StagedSplit]
    origin: str | None = None
    """What the write calls itself; a branch that has a commit of this origin is left as it is."""


class GraphAccess(Protocol):
    """What the data source needs of a graph."""

    def settings(self) -> Settings:
        """What the environment of this process asks for."""
        ...

    def resolve(self, pin: Pin, settings: Settings) -> Pin:
        """The same state, named by its commit: what is written later does not change it."""
        ...

    def pinned(self, pin: Pin, settings: Settings) -> tuple[Snapshot, Catalog]: ...

    def query_schema(self, pin: Pin, query: QueryText, settings: Settings) -> pa.Schema: ...

    def query_batches(
        self, pin: Pin, query: QueryText, settings: Settings
    ) -> Iterator[pa.RecordBatch]: ...

    def commit_staged(self, write: StagedWrite, settings: Settings) -> str | None:
        """The new commit; None if there is one of the same origin already."""
        ...


def graph_access() -> GraphAccess:
    return cast("GraphAccess", import_module(_GRAPH))
