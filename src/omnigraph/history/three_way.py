"""Three versions of a table, entity by entity: what to take over, and what conflicts.

Only rows that one of the sides changed are read, some at a time; kept are their ids and addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.equality import Mask, compare_images, read_images
from omnigraph.identity import ID_COLUMN
from omnigraph.storage.tables.delta import ChangedKeys, find_changed_keys
from omnigraph.storage.tables.table import ROW_ADDRESS, Table

ROWS_AT_ONCE = 8_192


class ConflictKind(StrEnum):
    """How two sides may contradict each other about one entity."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"


@dataclass(frozen=True, slots=True)
class TableSides:
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

    @staticmethod
    def concatenate(parts: Sequence[Entities]) -> Entities:
        """All of them, by ascending id."""
        none = (pa.array([], pa.string()), *(pa.array([], pa.uint64()),) * 3)
        columns = [
            pa.concat_arrays([empty, *(getattr(one, name) for one in parts)])
            for name, empty in zip(Entities.__slots__, none, strict=True)
        ]
        order = pc.sort_indices(columns[0])
        return Entities(*(column.take(order) for column in columns))

    def has(self, side: str) -> Mask:
        return _to_mask(pc.is_valid(getattr(self, side)))

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


def merge_table(sides: TableSides, *, target_is_base: bool) -> TableMerge:
    """What the source changed, divided into what the target left alone and what it did not.

    A change that both sides made alike is no change any more.
    """
    source = find_changed_keys(sides.base, sides.source)
    target = _NO_KEYS if target_is_base else find_changed_keys(sides.base, sides.target)
    in_both = pc.is_in(source.ids, value_set=target.ids)
    alone = _find_changed_alone(sides, source.filter(pc.invert(in_both)))
    together = _pair_changes(source.filter(in_both), target)
    uncertain = _find_uncertain(sides)
    doubts = _find_doubts(sides, uncertain, alone, together, target) if len(uncertain) else []
    alone, together = _drop_uncertain(alone, uncertain), _drop_uncertain(together, uncertain)
    divided = [_divide(sides, some) for some in together.batches()]
    taken = Entities.concatenate([alone, *(free for free, _ in divided)])
    return TableMerge(taken, Entities.concatenate([*doubts, *(clash for _, clash in divided)]))


_NO_KEYS = ChangedKeys(
    pa.array([], pa.string()), pa.array([], pa.uint64()), pa.array([], pa.uint64())
)


def _find_uncertain(sides: TableSides) -> pa.Array:
    """The ids about which the newest common commits disagree."""
    found = [find_changed_keys(sides.base, other).ids for other in sides.other_bases]
    return pc.unique(pa.concat_arrays(found)) if found else _NO_KEYS.ids


def _find_changed_alone(sides: TableSides, keys: ChangedKeys) -> Entities:
    """Those that the source really changed; the target has them as the base does."""
    found = Entities(keys.ids, keys.before, keys.after, keys.before)
    parts = [one.filter(~_compare_sides(sides, one, "base", "source")) for one in found.batches()]
    return Entities.concatenate(parts)


def _pair_changes(source: ChangedKeys, target: ChangedKeys) -> Entities:
    """Ids that both sides may have changed, with all three addresses."""
    places = pc.index_in(source.ids, value_set=target.ids)
    return Entities(source.ids, source.before, source.after, target.after.take(places))


def _divide(sides: TableSides, some: Entities) -> tuple[Entities, Entities]:
    """Those that only the source changed, and those that both changed, not alike."""
    changed, left = (
        ~_compare_sides(sides, some, "base", "source"),
        _compare_sides(sides, some, "base", "target"),
    )
    both = some.filter(changed & ~left)
    return some.filter(changed & left), both.filter(
        ~_compare_sides(sides, both, "source", "target")
    )


def _compare_sides(sides: TableSides, some: Entities, one: str, other: str) -> Mask:
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
        same[compared] = compare_images(*images)
    return same


def _find_doubts(
    sides: TableSides, uncertain: pa.Array, alone: Entities, together: Entities, target: ChangedKeys
) -> list[Entities]:
    """What differs between the sides where nobody can tell what the base was.

    Neither side can be said to have left such an entity alone, so none may be preferred.
    """
    moved = [_locate(sides.target, _select_among(alone, uncertain), "target")]
    for some in _select_among(together, uncertain).batches():
        moved.append(some.filter(~_compare_sides(sides, some, "source", "target")))
    doubtful = target.filter(pc.is_in(target.ids, value_set=uncertain))
    listed = pa.concat_arrays([alone.ids, together.ids])
    kept = doubtful.filter(pc.invert(pc.is_in(doubtful.ids, value_set=listed)))
    for some in Entities(kept.ids, kept.before, kept.before, kept.after).batches():
        changed = some.filter(~_compare_sides(sides, some, "base", "target"))
        moved.append(_locate(sides.source, changed, "source"))
    return moved


def _select_among(some: Entities, ids: pa.Array) -> Entities:
    return some.filter(_to_mask(pc.is_in(some.ids, value_set=ids)))


def _drop_uncertain(some: Entities, uncertain: pa.Array) -> Entities:
    return some.filter(~_to_mask(pc.is_in(some.ids, value_set=uncertain)))


def _locate(table: Table, some: Entities, side: str) -> Entities:
    """The same with the addresses of one side looked up in its table."""
    if not len(some):
        return some
    found = table.lookup(ID_COLUMN, some.ids, [ID_COLUMN, ROW_ADDRESS])
    places = pc.index_in(some.ids, value_set=found.column(ID_COLUMN).combine_chunks())
    addresses = found.column(ROW_ADDRESS).combine_chunks().take(places)
    columns = {name: getattr(some, name) for name in Entities.__slots__}
    return Entities(**{**columns, side: addresses})


def _to_mask(values: pa.Array) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)
