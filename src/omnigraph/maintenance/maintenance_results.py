"""Results of maintenance; field names are those of the JSON on every surface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.storage.manifest import Commit

MANIFEST_KEY = "__manifest"
"""The name of the manifest among the tables."""


class Skip(StrEnum):
    """The reason a table was skipped."""

    DRIFT_NEEDS_REPAIR = "drift_needs_repair"


@dataclass(frozen=True, slots=True)
class PendingIndex:
    """A declared index that cannot be built yet."""

    table_key: str
    property: str
    reason: str

    def wire(self) -> dict[str, object]:
        return {"table_key": self.table_key, "property": self.property, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class OptimizedTable:
    """The result of optimizing one table; versions are given only for a skipped table."""

    table_key: str
    fragments_removed: int = 0
    fragments_added: int = 0
    committed: bool = False
    skipped: Skip | None = None
    manifest_version: int | None = None
    lance_head_version: int | None = None
    pending_indexes: tuple[PendingIndex, ...] = ()

    def wire(self) -> dict[str, object]:
        return {
            "table_key": self.table_key,
            "fragments_removed": self.fragments_removed,
            "fragments_added": self.fragments_added,
            "committed": self.committed,
            "skipped": self.skipped,
            "manifest_version": self.manifest_version,
            "lance_head_version": self.lance_head_version,
            "pending_indexes": [one.wire() for one in self.pending_indexes],
        }


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """The result for every table, and the one commit, if anything changed."""

    branch: str
    tables: tuple[OptimizedTable, ...]
    commit: Commit | None

    @property
    def pending_indexes(self) -> tuple[PendingIndex, ...]:
        return tuple(one for table in self.tables for one in table.pending_indexes)

    def wire(self) -> dict[str, object]:
        return {
            "branch": self.branch,
            "tables": [table.wire() for table in self.tables],
            "graph_commit_id": self.commit.commit_id if self.commit else None,
        }


class Drift(StrEnum):
    """The cause of a table's being ahead of the graph."""

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    """Only compactions: no row changed."""
    REVOKED_EFFECT = "revoked_effect"
    """Only a late effect of a writer whose operation had already been rolled back."""
    SUSPICIOUS = "suspicious"
    """Something that may have changed rows."""
    UNVERIFIABLE = "unverifiable"
    """A record is missing or cannot be read."""


class RepairAction(StrEnum):
    NO_OP = "no_op"
    PREVIEW = "preview"
    HEALED = "healed"
    UNDONE = "undone"
    REFUSED = "refused"
    FORCED = "forced"


@dataclass(frozen=True, slots=True)
class RepairedTable:
    """The drift of one table, and the action repair took."""

    table_key: str
    classification: Drift
    action: RepairAction
    manifest_version: int
    lance_head_version: int
    operations: tuple[str, ...] = ()
    error: str | None = None

    def wire(self) -> dict[str, object]:
        return {
            "table_key": self.table_key,
            "classification": self.classification,
            "action": self.action,
            "manifest_version": self.manifest_version,
            "lance_head_version": self.lance_head_version,
            "operations": list(self.operations),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of a repair."""

    confirm: bool
    force: bool
    tables: tuple[RepairedTable, ...]
    graph_manifest_version: int

    @property
    def is_refused(self) -> bool:
        return any(table.action is RepairAction.REFUSED for table in self.tables)

    def wire(self) -> dict[str, object]:
        return {
            "confirm": self.confirm,
            "force": self.force,
            "graph_manifest_version": self.graph_manifest_version,
            "tables": [table.wire() for table in self.tables],
        }


@dataclass(frozen=True, slots=True)
class CleanedTable:
    """Space and versions removed from one table; `error` if not everything could be."""

    table_key: str
    bytes_removed: int = 0
    old_versions_removed: int = 0
    error: str | None = None

    def wire(self) -> dict[str, object]:
        return {
            "table_key": self.table_key,
            "bytes_removed": self.bytes_removed,
            "old_versions_removed": self.old_versions_removed,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class CleanupResult:
    """The result of a cleanup or, with `confirm` unset, of its preview."""

    keep_versions: int | None
    older_than_secs: float | None
    confirm: bool
    tables: tuple[CleanedTable, ...]
    reclaimed: tuple[str, ...] = ()
    """Forks, folders and files that nothing referred to."""

    def wire(self) -> dict[str, object]:
        return {
            "keep_versions": self.keep_versions,
            "older_than_secs": self.older_than_secs,
            "confirm": self.confirm,
            "tables": [table.wire() for table in self.tables],
            "reclaimed": list(self.reclaimed),
        }


@dataclass(frozen=True, slots=True)
class VerifyFinding:
    """One problem found by verify."""

    check: str
    message: str
    branch: str | None = None
    table_key: str | None = None
    file: str | None = None
    """The file that is damaged, relative to the root."""
    rows: int | None = None
    """How many rows are in it."""
    commits: tuple[str, ...] = ()
    """The commits of the branch that show it, newest first."""

    def wire(self) -> dict[str, object]:
        body: dict[str, object] = {
            "check": self.check,
            "branch": self.branch,
            "table_key": self.table_key,
            "message": self.message,
        }
        if self.file is not None:
            body |= {"file": self.file, "rows": self.rows, "commits": list(self.commits)}
        return body


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The problems of a graph, and notes that need no action."""

    deep: bool
    findings: tuple[VerifyFinding, ...]
    notes: tuple[VerifyFinding, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        return not self.findings

    def wire(self) -> dict[str, object]:
        return {
            "deep": self.deep,
            "sound": self.is_sound,
            "findings": [one.wire() for one in self.findings],
            "notes": [one.wire() for one in self.notes],
            "checked": dict(self.checked),
        }
