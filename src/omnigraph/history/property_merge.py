"""Merging by property: the columns that each side changed, and rows with columns of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.equality import (
    Images,
    Mask,
    compare_blobs,
    compare_entities,
    compare_values,
    read_images,
)
from omnigraph.history.table_sides import (
    APPLY,
    COMBINE,
    CONFLICT,
    UNCHANGED,
    Entities,
    TableSides,
    Verdicts,
)
from omnigraph.storage.tables import Table, read_rows_at_addresses

ColumnMasks = npt.NDArray[np.bool_]
"""A row for each column, with a value for each entity."""
PackedMasks = npt.NDArray[np.uint8]
"""A row for each entity, with a bit for each column."""


def pack_masks(masks: ColumnMasks) -> PackedMasks:
    return np.packbits(masks.T, axis=1)


def unpack_masks(packed: PackedMasks, columns: int) -> ColumnMasks:
    return np.unpackbits(packed, axis=1, count=columns).T.astype(np.bool_)


def mask_any(masks: ColumnMasks) -> Mask:
    """Mask the entities that are set for some column."""
    return np.asarray(masks.any(axis=0), np.bool_)


# --- comparison -----------------------------------------------------------------------------------


def compare_by_entity(sides: TableSides, some: Entities) -> Verdicts:
    """Compare whole rows that both sides have written."""
    if not sides.base_is_known:
        same = compare_sides(sides, some, "source", "target")
        return np.where(same, UNCHANGED, CONFLICT)[:, np.newaxis]
    changed = ~compare_sides(sides, some, "base", "source")
    left = compare_sides(sides, some, "base", "target")
    verdicts = np.where(changed & left, APPLY, UNCHANGED)
    both = changed & ~left
    differ = ~compare_sides(sides, some.filter(both), "source", "target")
    verdicts[np.flatnonzero(both)[differ]] = CONFLICT
    return verdicts[:, np.newaxis]


def compare_by_property(sides: TableSides, some: Entities) -> Verdicts:
    """Compare rows that both sides have written, column by column where all three have them."""
    names = sides.columns
    verdicts = np.zeros((len(some), 1 + (len(names) + 7) // 8), np.uint8)
    complete = some.has("base") & some.has("source") & some.has("target")
    if not sides.base_is_known:
        complete[:] = False
    if not complete.all():
        verdicts[~complete, :1] = compare_by_entity(sides, some.filter(~complete))
    if complete.any():
        found = compare_columns(sides, some.filter(complete), compares_all_blobs=False)
        verdicts[complete, 0] = found.decide()
        verdicts[complete, 1:] = pack_masks(found.from_source)
    return verdicts


def compare_sides(sides: TableSides, some: Entities, one: str, other: str) -> Mask:
    return compare_entities(
        getattr(sides, one), getattr(some, one), getattr(sides, other), getattr(some, other)
    )


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The columns that each side changed, of entities that both have.

    Without a base both sides count as having changed every column.
    """

    by_source: ColumnMasks
    by_target: ColumnMasks
    clash: ColumnMasks
    """Both sides changed it, to different values."""

    @property
    def from_source(self) -> ColumnMasks:
        """The columns that only the source changed."""
        masks: ColumnMasks = self.by_source & ~self.by_target
        return masks

    @property
    def differ(self) -> ColumnMasks:
        """The columns that the sides have otherwise."""
        masks: ColumnMasks = (self.by_source ^ self.by_target) | self.clash
        return masks

    def decide(self) -> npt.NDArray[np.uint8]:
        theirs = mask_any(self.from_source)
        ours = mask_any(self.by_target & ~self.by_source)
        verdicts = np.where(theirs, np.where(ours, COMBINE, APPLY), UNCHANGED)
        return np.where(mask_any(self.clash), CONFLICT, verdicts)


def compare_columns(
    sides: TableSides, some: Entities, *, compares_all_blobs: bool = True
) -> ColumnChanges:
    """Compare a batch of entities that both sides have, column by column.

    Without `compares_all_blobs` those of entities that conflict already are not read.
    """
    names = sides.columns
    images = _read_sides(sides, some, names)
    shape = (len(names), len(some))
    found = ColumnChanges(np.ones(shape, np.bool_), np.ones(shape, np.bool_), np.zeros(shape, bool))
    blobs = images.source.blobs
    for row, name in enumerate(names):
        if name not in blobs:
            images.compare_values(name, row, found)
    for row, name in enumerate(names):
        if name in blobs:
            decided = mask_any(found.clash)
            images.compare_blobs(name, row, found, ~decided | compares_all_blobs)
    return found


