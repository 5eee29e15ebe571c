"""A table at one version, and its read operations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import ColumnOrdering

from omnigraph.errors import HistoricalVersionReclaimed, OmniError, StorageFailure, StorageKind
from omnigraph.identity import ID_COLUMN
from omnigraph.storage.objects.object_store import Translating
from omnigraph.storage.tables import file_probes
from omnigraph.storage.tables.file_integrity import require_intact
from omnigraph.storage.tables.lance_errors import (
    Columns,
    find_translation,
    read_columns,
    translate,
    translate_errors,
)
from omnigraph.storage.tables.location import TableLocation, open_at_home, open_shared_session
from omnigraph.storage.tables.row_lookup import (
    CachedRows,
    RowDirectory,
    are_few_keys,
    build_key_filters,
    can_be_listed,
    drop_duplicate_keys,
    select_keys,
    split_slabs,
)

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
UPDATED_AT = "_row_last_updated_at_version"

_ROWS_PER_TAKE = 100_000
_MAX_ATTEMPTS = 3
"""Attempts to open a newest version that is removed before it is read."""
_SMALL_BYTES = 1 << 16
"""Bytes of rows that a table keeps until it reads others."""
_MANY_BYTES = 16 << 20
"""The limit for a reader that asks to keep rows."""


@dataclass(frozen=True, slots=True)
class ScanOrder:
    """One column to sort a scan by."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Fragment:
    """One piece of a table: its rows share files, a deletion list and index coverage."""

    id: int
    physical_rows: int
    deleted_rows: int
    size_bytes: int | None
    is_inherited: bool
    """Its files belong to the parent of this branch."""

    @property
    def rows(self) -> int:
        return self.physical_rows - self.deleted_rows


@dataclass(frozen=True, slots=True)
class Widening:
    """Columns that a table is read with although it does not have them."""

    like: Table
    """A table with the missing columns, and so their types."""
    values: Mapping[str, object]


