"""Convert JSON values, and Arrow columns from elsewhere, to columns of a property type.

Whole columns are converted at once, values one by one only to find the reason of a rejection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from types import NoneType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from omnigraph.types.arrow import (
    BLOB,
    DATETIME,
    Flags,
    Integers,
    ParsedColumn,
    build_list_column,
    build_vector_column,
    mask_outside,
    parse_dates,
    parse_datetimes,
    to_arrow_type,
)
from omnigraph.types.json_value import RANGE_NAMES, Blob, Stored, convert_value, decode_blob
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, INTEGERS, PropertyType, Scalar
from omnigraph.types.row_problems import ValueRefused, explain_required, quote_for_message
from omnigraph.types.temporal import (
    DATE_RANGE_EXCEEDED,
    DATETIME_RANGE_EXCEEDED,
    MAX_DAYS,
    MAX_MILLISECONDS,
    MILLISECONDS_PER_DAY,
    MIN_DAYS,
    MIN_MILLISECONDS,
)

_SURELY_OUTSIDE = 10**15
"""Seconds beyond every supported year, and still representable in milliseconds."""
_WIDE_DECIMAL = pa.decimal128(38, 0)


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted column, and why rows were refused; a refused row is null in the column."""

    array: pa.Array
    errors: tuple[tuple[int, str], ...] = ()


def convert_array(array: pa.Array, target: PropertyType) -> Converted:
    """Convert an Arrow column to that of a property type, with a reason for each invalid row."""
    if pat.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pat.is_null(array.type):
        return Converted(pa.nulls(len(array), to_arrow_type(target)))
    if target.is_vector or target.is_list:
        return _convert_nested(array, target)
    return _CONVERTERS[target.scalar](array, target)


def _convert_strings(array: pa.Array, target: PropertyType) -> Converted:
    return (
        Converted(array.cast(pa.string())) if _is_text(array.type) else _refuse_rows(array, target)
    )


def _convert_booleans(array: pa.Array, target: PropertyType) -> Converted:
    return Converted(array) if pat.is_boolean(array.type) else _refuse_rows(array, target)


def _convert_integers(array: pa.Array, target: PropertyType) -> Converted:
    low, high = INTEGER_BOUNDS[target.scalar]
    if _is_whole_decimal(array.type):
        # Spark has no unsigned type: a U64 read back from it is such a decimal.
        array = array.cast(_WIDE_DECIMAL)
        least, most = (pa.scalar(Decimal(bound), _WIDE_DECIMAL) for bound in (low, high))
        wrong = pc.or_(pc.less(array, least), pc.greater(array, most)).fill_null(False)
    elif pat.is_integer(array.type):
        wrong = mask_outside(array, low, high)
    elif pat.is_floating(array.type):
        return _convert_whole_floats(array, target)
    else:
        return _refuse_rows(array, target)
    kept = pc.if_else(wrong, None, array).cast(to_arrow_type(target))
    return Converted(kept, _select_rows(wrong, f"exceeds {RANGE_NAMES[target.scalar]} range"))


def _convert_whole_floats(array: pa.Array, target: PropertyType) -> Converted:
    """Convert integers stored as floats, as pandas does for columns with nulls."""
    low, high = INTEGER_BOUNDS[target.scalar]
    numbers = array.cast(pa.float64())
    whole = pc.and_(pc.is_finite(numbers), pc.equal(pc.floor(numbers), numbers))
    # The bound itself may not be a float: compare with the first power of two beyond it.
    inside = pc.and_(pc.greater_equal(numbers, float(low)), pc.less(numbers, float(high + 1)))
    fits = pc.and_(whole, inside).fill_null(True)
    kept = pc.if_else(fits, numbers, None).cast(to_arrow_type(target))
    shown = target.display(nullable=False)
    errors = [
        (row, f"expects {shown}, got {array[row]}")
        for row in pc.indices_nonzero(pc.invert(fits)).to_pylist()
    ]
    return Converted(kept, tuple(errors))


def _is_whole_decimal(type: pa.DataType) -> bool:
    return bool(pat.is_decimal128(type)) and type.scale == 0


def _convert_floats(array: pa.Array, target: PropertyType) -> Converted:
    if not _is_number(array.type):
        return _refuse_rows(array, target)
    numbers = array.cast(pa.float64(), safe=False).cast(to_arrow_type(target), safe=False)
    wrong = pc.invert(pc.is_finite(numbers)).fill_null(False)
    kept = pc.if_else(wrong, None, numbers)
    return Converted(kept, _select_rows(wrong, f"exceeds {RANGE_NAMES[target.scalar]} range"))


