"""What a write sets out to do, written down before its first effect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import (
    BranchName,
    CommitId,
    EntityKind,
    IncarnationId,
    OperationId,
    TableIdentity,
    TableKey,
    TypeId,
)
from omnigraph.storage.layout import RECOVERY, find_operation, intent_path, table_path
from omnigraph.storage.objects.store import ObjectStore

FORMAT = 1

OPERATION_PROPERTY = "omnigraph.operation_id"
"""The transaction property that names the intent a table version belongs to."""
EPOCH_PROPERTY = "omnigraph.epoch"


class WriterKind(StrEnum):
    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"


@dataclass(frozen=True, slots=True)
class TableIntent:
    """One table to move: from which version, on which of its branches, by which transaction.

    A fork is a branch of the table made for this write and named by nobody else yet.
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

    @property
    def table_keys(self) -> tuple[TableKey, ...]:
        return tuple(table.table_key for table in self.tables)


def encode_intent(intent: Intent) -> bytes:
    return json.dumps({"schema_version": FORMAT, **asdict(intent)}, indent=2).encode()


def decode_intent(data: bytes, path: str, root: str) -> Intent:
    """The intent in a file; anything else there is refused, and stays where it is."""
    try:
        body = json.loads(data)
        version = body["schema_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ManifestCorrupt(f"{path} is no intent: {error}; set it aside to go on") from error
    if not isinstance(version, int) or version > FORMAT:
        raise ManifestCorrupt(
            f"{path} has format {version}, newer than the maximum {FORMAT} this build knows; "
            "upgrade omnigraph"
        )
    try:
        intent = _intent(body)
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestCorrupt(f"{path} is no complete intent: {error!r}") from error
    _check_shape(intent, path, root)
    return intent


def _intent(body: Mapping[str, object]) -> Intent:
    tables = body["tables"]
    if not isinstance(tables, list):
        raise TypeError("tables is no list")
    own_head, actor_id = body["own_head"], body["actor_id"]
    incarnation = body["incarnation"]
    return Intent(
        operation_id=OperationId(str(body["operation_id"])),
        root=str(body["root"]),
        writer_kind=WriterKind(str(body["writer_kind"])),
        branch=BranchName(str(body["branch"])),
        incarnation=None if incarnation is None else str(incarnation),
        tables=tuple(_table(one) for one in tables),
        commit_id=CommitId(str(body["commit_id"])),
        rollback_commit_id=CommitId(str(body["rollback_commit_id"])),
        actor_id=None if actor_id is None else str(actor_id),
        created_at=_number(body["created_at"]),
        own_head=None if own_head is None else CommitId(str(own_head)),
        contract_hash=str(body["contract_hash"]),
    )


def _table(one: Mapping[str, object]) -> TableIntent:
    identity = one["identity"]
    if not isinstance(identity, dict):
        raise TypeError("a table has no identity")
    branch = one["branch"]
    return TableIntent(
        identity=TableIdentity(
            TypeId(_number(identity["stable_table_id"])),
            IncarnationId(_number(identity["table_incarnation_id"])),
        ),
        table_key=TableKey(str(one["table_key"])),
        path=str(one["path"]),
        branch=None if branch is None else str(branch),
        base_version=_number(one["base_version"]),
        transaction=str(one["transaction"]),
        is_fork=bool(one["is_fork"]),
    )


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no number")
    return value


def _check_shape(intent: Intent, path: str, root: str) -> None:
    if path != intent_path(intent.operation_id):
        raise ManifestCorrupt(f"{path} holds the intent of {intent.operation_id}")
    if intent.root != root:
        raise ManifestCorrupt(f"{path} belongs to another graph root, {intent.root}")
    if intent.commit_id == intent.rollback_commit_id:
        raise ManifestCorrupt(f"{path} uses one commit id for both outcomes")
    identities = [table.identity for table in intent.tables]
    if len(set(identities)) != len(identities) or len(set(intent.table_keys)) != len(identities):
        raise ManifestCorrupt(f"{path} names a table twice")
    for table in intent.tables:
        kind = table.table_key.partition(":")[0]
        if kind not in tuple(EntityKind) or table.path != table_path(
            EntityKind(kind), table.identity
        ):
            raise ManifestCorrupt(f"{path} places {table.table_key} at {table.path}")


def write_intent(store: ObjectStore, intent: Intent) -> None:
    store.put(intent_path(intent.operation_id), encode_intent(intent))


def delete_intent(store: ObjectStore, operation: OperationId) -> None:
    store.delete(intent_path(operation))


def list_operations(store: ObjectStore) -> list[OperationId]:
    """The operations with an intent, oldest first; other files are ignored."""
    found = (find_operation(name) for name in store.list(RECOVERY))
    return sorted(operation for operation in found if operation is not None)


def pending_intents(store: ObjectStore) -> Iterator[Intent]:
    """Every pending intent, oldest first; one that vanishes while we look is settled already."""
    for operation in list_operations(store):
        path = intent_path(operation)
        data = store.find(path)
        if data is not None:
            yield decode_intent(data, path, store.identity)
