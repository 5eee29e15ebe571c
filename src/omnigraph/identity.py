"""Identifiers, and how they are generated."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

TypeId = NewType("TypeId", int)
PropertyId = NewType("PropertyId", int)
TableIncarnationId = NewType("TableIncarnationId", int)
TableKey = NewType("TableKey", str)
"""`node:<TypeName>` or `edge:<TypeName>`: readable, and mutable by rename."""
BranchName = NewType("BranchName", str)
CommitId = NewType("CommitId", str)
OperationId = NewType("OperationId", str)

MAIN = BranchName("main")
ID_COLUMN = "id"
"""The column every row of every table is found by."""


class EntityKind(StrEnum):
    NODE = "node"
    EDGE = "edge"


def make_table_key(kind: EntityKind, type_name: str) -> TableKey:
    return TableKey(f"{kind}:{type_name}")


@dataclass(frozen=True, slots=True, order=True)
class TableIdentity:
    """The identity of a table, independent of its name: re-adding a dropped type makes another."""

    stable_table_id: TypeId
    table_incarnation_id: TableIncarnationId

    def __str__(self) -> str:
        return f"{self.stable_table_id:016x}-{self.table_incarnation_id:016x}"


_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _CROCKFORD for second in _CROCKFORD]
"""Ten bits at a time: every write takes a few ids."""
_SHIFTS = range(120, -1, -10)
_RANDOM_BITS = 80


def encode_ulid(milliseconds: int, randomness: int) -> str:
    """26 upper-case Crockford characters: 48 bits of time, then 80 bits of randomness."""
    value = milliseconds << _RANDOM_BITS | randomness
    return "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


class UlidSource:
    """A source of ULIDs that strictly increase, even within one millisecond."""

    def __init__(
        self,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._clock_ms, self._random_bytes = clock_ms, random_bytes
        self._lock = threading.Lock()
        self._last = (0, 0)

    def next(self) -> str:
        return self.take(1)[0]

    def take(self, count: int) -> list[str]:
        """Return `count` fresh ids, ascending."""
        with self._lock:
            milliseconds, randomness = self._start()
            ids = []
            for _ in range(count):
                ids.append(encode_ulid(milliseconds, randomness))
                randomness += 1
                if randomness >> _RANDOM_BITS:
                    milliseconds, randomness = milliseconds + 1, 0
            self._last = (milliseconds, randomness)
            return ids

    def _start(self) -> tuple[int, int]:
        now = self._clock_ms()
        last_ms, next_randomness = self._last
        if now > last_ms:
            # The top bit stays clear so that a long run within one millisecond cannot overflow.
            return now, int.from_bytes(self._random_bytes(10), "big") >> 1
        return last_ms, next_randomness
