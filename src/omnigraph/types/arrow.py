"""Property types as Arrow types; lists, vectors, dates and instants as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BadRequest, ManifestCorrupt
from omnigraph.identity import EntityKind
from omnigraph.types.property import PropertyType, Scalar
from omnigraph.types.temporal import (
    EPOCH_ORDINAL,
    MAX_DAYS,
    MAX_MILLISECONDS,
    MILLISECONDS_PER_DAY,
    MIN_DAYS,
    MIN_MILLISECONDS,
    find_epoch_milliseconds,
)

STABLE_PROPERTY_ID = b"omnigraph.stable_property_id"
"""Field metadata with the id of the property, which a rename does not change."""

DATETIME = pa.timestamp("ms", tz="UTC")

BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
"""A blob to be stored: `data` holds the bytes, or `uri` their location.

Exactly one of the two is set; a null blob is a null struct, and an empty `data` an empty blob. Only
the storage layer knows the blob column of the table format.
"""

_SCALARS = {
    Scalar.STRING: pa.string(),
    Scalar.BLOB: BLOB,
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: DATETIME,
}


class ColumnProperty(Protocol):
    """Storage attributes of a property."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> PropertyType: ...


def to_arrow_type(type: PropertyType) -> pa.DataType:
    """Return the Arrow type for values of a property type."""
    if type.is_vector:
        return pa.list_(pa.field("item", pa.float32(), nullable=True), type.dimension)
    scalar = _SCALARS[type.scalar]
    return pa.list_(pa.field("item", scalar, nullable=True)) if type.is_list else scalar


def to_arrow_field(property: ColumnProperty) -> pa.Field:
    """The column of one property, marked with its stable id."""
    return pa.field(
        property.name,
        to_arrow_type(property.type),
        nullable=property.type.nullable,
        metadata={STABLE_PROPERTY_ID: str(property.id).encode()},
    )


def get_property_id(field: pa.Field) -> int | None:
    """Return the property id in the metadata of a column; None for other columns.

    Raises:
        ManifestCorrupt: the property id is not a number.
    """
    text = (field.metadata or {}).get(STABLE_PROPERTY_ID)
    try:
        return None if text is None else int(text)
    except ValueError as error:
        raise ManifestCorrupt(
            f"the stored column {field.name} is marked with {text!r}, which is not a property id"
        ) from error


def build_entity_schema(kind: EntityKind, properties: Iterable[ColumnProperty]) -> pa.Schema:
    """The columns of a table in physical order: `id`, the ends of an edge, properties by name."""
    structural = ("id", "src", "dst") if kind is EntityKind.EDGE else ("id",)
    fields = [pa.field(name, pa.string(), nullable=False) for name in structural]
    fields += [to_arrow_field(p) for p in sorted(properties, key=lambda p: p.name)]
    return pa.schema(fields)


Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def build_list_column(items: pa.Array, lengths: Integers, null: Flags) -> pa.Array:
    """A list column: row by row the next `lengths` items, null where marked."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, items, mask=pa.array(null))


def build_vector_column(items: pa.Array, null: Flags, target: pa.DataType) -> pa.Array:
    """Build a vector column; `items` holds the numbers of the rows that are not null."""
    if null.any():
        # A null vector still occupies its items.
        room = np.zeros((len(null), target.list_size), np.float32)
        room[~null] = items.to_numpy().reshape(-1, target.list_size)
        items = pa.array(room.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(items, type=target, mask=pa.array(null))


Bytes = npt.NDArray[np.uint8]

_DATE_LENGTH, _TIME_LENGTH = 10, 19
_LONGEST = 64
"""Longer texts are parsed one by one: the longest fraction determines the cost of a column."""
_HEAD_DIGITS = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
_DAYS_IN_MONTH = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)
_DAYS_BEFORE_MONTH = np.concatenate([[0], np.cumsum(_DAYS_IN_MONTH)[:-1]])


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """A parsed column; `invalid` marks rows that could not be parsed, which are null in it."""

    array: pa.Array
    invalid: Flags


def parse_dates(texts: pa.Array) -> ParsedColumn:
    """Parse strings as `date32`; a longer timestamp is converted to its day in UTC."""
    milliseconds, invalid, null = _parse_epoch_milliseconds(texts)
    days = np.floor_divide(milliseconds, MILLISECONDS_PER_DAY).astype(np.int32)
    return ParsedColumn(pa.array(days, pa.int32(), mask=invalid | null).cast(pa.date32()), invalid)


def parse_datetimes(texts: pa.Array) -> ParsedColumn:
    """A column of strings as `timestamp(ms, UTC)`."""
    milliseconds, invalid, null = _parse_epoch_milliseconds(texts)
    column = pa.array(milliseconds, pa.int64(), mask=invalid | null).cast(DATETIME)
    return ParsedColumn(column, invalid)


def render_dates(days: pa.Array) -> pa.Array:
    """A `date32` column as `YYYY-MM-DD`."""
    _require_range(days.cast(pa.int32()), MIN_DAYS, MAX_DAYS, "Date")
    return days.cast(pa.string())


def render_datetimes(instants: pa.Array) -> pa.Array:
    """A `timestamp(ms, UTC)` column as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    _require_range(instants.cast(pa.int64()), MIN_MILLISECONDS, MAX_MILLISECONDS, "DateTime")
    spaced = instants.cast(pa.timestamp("ms")).cast(pa.string())
    return pc.binary_join_element_wise(pc.binary_replace_slice(spaced, 10, 11, "T"), "Z", "")


