"""Indices, compaction, and the records they leave."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_maintenance import compact, compaction_tasks, optimize_indices
from omnigraph.errors import RetryableCommitConflict
from omnigraph.storage.tables.indices import (
    IndexSpec,
    LanceIndexKind,
    describe_indices,
)
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import stage_create
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import RESERVE_FRAGMENTS, create_branch, read_history
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables.table_fixtures import (
    change,
    content,
    create,
    identity,
    row_facts,
    stage_indices,
    ulids,
)

BY_ID = IndexSpec("by_id", "id", LanceIndexKind.BTREE)


def index(table, *specs):
    return commit_exact(stage_indices(table, specs, **identity())).table


@pytest.fixture
def documents(tmp_path):
    count = 300
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array([float(n % 17 + d) for n in range(count) for d in range(8)], pa.float32()), 8
    )
    data = pa.table(
        {
            "id": [f"d{n}" for n in range(count)],
            "kind": ["even" if n % 2 == 0 else "odd" for n in range(count)],
            "text": [f"the quick fox number {n} jumps" for n in range(count)],
            "vector": vectors,
        }
    )
    schema = mark_primary_key(data.schema, "id")
    location = TableLocation(str(tmp_path / "documents"))
    return commit_exact(stage_create(location, schema, data.cast(schema), **identity())).table


def test_every_kind_of_index_is_built_in_one_version(documents):
    table = index(
        documents,
        BY_ID,
        IndexSpec("by_kind", "kind", LanceIndexKind.BITMAP),
        IndexSpec("words", "text", LanceIndexKind.INVERTED),
        IndexSpec("near", "vector", LanceIndexKind.IVF_FLAT, {"num_partitions": 2, "metric": "l2"}),
    )
    assert table.version == documents.version + 1
    found = {i.name: (i.columns, i.indexed_rows, i.is_complete) for i in describe_indices(table)}
    assert found == {
        "by_id": (("id",), 300, True),
        "by_kind": (("kind",), 300, True),
        "words": (("text",), 300, True),
        "near": (("vector",), 300, True),
    }
    assert table.lookup("id", pa.array(["d7"]), ["kind"]).to_pydict() == {"kind": ["odd"]}
    assert table.count_rows("kind = 'even'") == 150
    phrase = table.native.to_table(
        columns=["id", "_score"], full_text_query='"number 42 jumps"', prefilter=True
    )
    assert "d42" in phrase.column("id").to_pylist()


def test_an_index_of_the_same_name_is_replaced(location):
    table = index(create(location, {"a": 1}), BY_ID)
    table = index(change(table, {"b": 2}), BY_ID)
    (only,) = describe_indices(table)
    assert len(only.segments) == 1
    assert (only.indexed_rows, only.unindexed_rows) == (2, 0)


def test_coverage_reports_what_is_not_indexed_yet(location):
    table = index(create(location, {"a": 1, "b": 2}), BY_ID)
    table = change(table, {"a": 10, "c": 3})
    (by_id,) = describe_indices(table)
    assert (by_id.indexed_rows, by_id.unindexed_rows, by_id.is_complete) == (1, 2, False)
    extended = open_table(location, optimize_indices(table))
    assert describe_indices(extended)[0].is_complete
    assert content(extended) == {"a": 10, "b": 2, "c": 3}
    assert optimize_indices(extended, ["by_id"]) == extended.version


def test_an_empty_table_gets_no_index(location):
    assert stage_indices(create(location), [BY_ID], **identity()) is None
    assert stage_indices(create(location.__class__(f"{location.uri}2"), {"a": 1}), [],
                         **identity()) is None  # fmt: skip


def test_compaction_keeps_rows_ids_and_versions(location):
    table = index(create(location, {f"n{number}": number for number in range(20)}), BY_ID)
    for number in range(5):
        table = change(table, {f"n{number}": -number}, deletes=(f"n{number + 10}",))
    table = open_table(location, optimize_indices(table))
    assert compaction_tasks(table) > 0
    done = compact(table)
    assert done.fragments_removed > done.fragments_added
    after = open_table(location, done.version)
    assert content(after) == content(table)
    assert row_facts(after) == row_facts(table)
    assert describe_indices(after)[0].is_complete
    assert after.lookup("id", pa.array(["n3"]), ["value"]).to_pydict() == {"value": [-3]}
    assert [r.operation for r in read_history(location, table.version + 1)] == [
        RESERVE_FRAGMENTS,
        "Rewrite",
    ]
    assert all(r.uuid for r in read_history(location, table.version + 1))
    assert compact(after) == done.__class__(after.version, 0, 0)


def test_compaction_on_a_branch_spares_what_an_inherited_index_covers(location):
    table = create(location, {"a": 1})
    for number in range(4):
        table = change(table, {f"main{number}": number})
    table = index(table, BY_ID)
    branch = create_branch(location, ulids.next(), None, table.version)
    for number in range(4):
        branch = change(branch, {f"branch{number}": number})
    assert all(s.is_inherited for i in describe_indices(branch) for s in i.segments)
    done = compact(branch)
    assert (done.fragments_removed, done.fragments_added) == (4, 1)
    after = open_table(branch.location, done.version)
    assert content(after) == content(branch)
    for id in ("a", "main3", "branch0"):
        assert after.count_rows(f"id = '{id}'") == 1


def test_maintenance_of_a_version_that_is_not_the_newest_is_refused(location):
    table = create(location, {"a": 1})
    change(table, {"b": 2})
    with pytest.raises(RetryableCommitConflict):
        compact(table)
    with pytest.raises(RetryableCommitConflict):
        optimize_indices(table)


def test_the_handle_given_to_maintenance_does_not_move(location):
    table = index(change(create(location, {"a": 1}), {"b": 2}), BY_ID)
    table = change(table, {"c": 3})
    optimize_indices(table)
    assert (table.version, table.native.version) == (4, 4)
