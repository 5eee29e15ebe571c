"""Requests about branches that are carried out once, however often they are sent.

They make no commit that could keep their key, so a record beside the branches does. It is there
before anything is done, and says how to recognise that it was done: by the id of the branch, which
no other branch of the same name shares.

Whoever is at a request may fall asleep and come late, while it is sent again. So a branch that was
begun is not gone on with: another attempt makes another one, and notes its id first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import msgspec

from omnigraph.errors import IdempotencyKeyReused, OmniError, OutcomeUnknown
from omnigraph.graph.keyed_writes import WriteKey
from omnigraph.storage.request_records import (
    KnownRequest,
    RequestRecord,
    begin_request,
    find_known_request,
    finish_request,
    name_request,
    withdraw_request,
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
    plan_again: Callable[[Planned], dict[str, str]] = dict
    """What another attempt goes by, if it was not."""


def do_once(root: GraphRoot, key: WriteKey, request: BranchRequest[T]) -> tuple[T, bool]:
    """Carry out a request, or find what it gave before; tells whether it was found.

    Raises:
        IdempotencyKeyReused: something else was asked for under this key.
    """
    while True:
        known = _find(root, key)
        if known is None or known.record.is_withdrawn:
            record = _make_record(root, key, request.plan())
            if begin_request(root.store, record, known):
                return _perform(root, record, request)
            continue  # the same was begun elsewhere meanwhile
        done = _find_done(known.record, request)
        if done is not None:
            _finish(root, known.record, done)
            return done, True
        # It was interrupted, or is being done elsewhere at this moment.
        record = replace(known.record, planned=request.plan_again(known.record.planned))
        if record == known.record or begin_request(root.store, record, known):
            return _perform_or_find(root, record, request)


def _find(root: GraphRoot, key: WriteKey) -> KnownRequest | None:
    known = find_known_request(root.store, name_request(key.key, key.actor))
    is_used = known is not None and not known.record.is_withdrawn
    if known is not None and is_used and known.record.digest != key.digest:
        raise IdempotencyKeyReused(key.key)
    return known


def _find_done(record: RequestRecord, request: BranchRequest[T]) -> T | None:
    if record.answer is not None:
        return convert_into(record.answer, request.kind)
    return request.find_done(record.planned)


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
        with suppress(OmniError):  # what is still there is gone on with
            withdraw_request(root, record)  # it was refused, and may be asked for again
        raise


def _perform_or_find(
    root: GraphRoot, record: RequestRecord, request: BranchRequest[T]
) -> tuple[T, bool]:
    found = None
    try:
        done = request.perform(record.planned)
    except OmniError:
        found = _find_done(_read_again(root, record), request)
        if found is None:
            raise
        done = found
    _finish(root, record, done)
    return done, found is not None


def _read_again(root: GraphRoot, record: RequestRecord) -> RequestRecord:
    """What is known of the same request by now; another may be at it."""
    known = find_known_request(root.store, record.name)
    return known.record if known and known.record.digest == record.digest else record


def _finish(root: GraphRoot, record: RequestRecord, done: object) -> None:
    finish_request(root.store, replace(record, answer=msgspec.to_builtins(done)))
