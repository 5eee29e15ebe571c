"""Intents: the plans of writes, stored before their first effect."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import EntityKind, OperationId
from omnigraph.storage.layout import RECOVERY, find_operation, make_intent_path, make_table_path
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.sealed_records import require_seal, seal
from omnigraph.storage.tables.location import is_flat_name
from omnigraph.storage.write_plan import TableMove, WritePlan
from omnigraph.typed_reading import decode_into

FORMAT = 4
"""The one format there is; a newer one is refused by number, an older one was never released."""


def encode_intent(plan: WritePlan) -> bytes:
    body = {"schema_version": FORMAT, **msgspec.to_builtins(plan)}
    return msgspec.json.format(msgspec.json.encode(seal(body)), indent=2)


def decode_intent(data: bytes, path: str) -> WritePlan:
    """Return the plan in a file; anything else there is refused, and stays where it is."""
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
    """The operations with an intent, oldest first; other files are ignored."""
    found = (find_operation(name) for name in store.list(RECOVERY))
    return sorted(operation for operation in found if operation is not None)


def list_pending_intents(store: ObjectStore) -> Iterator[WritePlan]:
    """Every pending write, oldest first; one that vanishes while we look is resolved already."""
    for operation in list_operations(store):
        path = make_intent_path(operation)
        data = store.find(path)
        if data is not None:
            yield decode_intent(data, path)
