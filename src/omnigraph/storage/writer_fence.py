"""The writer fence: one writer at a time for each graph root, in order of arrival."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol, Self
from uuid import uuid4

from omnigraph.errors import ReadSetChanged, WriterBusy


class FenceGuard(Protocol):
    """A held fence; leaving the `with` block releases it."""

    epoch: int
    """A number larger than that of every earlier hold on the same root."""
    took_over: bool
    """True if the previous holder did not release the fence.

    It may have left an interrupted write, so recovery precedes the first effect.
    """

    def check(self) -> None:
        """Raise unless the fence is still held; called right before every effect.

        Raises:
            ReadSetChanged: another writer may hold it; nothing more may be changed.
        """
        ...

    def release(self) -> None:
        """Release the fence. Safe to repeat."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_valid(guard: FenceGuard) -> bool:
    """Return whether the fence is still held, and so was during the last effect."""
    try:
        guard.check()
    except ReadSetChanged:
        return False
    return True


class Fence(Protocol):
    """A fence, held by one writer of a graph root at a time. Holds do not nest."""

    @property
    def spans_processes(self) -> bool:
        """True if writers in other processes are excluded as well."""
        ...

    def acquire(self, wait_s: float) -> FenceGuard:
        """Acquire the fence, waiting for its holder.

        Raises:
            WriterBusy: another writer still held it after `wait_s` seconds.
        """
        ...


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a fence: a random id, its host and its process."""

    id: str
    host: str
    pid: int

    @classmethod
    def of_this_process(cls) -> Holder:
        return cls(uuid4().hex, socket.gethostname(), os.getpid())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def make_fence_lost(epoch: int, now: str) -> ReadSetChanged:
    return ReadSetChanged("writer_fence", f"epoch {epoch}", now)


class FairLock:
    """A lock that threads acquire in the order of arrival.

    A thread that releases it and acquires it again at once queues last, which the locks of the
    standard library do not guarantee.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._line: deque[threading.Event] = deque()
        self._is_held = False

    def acquire(self, timeout_s: float) -> bool:
        with self._guard:
            if not self._is_held:
                self._is_held = True
                return True
            turn = threading.Event()
            self._line.append(turn)
        try:
            return turn.wait(max(0.0, timeout_s)) or self._leave_line(turn)
        except BaseException:  # interrupted: nothing else would release it
            if self._leave_line(turn):
                self.release()
            raise

    def _leave_line(self, turn: threading.Event) -> bool:
        """Stop waiting; True if the lock was acquired all the same."""
        with self._guard:
            if turn.is_set():
                return True
            self._line.remove(turn)
            return False

    def release(self) -> None:
        with self._guard:
            if self._line:
                self._line.popleft().set()
            else:
                self._is_held = False


_locks: defaultdict[str, FairLock] = defaultdict(FairLock)
_locks_guard = threading.Lock()


def get_process_lock(identity: str) -> FairLock:
    """Return the lock of this process for a root."""
    with _locks_guard:
        return _locks[identity]


def _start_afresh() -> None:
    # The threads that held these locks were not copied into the forked child.
    global _locks_guard
    _locks_guard = threading.Lock()
    _locks.clear()


os.register_at_fork(after_in_child=_start_afresh)


class Turn:
    """The held lock of this process for one root; released once, in its own process."""

    def __init__(self, lock: FairLock) -> None:
        self._lock = lock
        self._guard = threading.Lock()
        self._process = os.getpid()
        self._is_over = False

    @property
    def is_ours(self) -> bool:
        """False once it was released, and always in a forked child."""
        return not self._is_over and self._process == os.getpid()

    def end(self) -> bool:
        """Release the lock; False if it is not held."""
        with self._guard:
            if not self.is_ours:
                return False
            self._is_over = True
        self._lock.release()
        return True


def take_turn(identity: str, wait_s: float) -> Turn:
    """Acquire the lock of this process.

    Raises:
        WriterBusy: another thread still held it after `wait_s` seconds.
    """
    lock = get_process_lock(identity)
    if not lock.acquire(wait_s):
        raise WriterBusy(f"another thread of this process, {os.getpid()}", wait_s)
    return Turn(lock)


class ProcessGuard(FenceGuard):
    """A held fence of this process, which excludes its other threads only."""

    took_over = False

    def __init__(self, turn: Turn, epoch: int) -> None:
        self._turn, self.epoch = turn, epoch

    def check(self) -> None:
        if not self._turn.is_ours:
            raise make_fence_lost(self.epoch, "a released guard")

    def release(self) -> None:
        self._turn.end()


class ProcessFence:
    """A fence among the threads of this process; other processes are not excluded."""

    spans_processes = False
    _epochs = count(time.time_ns() // 1_000_000)

    def __init__(self, identity: str) -> None:
        self._identity = identity

    def acquire(self, wait_s: float) -> ProcessGuard:
        return ProcessGuard(take_turn(self._identity, wait_s), next(self._epochs))


Clock = Callable[[], float]
Sleep = Callable[[float], None]
