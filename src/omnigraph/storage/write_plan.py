"""Write plans: what a write changes, what it requires, and the commit it records.

A plan is made once, when a write is prepared. Its encoding is the intent, and its publication is
the same whether the writer makes it or recovery.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from omnigraph.identity import BranchName, CommitId, OperationId, TableIdentity, TableKey
from omnigraph.storage.manifest.commits import CommitMetadata, CommitRecord, RecoveryAudit
from omnigraph.storage.manifest.manifest_changes import (
    ExactHead,
    Publication,
    SchemaChange,
    SetVersion,
)
from omnigraph.storage.manifest.manifest_state import ManifestState

OPERATION_PROPERTY = "omnigraph.operation_id"
"""The transaction property that names the write a table version belongs to."""


class WriterKind(StrEnum):
    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    REVERT = "Revert"
    CHERRY_PICK = "CherryPick"
    RESTORE = "Restore"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"

    @property
    def commit_kind(self) -> str:
        """The kind recorded with the commit: `load`, `schema_apply`."""
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in self.value).lstrip("_")


class TableMove(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table to move: from which version, on which of its branches, by which transaction.

    A fork is a branch of the table made for this write and not named anywhere else yet.
    """

    identity: TableIdentity
    table_key: TableKey
    path: str
    branch: str | None
    base_version: int
    transaction: str
    is_fork: bool

    @property
    def target_version(self) -> int:
        return self.base_version + 1

    def show(self, version: int, row_count: int, owner: str | None) -> SetVersion:
        """Return the change that shows a version of the table."""
        return SetVersion(self.identity, self.table_key, version, self.branch, row_count, owner)


class TableChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of the tables of the graph."""

    moved: tuple[TableMove, ...] = ()
    adopted: tuple[SetVersion, ...] = ()
    """Versions that are there already and that the branch shows from then on."""
    schema: SchemaChange | None = None
    """Another schema for the branch, with the tables that come, go or get another name."""

    @property
    def shown(self) -> tuple[TableMove | SetVersion, ...]:
        """The tables that the branch shows already, and shows at another version afterwards."""
        return (*self.moved, *self.adopted)

    @property
    def concerned(self) -> frozenset[TableIdentity]:
        """The tables that must not have moved before the write is published."""
        shown = frozenset(one.identity for one in self.shown)
        return shown | self.schema.concerned if self.schema else shown


class WriteRequirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must hold when a write is published, as it did when the write was prepared."""

    graph: str
    """The identity that the graph got when it was created."""
    root: str
    """Where the graph was when the write began."""
    branch: BranchName
    incarnation: str | None
    own_head: CommitId | None
    """The newest commit authored on the branch itself."""
    contract_hash: str
    """A witness of the schema."""
    expected_head: CommitId | None = None
    """The head that the caller insists on."""
    source_branch: BranchName | None = None
    """The branch that a merge brings in."""
    sole_branch: bool = False
    """Whether there must be no other branch."""


class WritePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole write: table changes, requirements and the metadata of its commit."""

    operation_id: OperationId
    rollback_commit_id: CommitId
    """The commit that records that it was undone, if it comes to that."""
    writer_kind: WriterKind
    changes: TableChanges
    requires: WriteRequirements
    commit: CommitMetadata
    records_commit: bool = True
    """Whether the history gets the commit; maintenance may do without."""
    history: tuple[CommitRecord, ...] = ()
    """Commits of another branch that become visible here, because a merge brings them in."""

    @property
    def recorded_commit(self) -> CommitMetadata | None:
        """The commit that publishing adds; None if it adds none."""
        return self.commit if self.records_commit else None

    def make_publication(
        self,
        state: ManifestState,
        moved: tuple[SetVersion, ...],
        audits: tuple[RecoveryAudit, ...] = (),
    ) -> Publication:
        """Return the publish of the plan on a state, once its tables are at their new versions."""
        schema = self.changes.schema
        if schema is not None:
            moved = tuple(schema.rename(one) for one in moved)
        return Publication(
            changes=(*(schema.changes if schema else ()), *moved, *self.changes.adopted),
            expected=state.list_pins(self.changes.concerned),
            head=ExactHead(self.requires.own_head),
            commit=self.recorded_commit,
            audits=audits,
            contract=schema.contract if schema else None,
            history=self.history,
        )
