"""JSON values as Arrow columns: whole columns at once, one by one only when something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from types import NoneType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.from_arrow import Converted, convert_array
from omnigraph.types.json_value import Stored, convert_value
from omnigraph.types.list_columns import build_list_column, build_vector_column
from omnigraph.types.problems import ValueRefused, explain_required
from omnigraph.types.property import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.types.temporal import MAX_DAYS, MAX_MILLISECONDS, MIN_DAYS, MIN_MILLISECONDS
from omnigraph.types.temporal_columns import mask_outside, parse_dates, parse_datetimes

Kinds = set[type]
WholeColumn = Callable[[Sequence[object], Kinds, PropertyType], pa.Array | None]


def convert_column(values: Sequence[object] | pa.Array, wanted: PropertyType) -> Converted:
    """Values as the column of their type, with the reason for each row that does not fit.

    Null is accepted whatever the type says of it: see `find_required_errors`. Enum members are not
    looked at. An Arrow array is read as `convert_array` says.
    """
    if isinstance(values, pa.Array):
        return convert_array(values, wanted)
    array = _convert_whole_column(values, wanted)
    return Converted(array) if array is not None else _convert_one_by_one(values, wanted)


def find_required_errors(
    array: pa.Array, name: str, wanted: PropertyType, absent: pa.Array | None = None
) -> list[tuple[int, str]]:
    """The rows where a property that may not be null is null.

    Args:
        array: The converted column.
        name: The property, for the reason.
        wanted: Its type; a nullable one has no such rows.
        absent: Rows where null is no mistake, because something else fills them.
    """
    if wanted.nullable or array.null_count == 0:
        return []
    missing = array.is_null() if absent is None else pc.and_not(array.is_null(), absent)
    reason = explain_required(name)
    return [(row, reason) for row in pc.indices_nonzero(missing).to_pylist()]


def _convert_one_by_one(values: Sequence[object], wanted: PropertyType) -> Converted:
    stored: list[Stored | None] = []
    errors: list[tuple[int, str]] = []
    for row, value in enumerate(values):
        try:
            stored.append(convert_value(value, wanted))
        except ValueRefused as refused:
            stored.append(None)
            errors.append((row, refused.reason))
    return Converted(pa.array(stored, to_arrow_type(wanted)), tuple(errors))


def _convert_whole_column(values: Sequence[object], wanted: PropertyType) -> pa.Array | None:
    """The column if every value is plainly right; `None` sends them through one by one."""
    kinds = set(map(type, values)) - {NoneType}
    if wanted.is_list or wanted.is_vector:
        return _convert_nested(values, kinds, wanted)
    return _CONVERTERS[wanted.scalar](values, kinds, wanted)


def _convert_plain(kind: type) -> WholeColumn:
    def convert(values: Sequence[object], kinds: Kinds, wanted: PropertyType) -> pa.Array | None:
        if not kinds <= {kind}:
            return None
        try:
            return pa.array(values, to_arrow_type(wanted))
        except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
            return None

    return convert


def _convert_floats(
    values: Sequence[object], kinds: Kinds, wanted: PropertyType
) -> pa.Array | None:
    if not kinds <= {float, int}:
        return None
    if int in kinds:
        # Arrow takes an integer as a float only when it is exact; here it is rounded.
        try:
            values = [None if v is None else float(v) for v in values]  # type: ignore[arg-type]
        except OverflowError:
            return None
    array = pa.array(values, to_arrow_type(wanted))
    return array if pc.all(pc.is_finite(array)).as_py() else None


def _convert_dates(values: Sequence[object], kinds: Kinds, wanted: PropertyType) -> pa.Array | None:
    if kinds == {int}:
        return _from_integers(values, pa.int32(), MIN_DAYS, MAX_DAYS, to_arrow_type(wanted))
    if not kinds <= {str}:
        return None
    parsed = parse_dates(pa.array(values, pa.string()))
    return None if parsed.invalid.any() else parsed.array


def _convert_datetimes(
    values: Sequence[object], kinds: Kinds, wanted: PropertyType
) -> pa.Array | None:
    if kinds == {int}:
        bounds = (MIN_MILLISECONDS, MAX_MILLISECONDS)
        return _from_integers(values, pa.int64(), *bounds, to_arrow_type(wanted))
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


def _convert_blobs(values: Sequence[object], kinds: Kinds, wanted: PropertyType) -> pa.Array | None:
    if not kinds <= {str}:
        return None
    try:
        return pa.array([convert_value(v, wanted) for v in values], to_arrow_type(wanted))
    except ValueRefused:
        return None


def _convert_nested(
    values: Sequence[object], kinds: Kinds, wanted: PropertyType
) -> pa.Array | None:
    """Lists and vectors: all their items converted as one column, then cut into rows."""
    if not kinds <= {list}:
        return None
    rows = [value if isinstance(value, list) else [] for value in values]
    items: list[object] = list(chain.from_iterable(rows))
    if NoneType in set(map(type, items)):
        return None
    element = PropertyType(Scalar.F32) if wanted.is_vector else wanted.element()
    flat = _convert_whole_column(items, element)
    if flat is None:
        return None
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    null = np.fromiter((value is None for value in values), np.bool_, len(rows))
    if not wanted.is_vector:
        return build_list_column(flat, lengths, null)
    same = bool((lengths[~null] == wanted.dimension).all())
    return build_vector_column(flat, null, to_arrow_type(wanted)) if same else None


_CONVERTERS: dict[Scalar, WholeColumn] = {
    Scalar.STRING: _convert_plain(str),
    Scalar.BOOL: _convert_plain(bool),
    Scalar.DATE: _convert_dates,
    Scalar.DATETIME: _convert_datetimes,
    Scalar.BLOB: _convert_blobs,
    **dict.fromkeys(INTEGERS, _convert_plain(int)),
    **dict.fromkeys(FLOATS, _convert_floats),
}
