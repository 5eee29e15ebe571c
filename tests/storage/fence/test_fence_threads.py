"""Writers in the threads of one process."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import ReadSetChanged, WriterBusy
from omnigraph.storage.lease_fence import LeaseFence, LeaseTerms
from omnigraph.storage.local_fence import LocalFence
from omnigraph.storage.objects.local_store import LocalObjectStore
from omnigraph.storage.writer_fence import FairLock, ProcessFence


@pytest.fixture(params=["process", "local", "lease"])
def make_fence(request, tmp_path):
    """Makes another fence on the same root, as another part of the program would."""
    match request.param:
        case "process":
            return lambda: ProcessFence(str(tmp_path))
        case "local":
            return lambda: LocalFence(tmp_path)
        case _:
            terms = LeaseTerms(term_s=30, renewal_s=10, poll_s=0.01)
            return lambda: LeaseFence(LocalObjectStore(tmp_path), terms=terms)


def test_one_thread_holds_at_a_time(make_fence):
    inside, most, epochs = 0, 0, []

    def write(_):
        nonlocal inside, most
        with make_fence().acquire(600) as guard:
            inside += 1
            most = max(most, inside)
            epochs.append(guard.epoch)
            guard.check()
            inside -= 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(40)))
    assert most == 1
    assert epochs == sorted(set(epochs))


def test_a_second_thread_learns_who_holds_the_fence(make_fence):
    with make_fence().acquire(600), pytest.raises(WriterBusy, match="this process"):
        make_fence().acquire(0.05)


def test_a_hold_ends_with_its_block_even_after_an_error(make_fence):
    fence = make_fence()
    with pytest.raises(ZeroDivisionError), fence.acquire(600) as guard:
        raise ZeroDivisionError
    with pytest.raises(ReadSetChanged):
        guard.check()
    guard.release()
    with fence.acquire(600) as again:
        assert again.epoch > guard.epoch
        assert not again.took_over


def test_a_fair_lock_serves_in_the_order_of_requests():
    lock, order = FairLock(), []
    assert lock.acquire(0)
    threads = []
    for number in range(5):
        asked = threading.Event()

        def wait_and_note(number=number, asked=asked):
            asked.set()
            assert lock.acquire(600)
            order.append(number)
            lock.release()

        threads.append(threading.Thread(target=wait_and_note))
        threads[-1].start()
        asked.wait()
        while len(lock._line) <= number:
            time.sleep(0.001)
    lock.release()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_giving_up_leaves_the_line():
    lock = FairLock()
    assert lock.acquire(0)
    assert not lock.acquire(0.01)
    lock.release()
    assert lock.acquire(0)
