"""Graph commits and recovery audits: rows that are only added."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self, TypeVar

import msgspec

from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import MAIN, CommitId, OperationId
from omnigraph.result import Result, WriteResult
from omnigraph.storage.manifest.manifest_state import Row, RowKind, make_audit_row_id, make_row
from omnigraph.storage.tables.location import is_flat_name
from omnigraph.struct_decoding import convert_into
from omnigraph.wire import commit_results
from omnigraph.wire.commit_results import RowCounts

R = TypeVar("R", bound=WriteResult)
T = TypeVar("T")

RECOVERY_ACTOR = "omnigraph:recovery"
RECOVERY_KIND, INIT_KIND = "recovery", "init"
"""Kinds of the commits of recovery and of the creation of a graph."""


@dataclass(frozen=True, slots=True)
class MergedTable:
    """The location and version of a table of a merged state."""

    table_key: str
    path: str
    branch: str | None
    version: int
    owner: str | None
    row_count: int


@dataclass(frozen=True, slots=True)
class MergedState:
    """The merged state of a merge commit, which may be the base of a later merge.

    It stays readable as long as the merge is retained, even if its branch is deleted.
    """

    incarnation: str | None
    tables: tuple[MergedTable, ...]


class CommitMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a commit that is fixed before it is published, over all retries."""

    commit_id: CommitId
    actor_id: str | None = None
    created_at: int
    """Microseconds since the Unix epoch."""
    merged_parent_commit_id: CommitId | None = None
    """The commit of another branch that it merges."""
    origin: str | None = None
    """The identity of the change for a writer that may repeat it."""
    details: Mapping[str, object] = {}
    """Further members recorded by its writer, as JSON values."""
    merged: MergedState | None = None
    """The merged state, if it is a merge."""
    kind: str | None = None
    """The kind of the write, such as `load`; None for commits without a recorded kind."""
    tables: tuple[RowCounts, ...] = ()
    """Numbers of changed rows by table, if the kind is recorded."""


class CommitRecord(CommitMetadata, frozen=True, kw_only=True):
    """One logical change of the graph, as published."""

    branch: str
    manifest_version: int
    parent_commit_id: CommitId | None
    incarnation: str | None = None

    @classmethod
    def publish(
        cls,
        metadata: CommitMetadata,
        *,
        branch: str,
        manifest_version: int,
        parent_commit_id: CommitId | None = None,
        incarnation: str | None = None,
    ) -> Self:
        """Return the commit of a version of the manifest."""
        return cls(
            **msgspec.structs.asdict(metadata),
            branch=branch,
            manifest_version=manifest_version,
            parent_commit_id=parent_commit_id,
            incarnation=incarnation,
        )

    def __hash__(self) -> int:
        return hash(self.commit_id)

    @property
    def parents(self) -> tuple[CommitId, ...]:
        """The parent commits; a merge has two."""
        both = (self.parent_commit_id, self.merged_parent_commit_id)
        return tuple(parent for parent in both if parent is not None)

    @property
    def order(self) -> tuple[int, int, str]:
        """The key that sorts a history; the greatest is the newest."""
        return (self.manifest_version, self.created_at, self.commit_id)

    @property
    def shown(self) -> commit_results.Commit:
        """The commit in the form of every surface."""
        names = commit_results.Commit.__struct_fields__
        return commit_results.Commit(**{name: getattr(self, name) for name in names})

    def wire(self) -> dict[str, object]:
        return self.shown.wire()


def with_commit(result: R, commit: CommitRecord | None) -> R:
    """Return the result of a write with the commit it made, if any."""
    shown = None if commit is None else commit.shown
    return msgspec.structs.replace(result, commit=shown)


class RecoveryKind(StrEnum):
    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    ABANDONED = "Abandoned"
    ORPHANED_BRANCH_DISCARDED = "OrphanedBranchDiscarded"
    REVOKED_EFFECT = "RevokedEffect"


class TableOutcome(Result, frozen=True):
    """The versions of a recovered table before and after recovery."""

    table_key: str
    from_version: int
    to_version: int


class RecoveryAudit(Result, frozen=True):
    """The recovery of an interrupted operation; at most one for each operation and kind."""

    operation_id: OperationId
    kind: RecoveryKind = msgspec.field(name="recovery_kind")
    writer_kind: str
    commit_id: CommitId | None = msgspec.field(name="graph_commit_id")
    actor_id: str | None = msgspec.field(name="recovery_for_actor")
    """The actor of the interrupted operation."""
    tables: tuple[TableOutcome, ...]
    created_at: int

    def join(self, other: RecoveryAudit) -> RecoveryAudit:
        """Return both as one: tables of one operation may be resolved one after the other."""
        tables = tuple(dict.fromkeys((*self.tables, *other.tables)))
        created_at = min(self.created_at, other.created_at)
        return msgspec.structs.replace(self, tables=tables, created_at=created_at)


# --- rows -----------------------------------------------------------------------------------------

_COLUMNS = ("commit_id", "branch", "manifest_version")
"""The members of a commit that its row holds in columns."""
_OPTIONAL = ("kind", "tables", "origin", "details", "merged")
"""The members that the metadata omits if they are empty."""


def encode_commit(commit: CommitRecord) -> Row:
    metadata = msgspec.to_builtins(commit)
    for name in _COLUMNS:
        del metadata[name]
    for name in _OPTIONAL:
        if not metadata[name]:
            del metadata[name]
    return make_row(
        commit.commit_id,
        RowKind.GRAPH_COMMIT,
        version=commit.manifest_version,
        branch=None if commit.branch == MAIN else commit.branch,
        metadata=json.dumps(metadata),
    )


def decode_commit(one: Row) -> CommitRecord:
    columns = (one["object_id"], one["table_branch"] or MAIN, one["table_version"])
    commit = _decode_metadata(one, CommitRecord, dict(zip(_COLUMNS, columns, strict=True)))
    incarnation = commit.incarnation
    if incarnation is not None and not is_flat_name(incarnation):
        raise ManifestCorrupt(f"commit {one['object_id']!r} belongs to no branch, {incarnation!r}")
    return commit


def encode_audit(audit: RecoveryAudit) -> Row:
    return make_row(
        make_audit_row_id(audit.operation_id, audit.kind),
        RowKind.RECOVERY_AUDIT,
        metadata=json.dumps(audit.wire()),
    )


def decode_audit(one: Row) -> RecoveryAudit:
    return _decode_metadata(one, RecoveryAudit, {})


def _decode_metadata(one: Row, kind: type[T], columns: Mapping[str, object]) -> T:
    """Decode the metadata of a row, with the values of its columns, into a type."""
    name = f"{one['object_type']} {one['object_id']!r}"
    try:
        metadata = json.loads(one["metadata"] or "")
        if not isinstance(metadata, dict):
            raise ManifestCorrupt(f"{name} has metadata that is not an object")
        return convert_into({**metadata, **columns}, kind)
    except msgspec.ValidationError as error:
        raise ManifestCorrupt(f"{name} is malformed: {error}") from error
    except ValueError as error:
        raise ManifestCorrupt(f"{name} has metadata that is not JSON") from error
