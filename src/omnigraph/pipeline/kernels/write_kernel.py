"""Write staged rows to files of their tables, and deletion marks on the rows they replace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType, Property
from omnigraph.constraints.table_changes import REPORTED, get_column, mask_remaining
from omnigraph.errors import RowProblem
from omnigraph.execution.stored_rows import (
    build_logical_schema,
    build_table_schema,
    convert_from_table_rows,
    convert_to_table_rows,
    get_default_value,
)
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.staged_row_reader import (
    compute_addresses,
    drop_rows,
    read_dropped_addresses,
    read_replacements,
)
from omnigraph.pipeline.staging_area import (
    AT,
    PRESENT,
    Staged,
    build_staging_schema,
    decode_catalog_cached,
)
from omnigraph.storage.tables import (
    NO_DELETIONS,
    ROW_ADDRESS,
    ROW_ID,
    Deletions,
    Table,
    TableLocation,
    delete_addresses,
    read_blobs,
    write_fragments,
)
from omnigraph.types.arrow import BLOB, to_arrow_type
from omnigraph.types.jsonl_records import PropertySpec, make_missing_value

ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """Some fragments of the staged rows of one type, and the table they go to."""

    table_key: TableKey
    staged: Staged
    fragments: tuple[int, ...]
    target: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Result of a task for a table: files of new rows, or deletion marks on replaced rows."""

    table_key: TableKey
    fragments: tuple[str, ...] = ()
    rows: int = 0
    deletions: Deletions = NO_DELETIONS


def write_rows(ir: str, task: WriteTask) -> Written:
    """Write staged rows to fragments of the target."""
    type_ = decode_catalog_cached(ir).by_table_key[task.table_key]
    batches = _iterate_rows(type_, task)
    first = next(batches, None)
    if first is None:
        return Written(table_key=task.table_key)
    counter = _Counter()
    rows = counter.count(first, batches)
    reader = pa.RecordBatchReader.from_batches(build_table_schema(type_), rows)
    fragments = write_fragments(task.target, reader)
    return Written(table_key=task.table_key, fragments=tuple(fragments), rows=counter.rows)


