"""A clock around one call, which also measures its processor time.

On a busy machine the wall clock measures the neighbours as well; processor time hardly does. It
counts all threads of this process, and nothing that waits for a disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Seconds:
    wall: float
    processor: float


def timed(do: Callable[[], _T]) -> tuple[_T, Seconds]:
    """Run `do` and return its result with the seconds it took."""
    start, started = time.perf_counter(), time.process_time()
    value = do()
    return value, Seconds(time.perf_counter() - start, time.process_time() - started)
