"""The tables contract on an object store, where absence, listing and races work differently."""

from __future__ import annotations

import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from lance.file import LanceFileSession

from crash.fault_points import At, watched
from omnigraph.errors import (
    HistoricalVersionReclaimed,
    OmniError,
    ReadSetChanged,
    StorageFailure,
    StorageKind,
)
from omnigraph.storage.tables.file_probes import name_branch_file, remove_files
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.manifest_table import compact_lineage, read_state, stage_manifest_rows
from omnigraph.storage.tables.missing_files import find_missing_staged, list_staged_files
from omnigraph.storage.tables.stage_table import stage_changes, stage_create
from omnigraph.storage.tables.table import is_table, open_newest, open_table
from omnigraph.storage.tables.table_branches import (
    create_branch,
    delete_branch,
    list_branches,
    read_history,
)
from omnigraph.storage.tables.table_columns import make_blob_array, make_blob_field
from omnigraph.storage.tables.table_commit import commit_exact, restore
from storage.tables.table_fixtures import (
    SCHEMA,
    change,
    content,
    create,
    identity,
    read_lineage,
    rows,
    stage_publish,
    ulids,
)

pytestmark = pytest.mark.object_store


@pytest.fixture
def location(s3_server) -> TableLocation:
    options = {
        "aws_endpoint": s3_server.endpoint,
        "aws_access_key_id": "test-key",
        "aws_secret_access_key": "test-secret",
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    return TableLocation(f"{s3_server.new_root()}/table", storage_options=options)


def outcome(staged) -> str:
    try:
        commit_exact(staged)
    except OmniError as error:
        return type(error).__name__
    return "won"


def race(*staged) -> Counter:
    with ThreadPoolExecutor(len(staged)) as pool:
        return Counter(pool.map(outcome, staged))


def test_a_table_is_stored_there_as_on_a_disk(location):
    assert not is_table(location)
    table = change(change(create(location), {"a": 1, "b": 2}), {"a": 3}, deletes=("b",))
    assert is_table(location)
    assert content(pickle.loads(pickle.dumps(table))) == {"a": 3}
    assert restore(location, 2, **identity()) == 4
    assert content(open_newest(location)) == {"a": 1, "b": 2}
    assert [r.operation for r in read_history(location, 1)] == [
        "Overwrite", "Overwrite", "Update", "Restore",
    ]  # fmt: skip


def test_absence_is_detected_by_reading(location):
    with pytest.raises(StorageFailure, match="no table at") as failure:
        open_table(location, 1)
    assert failure.value.kind is StorageKind.NOT_FOUND
    table = change(change(create(location, {"a": 1}), {"b": 2}), {"c": 3})
    with pytest.raises(StorageFailure, match="never had a version 9"):
        open_table(location, 9)
    table.native.cleanup_old_versions(versions=[1])
    with pytest.raises(HistoricalVersionReclaimed):
        open_table(location, 1)


def test_branches_come_and_go(location):
    create(location, {"a": 1})
    name = ulids.next()
    branch = change(create_branch(location, name, None, 1), {"b": 2})
    assert content(open_newest(branch.location)) == {"a": 1, "b": 2}
    remove_files(location, [name_branch_file(name)])
    assert not is_table(branch.location)
    assert content(create_branch(location, name, None, 1)) == {"a": 1}
    delete_branch(location, name)
    delete_branch(location, name)
    assert list_branches(location) == {}


def test_races_have_one_winner(location):
    first = [stage_create(location, SCHEMA, rows({"a": n}), **identity()) for n in range(4)]
    assert race(*first) == {"won": 1, "AlreadyExists": 3}
    table = open_newest(location)
    changes = [stage_changes(table, rows({f"k{n}": n}), **identity()) for n in range(4)]
    assert race(*changes) == {"won": 1, "RetryableCommitConflict": 3}
    assert open_newest(location).version == 2


def test_a_ledger_publishes_and_merges(location):
    first = stage_manifest_rows(location, SCHEMA, rows({"s": 0}), rows({"c0": 0}), **identity())
    table = commit_exact(first).table
    for n in range(1, 5):
        base = read_state(table)
        staged = [
            stage_publish(base, rows({"s": n}), rows({f"c{n}-{r}": n}), recent_lineage=0)
            for r in range(3)
        ]
        assert race(*staged) == {"won": 1, "RetryableCommitConflict": 2}
        table = open_newest(location)
    table = compact_lineage(table, small_fragments=2, **identity()).table
    assert read_state(table).rows.column("value").to_pylist() == [4]
    assert sorted(read_lineage(table, ["value"]).column("value").to_pylist()) == [0, 1, 2, 3, 4]


def test_wrong_credentials_or_endpoint_are_distinguished_from_absence(location):
    unreachable = dict(location.storage_options or {}) | {
        "aws_endpoint": "http://127.0.0.1:9",
        "client_max_retries": "0",
    }
    with pytest.raises(StorageFailure) as failure:
        open_table(TableLocation(location.uri, storage_options=unreachable), 1)
    assert failure.value.kind in (StorageKind.TRANSIENT, StorageKind.UNKNOWN)


def test_a_deleted_blob_file_is_reported_before_and_after_it_was_listed(location):
    schema = mark_primary_key(
        pa.schema([pa.field("id", pa.string()), make_blob_field("body")]), "id"
    )
    values = make_blob_array([b"s" * 70_000, b"a" * 5_000_000])
    documents = pa.table([pa.array(["shared", "alone"]), values], schema=schema)
    table = commit_exact(stage_create(location, schema, **identity())).table
    staged = stage_changes(table, documents, **identity())
    blobs = [name for name in list_staged_files(staged) if name.endswith(".blob")]
    assert len(blobs) == 2
    assert find_missing_staged(staged) is None
    remove_files(location, blobs[1:])
    assert find_missing_staged(staged) == blobs[1]

    def take_one() -> None:
        files = LanceFileSession(location.native_uri, storage_options=location.native_options)
        fresh = [str(n) for n in files.list("data") if n.endswith(".blob") and n not in blobs]
        remove_files(location, fresh[:1])

    with watched(At("after", "write_fragments", "*", take_one)), pytest.raises(ReadSetChanged):
        stage_changes(table, documents, **identity())
