"""Blocks of staged rows: completed, with their positions; edges matched anew; fresh ids."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.constraints.table_changes import get_column
from omnigraph.embedding.text_vectors import TextVectors
from omnigraph.errors import ExternalBlobPolicy
from omnigraph.execution.load_options import Matches, find_match_key, match_ids
from omnigraph.execution.row_completion import (
    Completion,
    RowBlock,
    add_vectors,
    complete_rows,
    get_lines,
)
from omnigraph.execution.stored_rows import NO_ADDRESS
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
from omnigraph.types.jsonl_parser import TypedRows


@dataclass(frozen=True, slots=True)
class BlockOptions:
    """Options of a load for the rows of one type."""

    split: int
    """Number of the piece of input."""
    partial: bool = False
    skips: bool = False
    matches: Matches | None = None
    leave_ids: bool = False


def make_block(
    type_: NodeType | EdgeType,
    rows: TypedRows,
    options: BlockOptions,
    vectors: TextVectors | None,
    stored: Table | None,
) -> RowBlock:
    """Complete parsed rows for a staging table, with the position of each in the input.

    Where bad rows are skipped, an external address in a blob makes the row bad;
    otherwise it fails the load after all other errors.
    """
    partial, lines = options.partial, get_lines(rows)
    more = {AT: pc.add(lines.cast(pa.int64()), encode_position(options.split, 0))}
    if partial:
        more |= _read_presence(type_, rows)
    how = Completion(
        mint=mint_ids,
        matches=options.matches,
        leave_ids=options.leave_ids,
        presence=PRESENT if partial else None,
    )
    block = complete_rows(
        type_, rows, build_staging_schema(type_, with_presence=partial), how, more
    )
    if options.skips:
        _refuse_addresses(block)
    add_vectors(block, vectors, None if stored is None else lambda: stored, how.presence)
    return block


def _read_presence(type_: NodeType | EdgeType, rows: TypedRows) -> dict[str, pa.Array]:
    count = rows.columns.num_rows
    found = {}
    for property_ in type_.properties:
        given = None if rows.presence is None else get_column(rows.presence, property_.name)
        found[PRESENT + property_.name] = (
            pa.array(np.ones(count, np.bool_)) if given is None else given
        )
    return found


def _refuse_addresses(block: RowBlock) -> None:
    for field in block.rows.schema:
        if field.type == BLOB and block.rows.num_rows:
            uris = pc.struct_field(get_column(block.rows, field.name), "uri")
            given = uris.is_valid().to_numpy(zero_copy_only=False)
            refusals = [ExternalBlobPolicy(one, NO_ADDRESS) for one in uris.drop_null().to_pylist()]
            block.refuse(given, map(str, refusals), ExternalBlobPolicy.code, field.name)


# --- edges without ids ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchTask:
    """One fragment of staged edges, and the stored edges of their type, if any."""

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
    """Look up stored edges of a type, which may have none."""
    if table is None or not len(values):
        return pa.table({name: pa.array([], pa.string()) for name in columns})
    return table.lookup(by, values, columns)


# --- fresh ids ------------------------------------------------------------------------------------


_COUNTED_BITS = 40
_COUNTED_CHARACTERS = 8
_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)


def mint_ids(count: int) -> pa.Array:
    """Create `count` unique ids in increasing order, as one column."""
    milliseconds = time.time_ns() // 1_000_000
    # The top bit of the counted part stays clear, so that counting never carries over.
    randomness = int.from_bytes(os.urandom(10), "big") & ~(1 << _COUNTED_BITS - 1)
    head = encode_ulid(milliseconds, randomness)[:-_COUNTED_CHARACTERS].encode()
    first = randomness & (1 << _COUNTED_BITS) - 1
    numbers = np.arange(first, first + count, dtype=np.uint64)
    text = np.empty((count, len(head) + _COUNTED_CHARACTERS), np.uint8)
    text[:, : len(head)] = np.frombuffer(head, np.uint8)
    for index in range(_COUNTED_CHARACTERS):
        shift = np.uint64(5 * (_COUNTED_CHARACTERS - 1 - index))
        text[:, len(head) + index] = _ALPHABET[(numbers >> shift & np.uint64(31)).astype(np.intp)]
    offsets = np.arange(0, (count + 1) * text.shape[1], text.shape[1], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1))]
    return pa.Array.from_buffers(pa.string(), count, buffers)
