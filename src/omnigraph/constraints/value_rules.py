"""Rules about single values: `@range`, `@check` and the members of an enum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Constraint, ConstraintKind, EdgeType, NodeType, Property
from omnigraph.constraints.table_changes import TableChange, get_column
from omnigraph.errors import Violation, ViolationKind
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, INTEGERS, Scalar


def find_value_violations(change: TableChange) -> Iterator[Violation]:
    """Violations in the order of the constraints, then of the rows; NULL breaks no rule."""
    if change.rows.num_rows == 0:
        return
    for rule in list_value_rules(change.type):
        yield from rule(change)


ValueRule = Callable[[TableChange], Iterator[Violation]]


def list_value_rules(type_: NodeType | EdgeType) -> list[ValueRule]:
    """The rules about single values, in the order they are looked at."""
    rules: list[ValueRule] = []
    for constraint in type_.of_kind(ConstraintKind.RANGE):
        rules.append(partial(_check_range, constraint=constraint))
    for constraint in type_.of_kind(ConstraintKind.CHECK):
        rules.append(partial(_check, constraint=constraint))
    for property_ in type_.properties:
        if property_.type.enum_values is not None:
            members = property_.type.enum_values
            rules.append(partial(_check_enum, property_=property_, members=members))
    return rules


def list_ruled_columns(type_: NodeType | EdgeType) -> list[str]:
    """The properties that have such rules."""
    kinds = (ConstraintKind.RANGE, ConstraintKind.CHECK)
    named = {c.columns[0] for kind in kinds for c in type_.of_kind(kind)}
    return [p.name for p in type_.properties if p.name in named or p.type.enum_values is not None]


def _check_range(change: TableChange, constraint: Constraint) -> Iterator[Violation]:
    name, low, high = constraint.columns[0], constraint.low, constraint.high
    scalar = change.type.by_name[name].type.scalar
    values = get_column(change.rows, name)
    broken: list[tuple[pa.Array, str]] = []
    if low is not None:
        broken.append((_find_beyond(values, scalar, low, below=True), f"< min {low}"))
    if high is not None:
        broken.append((_find_beyond(values, scalar, high, below=False), f"> max {high}"))
    if scalar in FLOATS:
        broken.append((pc.is_nan(values), ""))

    def message(index: int) -> str:
        problem = next(text for mask, text in broken if mask[index].as_py())
        found = f"{values[index]} {problem}" if problem else "is NaN"
        return f"@range violation on {change.type.name}.{name}: value {found}"

    yield from _make_violations_at(change, reduce(pc.or_, (mask for mask, _ in broken)), message)


def _find_beyond(values: pa.Array, scalar: Scalar, bound: str, *, below: bool) -> pa.Array:
    """Which values lie outside a bound; whole numbers are compared exactly, not as floats."""
    compare = pc.less if below else pc.greater
    if scalar not in INTEGERS:
        return compare(values.cast(pa.float64()), pa.scalar(float(bound)))
    # A bound between two whole numbers allows the same ones as the next whole number inside it.
    limit = (math.ceil if below else math.floor)(Decimal(bound))
    least, most = INTEGER_BOUNDS[scalar]
    if least <= limit <= most:
        return compare(values, pa.scalar(limit, values.type))
    excludes_all = limit > most if below else limit < least
    return pc.and_(pc.is_valid(values), pa.scalar(excludes_all))


def _check(change: TableChange, constraint: Constraint) -> Iterator[Violation]:
    name, pattern = constraint.columns[0], constraint.pattern
    assert pattern is not None, "a check has a pattern"
    values = get_column(change.rows, name)
    wrong = pc.invert(pc.match_substring_regex(values, pattern))
    shown = f"@check violation on {change.type.name}.{name}:"
    yield from _make_violations_at(
        change, wrong, lambda i: f"{shown} value '{values[i]}' does not match pattern '{pattern}'"
    )


def _check_enum(
    change: TableChange, property_: Property, members: tuple[str, ...]
) -> Iterator[Violation]:
    values = get_column(change.rows, property_.name)
    known = pc.is_in(values, value_set=pa.array(members, pa.string()))
    wrong = pc.and_(pc.is_valid(values), pc.invert(known))
    where, expected = f"{change.type.name}.{property_.name}", ", ".join(members)
    yield from _make_violations_at(
        change,
        wrong,
        lambda i: f"invalid enum value '{values[i]}' for {where} (expected: {expected})",
    )


def _make_violations_at(
    change: TableChange, mask: pa.Array, message: Callable[[int], str]
) -> Iterator[Violation]:
    """A violation for each row the mask names; the common case of none costs one pass."""
    for index in pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist():
        yield change.violation(ViolationKind.VALUE, message(index), index)
