"""Stage changes of columns, compute column values, and read blob columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceFragment, LanceOperation
from lance.blob import BlobType
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph.errors import BadExpression, OmniError, ReadSetChanged
from omnigraph.storage.tables.file_probes import report_native_write
from omnigraph.storage.tables.fragments import (
    STAGED_FILES,
    parse_fragments,
    record_rows,
    require_complete_rows,
)
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import StagedTransaction, stage_operation
from omnigraph.storage.tables.table import Table, open_table

if TYPE_CHECKING:
    from lance.lance.schema import LanceField


def make_blob_field(
    name: str, *, nullable: bool = True, metadata: Mapping[str, str] | None = None
) -> pa.Field:
    return pa.field(name, BlobType(), nullable=nullable, metadata=dict(metadata or {}) or None)


def is_blob(field: pa.Field) -> bool:
    return isinstance(field.type, BlobType)


def make_blob_array(values: pa.Array | pa.ChunkedArray | Sequence[bytes | None]) -> pa.Array:
    """Encode bytes as values of a blob column; null and empty remain distinct."""
    data = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(list(values))
    data = data.cast(pa.large_binary())
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    fields = list(BlobType().storage_type)
    rest = [pa.nulls(len(data), field.type) for field in fields[1:]]
    storage = pa.StructArray.from_arrays([data, *rest], fields=fields, mask=pc.is_null(data))
    return pa.ExtensionArray.from_storage(BlobType(), storage)


def read_blobs(table: Table, column: str, row_ids: Sequence[int]) -> list[bytes | None]:
    """Read the values of these row ids, in that order; every id must exist."""
    if not row_ids:
        return []
    with translate_errors(f"reading blobs of {table!r}"):
        found = table.native.read_blobs(column, ids=list(row_ids), preserve_order=True)
    return [value for _, value in found]


def read_blobs_at(table: Table, column: str, addresses: pa.Array) -> list[bytes | None]:
    """Read the values of these row addresses, in that order; every row must exist."""
    if not len(addresses):
        return []
    with translate_errors(f"reading blobs of {table!r}"):
        found = table.native.read_blobs(column, addresses=addresses, preserve_order=True)
    return [value for _, value in found]


def read_blob_range(table: Table, column: str, row_id: int, start: int, length: int) -> bytes:
    """Part of one value; the range must lie within it."""
    with translate_errors(f"reading a blob of {table!r}"):
        found = table.native.read_blob_ranges(column, [(row_id, start, length)], selector="ids")
    value = found[0][2]
    assert value is not None, f"row {row_id} has no {column}"
    return value


COMPUTED = " "
"""Prefix of a column whose values are being computed; no column of a schema has it."""


def read_computed(
    table: Table,
    read: Mapping[str, str],
    fragments: Sequence[int] | None = None,
    *,
    blob_bytes: bool = False,
    batch_rows: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Evaluate expressions for all rows, a batch at a time, in storage order.

    Blob columns are returned as descriptors unless `blob_bytes` is set. The row id is read as well:
    Lance reads no rows for constants alone.

    Raises:
        BadExpression: an expression whose name starts with `COMPUTED` has no value for a row.
    """
    only = None if fragments is None else [find_fragment(table, id) for id in fragments]
    with translate_errors(f"computing columns of {table!r}"):
        try:
            yield from table.native.scanner(
                columns=dict(read),
                with_row_id=True,
                fragments=only,
                scan_in_order=True,
                blob_handling="all_binary" if blob_bytes else None,
                batch_size=batch_rows,
            ).to_batches()
        except ValueError:  # bad values too: Arrow calls them invalid
            computed = {k: text for k, text in read.items() if k.startswith(COMPUTED)}
            for name, expression in computed.items():
                mistake = _find_failure(table, expression, only)
                if mistake is not None:
                    property_ = name.removeprefix(COMPUTED)
                    raise BadExpression(property_, expression, mistake) from None
            raise


def find_expression_error(table: Table, expression: str) -> str | None:
    """Explain why an expression cannot be computed from the columns of a table; None if it can.

    It may still have no value for some row: NaN, or a division by zero.
    """
    try:
        _ = table.native.scanner(columns={"value": expression}, with_row_id=True).projected_schema
    except ValueError as error:
        return _find_reason(error)
    return None


def _find_failure(
    table: Table, expression: str, fragments: list[LanceFragment] | None
) -> str | None:
    """Find the error of evaluating an expression by itself; None if there is none."""
    try:
        for _ in table.native.scanner(
            columns={"value": expression}, with_row_id=True, fragments=fragments
        ).to_batches():
            continue
    except ValueError as error:
        return _find_reason(error)
    return None


def _find_reason(error: Exception) -> str:
    """Return the message of Lance, without its source location."""
    said = str(error).partition(", /")[0]
    for prefix in ("External error: ", "Invalid user input: ", "LanceError(Arrow): "):
        said = said.removeprefix(prefix)
    return said


