"""Staging and committing changes of rows."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from lance import LanceDataset

from omnigraph.errors import AlreadyExists, BadRequest, KeyConflict, RecoveryRequired
from omnigraph.storage.tables.fragments import write_fragments
from omnigraph.storage.tables.indices import IndexSpec, LanceIndexKind
from omnigraph.storage.tables.lance_errors import PRIMARY_KEY, mark_primary_key
from omnigraph.storage.tables.stage_table import (
    stage_changes,
    stage_create,
    stage_fragments,
    stage_overwrite,
)
from omnigraph.storage.tables.table import ROW_ADDRESS, find_latest_version, open_newest
from omnigraph.storage.tables.table_branches import create_branch, read_history
from omnigraph.storage.tables.table_commit import commit_exact, find_transaction, restore
from storage.tables.table_fixtures import (
    PROPERTIES,
    SCHEMA,
    change,
    commit,
    content,
    create,
    identity,
    row_facts,
    rows,
    stage_indices,
    ulids,
)


def test_staging_changes_nothing_until_it_is_committed(location):
    table = create(location, {"a": 1})
    staged = stage_changes(table, rows({"a": 2}), **identity())
    assert find_latest_version(location) == 1
    assert content(open_newest(location)) == {"a": 1}
    assert commit(staged).version == 2


def test_one_commit_inserts_replaces_and_deletes(location):
    table = create(location, {"a": 1, "b": 2, "c": 3})
    before = row_facts(table)
    staged = stage_changes(
        table, rows({"new": 9, "b": 20}), pa.array(["c", "absent", "c"]), **identity()
    )
    assert (staged.inserted, staged.updated, staged.deleted) == (1, 1, 1)
    done = commit(staged)
    assert content(done.table) == {"a": 1, "b": 20, "new": 9}
    assert done.row_count == 3
    after = row_facts(done.table)
    assert after["a"] == before["a"]
    assert {id: facts[1:] for id, facts in after.items() if id != "a"} == {
        "b": (2, 2),
        "new": (2, 2),
    }
    assert not {after[id][0] for id in ("b", "new")} & {row_id for row_id, _, _ in before.values()}


def test_every_row_can_be_deleted_and_the_table_filled_again(location):
    table = change(create(location, {"a": 1, "b": 2}), {"c": 3})
    used = {row_id for row_id, _, _ in row_facts(table).values()}
    empty = change(table, deletes=("a", "b", "c"))
    assert content(empty) == {}
    assert empty.fragments() == ()
    again = change(empty, {"a": 5})
    assert content(again) == {"a": 5}
    assert row_facts(again)["a"][0] not in used
    assert again.schema.field("id").metadata[PRIMARY_KEY] == b"true"
    assert again.schema_metadata == {"stamp": "1"}


def test_every_row_can_be_replaced_at_once(location):
    table = create(location, {"a": 1, "b": 2})
    assert content(change(table, {"a": 10, "b": 20})) == {"a": 10, "b": 20}


def test_replacing_many_rows_leaves_nothing_about_each_in_the_metadata(location):
    """Rows that kept their row ids would have them listed in every later version."""
    names = [f"id{number:05}" for number in range(8_000)]
    table = create(location, dict.fromkeys(names, 0))
    table = change(table, dict.fromkeys(names[::2], 1))
    (kept, added) = [table.native.get_fragment(id).metadata for id in table.fragment_ids()]
    assert (kept.num_rows, added.num_rows) == (4_000, 4_000)
    assert len(added.row_id_meta.asdict()["Inline"]) < 100


def test_nothing_to_do_stages_nothing(location):
    table = create(location, {"a": 1})
    assert stage_changes(table, None, pa.array(["absent"]), **identity()) is None
    assert stage_changes(table, rows({}), None, **identity()) is None
    assert stage_fragments(table, [], **identity()) is None


def test_ids_must_be_unique_and_present(location):
    table = create(location, {"a": 1})
    twice = pa.table({"id": ["x", "y", "x"], "value": [1, 2, 3]}, schema=SCHEMA)
    with pytest.raises(KeyConflict) as refused:
        stage_changes(table, twice, **identity())
    assert refused.value.id == "x"
    nullable = pa.table({"id": ["x", None], "value": [1, 2]})
    with pytest.raises(BadRequest, match="has no id"):
        stage_changes(table, nullable, **identity())


def test_rows_must_have_every_column(location):
    table = create(location, {"a": 1})
    with pytest.raises(BadRequest, match="columns"):
        stage_changes(table, rows({"a": 2}).select(["id"]), **identity())
    turned = rows({"a": 2}).select(["value", "id"])
    assert content(commit(stage_changes(table, turned, **identity())).table) == {"a": 2}


def test_an_id_cannot_be_written_and_deleted_at_once(location):
    table = create(location, {"a": 1})
    with pytest.raises(BadRequest, match="both written and deleted"):
        stage_changes(table, rows({"a": 2}), pa.array(["a"]), **identity())


def test_many_keys_are_changed_without_a_loop_over_rows(location):
    start = {f"n{number:06d}": number for number in range(50_000)}
    table = create(location, start)
    before = row_facts(table)
    upserts = {f"n{number:06d}": -number for number in range(25_000, 75_000)}
    doomed = pa.array([f"n{number:06d}" for number in range(10_000)])
    staged = stage_changes(table, rows(upserts), doomed, **identity())
    assert (staged.inserted, staged.updated, staged.deleted) == (25_000, 25_000, 10_000)
    table = commit(staged).table
    kept = {id: value for id, value in start.items() if id >= "n010000"}
    assert content(table) == kept | upserts
    after = row_facts(table)
    assert all(after[id] == before[id] for id in kept.keys() - upserts.keys())


def test_the_transaction_carries_its_identity_on_main_and_on_branches(location):
    table = create(location, {"a": 1})
    branch = create_branch(location, ulids.next(), None, 1)
    for base in (table, branch):
        staged = stage_changes(base, rows({"b": 2}), properties={"operation": "01X"})
        done = commit(staged)
        record = read_history(base.location, done.version)[0]
        assert (record.uuid, record.read_version) == (staged.uuid, 1)
        assert record.properties == {"operation": "01X"}
        assert record.operation == "Update"


def test_a_staged_transaction_can_be_committed_by_another_process(location):
    for start in ({}, {"a": 1}):
        place = location.__class__(f"{location.uri}-{len(start)}")
        staged = stage_changes(create(place, start), rows({"b": 2}), **identity())
        handed_over = pickle.loads(pickle.dumps(staged))
        assert handed_over == staged
        assert content(commit(handed_over).table) == {**start, "b": 2}


def test_committing_twice_gives_the_same_version(location):
    table = create(location, {"a": 1})
    staged = stage_changes(table, rows({"b": 2}), **identity())
    first = commit(staged)
    change(first.table, {"c": 3})
    assert commit(staged) == first
    assert content(open_newest(location)) == {"a": 1, "b": 2, "c": 3}


def test_a_commit_that_landed_elsewhere_is_never_called_a_success(location):
    """Lance rebases an index build over a change of rows; we must notice."""
    table = create(location, {"a": 1})
    specs = [IndexSpec("by_id", "id", LanceIndexKind.BTREE)]
    staged = stage_indices(table, specs, **identity())
    change(table, {"b": 2})
    assert LanceDataset.commit(table.native, staged.native, max_retries=0).version == 3
    with pytest.raises(RecoveryRequired, match="version 3 instead of 2"):
        commit_exact(staged)
    assert find_transaction(location, staged.uuid, 1) == 3


def test_creating_over_a_table_is_refused_early_and_late(location):
    late = stage_create(location, SCHEMA, rows({"late": 1}), **identity())
    create(location, {"a": 1})
    with pytest.raises(AlreadyExists):
        stage_create(location, SCHEMA, **identity())
    with pytest.raises(AlreadyExists):
        commit_exact(late)
    assert content(open_newest(location)) == {"a": 1}


def test_an_overwrite_replaces_everything_and_keeps_the_marks(location):
    table = change(create(location, {"a": 1, "b": 2}), {"c": 3})
    done = commit(stage_overwrite(table, rows({"x": 1}), **identity()))
    assert content(done.table) == {"x": 1}
    assert done.table.schema == SCHEMA
    assert done.table.native.has_stable_row_ids
    emptied = commit(stage_overwrite(done.table, rows({}), **identity()))
    assert content(emptied.table) == {}
    assert emptied.table.schema == SCHEMA
    assert content(change(emptied.table, {"y": 2})) == {"y": 2}


def test_an_overwrite_may_change_the_columns(location):
    table = create(location, {"a": 1})
    wider = mark_primary_key(
        pa.schema([("id", pa.string()), ("note", pa.string()), ("value", pa.int64())]), "id"
    )
    data = pa.table({"id": ["a"], "note": ["hi"], "value": [5]}, schema=wider)
    table = commit(stage_overwrite(table, data, schema=wider, **identity())).table
    assert table.schema == wider
    assert table.scan().to_pylist() == [{"id": "a", "note": "hi", "value": 5}]
    more = pa.table({"id": ["b"], "note": [None], "value": [6]}, schema=wider)
    table = commit(stage_changes(table, more, **identity())).table
    assert table.scan(["value"], "id = 'b'").to_pydict() == {"value": [6]}


def test_an_overwrite_after_a_dropped_column_keeps_the_values(location):
    table = create(location, {"a": 1})
    fresh = open_newest(location).native
    fresh.add_columns({"extra": "cast(7 as bigint)"})
    fresh.drop_columns(["value"])
    table = open_newest(location)
    data = pa.table({"id": ["x"], "extra": [42]}, schema=table.schema)
    table = commit(stage_overwrite(table, data, **identity())).table
    assert table.scan().to_pylist() == [{"id": "x", "extra": 42}]


def test_fragments_written_elsewhere_become_one_version(location):
    table = create(location, {"a": 1, "b": 2})
    found = table.lookup("id", pa.array(["b"]), [ROW_ADDRESS])
    fragments = write_fragments(
        pickle.loads(pickle.dumps(table)), rows({"b": 20, "c": 30, "d": 40}), rows_per_file=2
    )
    fragments += write_fragments(table, pa.RecordBatchReader.from_batches(
        SCHEMA, rows({"e": 50}).to_batches()))  # fmt: skip
    gone = found.column(ROW_ADDRESS)
    staged = stage_fragments(table, fragments, removed_addresses=gone, replaced=1, **identity())
    assert (staged.inserted, staged.updated, staged.deleted) == (3, 1, 0)
    done = commit(staged)
    assert content(done.table) == {"a": 1, "b": 20, "c": 30, "d": 40, "e": 50}
    assert row_facts(done.table)["b"] == (2, 2, 2)


def test_fragments_may_replace_the_whole_table(location):
    table = create(location, {"a": 1})
    fragments = write_fragments(table, rows({"x": 1, "y": 2}))
    staged = stage_fragments(table, fragments, replace_all=True, **identity())
    assert (staged.inserted, staged.deleted) == (2, 1)
    assert content(commit(staged).table) == {"x": 1, "y": 2}


def test_rows_that_are_replaced_must_be_removed(location):
    table = create(location, {"a": 1})
    fragments = write_fragments(table, rows({"b": 2}))
    with pytest.raises(AssertionError, match="removed and written again"):
        stage_fragments(table, fragments, replaced=1, **identity())


def test_restore_brings_back_content_under_a_new_version(location):
    table = change(create(location, {"a": 1}), {"b": 2})
    version = restore(location, 1, properties=PROPERTIES)
    assert version == 3
    assert content(open_newest(location)) == {"a": 1}
    record = read_history(location, 3)[0]
    assert (record.operation, record.restored_version) == ("Restore", 1)
    assert record.properties == PROPERTIES
    again = change(open_newest(location), {"b": 3})
    assert row_facts(again)["b"][0] not in {f[0] for f in row_facts(table).values()}


def test_restore_works_on_a_branch(location):
    create(location, {"a": 1})
    branch = change(create_branch(location, ulids.next(), None, 1), {"a": 2})
    assert restore(branch.location, 1, **identity()) == 3
    assert content(open_newest(branch.location)) == {"a": 1}
    assert content(open_newest(location)) == {"a": 1}
    assert find_latest_version(location) == 1