def mask_outside(integers: pa.Array, low: int, high: int) -> pa.Array:
    """Return a mask of integers, of any width, outside the bounds; nulls are inside."""
    # A bound outside the range of the width always holds, and could not be represented in it.
    width = np.iinfo(integers.type.to_pandas_dtype())
    least = pa.scalar(max(low, int(width.min)), integers.type)
    most = pa.scalar(min(high, int(width.max)), integers.type)
    return pc.or_(pc.less(integers, least), pc.greater(integers, most)).fill_null(False)


def _require_range(integers: pa.Array, low: int, high: int, type_name: str) -> None:
    if pc.any(mask_outside(integers, low, high)).as_py():
        raise BadRequest(f"a stored {type_name} lies outside the years 0001 to 9999")


def _parse_epoch_milliseconds(texts: pa.Array) -> tuple[Integers, Flags, Flags]:
    """Milliseconds, which rows are invalid, which are null; zero in rows of either kind."""
    texts = texts.cast(pa.string())
    start, length, data = _split_bytes(texts)
    null: Flags = texts.is_null().to_numpy(zero_copy_only=False)
    milliseconds, invalid = _parse_rows(start, length, data)
    by_hand = np.flatnonzero((invalid & _is_leap_or_long(start, length, data)) & ~null)
    for row in by_hand.tolist():
        found = find_epoch_milliseconds(texts[row].as_py())
        if found is not None:
            milliseconds[row], invalid[row] = found, False
    invalid &= ~null
    milliseconds[invalid | null] = 0
    return milliseconds, invalid, null


def _split_bytes(texts: pa.Array) -> tuple[Integers, Integers, Bytes]:
    """Start and length of every text in one padded byte array."""
    _, offset_buffer, data_buffer = texts.buffers()
    count = len(texts)
    if count == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(_LONGEST, np.uint8)
    offsets = np.frombuffer(offset_buffer, np.int32, count + 1, texts.offset * 4).astype(np.int64)
    used = slice(int(offsets[0]), int(offsets[-1]))
    data = np.frombuffer(data_buffer or b"", np.uint8)[used]
    # Padding allows reading fixed positions of the last text, at any length.
    padded = np.concatenate([data, np.zeros(_LONGEST, np.uint8)])
    return offsets[:-1] - offsets[0], np.diff(offsets), padded


def _is_leap_or_long(start: Integers, length: Integers, data: Bytes) -> Flags:
    sixtieth = (data[start + 17] == ord("6")) & (data[start + 18] == ord("0"))
    leap: Flags = (length >= _TIME_LENGTH) & sixtieth
    return leap | (length > _LONGEST)


def _parse_rows(start: Integers, length: Integers, data: Bytes) -> tuple[Integers, Flags]:
    """Parse to milliseconds, with a mask of rejected rows, leap seconds and long texts included."""
    head = data[start[:, None] + np.arange(_TIME_LENGTH)]
    digits = head[:, _HEAD_DIGITS] - np.uint8(ord("0"))
    days, valid = _parse_days(head, digits)
    milliseconds = days * MILLISECONDS_PER_DAY
    timed = length != _DATE_LENGTH
    if timed.any():
        time, time_valid = _parse_time_of_day(head, digits)
        tail, tail_valid = _parse_tail(start, length, data)
        sized = (length >= _TIME_LENGTH) & (length <= _LONGEST)
        valid &= ~timed | (sized & time_valid & tail_valid)
        milliseconds += np.where(timed, time + tail, 0)
    valid &= (milliseconds >= MIN_MILLISECONDS) & (milliseconds <= MAX_MILLISECONDS)
    return milliseconds, ~valid