def find_fragment(table: Table, id: int) -> LanceFragment:
    fragment = table.native.get_fragment(id)
    assert fragment is not None, f"no fragment {id} in {table!r}"
    return fragment


@contextmanager
def open_noting_failures(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema | None = None
) -> Iterator[pa.RecordBatchReader]:
    """Give the batches to Lance within the block.

    Without a schema that of the first batch is used, and there must be one.

    Raises:
        OmniError: raised by the iterator; Lance would only report that the batches ended.
    """
    failures: list[OmniError] = []

    def note() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except OmniError as error:
            failures.append(error)
            raise

    noted = note()
    if schema is None:
        first = next(noted, None)
        assert first is not None, "a fragment has rows"
        schema, noted = first.schema, chain([first], noted)
    try:
        yield pa.RecordBatchReader.from_batches(schema, noted)
    except Exception:
        if failures:
            raise failures[0] from None
        raise


_ROWS_PER_BATCH = 1 << 19


@dataclass(frozen=True, slots=True)
class RetainedColumn:
    """An existing column, possibly renamed."""

    field: pa.Field
    source: str
    """Its name now."""


@dataclass(frozen=True, slots=True)
class EmptyColumn:
    """A new column, NULL in every row."""

    field: pa.Field


@dataclass(frozen=True, slots=True)
class FilledColumn:
    """A new column, with values from `write_columns`."""

    field: pa.Field


Column = RetainedColumn | EmptyColumn | FilledColumn


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """Values of new columns for one fragment, in an unreferenced file; plain data."""

    fragment: str
    ids: Mapping[str, int]
    """Field ids of the new columns, by name."""


