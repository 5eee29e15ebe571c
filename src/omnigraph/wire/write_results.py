"""Results of writes, as every surface shows them: mutations, loads, branches, blobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from omnigraph.errors import RowProblem
from omnigraph.identity import BranchName, CommitId
from omnigraph.result import Result, WriteResult
from omnigraph.wire.commit_results import Commit
from omnigraph.wire.read_results import BlobStat


class MutationResult(WriteResult, frozen=True, kw_only=True):
    """The effect of a mutation; `commit` is None when nothing matched and nothing was written."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: Commit | None


class SkippedRows(Result, frozen=True):
    """The number of rows a load skipped, and the first problems."""

    total: int
    first: tuple[RowProblem, ...] = msgspec.field(name="rows")


NOTHING_SKIPPED = SkippedRows(0, ())


class LoadedType(Result, frozen=True):
    """The number of input records of a type."""

    name: str
    entities_loaded: int


def list_loaded(counts: Mapping[str, int]) -> tuple[LoadedType, ...]:
    """List counts of records by type in the order of names."""
    return tuple(LoadedType(name, counts[name]) for name in sorted(counts))


class LoadResult(WriteResult, frozen=True, kw_only=True):
    """The effect of a load; counts are of input records, by type name.

    `commit` is None when there was nothing to load, and nothing was written.

    A load by the pipeline also reports how much it read, how long each of its stages
    took, and which bad rows it skipped.
    """

    uri: str | None = None
    """The address of the graph, as a server gives it."""
    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    engine: str
    engine_reason: str | None
    """The reason for the choice of the engine."""
    loaded_nodes: tuple[LoadedType, ...] = msgspec.field(name="nodes")
    loaded_edges: tuple[LoadedType, ...] = msgspec.field(name="edges")
    total_entities: int
    actor_id: str | None
    commit: Commit | None
    measured_app_id: str | UnsetType | None = msgspec.field(default=UNSET, name="spark_app_id")
    measured_stages: tuple[Mapping[str, Any], ...] | UnsetType = msgspec.field(
        default=UNSET, name="stages"
    )
    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    measured_rate: float | UnsetType | None = msgspec.field(default=UNSET, name="rows_per_second")
    skipped: SkippedRows = NOTHING_SKIPPED

    @property
    def nodes(self) -> Mapping[str, int]:
        return {one.name: one.entities_loaded for one in self.loaded_nodes}

    @property
    def edges(self) -> Mapping[str, int]:
        return {one.name: one.entities_loaded for one in self.loaded_edges}

    @property
    def spark_app_id(self) -> str | None:
        return None if isinstance(self.measured_app_id, UnsetType) else self.measured_app_id

    @property
    def stages(self) -> tuple[Mapping[str, Any], ...]:
        return () if isinstance(self.measured_stages, UnsetType) else self.measured_stages

    @property
    def rows_per_second(self) -> float | None:
        return None if isinstance(self.measured_rate, UnsetType) else self.measured_rate


class CreatedBranch(WriteResult, frozen=True, kw_only=True):
    """A branch that was created or renamed."""

    attributes: ClassVar[tuple[str, ...]] = (
        *WriteResult.attributes,
        "incarnation",
        "fork_version",
        "fork_head",
        "created_at",
    )

    uri: str | None = None
    """The address of the graph, as a server gives it."""
    parent: BranchName | None = msgspec.field(name="from")
    """The branch it was created from."""
    name: BranchName
    actor_id: str | None
    renamed_from: str | None = None
    """The name it had before, if it was renamed."""
    incarnation: str | None = None
    fork_version: int = 0
    fork_head: CommitId | None = None
    """Its head until its own first commit."""
    created_at: int = 0

    @property
    def revision(self) -> str:
        """The revision that names its newest commit."""
        return f"branch:{self.name}"


class DeletedBranch(WriteResult, frozen=True, kw_only=True):
    """A deleted branch, and the actor who deleted it."""

    uri: str | None = None
    """The address of the graph, as a server gives it."""
    name: str
    actor_id: str | None


class PutBlob(WriteResult, frozen=True, kw_only=True):
    """The metadata of a written blob, and the commit that wrote it."""

    blob: BlobStat
    commit: Commit


class RecordedWrite(Result, frozen=True, kw_only=True):
    """A write made under a key: the document of its result, and its commit, if any."""

    key: str
    operation: str
    commit: Commit | None
    answer: Mapping[str, Any]
