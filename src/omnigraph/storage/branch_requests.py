"""Records of branch requests under an idempotency key.

A branch is created, renamed or deleted outside of any commit, so the request is recorded beside the
branches: before its first effect with the plan, and afterwards with its result.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from omnigraph.errors import OutcomeUnknown
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import REQUESTS, make_request_path
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.sealed_records import NamedRecords, create_logged, remove_logged

KEPT = 10_000
"""So many of them stay; cleanup removes the oldest beyond."""
_WITHDRAWN = "withdrawn"
"""Among what is planned: it was refused, and the key may be used as if it never had been."""
_TRIES = 8


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request under an idempotency key; without an answer it may not have been done."""

    name: str
    key: str
    operation: str
    digest: str
    actor_id: str | None
    created_at: int
    planned: dict[str, str] = field(default_factory=dict)
    """What tells the thing that is made or removed from another of the same name."""
    answer: dict[str, object] | None = None

    @property
    def is_withdrawn(self) -> bool:
        return self.answer is None and _WITHDRAWN in self.planned


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """A record as it was read, and the tag by which it is replaced."""

    record: RequestRecord
    tag: str


REQUEST_RECORDS = NamedRecords("request", REQUESTS, make_request_path, RequestRecord)


def name_request(key: str, actor_id: str | None) -> str:
    """The name of the record: keys of different actors have nothing to do with each other."""
    who = b"" if actor_id is None else b"\1" + actor_id.encode()
    return hashlib.sha256(who + b"\0" + key.encode()).hexdigest()


def find_request(store: ObjectStore, key: str, actor_id: str | None) -> RequestRecord | None:
    return REQUEST_RECORDS.find(store, name_request(key, actor_id))


def find_known_request(store: ObjectStore, name: str) -> KnownRequest | None:
    """The record of this name, to be replaced."""
    found = store.find_versioned(make_request_path(name))
    if found is None:
        return None
    return KnownRequest(REQUEST_RECORDS.decode(found.data, name), found.tag)


def begin_request(
    store: ObjectStore, record: RequestRecord, known: KnownRequest | None = None
) -> bool:
    """Note what is about to be done, over what is known of the request.

    False where somebody else has begun it, or gone on with it, meanwhile.
    """
    path, data = make_request_path(record.name), REQUEST_RECORDS.encode(record)
    if known is None:
        return create_logged(store, path, data)
    return store.put_if_match(path, data, known.tag)


def finish_request(store: ObjectStore, record: RequestRecord) -> None:
    """Note the answer, unless there is one, or the key was used for something else since."""
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
    """Note that it was refused, unless somebody else has gone on with it.

    The record stays: by the time it were removed it might hold the answer of another.
    """
    known = find_known_request(root.store, record.name)
    if known is not None and known.record == record:
        planned = {**record.planned, _WITHDRAWN: root.ids.next()}
        begin_request(root.store, replace(record, planned=planned), known)


def forget_old_requests(root: GraphRoot, kept: int = KEPT) -> int:
    """Remove the oldest records beyond those that stay; gives how many."""
    if len(REQUEST_RECORDS.list_names(root.store)) <= kept:
        return 0
    found = sorted(REQUEST_RECORDS.list_all(root.store), key=lambda one: one.created_at)
    old = found[: max(0, len(found) - kept)]
    remove_logged(root.store, *(make_request_path(record.name) for record in old))
    return len(old)
