"""Stage the next version of a table: write its files without making them visible.

Every change of rows is one transaction with its inserts, updates and deletes. Lance silently
rebases most transactions over newer versions, but here they must conflict. Each one therefore lists
the newest fragment of its base, changed or not: two writers on one base always have a fragment in
common. A table without fragments is overwritten, which is never rebased.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.dataset import Transaction
from lance.fragment import FragmentMetadata

from omnigraph.errors import AlreadyExists, BadRequest, KeyConflict
from omnigraph.identity import ID_COLUMN
from omnigraph.storage.tables.checksums import Checksum, record_checksums
from omnigraph.storage.tables.file_probes import report_native_write
from omnigraph.storage.tables.fragments import (
    Rows,
    parse_fragments,
    require_complete_deletions,
    write_uncommitted,
)
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.row_lookup import MAX_LOOKUP_KEYS
from omnigraph.storage.tables.table import ROW_ADDRESS, Table, is_table

_OFFSET_BITS = 32
_OFFSET_MASK = np.uint64(0xFFFFFFFF)

_Addresses: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]

_ChangedKeys: TypeAlias = tuple[pa.Array | None, pa.Array | None]
"""Ids of the rows that a transaction adds and removes; None if they are not known."""


@dataclass(frozen=True, slots=True)
class StagedTransaction:
    """A staged version of a table, durable and not visible until `commit_exact`.

    Its uuid is known before the commit, so that the outcome can be determined after a lost
    response.
    """

    location: TableLocation
    native: Transaction = field(repr=False)
    base: Table | None = field(default=None, repr=False, compare=False)
    """The table it was staged on; None when it creates the table."""
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    added_keys: pa.Array | None = field(default=None, repr=False, compare=False)
    removed_keys: pa.Array | None = field(default=None, repr=False, compare=False)
    """The ids of the rows added, in the order written, and of those removed; None if many."""

    @property
    def uuid(self) -> str:
        return self.native.uuid

    @property
    def read_version(self) -> int:
        return self.native.read_version

    @property
    def changes_only_rows(self) -> bool:
        """True if the columns of the table do not change."""
        return isinstance(self.native.operation, LanceOperation.Update)

    @property
    def target_version(self) -> int:
        """The only version at which it may be committed."""
        return self.read_version + 1


def stage_changes(
    table: Table,
    upserts: pa.Table | None,
    delete_ids: pa.Array | pa.ChunkedArray | None = None,
    *,
    key: str = "id",
    properties: Mapping[str, str],
    table_key: str = "",
) -> StagedTransaction | None:
    """Stage inserts, updates and deletes by key as one version; None if nothing changes.

    Upserts are whole rows with distinct ids. Absent ids to delete are ignored.
    """
    rows = _read_whole_rows(table, upserts)
    keys = _check_ids(rows, key, table_key)
    doomed = _list_deleted_ids(table, delete_ids, key, keys)
    found = table.lookup(key, pa.concat_arrays([keys, doomed]), [key, ROW_ADDRESS])
    if rows.num_rows == 0 and found.num_rows == 0:
        return None
    written = write_uncommitted(table, rows) if len(keys) else []
    return _stage_rows(
        table,
        written,
        found.column(ROW_ADDRESS),
        properties,
        replaced=_count_replaced(found.column(key), keys, doomed),
        changed_keys=_list_few_keys(keys, found.column(key)),
    )


def stage_fresh(
    table: Table, rows: pa.Table, *, properties: Mapping[str, str]
) -> StagedTransaction | None:
    """Stage rows under ids that were minted for them, which therefore cannot exist."""
    if not rows.num_rows:
        return None
    rows = _read_whole_rows(table, rows)
    ids = rows.column(ID_COLUMN)
    written = write_uncommitted(table, rows)
    changed = _list_few_keys(ids.combine_chunks(), ids.slice(0, 0))
    return _stage_rows(table, written, None, properties, changed_keys=changed)


@dataclass(frozen=True, slots=True)
class Deletions:
    """Rows marked as deleted in unreferenced files; plain data, for any machine."""

    kept: tuple[str, ...]
    """Fragments that still have rows, as JSON."""
    emptied: tuple[int, ...]
    rows: int

    def __add__(self, other: Deletions) -> Deletions:
        """Both; they must be about different fragments."""
        return Deletions(
            self.kept + other.kept, self.emptied + other.emptied, self.rows + other.rows
        )


NO_DELETIONS = Deletions((), (), 0)


def delete_addresses(table: Table, addresses: pa.Array | pa.ChunkedArray) -> Deletions:
    """Mark the rows at these addresses of this version as deleted, for `stage_fragments`.

    Pass all rows of a fragment in one call: its deletions are one file.
    """
    kept, emptied = _drop_rows(table, addresses)
    texts = tuple(json.dumps(fragment.to_json()) for fragment in kept)
    return Deletions(texts, tuple(emptied), len(addresses))


def stage_fragments(
    table: Table,
    fragments: Sequence[str],
    *,
    removed_addresses: pa.Array | pa.ChunkedArray | None = None,
    deletions: Deletions = NO_DELETIONS,
    replaced: int = 0,
    replace_all: bool = False,
    properties: Mapping[str, str],
) -> StagedTransaction | None:
    """Stage fragments that were written elsewhere by `write_fragments`.

    `removed_addresses` are the addresses of all rows deleted or replaced, as `lookup` returns them
    at this version; `deletions` are such rows marked before. `replaced` of them have a new row
    among the fragments. With `replace_all` the fragments become the whole table.
    """
    written = parse_fragments(fragments)
    if replace_all:
        return _stage_overwrite(table, written, properties)
    if deletions.rows:
        assert removed_addresses is None, "rows are either marked already or not"
        return _stage_rows(table, written, None, properties, deletions=deletions, replaced=replaced)
    if not written and (removed_addresses is None or not len(removed_addresses)):
        return None
    return _stage_rows(table, written, removed_addresses, properties, replaced=replaced)


def stage_overwrite(
    table: Table,
    rows: Rows,
    *,
    schema: pa.Schema | None = None,
    properties: Mapping[str, str],
) -> StagedTransaction:
    """Stage a version with other rows, possibly none. Primary key and schema metadata are kept.

    Row ids are assigned again and indices dropped. With `schema`, the columns change as well.
    """
    if schema is None:
        written = write_uncommitted(table, rows)
        return _stage_overwrite(table, written, properties)
    written = write_uncommitted(table, rows, mode="overwrite")
    return _stage_overwrite(table, written, properties, schema)


def stage_create(
    location: TableLocation,
    schema: pa.Schema,
    rows: Rows | None = None,
    *,
    properties: Mapping[str, str],
) -> StagedTransaction:
    """Stage a new table; exactly one creator succeeds, the others get `AlreadyExists`."""
    if is_table(location):
        raise AlreadyExists(f"a table already exists at {location}")
    written = [] if rows is None else write_uncommitted(location, rows)
    return stage_first_version(location, schema, written, properties=properties)


def stage_first_version(
    location: TableLocation,
    schema: pa.Schema,
    written: list[FragmentMetadata],
    *,
    properties: Mapping[str, str],
) -> StagedTransaction:
    """The creation of a table from fragments written for it."""
    assert location.branch is None, "a branch is created from a version, not from rows"
    operation = LanceOperation.Overwrite(schema, written)
    return StagedTransaction(
        location,
        Transaction(0, operation, str(uuid4()), {**properties}),
        inserted=sum(fragment.physical_rows for fragment in written),
    )


def stage_operation(
    table: Table,
    operation: LanceOperation.BaseOperation,
    *,
    properties: Mapping[str, str],
    inserted: int = 0,
    updated: int = 0,
    deleted: int = 0,
    changed_keys: _ChangedKeys = (None, None),
) -> StagedTransaction:
    """Stage any operation on this version of the table."""
    added_keys, removed_keys = changed_keys
    return StagedTransaction(
        location=table.location,
        native=Transaction(table.version, operation, str(uuid4()), {**properties}),
        base=table,
        inserted=inserted,
        updated=updated,
        deleted=deleted,
        added_keys=added_keys,
        removed_keys=removed_keys,
    )


def make_strict_update(
    table: Table,
    *,
    removed_ids: list[int],
    updated: list[FragmentMetadata],
    added: list[FragmentMetadata],
    sentinel: FragmentMetadata,
) -> LanceOperation.Update:
    """Build an update that conflicts with every other that names the same sentinel."""
    if sentinel.id not in removed_ids and all(f.id != sentinel.id for f in updated):
        updated = [*updated, sentinel]
    return LanceOperation.Update(
        removed_fragment_ids=removed_ids,
        updated_fragments=updated,
        new_fragments=added,
        fields_modified=[],
        update_mode="rewrite_rows",
        # Every field counts as changed, else an index would claim to cover the added fragments.
        fields_for_preserving_frag_bitmap=list(table.columns.all_ids),
    )


def _count_replaced(found: pa.ChunkedArray, written: pa.Array, deleted: pa.Array) -> int:
    """Count the rows found that are written again."""
    if not len(written) or not len(deleted):
        return len(found) if len(written) else 0
    return int(pc.sum(pc.is_in(found, value_set=written)).as_py() or 0)


def _list_few_keys(added: pa.Array, removed: pa.ChunkedArray) -> _ChangedKeys:
    if max(len(added), len(removed)) > MAX_LOOKUP_KEYS:
        return None, None
    return added, removed.combine_chunks()


def _stage_rows(
    table: Table,
    written: list[FragmentMetadata],
    removed_addresses: pa.Array | pa.ChunkedArray | None,
    properties: Mapping[str, str],
    *,
    deletions: Deletions = NO_DELETIONS,
    replaced: int = 0,
    changed_keys: _ChangedKeys = (None, None),
) -> StagedTransaction:
    added = sum(fragment.physical_rows for fragment in written)
    gone = deletions.rows if removed_addresses is None else len(removed_addresses)
    assert replaced <= min(added, gone), "a replaced row is removed and written again"
    sentinel = table.newest_fragment()
    operation: LanceOperation.BaseOperation
    if sentinel is not None:
        kept, emptied = _drop_rows(table, removed_addresses)
        kept, emptied = kept + parse_fragments(deletions.kept), [*emptied, *deletions.emptied]
        operation = make_strict_update(
            table, removed_ids=emptied, updated=kept, added=written, sentinel=sentinel
        )
    else:
        operation = LanceOperation.Overwrite(table.native.lance_schema, written)
    return stage_operation(
        table,
        operation,
        properties=properties,
        inserted=added - replaced,
        updated=replaced,
        deleted=gone - replaced,
        changed_keys=changed_keys,
    )


def _stage_overwrite(
    table: Table,
    written: list[FragmentMetadata],
    properties: Mapping[str, str],
    schema: pa.Schema | None = None,
) -> StagedTransaction:
    new_schema = table.native.lance_schema if schema is None else schema
    return stage_operation(
        table,
        LanceOperation.Overwrite(new_schema, written),
        properties=properties,
        inserted=sum(fragment.physical_rows for fragment in written),
        deleted=table.count_rows(),
    )


def _drop_rows(
    table: Table, addresses: pa.Array | pa.ChunkedArray | None
) -> tuple[list[FragmentMetadata], list[int]]:
    """Return the fragments with these rows deleted, and the ids of those without remaining rows."""
    if addresses is None or not len(addresses):
        return [], []
    raw = np.sort(np.asarray(addresses.to_numpy(zero_copy_only=False), dtype=np.uint64))
    kept, emptied = [], []
    with (
        translate_errors(f"staging deletions of {table!r}"),
        report_native_write("write_deletions", table.location),
    ):
        for id, offsets in _split_by_fragment(raw):
            fragment = table.native.get_fragment(id)
            assert fragment is not None, f"no fragment {id} in {table!r}"
            left = fragment.delete_rows(offsets.tolist())
            if left is None:
                emptied.append(id)
            else:
                kept.append(left)
    record_deletions(table.location, require_complete_deletions(table.location, kept))
    return kept, emptied


def _split_by_fragment(addresses: _Addresses) -> Iterable[tuple[int, _Addresses]]:
    """The fragments of sorted addresses, each with the offsets of its rows."""
    first, last = int(addresses[0]) >> _OFFSET_BITS, int(addresses[-1]) >> _OFFSET_BITS
    if first == last:  # as in most small writes
        return [(first, addresses & _OFFSET_MASK)]
    ids, starts = np.unique(addresses >> np.uint64(_OFFSET_BITS), return_index=True)
    return zip(ids.tolist(), np.split(addresses & _OFFSET_MASK, starts[1:]), strict=True)


def _read_whole_rows(table: Table, rows: pa.Table | None) -> pa.Table:
    """The rows with the table's columns in the table's order; none may be missing."""
    names = table.schema.names
    if rows is None:
        return table.schema.empty_table()
    if rows.schema.names == names:
        return rows
    if set(rows.schema.names) != set(names):
        raise BadRequest(
            f"rows for {table.location} have the columns {sorted(rows.schema.names)}, "
            f"not {sorted(names)}"
        )
    return rows.select(names)


def _check_ids(rows: pa.Table, key: str, table_key: str) -> pa.Array:
    """The keys of the rows, none null and none twice."""
    keys = rows.column(key).combine_chunks()
    if keys.null_count:
        raise BadRequest(f"{table_key or 'a row'} has no {key}")
    if len(keys) > 1 and pc.count_distinct(keys).as_py() != len(keys):
        counts = pc.value_counts(keys)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))
        raise KeyConflict(table_key, repeated.field("values")[0].as_py())
    return keys


def _list_deleted_ids(
    table: Table,
    ids: pa.Array | pa.ChunkedArray | None,
    key: str,
    kept: pa.Array,
) -> pa.Array:
    """The keys to delete, each once, none of which may be written as well."""
    kind = table.schema.field(key).type
    if ids is None:
        return pa.array([], kind)
    doomed = pc.unique(ids.cast(kind)).drop_null()
    if isinstance(doomed, pa.ChunkedArray):
        doomed = doomed.combine_chunks()
    both = pc.is_in(doomed, value_set=kept)
    if pc.any(both).as_py():
        raise BadRequest(f"id {doomed.filter(both)[0].as_py()!r} is both written and deleted")
    return doomed


def record_deletions(location: TableLocation, summed: Iterable[Checksum]) -> None:
    """Record lists of deleted rows that were just written and read."""
    folder = location.local_folder
    if folder is not None:
        record_checksums(folder, (), known=summed)
