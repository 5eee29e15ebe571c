"""Arrow columns from elsewhere as columns of a property type.

For data that never was JSON: a Parquet file, a data frame. The rules are those of JSON values
(a float is no integer, nothing wraps, nothing infinite), with three additions that JSON cannot
say: dates and timestamps of any unit, binary values for blobs, and numbers of any width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from omnigraph.types.arrow import BLOB, DATETIME, to_arrow_type
from omnigraph.types.json_value import RANGE_NAMES, Blob, decode_blob
from omnigraph.types.list_columns import Flags, Integers, build_list_column, build_vector_column
from omnigraph.types.problems import ValueRefused, quote_for_message
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, INTEGERS, PropertyType, Scalar
from omnigraph.types.temporal import (
    DATE_RANGE_EXCEEDED,
    DATETIME_RANGE_EXCEEDED,
    MAX_DAYS,
    MAX_MILLISECONDS,
    MILLISECONDS_PER_DAY,
    MIN_DAYS,
    MIN_MILLISECONDS,
)
from omnigraph.types.temporal_columns import (
    ParsedColumn,
    mask_outside,
    parse_dates,
    parse_datetimes,
)

_SURELY_OUTSIDE = 10**15
"""Seconds beyond any year held here, yet few enough to be counted in milliseconds."""
_WIDE_DECIMAL = pa.decimal128(38, 0)


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted column, and why rows were refused; a refused row is null in the column."""

    array: pa.Array
    errors: tuple[tuple[int, str], ...] = ()


def convert_array(array: pa.Array, wanted: PropertyType) -> Converted:
    """An Arrow column as the column of a property type, with the reason for each misfit."""
    if pat.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pat.is_null(array.type):
        return Converted(pa.nulls(len(array), to_arrow_type(wanted)))
    if wanted.is_vector or wanted.is_list:
        return _convert_nested(array, wanted)
    return _CONVERTERS[wanted.scalar](array, wanted)


def _convert_strings(array: pa.Array, wanted: PropertyType) -> Converted:
    return (
        Converted(array.cast(pa.string())) if _is_text(array.type) else _refuse_rows(array, wanted)
    )


def _convert_booleans(array: pa.Array, wanted: PropertyType) -> Converted:
    return Converted(array) if pat.is_boolean(array.type) else _refuse_rows(array, wanted)


def _convert_integers(array: pa.Array, wanted: PropertyType) -> Converted:
    low, high = INTEGER_BOUNDS[wanted.scalar]
    if _is_whole_decimal(array.type):
        # Spark has no unsigned type: a U64 that went through it comes back as such a decimal.
        array = array.cast(_WIDE_DECIMAL)
        least, most = (pa.scalar(Decimal(bound), _WIDE_DECIMAL) for bound in (low, high))
        wrong = pc.or_(pc.less(array, least), pc.greater(array, most)).fill_null(False)
    elif pat.is_integer(array.type):
        wrong = mask_outside(array, low, high)
    elif pat.is_floating(array.type):
        return _convert_whole_floats(array, wanted)
    else:
        return _refuse_rows(array, wanted)
    kept = pc.if_else(wrong, None, array).cast(to_arrow_type(wanted))
    return Converted(kept, _select_rows(wrong, f"exceeds {RANGE_NAMES[wanted.scalar]} range"))


def _convert_whole_floats(array: pa.Array, wanted: PropertyType) -> Converted:
    """Integers that a library keeps as floats, as pandas does with a column that has nulls."""
    low, high = INTEGER_BOUNDS[wanted.scalar]
    numbers = array.cast(pa.float64())
    whole = pc.and_(pc.is_finite(numbers), pc.equal(pc.floor(numbers), numbers))
    # The bound itself may not be a float: what is compared is the first power of two beyond it.
    inside = pc.and_(pc.greater_equal(numbers, float(low)), pc.less(numbers, float(high + 1)))
    fits = pc.and_(whole, inside).fill_null(True)
    kept = pc.if_else(fits, numbers, None).cast(to_arrow_type(wanted))
    expected = wanted.display(nullable=False)
    errors = [
        (row, f"expects {expected}, got {array[row]}")
        for row in pc.indices_nonzero(pc.invert(fits)).to_pylist()
    ]
    return Converted(kept, tuple(errors))


def _is_whole_decimal(type: pa.DataType) -> bool:
    return bool(pat.is_decimal128(type)) and type.scale == 0


def _convert_floats(array: pa.Array, wanted: PropertyType) -> Converted:
    if not _is_number(array.type):
        return _refuse_rows(array, wanted)
    numbers = array.cast(pa.float64(), safe=False).cast(to_arrow_type(wanted), safe=False)
    wrong = pc.invert(pc.is_finite(numbers)).fill_null(False)
    kept = pc.if_else(wrong, None, numbers)
    return Converted(kept, _select_rows(wrong, f"exceeds {RANGE_NAMES[wanted.scalar]} range"))


def _convert_dates(array: pa.Array, wanted: PropertyType) -> Converted:
    if _is_text(array.type):
        return _parse_texts(array, parse_dates(array), "Date")
    if pat.is_temporal(array.type) and not pat.is_time(array.type):
        milliseconds = _to_epoch_milliseconds(array)
        days = np.floor_divide(milliseconds, MILLISECONDS_PER_DAY)
        array = pa.array(days, pa.int64(), mask=_make_null(array))
    if not pat.is_integer(array.type):
        return _refuse_rows(array, wanted)
    wrong = mask_outside(array, MIN_DAYS, MAX_DAYS)
    kept = pc.if_else(wrong, None, array).cast(pa.int32()).cast(pa.date32())
    return Converted(kept, _select_rows(wrong, DATE_RANGE_EXCEEDED))


