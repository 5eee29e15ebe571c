"""Forms of input of a load: files, streams, tables, frames and Python records.

Python records become JSON lines exactly, or not at all: the encoder writes a float that is not a
number as null, bytes as text and a duration as text, and reports nothing. So a record that holds
anything but plain values is converted here first, to what the schema has in its place, and a value
that has none is refused.
"""

from __future__ import annotations

import binascii
import hashlib
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from glob import has_magic
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import BadRequest
from omnigraph.execution.load_options import LoadMode, LoadOptions
from omnigraph.pipeline.input_splits import (
    FileSource,
    FrameSource,
    TableSource,
    find_type,
    identify_files,
)
from omnigraph.pipeline.load_stages import RecordInput
from omnigraph.settings import AwsSettings
from omnigraph.types.json_value import BASE64_PREFIX
from omnigraph.types.property import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.types.row_problems import ValueRefused

MANY_BYTES = 8 << 20
"""Bytes of input above which tasks of the pipeline need less memory and time."""

_OTHER_FORMATS = (".gz", ".zst", ".parquet", ".csv", ".tsv")
"""Suffixes of files that are not plain lines."""

Records = str | Path | bytes | BinaryIO | Iterable[Mapping[str, object]]
"""A file of JSON lines, its content, a stream of it, or the records themselves."""
Input: TypeAlias = Records | Sequence[str | Path] | pa.Table | pa.RecordBatch
"""Any input of a load; also a Spark data frame, whose type needs Spark."""

FindCatalog = Callable[[], Catalog]


@dataclass(frozen=True, slots=True)
class StreamInput:
    """Lines of a stream that is read once, and the first of them."""

    start: bytes
    rest: BinaryIO | None = None

    def chunks(self) -> Iterator[bytes]:
        yield self.start
        while self.rest is not None and (chunk := self.rest.read(MANY_BYTES)):
            yield chunk


TaskInput: TypeAlias = StreamInput | FileSource | TableSource | FrameSource
"""Input that tasks of the pipeline load, wherever they run."""
LoadInput: TypeAlias = RecordInput | TaskInput


def as_input(
    records: Input, options: LoadOptions, find_catalog: FindCatalog
) -> tuple[LoadInput, LoadOptions]:
    """Normalize input: files by name, a Spark frame, an Arrow table, or JSON lines.

    Frames of other libraries become tables, and Python records lines; then the options no longer
    say the type, since the lines do. Of a stream no more is read than may be loaded in one piece.
    """
    if isinstance(records, io.TextIOBase):
        raise BadRequest("a stream is loaded from its bytes: open it in binary mode")
    if isinstance(records, io.IOBase):
        return _start_of(records), options  # type: ignore[arg-type]
    if isinstance(records, bytes):
        return RecordInput(records), options
    if isinstance(records, str | Path):
        return FileSource((records,)), options
    if _is_frame(records):
        return FrameSource(records), options  # type: ignore[arg-type]
    if isinstance(records, pa.RecordBatch):
        records = pa.Table.from_batches([records])
    if isinstance(records, pa.Table):
        return TableSource(records), options
    if type(records).__module__.startswith("polars.lazyframe"):
        records = records.collect()  # type: ignore[union-attr]
    if hasattr(records, "__arrow_c_stream__"):
        table = pa.table(records)
        columns = [_decode_dictionaries(column) for column in table.columns]
        return TableSource(pa.table(columns, names=table.column_names)), options
    if isinstance(records, Mapping) or not isinstance(records, Iterable):
        raise BadRequest(
            f"cannot load {type(records).__name__}; "
            "give files, JSON lines as bytes, a list of records, or a table"
        )
    given = list(records)
    if given and all(isinstance(one, str | Path) for one in given):
        return FileSource(tuple(given)), options
    return _encode_python(given, options, find_catalog)


def _is_frame(records: object) -> bool:
    """Return whether records are a frame of Spark, without loading Spark."""
    return type(records).__module__.startswith("pyspark.")


def plan_input(given: LoadInput, engine: str, options: LoadOptions) -> LoadInput:
    """Choose the form of a load: records in memory, or tasks for larger and other input.

    Raises:
        BadRequest: the input cannot be read.
    """
    needs_tasks = engine == "spark" or not options.is_plain
    match given:
        case RecordInput() if needs_tasks or len(given.data) > MANY_BYTES:
            return StreamInput(given.data)
        case FileSource((path,)) if not needs_tasks and _is_one_file(path):
            file = Path(path)
            is_large = file.is_file() and file.stat().st_size > MANY_BYTES
            return given if is_large else read_records(path)
        case _:
            return given


def convert_to_lines(
    records: Input,
    find_catalog: FindCatalog,
    *,
    type: str | None,
    columns: Mapping[str, str] | None,
    select: Sequence[str],
) -> RecordInput | None:
    """Convert input to JSON lines; return None if only tasks can read it."""
    asked = LoadOptions(mode=LoadMode.MERGE, type=type, columns=columns or {}, select=tuple(select))
    given, options = as_input(records, asked, find_catalog)
    if not options.is_plain:
        return None
    match given:
        case RecordInput():
            return given
        case StreamInput():
            return RecordInput(b"".join(given.chunks()))
        case FileSource((path,)) if _is_one_file(path):
            return read_records(path)
        case _:
            return None