def _convert_dates(array: pa.Array, target: PropertyType) -> Converted:
    if _is_text(array.type):
        return _parse_texts(array, parse_dates(array), "Date")
    if pat.is_temporal(array.type) and not pat.is_time(array.type):
        milliseconds = _to_epoch_milliseconds(array)
        days = np.floor_divide(milliseconds, MILLISECONDS_PER_DAY)
        array = pa.array(days, pa.int64(), mask=_make_null(array))
    if not pat.is_integer(array.type):
        return _refuse_rows(array, target)
    wrong = mask_outside(array, MIN_DAYS, MAX_DAYS)
    kept = pc.if_else(wrong, None, array).cast(pa.int32()).cast(pa.date32())
    return Converted(kept, _select_rows(wrong, DATE_RANGE_EXCEEDED))


def _convert_datetimes(array: pa.Array, target: PropertyType) -> Converted:
    if _is_text(array.type):
        return _parse_texts(array, parse_datetimes(array), "DateTime")
    if pat.is_temporal(array.type) and not pat.is_time(array.type):
        array = pa.array(_to_epoch_milliseconds(array), pa.int64(), mask=_make_null(array))
    if not pat.is_integer(array.type):
        return _refuse_rows(array, target)
    wrong = mask_outside(array, MIN_MILLISECONDS, MAX_MILLISECONDS)
    kept = pc.if_else(wrong, None, array).cast(pa.int64()).cast(DATETIME)
    return Converted(kept, _select_rows(wrong, DATETIME_RANGE_EXCEEDED))


def _to_epoch_milliseconds(array: pa.Array) -> Integers:
    """Convert dates and timestamps of any unit to milliseconds, truncated; zones are irrelevant."""
    if pat.is_date32(array.type):
        days: Integers = array.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
        return days * MILLISECONDS_PER_DAY
    unit = "ms" if pat.is_date64(array.type) else array.type.unit
    counts: Integers = array.cast(pa.int64()).fill_null(0).to_numpy()
    if unit == "s":
        return np.clip(counts, -_SURELY_OUTSIDE, _SURELY_OUTSIDE) * 1000
    per_millisecond = {"ms": 1, "us": 1000, "ns": 1_000_000}[unit]
    return np.floor_divide(counts, per_millisecond)


def _convert_blobs(array: pa.Array, target: PropertyType) -> Converted:
    if array.type == BLOB:
        return Converted(array)
    if pat.is_binary(array.type) or pat.is_large_binary(array.type):
        parts = [array.cast(pa.large_binary()), pa.nulls(len(array), pa.string())]
        return Converted(pa.StructArray.from_arrays(parts, fields=list(BLOB), mask=array.is_null()))
    if not _is_text(array.type):
        return _refuse_rows(array, target)
    cells: list[Blob | None] = []
    errors: list[tuple[int, str]] = []
    for row, text in enumerate(array.to_pylist()):
        try:
            cells.append(None if text is None else decode_blob(text))
        except ValueRefused as refused:
            cells.append(None)
            errors.append((row, refused.reason))
    return Converted(pa.array(cells, BLOB), tuple(errors))


def _convert_nested(array: pa.Array, target: PropertyType) -> Converted:
    """Convert lists of any kind: the items as one column, then regrouped into rows."""
    kinds = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list)
    if not any(is_kind(array.type) for is_kind in kinds):
        return _refuse_rows(array, target)
    null = _make_null(array)
    lengths: Integers = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
    items = array.filter(pa.array(~null)).flatten()
    if target.is_vector:
        return _convert_vectors(items, lengths, null, target)
    converted = convert_array(items, target.element())
    reasons = dict(converted.errors)
    reasons |= dict.fromkeys(pc.indices_nonzero(items.is_null()).to_pylist(), "null")
    errors: dict[int, str] = {}
    position_of = _find_positions(lengths)
    for item in sorted(reasons):
        row, position = position_of(item)
        errors.setdefault(row, f"null or invalid item at {position}: {reasons[item]}")
    null[list(errors)] = True
    return Converted(build_list_column(converted.array, lengths, null), tuple(errors.items()))