@dataclass(frozen=True, slots=True)
class _Images:
    """The rows of the three sides; of the base, those of the entities that are known there."""

    base: Images
    source: Images
    target: Images
    known: Mask

    def compare_values(self, name: str, row: int, found: ColumnChanges) -> None:
        source, target = (side.rows.column(name) for side in (self.source, self.target))
        if self.known.any():
            base, known = self.base.rows.column(name), pa.array(self.known)
            found.by_source[row, self.known] = ~compare_values(base, source.filter(known))
            found.by_target[row, self.known] = ~compare_values(base, target.filter(known))
        both = np.flatnonzero(found.by_source[row] & found.by_target[row])
        if len(both):
            rows = pa.array(both)
            found.clash[row, both] = ~compare_values(source.take(rows), target.take(rows))

    def compare_blobs(self, name: str, row: int, found: ColumnChanges, within: Mask) -> None:
        if self.known.any():
            some, asked = self.known, within[self.known]
            source, target = self.source.filter(some), self.target.filter(some)
            found.by_source[row, some] = ~compare_blobs(name, self.base, source, asked)
            found.by_target[row, some] = ~compare_blobs(name, self.base, target, asked)
        both = found.by_source[row] & found.by_target[row]
        same = compare_blobs(name, self.source, self.target, both & within)
        found.clash[row] = both & ~same


def _read_sides(sides: TableSides, some: Entities, names: Sequence[str]) -> _Images:
    return _Images(
        read_images(sides.base, some.base.drop_null(), names),
        read_images(sides.source, some.source, names),
        read_images(sides.target, some.target, names),
        some.has("base"),
    )


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CombinedRows:
    """Rows that replace the target's: some columns come from the source, the others stay.

    They are put together when they are read, so that many of them need no memory.
    """

    sides: TableSides
    entities: Entities
    from_source: PackedMasks
    computed: Mapping[str, pa.Array] = field(default_factory=dict)
    """Columns of which neither side gives the value, with one for each entity."""

    def __len__(self) -> int:
        return len(self.entities)

    def filter(self, mask: Mask) -> CombinedRows:
        kept = pa.array(mask)
        computed = {name: values.filter(kept) for name, values in self.computed.items()}
        return CombinedRows(
            self.sides, self.entities.filter(mask), self.from_source[mask], computed
        )

    def read(
        self, columns: Sequence[str], *, batch_rows: int, blob_bytes: bool = False
    ) -> Iterator[pa.Table]:
        """Yield the rows with these columns, as a table has them, a batch at a time."""
        names = self.sides.columns
        for start in range(0, len(self), batch_rows):
            some = self.entities.slice(start, batch_rows)
            masks = unpack_masks(self.from_source[start : start + batch_rows], len(names))
            picks = dict(zip(names, masks, strict=True))
            given = [name for name in columns if name not in self.computed]
            theirs = [name for name in given if picks[name].any()]
            ours = [name for name in given if not picks[name].all()]
            source = _read_batch(self.sides.source, some.source, theirs, blob_bytes=blob_bytes)
            target = _read_batch(self.sides.target, some.target, ours, blob_bytes=blob_bytes)
            found = [
                self.computed[name].slice(start, batch_rows)
                if name in self.computed
                else _pick(picks[name], source.get(name), target.get(name))
                for name in columns
            ]
            yield pa.table(found, names=list(columns))


def _read_batch(
    table: Table, addresses: pa.Array, columns: Sequence[str], *, blob_bytes: bool
) -> Mapping[str, pa.ChunkedArray]:
    if not columns:
        return {}
    (found,) = read_rows_at_addresses(
        table, addresses, columns, batch_rows=len(addresses), blob_bytes=blob_bytes
    )
    return dict(zip(columns, found.columns, strict=True))


def _pick(
    mask: Mask, source: pa.ChunkedArray | None, target: pa.ChunkedArray | None
) -> pa.ChunkedArray:
    if source is None or target is None:
        return target if source is None else source
    return pc.if_else(pa.array(mask), source, target)