def _convert_datetimes(array: pa.Array, wanted: PropertyType) -> Converted:
    if _is_text(array.type):
        return _parse_texts(array, parse_datetimes(array), "DateTime")
    if pat.is_temporal(array.type) and not pat.is_time(array.type):
        array = pa.array(_to_epoch_milliseconds(array), pa.int64(), mask=_make_null(array))
    if not pat.is_integer(array.type):
        return _refuse_rows(array, wanted)
    wrong = mask_outside(array, MIN_MILLISECONDS, MAX_MILLISECONDS)
    kept = pc.if_else(wrong, None, array).cast(pa.int64()).cast(DATETIME)
    return Converted(kept, _select_rows(wrong, DATETIME_RANGE_EXCEEDED))


def _to_epoch_milliseconds(array: pa.Array) -> Integers:
    """Dates and timestamps of any unit as milliseconds, cut; a zone does not move an instant."""
    if pat.is_date32(array.type):
        days: Integers = array.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
        return days * MILLISECONDS_PER_DAY
    unit = "ms" if pat.is_date64(array.type) else array.type.unit
    counts: Integers = array.cast(pa.int64()).fill_null(0).to_numpy()
    if unit == "s":
        return np.clip(counts, -_SURELY_OUTSIDE, _SURELY_OUTSIDE) * 1000
    per_millisecond = {"ms": 1, "us": 1000, "ns": 1_000_000}[unit]
    return np.floor_divide(counts, per_millisecond)


def _convert_blobs(array: pa.Array, wanted: PropertyType) -> Converted:
    if array.type == BLOB:
        return Converted(array)
    if pat.is_binary(array.type) or pat.is_large_binary(array.type):
        parts = [array.cast(pa.large_binary()), pa.nulls(len(array), pa.string())]
        return Converted(pa.StructArray.from_arrays(parts, fields=list(BLOB), mask=array.is_null()))
    if not _is_text(array.type):
        return _refuse_rows(array, wanted)
    cells: list[Blob | None] = []
    errors: list[tuple[int, str]] = []
    for row, text in enumerate(array.to_pylist()):
        try:
            cells.append(None if text is None else decode_blob(text))
        except ValueRefused as refused:
            cells.append(None)
            errors.append((row, refused.reason))
    return Converted(pa.array(cells, BLOB), tuple(errors))


def _convert_nested(array: pa.Array, wanted: PropertyType) -> Converted:
    """Lists of any kind: the items converted as one column, then put back into rows."""
    kinds = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list)
    if not any(is_kind(array.type) for is_kind in kinds):
        return _refuse_rows(array, wanted)
    null = _make_null(array)
    lengths: Integers = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
    items = array.filter(pa.array(~null)).flatten()
    if wanted.is_vector:
        return _convert_vectors(items, lengths, null, wanted)
    converted = convert_array(items, wanted.element())
    reasons = dict(converted.errors)
    reasons |= dict.fromkeys(pc.indices_nonzero(items.is_null()).to_pylist(), "null")
    errors: dict[int, str] = {}
    place_of = _find_places(lengths)
    for item in sorted(reasons):
        row, place = place_of(item)
        errors.setdefault(row, f"null or invalid item at {place}: {reasons[item]}")
    null[list(errors)] = True
    return Converted(build_list_column(converted.array, lengths, null), tuple(errors.items()))


def _convert_vectors(
    items: pa.Array, lengths: Integers, null: Flags, wanted: PropertyType
) -> Converted:
    errors: dict[int, str] = {}
    for row in np.flatnonzero(~null & (lengths != wanted.dimension)).tolist():
        errors[row] = f"expects {wanted.dimension} dimensions, got {lengths[row]}"
    place_of, numeric = _find_places(lengths), "vector elements must be numeric"
    for item in pc.indices_nonzero(items.is_null()).to_pylist():
        errors.setdefault(place_of(item)[0], numeric)
    converted = convert_array(items, PropertyType(Scalar.F32))
    for item, reason in converted.errors:
        errors.setdefault(place_of(item)[0], reason if _is_number(items.type) else numeric)
    refused = null.copy()
    refused[list(errors)] = True
    kept = converted.array.filter(pa.array(np.repeat(~refused, lengths)))
    array = build_vector_column(kept, refused, to_arrow_type(wanted))
    return Converted(array, tuple(sorted(errors.items())))


def _find_places(lengths: Integers) -> Callable[[int], tuple[int, int]]:
    """How to find the row of an item, and its place in the row."""
    ends = np.cumsum(lengths)

    def place_of(item: int) -> tuple[int, int]:
        row = int(np.searchsorted(ends, item, side="right"))
        return row, item - int(ends[row] - lengths[row])

    return place_of


def _parse_texts(texts: pa.Array, parsed: ParsedColumn, type_name: str) -> Converted:
    rows = np.flatnonzero(parsed.invalid).tolist()
    errors = [
        (row, f"invalid {type_name} literal {quote_for_message(texts[row].as_py())}")
        for row in rows
    ]
    return Converted(parsed.array, tuple(errors))


def _refuse_rows(array: pa.Array, wanted: PropertyType) -> Converted:
    """Every row that holds anything refused: the column is of another type altogether."""
    reason = f"expects {wanted.display(nullable=False)}, got {array.type}"
    return Converted(
        pa.nulls(len(array), to_arrow_type(wanted)), _select_rows(array.is_valid(), reason)
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