Compute = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Computes the new columns of a batch: the same columns each time, a value for each row."""


def write_columns(
    table: Table, fragment_id: int, read: Mapping[str, str], compute: Compute | None
) -> WrittenColumns:
    """Compute and write columns of one fragment; works on any machine.

    `read` maps names to expressions; without `compute` their values are written unchanged. Deleted
    rows are skipped.
    """
    fragment = find_fragment(table, fragment_id)
    before = len(fragment.metadata.files)
    with translate_errors(f"writing columns for {table!r}"):
        if compute is None:
            values = {f"{COMPUTED}{name}": expression for name, expression in read.items()}
            with report_native_write("write_fragments", table.location):
                written, schema = fragment.merge_columns(values)
        else:
            batches = _compute_batches(table, fragment_id, read, compute)
            with (
                open_noting_failures(batches) as reader,
                report_native_write("write_fragments", table.location),
            ):
                written, schema = fragment.merge_columns(reader)
    added = FragmentMetadata(0, written.files[before:], written.physical_rows)
    require_complete_rows(table.location, [added])
    record_rows(table.location, [added])
    ids = {
        field.name().removeprefix(COMPUTED): int(field.id())
        for field in schema.fields()
        if field.name().startswith(COMPUTED)
    }
    return WrittenColumns(json.dumps(written.to_json()), ids)


def _compute_batches(
    table: Table, fragment_id: int, read: Mapping[str, str], compute: Compute
) -> Iterator[pa.RecordBatch]:
    batches = read_computed(table, read, [fragment_id]) if read else _nothing(table, fragment_id)
    for batch in batches:
        made = compute(batch)
        yield made.rename_columns([f"{COMPUTED}{name}" for name in made.schema.names])


def _nothing(table: Table, fragment_id: int) -> Iterator[pa.RecordBatch]:
    """Yield rows without columns, for values that are the same in every row."""
    left = find_fragment(table, fragment_id).metadata.num_rows
    while left:
        rows = min(left, _ROWS_PER_BATCH)
        yield pa.record_batch([pa.nulls(rows)], names=["row"])
        left -= rows


@dataclass(frozen=True, slots=True)
class ColumnJob:
    """Columns to write for one fragment; plain data."""

    location: TableLocation
    version: int
    fragment_id: int
    read: Mapping[str, str]
    compute: Compute | None
    """A function that can be sent to another process."""


def carry_out(order: ColumnJob) -> WrittenColumns:
    table = open_table(order.location, order.version)
    return write_columns(table, order.fragment_id, order.read, order.compute)


def stage_columns(
    table: Table,
    columns: Sequence[Column],
    written: Iterable[WrittenColumns] = (),
    *,
    properties: Mapping[str, str],
) -> StagedTransaction:
    """Stage a version of the table with exactly these columns, in this order.

    `written` covers every fragment if any column is filled. The nullability of a retained column
    may change only where no column is added: Lance does one of the two per version.
    """
    filled = list(written)
    schema = _number_columns(table, columns, filled)
    operation: LanceOperation.BaseOperation
    if all(isinstance(column, RetainedColumn) for column in columns):
        operation = LanceOperation.Project(schema)
    else:
        operation = LanceOperation.Merge(_relevant(_fragments(table, filled), schema), schema)
    return stage_operation(table, operation, properties=properties)


def _relevant(fragments: list[FragmentMetadata], schema: LanceSchema) -> list[FragmentMetadata]:
    """Drop the files of fragments that no column refers to any more, as a projection does."""
    left = set(_all_numbers(schema.fields()))
    for fragment in fragments:
        fragment.files = [file for file in fragment.files if left.intersection(file.fields)]
    return fragments


def find_outdated_fragments(table: Table) -> list[int]:
    """Find the fragments with a file that holds values of a dropped column."""
    known = set(table.columns.all_ids)
    with translate_errors(f"listing the fragments of {table!r}"):
        fragments = [fragment.metadata for fragment in table.native.get_fragments()]
    return [
        fragment.id
        for fragment in fragments
        if any(not known.issuperset(file.fields) for file in fragment.files)
    ]


def _fragments(table: Table, written: Sequence[WrittenColumns]) -> list[FragmentMetadata]:
    with translate_errors(f"listing the fragments of {table!r}"):
        there = [fragment.metadata for fragment in table.native.get_fragments()]
    if not written:
        return there
    filled = {one.id: one for one in parse_fragments(one.fragment for one in written)}
    if filled.keys() != {fragment.id for fragment in there}:
        raise ReadSetChanged(STAGED_FILES, f"{len(there)} fragments", f"{len(filled)} written")
    return [filled[fragment.id] for fragment in there]


# --- numbers --------------------------------------------------------------------------------------


def _number_columns(
    table: Table, columns: Sequence[Column], written: Sequence[WrittenColumns]
) -> LanceSchema:
    """Return the columns with their field ids, and fresh ones for new columns."""
    given = {name: id for one in written for name, id in one.ids.items()}
    fresh = max(_list_numbers(table, written), default=-1) + 1
    numbers: list[int] = []
    for column in columns:
        number = _find_number(table, column, given)
        if number is None:
            number, fresh = fresh, fresh + _width(column.field)
        numbers.append(number)
    metadata, _ = _parts_of(table.native.lance_schema)
    return _schema_of([column.field for column in columns], numbers, metadata)


def _parts_of(schema: LanceSchema) -> tuple[str, list[bytes]]:
    """A schema in the form it is sent to other processes: its metadata, and a part each field."""
    _, (metadata, *parts) = cast("tuple[object, tuple[Any, ...]]", schema.__reduce__())
    return str(metadata), parts


def _find_number(table: Table, column: Column, given: Mapping[str, int]) -> int | None:
    match column:
        case RetainedColumn(source=source):
            return table.columns.ids[source]
        case FilledColumn(field=field):
            return given.get(field.name)  # unset for a table without rows
        case EmptyColumn():
            return None


def _list_numbers(table: Table, written: Sequence[WrittenColumns]) -> set[int]:
    """Every number a column has or had: files keep the values of dropped columns for a while."""
    used = set(table.columns.all_ids)
    for fragment in _fragments(table, written):
        for file in fragment.files:
            used.update(file.fields)
    for one in written:
        used.update(one.ids.values())
    return used


def _schema_of(fields: Sequence[pa.Field], numbers: Sequence[int], metadata: str) -> LanceSchema:
    """Build a schema whose top-level fields have these ids; nested fields follow theirs.

    Lance numbers the fields of a schema in order, so gaps are filled with other fields, which are
    removed again.
    """
    padded: list[pa.Field] = []
    at = 0
    for number, field in sorted(zip(numbers, fields, strict=True), key=lambda pair: pair[0]):
        padded += [pa.field(f" {gap}", pa.int8()) for gap in range(at, number)]
        padded.append(field)
        at = number + _width(field)
    with translate_errors("numbering the columns of a table"):
        schema = LanceSchema.from_pyarrow(pa.schema(padded))
    _, parts = _parts_of(schema)
    parts_of: dict[str, list[bytes]] = {}
    given: dict[str, int] = {}
    for field in schema.fields():
        width, given[field.name()] = _nodes(field), field.id()
        parts_of[field.name()], parts = parts[:width], parts[width:]
    assert [given[field.name] for field in fields] == list(numbers), "numbered as Lance does"
    return LanceSchema._from_protos(metadata, *(p for f in fields for p in parts_of[f.name]))


def _width(field: pa.Field) -> int:
    """Count the field ids of a field with its nested ones."""
    (one,) = LanceSchema.from_pyarrow(pa.schema([field])).fields()
    return _nodes(one)


def _all_numbers(fields: Iterable[LanceField]) -> Iterator[int]:
    for field in fields:
        yield int(field.id())
        yield from _all_numbers(field.children())


def _nodes(field: LanceField) -> int:
    return 1 + sum(_nodes(child) for child in field.children())
