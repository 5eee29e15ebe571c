"""Simulated replacements of the clocks, threads and random ids of the standard library.

Outside of a run the real ones answer.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType, TracebackType
from typing import Any, Self

from simulation.turns import Strand, Turns

_turns: list[Turns] = []
"""The turns of the current run, if any."""

_real = {
    name: getattr(time, name) for name in ("monotonic", "sleep", "time", "time_ns", "clock_gettime")
}
_real_uuid4 = uuid.uuid4


def enter_run(turns: Turns) -> None:
    _turns.append(turns)


def leave_run() -> None:
    _turns.pop()


def get_turns() -> Turns:
    """Return the draw of the current run."""
    return _turns[-1]


def _seconds(*given: Any) -> float:
    return _turns[-1].now_s if _turns else _real["clock_gettime" if given else "monotonic"](*given)


def _wall_ns() -> int:
    return _turns[-1].clock_us() * 1_000 if _turns else _real["time_ns"]()


def _wall_s() -> float:
    return _turns[-1].clock_us() / 1_000_000 if _turns else _real["time"]()


def _sleep(seconds: float) -> None:
    if _turns:
        _turns[-1].wait(lambda: False, seconds)
    else:
        _real["sleep"](seconds)


def _uuid4() -> uuid.UUID:
    if not _turns:
        return _real_uuid4()
    return uuid.UUID(int=_turns[-1].chance.getrandbits(128), version=4)


class InlineExecutor:
    """A pool that runs its work in the calling thread."""

    def __init__(self, *_: object, **__: object) -> None:
        """Nothing is started."""

    def map(self, work: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        return iter([work(*one) for one in zip(*items, strict=False)])

    def submit(self, work: Callable[..., Any], *given: Any) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_result(work(*given))
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is under way."""


class SimulatedThread:
    """A thread of the process that starts it."""

    def __init__(self, *, target: Callable[[], None], name: str = "", daemon: bool = True) -> None:
        del name, daemon
        self._target = target
        self._strand: Strand | None = None

    def start(self) -> None:
        turns = get_turns()
        self._strand = turns.start(turns.process, self._target)

    def join(self) -> None:
        strand = self._strand
        if strand is not None and not strand.is_done:
            get_turns().wait(lambda: strand.is_done)


class SimulatedEvent:
    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._is_set or get_turns().wait(self.is_set, timeout_s)


class SimulatedLock:
    """A lock among the threads of a process; its owner may take it again."""

    def __init__(self) -> None:
        self._owner: Strand | None = None
        self._times = 0

    def __enter__(self) -> Self:
        turns = get_turns()
        while self._owner not in (None, turns.strand):
            turns.wait(lambda: self._owner is None)
        self._owner, self._times = turns.strand, self._times + 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._times -= 1
        if not self._times:
            self._owner = None


class SimulatedThreading(ModuleType):
    """As much of `threading` as our code with threads of its own uses."""

    Thread, Event, Lock, RLock = SimulatedThread, SimulatedEvent, SimulatedLock, SimulatedLock


def replace_clocks_and_pools() -> None:
    """To be called before our code is imported: it binds some of these names for good."""
    time.monotonic, time.sleep, time.time_ns = _seconds, _sleep, _wall_ns
    time.time, time.clock_gettime = _wall_s, _seconds
    uuid.uuid4 = _uuid4
    concurrent.futures.ThreadPoolExecutor = InlineExecutor


def replace_threads(*modules: ModuleType) -> None:
    """Let these modules, which start threads, start simulated ones."""
    for module in modules:
        assert getattr(module, "threading", None) is threading, f"{module} starts no threads"
        setattr(module, "threading", SimulatedThreading("threading"))  # noqa: B010 - not declared
