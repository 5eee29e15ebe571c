"""The lease, step by step on a clock that the test advances."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count

import pytest

from omnigraph.errors import (
    OutcomeUnknown,
    ReadSetChanged,
    StorageFailure,
    StorageKind,
    WriterBusy,
)
from omnigraph.storage.layout import WRITER_LEASE
from omnigraph.storage.lease_fence import LeaseFence, LeaseTerms
from omnigraph.storage.writer_fence import Holder
from storage.memory_store import MemoryObjectStore

# The renewing thread waits in real time; here it never runs and the test calls `renew`.
TERMS = LeaseTerms(term_s=30.0, renewal_s=3600.0, poll_s=1.0)


class Clock:
    def __init__(self):
        self.time = 1000.0
        self.on_sleep: Callable[[], None] = lambda: None

    def __call__(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds
        self.on_sleep()


class OtherRoot(MemoryObjectStore):
    """The objects under another identity, as another process sees them."""

    def __init__(self, shared):
        super().__init__()
        self._lock, self._tags, self._objects = shared._lock, shared._tags, shared._objects


class LossyStore(MemoryObjectStore):
    """Loses the answer to the next conditional write, after or before its effect."""

    def __init__(self):
        super().__init__()
        self.lose = None
        self.failure = None

    def put_if_absent(self, path, data):
        return self._lossy(lambda: MemoryObjectStore.put_if_absent(self, path, data))

    def put_if_match(self, path, data, tag):
        return self._lossy(lambda: MemoryObjectStore.put_if_match(self, path, data, tag))

    def find_versioned(self, path):
        if self.failure is not None:
            raise self.failure
        return super().find_versioned(path)

    def _lossy(self, write):
        lose, self.lose = self.lose, None
        if lose != "before":
            is_written = write()
        if lose is not None:
            raise OutcomeUnknown("write", "no answer")
        return is_written


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store():
    return LossyStore()


def fence_on(store, clock, name="me"):
    return LeaseFence(
        store,
        holder=Holder(name, f"host-{name}", 7),
        terms=TERMS,
        clock=clock,
        sleep=clock.sleep,
        new_nonce=map(f"{name}-{{}}".format, count()).__next__,
    )


def lease_of(store):
    return json.loads(store.get(WRITER_LEASE))


def test_the_lease_says_who_holds_it_and_since_when(store, clock):
    with fence_on(store, clock).acquire(0) as guard:
        record = lease_of(store)
    assert guard.epoch == 1
    assert record["version"] == 1
    assert record["epoch"] == 1
    assert record["holder"] == {"id": "me", "host": "host-me", "pid": 7}
    assert record["acquired_at"] < record["expires_at"]


def test_a_released_lease_stays_and_keeps_its_epoch(store, clock):
    fence = fence_on(store, clock)
    fence.acquire(0).release()
    assert lease_of(store)["holder"] is None
    with fence.acquire(0) as guard:
        assert guard.epoch == 2
        assert not guard.took_over
        guard.check()


def test_a_released_hold_is_no_longer_ours(store, clock):
    guard = fence_on(store, clock).acquire(0)
    guard.release()
    guard.release()
    with pytest.raises(ReadSetChanged):
        guard.check()
    assert not guard.renew()


def test_a_lease_is_taken_over_only_after_a_full_term_without_renewal(store, clock):
    mine = fence_on(store, clock).acquire(0)
    watcher = fence_on(OtherRoot(store), clock, "other")
    asked = clock.time
    clock.on_sleep = lambda: clock.time < asked + 15 and mine.renew()
    with watcher.acquire(300) as guard:
        assert guard.epoch == 2
        assert guard.took_over
        # The last renewal was just before second 15, and the watch began again with it.
        assert clock.time >= asked + 15 - 2 + TERMS.term_s


def test_the_times_in_the_lease_do_not_matter(store, clock):
    fence_on(store, clock).acquire(0)
    found = store.get_versioned(WRITER_LEASE)
    stale = json.loads(found.data) | {"expires_at": "1999-01-01T00:00:00+00:00"}
    store.put(WRITER_LEASE, json.dumps(stale).encode())
    with pytest.raises(WriterBusy):
        fence_on(OtherRoot(store), clock, "other").acquire(5)


def test_a_longer_term_of_the_holder_is_respected(store, clock):
    fence_on(store, clock).acquire(0)
    found = json.loads(store.get(WRITER_LEASE)) | {"term_s": 100}
    store.put(WRITER_LEASE, json.dumps(found).encode())
    asked = clock.time
    fence_on(OtherRoot(store), clock, "other").acquire(200).release()
    assert clock.time >= asked + 100


def test_a_busy_lease_names_its_holder(store, clock):
    fence_on(store, clock).acquire(0)
    with pytest.raises(WriterBusy) as raised:
        fence_on(OtherRoot(store), clock, "other").acquire(5)
    assert "process 7 on host-me" in raised.value.holder
    assert 5 <= raised.value.waited_s < 8


def test_a_watch_continues_from_one_wait_to_the_next(store, clock):
    fence_on(store, clock).acquire(0)
    watcher = fence_on(OtherRoot(store), clock, "other")
    for _ in range(4):
        with pytest.raises(WriterBusy):
            watcher.acquire(3)
    clock.time += TERMS.term_s
    assert watcher.acquire(0).took_over


def test_of_two_that_take_over_one_wins(store, clock):
    fence_on(store, clock).acquire(0)
    second, third = (fence_on(OtherRoot(store), clock, name) for name in ("b", "c"))
    for watcher in (second, third):
        with pytest.raises(WriterBusy):
            watcher.acquire(0)
    clock.time += TERMS.term_s
    assert second.acquire(0).epoch == 2
    with pytest.raises(WriterBusy):
        third.acquire(0)


def test_an_overtaken_holder_finds_out_and_leaves_the_lease_alone(store, clock):
    mine = fence_on(store, clock).acquire(0)
    other = fence_on(OtherRoot(store), clock, "other").acquire(60)
    with pytest.raises(ReadSetChanged) as raised:
        mine.check()
    assert raised.value.member == "writer_fence"
    assert (raised.value.expected, raised.value.actual) == ("epoch 1", "epoch 2")
    assert not mine.renew()
    mine.release()
    other.check()


def test_a_check_renews_when_a_third_of_the_term_is_left(store, clock):
    guard = fence_on(store, clock).acquire(0)
    before = store.get_versioned(WRITER_LEASE).tag
    clock.time += 19
    guard.check()
    assert store.get_versioned(WRITER_LEASE).tag == before
    clock.time += 2
    guard.check()
    assert store.get_versioned(WRITER_LEASE).tag != before
    clock.time += 19
    guard.check()


def test_no_effect_starts_when_little_is_left_and_renewal_fails(store, clock):
    guard = fence_on(store, clock).acquire(0)
    clock.time += 21
    store.lose = "before"
    with pytest.raises(ReadSetChanged, match="renewed in time"):
        guard.check()
    guard.check()


def test_a_check_that_cannot_look_raises_what_stopped_it(store, clock):
    guard = fence_on(store, clock).acquire(0)
    store.failure = StorageFailure(StorageKind.TRANSIENT, "no answer")
    with pytest.raises(StorageFailure):
        guard.check()
    store.failure = None
    guard.check()


def test_a_check_that_took_too_long_is_not_trusted(store, clock):
    guard = fence_on(store, clock).acquire(0)
    find = store.find_versioned

    def find_slowly(path):
        clock.time += 25
        return find(path)

    store.find_versioned = find_slowly
    with pytest.raises(ReadSetChanged, match="renewed in time"):
        guard.check()


@pytest.mark.parametrize("lost", ["before", "after"])
def test_an_acquisition_whose_answer_was_lost_is_confirmed_by_reading(store, clock, lost):
    store.lose = lost
    with fence_on(store, clock).acquire(5) as guard:
        assert guard.epoch == 1
        guard.check()
    store.lose = lost
    with fence_on(store, clock).acquire(5) as guard:
        assert guard.epoch == 2
        guard.check()


def test_a_lease_that_cannot_be_given_back_does_not_hide_the_work(store, clock):
    with fence_on(store, clock).acquire(0):
        store.failure = StorageFailure(StorageKind.TRANSIENT, "no answer")
    store.failure = None
    with fence_on(store, clock).acquire(100) as guard:
        assert guard.took_over


def test_a_vanished_lease_is_a_lost_one(store, clock):
    guard = fence_on(store, clock).acquire(0)
    store.delete(WRITER_LEASE)
    with pytest.raises(ReadSetChanged, match="no lease"):
        guard.check()
    guard.release()
    assert not store.exists(WRITER_LEASE)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b"[" * 100_000,
        b'{"version": 2}',
        b'{"version": 1, "epoch": 1, "holder": {}}',
    ],
    ids=["empty", "text", "a list", "depths", "newer", "incomplete"],
)
def test_a_damaged_or_unknown_lease_is_never_mistaken_for_a_free_one(store, clock, content):
    store.put(WRITER_LEASE, content)
    with pytest.raises(StorageFailure) as raised:
        fence_on(store, clock).acquire(0)
    assert raised.value.kind is StorageKind.PERMANENT
    assert store.get(WRITER_LEASE) == content
    # The turn of this process was given back, so the next attempt fails the same way.
    with pytest.raises(StorageFailure):
        fence_on(store, clock).acquire(0)


def test_the_thread_keeps_a_lease_alive():
    store = MemoryObjectStore()
    fence = LeaseFence(store, terms=LeaseTerms(term_s=30, renewal_s=0.01, poll_s=0.01))
    with fence.acquire(0):
        first = store.get_versioned(WRITER_LEASE).tag
        for _ in range(120_000):
            if store.get_versioned(WRITER_LEASE).tag != first:
                return
            time.sleep(0.005)
    pytest.fail("the lease was never renewed")
