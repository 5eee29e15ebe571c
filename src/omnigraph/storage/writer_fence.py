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
    """The right to change a graph. Leaving the `with` block gives it back."""

    @property
    def epoch(self) -> int:
        """A number larger than that of every hold before this one on the same root."""
        ...

    @property
    def took_over(self) -> bool:
        """True if the writer before us ended without releasing its guard.

        It may have left a write half done, so recovery comes before the first effect.
        """
        ...

    def check(self) -> None:
        """Pass if the hold is still ours; called right before every effect.

        Raises:
            ReadSetChanged: another writer may be at work; nothing more may be changed.
        """
        ...

    def release(self) -> None:
        """Let the next writer in. Safe to repeat."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def is_valid(guard: FenceGuard) -> bool:
    """Return whether the guard is still valid: what was just done was done under it."""
    try:
        guard.check()
    except ReadSetChanged:
        return False
    return True


class Fence(Protocol):
    """Lets one writer of a graph root in at a time. Holds do not nest."""

    @property
    def spans_processes(self) -> bool:
        """True if writers in other processes are excluded as well."""
        ...

    def acquire(self, wait_s: float) -> FenceGuard:
        """The hold, once no one else has it.

        Raises:
            WriterBusy: somebody else still had it after `wait_s` seconds.
        """
        ...


@dataclass(frozen=True, slots=True)
class Holder:
    """The owner of a guard: a random id to tell runs apart, and its host and process."""

    id: str
    host: str
    pid: int

    @classmethod
    def of_this_process(cls) -> Holder:
        return cls(uuid4().hex, socket.gethostname(), os.getpid())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def as_json(self) -> dict[str, object]:
        return {"id": self.id, "host": self.host, "pid": self.pid}

    @classmethod
    def from_json(cls, value: object) -> Holder | None:
        match value:
            case {"id": str(id), "host": str(host), "pid": int(pid)}:
                return cls(id, host, pid)
            case _:
                return None


def make_fence_lost(epoch: int, now: str) -> ReadSetChanged:
    return ReadSetChanged("writer_fence", f"epoch {epoch}", now)


class FairLock:
    """A lock handed from thread to thread in the order of asking.

    A thread that releases and asks again at once goes to the end of the line, which the locks of
    the standard library do not promise.
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
        except BaseException:  # interrupted: nobody will ever release what we were handed
            if self._leave_line(turn):
                self.release()
            raise

    def _leave_line(self, turn: threading.Event) -> bool:
        """Stop waiting; True if the lock was handed to us all the same."""
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
    """The one lock of this process for a root."""
    with _locks_guard:
        return _locks[identity]


def _start_afresh() -> None:
    # The threads that held these locks were not copied into the forked child.
    global _locks_guard
    _locks_guard = threading.Lock()
    _locks.clear()


os.register_at_fork(after_in_child=_start_afresh)


class Turn:
    """The lock of this process for one root, taken; gives it back once, in its own process."""

    def __init__(self, lock: FairLock) -> None:
        self._lock = lock
        self._guard = threading.Lock()
        self._process = os.getpid()
        self._is_over = False

    @property
    def is_ours(self) -> bool:
        """False once it was given back, and always in a forked child."""
        return not self._is_over and self._process == os.getpid()

    def end(self) -> bool:
        """Give the lock back; False if there was nothing to give."""
        with self._guard:
            if not self.is_ours:
                return False
            self._is_over = True
        self._lock.release()
        return True


def take_turn(identity: str, wait_s: float) -> Turn:
    """The turn of this thread.

    Raises:
        WriterBusy: another thread still had it after `wait_s` seconds.
    """
    lock = get_process_lock(identity)
    if not lock.acquire(wait_s):
        raise WriterBusy(f"another thread of this process, {os.getpid()}", wait_s)
    return Turn(lock)


class ProcessGuard:
    """A hold that keeps out the other threads of this process only."""

    took_over = False

    def __init__(self, turn: Turn, epoch: int) -> None:
        self._turn, self.epoch = turn, epoch

    def check(self) -> None:
        if not self._turn.is_ours:
            raise make_fence_lost(self.epoch, "a released hold")

    def release(self) -> None:
        self._turn.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class ProcessFence:
    """One writer at a time within this process. Other processes are not kept out."""

    spans_processes = False
    _epochs = count(time.time_ns() // 1_000_000)

    def __init__(self, identity: str) -> None:
        self._identity = identity

    def acquire(self, wait_s: float) -> ProcessGuard:
        return ProcessGuard(take_turn(self._identity, wait_s), next(self._epochs))


Clock = Callable[[], float]
Sleep = Callable[[float], None]
