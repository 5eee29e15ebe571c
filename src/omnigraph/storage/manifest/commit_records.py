"""Graph commits and recovery audits: rows that are only ever added."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self, TypeVar

import msgspec

from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import MAIN, CommitId, OperationId
from omnigraph.result import WriteResult
from omnigraph.storage.manifest.manifest_state import Row, RowKind, make_audit_row_id, make_row
from omnigraph.storage.tables.location import is_flat_name
from omnigraph.struct_decoding import convert_into
from omnigraph.wire import commit_results
from omnigraph.wire.commit_results import RowCounts

R = TypeVar("R", bound=WriteResult)

RECOVERY_ACTOR = "omnigraph:recovery"
RECOVERY_KIND, INIT_KIND = "recovery", "init"
"""What made the commits that no writer made."""


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
    """The state a merge brought in, which may be the base of a later one.

    It can be read for as long as the merge is kept, whatever becomes of the branch it was on.
    """

    incarnation: str | None
    tables: tuple[MergedTable, ...]


class CommitMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a commit that is known before it is published, and never changes over retries."""

    commit_id: CommitId
    actor_id: str | None = None
    created_at: int
    """Microseconds since the Unix epoch."""
    merged_parent_commit_id: CommitId | None = None
    """The commit of another branch that it brings in."""
    origin: str | None = None
    """What a writer that may repeat itself calls this change, to find out that it is there."""
    details: Mapping[str, object] = {}
    """Whatever else its writer recorded, as JSON; for example what a merge decided."""
    merged: MergedState | None = None
    """What it brought in, if it is a merge."""
    kind: str | None = None
    """What made it, such as `load`; None for commits of releases that did not record it."""
    tables: tuple[RowCounts, ...] = ()
    """How many rows of which tables it changed, where `kind` is known."""


class CommitRecord(CommitMetadata, frozen=True, kw_only=True):
    """One logical change of the graph, as it was published."""

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
        """The commits it came from; a merge has two."""
        both = (self.parent_commit_id, self.merged_parent_commit_id)
        return tuple(parent for parent in both if parent is not None)

    @property
    def order(self) -> tuple[int, int, str]:
        """The key that sorts a history; the greatest is the newest."""
        return (self.manifest_version, self.created_at, self.commit_id)

    @property
    def shown(self) -> commit_results.Commit:
        """The commit as every surface shows it."""
        return commit_results.Commit(
            commit_id=self.commit_id,
            branch=self.branch,
            manifest_version=self.manifest_version,
            parent_commit_id=self.parent_commit_id,
            merged_parent_commit_id=self.merged_parent_commit_id,
            actor_id=self.actor_id,
            created_at=self.created_at,
            kind=self.kind,
            tables=self.tables,
            origin=self.origin,
            details=self.details,
        )

    def wire(self) -> dict[str, object]:
        return self.shown.wire()

    @property
    def _optional(self) -> dict[str, object]:
        """The members that most commits lack, and that are left out then."""
        given: dict[str, object] = {}
        if self.kind is not None:
            given["kind"] = self.kind
        if self.tables:
            given["tables"] = [msgspec.to_builtins(one) for one in self.tables]
        if self.origin is not None:
            given["origin"] = self.origin
        if self.details:
            given["details"] = dict(self.details)
        return given


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


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """The versions of a recovered table before and after recovery."""

    table_key: str
    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class RecoveryAudit:
    """The recovery of an interrupted operation; at most one for each operation and kind."""

    operation_id: OperationId
    kind: RecoveryKind
    writer_kind: str
    commit_id: CommitId | None
    for_actor: str | None
    tables: tuple[TableOutcome, ...]
    created_at: int

    def join(self, other: RecoveryAudit) -> RecoveryAudit:
        """Both as one: tables of one operation may be resolved one after the other."""
        tables = tuple(dict.fromkeys((*self.tables, *other.tables)))
        return replace(self, tables=tables, created_at=min(self.created_at, other.created_at))

    def wire(self) -> dict[str, object]:
        tables = [
            {"table_key": t.table_key, "from_version": t.from_version, "to_version": t.to_version}
            for t in self.tables
        ]
        return {
            "operation_id": self.operation_id,
            "recovery_kind": str(self.kind),
            "writer_kind": self.writer_kind,
            "graph_commit_id": self.commit_id,
            "recovery_for_actor": self.for_actor,
            "tables": tables,
            "created_at": self.created_at,
        }


