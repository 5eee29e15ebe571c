"""Merge by property: the columns that each side changed, and rows that combine them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.equality import (
    Images,
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
    Mask,
    Masks,
    TableSides,
    Verdicts,
)
from omnigraph.storage.tables import Table, read_rows_at_addresses

PackedMasks = npt.NDArray[np.uint8]
"""A row for each entity, with a bit for each column."""


def pack_masks(masks: Masks) -> PackedMasks:
    return np.packbits(masks.T, axis=1)


def unpack_masks(packed: PackedMasks, columns: int) -> Masks:
    return np.unpackbits(packed, axis=1, count=columns).T.astype(np.bool_)


def mask_any(masks: Masks) -> Mask:
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
    """The columns that each side changed, for entities that both have.

    A column without a base counts as changed by both sides.
    """

    by_source: Masks
    by_target: Masks
    clash: Masks
    """Both sides changed it, to different values."""
    base_is_known: Masks
    """The base has the value, or is known to lack the entity."""

    @classmethod
    def start(cls, shape: tuple[int, int], base_is_known: Masks) -> ColumnChanges:
        changed = np.ones(shape, np.bool_)
        return cls(changed, changed.copy(), np.zeros(shape, np.bool_), base_is_known)

    @property
    def from_source(self) -> Masks:
        """The columns that only the source changed."""
        masks: Masks = self.by_source & ~self.by_target
        return masks

    @property
    def differ(self) -> Masks:
        """The columns that differ between the sides."""
        masks: Masks = (self.by_source ^ self.by_target) | self.clash
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

    Without `compares_all_blobs`, blobs of entities that conflict already are not read.
    """
    names = sides.columns
    images = _read_sides(sides, some, names)
    shape = (len(names), len(some))
    known = np.where(images.in_base, images.known, sides.base_is_known)
    found = ColumnChanges.start(shape, known)
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
    """The rows of the three sides; of the base, those of existing entities."""

    base: Images
    source: Images
    target: Images
    in_base: Mask
    known: Masks
    """Mask of known base values, a row for each column."""

    def compare_values(self, name: str, row: int, found: ColumnChanges) -> None:
        source, target = (side.rows.column(name) for side in (self.source, self.target))
        known = self.known[row]
        if known.any():
            base = self.base.rows.column(name).filter(pa.array(known[self.in_base]))
            for side, changed in ((source, found.by_source), (target, found.by_target)):
                changed[row, known] = ~compare_values(base, side.filter(pa.array(known)))
        both = np.flatnonzero(found.by_source[row] & found.by_target[row])
        if len(both):
            rows = pa.array(both)
            found.clash[row, both] = ~compare_values(source.take(rows), target.take(rows))

    def compare_blobs(self, name: str, row: int, found: ColumnChanges, within: Mask) -> None:
        known = self.known[row]
        if known.any():
            base, asked = self.base.filter(known[self.in_base]), within[known]
            for side, changed in ((self.source, found.by_source), (self.target, found.by_target)):
                changed[row, known] = ~compare_blobs(name, base, side.filter(known), asked)
        both = found.by_source[row] & found.by_target[row]
        same = compare_blobs(name, self.source, self.target, both & within)
        found.clash[row] = both & ~same


def _read_sides(sides: TableSides, some: Entities, names: Sequence[str]) -> _Images:
    base = read_images(sides.base, some.base.drop_null(), names)
    in_base = some.has("base")
    known = np.zeros((len(names), len(some)), np.bool_)
    known[:, in_base] = base.mask_known(names)
    return _Images(
        base,
        read_images(sides.source, some.source, names),
        read_images(sides.target, some.target, names),
        in_base,
        known,
    )


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CombinedRows:
    """Rows that replace the target's: some columns come from the source, the others stay.

    They are combined when they are read, so that many of them need no memory.
    """

    sides: TableSides
    entities: Entities
    from_source: PackedMasks
    computed: Mapping[str, pa.Array] = field(default_factory=dict)
    """Columns computed by rules, with a value for each entity."""

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
        """Yield the rows with these columns in stored form, a batch at a time."""
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
