"""The bounded cache."""

from __future__ import annotations

import threading

import pytest

from omnigraph.cache import Cache


def sized(most):
    return Cache[str, bytes](most, len)


def test_a_value_is_computed_once():
    cache, made = sized(10), []
    for _ in range(2):
        assert cache.value("a", lambda: made.append(1) or b"12345") == b"12345"
    assert len(made) == 1
    assert cache.size == 5


def test_the_least_recently_used_is_evicted_first():
    cache = sized(10)
    cache.value("a", lambda: b"1234")
    cache.value("b", lambda: b"1234")
    cache.value("a", lambda: b"not made")
    cache.value("c", lambda: b"1234")
    assert cache.value("a", lambda: b"again") == b"1234"
    assert cache.value("b", lambda: b"new") == b"new"


def test_a_value_that_is_too_large_is_returned_and_not_cached():
    cache = sized(3)
    assert cache.value("a", lambda: b"1234") == b"1234"
    assert cache.size == 0


def test_a_failure_is_not_remembered():
    cache = sized(3)
    with pytest.raises(ZeroDivisionError):
        cache.value("a", lambda: bytes(1 // 0))
    assert cache.value("a", lambda: b"1") == b"1"


def test_threads_that_want_one_value_share_the_making_of_it():
    cache, made, may_finish = sized(10), [], threading.Event()

    def make():
        made.append(1)
        may_finish.wait(600)
        return b"1"

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(cache.value("a", make))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    may_finish.set()
    for thread in threads:
        thread.join(600)
    assert found == [b"1"] * 4
    assert len(made) == 1
