"""Literals of the query language as typed constants.

A literal has a type of its own (`make_literal_constant`), used where no type is expected;
`fit_literal` converts it to the type of a column and rejects what cannot be stored exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from typing import TypeVar

from omnigraph.language.query_ast import ListLiteral, Literal, LiteralKind
from omnigraph.plan.expressions import Constant, ConstantValue, Operand
from omnigraph.types.json_value import RANGE_NAMES, round_to_float32
from omnigraph.types.property import (
    FLOATS,
    INTEGER_BOUNDS,
    INTEGERS,
    NUMBERS,
    PropertyType,
    Scalar,
)
from omnigraph.types.row_problems import ValueRefused
from omnigraph.types.temporal import parse_date, parse_datetime

Complain = Callable[[str], None]
"""Reports a literal that does not fit; the caller adds code and position."""

_LITERAL_SCALARS = {
    LiteralKind.STRING: Scalar.STRING,
    LiteralKind.INTEGER: Scalar.I64,
    LiteralKind.FLOAT: Scalar.F64,
    LiteralKind.BOOL: Scalar.BOOL,
    LiteralKind.DATE: Scalar.DATE,
    LiteralKind.DATETIME: Scalar.DATETIME,
}

# --- floats -------------------------------------------------------------------------------------

OperandT = TypeVar("OperandT", bound=Operand)


def round_constant(operand: OperandT, other: PropertyType) -> OperandT | Constant:
    """Round an operand for comparison with a value of type `other`.

    A fraction compared with a 32-bit float is rounded to that width: stored 0.1 equals written 0.1.
    Every other constant keeps its exact value.
    """
    if other.scalar is not Scalar.F32 or not isinstance(operand, Constant):
        return operand
    if isinstance(operand.value, tuple):
        return Constant(tuple(map(_round_value, operand.value)), operand.type)
    return Constant(_round_value(operand.value), operand.type)


def _round_value(value: ConstantValue) -> ConstantValue:
    rounded = round_to_float32(value) if isinstance(value, float) else math.inf
    return rounded if math.isfinite(rounded) else value


# --- literals by themselves -----------------------------------------------------------------------


def make_literal_constant(literal: Literal, complain: Complain) -> Constant | None:
    """The literal with its own type; `null` is a missing String."""
    if literal.kind is LiteralKind.NULL:
        return Constant(None, PropertyType(Scalar.STRING, nullable=True))
    scalar = _LITERAL_SCALARS[literal.kind]
    value = _convert_own_value(literal, complain)
    if value is None:
        return None
    if isinstance(value, int) and scalar is Scalar.I64:
        low, high = INTEGER_BOUNDS[Scalar.I64]
        if value > high and value <= INTEGER_BOUNDS[Scalar.U64][1]:
            scalar = Scalar.U64
        elif not low <= value <= high:
            complain(f"{value} exceeds the range of 64-bit integers")
            return None
    return Constant(value, PropertyType(scalar))


def list_constant(literal: ListLiteral, complain: Complain) -> Constant | None:
    """Build the list with the type of its elements; integers among fractions become fractions."""
    items = [make_literal_constant(item, complain) for item in literal.items]
    if any(item.kind is LiteralKind.NULL for item in literal.items):
        complain("a list literal cannot hold null")
        return None
    constants = [item for item in items if item is not None]
    if len(constants) < len(items):
        return None
    scalars = {item.type.scalar for item in constants}
    if len(scalars) > 1 and not scalars <= NUMBERS:
        named = ", ".join(sorted(scalars))
        complain(f"the elements of a list must have one type, not {named}")
        return None
    scalar = _find_common_scalar(scalars)
    return Constant(tuple(c.value for c in constants), PropertyType(scalar, is_list=True))


def _find_common_scalar(scalars: set[Scalar]) -> Scalar:
    if not scalars:
        return Scalar.STRING
    if len(scalars) == 1:
        return next(iter(scalars))
    return Scalar.F64 if scalars & FLOATS else Scalar.U64


def _convert_own_value(literal: Literal, complain: Complain) -> ConstantValue:
    match literal.kind:
        case LiteralKind.DATE | LiteralKind.DATETIME:
            return _convert_moment(literal, complain)
        case LiteralKind.FLOAT if not math.isfinite(float(literal.value or 0)):
            complain("the number exceeds Float64 range")
            return None
        case _:
            return literal.value


def _convert_moment(literal: Literal, complain: Complain) -> date | datetime | None:
    parse = parse_date if literal.kind is LiteralKind.DATE else parse_datetime
    try:
        return parse(str(literal.value))
    except ValueRefused as refused:
        complain(str(refused))
        return None


# --- literals for a column ------------------------------------------------------------------------


def fit_literal(
    literal: Literal | ListLiteral, type_: PropertyType, target: str, complain: Complain
) -> Constant | None:
    """Convert a literal to the stored form of `type_`; `target` names the column in messages.

    Integers become floats only if exact, floats become integers only if integral, and strings are
    never parsed as dates.
    """
    if isinstance(literal, ListLiteral):
        return _fit_list(literal, type_, target, complain)
    if literal.kind is LiteralKind.NULL:
        if type_.nullable:
            return Constant(None, type_)
        complain(f"null is not accepted for non-nullable {target} ({type_})")
        return None
    if type_.is_list or type_.is_vector:
        complain(f"{target} expects a list ({type_}), not {describe_literal(literal)}")
        return None
    value = _fit_scalar(literal, type_, target, complain)
    return None if value is None else Constant(value, type_)


def _fit_list(
    literal: ListLiteral, type_: PropertyType, target: str, complain: Complain
) -> Constant | None:
    if not (type_.is_list or type_.is_vector):
        complain(f"{target} is {type_} and does not take a list")
        return None
    if type_.is_vector and len(literal.items) != type_.dimension:
        complain(f"{target} expects {type_.dimension} dimensions, got {len(literal.items)}")
        return None
    element = PropertyType(Scalar.F32 if type_.is_vector else type_.scalar)
    fit = _fit_component if type_.is_vector else _fit_scalar
    values = []
    for item in literal.items:
        if item.kind is LiteralKind.NULL:
            complain(f"null is not accepted as an element of {target}")
            return None
        value = fit(item, element, f"an element of {target}", complain)
        if value is None:
            return None
        values.append(value)
    return Constant(tuple(values), type_)


def _fit_component(
    literal: Literal, element: PropertyType, target: str, complain: Complain
) -> ConstantValue:
    """Convert one component of a vector, rounded to its stored width."""
    if literal.kind is LiteralKind.INTEGER:
        literal = Literal(LiteralKind.FLOAT, _as_float(literal), literal.span)
    return _fit_scalar(literal, element, target, complain)


def _as_float(literal: Literal) -> float:
    try:
        return float(literal.value or 0)
    except OverflowError:
        return math.inf


def _fit_scalar(
    literal: Literal, type_: PropertyType, target: str, complain: Complain
) -> ConstantValue:
    scalar, kind = type_.scalar, literal.kind
    if kind is LiteralKind.STRING and type_.enum_values is not None:
        return check_enum(str(literal.value), type_.enum_values, target, complain)
    if kind is LiteralKind.STRING and scalar is Scalar.BLOB:
        return literal.value
    if kind is LiteralKind.INTEGER or kind is LiteralKind.FLOAT:
        if scalar in INTEGERS:
            return _fit_integer(literal, scalar, target, complain)
        if scalar in FLOATS:
            return _fit_float(literal, scalar, target, complain)
    if _LITERAL_SCALARS[kind] is scalar:
        return _convert_own_value(literal, complain)
    complain(f"{target} is {type_} and does not take {describe_literal(literal)}")
    return None


def check_enum(value: str, members: tuple[str, ...], target: str, complain: Complain) -> str | None:
    if value in members:
        return value
    complain(f"invalid enum value '{value}' for {target} (expected: {', '.join(members)})")
    return None


def _fit_integer(
    literal: Literal, scalar: Scalar, target: str, complain: Complain
) -> ConstantValue:
    number = literal.value
    assert isinstance(number, int | float)
    if not math.isfinite(_as_float(literal)) or number != math.floor(number):
        complain(f"{target} is {scalar} and cannot hold {number} exactly")
        return None
    whole = int(number)
    low, high = INTEGER_BOUNDS[scalar]
    if not low <= whole <= high:
        complain(f"{number} for {target} exceeds {RANGE_NAMES[scalar]} range")
        return None
    return whole


def _fit_float(literal: Literal, scalar: Scalar, target: str, complain: Complain) -> ConstantValue:
    number = literal.value
    assert isinstance(number, int | float)
    wide = _as_float(literal)
    stored = round_to_float32(wide) if scalar is Scalar.F32 else wide
    if not math.isfinite(stored):
        complain(f"{number} for {target} exceeds {RANGE_NAMES[scalar]} range")
        return None
    if isinstance(number, int) and stored != number:
        complain(f"{target} is {scalar} and cannot hold {number} exactly")
        return None
    return stored


def describe_literal(literal: Literal | ListLiteral) -> str:
    """Describe a literal in a message: `the string "x"`, `the number 3`, `a list`."""
    if isinstance(literal, ListLiteral):
        return "a list"
    match literal.kind:
        case LiteralKind.STRING:
            return f'the string "{literal.value}"'
        case LiteralKind.INTEGER | LiteralKind.FLOAT:
            return f"the number {literal.value}"
        case LiteralKind.BOOL:
            return "true" if literal.value else "false"
        case LiteralKind.NULL:
            return "null"
        case LiteralKind.DATE | LiteralKind.DATETIME:
            return f'{literal.kind}("{literal.value}")'
