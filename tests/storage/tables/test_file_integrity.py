"""Files that a full disk cut short are noticed before anything refers to them."""

from __future__ import annotations

import random
import resource
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import OmniError, StorageFailure
from omnigraph.storage.tables.compaction import plan_groups, write_groups
from omnigraph.storage.tables.file_probes import name_version_file
from omnigraph.storage.tables.fragments import (
    INLINE_BLOB_BYTES,
    SHARED_BLOB_BYTES,
    LongBlobs,
    get_blob_files,
    parse_fragments,
    sum_complete_version,
    write_fragments,
)
from omnigraph.storage.tables.indices import (
    IndexSpec,
    LanceIndexKind,
    describe_layout,
)
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import stage_changes, stage_create, stage_fragments
from omnigraph.storage.tables.table import open_newest, open_table
from omnigraph.storage.tables.table_columns import make_blob_array, make_blob_field
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables.table_fixtures import change, content, create, identity, rows, stage_indices


@contextmanager
def files_end_at(size: int):
    """Limit the size of files; bytes written past the limit are lost."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def largest_file(location: TableLocation, pattern: str) -> int:
    return max(path.stat().st_size for path in Path(location.native_uri).glob(pattern))


def sizes_below(size: int, count: int = 40) -> list[int]:
    return sorted({size - 1, *random.Random(7).sample(range(size), min(count, size))})


def test_rows_that_do_not_fit_on_the_disk_are_an_error_wherever_they_are_cut(location):
    table = create(location, {"a": 1})
    added = rows({f"row-{number}": number for number in range(300)})
    write_fragments(table, added)
    for size in sizes_below(largest_file(location, "data/*.lance")):
        with files_end_at(size), pytest.raises(StorageFailure):
            write_fragments(table, added)
    assert content(open_newest(location)) == {"a": 1}


@pytest.mark.parametrize("count", [1, 50, 9000], ids=["one", "a list", "a bitmap"])
def test_deletions_that_do_not_fit_on_the_disk_are_an_error_wherever_they_are_cut(location, count):
    table = create(location, {f"{number:06}": number for number in range(20_000)})
    doomed = pa.array([f"{2 * number:06}" for number in range(count)])
    stage_changes(table, None, doomed, **identity())
    for size in sizes_below(largest_file(location, "_deletions/*"), 15):
        with files_end_at(size), pytest.raises(StorageFailure):
            stage_changes(table, None, doomed, **identity())
    committed = commit_exact(stage_changes(table, None, doomed, **identity()))
    assert committed.row_count == 20_000 - count


def test_the_file_of_a_version_is_whole_only_to_its_last_byte(location):
    table = create(location, {"a": 1})
    staged = stage_changes(table, rows({"b": 2}), **identity())
    version = commit_exact(staged).version
    place = Path(location.native_uri, name_version_file(version))
    data = place.read_bytes()
    assert sum_complete_version(location, version, staged.uuid, table.version)
    for size in range(len(data)):
        place.write_bytes(data[:size])
        assert not sum_complete_version(location, version, staged.uuid, table.version)


def test_a_version_of_another_transaction_or_base_is_not_mistaken_for_ours(location):
    table = create(location, {"a": 1})
    ours, other = (stage_changes(table, rows({"b": 2}), **identity()) for _ in range(2))
    version = commit_exact(ours).version
    assert sum_complete_version(location, version, ours.uuid, 1)
    assert not sum_complete_version(location, version, other.uuid, 1)
    assert not sum_complete_version(location, version, ours.uuid, 0)
    assert not sum_complete_version(location, version + 1, ours.uuid, 1)
    assert not sum_complete_version(TableLocation("s3://bucket/table"), version, ours.uuid, 1)


SCHEMA = mark_primary_key(pa.schema([pa.field("id", pa.string()), make_blob_field("body")]), "id")


def blobs(*sizes: int | None) -> pa.Table:
    values = [None if size is None else b"x" * size for size in sizes]
    ids = [str(number) for number in range(len(values))]
    return pa.table([pa.array(ids), make_blob_array(values)], schema=SCHEMA)


def measure(given: pa.Table) -> LongBlobs:
    long_blobs = LongBlobs()
    long_blobs.add(given)
    return long_blobs


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ((None, 0, INLINE_BLOB_BYTES), 0),
        ((INLINE_BLOB_BYTES + 1, 90_000, SHARED_BLOB_BYTES), 1),
        ((SHARED_BLOB_BYTES + 1,), 1),
        ((70_000, SHARED_BLOB_BYTES + 1, 5_000_000, SHARED_BLOB_BYTES), 3),
    ],
)
def test_the_blob_files_of_rows_are_removed_with_their_fragment(location, sizes, count):
    """The number of blob files is derived from the rows, or a missing last one would pass."""
    table = commit_exact(stage_create(location, SCHEMA, **identity())).table
    given, root = blobs(*sizes), Path(location.native_uri)
    (fragment,) = parse_fragments(write_fragments(table, given))
    there = {path.relative_to(root).as_posix() for path in root.glob("data/*/*.blob")}
    assert measure(given).min_files == count
    assert len(there) == count
    assert set(get_blob_files(fragment)) == there


@pytest.mark.parametrize(
    "sizes", [(70_000,), (70_000, 90_000), (5_000_000,), (None, 0, 5, INLINE_BLOB_BYTES, 70_001)]
)
def test_blobs_that_do_not_fit_on_the_disk_are_an_error_wherever_they_are_cut(location, sizes):
    table = commit_exact(stage_create(location, SCHEMA, **identity())).table
    given = blobs(*sizes)
    write_fragments(table, given)
    for size in sizes_below(largest_file(location, "data/*/*.blob"), 12):
        with files_end_at(size), pytest.raises(StorageFailure):
            write_fragments(table, given)


def test_blobs_are_measured_in_every_form_rows_may_have(location):
    given = blobs(INLINE_BLOB_BYTES, INLINE_BLOB_BYTES + 1, None, 100_000)
    assert measure(given).bytes == INLINE_BLOB_BYTES + 1 + 100_000
    table = commit_exact(stage_create(location, SCHEMA, **identity())).table
    batch = given.combine_chunks().to_batches()[0]
    for form in (given, batch, given.to_reader(max_chunksize=1)):
        written = write_fragments(table, form)
        staged = stage_fragments(table, written, replace_all=True, **identity())
        table = commit_exact(staged).table
        assert table.count_rows() == given.num_rows


def test_an_index_that_does_not_fit_on_the_disk_is_an_error_wherever_it_is_cut(location):
    table = create(location, {f"{number:05}": number for number in range(5_000)})
    specs = [IndexSpec("by_id", "id", LanceIndexKind.BTREE)]
    stage_indices(table, specs, **identity())
    for size in sizes_below(largest_file(location, "_indices/*/*"), 20):
        with files_end_at(size), pytest.raises(OmniError):
            stage_indices(table, specs, **identity())
    committed = commit_exact(stage_indices(table, specs, **identity()))
    assert content(committed.table)["00007"] == 7


def test_a_compaction_that_does_not_fit_on_the_disk_is_an_error_and_harms_no_version(location):
    table = create(location, {f"{number:05}": number for number in range(3_000)})
    for number in range(3):
        table = change(table, {f"more-{number}": number})
    before, groups = content(table), plan_groups(describe_layout(table))
    for size in sizes_below(largest_file(location, "data/*.lance"), 6):
        with files_end_at(size), pytest.raises(OmniError):
            write_groups(open_newest(location), groups)
        assert content(open_table(location, table.version)) == before
    assert content(open_newest(location)) == before
