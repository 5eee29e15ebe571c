"""Write plans: what a write changes, what it requires, and the commit it records.

A plan is made once, when a write is prepared. Its encoding is the intent, which is stored before
the first effect and removed after the publish. Writer and recovery publish the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import (
    BranchName,
    CommitId,
    EntityKind,
    OperationId,
    TableIdentity,
    TableKey,
)
from omnigraph.storage.layout import RECOVERY, find_operation, make_intent_path, make_table_path
from omnigraph.storage.manifest.commit_records import CommitMetadata, CommitRecord, RecoveryAudit
from omnigraph.storage.manifest.manifest_changes import (
    ExactHead,
    Publication,
    SchemaChange,
    SetVersion,
)
from omnigraph.storage.manifest.manifest_state import ManifestState
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.sealed_records import require_seal, seal
from omnigraph.storage.tables.location import is_flat_name
from omnigraph.struct_decoding import decode_into

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
    """One table to move: its base version, branch and transaction.

    A fork is a branch of the table that was created for this write and is unreferenced.
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
    """The changes of a write to the tables of the graph."""

    moved: tuple[TableMove, ...] = ()
    adopted: tuple[SetVersion, ...] = ()
    """Existing versions that the branch shows from then on."""
    schema: SchemaChange | None = None
    """The new schema of the branch, with created, dropped and renamed tables."""

    @property
    def shown(self) -> tuple[TableMove | SetVersion, ...]:
        """The shown tables whose version changes."""
        return (*self.moved, *self.adopted)

    @property
    def concerned(self) -> frozenset[TableIdentity]:
        """The tables that must not move before the write is published."""
        shown = frozenset(one.identity for one in self.shown)
        return shown | self.schema.concerned if self.schema else shown


class WriteRequirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of a write, true when it was prepared and checked when it is published."""

    graph: str
    """The identity of the graph."""
    root: str
    """The identity of the store of the graph when the write began."""
    branch: BranchName
    incarnation: str | None
    own_head: CommitId | None
    """The newest commit authored on the branch itself."""
    contract_hash: str
    """The hash of the schema contract."""
    expected_head: CommitId | None = None
    """The head that the caller expects."""
    source_branch: BranchName | None = None
    """The branch that a merge merges."""
    sole_branch: bool = False
    """True if there must be no other branch."""


class WritePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole write: table changes, requirements and the metadata of its commit."""

    operation_id: OperationId
    rollback_commit_id: CommitId
    """The commit that records a rollback."""
    writer_kind: WriterKind
    changes: TableChanges
    requires: WriteRequirements
    commit: CommitMetadata
    records_commit: bool = True
    """False for maintenance that adds no commit to the history."""
    history: tuple[CommitRecord, ...] = ()
    """Commits of the merged branch that become visible on this one."""

    @property
    def recorded_commit(self) -> CommitMetadata | None:
        """The commit that the publish adds; None if there is none."""
        return self.commit if self.records_commit else None

    def make_publication(
        self,
        state: ManifestState,
        moved: tuple[SetVersion, ...],
        audits: tuple[RecoveryAudit, ...] = (),
    ) -> Publication:
        """Build the publication of the plan, once its tables are at their new versions."""
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


# --- intents ------------------------------------------------------------------------------------

FORMAT = 4
"""The only format; a newer one is refused by number, an older one was never released."""


def encode_intent(plan: WritePlan) -> bytes:
    body = {"schema_version": FORMAT, **msgspec.to_builtins(plan)}
    return msgspec.json.format(msgspec.json.encode(seal(body)), indent=2)


def decode_intent(data: bytes, path: str) -> WritePlan:
    """Return the plan in a file, or raise; the file is not changed."""
    _check_format(data, path)
    try:
        plan = decode_into(data, WritePlan)
    except msgspec.ValidationError as error:
        raise ManifestCorrupt(f"{path} is not a complete intent: {error}") from error
    _check_shape(plan, path)
    for table in plan.changes.moved:
        _check_table(table, path)
    return plan


def _check_format(data: bytes, path: str) -> None:
    """Raise unless the format of an intent is known; check this before any other member."""
    try:
        body = msgspec.json.decode(data)
        version = body["schema_version"]
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ManifestCorrupt(
            f"{path} is not an intent: {error!r}; quarantine it to continue"
        ) from error
    if type(version) is int and version > FORMAT:
        raise ManifestCorrupt(
            f"{path} has format {version}, newer than the maximum {FORMAT} this build knows; "
            "upgrade omnigraph"
        )
    if type(version) is not int or version != FORMAT:
        raise ManifestCorrupt(f"{path} has the unknown format {version!r}")
    members = ("schema_version", *WritePlan.__struct_fields__)
    require_seal(body, path, members, "quarantine it to continue")


def _check_shape(plan: WritePlan, path: str) -> None:
    if path != make_intent_path(plan.operation_id):
        raise ManifestCorrupt(f"{path} holds the intent of {plan.operation_id}")
    if plan.commit.commit_id == plan.rollback_commit_id:
        raise ManifestCorrupt(f"{path} uses one commit id for both outcomes")
    shown = plan.changes.shown
    identities, keys = {one.identity for one in shown}, {one.table_key for one in shown}
    if len(identities) != len(shown) or len(keys) != len(shown):
        raise ManifestCorrupt(f"{path} names a table twice")


def _check_table(table: TableMove, path: str) -> None:
    kind, _, name = table.table_key.partition(":")
    if kind not in tuple(EntityKind) or not name:
        raise ManifestCorrupt(f"{path} has the malformed table name {table.table_key!r}")
    if table.path != make_table_path(EntityKind(kind), table.identity):
        raise ManifestCorrupt(f"{path} places {table.table_key} at {table.path}")
    if table.branch is not None and not is_flat_name(table.branch):
        raise ManifestCorrupt(f"{path} names {table.branch!r}, which is not a Lance branch")
    if table.branch is None and table.is_fork:
        raise ManifestCorrupt(f"{path} has a fork of {table.table_key} that is not a branch")
    if table.base_version < 1:
        raise ManifestCorrupt(f"{path} starts {table.table_key} at version {table.base_version}")


def write_intent(store: ObjectStore, plan: WritePlan) -> None:
    store.put(make_intent_path(plan.operation_id), encode_intent(plan))


def delete_intent(store: ObjectStore, operation: OperationId, *, durably: bool = True) -> None:
    store.delete(make_intent_path(operation), durably=durably)


def list_operations(store: ObjectStore) -> list[OperationId]:
    """Return the operations with an intent, oldest first; ignore other files."""
    found = (find_operation(name) for name in store.list(RECOVERY))
    return sorted(operation for operation in found if operation is not None)


def list_pending_intents(store: ObjectStore) -> Iterator[WritePlan]:
    """Yield every pending write, oldest first; skip those resolved meanwhile."""
    for operation in list_operations(store):
        path = make_intent_path(operation)
        data = store.find(path)
        if data is not None:
            yield decode_intent(data, path)
