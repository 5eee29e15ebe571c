"""A few rows written straight into a file are the rows the general way would have written."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.errors import StorageFailure
from omnigraph.storage.tables.fragments import (
    MAX_SMALL_BYTES,
    SMALL_WRITE_ROWS,
    STORAGE_VERSION,
    write_small,
    write_uncommitted,
)
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import stage_changes, stage_create
from omnigraph.storage.tables.table import open_newest
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables.table_fixtures import change, content, create, identity, rows, ulids

WIDE = mark_primary_key(
    pa.schema(
        [
            pa.field("id", pa.string()),
            pa.field("flag", pa.bool_()),
            pa.field("count", pa.uint64()),
            pa.field("share", pa.float32()),
            pa.field("day", pa.date32()),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("body", pa.large_binary()),
        ]
    ),
    "id",
)
NOW = datetime.datetime(2020, 2, 29, 12, tzinfo=datetime.UTC)


def wide(count: int) -> pa.Table:
    values = [
        {
            "id": f"row-{number}",
            "flag": None if number % 3 else True,
            "count": 2**63 + number,
            "share": number / 4,
            "day": NOW.date() if number % 2 else None,
            "at": NOW + datetime.timedelta(microseconds=number),
            "body": None if number % 5 == 4 else bytes(number),
        }
        for number in range(count)
    ]
    return pa.Table.from_pylist(values, WIDE)


def file_of(location: TableLocation, fragment: FragmentMetadata) -> bytes:
    (file,) = fragment.files
    return Path(location.native_uri, "data", file.path).read_bytes()


@pytest.mark.parametrize("count", [1, 2, 100, SMALL_WRITE_ROWS])
def test_the_file_is_the_same_byte_for_byte(location, count):
    table = create(location, schema=WIDE)
    small = write_small(table, wide(count), SMALL_WRITE_ROWS)
    general = write_fragments(
        wide(count), table.native, mode="append", data_storage_version=STORAGE_VERSION
    )
    assert small is not None
    assert [file_of(location, small)] == [file_of(location, one) for one in general]
    small.files[0]._path = general[0].files[0]._path
    assert [small] == general


def test_rows_are_read_back_as_they_were_given(location):
    staged = stage_changes(create(location, schema=WIDE), wide(50), **identity())
    assert commit_exact(staged).table.scan().sort_by("id") == wide(50).sort_by("id")


def test_values_keep_their_columns_after_one_was_dropped_and_one_added(location):
    create(location, {"a": 1})
    dataset = lance.dataset(location.uri)
    dataset.add_columns({"more": "value + 1"})
    dataset.drop_columns(["value"])
    table = open_newest(location)
    added = pa.table({"id": ["b"], "more": [7]}, schema=table.schema)
    assert write_small(table, added, SMALL_WRITE_ROWS) is not None
    committed = commit_exact(stage_changes(table, added, **identity())).table
    assert sorted(committed.scan().to_pylist(), key=lambda row: row["id"]) == [
        {"id": "a", "more": 2},
        {"id": "b", "more": 7},
    ]


def test_rows_of_a_branch_stay_on_it(location):
    table = create(location, {"a": 1})
    branch = create_branch(location, ulids.next(), None, table.version)
    assert write_small(branch, rows({"b": 2}), SMALL_WRITE_ROWS) is not None
    assert content(change(branch, {"b": 2})) == {"a": 1, "b": 2}
    assert content(open_newest(location)) == {"a": 1}


def test_large_nested_or_unfit_rows_use_the_general_writer(location):
    table = create(location, {"a": 1})
    huge = rows({"x" * (MAX_SMALL_BYTES + 1): 1})
    unfit = rows({"a": 1}).cast(pa.schema([("id", pa.string()), ("value", pa.int32())]))
    stranger = rows({"a": 1}).append_column("other", pa.array([1]))
    headless = rows({"a": 1}).drop_columns(["id"])
    for given in (rows({}), rows({"a": 1, "b": 2, "c": 3}), huge, unfit, stranger, headless):
        assert write_small(table, given, 2) is None
    nested = TableLocation(f"{location.uri}-nested")
    schema = mark_primary_key(
        pa.schema([pa.field("id", pa.string()), pa.field("tags", pa.list_(pa.string()))]), "id"
    )
    table = commit_exact(stage_create(nested, schema, **identity())).table
    one = pa.table({"id": ["a"], "tags": [["x", "y"]]}, schema=schema)
    assert write_small(table, one, SMALL_WRITE_ROWS) is None
    assert commit_exact(stage_changes(table, one, **identity())).table.scan() == one


def test_a_column_that_is_left_out_is_null(location):
    table = create(location, {"a": 1})
    (fragment,) = write_uncommitted(table, rows({"b": 2}).drop_columns(["value"]))
    assert len(fragment.files[0].fields) == 1
    staged = stage_changes(table, rows({"c": 3}), **identity())
    operation = replace(staged.native.operation, new_fragments=[fragment])
    committed = commit_exact(replace(staged, native=replace(staged.native, operation=operation)))
    assert content(committed.table) == {"a": 1, "b": None}


def test_a_null_where_none_may_be_is_refused(location):
    table = create(location, {"a": 1})
    bad = pa.table([pa.array([None], pa.string()), pa.array([1])], schema=table.schema)
    with pytest.raises(StorageFailure, match="null"):
        write_uncommitted(table, bad)
