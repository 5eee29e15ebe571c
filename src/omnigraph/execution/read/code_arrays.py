"""Array arithmetic of the operators: ranges, distinct codes, groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes = npt.NDArray[np.int32]
"""Entity codes: indexes into the entities of a variable; -1 is a missing one."""
Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.integer[Any]]

MISSING = -1

_DENSE_FACTOR = 4
"""A table of all possible keys pays off up to this many times the number of rows."""
_DENSE_ALWAYS = 1 << 16
_TABLE_FACTOR = 32
"""Density limit of a table of the codes of one variable: a lookup is cheaper than a search."""
_LARGEST_KEY = 1 << 62
_EXACT_IN_DOUBLES = 2.0**52


def encode_values(values: Integers | Sequence[int]) -> Codes:
    return np.asarray(values, dtype=np.int32)


def expand_ranges(starts: Longs, counts: Longs) -> Longs:
    """Return the numbers `start, start + 1, …` of all ranges, concatenated."""
    total = int(counts.sum())
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(total, dtype=np.int64)


def is_dense(domain: int, rows: int) -> bool:
    return domain <= max(_DENSE_ALWAYS, _DENSE_FACTOR * rows)


def _fits_a_table(size: int, rows: int) -> bool:
    return size <= max(_DENSE_ALWAYS, _TABLE_FACTOR * rows)


def find_distinct(codes: Integers, size: int) -> Codes:
    """The distinct codes, ascending, without the missing one."""
    if len(codes) and codes[0] >= 0 and bool((codes[1:] > codes[:-1]).all()):
        return encode_values(codes)
    if not _fits_a_table(size, len(codes)):
        found = np.unique(codes)
        return encode_values(found[found >= 0])
    seen = np.zeros(size + 1, dtype=np.bool_)
    seen[codes] = True  # -1 marks the last position, which has no entity
    return encode_values(np.flatnonzero(seen[:size]))


def find_positions(codes: Integers, among: Codes, size: int) -> Codes:
    """The position of each code in the ascending array `among`; -1 if absent."""
    if _fits_a_table(size, len(codes)):
        table = np.full(size + 1, MISSING, dtype=np.int32)
        table[among] = np.arange(len(among), dtype=np.int32)
        return encode_values(table[codes])
    if not len(among):
        return np.full(len(codes), MISSING, dtype=np.int32)
    guess = np.minimum(np.searchsorted(among, codes), len(among) - 1)
    return encode_values(np.where(among[guess] == codes, guess, MISSING))


def find_positions_among(values: Longs, among: Longs) -> Codes:
    """The position of each value in an array of distinct numbers in any order; -1 if absent."""
    size = int(max(values.max(initial=-1), among.max(initial=-1))) + 1
    if _fits_a_table(size, len(values) + len(among)):
        table = np.full(size, MISSING, dtype=np.int32)
        table[among] = np.arange(len(among), dtype=np.int32)
        return encode_values(table[values])
    if not len(among):
        return np.full(len(values), MISSING, dtype=np.int32)
    order = np.argsort(among, kind="stable")
    guess = order[np.minimum(np.searchsorted(among, values, sorter=order), len(among) - 1)]
    return encode_values(np.where(among[guess] == values, guess, MISSING))


def mask_found(ordered: Longs, values: Longs, guess: Longs | None = None) -> Flags:
    """Mask the values found in the ascending array `ordered`, at their insertion points `guess`."""
    if not len(ordered):
        return np.zeros(len(values), dtype=np.bool_)
    at = np.searchsorted(ordered, values) if guess is None else guess
    return np.asarray(ordered[np.minimum(at, len(ordered) - 1)] == values)


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of rows, numbered in the order of their keys, and one row of each."""

    of_row: Longs
    first_row: Longs

    @property
    def count(self) -> int:
        return len(self.first_row)


def combine_codes(columns: Sequence[tuple[Integers, int]], rows: int) -> tuple[Longs, int]:
    """Combine columns of codes to one key, and return the number of possible keys.

    Each column comes with its number of codes; the missing code -1 is a value as well.
    """
    if not columns:
        return np.zeros(rows, dtype=np.int64), 1
    keys, domain = columns[0][0].astype(np.int64) + 1, columns[0][1] + 1
    for codes, size in columns[1:]:
        if domain * (size + 1) > _LARGEST_KEY:
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64)
            domain = rows
        keys *= size + 1
        keys += codes
        keys += 1
        domain *= size + 1
    return keys, domain


def split_codes(keys: Longs, sizes: Sequence[int]) -> list[Codes]:
    """Split keys of `combine_codes` into columns again, unless it renumbered them."""
    columns: list[Codes] = []
    for size in reversed(sizes[1:]):
        keys, codes = np.divmod(keys, size + 1)
        columns.append(encode_values(codes - 1))
    if sizes:
        columns.append(encode_values(keys - 1))
    return columns[::-1]


def group(keys: Longs, domain: int) -> Groups:
    """Group rows by key; the row of each group is its first."""
    if not is_dense(domain, len(keys)):
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        return Groups(inverse.astype(np.int64), first.astype(np.int64))
    row_of_key = np.full(domain, MISSING, dtype=np.int64)
    # The last assignment of a key wins, so rows are assigned backwards.
    row_of_key[keys[::-1]] = np.arange(len(keys) - 1, -1, -1, dtype=np.int64)
    occurs = row_of_key >= 0
    number = np.cumsum(occurs) - 1
    return Groups(number[keys], row_of_key[occurs])


def sum_groups(of_row: Longs, weights: Longs | None, count: int) -> Longs:
    """The sum of the weights of each group, exact; without weights every row counts one."""
    if weights is None:
        return np.bincount(of_row, minlength=count).astype(np.int64)
    if float(weights.sum(dtype=np.float64)) < _EXACT_IN_DOUBLES:
        return np.bincount(of_row, weights, count).astype(np.int64)
    total = np.zeros(count, dtype=np.int64)
    np.add.at(total, of_row, weights)
    return total


def take(values: pa.Array, codes: Codes) -> pa.Array:
    """The value at each code; NULL for a missing one."""
    missing = codes < 0
    if missing.any():
        return values.take(pa.array(codes, mask=missing))
    return values.take(pa.array(codes))


def combine_chunks(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def to_longs(column: pa.Array | pa.ChunkedArray) -> Longs:
    return np.asarray(combine_chunks(column).cast(pa.int64()), dtype=np.int64)
