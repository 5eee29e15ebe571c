"""Python values as the JSON lines of a load: exactly, or not at all.

The encoder writes a float that is not a number as null, bytes as text and a duration as text, and
says nothing. So a record that holds anything but plain values is converted here first, by what the
schema wants in its place, and a value that has none is refused.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import numpy as np

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import BadRequest
from omnigraph.types.json_value import BASE64_PREFIX
from omnigraph.types.problems import ValueRefused
from omnigraph.types.property import FLOATS, INTEGERS, PropertyType, Scalar

_PLAIN = frozenset({str, int, bool, type(None)})
_NUMBERS = frozenset({int, float})
_TEMPORAL = frozenset({Scalar.DATE, Scalar.DATETIME})
_NOT_ENCODED = (RecursionError, OverflowError, TypeError, ValueError)
_TEXT = PropertyType(Scalar.STRING)
_ENDS = {"from": "from", "src": "from", "to": "to", "dst": "to"}

FindCatalog = Callable[[], Catalog]


def encode_records(records: Sequence[object], find_catalog: FindCatalog) -> bytes:
    """Records as JSON lines.

    Raises:
        BadRequest: a value cannot be written down exactly, or has no place in its property.
    """
    encoder = msgspec.json.Encoder()
    try:
        if not any(_needs_conversion(record) for record in records):
            return encoder.encode_lines(records)
        types = _RecordTypes(find_catalog())
        return encoder.encode_lines(
            [_convert_record(record, number, types) for number, record in enumerate(records, 1)]
        )
    except _NOT_ENCODED:
        raise _explain(records, encoder) from None


def wrap_rows(
    rows: Sequence[Mapping[str, object]],
    type_: NodeType | EdgeType,
    columns: Mapping[str, str],
    selected: Sequence[str],
) -> list[dict[str, object]]:
    """Rows of one type as records.

    `columns` says which member holds which property; of the others only those selected are read,
    if any are.
    """
    names = {column: name for name, column in columns.items()}
    wanted = {*selected, *names} if selected else None
    renamed = [
        {names.get(key, key): one for key, one in row.items() if wanted is None or key in wanted}
        for row in rows
    ]
    if isinstance(type_, NodeType):
        return [{"type": type_.name, "data": data} for data in renamed]
    records = []
    for data in renamed:
        ends = {_ENDS[name]: data.pop(name) for name in _ENDS if name in data}
        records.append({"edge": type_.name, **ends, "data": data})
    return records


def _needs_conversion(value: object) -> bool:
    """Whether there is anything in it that the encoder would write down as something else."""
    kind = type(value)
    if kind in _PLAIN:
        return False
    if kind is float:
        return not math.isfinite(value)  # type: ignore[arg-type]
    if kind is dict:
        return any(map(_needs_conversion, value.values()))  # type: ignore[attr-defined]
    if kind is not list:
        return True
    items: list[Any] = value  # type: ignore[assignment]
    if set(map(type, items)) <= _NUMBERS:
        return not _is_sum_finite(items)
    return any(map(_needs_conversion, items))


def _is_sum_finite(numbers: list[Any]) -> bool:
    """False if any of them is not finite, at the cost of one call for a whole vector."""
    try:
        return math.isfinite(sum(numbers))
    except OverflowError:
        return False


class _RecordTypes:
    """What the members of records hold, by the types that the records name."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._members: dict[tuple[str | None, ...], Mapping[str, PropertyType]] = {}

    def list_members(self, record: Mapping[str, object]) -> Mapping[str, PropertyType]:
        node, edge = record.get("type"), record.get("edge")
        key = tuple(name if isinstance(name, str) else None for name in (node, edge))
        if key not in self._members:
            type_ = self._find(node, edge)
            properties = () if type_ is None else type_.properties
            self._members[key] = {**{p.name: p.type for p in properties}, "id": _TEXT}
        return self._members[key]

    def _find(self, node: object, edge: object) -> NodeType | EdgeType | None:
        if isinstance(node, str):
            return self._catalog.nodes.get(node)
        return self._catalog.find_edge(edge) if isinstance(edge, str) else None


