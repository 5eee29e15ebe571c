"""Another set of columns for a table, prepared as its next version.

Values that stay are not touched, whatever their column is called from now on: data files name
columns by number. A column without values takes no file at all. Values of new columns are written
beside those that are there, one file for each fragment, so that rows keep their place, their row
id and the indexes of the columns that stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from lance import LanceOperation
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph.errors import ReadSetChanged
from omnigraph.storage.tables.effects import native_write
from omnigraph.storage.tables.failures import translated
from omnigraph.storage.tables.fragments import parse_fragments
from omnigraph.storage.tables.handle import Table, open_table
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage import StagedTransaction, stage_operation
from omnigraph.storage.tables.wholeness import STAGED_FILES, require_whole_rows

COMPUTED = " "
"""Before the name of a column while its values are written; no column of a schema has it."""


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A column that is there, perhaps by another name from now on."""

    field: pa.Field
    source: str
    """Its name now."""


@dataclass(frozen=True, slots=True)
class EmptyColumn:
    """A new column, NULL in every row."""

    field: pa.Field


@dataclass(frozen=True, slots=True)
class FilledColumn:
    """A new column, with the values that `write_columns` was given for it."""

    field: pa.Field


Column = KeptColumn | EmptyColumn | FilledColumn


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """One fragment with values of new columns in a file nothing refers to: plain data."""

    fragment: str
    ids: Mapping[str, int]
    """What the new columns are numbered as, by name."""


