"""Requests about branches that are carried out once, however often they are sent.

They make no commit that could keep their key, so a record beside the branches does. It is there
before anything is done, and says how to recognise that it was done: by the id of the branch, which
no other branch of the same name shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import msgspec

from omnigraph.errors import IdempotencyKeyReused, OmniError, OutcomeUnknown
from omnigraph.graph.keyed_writes import WriteKey
from omnigraph.storage.request_records import (
    RequestRecord,
    begin_request,
    find_request,
    finish_request,
    forget_request,
    name_request,
)
from omnigraph.storage.root import GraphRoot
from omnigraph.typed_reading import convert_into

T = TypeVar("T")
Planned = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BranchRequest(Generic[T]):
    """Something to be done with a branch."""

    kind: type[T]
    """Of what it gives."""
    plan: Callable[[], dict[str, str]]
    """What tells the branch from others of its name."""
    perform: Callable[[Planned], T]
    find_done: Callable[[Planned], T | None]
    """What it gave, if it was done; None if not."""


def do_once(root: GraphRoot, key: WriteKey, request: BranchRequest[T]) -> tuple[T, bool]:
    """Carry out a request, or find what it gave before; tells whether it was found.

    Raises:
        IdempotencyKeyReused: something else was asked for under this key.
    """
    while True:
        known = _find(root, key)
        if known is None:
            record = _make_record(root, key, request.plan())
            if begin_request(root.store, record):
                return _perform(root, record, request)
            continue  # the same was begun elsewhere meanwhile
        if known.answer is not None:
            return convert_into(known.answer, request.kind), True
        return _resume(root, known, request)


def _find(root: GraphRoot, key: WriteKey) -> RequestRecord | None:
    known = find_request(root.store, key.key, key.actor)
    if known is not None and known.digest != key.digest:
        raise IdempotencyKeyReused(key.key)
    return known


def _make_record(root: GraphRoot, key: WriteKey, planned: dict[str, str]) -> RequestRecord:
    return RequestRecord(
        name=name_request(key.key, key.actor),
        key=key.key,
        operation=key.operation,
        digest=key.digest,
        actor_id=key.actor,
        created_at=root.now_us(),
        planned=planned,
    )


def _perform(root: GraphRoot, record: RequestRecord, request: BranchRequest[T]) -> tuple[T, bool]:
    """Do what was just begun; whoever found it begun may be doing it as well, and be first."""
    try:
        return _perform_or_find(root, record, request)
    except OutcomeUnknown:
        raise
    except OmniError:
        forget_request(root.store, record)  # it was refused, and may be asked for again
        raise


def _resume(root: GraphRoot, record: RequestRecord, request: BranchRequest[T]) -> tuple[T, bool]:
    """Go on with what was interrupted, or is being done elsewhere at this moment."""
    done = request.find_done(record.planned)
    if done is None:
        return _perform_or_find(root, record, request)
    _finish(root, record, done)
    return done, True


def _perform_or_find(
    root: GraphRoot, record: RequestRecord, request: BranchRequest[T]
) -> tuple[T, bool]:
    found = None
    try:
        done = request.perform(record.planned)
    except OmniError:
        found = request.find_done(record.planned)
        if found is None:
            raise
        done = found
    _finish(root, record, done)
    return done, found is not None


def _finish(root: GraphRoot, record: RequestRecord, done: object) -> None:
    finish_request(root.store, replace(record, answer=msgspec.to_builtins(done)))
