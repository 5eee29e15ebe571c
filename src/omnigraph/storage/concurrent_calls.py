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
    """Return the boot clock in seconds, which includes suspended time where the system has one."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


Result = TypeVar("Result")
ResultT_co = TypeVar("ResultT_co", covariant=True)

MAX_THREADS = 32
"""Number of threads shared by all writes of the process."""


class StartedCall(Protocol[ResultT_co]):
    """A call that was started and may have completed."""

    def result(self) -> ResultT_co:
        """Wait for the result, and return or raise it."""
        ...


@dataclass(frozen=True, slots=True)
class EndedCall(Generic[Result]):
    """A call that completed inline. A future has locks, which cost more than some calls."""

    value: Result

    def result(self) -> Result:
        return self.value


class ConcurrentCalls:
    """Calls that run concurrently with the caller.

    Leaving the `with` block waits for all of them, also after an error or an interrupt. The error
    of a call is raised by its result, or where it is started
    if it runs inline.
    """

    def __init__(self, at_a_time: int) -> None:
        """Limit the concurrency to this many calls, including the caller's own work."""
        self._others = at_a_time - 1
        self._started: list[Future[Any]] = []

    @property
    def is_in_turn(self) -> bool:
        """True if every call runs inline, in the caller's thread."""
        return self._others <= 0

    def start(self, call: Callable[[], Result]) -> StartedCall[Result]:
        """Start a call; at the limit of concurrency it runs inline."""
        if sum(not one.done() for one in self._started) >= self._others:
            return complete_now(call)
        started = _submit(call)
        if isinstance(started, Future):
            self._started.append(started)
        return started

    def wait(self) -> None:
        """Return when all calls have completed; an interrupt is raised only then."""
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
    """Run the call inline, in this thread."""
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
    """Drop the threads after a fork: the child has none of them and must not wait for them."""
    global _lock, _threads
    _lock, _threads = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