class _Counter:
    def __init__(self) -> None:
        self.rows = 0

    def count(
        self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        self.rows += first.num_rows
        yield first
        for batch in rest:
            self.rows += batch.num_rows
            yield batch


def _iterate_rows(type_: NodeType | EdgeType, task: WriteTask) -> Iterator[pa.RecordBatch]:
    """Yield the staged rows that are not dropped, in the form of the target."""
    wanted = build_logical_schema(type_)
    gone = read_dropped_addresses(task.staged.row_outcomes, task.fragments)
    dropped = _Addresses(gone) if len(gone) else None
    for batch in task.staged.table.batches(
        wanted.names,
        with_row_address=dropped is not None,
        fragments=task.fragments,
        batch_size=ROWS_AT_ONCE,
    ):
        rows = pa.Table.from_batches([batch])
        rows = rows if dropped is None else dropped.find_others(rows)
        if rows.num_rows:
            plain = rows.select(wanted.names).cast(wanted)
            yield from convert_to_table_rows(plain, type_).combine_chunks().to_batches()


class _Addresses:
    """A sorted set of addresses for repeated lookups; a hash would be rebuilt each time."""

    def __init__(self, addresses: pa.Array) -> None:
        self._sorted = np.sort(addresses.to_numpy(zero_copy_only=False))

    def find_others(self, rows: pa.Table) -> pa.Table:
        """Return the rows at other addresses."""
        asked = get_column(rows, ROW_ADDRESS).to_numpy(zero_copy_only=False)
        offsets = np.minimum(np.searchsorted(self._sorted, asked), len(self._sorted) - 1)
        return rows.filter(pa.array(self._sorted[offsets] != asked))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTask:
    """Some fragments of a table whose rows are replaced."""

    table_key: TableKey
    target: Table
    fragments: tuple[int, ...]
    row_outcomes: tuple[Table, ...]


def delete_rows(spec: None, task: DeleteTask) -> Written:
    """Write deletion marks on the replaced rows of fragments; nothing refers to them yet."""
    del spec
    found = read_replacements(
        task.row_outcomes, ["row_address"], fragments=task.fragments, by="row_fragment"
    )
    if not found.num_rows:
        return Written(table_key=task.table_key)
    marks = delete_addresses(task.target, get_column(found, "row_address"))
    return Written(table_key=task.table_key, deletions=marks)


# --- partial records -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FillTask:
    """One fragment of staged partial records."""

    table_key: TableKey
    staged: Staged
    fragment: int
    base: Table | None
    target: TableLocation
    drop_to: TableLocation | None = None
    """Table of outcomes in which rows that cannot be completed are dropped."""


@dataclass(frozen=True, slots=True)
class LocatedProblem:
    """Problem of a row, and its position in the input."""

    position: int
    problem: RowProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFill:
    """Files of complete rows, and the first records that cannot be completed."""

    table_key: TableKey
    fragments: tuple[str, ...]
    problems: tuple[LocatedProblem, ...] = ()
    problem_count: int = 0
    row_outcomes: tuple[str, ...] = ()


def fill_rows(ir: str, task: FillTask) -> WrittenFill:
    """Complete partial records from the rows they replace, or from defaults.

    The order and number of rows is unchanged, so that references by address remain valid.
    """
    type_ = decode_catalog_cached(ir).by_table_key[task.table_key]
    rows = pa.Table.from_batches(
        list(task.staged.table.batches(fragments=[task.fragment], with_row_address=True))
    )
    row_outcomes = task.staged.row_outcomes
    found = read_replacements(row_outcomes, ["address", "row_id"], fragments=[task.fragment])
    offsets = pc.index_in(get_column(rows, ROW_ADDRESS), value_set=get_column(found, "address"))
    stored = _read_stored_rows(task.base, get_column(found, "row_id"), type_)
    columns = {name: get_column(rows, name) for name in build_staging_schema(type_).names}
    for property_ in type_.properties:
        given = get_column(rows, PRESENT + property_.name)
        old = get_column(stored, property_.name).take(offsets)
        otherwise = _choose(
            pc.is_valid(offsets), old, _insert_rows(type_, property_, rows.num_rows)
        )
        columns[property_.name] = _choose(given, columns[property_.name], otherwise)
    whole = pa.table(columns, schema=build_staging_schema(type_))
    gone = read_dropped_addresses(row_outcomes, [task.fragment])
    counts = mask_remaining(get_column(rows, ROW_ADDRESS), gone)
    problems = list(_find_lacking(type_, whole, counts))
    written = write_fragments(task.target, whole, rows_per_file=max(1, rows.num_rows))
    return WrittenFill(
        table_key=task.table_key,
        fragments=tuple(written),
        problems=tuple(problems[:REPORTED]),
        problem_count=len(problems),
        row_outcomes=_drop_rows(task, rows, problems),
    )


def _drop_rows(
    task: FillTask, rows: pa.Table, problems: Sequence[LocatedProblem]
) -> tuple[str, ...]:
    if not problems:
        return ()
    return drop_rows(task.drop_to, compute_addresses(rows, {found.position for found in problems}))


def _insert_rows(type_: NodeType | EdgeType, property_: Property, count: int) -> pa.Array:
    """Return the default of a property, for the rows of new entities."""
    if property_.default is None:
        return pa.nulls(count, to_arrow_type(property_.type))
    return pa.repeat(get_default_value(property_, f"{type_.name}.{property_.name}"), count)


def _choose(mask: pa.Array, one: pa.Array, other: pa.Array) -> pa.Array:
    """Choose from two columns, row by row; also for types that `if_else` lacks."""
    count = len(mask)
    picks = np.where(
        mask.to_numpy(zero_copy_only=False), np.arange(count), np.arange(count) + count
    )
    return pa.concat_arrays([one, other]).take(pa.array(picks))


def _read_stored_rows(
    base: Table | None, row_ids: pa.Array, type_: NodeType | EdgeType
) -> pa.Table:
    """Read the committed rows with these ids, in that order, blobs included."""
    wanted = build_logical_schema(type_)
    if base is None or not len(row_ids):
        return wanted.empty_table()
    plain = [field.name for field in wanted if field.type != BLOB]
    found = base.take_row_ids(row_ids, [*plain, ROW_ID])
    for field in wanted:
        if field.type == BLOB:
            values = read_blobs(base, field.name, row_ids.to_pylist())
            found = found.append_column(field.name, pa.array(values, pa.large_binary()))
    return convert_from_table_rows(found, type_)


def _find_lacking(
    type_: NodeType | EdgeType, rows: pa.Table, counts: pa.Array
) -> Iterator[LocatedProblem]:
    """Find the rows that lack a required value."""
    for property_ in type_.properties:
        if property_.type.nullable:
            continue
        lacking = pc.and_(pc.is_null(get_column(rows, property_.name)), counts)
        problem = make_missing_value(PropertySpec(property_.name, property_.type))
        for row in pc.indices_nonzero(lacking).to_pylist():
            id = rows.column("id")[row].as_py()
            named = msgspec.structs.replace(problem, type_key=type_.table_key, id=id)
            yield LocatedProblem(rows.column(AT)[row].as_py(), named)


def group_fragments(table: Table, rows_each: int) -> list[tuple[int, ...]]:
    """Group neighbouring fragments of a table to about this many rows."""
    groups: list[tuple[int, ...]] = []
    current: list[int] = []
    rows = 0
    for fragment in table.fragments():
        if current and rows + fragment.rows > rows_each:
            groups.append(tuple(current))
            current, rows = [], 0
        current.append(fragment.id)
        rows += fragment.rows
    if current:
        groups.append(tuple(current))
    return groups
