"""Intents: what a write is about to do, recorded before its first effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

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
from omnigraph.storage.manifest.commits import Commit, CommitMetadata, MergedState, RowCounts
from omnigraph.storage.manifest.manifest_changes import SchemaChange, SetVersion
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.sealed_records import require_seal, seal
from omnigraph.storage.tables.location import is_flat_name
from omnigraph.typed_reading import decode_into

FORMAT = 3
MERGE_FORMAT = 2
"""The format of an intent that changes no schema."""
PLAIN_FORMAT = 1
"""The format of an intent that needs none of what came later; earlier builds can resolve it."""

OPERATION_PROPERTY = "omnigraph.operation_id"
"""The transaction property that names the intent a table version belongs to."""
EPOCH_PROPERTY = "omnigraph.epoch"


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


@dataclass(frozen=True, slots=True)
class TableIntent:
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


@dataclass(frozen=True, slots=True)
class Intent:
    """The whole write: its tables, the commit it will become, and what it was prepared on."""

    operation_id: OperationId
    root: str
    """Where the graph was when the write began."""
    writer_kind: WriterKind
    branch: BranchName
    incarnation: str | None
    tables: tuple[TableIntent, ...]
    commit_id: CommitId
    rollback_commit_id: CommitId
    actor_id: str | None
    created_at: int
    own_head: CommitId | None
    contract_hash: str
    records_commit: bool = True
    """Whether publishing it adds a commit; maintenance need not."""
    origin: str | None = None
    """What the writer calls the change, for the commit."""
    merged_parent_commit_id: CommitId | None = None
    details: dict[str, Any] = field(default_factory=dict)
    """What else the commit records."""
    graph: str = ""
    """What the graph was given when it was created; nothing in intents of earlier builds."""
    adopted: tuple[SetVersion, ...] = ()
    """Versions that are there already and that the graph shows together with the tables."""
    merged: MergedState | None = None
    """What a merge brings in, for the commit."""
    history: tuple[Commit, ...] = ()
    """The commits a merge makes visible."""
    schema: SchemaChange | None = None
    """The schema the graph has from then on, if it is another one."""
    counts: tuple[RowCounts, ...] = ()
    """How many rows of which tables change, for the commit; none in intents of earlier builds."""

    @property
    def table_keys(self) -> tuple[TableKey, ...]:
        return tuple(table.table_key for table in self.tables)

    @property
    def new_commit(self) -> CommitMetadata | None:
        """The commit that publishing the write adds; None if it adds none."""
        if not self.records_commit:
            return None
        return CommitMetadata(
            commit_id=self.commit_id,
            actor_id=self.actor_id,
            created_at=self.created_at,
            merged_parent_commit_id=self.merged_parent_commit_id,
            origin=self.origin,
            details=self.details,
            merged=self.merged,
            kind=self.writer_kind.commit_kind,
            tables=self.counts,
        )

    @property
    def format(self) -> int:
        """The earliest format that says all of it."""
        if self.schema is not None:
            return FORMAT
        is_plain = not (self.merged_parent_commit_id or self.details or self.adopted)
        return PLAIN_FORMAT if is_plain else MERGE_FORMAT


def encode_intent(intent: Intent) -> bytes:
    body = {"schema_version": intent.format, **msgspec.to_builtins(intent)}
    return msgspec.json.format(msgspec.json.encode(seal(body)), indent=2)


def decode_intent(data: bytes, path: str) -> Intent:
    """The intent in a file; anything else there is refused, and stays where it is."""
    _check_format(data, path)
    try:
        intent = decode_into(data, Intent)
    except msgspec.ValidationError as error:
        raise ManifestCorrupt(f"{path} is not a complete intent: {error}") from error
    _check_shape(intent, path)
    for table in intent.tables:
        _check_table(table, path)
    return intent


def _check_format(data: bytes, path: str) -> None:
    """Nothing else of an intent may be read before this passed."""
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
    if type(version) is not int or version < PLAIN_FORMAT:
        raise ManifestCorrupt(f"{path} has the unknown format {version!r}")
    members = ("schema_version", *Intent.__slots__)
    require_seal(body, path, members, "quarantine it to continue")


def _check_shape(intent: Intent, path: str) -> None:
    if path != make_intent_path(intent.operation_id):
        raise ManifestCorrupt(f"{path} holds the intent of {intent.operation_id}")
    if intent.commit_id == intent.rollback_commit_id:
        raise ManifestCorrupt(f"{path} uses one commit id for both outcomes")
    shown: list[TableIntent | SetVersion] = [*intent.tables, *intent.adopted]
    identities, keys = {one.identity for one in shown}, {one.table_key for one in shown}
    if len(identities) != len(shown) or len(keys) != len(shown):
        raise ManifestCorrupt(f"{path} names a table twice")


def _check_table(table: TableIntent, path: str) -> None:
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


def write_intent(store: ObjectStore, intent: Intent) -> None:
    store.put(make_intent_path(intent.operation_id), encode_intent(intent))


def delete_intent(store: ObjectStore, operation: OperationId, *, durably: bool = True) -> None:
    store.delete(make_intent_path(operation), durably=durably)


def list_operations(store: ObjectStore) -> list[OperationId]:
    """The operations with an intent, oldest first; other files are ignored."""
    found = (find_operation(name) for name in store.list(RECOVERY))
    return sorted(operation for operation in found if operation is not None)


def list_pending_intents(store: ObjectStore) -> Iterator[Intent]:
    """Every pending intent, oldest first; one that vanishes while we look is resolved already."""
    for operation in list_operations(store):
        path = make_intent_path(operation)
        data = store.find(path)
        if data is not None:
            yield decode_intent(data, path)
