"""Large binary values: null, empty and full stay what they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_maintenance import compact
from omnigraph.errors import StorageFailure
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.stage_table import stage_changes, stage_create
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_columns import (
    is_blob,
    make_blob_array,
    make_blob_field,
    read_blob_range,
    read_blobs,
)
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables.table_fixtures import identity, ulids

SCHEMA = mark_primary_key(
    pa.schema(
        [pa.field("id", pa.string()), make_blob_field("body"), pa.field("note", pa.string())]
    ),
    "id",
)
SMALL, PACKED, LARGE = b"hello", b"p" * 200_000, b"L" * 5_000_000


def documents(values: dict[str, bytes | None]) -> pa.Table:
    bodies = make_blob_array(list(values.values()))
    return pa.table({"id": list(values), "body": bodies, "note": [None] * len(values)}, SCHEMA)


def bodies(table) -> dict[str, bytes | None]:
    found = table.scan(["id", "body"], blob_bytes=True).to_pydict()
    return dict(zip(found["id"], found["body"], strict=True))


@pytest.fixture
def table(location):
    start = {"null": None, "empty": b"", "small": SMALL, "packed": PACKED, "large": LARGE}
    return commit_exact(stage_create(location, SCHEMA, documents(start), **identity())).table


def test_values_survive_changes_compaction_and_branches(location, table):
    expected = bodies(table)
    assert expected == {
        "null": None, "empty": b"", "small": SMALL, "packed": PACKED, "large": LARGE
    }  # fmt: skip
    step = {"small": b"", "empty": None, "new": PACKED + b"!", "null": b"\0"}
    staged = stage_changes(table, documents(step), pa.array(["packed"]), **identity())
    table = commit_exact(staged).table
    expected = {**expected, **step}
    del expected["packed"]
    assert bodies(table) == expected
    table = open_table(location, compact(table).version)
    assert len(table.fragments()) == 1
    assert bodies(table) == expected
    branch = create_branch(location, ulids.next(), None, table.version)
    staged = stage_changes(branch, documents({"large": SMALL}), None, **identity())
    branch = commit_exact(staged).table
    assert bodies(branch) == {**expected, "large": SMALL}
    branch = open_table(branch.location, compact(branch).version)
    assert bodies(branch) == {**expected, "large": SMALL}
    assert bodies(table) == expected


def test_values_are_read_by_row_id_and_by_range(table):
    order = [3, 0, 1, 2]
    assert read_blobs(table, "body", order) == [PACKED, None, b"", SMALL]
    assert read_blobs(table, "body", []) == []
    assert read_blob_range(table, "body", 2, 1, 3) == b"ell"
    with pytest.raises(StorageFailure):
        read_blobs(table, "body", [99])


def test_a_scan_returns_descriptors_unless_bytes_are_requested(table):
    described = table.scan(["body"]).schema.field("body").type
    assert pa.types.is_struct(described)
    assert table.scan(["id"], "body IS NULL").to_pydict() == {"id": ["null"]}


def test_blob_columns_are_recognised(table):
    assert [is_blob(field) for field in table.schema] == [False, True, False]


def test_blob_arrays_are_built_from_any_binary_array():
    plain = pa.chunked_array([pa.array([b"a", None]), pa.array([b""])])
    assert make_blob_array(plain).storage.field("data").to_pylist() == [b"a", None, b""]
    assert make_blob_array(plain).is_valid().to_pylist() == [True, False, True]