def encode_commit(commit: CommitRecord) -> Row:
    metadata: dict[str, object] = {
        "parent_commit_id": commit.parent_commit_id,
        "merged_parent_commit_id": commit.merged_parent_commit_id,
        "actor_id": commit.actor_id,
        "created_at": commit.created_at,
        "incarnation": commit.incarnation,
        **commit._optional,
    }
    if commit.merged is not None:
        metadata["merged"] = msgspec.to_builtins(commit.merged)
    return make_row(
        commit.commit_id,
        RowKind.GRAPH_COMMIT,
        version=commit.manifest_version,
        branch=None if commit.branch == MAIN else commit.branch,
        metadata=json.dumps(metadata),
    )


def decode_commit(one: Row) -> CommitRecord:
    metadata, version = _decode_object(one), one["table_version"]
    created_at = metadata.get("created_at")
    if version is None or not isinstance(created_at, int):
        raise ManifestCorrupt(f"commit {one['object_id']!r} lacks its version or its time")
    incarnation = _decode_optional(metadata, "incarnation")
    if incarnation is not None and not is_flat_name(incarnation):
        raise ManifestCorrupt(f"commit {one['object_id']!r} belongs to no branch, {incarnation!r}")
    details = metadata.get("details", {})
    if not isinstance(details, dict):
        raise ManifestCorrupt(f"commit {one['object_id']!r} has details that are not an object")
    return CommitRecord(
        commit_id=CommitId(one["object_id"]),
        branch=one["table_branch"] or MAIN,
        manifest_version=version,
        parent_commit_id=_commit_id(metadata, "parent_commit_id"),
        merged_parent_commit_id=_commit_id(metadata, "merged_parent_commit_id"),
        actor_id=_decode_optional(metadata, "actor_id"),
        created_at=created_at,
        incarnation=incarnation,
        origin=_decode_optional(metadata, "origin"),
        details=details,
        merged=_decode_merged(one, metadata),
        kind=_decode_optional(metadata, "kind"),
        tables=_decode_tables(one, metadata),
    )


def _decode_tables(one: Row, metadata: Mapping[str, object]) -> tuple[RowCounts, ...]:
    try:
        return convert_into(metadata.get("tables", ()), tuple[RowCounts, ...])
    except msgspec.ValidationError as error:
        raise ManifestCorrupt(f"commit {one['object_id']!r} miscounts its rows") from error


def _decode_merged(one: Row, metadata: Mapping[str, object]) -> MergedState | None:
    state = metadata.get("merged")
    try:
        return None if state is None else convert_into(state, MergedState)
    except msgspec.ValidationError as error:
        raise ManifestCorrupt(f"merge {one['object_id']!r} does not say what it merged") from error


def encode_audit(audit: RecoveryAudit) -> Row:
    return make_row(
        make_audit_row_id(audit.operation_id, audit.kind),
        RowKind.RECOVERY_AUDIT,
        metadata=json.dumps(audit.wire()),
    )


def decode_audit(one: Row) -> RecoveryAudit:
    body = _decode_object(one)
    try:
        tables = body["tables"]
        if not isinstance(tables, list):
            raise TypeError("its tables are not a list")
        return RecoveryAudit(
            operation_id=OperationId(str(body["operation_id"])),
            kind=RecoveryKind(str(body["recovery_kind"])),
            writer_kind=str(body["writer_kind"]),
            commit_id=_commit_id(body, "graph_commit_id"),
            for_actor=_decode_optional(body, "recovery_for_actor"),
            tables=tuple(
                TableOutcome(str(t["table_key"]), int(t["from_version"]), int(t["to_version"]))
                for t in tables
            ),
            created_at=int(str(body["created_at"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestCorrupt(f"recovery audit {one['object_id']!r} is malformed") from error


def _decode_object(one: Row) -> Mapping[str, object]:
    try:
        value = json.loads(one["metadata"] or "")
    except ValueError as error:
        raise ManifestCorrupt(f"{one['object_id']!r} has metadata that is not JSON") from error
    if not isinstance(value, dict):
        raise ManifestCorrupt(f"{one['object_id']!r} has metadata that is not an object")
    return value


def _decode_optional(metadata: Mapping[str, object], name: str) -> str | None:
    value = metadata.get(name)
    return None if value is None else str(value)


def _commit_id(metadata: Mapping[str, object], name: str) -> CommitId | None:
    value = _decode_optional(metadata, name)
    return None if value is None else CommitId(value)
