"""Equality of rows: typed, over every value.

Null is neither an empty text nor an empty list. Numbers are compared as they are stored, so 0.0
and -0.0 differ, but every NaN is the same. Lists and vectors are compared item by item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.history.table_sides import (
    ROWS_AT_ONCE,
    Mask,
    Masks,
    RowSource,
    VirtualRows,
    mask_valid,
    read_blobs,
    read_rows,
)
from omnigraph.storage.tables import is_blob

BLOBS_PER_READ = 64
"""The number of blobs of each side in memory during a comparison."""


@dataclass(frozen=True, slots=True)
class Images:
    """Rows of one version of a table with their addresses; blobs as descriptors."""

    source: RowSource
    addresses: pa.Array
    rows: pa.Table

    def filter(self, mask: Mask) -> Images:
        if mask.all():
            return self
        kept = pa.array(mask)
        return Images(self.source, self.addresses.filter(kept), self.rows.filter(kept))

    def mask_known(self, columns: Sequence[str]) -> Masks:
        """Mask, for each of these columns, the rows that have a value or null of it."""
        if isinstance(self.source, VirtualRows):
            return self.source.mask_known(self.addresses, columns)
        return np.ones((len(columns), self.rows.num_rows), np.bool_)

    @property
    def blobs(self) -> frozenset[str]:
        """The names of the blob columns that were read."""
        read = set(self.rows.schema.names)
        return frozenset(f.name for f in self.source.schema if is_blob(f) and f.name in read)


def read_images(
    source: RowSource, addresses: pa.Array, columns: Sequence[str] | None = None
) -> Images:
    """Read the rows at these addresses; the caller bounds their number."""
    names = source.schema.names if columns is None else columns
    return Images(source, addresses, pa.concat_tables(list(read_rows(source, addresses, names))))


def compare_entities(
    one: RowSource,
    left: pa.Array,
    other: RowSource,
    right: pa.Array,
    columns: Sequence[str] | None = None,
) -> Mask:
    """Mask the entities that are equal in two versions, or absent from both.

    Addresses are null where an entity is absent. With `columns`, only those are compared.
    """
    present, there = mask_valid(left), mask_valid(right)
    same: Mask = present == there
    compared = np.flatnonzero(present & there)
    for start in range(0, len(compared), ROWS_AT_ONCE):
        some = compared[start : start + ROWS_AT_ONCE]
        rows = pa.array(some)
        same[some] = compare_images(
            read_images(one, left.take(rows), columns),
            read_images(other, right.take(rows), columns),
        )
    return same


def compare_images(left: Images, right: Images, columns: Sequence[str] | None = None) -> Mask:
    """Mask the rows that are equal on both sides; an unknown value equals nothing.

    Payloads of blobs are read only if all else is equal. With `columns`, only those are compared.
    """
    names, blobs = left.rows.schema.names if columns is None else columns, left.blobs
    known = left.mask_known(names) & right.mask_known(names)
    equal = np.asarray(known.all(axis=0), np.bool_)
    plain = [name for name in names if name not in blobs]
    equal &= compare_rows(left.rows, right.rows, plain)
    for name in names:
        if name in blobs:
            equal &= compare_blobs(name, left, right, equal)
    return equal


def compare_blobs(name: str, left: Images, right: Images, within: Mask) -> Mask:
    """Mask the equal blobs of one column, among the rows in `within`."""
    equal = within & _compare_sizes(left.rows.column(name), right.rows.column(name))
    return _compare_payloads(name, left, right, equal)


def compare_rows(left: pa.Table, right: pa.Table, columns: Sequence[str] | None = None) -> Mask:
    """Mask the rows that have equal values in every column; both have the same columns."""
    names = left.schema.names if columns is None else columns
    equal = np.ones(left.num_rows, np.bool_)
    for name in names:
        equal &= compare_values(left.column(name), right.column(name))
    return equal


def compare_values(left: pa.ChunkedArray | pa.Array, right: pa.ChunkedArray | pa.Array) -> Mask:
    """Mask the equal values of two columns of one type."""
    return _compare_arrays(_combine_chunks(left), _combine_chunks(right))


def _combine_chunks(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _compare_arrays(left: pa.Array, right: pa.Array) -> Mask:
    assert left.type == right.type, f"{left.type} is compared with {right.type}"
    present, other = mask_valid(left), mask_valid(right)
    equal: Mask = present == other
    compared = np.flatnonzero(present & other)
    if len(compared):
        rows = pa.array(compared)
        equal[compared] = _compare_present(left.take(rows), right.take(rows))
    return equal


def _compare_present(left: pa.Array, right: pa.Array) -> Mask:
    """Compare values without nulls."""
    kind = left.type
    if pa.types.is_floating(kind):
        return _compare_numbers(left.to_numpy(), right.to_numpy())
    if pa.types.is_fixed_size_list(kind):
        same = _compare_arrays(left.flatten(), right.flatten())
        return np.asarray(same.reshape(len(left), kind.list_size).all(axis=1))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _compare_lists(left, right)
    if pa.types.is_struct(kind):
        parts = [_compare_arrays(left.field(i), right.field(i)) for i in range(kind.num_fields)]
        return np.asarray(np.stack(parts).all(axis=0))
    return np.asarray(pa.compute.equal(left, right).to_numpy(zero_copy_only=False), np.bool_)


def _compare_numbers(left: npt.NDArray[np.floating], right: npt.NDArray[np.floating]) -> Mask:
    bits = np.dtype(f"u{left.dtype.itemsize}")
    same: Mask = left.view(bits) == right.view(bits)
    same |= np.isnan(left) & np.isnan(right)
    return same


def _compare_lists(left: pa.Array, right: pa.Array) -> Mask:
    lengths = left.value_lengths().to_numpy()
    equal: Mask = lengths == right.value_lengths().to_numpy()
    compared = np.flatnonzero(equal)
    rows = pa.array(compared)
    items = _compare_arrays(left.take(rows).flatten(), right.take(rows).flatten())
    owners = np.repeat(compared, lengths[compared])
    equal[owners[~items]] = False
    return equal


# --- blobs ----------------------------------------------------------------------------------------


def _compare_sizes(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    """Mask the descriptors that may be equal: both null, or of one size."""
    sizes = [_get_sizes(side) for side in (left, right)]
    return _compare_arrays(*sizes)


def _get_sizes(descriptors: pa.ChunkedArray) -> pa.Array:
    whole = _combine_chunks(descriptors)
    size = whole.field(whole.type.get_field_index("size"))
    return pa.compute.if_else(whole.is_valid(), size, pa.scalar(None, size.type))


def _compare_payloads(name: str, left: Images, right: Images, equal: Mask) -> Mask:
    """Return the mask without rows whose blobs differ; reads only rows that are equal so far."""
    same = equal.copy()
    present = mask_valid(_combine_chunks(left.rows.column(name)))
    tied = np.flatnonzero(equal & present)
    for start in range(0, len(tied), BLOBS_PER_READ):
        some = tied[start : start + BLOBS_PER_READ]
        values = [
            read_blobs(side.source, name, side.addresses.take(pa.array(some)))
            for side in (left, right)
        ]
        same[some] = [mine == theirs for mine, theirs in zip(*values, strict=True)]
    return same
