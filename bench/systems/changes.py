"""The one-row changes of the storage suites, as plain values every system applies its own way.

A graph, a set of bare tables and a log of changes must end with the same rows, which is what
their hashes are taken of. A row is a table, a key and a number; the key of an edge is its two ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from bench.hashing import hash_rows
from bench.systems.clock import Seconds, timed

NOTE, ITEM, PERSON, KNOWS = "Note", "Item", "Person", "Knows"
TABLES = (NOTE, ITEM, PERSON, KNOWS)


@dataclass(frozen=True, slots=True)
class Row:
    table: str
    key: str
    value: int

    @property
    def ends(self) -> tuple[str, str]:
        """The two persons of an edge."""
        source, _, target = self.key.partition(">")
        return source, target


@dataclass(frozen=True, slots=True)
class Change:
    """The rows one commit writes and removes."""

    kind: str
    puts: tuple[Row, ...] = ()
    drops: tuple[Row, ...] = ()


class Target(Protocol):
    """Anything the changes can be applied to, one commit each."""

    def apply(self, change: Change) -> None: ...

    def rows(self) -> Iterable[Row]: ...


def insert(step: int) -> Change:
    """A row of a table without a key."""
    return Change("insert", (Row(NOTE, f"written-{step}", step),))


def upsert(step: int) -> Change:
    """An existing row and a new one, alternating."""
    key = f"item-{step}" if step % 2 else f"fresh-{step}"
    return Change("upsert", (Row(ITEM, key, 1_000_000 + step),))


def node_and_edge(step: int) -> Change:
    """A new person who knows an existing one: two tables."""
    name = f"fresh-{step}"
    return Change("node and edge", (Row(PERSON, name, step), Row(KNOWS, f"{name}>person-7", step)))


def update(step: int) -> Change:
    return Change("update", (Row(ITEM, f"item-{step}", 1_000_000 + step),))


def delete(step: int) -> Change:
    return Change("delete", drops=(Row(ITEM, f"item-{step}", step),))


KINDS: Mapping[str, Callable[[int], Change]] = {
    "insert": insert,
    "upsert": upsert,
    "node and edge": node_and_edge,
    "update": update,
    "delete": delete,
}


def base_rows(count: int) -> Sequence[Row]:
    """Return the rows before the first change: `count` rows of every table."""
    return [
        *(Row(NOTE, f"note-{number}", number) for number in range(count)),
        *(Row(ITEM, f"item-{number}", number) for number in range(count)),
        *(Row(PERSON, f"person-{number}", number) for number in range(count)),
        *(Row(KNOWS, f"person-{n}>person-{(n + 1) % count}", n) for n in range(count)),
    ]


def time_changes(
    target: Target,
    kind: str,
    warm_up: int,
    repetitions: int,
    clock: Callable[[Callable[[], object]], tuple[object, Seconds]] = timed,
) -> dict[str, list[float]]:
    """The seconds of each of `repetitions` commits, after some that are not timed."""
    change = KINDS[kind]
    for step in range(warm_up):
        target.apply(change(step))
    steps = range(warm_up, warm_up + repetitions)
    seconds = [clock(partial(target.apply, change(step)))[1] for step in steps]
    return {"commit": [s.wall for s in seconds], "processor": [s.processor for s in seconds]}


def hash_of(rows: Iterable[Row]) -> str:
    return hash_rows([row.table, row.key, row.value] for row in rows)


def preview_of(rows: Iterable[Row]) -> dict[str, int]:
    """Row counts by table, which shows most mistakes."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.table] = counts.get(row.table, 0) + 1
    return counts
