"""Check uniqueness, `@key` and `@unique`, within a write and against the stored rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Constraint, ConstraintKind, EdgeType, NodeType
from omnigraph.constraints.table_changes import Committed, TableChange, get_column, mask_remaining
from omnigraph.errors import Violation, ViolationKind
from omnigraph.types.canonical_strings import encode_canonical_column
from omnigraph.types.property import FLOATS, Scalar


def are_distinct(values: pa.Array) -> bool:
    """Return whether all values differ; NULL counts as a value."""
    return len(pc.unique(values)) == len(values)


_SEPARATOR = "\x1f"
_SAMPLED_ROWS = 10_000


def find_unique_violations(change: TableChange, committed: Committed) -> Iterator[Violation]:
    """Find two rows with equal tuples; a tuple with a NULL in it is exempt."""
    if change.rows.num_rows == 0:
        return
    for constraint in list_unique_groups(change.type):
        if not _cannot_repeat(change, constraint):
            for found in find_repeated_tuples(change, constraint, committed):
                yield from found


def find_repeated_tuples(
    change: TableChange, constraint: Constraint, committed: Committed
) -> tuple[Iterator[Violation], Iterator[Violation]]:
    """Find violations of one constraint: among the rows of a change, then against committed rows.

    A key needs no look at committed rows: equal keys make equal ids, and an equal id is a
    replacement. A table that is replaced as a whole has no other rows to compare with.
    """
    checked = _Checked(change, constraint, encode_members(change.type, change.rows, constraint))
    tuples = _join_members(checked.members)
    within = chain(_find_non_finite(checked), _find_repeats_within(checked, tuples))
    if constraint.kind is not ConstraintKind.UNIQUE or change.replaces_all:
        return within, iter(())
    return within, _find_repeats_against(checked, tuples, committed)


def _cannot_repeat(change: TableChange, constraint: Constraint) -> bool:
    """Return whether this is the key of a single row, as in small writes, and cannot be NaN."""
    if constraint.kind is not ConstraintKind.KEY or change.rows.num_rows > 1:
        return False
    members = (change.type.property(name) for name in constraint.columns)
    return not any(one is not None and one.type.scalar in FLOATS for one in members)


def list_unique_groups(type_: NodeType | EdgeType) -> tuple[Constraint, ...]:
    return (*type_.of_kind(ConstraintKind.KEY), *type_.of_kind(ConstraintKind.UNIQUE))


def encode_tuples(type_: NodeType | EdgeType, rows: pa.Table, constraint: Constraint) -> pa.Array:
    """Return the compared tuple of each row as one string; NULL where any member is NULL."""
    return _join_members(encode_members(type_, rows, constraint))


def describe_unique(
    type_: NodeType | EdgeType, constraint: Constraint, value: str, held_by: str, id: str
) -> str:
    """Describe a violation of uniqueness by two rows; equal keys are one row given twice."""
    holders = "given twice" if held_by == id else f"held by '{held_by}' and '{id}'"
    return f"{_name_constraint(type_, constraint)} value '{value}' {holders}"


def _name_constraint(type_: NodeType | EdgeType, constraint: Constraint) -> str:
    names = constraint.columns
    where = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return f"@unique violation on {type_.name}.{where}:"


# --- tuples --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Checked:
    """One constraint over the rows of a write; `members` are its columns as canonical strings."""

    change: TableChange
    constraint: Constraint
    members: tuple[pa.Array, ...]

    def violation(self, index: int, held_by: str, other: int | None = None) -> Violation:
        """Make a violation of the row at `index`, whose tuple the row `held_by` at `other` has."""
        values = [member[index].as_py() for member in self.members]
        value = values[0] if len(values) == 1 else f"({', '.join(values)})"
        id = self.change.ids[index].as_py()
        message = describe_unique(self.change.type, self.constraint, value, held_by, id)
        return self.change.violation(ViolationKind.UNIQUE, message, index, other)


def encode_members(
    type_: NodeType | EdgeType, rows: pa.Table, constraint: Constraint
) -> tuple[pa.Array, ...]:
    """Return the columns of a constraint as canonical strings."""
    return tuple(_canonicalize(type_, get_column(rows, name), name) for name in constraint.columns)


def _canonicalize(type_: NodeType | EdgeType, values: pa.Array, name: str) -> pa.Array:
    property_ = type_.property(name)
    if property_ is None:
        return values  # `src` and `dst` hold ids, which are canonical strings already.
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
    if values.null_count == len(values):
        return pa.nulls(len(values), pa.string())
    return encode_canonical_column(values, property_.type)


def _join_members(members: tuple[pa.Array, ...]) -> pa.Array:
    if len(members) == 1:
        return members[0]
    # Members may contain the separator, so it is doubled inside them first: (a, b) stays apart
    # from every other split of the same characters.
    escaped = [pc.replace_substring(m, _SEPARATOR, _SEPARATOR * 2) for m in members]
    return pc.binary_join_element_wise(*escaped, f"{_SEPARATOR}|", null_handling="emit_null")


def _find_non_finite(checked: _Checked) -> Iterator[Violation]:
    """Find the rows whose tuple has no string: NaN equals nothing, and cannot be compared."""
    stored = [get_column(checked.change.rows, name) for name in checked.constraint.columns]
    if not any(pa.types.is_floating(values.type) for values in stored):
        return
    are_given = [pc.is_valid(values) for values in stored]
    have_strings = [pc.is_valid(member) for member in checked.members]
    wrong = pc.and_not(reduce(pc.and_, are_given), reduce(pc.and_, have_strings))
    for index in pc.indices_nonzero(wrong).to_pylist():
        where = _name_constraint(checked.change.type, checked.constraint)
        message = f"{where} a non-finite number cannot be a unique value"
        yield checked.change.violation(ViolationKind.UNIQUE, message, index)


# --- who else has it -----------------------------------------------------------------------------


def _find_repeats_within(checked: _Checked, tuples: pa.Array) -> Iterator[Violation]:
    if len(tuples) < 2:
        return
    given = tuples.drop_null()
    if are_distinct(given):
        return
    counts = pc.value_counts(given)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    groups = pc.index_in(tuples, value_set=repeated)
    holders = pc.indices_nonzero(pc.is_valid(groups))
    first: dict[int, int] = {}
    for index, group in zip(holders.to_pylist(), groups.take(holders).to_pylist(), strict=True):
        if group in first:
            other = first[group]
            yield checked.violation(index, checked.change.ids[other].as_py(), other)
        else:
            first[group] = index


def _find_repeats_against(
    checked: _Checked, tuples: pa.Array, committed: Committed
) -> Iterator[Violation]:
    change, names = checked.change, checked.constraint.columns
    rows = change.rows.select(list(names)).filter(pc.is_valid(tuples))
    if not rows.num_rows:
        return
    by = _choose_lookup_column(change.type, rows)
    found = committed.find(
        change.table_key, by, _list_wanted_values(get_column(rows, by)), ["id", *names]
    )
    found = found.filter(mask_remaining(get_column(found, "id"), change.gone))
    if not found.num_rows:
        return
    found = found.sort_by("id")
    taken = encode_tuples(change.type, found, checked.constraint)
    positions = pc.index_in(tuples, value_set=taken, skip_nulls=True)
    hits = pc.indices_nonzero(pc.is_valid(positions))
    held_by = get_column(found, "id").take(positions.take(hits))
    for index, holder in zip(hits.to_pylist(), held_by.to_pylist(), strict=True):
        yield checked.violation(index, holder)


def _choose_lookup_column(type_: NodeType | EdgeType, rows: pa.Table) -> str:
    """Return the column to find committed rows by: the one that is likely to find the fewest."""
    sample = rows.slice(0, _SAMPLED_ROWS)

    def narrowness(name: str) -> tuple[bool, int]:
        property_ = type_.property(name)
        has_few_values = property_ is not None and (
            property_.type.is_enum or property_.type.scalar is Scalar.BOOL
        )
        return not has_few_values, pc.count_distinct(sample.column(name)).as_py()

    names: list[str] = rows.column_names
    return max(names, key=narrowness)


def _list_wanted_values(values: pa.Array) -> pa.Array:
    """List the values to look up; both zeros, which are equal and differ in bits."""
    if not pa.types.is_floating(values.type) or not pc.any(pc.equal(values, 0.0)).as_py():
        return values
    return pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)])