class Table:
    """One version of one table, read only. Safe to share between threads and to pickle.

    Rows have a stable row id, which is unique within one branch only.
    """

    __slots__ = (
        "_columns",
        "_newest_fragment",
        "cached_rows",
        "directory",
        "fragments_by_files",
        "location",
        "max_cached_rows",
        "native",
        "shared",
        "version",
        "widening",
    )

    def __init__(
        self, location: TableLocation, native: lance.LanceDataset, columns: Columns | None = None
    ) -> None:
        self.location = location
        self.native = native
        """The handle of Lance, for this package only."""
        self.version = int(native.version)
        self._columns = columns
        self._newest_fragment: lance.FragmentMetadata | None = None
        self.directory: RowDirectory | None = None
        """Locations of rows in small fragments, for tables written by this process."""
        self.widening: Widening | None = None
        self.fragments_by_files: Mapping[tuple[str, ...], lance.FragmentMetadata] | None = None
        """Fragments by the names of their data files, once computed, if there are few."""
        self.cached_rows: tuple[CachedRows, ...] = ()
        """The rows that were last read by their addresses, if they are small."""
        self.max_cached_rows = 0
        """Up to this many rows are read whole and kept; see `remember_rows`."""
        self.shared: Table | None = None
        """The handle shared with others, which holds small caches."""

    def __repr__(self) -> str:
        return f"Table({self.location.native_uri!r}, version={self.version})"

    def __reduce__(self) -> tuple[object, tuple[TableLocation, int]]:
        return open_table, (self.location, self.version)

    @property
    def columns(self) -> Columns:
        if self._columns is None:
            with self._translate_read_errors("reading the schema"):
                self._columns = read_columns(self.native)
        return self._columns

    @property
    def schema(self) -> pa.Schema:
        return self.columns.schema

    @property
    def schema_metadata(self) -> Mapping[str, str]:
        with self._translate_read_errors("reading the schema"):
            return dict(self.native.schema_metadata)

    def widen(self, like: Table, values: Mapping[str, object]) -> Table:
        """Return the version extended by columns of another table.

        Each added column is constant.
        """
        wide = Table(self.location, self.native, replace(self.columns, schema=like.schema))
        wide.widening, wide.max_cached_rows = Widening(like, values), self.max_cached_rows
        return wide

    def remember_rows(self, most: int) -> Table:
        """Return a handle for a reader that reads rows repeatedly.

        Up to `most` rows read by address are kept.
        """
        own = Table(self.location, self.native, self._columns)
        own.directory, own.widening, own.cached_rows = (
            self.directory,
            self.widening,
            self.cached_rows,
        )
        own.max_cached_rows, own.shared = most, self.shared or self
        return own

    def cache_rows(self, addresses: npt.NDArray[np.uint64], rows: pa.Table) -> None:
        """Keep rows, ascending by address, for the next reads."""
        if rows.nbytes <= (_MANY_BYTES if self.max_cached_rows else _SMALL_BYTES):
            # Of the base of a merge, the rows that either side changed are read.
            self.cached_rows = (CachedRows(addresses, rows), *self.cached_rows[:1])
        if self.shared is not None:
            self.shared.cache_rows(addresses, rows)

    def forget_rows(self) -> None:
        self.cached_rows = ()

    def is_there(self) -> bool:
        """Return whether this version still exists."""
        return file_probes.is_version(self.location, self.version)

    def newest_version(self) -> int:
        """Return the newest existing version on this table's branch."""
        if file_probes.is_newest_by_hint(self.location, self.version):
            return self.version
        with translate_errors(f"finding the newest version of {self.location}"):
            return int(self.native.latest_version)

    def count_rows(self, filter: str | pc.Expression | None = None) -> int:
        with self._translate_read_errors("counting rows"):
            return int(self.native.count_rows(filter=filter))

    def fragments(self) -> tuple[Fragment, ...]:
        """List the fragments of the table, from metadata alone."""
        with self._translate_read_errors("listing fragments"):
            return tuple(_describe_fragment(f.metadata) for f in self.native.get_fragments())

    def fragment_sizes(self) -> Mapping[int, int]:
        """Return the number of rows each fragment was written with, by its id."""
        return {fragment.id: fragment.physical_rows for fragment in self.fragments()}

    def fragment_ids(self) -> Collection[int]:
        """Ids of the fragments, in storage order."""
        with self._translate_read_errors("listing fragments"):
            return self.native._ds.fragment_ids()

    def fragment_metadata(self, id: int) -> lance.FragmentMetadata:
        (native,) = self._list_native_fragments([id])
        return native.metadata

    def newest_fragment(self) -> lance.FragmentMetadata | None:
        """The fragment that was added last; None in a table without rows."""
        if self._newest_fragment is None:
            with self._translate_read_errors("listing fragments"):
                # Listing all fragments would create an object for each.
                ids = self.fragment_ids()
                fragment = self.native.get_fragment(max(ids)) if len(ids) else None
                self._newest_fragment = None if fragment is None else fragment.metadata
        return self._newest_fragment

    def read_commit_time_ns(self) -> int:
        """Read the commit time of this version from its own file, in nanoseconds since 1970.

        Distinguishes versions of the same number of two tables created at one address.
        """
        with self._translate_read_errors("reading the version"):
            # The public form depends on the time zone of the machine.
            return cast("int", self.native._ds.current_version()["timestamp"])

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | pc.Expression | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
        limit: int | None = None,
        offset: int | None = None,
        order_by: Sequence[ScanOrder] = (),
        batch_size: int | None = None,
        fragments: Sequence[int] | None = None,
        blob_bytes: bool = False,
        use_index: bool = True,
    ) -> pa.Table:
        """Read the rows that pass `filter` into memory.

        A textual filter is built with `quote_identifier` and `quote_literal`. An expression works
        only if Lance can evaluate the types of all columns of the table. Blob columns are returned
        as descriptors unless `blob_bytes` is set.
        """
        # Sorting by a column that is not selected fails unless the row id is.
        needs_row_id = columns is not None and any(o.column not in columns for o in order_by)
        with self._translate_read_errors("scanning"):
            found = self._make_scanner(
                columns,
                filter,
                with_row_id=with_row_id or needs_row_id,
                with_row_address=with_row_address,
                limit=limit,
                offset=offset,
                order_by=order_by,
                batch_size=batch_size,
                fragments=fragments,
                blob_bytes=blob_bytes,
                use_index=use_index,
            ).to_table()
        if needs_row_id and not with_row_id and ROW_ID not in (columns or ()):
            return found.drop_columns([ROW_ID])
        return found

    def batches(
        self,
        columns: Sequence[str] | None = None,
        filter: str | pc.Expression | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_size: int | None = None,
        fragments: Sequence[int] | None = None,
        blob_bytes: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that pass `filter`, a batch at a time, in the order they are stored."""
        with self._translate_read_errors("scanning"):
            yield from self._make_scanner(
                columns,
                filter,
                with_row_id=with_row_id,
                with_row_address=with_row_address,
                batch_size=batch_size,
                fragments=fragments,
                blob_bytes=blob_bytes,
            ).to_batches()

    def take_row_ids(
        self,
        row_ids: pa.Array | pa.ChunkedArray | Sequence[int],
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Take the rows with these row ids, in that order; absent ids are skipped.

        Select `_rowid` to know which ones were found.
        """
        ids = row_ids.combine_chunks() if isinstance(row_ids, pa.ChunkedArray) else row_ids
        with self._translate_read_errors("taking rows"):
            return self.native._take_rows(
                ids, list(self.schema.names if columns is None else columns)
            )

    def take_ranks(self, fragment: int, ranks: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Take rows of one fragment by position among its rows that are not deleted.

        Positions must ascend.
        """
        (native,) = self._list_native_fragments([fragment])
        with self._translate_read_errors("taking rows"):
            return native.take(list(ranks), columns=list(columns))

    def take_fragment(self, fragment: int) -> pa.Table:
        """All rows of one fragment, which should be few."""
        (native,) = self._list_native_fragments([fragment])
        with self._translate_read_errors("taking rows"):
            return native.take(list(range(native.metadata.num_rows)), columns=self.schema.names)

    def lookup(
        self,
        column: str,
        keys: pa.Array | pa.ChunkedArray,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Find the rows whose `column` is one of `keys`, in no particular order.

        Few keys use the index, many one scan of the column. Null keys match nothing. Select
        `_rowid` and `_rowaddr` for row id and address.
        """
        kind = self.schema.field(column).type
        wanted = drop_duplicate_keys(keys, kind)
        names = list(self.schema.names if columns is None else columns)
        if self.directory is not None and column == ID_COLUMN:
            found = self.directory.find(self, wanted, names)
            if found is not None:
                return found
        if not can_be_listed(kind) or not are_few_keys(len(wanted), self.count_rows()):
            return self._find_by_scan(column, wanted, names)
        filters = build_key_filters(column, wanted)
        return pa.concat_tables([self.scan(names, one) for one in filters])

    def _find_by_scan(self, column: str, keys: pa.Array, names: list[str]) -> pa.Table:
        """Find the rows by their key column alone, then fetch the other columns of those."""
        read = [column, ROW_ID, ROW_ADDRESS]
        slabs = split_slabs(self.batches(read), keys=len(keys))
        hits = [select_keys(slab, column, keys) for slab in slabs]
        if not hits:
            return self.scan(names, limit=0)
        found = pa.concat_tables(hits)
        if set(names) <= set(read):
            return found.select(names)
        parts = [
            self.take_row_ids(found.column(ROW_ID).slice(start, _ROWS_PER_TAKE), names)
            for start in range(0, max(found.num_rows, 1), _ROWS_PER_TAKE)
        ]
        return pa.concat_tables(parts)

    def _make_scanner(
        self,
        columns: Sequence[str] | None,
        filter: str | pc.Expression | None,
        *,
        with_row_id: bool,
        with_row_address: bool,
        limit: int | None = None,
        offset: int | None = None,
        order_by: Sequence[ScanOrder] = (),
        batch_size: int | None = None,
        fragments: Sequence[int] | None = None,
        blob_bytes: bool = False,
        use_index: bool = True,
    ) -> lance.LanceScanner:
        orderings: list[ColumnOrdering | str] = [
            ColumnOrdering(o.column, ascending=not o.descending, nulls_first=o.nulls_first)
            for o in order_by
        ]
        return self.native.scanner(
            columns=None if columns is None else list(columns),
            filter=filter,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            limit=limit,
            offset=offset,
            order_by=orderings or None,
            batch_size=batch_size,
            fragments=None if fragments is None else self._list_native_fragments(fragments),
            blob_handling="all_binary" if blob_bytes else None,
            use_scalar_index=None if use_index else False,
            scan_in_order=True,
        )

    def _list_native_fragments(self, ids: Sequence[int]) -> list[lance.LanceFragment]:
        found = [self.native.get_fragment(id) for id in ids]
        assert all(f is not None for f in found), f"no such fragment among {ids} in {self!r}"
        return [f for f in found if f is not None]

    def _translate_read_errors(self, doing: str) -> _ReadErrors:
        return _ReadErrors(self, doing)

    def is_reclaimed(self, failure: BaseException) -> bool:
        """Return whether cleanup removed this version; a fork point loses its files only.

        A missing file of the newest version is data loss.
        """
        if not isinstance(failure, StorageFailure) or failure.kind is not StorageKind.PERMANENT:
            return False
        if not file_probes.is_version(self.location, self.version):
            return True
        return failure.is_file_missing and self.version < self.newest_version()


class _ReadErrors(Translating):
    """Translates errors; a missing file may mean that cleanup removed the version."""

    __slots__ = ("_doing", "_table")

    def __init__(self, table: Table, doing: str) -> None:
        self._table, self._doing = table, doing

    def translation(self, error: BaseException) -> BaseException | None:
        table = self._table
        failure = find_translation(error, f"{self._doing} of {table!r}")
        if not table.is_reclaimed(failure or error):
            return failure
        reclaimed = HistoricalVersionReclaimed(table.version, table.location.native_uri)
        reclaimed.__cause__ = failure
        return reclaimed


def open_table(location: TableLocation, version: int) -> Table:
    """Open the table at exactly this version, without listing the store."""
    try:
        native = lance.dataset(
            location.native_uri,
            version=version,
            storage_options=location.native_options,
            session=open_shared_session(location),
        )
    except Exception as error:
        raise _explain_open_failure(location, version, error) from error
    except BaseException as error:
        _raise_panic(error, location)
        raise
    if int(native.version) != version:
        raise StorageFailure(
            StorageKind.PERMANENT,
            f"the file of version {version} of {location} claims to be version {native.version}",
        )
    return _make_table(location, native)


def open_newest(location: TableLocation) -> Table:
    """Open the table at its newest version, with one listing of the store.

    The version listed may be removed before it is read, by concurrent commits and cleanups.
    """
    for look in range(_MAX_ATTEMPTS):
        try:
            native = lance.dataset(
                location.native_uri,
                storage_options=location.native_options,
                session=open_shared_session(location),
            )
        except Exception as error:
            if not file_probes.has_versions(location):
                raise _make_no_table_error(location) from error
            failure = translate(error, f"opening {location}")
            is_missing = isinstance(failure, StorageFailure) and failure.is_file_missing
            if is_missing and look + 1 < _MAX_ATTEMPTS:
                continue
            raise failure from error
        except BaseException as error:
            _raise_panic(error, location)
            raise
        break
    return _make_table(location, native)


def _raise_panic(error: BaseException, location: TableLocation) -> None:
    """A panic of Lance, which a damaged file may cause, as one of our errors."""
    failure = find_translation(error, f"opening {location}")
    if failure is not None:
        raise failure from error


def _make_table(location: TableLocation, opened: lance.LanceDataset) -> Table:
    native = open_at_home(location, opened)
    if location.is_verified:
        with translate_errors(f"comparing the files of {location} with their checksums"):
            require_intact(location, native)
    return Table(location, native)


def find_latest_version(location: TableLocation) -> int:
    return open_newest(location).version


def is_table(location: TableLocation) -> bool:
    """Return whether there is a table, or the branch of it that the location names."""
    if location.branch is not None and not file_probes.is_lance_branch(location, location.branch):
        return False
    return file_probes.has_versions(location)


def _explain_open_failure(location: TableLocation, version: int, error: Exception) -> OmniError:
    """Explain a failed open: table or version may be missing."""
    if file_probes.is_version(location, version):
        return translate(error, f"opening version {version} of {location}")
    if not file_probes.has_versions(location):
        return _make_no_table_error(location)
    newest = open_newest(location)
    if version > newest.version or version < _find_first_version(newest):
        return StorageFailure(
            StorageKind.NOT_FOUND,
            f"{location} never had a version {version}; its newest is {newest.version}",
        )
    return HistoricalVersionReclaimed(version, location.native_uri)


def _find_first_version(table: Table) -> int:
    """Return the first version number of a table: 1, or the fork point of a branch."""
    branch = table.location.branch
    if branch is None:
        return 1
    with translate_errors(f"reading the branches of {table.location.uri}"):
        record = table.native.branches.list().get(branch)
    return int(record["parent_version"]) if record else 1


def _make_no_table_error(location: TableLocation) -> StorageFailure:
    return StorageFailure(StorageKind.NOT_FOUND, f"no table at {location}")


def _describe_fragment(metadata: lance.FragmentMetadata) -> Fragment:
    sizes = [file.file_size_bytes for file in metadata.files]
    return Fragment(
        id=metadata.id,
        physical_rows=metadata.physical_rows,
        deleted_rows=metadata.num_deletions,
        size_bytes=None if any(size is None for size in sizes) else sum(s or 0 for s in sizes),
        is_inherited=any(file.base_id is not None for file in metadata.files),
    )


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """The location and version of a table, as plain data.

    A pickled `Table` is opened when it is unpickled. This one is opened where a removed version can
    be told from other failures.
    """

    location: TableLocation
    version: int

    @classmethod
    def of(cls, table: Table) -> PinnedTable:
        return cls(table.location, table.version)

    def open(self) -> Table:
        return open_table(self.location, self.version)
