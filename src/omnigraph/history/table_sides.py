"""The three versions of a table that a merge compares, and the entities in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.equality import ROWS_AT_ONCE, Mask
from omnigraph.storage.tables import Table


class ConflictKind(StrEnum):
    """The ways in which two sides contradict each other about one entity."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"


class Granularity(StrEnum):
    """The unit that a merge takes from one side as a whole."""

    PROPERTY = "property"
    ENTITY = "entity"


Verdicts = npt.NDArray[np.uint8]
"""A row for each entity: what becomes of it, then a bit for each column taken from the source."""

UNCHANGED, APPLY, CONFLICT, COMBINE = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)
"""The target's row stays, the source's replaces it, nobody can tell, or both give columns."""


@dataclass(frozen=True, slots=True)
class TableSides:
    """The three versions of one table."""

    base: Table
    source: Table
    target: Table
    base_is_known: bool = True
    """False where an absent base means that nobody can tell, not that the entity was absent."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all three, in an order that does not depend on their history."""
        return tuple(sorted(self.source.schema.names))

    def release_rows(self, most_bytes: int, *, keeps_target: bool) -> int:
        """Forget the rows that were compared, but for those written next if they are not larger.

        Return the size of what is kept. The target's are written where rows combine both sides.
        """
        self.base.forget_rows()
        kept = [self.source]
        if keeps_target and self.target is not self.base:
            kept.append(self.target)
        else:
            self.target.forget_rows()
        size: int = sum(cached.rows.nbytes for table in kept for cached in table.cached_rows)
        if size <= most_bytes:
            return size
        for table in kept:
            table.forget_rows()
        return 0


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

    def slice(self, start: int, rows: int) -> Entities:
        return Entities(*(getattr(self, name).slice(start, rows) for name in self.__slots__))

    def batches(self, rows: int = ROWS_AT_ONCE) -> Iterator[Entities]:
        for start in range(0, len(self), rows):
            yield self.slice(start, rows)

    @staticmethod
    def concatenate(parts: Sequence[Entities]) -> Entities:
        """Combine all of them, by ascending id."""
        none = (pa.array([], pa.string()), *(pa.array([], pa.uint64()),) * 3)
        columns = [
            pa.concat_arrays([empty, *(getattr(one, name) for one in parts)])
            for name, empty in zip(Entities.__slots__, none, strict=True)
        ]
        order = pc.sort_indices(columns[0])
        return Entities(*(column.take(order) for column in columns))

    def has(self, side: str) -> Mask:
        """Mask the entities that are present on a side."""
        valid = pc.is_valid(getattr(self, side)).to_numpy(zero_copy_only=False)
        return np.asarray(valid, np.bool_)

    def kinds(self, *, base_is_known: bool) -> list[ConflictKind]:
        """Return the kind of a conflict about each of them, by where they are present."""
        was_there = self.has("base") | (not base_is_known)
        return [
            ConflictKind.DELETE_VS_UPDATE
            if not (source and target)
            else (ConflictKind.DIVERGENT_UPDATE if base else ConflictKind.DIVERGENT_INSERT)
            for base, source, target in zip(
                was_there.tolist(),
                self.has("source").tolist(),
                self.has("target").tolist(),
                strict=True,
            )
        ]
