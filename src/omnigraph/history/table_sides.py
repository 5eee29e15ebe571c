"""The versions of a table that a merge compares, and the entities and rows in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.identity import ID_COLUMN
from omnigraph.storage.tables import (
    ADDRESSES_PER_READ,
    ROW_ADDRESS,
    Table,
    read_blobs_at,
    read_rows_at_addresses,
)

ROWS_AT_ONCE = 8_192
"""The number of rows of each side in memory during a comparison."""

Mask = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.bool_]
"""A row for each column, with a value for each entity."""
Choice = npt.NDArray[np.int16]
"""A row for each column, with the number of a version for each entity."""
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """Some entities in one version of a table: the address of each, null where it is absent."""

    table: Table
    addresses: pa.Array

    @property
    def is_present(self) -> Mask:
        return mask_valid(self.addresses)


def find_rows(table: Table, ids: pa.Array) -> LocatedRows:
    """Locate the entities with these ids in a version of a table."""
    found = table.lookup(ID_COLUMN, ids, [ID_COLUMN, ROW_ADDRESS])
    offsets = pc.index_in(ids, value_set=found.column(ID_COLUMN).combine_chunks())
    return LocatedRows(table, found.column(ROW_ADDRESS).combine_chunks().take(offsets))


def mask_valid(values: pa.Array | pa.ChunkedArray) -> Mask:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True, slots=True)
class VirtualRows:
    """Rows whose columns come from several versions, or are unknown.

    A row is addressed by its index. All columns come from versions that have the row.
    """

    versions: Sequence[LocatedRows]
    columns: tuple[str, ...]
    choice: Choice

    @property
    def schema(self) -> pa.Schema:
        return self.versions[0].table.schema

    def mask_known(self, addresses: pa.Array, columns: Sequence[str]) -> Masks:
        """Mask, for each of these columns, the rows that have a value or null of it."""
        known: Masks = self._select(addresses, columns) != UNKNOWN
        return known

    def read(
        self, addresses: pa.Array, columns: Sequence[str], *, blob_bytes: bool = False
    ) -> pa.Table:
        """Read rows in order; a column of which no version has the value is null."""
        choice = self._select(addresses, columns)
        empty = self._read_version(0, addresses.slice(0, 0), columns, blob_bytes=blob_bytes)
        parts = {name: list(empty.column(name).chunks) for name in columns}
        offsets, lengths = np.zeros_like(choice), np.zeros(len(columns), np.int64)
        for number in np.unique(choice[choice != UNKNOWN]):
            cells = choice == number
            chosen, rows = np.flatnonzero(cells.any(axis=1)).tolist(), cells.any(axis=0)
            names = [columns[at] for at in chosen]
            some = addresses.filter(pa.array(rows))
            found = self._read_version(int(number), some, names, blob_bytes=blob_bytes)
            ranks = np.cumsum(rows) - 1
            for at, name in zip(chosen, names, strict=True):
                offsets[at, cells[at]] = lengths[at] + ranks[cells[at]]
                parts[name] += found.column(name).chunks
                lengths[at] += found.num_rows
        values = [
            pa.chunked_array(parts[name], empty.schema.field(name).type).take(
                pa.array(offsets[at], mask=choice[at] == UNKNOWN)
            )
            for at, name in enumerate(columns)
        ]
        return pa.table(values, names=list(columns))

    def read_blobs(self, name: str, addresses: pa.Array) -> list[bytes | None]:
        """Read the payloads of one column; None where it is null or unknown."""
        (choice,) = self._select(addresses, [name])
        found: list[bytes | None] = [None] * len(addresses)
        for number in np.unique(choice[choice != UNKNOWN]):
            version, rows = self.versions[number], np.flatnonzero(choice == number)
            own = version.addresses.take(addresses.take(pa.array(rows)))
            for row, payload in zip(rows, read_blobs_at(version.table, name, own), strict=True):
                found[row] = payload
        return found

    def _select(self, addresses: pa.Array, columns: Sequence[str]) -> Choice:
        offsets = [self.columns.index(name) for name in columns]
        return self.choice[np.ix_(offsets, addresses.to_numpy().astype(np.int64))]

    def _read_version(
        self, number: int, addresses: pa.Array, columns: Sequence[str], *, blob_bytes: bool
    ) -> pa.Table:
        version = self.versions[number]
        own, size = version.addresses.take(addresses), max(len(addresses), 1)
        (found,) = read_rows_at_addresses(
            version.table, own, columns, batch_rows=size, blob_bytes=blob_bytes
        )
        return found


RowSource = Table | VirtualRows


def read_rows(
    source: RowSource,
    addresses: pa.Array,
    columns: Sequence[str],
    *,
    batch_rows: int = ADDRESSES_PER_READ,
    blob_bytes: bool = False,
) -> Iterator[pa.Table]:
    """Read rows in order, in batches: at least one, for its columns."""
    if isinstance(source, Table):
        yield from read_rows_at_addresses(
            source, addresses, columns, batch_rows=batch_rows, blob_bytes=blob_bytes
        )
        return
    for start in range(0, max(len(addresses), 1), batch_rows):
        yield source.read(addresses.slice(start, batch_rows), columns, blob_bytes=blob_bytes)


def read_blobs(source: RowSource, name: str, addresses: pa.Array) -> list[bytes | None]:
    """Read the payloads of a blob column, one for each address."""
    if isinstance(source, Table):
        return read_blobs_at(source, name, addresses)
    return source.read_blobs(name, addresses)


# --- sides ----------------------------------------------------------------------------------------


class ConflictKind(StrEnum):
    """The ways in which two sides conflict about one entity."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"


class Granularity(StrEnum):
    """The unit that a merge takes from one side as a whole."""

    PROPERTY = "property"
    ENTITY = "entity"


Verdicts = npt.NDArray[np.uint8]
"""A row for each entity: the verdict, then a bit for each column taken from the source."""

UNCHANGED, APPLY, CONFLICT, COMBINE = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)
"""Keep the target's row, take the source's, report a conflict, or combine columns of both."""


@dataclass(frozen=True, slots=True)
class TableSides:
    """The three versions of one table; the base may be virtual."""

    base: RowSource
    source: Table
    target: Table
    base_is_known: bool = True
    """False if an absent base is unknown, rather than known to lack the entity."""

    @property
    def base_version(self) -> Table:
        """The base where it is a version of the table."""
        assert isinstance(self.base, Table), "the virtual base of some entities has no author"
        return self.base

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all three, in a deterministic order."""
        return tuple(sorted(self.source.schema.names))

    def release_rows(self, most_bytes: int, *, keeps_target: bool) -> int:
        """Release the compared rows, except those written next if they fit in `most_bytes`.

        Return the size of those retained. The target's are written where rows are combined.
        """
        self.base_version.forget_rows()
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
    """Ids with the address of their row in each version, null where absent."""

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
        return mask_valid(getattr(self, side))

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
