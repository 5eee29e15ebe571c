"""The writer fence on an object store: a lease that is renewed, expires and is taken over.

`open_fence` chooses between it, the lock of a local disk, and a fence of this process alone. The
lease is no sealed record: it is never removed, a damaged one stops every writer, and a lost
response is resolved by its nonce.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import msgspec

from omnigraph.errors import OutcomeUnknown, StorageError, StorageFailure, StorageKind, WriterBusy
from omnigraph.identity import UlidSource
from omnigraph.settings import FenceMode
from omnigraph.storage.concurrent_calls import read_boot_clock
from omnigraph.storage.layout import WRITER_LEASE
from omnigraph.storage.local_fence import LocalFence, find_exclusion_problem
from omnigraph.storage.objects.object_store import ObjectStore, StoreKind, Versioned
from omnigraph.storage.objects.open_store import supports_put_if_match
from omnigraph.storage.writer_fence import (
    Clock,
    Fence,
    FenceGuard,
    Holder,
    ProcessFence,
    Sleep,
    Turn,
    make_fence_lost,
    take_turn,
)
from omnigraph.struct_decoding import convert_into, decode_into

log = logging.getLogger(__name__)

_VERSION = 1


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of the lease; it is free without a holder.

    The nonce is fresh on every write, so that no two writes have the same tag.
    """

    epoch: int
    holder: Holder | None
    acquired_at: str
    expires_at: str
    term_s: float
    nonce: str

    def encode(self) -> bytes:
        value = {"version": _VERSION, **msgspec.to_builtins(self)}
        return msgspec.json.format(msgspec.json.encode(value))


def decode_lease(data: bytes, uri: str) -> LeaseRecord:
    """Decode the lease.

    Raises:
        StorageFailure: it is damaged or of another format, and so not known to be free.
    """
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = decode_into(data, dict[str, object])
        if value.pop("version", None) == _VERSION:
            return convert_into(value, LeaseRecord)
    raise StorageFailure(
        StorageKind.PERMANENT, f"{uri} is not a writer lease this build understands"
    )


class LeaseObject:
    """The lease object, read and replaced by compare-and-swap."""

    def __init__(
        self,
        store: ObjectStore,
        now: Callable[[], datetime],
        new_nonce: Callable[[], str],
    ) -> None:
        self._store = store
        self._now, self._new_nonce = now, new_nonce

    def find(self) -> tuple[LeaseRecord, str] | None:
        found = self._store.find_versioned(WRITER_LEASE)
        return None if found is None else (self._decode(found), found.tag)

    def _decode(self, found: Versioned) -> LeaseRecord:
        return decode_lease(found.data, self._store.uri_of(WRITER_LEASE))

    def new_record(self, epoch: int, holder: Holder, term_s: float) -> LeaseRecord:
        now = self._now()
        return LeaseRecord(
            epoch, holder, _format_time(now), self._end(now, term_s), term_s, self._new_nonce()
        )

    def make_renewed(self, record: LeaseRecord) -> LeaseRecord:
        end = self._end(self._now(), record.term_s)
        return replace(record, expires_at=end, nonce=self._new_nonce())

    def make_freed(self, record: LeaseRecord) -> LeaseRecord:
        return replace(
            record, holder=None, expires_at=_format_time(self._now()), nonce=self._new_nonce()
        )

    def _end(self, now: datetime, term_s: float) -> str:
        return _format_time(now + timedelta(seconds=term_s))

    def write(self, record: LeaseRecord, *, over: str | None) -> bool:
        """Replace the lease that has the tag `over`, or create it; False if another writer did."""
        data = record.encode()
        try:
            if over is None:
                return self._store.put_if_absent(WRITER_LEASE, data)
            return self._store.put_if_match(WRITER_LEASE, data, over)
        except OutcomeUnknown:
            found = self.find()  # the nonce identifies the writer
            return found is not None and found[0].nonce == record.nonce


def _format_time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


TERM_S = 30.0
RENEWAL_S = TERM_S / 3
POLL_S = 0.25
RENEWING = "lease"
"""The name of the thread that renews a lease."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Term and renewal interval of a lease; all writers of a root should use the same."""

    term_s: float = TERM_S
    renewal_s: float = RENEWAL_S
    poll_s: float = POLL_S

    @classmethod
    def lasting(cls, term_s: float) -> LeaseTerms:
        """Return the terms of a lease of some seconds, renewed every third of them."""
        return cls(term_s, term_s / 3, min(POLL_S, term_s / 20))

    @property
    def safe_s(self) -> float:
        """The time after a renewal within which effects may be started."""
        return self.term_s * 2 / 3


