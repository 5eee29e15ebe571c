"""Uniqueness: `@key` and `@unique`, within a write and against what is there."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Constraint, ConstraintKind, EdgeType, NodeType
from omnigraph.constraints.model import Committed, TableChange, column, without
from omnigraph.errors import Violation, ViolationKind
from omnigraph.types.canonical import canonical_strings

_SEPARATOR = "\x1f"
_ENDS = frozenset({"src", "dst", "id"})


def unique_violations(change: TableChange, committed: Committed) -> Iterator[Violation]:
    """Two ids with equal tuples; a tuple with a NULL in it is exempt.

    A key needs no look at committed rows: equal keys make equal ids, and an equal id is a
    replacement. A table that is replaced as a whole has no other rows to compare with.
    """
    if change.rows.num_rows == 0:
        return
    for constraint in unique_groups(change.type):
        tuples = tuple_strings(change.type, change.rows, constraint)
        yield from _within(change, constraint, tuples)
        if constraint.kind is ConstraintKind.UNIQUE and not change.replaces_all:
            yield from _against(change, constraint, tuples, committed)


def unique_groups(type_: NodeType | EdgeType) -> tuple[Constraint, ...]:
    return (*type_.of_kind(ConstraintKind.KEY), *type_.of_kind(ConstraintKind.UNIQUE))


def tuple_strings(type_: NodeType | EdgeType, rows: pa.Table, constraint: Constraint) -> pa.Array:
    """The compared tuple of each row as one string; NULL where any member is NULL."""
    parts = [_canonical(type_, column(rows, name), name) for name in constraint.columns]
    if len(parts) == 1:
        return parts[0]
    # Members may contain the separator, so it is doubled inside them first: (a, b) stays apart
    # from every other split of the same characters.
    escaped = [pc.replace_substring(p, _SEPARATOR, _SEPARATOR * 2) for p in parts]
    joiner = f"{_SEPARATOR}|"
    return pc.binary_join_element_wise(*escaped, joiner, null_handling="emit_null")


def _canonical(type_: NodeType | EdgeType, values: pa.Array, name: str) -> pa.Array:
    if name in _ENDS:
        return values
    return canonical_strings(values, type_.by_name[name].type)


def _within(change: TableChange, constraint: Constraint, tuples: pa.Array) -> Iterator[Violation]:
    counts = pc.value_counts(tuples.drop_null())
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if not len(repeated):
        return
    holders = pc.index_in(tuples, value_set=repeated)
    first: dict[int, int] = {}
    for index in pc.indices_nonzero(pc.is_valid(holders)).to_pylist():
        group = holders[index].as_py()
        if group not in first:
            first[group] = index
            continue
        held_by = change.ids[first[group]].as_py()
        message = _message(change, constraint, index, held_by, change.ids[index].as_py())
        yield change.violation(ViolationKind.UNIQUE, message, index)


def _against(
    change: TableChange, constraint: Constraint, tuples: pa.Array, committed: Committed
) -> Iterator[Violation]:
    present = tuples.drop_null()
    if not len(present):
        return
    by = constraint.columns[0]
    wanted = pc.unique(column(change.rows, by).filter(pc.is_valid(tuples)))
    names = list(dict.fromkeys(["id", *constraint.columns]))
    found = committed.find(change.table_key, by, wanted, names)
    found = found.filter(without(column(found, "id"), change.gone))
    if not found.num_rows:
        return
    taken = tuple_strings(change.type, found, constraint)
    position = pc.index_in(tuples, value_set=taken)
    for index in pc.indices_nonzero(pc.is_valid(position)).to_pylist():
        if tuples[index].as_py() is None:
            continue
        held_by = column(found, "id")[position[index].as_py()].as_py()
        message = _message(change, constraint, index, held_by, change.ids[index].as_py())
        yield change.violation(ViolationKind.UNIQUE, message, index)


def _message(change: TableChange, constraint: Constraint, index: int, held_by: str, id: str) -> str:
    names = constraint.columns
    values = [
        _canonical(change.type, column(change.rows, n).slice(index, 1), n)[0].as_py() for n in names
    ]
    if len(names) == 1:
        where, value = names[0], values[0]
    else:
        where, value = f"({', '.join(names)})", f"({', '.join(values)})"
    return (
        f"@unique violation on {change.type.name}.{where}: "
        f"value '{value}' held by '{held_by}' and '{id}'"
    )
