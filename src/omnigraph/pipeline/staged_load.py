"""A load whose rows executors have staged already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import BadRequest
from omnigraph.execution.load_input import LoadMode
from omnigraph.execution.load_options import LoadOptions
from omnigraph.identity import TableKey
from omnigraph.pipeline.bulk_load import FileSource, LoadJob
from omnigraph.pipeline.kernels.match_kernel import MatchTask, match_rows
from omnigraph.pipeline.kernels.stage_kernel import StagedSplit, StageSpec
from omnigraph.pipeline.report import Origin
from omnigraph.pipeline.staging_area import (
    Staged,
    StagingArea,
    build_staging_schema,
    commit_staging,
)
from omnigraph.pipeline.tasks import InlineTasks
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables import Table


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
        self._without_ids: dict[TableKey, Staged] = {}
        """Edges as they were staged, of types that they are looked up in."""

    def _stage(
        self,
        catalog: Catalog,
        matched: Mapping[TableKey, Table | None],
        stored: Mapping[TableKey, Table],
    ) -> None:
        """Take the rows as they are; edges without ids are looked up in every state anew."""
        is_first = self._ir is None
        super()._stage(catalog, {}, stored)
        if is_first:
            there = {key: self._staged[key] for key in matched if key in self._staged}
            self._without_ids = {key: one for key, one in there.items() if _lacks_ids(one.table)}
        for key, staged in self._without_ids.items():
            self._outputs.forget()
            schema = build_staging_schema(
                catalog.by_table_key[key], with_presence=self._options.partial
            )
            self._staged[key] = self._match(key, staged, matched[key], schema)

    def _match(
        self, key: TableKey, staged: Staged, base: Table | None, schema: pa.Schema
    ) -> Staged:
        """The same edges with ids, among what is there now."""
        target = self._area.fresh("matched")
        tasks = [
            MatchTask(table_key=key, staged=staged.table, fragment=one.id, base=base, target=target)
            for one in staged.table.fragments()
        ]
        found = self._tasks.run(match_rows, tasks, self._build_schema(), stage="match")
        table = commit_staging(target, schema, [one for part in found for one in part])
        assert table is not None, "there are rows"
        return replace(staged, table=table)

    def _read(
        self,
        spec: StageSpec,
        catalog: Catalog,  # noqa: ARG002 - reading here is over
    ) -> list[Origin]:
        if spec.ir != self._staged_for:
            raise BadRequest("the schema was changed while rows were written; write them again")
        self._splits = self._given
        return [Origin() for _ in self._given]


def _lacks_ids(table: Table) -> bool:
    return any(batch.column("id").null_count for batch in table.batches(["id"]))