@dataclass(frozen=True, slots=True)
class _Watch:
    """A tag, and the time since which it has been observed unchanged."""

    tag: str
    since_s: float


class LeaseFence:
    """A fence among all processes that reach the same store."""

    spans_processes = True

    def __init__(
        self,
        store: ObjectStore,
        *,
        holder: Holder | None = None,
        terms: LeaseTerms | None = None,
        clock: Clock = read_boot_clock,
        sleep: Sleep = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_nonce: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        self._lease = LeaseObject(store, now, new_nonce)
        self._identity, self._holder = store.identity, holder
        self._terms, self._clock, self._sleep = terms or LeaseTerms(), clock, sleep
        self._watch: _Watch | None = None

    def acquire(self, wait_s: float) -> LeaseGuard:
        started = self._clock()
        turn = take_turn(self._identity, wait_s)
        try:
            while True:
                seen, guard = self._try_once(turn)
                if guard is not None:
                    guard.keep_renewing()
                    return guard
                self._wait(seen, started, wait_s)
        except BaseException:
            turn.end()
            raise

    def _try_once(self, turn: Turn) -> tuple[LeaseRecord | None, LeaseGuard | None]:
        """Try to take the lease; return its record, and the guard if it was free."""
        asked_at = self._clock()
        found = self._lease.find()
        if found is not None and not self._may_replace(*found):
            return found[0], None
        previous = None if found is None else found[0]
        mine = self._make_record(previous)
        if not self._lease.write(mine, over=None if found is None else found[1]):
            return previous, None
        took_over = previous is not None and previous.holder is not None
        guard = LeaseGuard(
            self._lease, mine, turn, self._terms, self._clock, asked_at, took_over=took_over
        )
        return previous, guard

    def _make_record(self, previous: LeaseRecord | None) -> LeaseRecord:
        epoch = 1 if previous is None else previous.epoch + 1
        holder = self._holder or Holder.of_this_process()
        return self._lease.new_record(epoch, holder, self._terms.term_s)

    def _may_replace(self, record: LeaseRecord, tag: str) -> bool:
        return record.holder is None or self._is_abandoned(record, tag)

    def _is_abandoned(self, record: LeaseRecord, tag: str) -> bool:
        now = self._clock()
        if self._watch is None or self._watch.tag != tag:
            self._watch = _Watch(tag, now)
        return now - self._watch.since_s >= self._get_term(record)

    def _get_term(self, record: LeaseRecord) -> float:
        # The holder may have a longer term.
        return max(record.term_s, self._terms.term_s)

    def _wait(self, seen: LeaseRecord | None, started: float, wait_s: float) -> None:
        now = self._clock()
        if now - started >= wait_s and not self._is_nearly_abandoned(seen, now):
            raise WriterBusy(_describe(seen), round(now - started, 1))
        self._sleep(self._terms.poll_s * (0.5 + random.random()))

    def _is_nearly_abandoned(self, seen: LeaseRecord | None, now: float) -> bool:
        """Return whether the holder has missed renewals, so that the wait is extended.

        Otherwise every short-lived process would start observing anew, and none would ever take
        over.
        """
        if seen is None or seen.holder is None or self._watch is None:
            return False
        return now - self._watch.since_s >= self._get_term(seen) * 2 / 3


def _describe(record: LeaseRecord | None) -> str:
    if record is None or record.holder is None:
        return "a writer just starting"
    return f"{record.holder} since {record.acquired_at}"


class LeaseGuard(FenceGuard):
    """A held lease, renewed by a thread until it is released."""

    def __init__(
        self,
        lease: LeaseObject,
        record: LeaseRecord,
        turn: Turn,
        terms: LeaseTerms,
        clock: Clock,
        confirmed_at: float,
        *,
        took_over: bool,
    ) -> None:
        self.epoch, self.took_over = record.epoch, took_over
        self._lease, self._record, self._turn = lease, record, turn
        self._terms, self._clock = terms, clock
        # The time before the request was sent: the store may have received it right then.
        self._confirmed_at = confirmed_at
        self._lost_to: str | None = None
        self._lock = threading.RLock()
        self._stop = threading.Event()

    def keep_renewing(self) -> None:
        threading.Thread(target=self._renew_until_stopped, name=RENEWING, daemon=True).start()

    def _renew_until_stopped(self) -> None:
        pause_s = self._terms.renewal_s
        while not self._stop.wait(pause_s):
            try:
                is_renewed = self.renew()
            except StorageError as failure:
                log.warning("the writer lease could not be renewed: %s", failure)
                is_renewed = False
            pause_s = self._terms.renewal_s if is_renewed else self._terms.renewal_s / 5

    def renew(self) -> bool:
        """Extend the lease by a term from now; False if it was not, or not surely, extended.

        Raises:
            StorageFailure: the store cannot be reached.
        """
        with self._lock:
            if self._lost_to is not None or not self._turn.is_ours:
                self._stop.set()
                return False
            asked_at = self._clock()
            tag = self._find_own_tag()
            if tag is None:
                return False
            renewed = self._lease.make_renewed(self._record)
            if not self._lease.write(renewed, over=tag):
                return False
            self._record, self._confirmed_at = renewed, asked_at
            return True

    def check(self) -> None:
        if not self._turn.is_ours:  # before locking: a forked child may never get the lock
            raise make_fence_lost(self.epoch, "a released hold")
        with self._lock:
            if self._lost_to is None:
                self._confirm()
            if self._lost_to is not None:
                self._stop.set()
                raise make_fence_lost(self.epoch, self._lost_to)
            if not self._is_safe():
                raise make_fence_lost(self.epoch, "a lease that could not be renewed in time")

    def _confirm(self) -> None:
        """Verify the lease, and extend it if it expires soon."""
        if self._is_safe():
            self._find_own_tag()
        else:
            self.renew()

    def _is_safe(self) -> bool:
        return self._clock() - self._confirmed_at < self._terms.safe_s

    def _find_own_tag(self) -> str | None:
        """Return the tag of the lease if it is still held; if not, record its holder."""
        found = self._lease.find()
        if found is None:
            self._lost_to = "no lease"
            return None
        record, tag = found
        if (record.epoch, record.holder) != (self._record.epoch, self._record.holder):
            self._lost_to = f"epoch {record.epoch}"
            return None
        return tag

    def release(self) -> None:
        if not self._turn.is_ours:
            return
        with self._lock:
            self._stop.set()
            try:
                if self._lost_to is None:
                    self._release()
            finally:
                self._turn.end()

    def _release(self) -> None:
        try:
            tag = self._find_own_tag()
            if tag is not None:
                self._lease.write(self._lease.make_freed(self._record), over=tag)
        except StorageError as failure:
            # The writes are done either way; the lease expires.
            log.warning("the writer lease could not be released: %s", failure)


_warned: set[str] = set()


def open_fence(
    store: ObjectStore, mode: FenceMode, ids: UlidSource, terms: LeaseTerms | None = None
) -> Fence:
    """Open the strongest fence that the root of a store supports, after probing it.

    The root must exist. To be called once: probing an object store takes a few requests. `terms`
    are those of a lease.

    Raises:
        StorageFailure: a fence is required and the storage cannot offer one.
    """
    if mode is FenceMode.OFF:
        return ProcessFence(store.identity)
    problem = _find_problem(store, ids)
    if problem is None:
        return _get_shared_fence(store, terms)
    if mode is FenceMode.REQUIRED:
        raise StorageFailure(
            StorageKind.CONFIGURATION,
            f"{store.uri} cannot keep writers in different processes apart: {problem}",
        )
    _warn_once(store, problem)
    return ProcessFence(store.identity)


def _find_problem(store: ObjectStore, ids: UlidSource) -> str | None:
    if store.kind is StoreKind.LOCAL:
        problem = find_exclusion_problem(Path(store.uri))
        return None if problem is None else f"the file system does not lock files, {problem}"
    if supports_put_if_match(store, ids):
        return None
    return "the store does not replace objects conditionally"


def _get_shared_fence(store: ObjectStore, terms: LeaseTerms | None) -> Fence:
    if store.kind is StoreKind.LOCAL:
        return LocalFence(Path(store.uri))
    return LeaseFence(store, terms=terms)


def _warn_once(store: ObjectStore, problem: str) -> None:
    if store.identity not in _warned:
        _warned.add(store.identity)
        log.warning("%s: %s; only one process at a time may write this graph", store.uri, problem)
