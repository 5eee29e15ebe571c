"""Run independent calls concurrently, and read a clock that counts suspended time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar


def read_boot_clock() -> float:
    """Seconds since some moment, counting the time the machine slept where the system can."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


Result = TypeVar("Result")
ResultT_co = TypeVar("ResultT_co", covariant=True)

MAX_THREADS = 32
"""Shared by all writes of the process."""


class StartedCall(Protocol[ResultT_co]):
    """A call that was started and may have ended."""

    def result(self) -> ResultT_co:
        """Wait for the result, and return or raise it."""
        ...


@dataclass(frozen=True, slots=True)
class EndedCall(Generic[Result]):
    """A call that ran at once. A future has locks, which cost more than some calls."""

    value: Result

    def result(self) -> Result:
        return self.value


class ConcurrentCalls:
    """Calls that run while the caller goes on.

    Leaving the `with` block waits for all of them, also after a failure or an interrupt: then
    nothing is under way any more. A failure of a call is raised where its result is asked for, or
    where it was to be started, if it had to be made on the spot.
    """

    def __init__(self, at_a_time: int) -> None:
        """Allow this much concurrency; the caller's own work counts as one."""
        self._others = at_a_time - 1
        self._started: list[Future[Any]] = []

    @property
    def is_in_turn(self) -> bool:
        """True if every call runs at once, in the caller's thread."""
        return self._others <= 0

    def start(self, call: Callable[[], Result]) -> StartedCall[Result]:
        """Start a call; at the limit of concurrency it runs at once."""
        if sum(not one.done() for one in self._started) >= self._others:
            return complete_now(call)
        started = _submit(call)
        if isinstance(started, Future):
            self._started.append(started)
        return started

    def wait(self) -> None:
        """Return when all calls have ended. An interrupt is passed on only then."""
        interrupt: BaseException | None = None
        while True:
            try:
                if not all(one.done() for one in self._started):
                    wait(self._started)
                break
            except BaseException as error:  # noqa: BLE001 - raised below
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()


def _submit(call: Callable[[], Result]) -> Future[Result] | EndedCall[Result]:
    try:
        return _get_pool().submit(call)
    except RuntimeError:
        # The interpreter is ending and starts no more threads; a last write is still welcome.
        return complete_now(call)


def complete_now(call: Callable[[], Result]) -> EndedCall[Result]:
    """Run the call at once, in this thread."""
    return EndedCall(call())


_lock = threading.Lock()
_threads: ThreadPoolExecutor | None = None


def _get_pool() -> ThreadPoolExecutor:
    global _threads
    with _lock:
        if _threads is None:
            _threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="omnigraph-write")
        return _threads


def _forget_threads() -> None:
    """A forked child has none of its parent's threads and must not wait for them."""
    global _lock, _threads
    _lock, _threads = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
