"""Arrow columns as JSON values, for the rows of a query and for exports.

The two differ. Rows of a query are read by people and programs, so a date is formatted. An export
is loaded again, so a date is the stored integer, and a number that JSON cannot represent is an
error. Columns are cast as a whole first; Python only creates the objects.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, pairwise, repeat

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from omnigraph.errors import BadRequest
from omnigraph.identity import EntityKind
from omnigraph.types.arrow import BLOB, mask_outside, render_dates, render_datetimes
from omnigraph.types.column_values import convert_array
from omnigraph.types.json_value import BASE64_PREFIX, LARGEST_SAFE_INTEGER
from omnigraph.types.property import PropertyType, Scalar

_ROWS_AT_ONCE = 65_536
_NON_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}

ToList = Callable[[pa.Array], list[object]]


def encode_values_as_json(
    array: pa.Array | pa.ChunkedArray, *, javascript: bool = False
) -> list[object]:
    """Encode a column of a query result as JSON values.

    With `javascript`, integers that a double cannot hold exactly become strings.
    """
    if isinstance(array, pa.ChunkedArray):
        return [
            v for chunk in array.chunks for v in encode_values_as_json(chunk, javascript=javascript)
        ]
    array = _convert_plain(array)
    if pat.is_fixed_size_list(array.type):
        return _cut(array, _convert_vector_items)
    if pat.is_list(array.type) or pat.is_large_list(array.type):
        return _cut(array, lambda items: encode_values_as_json(items, javascript=javascript))
    if pat.is_struct(array.type):
        return _convert_objects(
            array, lambda member: encode_values_as_json(member, javascript=javascript)
        )
    if pat.is_integer(array.type) and javascript:
        return _convert_integers(array)
    if pat.is_floating(array.type):
        return _convert_named_floats(array)
    if pat.is_date(array.type):
        return _convert_lists(render_dates(array.cast(pa.date32())))
    if pat.is_timestamp(array.type):
        return _convert_lists(render_datetimes(_convert_milliseconds(array)))
    return _convert_lists(array)


def encode_rows(table: pa.Table, *, javascript: bool = False) -> list[dict[str, object]]:
    """The rows of a query result as JSON objects, in the order of the columns."""
    names = table.column_names
    columns = [encode_values_as_json(column, javascript=javascript) for column in table.columns]
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def encode_lines(table: pa.Table, *, javascript: bool = False) -> Iterator[bytes]:
    """The rows of a query result as JSON lines, a piece at a time."""
    row = _build_row_struct("Row", tuple(table.column_names))
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        columns = [encode_values_as_json(column, javascript=javascript) for column in batch.columns]
        rows = list(map(row, *columns)) if columns else [row()] * batch.num_rows
        yield msgspec.json.Encoder().encode_lines(rows)


def export_values(array: pa.Array) -> list[object]:
    """Encode a stored column as JSON values that load as the same column again."""
    return _convert_stored_values(array, _convert_finite_floats)


def encode_image_values(array: pa.Array) -> list[object]:
    """Convert the images of changes, where a number that JSON cannot write is no error."""
    return _convert_stored_values(array, _convert_named_floats)


def encode_image_texts(kind: EntityKind, rows: pa.Table) -> list[bytes]:
    """Stored rows as JSON texts: the properties and, of an edge, its ends, as in the feed."""
    columns = {
        name: encode_image_values(_combine_column(rows.column(name))) for name in rows.column_names
    }
    columns.pop("id", None)
    ends = [columns.pop(end) for end in ("src", "dst")] if kind is EntityKind.EDGE else []
    properties: Iterable[object] = repeat({}, rows.num_rows)
    if columns:
        properties = map(_build_row_struct("Properties", tuple(columns)), *columns.values())
    names = ("properties", "endpoints") if ends else ("properties",)
    parts = [map(_build_row_struct("Endpoints", ("from", "to")), *ends)] if ends else []
    images = list(map(_build_row_struct("Image", names), properties, *parts))
    return msgspec.json.Encoder().encode_lines(images).splitlines()


def _combine_column(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.array([], column.type) if isinstance(whole, pa.ChunkedArray) else whole


def _convert_stored_values(array: pa.Array, floats: ToList) -> list[object]:
    array = _convert_plain(array)
    if array.type == BLOB:
        return _encode_blobs(array)
    if pat.is_list(array.type) or pat.is_fixed_size_list(array.type):
        return _cut(array, lambda items: _convert_stored_values(items, floats))
    if pat.is_floating(array.type):
        return floats(array)
    if pat.is_date32(array.type):
        return _convert_lists(array.cast(pa.int32()))
    if pat.is_timestamp(array.type):
        return _convert_lists(_convert_milliseconds(array).cast(pa.int64()))
    return _convert_lists(array)


def export_lines(type_name: str, kind: EntityKind, batch: pa.RecordBatch) -> bytes:
    """Encode stored rows as lines of an export.

    Args:
        type_name: The node or edge type.
        kind: Which of the two.
        batch: `id`, the endpoints of an edge, and the properties in output order; blobs as
            `struct<data, uri>`.
    """
    if batch.num_rows == 0:
        return b""
    columns = _export_columns(type_name, batch)
    ends = ("src", "dst") if kind is EntityKind.EDGE else ()
    structural = [columns.pop(end) for end in ends]
    data = map(_build_row_struct("Data", tuple(columns)), *columns.values())
    names = ("edge", "from", "to", "data") if ends else ("type", "data")
    line = _build_row_struct("Line", names)
    return msgspec.json.Encoder().encode_lines(
        list(map(line, repeat(type_name), *structural, data))
    )


def _export_columns(type_name: str, batch: pa.RecordBatch) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns[name] = export_values(column)
        except BadRequest as refused:
            raise BadRequest(f"cannot export {type_name}.{name}: {refused.message}") from None
    return columns


@lru_cache(maxsize=256)
def _build_row_struct(title: str, names: tuple[str, ...]) -> Callable[..., msgspec.Struct]:
    """A class for rows with these members: it encodes faster than a dictionary."""
    fields = [f"m{index}" for index in range(len(names))]
    return msgspec.defstruct(title, fields, rename=dict(zip(fields, names, strict=True)), gc=False)


def _convert_plain(array: pa.Array) -> pa.Array:
    """The array without an encoding that only saves room."""
    return array.dictionary_decode() if pat.is_dictionary(array.type) else array


def _convert_lists(array: pa.Array) -> list[object]:
    values: list[object] = array.to_pylist()
    return values


def _cut(array: pa.Array, to_list: ToList) -> list[object]:
    """A list column: its items converted as one column, then cut into rows."""
    items = to_list(array.flatten())
    lengths = pc.list_value_length(array).fill_null(0).to_pylist()
    ends = list(accumulate(lengths, initial=0))
    rows: list[object] = [items[start:end] for start, end in pairwise(ends)]
    for row in pc.indices_nonzero(array.is_null()).to_pylist():
        rows[row] = None
    return rows


def _convert_objects(array: pa.Array, to_list: ToList) -> list[object]:
    """A struct column as objects."""
    if array.type == BLOB:
        raise BadRequest("a Blob cannot be returned from a query; read it by its entity's id")
    members = [to_list(member) for member in array.flatten()]
    names = [member.name for member in array.type]
    rows: list[object] = [dict(zip(names, row, strict=True)) for row in zip(*members, strict=True)]
    for row in pc.indices_nonzero(array.is_null()).to_pylist():
        rows[row] = None
    return rows


def _convert_milliseconds(array: pa.Array) -> pa.Array:
    converted = convert_array(array, PropertyType(Scalar.DATETIME))
    if converted.errors:
        raise BadRequest(f"a stored DateTime {converted.errors[0][1]}")
    return converted.array


def _convert_vector_items(items: pa.Array) -> list[object]:
    wide = items.cast(pa.float64())
    return _convert_lists(pc.if_else(pc.is_finite(wide), wide, None))


def _convert_integers(array: pa.Array) -> list[object]:
    values = _convert_lists(array)
    unsafe = mask_outside(array, -LARGEST_SAFE_INTEGER, LARGEST_SAFE_INTEGER)
    for row in pc.indices_nonzero(unsafe).to_pylist():
        values[row] = str(values[row])
    return values


def _convert_named_floats(array: pa.Array) -> list[object]:
    """Floats as doubles; the ones JSON has no number for by name."""
    values = _convert_lists(array.cast(pa.float64()))
    for row in _find_non_finite_rows(array):
        values[row] = _NON_FINITE[str(values[row])]
    return values


def _convert_finite_floats(array: pa.Array) -> list[object]:
    rows = _find_non_finite_rows(array)
    if rows:
        raise BadRequest(f"non-finite number {_NON_FINITE[str(array[rows[0]].as_py())]}")
    return _convert_lists(array.cast(pa.float64()))


def _find_non_finite_rows(array: pa.Array) -> list[int]:
    rows: list[int] = pc.indices_nonzero(pc.invert(pc.is_finite(array))).to_pylist()
    return rows


def _encode_blobs(array: pa.Array) -> list[object]:
    return [None if cell is None else _encode_blob(cell) for cell in array.to_pylist()]


def _encode_blob(cell: Mapping[str, bytes | str | None]) -> object:
    data = cell["data"]
    if not isinstance(data, bytes):
        return cell["uri"]
    return BASE64_PREFIX + binascii.b2a_base64(data, newline=False).decode("ascii")