def _parse_days(head: Bytes, digits: Bytes) -> tuple[Integers, Flags]:
    """Days since the epoch by the Gregorian calendar."""
    numbers = digits.astype(np.int64)
    year = numbers[:, :4] @ np.array([1000, 100, 10, 1])
    month = numbers[:, 4] * 10 + numbers[:, 5]
    day = numbers[:, 6] * 10 + numbers[:, 7]
    valid = (digits[:, :8] <= 9).all(axis=1) & (head[:, 4] == ord("-")) & (head[:, 7] == ord("-"))
    valid &= (year >= 1) & (month >= 1) & (month <= 12)
    month = np.where(valid, month, 1)
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    valid &= (day >= 1) & (day <= _DAYS_IN_MONTH[month] + (leap & (month == 2)))
    before = year - 1
    ordinal = before * 365 + before // 4 - before // 100 + before // 400
    ordinal += _DAYS_BEFORE_MONTH[month] + (leap & (month > 2)) + day
    return ordinal - EPOCH_ORDINAL, valid


def _parse_time_of_day(head: Bytes, digits: Bytes) -> tuple[Integers, Flags]:
    """Parse `HH:MM:SS` at its fixed position to milliseconds."""
    numbers = digits.astype(np.int64)
    hour = numbers[:, 8] * 10 + numbers[:, 9]
    minute = numbers[:, 10] * 10 + numbers[:, 11]
    second = numbers[:, 12] * 10 + numbers[:, 13]
    valid = (digits[:, 8:] <= 9).all(axis=1)
    valid &= np.isin(head[:, 10], np.frombuffer(b"Tt ", np.uint8))
    valid &= (head[:, 13] == ord(":")) & (head[:, 16] == ord(":"))
    valid &= (hour <= 23) & (minute <= 59) & (second <= 59)
    return ((hour * 60 + minute) * 60 + second) * 1000, valid


def _parse_tail(start: Integers, length: Integers, data: Bytes) -> tuple[Integers, Flags]:
    """Parse what follows the seconds: milliseconds of the fraction less the offset."""
    end = start + np.minimum(length, _LONGEST)
    position = np.minimum(start + _TIME_LENGTH, end)
    dotted = (position < end) & (data[position] == ord("."))
    position = position + dotted
    milliseconds, position, fraction_valid = _parse_fraction(dotted, position, end, data)
    offset, offset_valid = _parse_offset(position, end, data)
    return milliseconds - offset, fraction_valid & offset_valid


def _parse_fraction(
    dotted: Flags, position: Integers, end: Integers, data: Bytes
) -> tuple[Integers, Integers, Flags]:
    """Parse the first three fraction digits, and return the position after all of them."""
    milliseconds, count = np.zeros_like(position), np.zeros_like(position)
    reading = dotted
    for weight in [100, 10, 1] + [0] * _LONGEST:
        digit = data[position] - np.uint8(ord("0"))
        reading = reading & (position < end) & (digit <= 9)
        if not reading.any():
            break
        milliseconds += np.where(reading, digit.astype(np.int64) * weight, 0)
        position, count = position + reading, count + reading
    return milliseconds, position, ~dotted | (count > 0)


def _parse_offset(position: Integers, end: Integers, data: Bytes) -> tuple[Integers, Flags]:
    """Parse the offset from UTC to milliseconds: empty, `Z`, or `±HH:MM`."""
    rest = end - position
    zulu = (rest == 1) & np.isin(data[position], np.frombuffer(b"Zz", np.uint8))
    # The padding is as long as the longest text, so six bytes can be read after any position.
    shown = data[position[:, None] + np.arange(6)]
    digits = shown[:, [1, 2, 4, 5]] - np.uint8(ord("0"))
    numbers = digits.astype(np.int64)
    hour, minute = numbers[:, 0] * 10 + numbers[:, 1], numbers[:, 2] * 10 + numbers[:, 3]
    negative = shown[:, 0] == ord("-")
    numeric = (rest == 6) & (negative | (shown[:, 0] == ord("+"))) & (shown[:, 3] == ord(":"))
    numeric &= (digits <= 9).all(axis=1) & (hour <= 23) & (minute <= 59)
    offset = np.where(negative, -1, 1) * (hour * 60 + minute) * 60_000
    return np.where(numeric, offset, 0), (rest == 0) | zulu | numeric
