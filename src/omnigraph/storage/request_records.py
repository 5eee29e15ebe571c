"""Requests with an idempotency key that make no commit: creating, renaming, deleting a branch.

A commit keeps the key of the request that made it. These leave a small object instead, twice: what
is about to be done, so that it can be recognised after a crash, and then the answer.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from omnigraph.storage.layout import REQUESTS, make_request_path
from omnigraph.storage.named_records import NamedRecords
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.record_log import create_logged, remove_logged
from omnigraph.storage.root import GraphRoot

KEPT = 10_000
"""So many of them stay; cleanup removes the oldest beyond."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """What an actor asked for under a key; without an answer it may not have been done."""

    name: str
    key: str
    operation: str
    digest: str
    actor_id: str | None
    created_at: int
    planned: dict[str, str] = field(default_factory=dict)
    """What tells the thing that is made or removed from another of the same name."""
    answer: dict[str, object] | None = None


REQUEST_RECORDS = NamedRecords("request", REQUESTS, make_request_path, RequestRecord)


def name_request(key: str, actor_id: str | None) -> str:
    """The name of the record: keys of different actors have nothing to do with each other."""
    who = b"" if actor_id is None else b"\1" + actor_id.encode()
    return hashlib.sha256(who + b"\0" + key.encode()).hexdigest()


def find_request(store: ObjectStore, key: str, actor_id: str | None) -> RequestRecord | None:
    return REQUEST_RECORDS.find(store, name_request(key, actor_id))


def begin_request(store: ObjectStore, record: RequestRecord) -> bool:
    """Note what is about to be done; False where somebody else has begun the same."""
    return create_logged(store, make_request_path(record.name), REQUEST_RECORDS.encode(record))


def finish_request(store: ObjectStore, record: RequestRecord) -> None:
    """Note the answer."""
    store.put(make_request_path(record.name), REQUEST_RECORDS.encode(record))


def forget_request(store: ObjectStore, record: RequestRecord) -> None:
    """Remove the note of something that was refused."""
    remove_logged(store, make_request_path(record.name))


def forget_old_requests(root: GraphRoot, kept: int = KEPT) -> int:
    """Remove the oldest records beyond those that stay; gives how many."""
    if len(REQUEST_RECORDS.list_names(root.store)) <= kept:
        return 0
    found = sorted(REQUEST_RECORDS.list_all(root.store), key=lambda one: one.created_at)
    old = found[: max(0, len(found) - kept)]
    remove_logged(root.store, *(make_request_path(record.name) for record in old))
    return len(old)
