"""Check ids: equal to what the key makes, given once by an input, and new where they must be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import ConstraintKind, NodeType
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


_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class IdFindings:
    """Rows of an input that are refused or superseded because of a repeated id, by position."""

    violations: Iterable[Violation] = ()
    """Nodes whose key an earlier row has: a violation in every mode, not an update."""
    conflict: tuple[int, int] | None = None
    """The first row with an id that must be unique and is repeated, and its last repetition."""
    refused: Positions = field(default_factory=lambda: _NONE)
    """The rows that repeat a key, or an id that must be unique."""
    superseded: Positions = field(default_factory=lambda: _NONE)
    """The rows that a later row of the same id replaces."""

    @property
    def dropped(self) -> Positions:
        return np.concatenate([self.refused, self.superseded])


def check_repeated_ids(change: TableChange, *, last_wins: bool) -> IdFindings:
    """Find the rows that repeat an id, which replace earlier ones with `last_wins`.

    The common case of none costs one pass.
    """
    if are_distinct(change.ids):
        return IdFindings()
    rows, first, last = _find_repeated(change.ids)
    again = rows != first
    if isinstance(change.type, NodeType) and change.type.key:
        violations = _list_repeated_keys(change, rows[again], first[again])
        return IdFindings(violations, refused=rows[again])
    if last_wins:
        return IdFindings(superseded=rows[rows != last])
    return IdFindings(conflict=(int(rows[0]), int(last[0])), refused=rows[again])


def _find_repeated(ids: pa.Array) -> tuple[Positions, Positions, Positions]:
    """Find the rows with repeated ids, and for each the first and the last row with its id."""
    codes = ids.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    last = len(codes) - 1 - np.unique(codes[::-1], return_index=True)[1]
    rows = np.flatnonzero(counts[codes] > 1)
    return rows, first[codes[rows]], last[codes[rows]]


def _list_repeated_keys(
    change: TableChange, rows: Positions, first: Positions
) -> Iterator[Violation]:
    (key,) = change.type.of_kind(ConstraintKind.KEY)
    for index, other in zip(rows.tolist(), first.tolist(), strict=True):
        id = change.ids[index].as_py()
        message = describe_unique(change.type, key, id, id, id)
        yield change.violation(ViolationKind.UNIQUE, message, index, other)


@dataclass(frozen=True, slots=True)
class StoredIds:
    """The stored rows that rows of an input meet by their ids."""

    positions: pa.Array
    """The position of each id among the stored ones; NULL for a new one."""
    taken: Positions
    """The rows that are refused because their id is stored."""


def check_stored_ids(change: TableChange, stored: pa.Array, *, must_be_new: bool) -> StoredIds:
    """Match rows with stored ids, which refuse them with `must_be_new`."""
    positions = pc.index_in(change.ids, value_set=stored)
    if not must_be_new or positions.null_count == len(positions):
        return StoredIds(positions, _NONE)
    return StoredIds(positions, np.flatnonzero(positions.is_valid().to_numpy(zero_copy_only=False)))


def describe_taken(key: TableKey, id: str) -> str:
    return KeyConflict(key, id).message
