"""Running operations in processes that are killed at an exact write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from store_places import Place, environment_of

TESTS = Path(__file__).parents[1]
CORES = 2

One = TypeVar("One")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process: `writes` are known only of one that completed."""

    is_acknowledged: bool
    writes: tuple[tuple[str, str], ...]


class Explored:
    """The number of states explored, by test."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()

    def add(self, name: str, states: int) -> None:
        self.states[name] += states

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {count}" for name, count in sorted(self.states.items()))
        return f"{self.states.total()} ({parts})"


class Workers:
    """Processes that do one job after the other, each in a child that is killed."""

    def __init__(self) -> None:
        self._idle: deque[subprocess.Popen[bytes]] = deque()
        self._lock = threading.Lock()

    def run(
        self,
        place: Place,
        operation: str,
        after: int | None = None,
        *,
        by_file: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run the operation in a process that dies after a number of its durable writes.

        With `by_file` every change of a file below the place counts, by any thread.
        """
        job = {"place": str(place), "operation": operation, "after": after, "by_file": by_file}
        job["environment"] = environment_of(place) | dict(environment or {})
        worker = self._take()
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
        with self._lock:
            self._idle.append(worker)
        assert line, "the worker died; its complaint is in the captured output"
        answer = json.loads(line)
        if answer["code"] != -signal.SIGKILL:
            raise AssertionError(f"{operation} cut after {after} failed:\n{answer['said']}")
        if not answer["said"]:
            return Ended(is_acknowledged=False, writes=())
        writes = answer["files"] if by_file else json.loads(answer["said"])["writes"]
        return Ended(is_acknowledged=True, writes=tuple((a, p) for a, p in writes))

    def _take(self) -> subprocess.Popen[bytes]:
        with self._lock:
            return self._idle.popleft() if self._idle else _start()

    def close(self) -> None:
        for worker in self._idle:
            worker.communicate()  # closes its input, which ends it


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("crash_worker.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment() | {"OPENBLAS_NUM_THREADS": "1"},  # threads would not survive the fork
    )


def environment() -> dict[str, str]:
    """The environment of a process that imports what the tests import."""
    paths = [str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def side_by_side(work: Callable[[One], Result], given: Iterable[One]) -> Sequence[Result]:
    """The results in order, as many at a time as there are cores."""
    with ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(work, given))
