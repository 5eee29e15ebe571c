"""Results of merges, reverts, cherry-picks and restores, as every surface shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import msgspec

from omnigraph.errors import MergeConflict
from omnigraph.identity import TableKey
from omnigraph.result import Result, WriteResult
from omnigraph.wire.commit_results import Commit

if TYPE_CHECKING:
    import pyarrow as pa


class MergeOutcome(StrEnum):
    """The relation of two branches that were merged."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"


class ApplyOutcome(StrEnum):
    """The effect on a branch to which a commit was applied."""

    REVERTED = "reverted"
    CHERRY_PICKED = "cherry_picked"
    RESTORED = "restored"
    UNCHANGED = "unchanged"
    """The branch had every change already; there is no new commit."""


class TableCounts(Result, frozen=True):
    """Numbers of rows that a merge inserted, updated and deleted in a table of the target."""

    entity_kind: str
    type_name: str
    inserted: int
    updated: int
    deleted: int
    conflicts: int

    @classmethod
    def of(
        cls,
        table_key: str,
        inserted: int = 0,
        updated: int = 0,
        deleted: int = 0,
        conflicts: int = 0,
    ) -> TableCounts:
        """Return the counts of a table by its key."""
        entity_kind, _, type_name = table_key.partition(":")
        return cls(entity_kind, type_name, inserted, updated, deleted, conflicts)

    @property
    def table_key(self) -> TableKey:
        return TableKey(f"{self.entity_kind}:{self.type_name}")


class ListedConflict(MergeConflict, frozen=True, kw_only=True):
    """A conflict as a dry run lists it, with room for a decision about it in `take`."""

    take: None

    @classmethod
    def copy(cls, conflict: MergeConflict) -> ListedConflict:
        return cls(**msgspec.structs.asdict(conflict), take=None)

    @property
    def conflict(self) -> MergeConflict:
        members = msgspec.structs.asdict(self)
        del members["take"]
        return MergeConflict(**members)


class _ConflictReport:
    """The members that results with conflicts derive from them."""

    __slots__ = ()
    listed_conflicts: tuple[ListedConflict, ...]

    @property
    def conflicts(self) -> tuple[MergeConflict, ...]:
        """The conflicts; only a dry run has any: otherwise they are an error."""
        return tuple(one.conflict for one in self.listed_conflicts)

    @property
    def conflict_table(self) -> pa.Table:
        """The conflicts as a table, one row each, with the three sides as JSON."""
        return build_conflict_table(self.conflicts)


class MergeResult(WriteResult, _ConflictReport, frozen=True, kw_only=True):
    """The effect of a merge or, with `dry_run`, its preview."""

    source: str
    target: str
    outcome: MergeOutcome
    dry_run: bool
    base_commit_ids: tuple[str, ...]
    tables: tuple[TableCounts, ...]
    """The changes of each affected type."""
    listed_conflicts: tuple[ListedConflict, ...] = msgspec.field(name="conflicts")
    resolved: Mapping[str, int]
    """The number of conflicts each rule decided."""
    actor_id: str | None
    engine: str
    """The engine that compared rows."""
    commit: Commit | None
    branch_deleted: bool | None = None
    branch_delete_error: str | None = None


class ApplyResult(WriteResult, _ConflictReport, frozen=True, kw_only=True):
    """The effect of a revert, a cherry-pick or a restore or, with `dry_run`, its preview."""

    branch: str
    outcome: ApplyOutcome
    applied_commit_id: str
    """The commit that was reverted, picked or restored."""
    dry_run: bool
    tables: tuple[TableCounts, ...]
    """The changes of each affected type."""
    listed_conflicts: tuple[ListedConflict, ...] = msgspec.field(name="conflicts")
    resolved: Mapping[str, int]
    """The number of conflicts each rule decided."""
    actor_id: str | None
    commit: Commit | None
    """The new commit."""


ConflictResult = TypeVar("ConflictResult", MergeResult, ApplyResult)


def with_conflicts(result: ConflictResult, conflicts: Iterable[MergeConflict]) -> ConflictResult:
    """Return a result with other conflicts."""
    return msgspec.structs.replace(result, listed_conflicts=list_conflicts(conflicts))


def list_conflicts(conflicts: Iterable[MergeConflict]) -> tuple[ListedConflict, ...]:
    return tuple(ListedConflict.copy(one) for one in conflicts)


def build_conflict_table(conflicts: Iterable[MergeConflict]) -> pa.Table:
    """Return conflicts as rows, with the three sides as JSON."""
    import pyarrow as pa  # noqa: PLC0415 - the command line prints its help without it

    rows = [one.wire() for one in conflicts]
    for row in rows:
        for side in ("base", "source", "target"):
            value = row[side]
            row[side] = None if value is None else msgspec.json.encode(value).decode()
    schema = [(name, pa.string()) for name in MergeConflict.__struct_encode_fields__]
    at = MergeConflict.__struct_encode_fields__.index("properties")
    schema[at] = ("properties", pa.list_(pa.string()))
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))
