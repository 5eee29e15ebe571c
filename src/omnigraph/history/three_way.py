"""Three versions of a table, entity by entity: what to take over, and what conflicts.

Only rows that one of the sides changed are read, some at a time; kept are their ids and addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.equality import Mask, equal_images, read_images
from omnigraph.storage.tables.delta import ChangedKeys, changed_keys
from omnigraph.storage.tables.directory import KEY
from omnigraph.storage.tables.handle import ROW_ADDRESS, Table

ROWS_AT_ONCE = 8_192


class ConflictKind(StrEnum):
    """How two sides may contradict each other about one entity."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"


@dataclass(frozen=True, slots=True)
class Sides:
    """The three versions of one table."""

    base: Table
    source: Table
    target: Table
    other_bases: tuple[Table, ...] = ()
    """Where the histories have several newest common commits, the other ones."""


@dataclass(frozen=True, slots=True)
class Entities:
    """Ids with the address of their row in each version, null where there is none."""

    ids: pa.Array
    base: pa.Array
    source: pa.Array
    target: pa.Array

    def __len__(self) -> int:
        return len(self.ids)

    def filter(self, mask: Mask) -> Entities:
        kept = pa.array(mask)
        return Entities(*(getattr(self, name).filter(kept) for name in self.__slots__))

    def batches(self, rows: int = ROWS_AT_ONCE) -> Iterator[Entities]:
        for start in range(0, len(self), rows):
            yield Entities(*(getattr(self, name).slice(start, rows) for name in self.__slots__))

    def has(self, side: str) -> Mask:
        return _flags(pc.is_valid(getattr(self, side)))

    @property
    def kinds(self) -> list[ConflictKind]:
        """What to call a conflict about each of them, by where they are."""
        return [
            ConflictKind.DELETE_VS_UPDATE
            if not (source and target)
            else (ConflictKind.DIVERGENT_UPDATE if base else ConflictKind.DIVERGENT_INSERT)
            for base, source, target in zip(
                self.has("base").tolist(),
                self.has("source").tolist(),
                self.has("target").tolist(),
                strict=True,
            )
        ]


@dataclass(frozen=True, slots=True)
class TableMerge:
    """What merging one table comes to."""

    taken: Entities
    """Changed by the source alone; without a row there, they are deleted."""
    conflicts: Entities


def merge_table(sides: Sides, *, target_is_base: bool) -> TableMerge:
    """What the source changed, divided into what the target left alone and what it did not.

    A change that both sides made alike is no change any more.
    """
    source = changed_keys(sides.base, sides.source)
    target = _NO_KEYS if target_is_base else changed_keys(sides.base, sides.target)
    uncertain = _uncertain(sides)
    in_both = pc.is_in(source.ids, value_set=target.ids)
    alone = _changed_alone(sides, source.filter(pc.invert(in_both)))
    together = _together(source.filter(in_both), target)
    conflicts = [_conflicting(sides, one) for one in together.batches()]
    free = [_free(sides, one) for one in together.batches()]
    if len(uncertain):
        # What the base was cannot be told, so neither side can be said to have left it alone.
        doubtful = _flags(pc.is_in(alone.ids, value_set=uncertain))
        conflicts.append(_located(sides.target, alone.filter(doubtful), "target"))
        alone = alone.filter(~doubtful)
        moved = pc.and_(
            pc.is_in(target.ids, value_set=uncertain),
            pc.invert(pc.is_in(target.ids, value_set=source.ids)),
        )
        conflicts.append(_left_by_source(sides, target.filter(moved)))
        still = [one.filter(_flags(pc.is_in(one.ids, value_set=uncertain))) for one in free]
        conflicts += still
        free = [one.filter(~_flags(pc.is_in(one.ids, value_set=uncertain))) for one in free]
    return TableMerge(_joined([alone, *free]), _joined(conflicts))


_NO_KEYS = ChangedKeys(
    pa.array([], pa.string()), pa.array([], pa.uint64()), pa.array([], pa.uint64())
)


def _uncertain(sides: Sides) -> pa.Array:
    """The ids about which the newest common commits disagree."""
    found = [changed_keys(sides.base, other).ids for other in sides.other_bases]
    return pc.unique(pa.concat_arrays(found)) if found else _NO_KEYS.ids


def _changed_alone(sides: Sides, keys: ChangedKeys) -> Entities:
    """Those that the source really changed; the target has them as the base does."""
    found = Entities(keys.ids, keys.before, keys.after, keys.before)
    parts = [one.filter(~_same(sides, one, "base", "source")) for one in found.batches()]
    return _joined(parts)


def _together(source: ChangedKeys, target: ChangedKeys) -> Entities:
    """Ids that both sides may have changed, with all three addresses."""
    places = pc.index_in(source.ids, value_set=target.ids)
    return Entities(source.ids, source.before, source.after, target.after.take(places))


def _conflicting(sides: Sides, some: Entities) -> Entities:
    changed = ~_same(sides, some, "base", "source") & ~_same(sides, some, "base", "target")
    return some.filter(changed & ~_same(sides, some, "source", "target"))


def _free(sides: Sides, some: Entities) -> Entities:
    """Those that the source changed and the target wrote without changing them."""
    taken = ~_same(sides, some, "base", "source") & _same(sides, some, "base", "target")
    return some.filter(taken)


def _same(sides: Sides, some: Entities, one: str, other: str) -> Mask:
    """Whether each entity is the same on two sides: absent from both, or equal."""
    left, right = some.has(one), some.has(other)
    same: Mask = left == right
    compared = np.flatnonzero(left & right)
    if len(compared):
        rows = pa.array(compared)
        images = [
            read_images(getattr(sides, side), getattr(some, side).take(rows))
            for side in (one, other)
        ]
        same[compared] = equal_images(*images)
    return same


def _left_by_source(sides: Sides, keys: ChangedKeys) -> Entities:
    """Those that the target really changed, where the source has them as the base does."""
    found = Entities(keys.ids, keys.before, keys.before, keys.after)
    parts = [one.filter(~_same(sides, one, "base", "target")) for one in found.batches()]
    return _located(sides.source, _joined(parts), "source")


def _located(table: Table, some: Entities, side: str) -> Entities:
    """The same with the addresses of one side looked up in its table."""
    if not len(some):
        return some
    found = table.lookup(KEY, some.ids, [KEY, ROW_ADDRESS])
    places = pc.index_in(some.ids, value_set=found.column(KEY).combine_chunks())
    addresses = found.column(ROW_ADDRESS).combine_chunks().take(places)
    columns = {name: getattr(some, name) for name in Entities.__slots__}
    return Entities(**{**columns, side: addresses})


def _joined(parts: list[Entities]) -> Entities:
    """All of them, by ascending id."""
    empty = Entities(_NO_KEYS.ids, *(_NO_KEYS.before,) * 3)
    columns = [
        pa.concat_arrays([getattr(one, name) for one in [empty, *parts]])
        for name in Entities.__slots__
    ]
    order = pc.sort_indices(columns[0])
    return Entities(*(column.take(order) for column in columns))


def _flags(values: pa.Array) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)
