"""Complete parsed rows: fill in defaults, check or derive ids, match edges, create fresh ids."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.constraints.table_changes import get_column
from omnigraph.errors import ExternalBlobPolicy, RowProblem
from omnigraph.execution.load_input import Matches, describe_id_mismatch, find_match_key, match_ids
from omnigraph.execution.stored_rows import derive_key_ids, get_default_value
from omnigraph.identity import TableKey, encode_ulid
from omnigraph.pipeline.staging_area import (
    AT,
    PRESENT,
    build_staging_schema,
    decode_catalog_cached,
    encode_position,
)
from omnigraph.storage.tables import Table, TableLocation, write_fragments
from omnigraph.types.arrow import BLOB
from omnigraph.types.jsonl import TypedRows
from omnigraph.types.jsonl_records import PropertySpec, make_missing_value

NO_ADDRESS = "no address is on the graph's list"
"""Why a blob that is given as an address is refused."""


@dataclass
class Whole:
    """Rows ready to be staged, and those that were refused on the way."""

    rows: pa.Table
    all_minted: bool = False
    """True if every id was created here, so that none of them can exist already."""
    address: str | None = None
    """The first blob that was given as an address."""
    problems: list[RowProblem] = field(default_factory=list)


def complete_rows(
    type_: NodeType | EdgeType,
    rows: TypedRows,
    split: int,
    *,
    partial: bool = False,
    skip: bool = False,
    matches: Matches | None = None,
    leave_ids: bool = False,
) -> Whole:
    """The rows of a staging table; with `partial` what was left out stays open.

    With `skip` a row with a blob that is an address is a problem of its own; otherwise the first
    one is kept, to refuse the load for it after everything else. With `matches` edges without ids
    are those that are there; with `leave_ids` they stay without.
    """
    columns = {name: get_column(rows.columns, name) for name in rows.columns.schema.names}
    if not partial:
        _fill_defaults(type_, columns, rows.presence)
    lines = rows.lines.combine_chunks() if rows.lines.num_chunks != 1 else rows.lines.chunk(0)
    columns[AT] = pc.add(lines.cast(pa.int64()), encode_position(split, 0))
    result = Whole(pa.table({}))
    keep = None
    if isinstance(type_, NodeType) and type_.key:
        columns["id"], keep = _derive_ids(type_, columns, lines, result)
    elif matches is not None and columns["id"].null_count and isinstance(type_, EdgeType):
        fresh = mint_ids(len(columns["id"]))
        columns["id"] = match_ids(type_, columns, matches.key, matches.find, fresh)
    elif not leave_ids:
        result.all_minted = columns["id"].null_count == len(columns["id"])
        columns["id"] = _fill_ids(columns["id"])
    if partial:
        columns |= _read_presence(type_, rows)
    schema = build_staging_schema(type_, with_presence=partial)
    table = pa.table([columns[name] for name in schema.names], schema=schema)
    result.rows = table if keep is None else table.filter(keep)
    if skip:
        _refuse_addresses(type_, result, split)
    result.address = _compute_first_address(result.rows)
    return result


def _fill_defaults(
    type_: NodeType | EdgeType, columns: dict[str, pa.Array], presence: pa.Table | None
) -> None:
    for property_ in type_.properties:
        if property_.default is not None and presence is not None:
            default = get_default_value(property_, f"{type_.name}.{property_.name}")
            given = get_column(presence, property_.name)
            columns[property_.name] = pc.if_else(given, columns[property_.name], default)


def _derive_ids(
    type_: NodeType, columns: dict[str, pa.Array], lines: pa.Array, result: Whole
) -> tuple[pa.Array, pa.Array | None]:
    """The ids the keys make, and which rows stay; None for all of them."""
    derived, given = derive_key_ids(type_, columns), columns["id"]
    wrong = pc.fill_null(pc.not_equal(given, derived), False)
    lacking = pc.is_null(derived)
    for row in pc.indices_nonzero(wrong).to_pylist():
        result.problems.append(
            describe_id_mismatch(
                type_, given[row].as_py(), derived[row].as_py(), None, lines[row].as_py()
            )
        )
    for row in pc.indices_nonzero(lacking).to_pylist():
        result.problems.append(_describe_no_key(type_, columns, row, lines[row].as_py()))
    bad = pc.or_(wrong, lacking)
    return derived, pc.invert(bad) if pc.any(bad).as_py() else None


def _describe_no_key(
    type_: NodeType, columns: dict[str, pa.Array], row: int, line: int
) -> RowProblem:
    """A partial record must at least say which entity it is about."""
    member = next(p for p in type_.key if not columns[p.name][row].is_valid)
    problem = make_missing_value(PropertySpec(member.name, member.type))
    return RowProblem(
        problem.reason, problem.code, None, line, type_.table_key, None, problem.property
    )


def _fill_ids(given: pa.Array) -> pa.Array:
    missing = given.null_count
    if not missing:
        return given
    fresh = mint_ids(missing)
    if missing == len(given):
        return fresh
    return pc.replace_with_mask(given, pc.is_null(given), fresh)


def _read_presence(type_: NodeType | EdgeType, rows: TypedRows) -> dict[str, pa.Array]:
    count = rows.columns.num_rows
    found = {}
    for property_ in type_.properties:
        given = None if rows.presence is None else get_column(rows.presence, property_.name)
        found[PRESENT + property_.name] = (
            pa.array(np.ones(count, np.bool_)) if given is None else given
        )
    return found


def _refuse_addresses(type_: NodeType | EdgeType, whole: Whole, split: int) -> None:
    for field_ in whole.rows.schema:
        if field_.type != BLOB or not whole.rows.num_rows:
            continue
        uris = pc.struct_field(get_column(whole.rows, field_.name), "uri")
        for row in pc.indices_nonzero(pc.is_valid(uris)).to_pylist():
            refusal = ExternalBlobPolicy(uris[row].as_py(), NO_ADDRESS)
            line = whole.rows.column(AT)[row].as_py() - encode_position(split, 0)
            id = whole.rows.column("id")[row].as_py()
            whole.problems.append(
                RowProblem(str(refusal), refusal.code, None, line, type_.table_key, id, field_.name)
            )
        whole.rows = whole.rows.filter(pc.is_null(uris))


def _compute_first_address(rows: pa.Table) -> str | None:
    for field_ in rows.schema:
        if field_.type == BLOB and rows.num_rows:
            uris = pc.struct_field(get_column(rows, field_.name), "uri").drop_null()
            if len(uris):
                return str(uris[0].as_py())
    return None


# --- edges without ids ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchTask:
    """One fragment of staged edges, and the edges of their type that are there, if any."""

    table_key: TableKey
    staged: Table
    fragment: int
    base: Table | None
    target: TableLocation


def match_rows(ir: str, task: MatchTask) -> list[str]:
    """Write the staged rows with ids, in their order, to the files of another table."""
    type_ = decode_catalog_cached(ir).by_table_key[task.table_key]
    key = find_match_key(type_)
    assert isinstance(type_, EdgeType), "only edges are staged without ids"
    assert key is not None, "and only where they can be found"
    rows = pa.Table.from_batches(list(task.staged.batches(fragments=[task.fragment])))
    columns = {name: get_column(rows, name) for name in rows.column_names}
    find = partial(find_edges, task.base)
    columns["id"] = match_ids(type_, columns, key, find, mint_ids(rows.num_rows))
    whole = pa.table(columns, schema=rows.schema)
    return write_fragments(task.target, whole, rows_per_file=max(1, rows.num_rows))


def find_edges(table: Table | None, by: str, values: pa.Array, columns: Sequence[str]) -> pa.Table:
    """Stored edges; of a type that has none, none."""
    if table is None or not len(values):
        return pa.table({name: pa.array([], pa.string()) for name in columns})
    return table.lookup(by, values, columns)


# --- fresh ids ------------------------------------------------------------------------------------


_COUNTED_BITS = 40
_COUNTED_CHARACTERS = 8
_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)


def mint_ids(count: int) -> pa.Array:
    """`count` ids in increasing order that are unique, as one column."""
    milliseconds = time.time_ns() // 1_000_000
    # The top bit of the counted part stays clear, so that counting never carries over.
    randomness = int.from_bytes(os.urandom(10), "big") & ~(1 << _COUNTED_BITS - 1)
    head = encode_ulid(milliseconds, randomness)[:-_COUNTED_CHARACTERS].encode()
    first = randomness & (1 << _COUNTED_BITS) - 1
    numbers = np.arange(first, first + count, dtype=np.uint64)
    text = np.empty((count, len(head) + _COUNTED_CHARACTERS), np.uint8)
    text[:, : len(head)] = np.frombuffer(head, np.uint8)
    for place in range(_COUNTED_CHARACTERS):
        shift = np.uint64(5 * (_COUNTED_CHARACTERS - 1 - place))
        text[:, len(head) + place] = _ALPHABET[(numbers >> shift & np.uint64(31)).astype(np.intp)]
    offsets = np.arange(0, (count + 1) * text.shape[1], text.shape[1], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1))]
    return pa.Array.from_buffers(pa.string(), count, buffers)