def write_columns(
    table: Table,
    fragment_id: int,
    read: Sequence[str],
    compute: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> WrittenColumns:
    """Write the columns that `compute` makes of the columns in `read`; works on any machine.

    Its batches must have as many rows as it was given, and the same columns every time. Rows that
    are deleted are not given to it.
    """

    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        made = compute(batch)
        return made.rename_columns([f"{COMPUTED}{name}" for name in made.schema.names])

    fragment = table.native.get_fragment(fragment_id)
    assert fragment is not None, f"no fragment {fragment_id} in {table!r}"
    before = len(fragment.metadata.files)
    with (
        translated(f"writing columns for {table!r}"),
        native_write("write_fragments", table.location),
    ):
        written, schema = fragment.merge_columns(renamed, columns=list(read))
    added = FragmentMetadata(0, written.files[before:], written.physical_rows)
    require_whole_rows(table.location, [added])
    ids = {
        field.name().removeprefix(COMPUTED): int(field.id())
        for field in schema.fields()
        if field.name().startswith(COMPUTED)
    }
    return WrittenColumns(json.dumps(written.to_json()), ids)


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """Columns to be written for one fragment: plain data, for whoever writes them."""

    location: TableLocation
    version: int
    fragment_id: int
    read: tuple[str, ...]
    compute: Callable[[pa.RecordBatch], pa.RecordBatch]
    """A function that can be sent to another process."""


def carry_out(order: ColumnOrder) -> WrittenColumns:
    table = open_table(order.location, order.version)
    return write_columns(table, order.fragment_id, order.read, order.compute)


def stage_columns(
    table: Table,
    columns: Sequence[Column],
    written: Iterable[WrittenColumns] = (),
    *,
    uuid: str,
    properties: Mapping[str, str],
) -> StagedTransaction:
    """The table with exactly these columns, in this order.

    `written` covers every fragment if any column is filled. A kept column may become nullable, or
    cease to be, only where no column is added: the substrate does either in one version.
    """
    filled = list(written)
    schema = _numbered(table, columns, filled)
    operation: LanceOperation.BaseOperation
    if all(isinstance(column, KeptColumn) for column in columns):
        operation = LanceOperation.Project(schema)
    else:
        operation = LanceOperation.Merge(_fragments(table, filled), schema)
    return stage_operation(table, operation, uuid=uuid, properties=properties)


def outdated_fragments(table: Table) -> list[int]:
    """The fragments with a file that holds values of a column the table no longer has."""
    known = set(table.columns.all_ids)
    with translated(f"listing the fragments of {table!r}"):
        fragments = [fragment.metadata for fragment in table.native.get_fragments()]
    return [
        fragment.id
        for fragment in fragments
        if any(not known.issuperset(file.fields) for file in fragment.files)
    ]


def _fragments(table: Table, written: Sequence[WrittenColumns]) -> list[FragmentMetadata]:
    with translated(f"listing the fragments of {table!r}"):
        there = [fragment.metadata for fragment in table.native.get_fragments()]
    if not written:
        return there
    filled = {one.id: one for one in parse_fragments(one.fragment for one in written)}
    if filled.keys() != {fragment.id for fragment in there}:
        raise ReadSetChanged(STAGED_FILES, f"{len(there)} fragments", f"{len(filled)} written")
    return [filled[fragment.id] for fragment in there]


# --- numbers --------------------------------------------------------------------------------------


def _numbered(
    table: Table, columns: Sequence[Column], written: Sequence[WrittenColumns]
) -> LanceSchema:
    """The columns with the numbers data files know them by, and fresh ones for those without."""
    given = {name: id for one in written for name, id in one.ids.items()}
    fresh = max(_used_numbers(table, written), default=-1) + 1
    numbers: list[int] = []
    for column in columns:
        number = _known_number(table, column, given)
        if number is None:
            number, fresh = fresh, fresh + _width(column.field)
        numbers.append(number)
    chosen = _schema_of([column.field for column in columns], numbers)
    make, (_, *parts) = chosen.__reduce__()
    _, (metadata, *_) = table.native.lance_schema.__reduce__()
    kept: LanceSchema = make(metadata, *parts)
    return kept


def _known_number(table: Table, column: Column, given: Mapping[str, int]) -> int | None:
    match column:
        case KeptColumn(source=source):
            return table.columns.ids[source]
        case FilledColumn(field=field):
            return given.get(field.name)  # a table without rows has nothing written
        case EmptyColumn():
            return None


def _used_numbers(table: Table, written: Sequence[WrittenColumns]) -> set[int]:
    """Every number a column has or had: files keep the values of dropped columns for a while."""
    used = set(table.columns.all_ids)
    for fragment in _fragments(table, written):
        for file in fragment.files:
            used.update(file.fields)
    for one in written:
        used.update(one.ids.values())
    return used


def _schema_of(fields: Sequence[pa.Field], numbers: Sequence[int]) -> LanceSchema:
    """A schema whose top-level fields have these numbers; nested ones count on from theirs.

    The substrate numbers the fields of a schema in order. So those between are filled up with
    others, which are left out again.
    """
    padded: list[pa.Field] = []
    wanted: dict[str, int] = {}
    at = 0
    for number, field in sorted(zip(numbers, fields, strict=True), key=lambda pair: pair[0]):
        padded += [pa.field(f" {gap}", pa.int8()) for gap in range(at, number)]
        wanted[field.name] = number
        padded.append(field)
        at = number + _width(field)
    with translated("numbering the columns of a table"):
        schema = LanceSchema.from_pyarrow(pa.schema(padded))
    make, (metadata, *parts) = schema.__reduce__()
    parts_of: dict[str, list[bytes]] = {}
    position = 0
    for field in schema.fields():
        width = _nodes(field)
        parts_of[field.name()] = parts[position : position + width]
        position += width
        assert field.name() not in wanted or wanted[field.name()] == field.id(), "as counted"
    chosen: LanceSchema = make(metadata, *(p for field in fields for p in parts_of[field.name]))
    return chosen


def _width(field: pa.Field) -> int:
    """How many numbers a field takes, nested ones included."""
    (one,) = LanceSchema.from_pyarrow(pa.schema([field])).fields()
    return _nodes(one)


def _nodes(field: object) -> int:
    return 1 + sum(_nodes(child) for child in field.children())  # type: ignore[attr-defined]
