"""Records of branch requests under an idempotency key.

A branch is created, renamed or deleted outside of any commit, so the request is recorded beside the
branches: before its first effect with the plan, and afterwards with its result.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from omnigraph.errors import OutcomeUnknown
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import REQUESTS
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.sealed_records import RecordKind, StoredRecord

RETAINED_REQUESTS = 10_000
"""The number of records that cleanup retains: the newest."""
_WITHDRAWN = "withdrawn"
"""The planned member of a request that was refused: the key may be used again."""
_TRIES = 8


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request under an idempotency key; without an answer it may be unfinished."""

    name: str
    key: str
    operation: str
    digest: str
    actor_id: str | None
    created_at: int
    planned: dict[str, str] = field(default_factory=dict)
    """The members that identify the branch among others of its name."""
    answer: dict[str, object] | None = None

    @property
    def is_withdrawn(self) -> bool:
        return self.answer is None and _WITHDRAWN in self.planned


KnownRequest = StoredRecord[RequestRecord]

REQUEST_RECORDS = RecordKind(
    what="the record of a request", type=RequestRecord, base_path=REQUESTS, is_logged=True
)


def name_request(key: str, actor_id: str | None) -> str:
    """Return the name of the record of a key; keys of different actors are unrelated."""
    who = b"" if actor_id is None else b"\1" + actor_id.encode()
    return hashlib.sha256(who + b"\0" + key.encode()).hexdigest()


def find_request(store: ObjectStore, key: str, actor_id: str | None) -> RequestRecord | None:
    return REQUEST_RECORDS.find(store, name_request(key, actor_id))


def find_known_request(store: ObjectStore, name: str) -> KnownRequest | None:
    return REQUEST_RECORDS.find_stored(store, name)


def begin_request(
    store: ObjectStore, record: RequestRecord, known: KnownRequest | None = None
) -> bool:
    """Record the plan of a request in place of the known record.

    Return False if another process has begun or continued the request meanwhile.
    """
    return REQUEST_RECORDS.swap(store, record, known)


def finish_request(store: ObjectStore, record: RequestRecord) -> None:
    """Record the answer, unless there is one, or the key was used for another request since."""
    for tries_left in reversed(range(_TRIES)):
        known = find_known_request(store, record.name)
        is_same = known is None or known.record.digest == record.digest
        if not is_same or (known is not None and known.record.answer is not None):
            return
        try:
            if begin_request(store, record, known):
                return
        except OutcomeUnknown:
            if not tries_left:
                raise


def withdraw_request(root: GraphRoot, record: RequestRecord) -> None:
    """Record that a request was refused, unless another process has continued it.

    The record is not removed: meanwhile it might hold the answer to another process.
    """
    known = find_known_request(root.store, record.name)
    if known is not None and known.record == record:
        planned = {**record.planned, _WITHDRAWN: root.ids.next()}
        begin_request(root.store, replace(record, planned=planned), known)


def remove_old_requests(root: GraphRoot, retained: int = RETAINED_REQUESTS) -> int:
    """Remove the oldest records beyond those to retain; return their number."""
    if len(REQUEST_RECORDS.list_names(root.store)) <= retained:
        return 0
    found = sorted(REQUEST_RECORDS.list_all(root.store), key=lambda one: one.created_at)
    old = found[: max(0, len(found) - retained)]
    REQUEST_RECORDS.remove(root.store, *(record.name for record in old))
    return len(old)
