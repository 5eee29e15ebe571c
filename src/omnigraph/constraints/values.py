"""Rules about single values: `@range`, `@check` and the members of an enum."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Constraint, ConstraintKind, Property
from omnigraph.constraints.model import TableChange, column
from omnigraph.errors import Violation, ViolationKind
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, INTEGERS


def value_violations(change: TableChange) -> Iterator[Violation]:
    """Violations in the order of the constraints, then of the rows; NULL breaks no rule."""
    if change.rows.num_rows == 0:
        return
    for constraint in change.type.of_kind(ConstraintKind.RANGE):
        yield from _range(change, constraint)
    for constraint in change.type.of_kind(ConstraintKind.CHECK):
        yield from _check(change, constraint)
    for property_ in change.type.properties:
        if property_.type.enum_values is not None:
            yield from _enum(change, property_, property_.type.enum_values)


def _range(change: TableChange, constraint: Constraint) -> Iterator[Violation]:
    name = constraint.columns[0]
    property_ = change.type.by_name[name]
    values = column(change.rows, name)
    shown = f"@range violation on {change.type.name}.{name}:"
    if property_.type.scalar in FLOATS:
        yield from _at(change, pc.is_nan(values), lambda _: f"{shown} value is NaN")
    if constraint.low is not None:
        low = constraint.low
        mask = _beyond(values, property_, low, below=True)
        yield from _at(change, mask, lambda i: f"{shown} value {values[i]} < min {low}")
    if constraint.high is not None:
        high = constraint.high
        mask = _beyond(values, property_, high, below=False)
        yield from _at(change, mask, lambda i: f"{shown} value {values[i]} > max {high}")


def _beyond(values: pa.Array, property_: Property, bound: str, *, below: bool) -> pa.Array:
    """Which values lie outside a bound; whole numbers are compared exactly, not as floats."""
    compare = pc.less if below else pc.greater
    if property_.type.scalar in INTEGERS and "." not in bound:
        number = int(bound)
        low, high = INTEGER_BOUNDS[property_.type.scalar]
        if low <= number <= high:
            return compare(values, pa.scalar(number, values.type))
        everything = (number > high) if below else (number < low)
        return pc.and_(pc.is_valid(values), pa.scalar(everything))
    return compare(values.cast(pa.float64(), safe=False), pa.scalar(float(bound)))


def _check(change: TableChange, constraint: Constraint) -> Iterator[Violation]:
    name, pattern = constraint.columns[0], constraint.pattern
    assert pattern is not None, "a check has a pattern"
    values = column(change.rows, name)
    wrong = pc.invert(pc.match_substring_regex(values, pattern))
    shown = f"@check violation on {change.type.name}.{name}:"
    yield from _at(
        change, wrong, lambda i: f"{shown} value '{values[i]}' does not match pattern '{pattern}'"
    )


def _enum(
    change: TableChange, property_: Property, members: tuple[str, ...]
) -> Iterator[Violation]:
    values = column(change.rows, property_.name)
    known = pc.is_in(values, value_set=pa.array(members, pa.string()))
    wrong = pc.and_(pc.is_valid(values), pc.invert(known))
    where, expected = f"{change.type.name}.{property_.name}", ", ".join(members)
    yield from _at(
        change,
        wrong,
        lambda i: f"invalid enum value '{values[i]}' for {where} (expected: {expected})",
    )


def _at(change: TableChange, mask: pa.Array, message: Callable[[int], str]) -> Iterator[Violation]:
    """A violation for each row the mask names; the common case of none costs one pass."""
    for index in pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist():
        yield change.violation(ViolationKind.VALUE, message(index), index)