def _convert_vectors(
    items: pa.Array, lengths: Integers, null: Flags, target: PropertyType
) -> Converted:
    errors: dict[int, str] = {}
    for row in np.flatnonzero(~null & (lengths != target.dimension)).tolist():
        errors[row] = f"expects {target.dimension} dimensions, got {lengths[row]}"
    position_of, numeric = _find_positions(lengths), "vector elements must be numeric"
    for item in pc.indices_nonzero(items.is_null()).to_pylist():
        errors.setdefault(position_of(item)[0], numeric)
    converted = convert_array(items, PropertyType(Scalar.F32))
    for item, reason in converted.errors:
        errors.setdefault(position_of(item)[0], reason if _is_number(items.type) else numeric)
    refused = null.copy()
    refused[list(errors)] = True
    kept = converted.array.filter(pa.array(np.repeat(~refused, lengths)))
    array = build_vector_column(kept, refused, to_arrow_type(target))
    return Converted(array, tuple(sorted(errors.items())))


def _find_positions(lengths: Integers) -> Callable[[int], tuple[int, int]]:
    """Return a function from an item to its row and its position in the row."""
    ends = np.cumsum(lengths)

    def position_of(item: int) -> tuple[int, int]:
        row = int(np.searchsorted(ends, item, side="right"))
        return row, item - int(ends[row] - lengths[row])

    return position_of


def _parse_texts(texts: pa.Array, parsed: ParsedColumn, type_name: str) -> Converted:
    rows = np.flatnonzero(parsed.invalid).tolist()
    errors = [
        (row, f"invalid {type_name} literal {quote_for_message(texts[row].as_py())}")
        for row in rows
    ]
    return Converted(parsed.array, tuple(errors))


def _refuse_rows(array: pa.Array, target: PropertyType) -> Converted:
    """Reject every row with a value: the column is of another type."""
    reason = f"expects {target.display(nullable=False)}, got {array.type}"
    return Converted(
        pa.nulls(len(array), to_arrow_type(target)), _select_rows(array.is_valid(), reason)
    )


def _select_rows(wrong: pa.Array, reason: str) -> tuple[tuple[int, str], ...]:
    return tuple((row, reason) for row in pc.indices_nonzero(wrong).to_pylist())


def _make_null(array: pa.Array) -> Flags:
    null: Flags = array.is_null().to_numpy(zero_copy_only=False).copy()
    return null


def _is_text(type: pa.DataType) -> bool:
    return bool(pat.is_string(type) or pat.is_large_string(type) or pat.is_string_view(type))


def _is_number(type: pa.DataType) -> bool:
    return bool(pat.is_floating(type) or pat.is_integer(type))


_CONVERTERS: dict[Scalar, Callable[[pa.Array, PropertyType], Converted]] = {
    Scalar.STRING: _convert_strings,
    Scalar.BOOL: _convert_booleans,
    Scalar.DATE: _convert_dates,
    Scalar.DATETIME: _convert_datetimes,
    Scalar.BLOB: _convert_blobs,
    **dict.fromkeys(INTEGERS, _convert_integers),
    **dict.fromkeys(FLOATS, _convert_floats),
}


Kinds = set[type]
WholeColumn = Callable[[Sequence[object], Kinds, PropertyType], pa.Array | None]


def convert_column(values: Sequence[object] | pa.Array, target: PropertyType) -> Converted:
    """Convert values to the column of their type, with a reason for each invalid row.

    Null is accepted for any type: see `find_required_errors`. Enum members are not checked. An
    Arrow array is converted as by `convert_array`.
    """
    if isinstance(values, pa.Array):
        return convert_array(values, target)
    array = _convert_whole_column(values, target)
    return Converted(array) if array is not None else _convert_one_by_one(values, target)


def find_required_errors(
    array: pa.Array, name: str, target: PropertyType, absent: pa.Array | None = None
) -> list[tuple[int, str]]:
    """Find the rows where a required property is null.

    Args:
        array: The converted column.
        name: The property, for the message.
        target: Its type; a nullable one has no such rows.
        absent: Rows where null is allowed because the value is filled in later.
    """
    if target.nullable or array.null_count == 0:
        return []
    missing = array.is_null() if absent is None else pc.and_not(array.is_null(), absent)
    reason = explain_required(name)
    return [(row, reason) for row in pc.indices_nonzero(missing).to_pylist()]


