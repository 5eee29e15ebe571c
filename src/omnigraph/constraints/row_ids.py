"""Check ids: equal to what the key makes, given once by an input, and new where they must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import ConstraintKind
from omnigraph.constraints.table_changes import TableChange
from omnigraph.constraints.unique_keys import are_distinct, describe_unique
from omnigraph.errors import KeyConflict, Violation, ViolationKind
from omnigraph.identity import TableKey

Positions = npt.NDArray[np.int64]


def mask_mismatches(given: pa.Array, derived: pa.Array) -> pa.Array:
    """Mask the ids that differ from those their keys make; a NULL on either side does not."""
    return pc.fill_null(pc.not_equal(given, derived), False)


def describe_mismatch(given: str, derived: str) -> str:
    return f"id '{given}' does not match the key, which makes it '{derived}'"


def list_mismatches(change: TableChange, derived: pa.Array) -> Iterator[Violation]:
    """Yield a violation for each stored node whose id is not the one its key makes."""
    for index in pc.indices_nonzero(mask_mismatches(change.ids, derived)).to_pylist():
        message = describe_mismatch(change.ids[index].as_py(), derived[index].as_py())
        yield change.violation(ViolationKind.VALUE, message, index)


@dataclass(frozen=True, slots=True)
class RepeatedIds:
    """The rows whose id an input gives more than once, by their positions in the input."""

    rows: Positions
    first: Positions
    """The first row with the same id, for each of the rows."""
    last: Positions

    @property
    def again(self) -> Positions:
        """The rows whose id an earlier row has."""
        again: Positions = self.rows[self.rows != self.first]
        return again

    @property
    def superseded(self) -> Positions:
        """The rows whose id a later row has."""
        superseded: Positions = self.rows[self.rows != self.last]
        return superseded

    def find_conflict(self) -> tuple[int, int] | None:
        """The first row whose id is repeated, and the last row that repeats it."""
        return (int(self.rows[0]), int(self.last[0])) if len(self.rows) else None


_NONE = np.empty(0, np.int64)
_NO_REPEATS = RepeatedIds(_NONE, _NONE, _NONE)


def find_repeated_ids(ids: pa.Array) -> RepeatedIds:
    """Find the ids that several rows give; the common case of none costs one pass."""
    if are_distinct(ids):
        return _NO_REPEATS
    codes = ids.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    last = len(codes) - 1 - np.unique(codes[::-1], return_index=True)[1]
    rows = np.flatnonzero(counts[codes] > 1)
    return RepeatedIds(rows, first[codes[rows]], last[codes[rows]])


def list_repeated_keys(change: TableChange, repeated: RepeatedIds) -> Iterator[Violation]:
    """Yield a violation for each node whose key an earlier one of the input has.

    Two records with one key are a mistake in every mode, not an update of each other.
    """
    (key,) = change.type.of_kind(ConstraintKind.KEY)
    for index, first in zip(repeated.rows.tolist(), repeated.first.tolist(), strict=True):
        if index != first:
            id = change.ids[index].as_py()
            message = describe_unique(change.type, key, id, id, id)
            yield change.violation(ViolationKind.UNIQUE, message, index, first)


def match_stored_ids(ids: pa.Array, stored: pa.Array) -> pa.Array:
    """Return the position of each id among the stored ones; NULL for a new one."""
    return pc.index_in(ids, value_set=stored)


def describe_taken(key: TableKey, id: str) -> str:
    return KeyConflict(key, id).message
