"""Setting aside an intent that cannot be read, so that it no longer stops every writer."""

from __future__ import annotations

from omnigraph.errors import BadRequest, ConflictError, ManifestCorrupt, NotFoundError
from omnigraph.identity import OperationId
from omnigraph.storage.fence.hold import Hold
from omnigraph.storage.layout import make_intent_path, make_quarantined_intent_path
from omnigraph.storage.manifest import TableEntry, read_newest
from omnigraph.storage.recovery.intent import Intent, decode_intent
from omnigraph.storage.recovery.resolve_intents import give_up
from omnigraph.storage.refs import list_refs
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.table import find_latest_version


def quarantine_intent(root: GraphRoot, operation_id: str) -> str:
    """Move the intent of an operation out of the way; gives the place it is kept at.

    Only if that loses nothing: every table it names, or all of them if it cannot be read at all,
    must be where the graph shows it. One that can be read is recorded as abandoned.

    Raises:
        NotFoundError: there is no such intent.
        ConflictError: a table is ahead of the graph; the intent may be what explains it.
    """
    if not operation_id.isalnum():
        raise BadRequest(f"'{operation_id}' is not an operation id")
    operation = OperationId(operation_id)
    path, place = make_intent_path(operation), make_quarantined_intent_path(operation)
    with root.hold() as hold:
        data = root.store.find(path)
        if data is None:
            raise NotFoundError(f"no pending write {operation_id}")
        intent = _decode_if_readable(data, path)
        _require_in_place(root, intent)
        if intent is not None:
            _record_end(root, hold, intent)
        hold.check()
        root.store.put(place, data)
        root.store.delete(path)
    return place


def _decode_if_readable(data: bytes, path: str) -> Intent | None:
    try:
        return decode_intent(data, path)
    except ManifestCorrupt:
        return None


def _record_end(root: GraphRoot, hold: Hold, intent: Intent) -> None:
    """Have it on record that the write is over, for its writer may only be asleep."""
    try:
        give_up(root, hold, intent)
    except ManifestCorrupt:
        return  # of another graph, or the history cannot be read: setting it aside still helps


def _require_in_place(root: GraphRoot, intent: Intent | None) -> None:
    named = None if intent is None else {table.path for table in intent.tables}
    for ref in list_refs(root.store):
        snapshot = Snapshot(root, ref, read_newest(root.manifest(ref.incarnation)))
        for entry in snapshot.entries.values():
            is_own = entry.owner == ref.incarnation
            if is_own and (named is None or entry.path in named):
                _require_at_head(root, entry)


def _require_at_head(root: GraphRoot, entry: TableEntry) -> None:
    head = find_latest_version(root.location(entry.path, entry.owner_branch))
    if head != entry.version:
        raise ConflictError(
            f"{entry.table_key} is at version {head} while the graph shows {entry.version}; the "
            "intent may be what explains it, so it stays"
        )