def _convert_record(record: object, number: int, types: _RecordTypes) -> object:
    if not isinstance(record, Mapping):
        raise BadRequest(f"record {number} is not a dictionary but {_name_type(record)}")
    if not _needs_conversion(record):
        return record
    wanted = types.list_members(record)
    converted: dict[str, object] = {}
    for name, value in record.items():
        if name == "data" and isinstance(value, Mapping):
            converted[name] = {
                key: _Member(number, str(key), wanted.get(str(key))).convert(one)
                for key, one in value.items()
            }
        else:
            converted[name] = _Member(number, str(name), _TEXT).convert(value)
    return converted


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of a record, and the type its value must suit; None if nobody knows the member."""

    record: int
    name: str
    wanted: PropertyType | None

    def convert(self, value: object) -> object:
        if self.wanted is None:  # refused by its name, as an unknown member
            return str(value) if _needs_conversion(value) else value
        try:
            return _convert(value, self.wanted)
        except ValueRefused as refused:
            raise BadRequest(
                f"record {self.record}: property '{self.name}': {refused.reason}"
            ) from None


def _convert(value: Any, wanted: PropertyType) -> object:  # noqa: ANN401 - any value
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, np.generic | np.ndarray):
        value = _from_numpy(value)
    if not _needs_conversion(value):
        return value
    if isinstance(value, set | frozenset):
        value = sorted(value)
    if isinstance(value, list | tuple):
        if not (wanted.is_list or wanted.is_vector):
            return list(value)  # refused as what it is
        item = PropertyType(Scalar.F32) if wanted.is_vector else wanted.element()
        return [_convert(one, item) for one in value]
    match value:
        case str():
            return str(value)
        case float() if not math.isfinite(value):
            raise ValueRefused(f"{value} is not a value; use None where there is none")
        case int() | float():
            return value
        case Decimal():
            return _convert_decimal(value, wanted)
        case datetime() | date() if wanted.scalar in _TEMPORAL and not wanted.is_list:
            if value != value:
                raise ValueRefused(f"{value} is not a value; use None where there is none")
            return value.isoformat()
        case bytes() | bytearray() | memoryview() if wanted.scalar is Scalar.BLOB:
            return BASE64_PREFIX + binascii.b2a_base64(value, newline=False).decode("ascii")
        case UUID() if wanted.scalar is Scalar.STRING:
            return str(value)
    raise ValueRefused(f"expects {wanted.display(nullable=False)}, got {_name_type(value)}")


def _from_numpy(value: Any) -> object:  # noqa: ANN401 - an array or a number of NumPy
    if value.dtype.kind == "M":
        value = value.astype("datetime64[us]")  # finer ones come out as bare integers
    return value.tolist()


def _convert_decimal(value: Decimal, wanted: PropertyType) -> int | float:
    if not value.is_finite():
        raise ValueRefused(f"{value} is not a value; use None where there is none")
    if wanted.scalar in INTEGERS and value == value.to_integral_value():
        return int(value)
    if wanted.scalar in FLOATS or wanted.is_vector:
        return float(value)
    raise ValueRefused(f"expects {wanted.display(nullable=False)}, got Decimal {value}")


def _explain(records: Sequence[object], encoder: msgspec.json.Encoder) -> Exception:
    """Which of the records cannot be written down, and why."""
    for number, record in enumerate(records, 1):
        try:
            _needs_conversion(record)
            encoder.encode(record)
        except RecursionError:
            return BadRequest(f"record {number} contains itself or is nested too deep")
        except _NOT_ENCODED as error:
            reason = str(error).partition(";")[0]  # after it stands advice for Python itself
            return BadRequest(f"record {number} cannot be written as JSON: {reason}")
    return BadRequest("the records cannot be written as JSON")


def _name_type(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
