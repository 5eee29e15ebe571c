"""A load whose rows executors have staged already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import BadRequest
from omnigraph.execution.load_input import LoadMode
from omnigraph.execution.load_options import LoadOptions
from omnigraph.pipeline.bulk_load import FileSource, LoadJob
from omnigraph.pipeline.kernels.stage_kernel import StagedSplit, StageSpec
from omnigraph.pipeline.report import Origin
from omnigraph.pipeline.staging_area import StagingArea
from omnigraph.pipeline.tasks import InlineTasks
from omnigraph.storage.root import GraphRoot


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
    message: str | None = None
    """A text kept with the commit."""


class StagedLoad(LoadJob):
    """Checks and writes rows that lie in a staging area; the process that commits runs it."""

    def __init__(self, root: GraphRoot, write: StagedWrite) -> None:
        options = LoadOptions(mode=write.mode, partial=write.partial)
        super().__init__(root, InlineTasks(), FileSource(()), options)
        self._area = StagingArea(root, write.area)
        self._given: list[StagedSplit] = sorted(write.splits, key=lambda one: one.split)
        self._staged_for = write.ir

    def _read(
        self,
        spec: StageSpec,
        catalog: Catalog,  # noqa: ARG002 - reading here is over
    ) -> list[Origin]:
        if spec.ir != self._staged_for:
            raise BadRequest("the schema was changed while rows were written; write them again")
        self._splits = self._given
        return [Origin() for _ in self._given]
