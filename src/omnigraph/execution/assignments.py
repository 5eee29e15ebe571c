"""Values of a mutation as values of a column."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType, Property
from omnigraph.errors import BadRequest
from omnigraph.plan.expressions import Constant, NowValue, Operand, ParameterValue
from omnigraph.plan.nodes import Assignment
from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.canonical import encode_canonical_column, encode_composite_ids
from omnigraph.types.literal_values import assign_value
from omnigraph.types.property import PropertyType


def evaluate_assignment(
    operand: Operand, parameters: Mapping[str, object], now: datetime.datetime
) -> object:
    """The Python value an assignment stands for."""
    match operand:
        case Constant():
            return list(operand.value) if isinstance(operand.value, tuple) else operand.value
        case ParameterValue():
            return parameters[operand.name]
        case NowValue():
            return now
        case _:
            raise AssertionError(f"{type(operand).__name__} cannot be assigned")


def convert_to_stored(value: object, type_: PropertyType, where: str) -> object:
    """The value as its column holds it; out of range or of the wrong kind is a typed error."""
    try:
        return assign_value(value, type_)
    except BadRequest as error:
        raise BadRequest(f"{where}: {error.message}") from error


def build_assigned_columns(
    type_: NodeType | EdgeType,
    assignments: tuple[Assignment, ...],
    parameters: Mapping[str, object],
    now: datetime.datetime,
) -> dict[str, pa.Array]:
    """The assigned columns, each as one value of the column's type."""
    columns = {}
    for one in assignments:
        where = f"{type_.name}.{one.column}"
        value = convert_to_stored(evaluate_assignment(one.value, parameters, now), one.type, where)
        columns[one.column] = pa.array([value], to_arrow_type(one.type))
    return columns


def get_default_value(property_: Property, where: str) -> pa.Scalar:
    """What a property holds when nothing is said about it: its default, or NULL."""
    value = property_.default.value if property_.default is not None else None
    stored = convert_to_stored(value, property_.type, where)
    return pa.scalar(stored, to_arrow_type(property_.type))


def derive_key_ids(type_: NodeType, columns: Mapping[str, pa.Array]) -> pa.Array:
    """The ids of keyed nodes, derived from their key columns."""
    parts = [encode_canonical_column(columns[member.name], member.type) for member in type_.key]
    return parts[0] if len(parts) == 1 else encode_composite_ids(parts)
