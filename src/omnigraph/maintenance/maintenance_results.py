"""Results of maintenance; field names are those of the JSON on every surface."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from omnigraph.result import Result
from omnigraph.wire.commit_results import Commit

MANIFEST_KEY = "__manifest"
"""The name of the manifest among the tables."""


class Skip(StrEnum):
    """The reason a table was skipped."""

    DRIFT_NEEDS_REPAIR = "drift_needs_repair"


class PendingIndex(Result, frozen=True):
    """A declared index that cannot be built yet."""

    table_key: str
    property: str
    reason: str


class OptimizedTable(Result, frozen=True, omit_defaults=False):
    """The result of optimizing one table; versions are given only for a skipped table."""

    table_key: str
    fragments_removed: int = 0
    fragments_added: int = 0
    committed: bool = False
    skipped: Skip | None = None
    manifest_version: int | None = None
    lance_head_version: int | None = None
    pending_indexes: tuple[PendingIndex, ...] = ()


class OptimizeResult(Result, frozen=True):
    """The result for every table, and the one commit, if anything changed."""

    attributes: ClassVar[tuple[str, ...]] = ("commit",)

    branch: str
    tables: tuple[OptimizedTable, ...]
    commit_id: str | None = msgspec.field(name="graph_commit_id")
    commit: Commit | None = None

    @property
    def pending_indexes(self) -> tuple[PendingIndex, ...]:
        return tuple(one for table in self.tables for one in table.pending_indexes)


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


class RepairedTable(Result, frozen=True, omit_defaults=False):
    """The drift of one table, and the action repair took."""

    table_key: str
    classification: Drift
    action: RepairAction
    manifest_version: int
    lance_head_version: int
    operations: tuple[str, ...] = ()
    error: str | None = None


class RepairResult(Result, frozen=True):
    """The result of a repair."""

    confirm: bool
    force: bool
    graph_manifest_version: int
    tables: tuple[RepairedTable, ...]

    @property
    def is_refused(self) -> bool:
        return any(table.action is RepairAction.REFUSED for table in self.tables)


class CleanedTable(Result, frozen=True, omit_defaults=False):
    """Space and versions removed from one table; `error` if not everything could be."""

    table_key: str
    bytes_removed: int = 0
    old_versions_removed: int = 0
    error: str | None = None


class CleanupResult(Result, frozen=True, omit_defaults=False):
    """The result of a cleanup or, with `confirm` unset, of its preview."""

    keep_versions: int | None
    older_than_secs: float | None
    confirm: bool
    tables: tuple[CleanedTable, ...]
    reclaimed: tuple[str, ...] = ()
    """Forks, folders and files that nothing referred to."""


class VerifyFinding(Result, frozen=True):
    """One problem found by verify."""

    check: str
    branch: str | None
    table_key: str | None
    message: str
    file: str | None = None
    """The file that is damaged, relative to the root."""
    rows: int | None = None
    """How many rows are in it."""
    shown_by: tuple[str, ...] | UnsetType = msgspec.field(default=UNSET, name="commits")

    @property
    def commits(self) -> tuple[str, ...]:
        """The commits of the branch that show the damaged file, newest first."""
        return () if isinstance(self.shown_by, UnsetType) else self.shown_by


class VerifyResult(Result, frozen=True):
    """The problems of a graph, and notes that need no action."""

    deep: bool
    is_sound: bool = msgspec.field(name="sound")
    findings: tuple[VerifyFinding, ...]
    notes: tuple[VerifyFinding, ...]
    checked: Mapping[str, int]