def _convert_one_by_one(values: Sequence[object], target: PropertyType) -> Converted:
    stored: list[Stored | None] = []
    errors: list[tuple[int, str]] = []
    for row, value in enumerate(values):
        try:
            stored.append(convert_value(value, target))
        except ValueRefused as refused:
            stored.append(None)
            errors.append((row, refused.reason))
    return Converted(pa.array(stored, to_arrow_type(target)), tuple(errors))


def _convert_whole_column(values: Sequence[object], target: PropertyType) -> pa.Array | None:
    """Convert the column if every value is plainly valid; `None` requires converting one by one."""
    kinds = set(map(type, values)) - {NoneType}
    if target.is_list or target.is_vector:
        return _parse_nested(values, kinds, target)
    return _PARSERS[target.scalar](values, kinds, target)


def _convert_plain(kind: type) -> WholeColumn:
    def convert(values: Sequence[object], kinds: Kinds, target: PropertyType) -> pa.Array | None:
        if not kinds <= {kind}:
            return None
        try:
            return pa.array(values, to_arrow_type(target))
        except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
            return None

    return convert


def _parse_floats(values: Sequence[object], kinds: Kinds, target: PropertyType) -> pa.Array | None:
    if not kinds <= {float, int}:
        return None
    if int in kinds:
        # Arrow accepts an integer as a float only if it is exact; here it is rounded.
        try:
            values = [None if v is None else float(v) for v in values]  # type: ignore[arg-type]
        except OverflowError:
            return None
    array = pa.array(values, to_arrow_type(target))
    return array if pc.all(pc.is_finite(array)).as_py() else None


def _parse_dates(values: Sequence[object], kinds: Kinds, target: PropertyType) -> pa.Array | None:
    if kinds == {int}:
        return _from_integers(values, pa.int32(), MIN_DAYS, MAX_DAYS, to_arrow_type(target))
    if not kinds <= {str}:
        return None
    parsed = parse_dates(pa.array(values, pa.string()))
    return None if parsed.invalid.any() else parsed.array


def _parse_datetimes(
    values: Sequence[object], kinds: Kinds, target: PropertyType
) -> pa.Array | None:
    if kinds == {int}:
        bounds = (MIN_MILLISECONDS, MAX_MILLISECONDS)
        return _from_integers(values, pa.int64(), *bounds, to_arrow_type(target))
    if not kinds <= {str}:
        return None
    parsed = parse_datetimes(pa.array(values, pa.string()))
    return None if parsed.invalid.any() else parsed.array


def _from_integers(
    values: Sequence[object], integer: pa.DataType, low: int, high: int, target: pa.DataType
) -> pa.Array | None:
    try:
        integers = pa.array(values, integer)
    except (pa.ArrowInvalid, OverflowError):
        return None
    return None if pc.any(mask_outside(integers, low, high)).as_py() else integers.cast(target)


def _parse_blobs(values: Sequence[object], kinds: Kinds, target: PropertyType) -> pa.Array | None:
    if not kinds <= {str}:
        return None
    try:
        return pa.array([convert_value(v, target) for v in values], to_arrow_type(target))
    except ValueRefused:
        return None


def _parse_nested(values: Sequence[object], kinds: Kinds, target: PropertyType) -> pa.Array | None:
    """Convert lists and vectors: all items as one column, then split into rows."""
    if not kinds <= {list}:
        return None
    rows = [value if isinstance(value, list) else [] for value in values]
    items: list[object] = list(chain.from_iterable(rows))
    if NoneType in set(map(type, items)):
        return None
    element = PropertyType(Scalar.F32) if target.is_vector else target.element()
    flat = _convert_whole_column(items, element)
    if flat is None:
        return None
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    null = np.fromiter((value is None for value in values), np.bool_, len(rows))
    if not target.is_vector:
        return build_list_column(flat, lengths, null)
    same = bool((lengths[~null] == target.dimension).all())
    return build_vector_column(flat, null, to_arrow_type(target)) if same else None


_PARSERS: dict[Scalar, WholeColumn] = {
    Scalar.STRING: _convert_plain(str),
    Scalar.BOOL: _convert_plain(bool),
    Scalar.DATE: _parse_dates,
    Scalar.DATETIME: _parse_datetimes,
    Scalar.BLOB: _parse_blobs,
    **dict.fromkeys(INTEGERS, _convert_plain(int)),
    **dict.fromkeys(FLOATS, _parse_floats),
}