def read_records(path: str | Path) -> RecordInput:
    """Read a file of JSON lines; errors name it as it was given."""
    try:
        return RecordInput(Path(path).read_bytes(), str(path))
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror or error}") from error


def _is_one_file(path: str | Path) -> bool:
    """Return whether a path names one file of plain records, which need not exist."""
    file, text = Path(path), str(path)
    if "://" in text or file.suffix in _OTHER_FORMATS or file.is_dir():
        return False
    return file.exists() or not has_magic(text)


def _encode_python(
    given: list[Any], options: LoadOptions, find_catalog: FindCatalog
) -> tuple[RecordInput, LoadOptions]:
    if options.type is None:
        return RecordInput(encode_records(given, find_catalog)), options
    type_ = find_type(find_catalog(), options.type)
    if not all(isinstance(one, Mapping) for one in given):
        raise BadRequest(f"rows of {type_.name} are dictionaries, one for each row")
    rows = wrap_rows(given, type_, options.columns, options.select)
    lines = encode_records(rows, find_catalog)
    return RecordInput(lines), replace(options, type=None, columns={}, select=())


def _start_of(stream: BinaryIO) -> RecordInput | StreamInput:
    parts, left = [], MANY_BYTES + 1
    while left and (part := stream.read(left)):  # a pipe gives what it has
        parts.append(part)
        left -= len(part)
    start = b"".join(parts)
    return RecordInput(start) if left else StreamInput(start, stream)


def _decode_dictionaries(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decode dictionary-encoded values and views."""
    if not pa.types.is_dictionary(column.type):
        return column.cast(_drop_view_types(column.type))
    kind = _drop_view_types(column.type.value_type)
    chunks = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(chunks, kind)


def _drop_view_types(kind: pa.DataType) -> pa.DataType:
    """Return the type without views, as tables store it."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(_drop_view_types(kind.value_type))
    if kind == pa.string_view():
        return pa.large_string()
    return pa.large_binary() if kind == pa.binary_view() else kind


# --- identity ------------------------------------------------------------------------------------


def identify_input(given: LoadInput, aws: AwsSettings) -> object:
    """Return bytes, or a value for JSON, that identifies the content.

    A long stream is identified by its beginning, a data frame by its plan.
    """
    match given:
        case RecordInput():
            return given.data
        case StreamInput():
            return given.start
        case TableSource():
            return _digest_table(given.table)
        case FrameSource():
            frame: Any = given.frame  # also a frame of a remote session
            return {"frame": frame.semanticHash(), "columns": frame.schema.json()}
        case FileSource():
            return identify_files(given.paths, aws)


def _digest_table(table: pa.Table) -> str:
    """Digest the columns; how they are cut into chunks makes no difference."""
    digest = hashlib.sha256()
    for name, column in zip(table.schema.names, table.columns, strict=True):
        whole = column.combine_chunks()
        chunks = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
        for chunk in chunks:
            batch, sink = pa.record_batch([chunk], names=[name]), pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            digest.update(sink.getvalue())
    return digest.hexdigest()


# --- Python records ------------------------------------------------------------------------------


_PLAIN = frozenset({str, int, bool, type(None)})
_NUMBERS = frozenset({int, float})
_TEMPORAL = frozenset({Scalar.DATE, Scalar.DATETIME})
_NOT_ENCODED = (RecursionError, OverflowError, TypeError, ValueError)
_STRING_TYPE = PropertyType(Scalar.STRING)
_ENDS = {"from": "from", "src": "from", "to": "to", "dst": "to"}


def encode_records(records: Sequence[object], find_catalog: FindCatalog) -> bytes:
    """Encode records as JSON lines.

    Raises:
        BadRequest: a value cannot be written down exactly, or does not fit its property.
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
    """Wrap rows of one type as records.

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
    """Return whether the encoder would write any part of it as another value."""
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
    """Return False if a number is not finite, by one call for a whole vector."""
    try:
        return math.isfinite(sum(numbers))
    except OverflowError:
        return False


class _RecordTypes:
    """Types of the members of records, by the types that the records name."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._members: dict[tuple[str | None, ...], Mapping[str, PropertyType]] = {}

    def list_members(self, record: Mapping[str, object]) -> Mapping[str, PropertyType]:
        node, edge = record.get("type"), record.get("edge")
        key = tuple(name if isinstance(name, str) else None for name in (node, edge))
        if key not in self._members:
            type_ = self._find(node, edge)
            properties = () if type_ is None else type_.properties
            self._members[key] = {**{p.name: p.type for p in properties}, "id": _STRING_TYPE}
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
            converted[name] = _Member(number, str(name), _STRING_TYPE).convert(value)
    return converted


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of a record, and the type its value must suit; None if it is unknown."""

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
    """Explain which record cannot be encoded, and why."""
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
