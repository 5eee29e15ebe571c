"""Processor time and memory of this process together with everything it started."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.2
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TreeUse:
    """The cost of a piece of work: seconds, processor seconds, and peak bytes.

    The memory of the driver is that of this process and of its Java together; that of a worker is
    of the largest one.
    """

    wall: float
    processor: float
    memory: dict[str, int]


def watched(work: Callable[[], _T]) -> tuple[_T, TreeUse]:
    """Run `work` and return its result with its cost in this process and all its children."""
    watch = TreeWatch()
    began = time.perf_counter()
    result = work()
    wall = time.perf_counter() - began
    return result, TreeUse(wall, *watch.stop())


@dataclass(frozen=True, slots=True)
class Used:
    """The resources one process has used so far."""

    name: str
    processor: float
    peak: int


class TreeWatch:
    """Watches the tree while it runs; processes that end in between are remembered."""

    def __init__(self) -> None:
        self._seen: dict[int, Used] = {}
        self._before = self._total()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[float, dict[str, int]]:
        """Processor seconds since the start, and the most bytes each kind of process held."""
        self._over.set()
        self._thread.join()
        # The kernel counts in ticks; work of less than one did not take nothing.
        seconds = max(self._total() - self._before, 1 / _TICKS)
        peaks: dict[str, int] = {}
        for pid, used in self._seen.items():
            kind = "driver" if pid == os.getpid() else used.name
            peaks[kind] = max(peaks.get(kind, 0), used.peak)
        memory = {"driver": peaks["driver"] + peaks.get("java", 0)}
        # Java starts helpers by forking itself; for a moment they look as large as it is.
        return seconds, memory | {kind: peaks[kind] for kind in ("worker",) if kind in peaks}

    def _watch(self) -> None:
        while not self._over.wait(_POLL_SECONDS):
            self._look()

    def _total(self) -> float:
        self._look()
        return sum(used.processor for used in self._seen.values())

    def _look(self) -> None:
        for pid in _tree(os.getpid()):
            used = _used(pid)
            if used is not None:
                self._seen[pid] = used


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _tree(int(child))


def _used(pid: int) -> Used | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if "VmHWM:" not in status:
        return None
    name = status.split("\n", 1)[0].split("\t")[1]
    peak = int(status.partition("VmHWM:")[2].split()[0]) << 10
    processor = (int(fields[11]) + int(fields[12])) / _TICKS
    return Used("worker" if name.startswith("python") else name, processor, peak)
