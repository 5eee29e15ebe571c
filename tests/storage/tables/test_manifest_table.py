"""Tables made of a state that is replaced and a lineage that grows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lance.commit import CommitConflictError

from omnigraph.errors import AlreadyExists, ManifestCorrupt, RetryableCommitConflict
from omnigraph.storage.tables.compaction import write_groups
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.manifest_table import (
    STATE_MARK,
    compact_lineage,
    is_manifest_table,
    name_anchor,
    read_state,
    stage_manifest_rows,
)
from omnigraph.storage.tables.table import Table, open_newest, open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables import lance_directly
from storage.tables.table_fixtures import (
    SCHEMA,
    change,
    create,
    identity,
    read_lineage,
    rows,
    stage_publish,
    ulids,
)


@pytest.fixture
def ledger(location) -> Table:
    first = stage_manifest_rows(
        location, SCHEMA, rows({"s": 0, "t": 0}), rows({"c0": 0}), **identity()
    )
    return commit_exact(first).table


def publish(table: Table, number: int, recent: int = 0) -> Table:
    """By default the lineage goes to a file of its own every time."""
    base = read_state(table)
    state, lineage = rows({"s": number, "t": -number}), rows({f"c{number}": number})
    staged = stage_publish(base, state, lineage, recent_lineage=recent)
    return commit_exact(staged).table


def state(table: Table) -> dict[str, int]:
    found = read_state(table).rows.to_pydict()
    return dict(zip(found["id"], found["value"], strict=True))


def lineage(table: Table) -> list[int]:
    return sorted(read_lineage(table, ["value"]).column("value").to_pylist())


def test_a_publish_replaces_the_state_and_extends_the_lineage(ledger):
    assert state(ledger) == {"s": 0, "t": 0}
    table = publish(publish(ledger, 1), 2)
    assert table.version == 3
    assert state(table) == {"s": 2, "t": -2}
    assert lineage(table) == [0, 1, 2]
    assert lineage(ledger) == [0]


def test_the_mark_is_not_shown(ledger):
    table = publish(ledger, 1)
    assert read_state(table).rows.schema.names == SCHEMA.names
    assert read_lineage(table).schema.names == SCHEMA.names
    assert STATE_MARK in table.schema.names
    assert table.schema_metadata == {"stamp": "1"}


def test_lineage_can_be_filtered(ledger):
    table = publish(publish(ledger, 1), 2)
    assert read_lineage(table, ["id"], "value >= 1 OR value < 0").to_pydict() == {
        "id": ["c1", "c2"]
    }


def test_a_publish_may_add_no_lineage_or_several_rows(ledger):
    base = read_state(ledger)
    table = commit_exact(stage_publish(base, rows({"s": 1}), rows({}))).table
    assert lineage(table) == [0]
    base = read_state(table)
    several = rows({"c1": 1, "c2": 2})
    table = commit_exact(stage_publish(base, rows({"s": 1}), several)).table
    assert lineage(table) == [0, 1, 2]


def test_a_ledger_cannot_be_without_state(location, ledger):
    with pytest.raises(AssertionError):
        stage_publish(read_state(ledger), rows({}), rows({"c": 1}))
    other = location.__class__(f"{location.uri}-other")
    with pytest.raises(AssertionError):
        stage_manifest_rows(other, SCHEMA, rows({}), rows({"c": 1}), **identity())


def test_a_ledger_is_created_once(location, ledger):
    with pytest.raises(AlreadyExists):
        stage_manifest_rows(location, SCHEMA, rows({"s": 0}), rows({}), **identity())
    assert is_manifest_table(ledger)
    assert not is_manifest_table(create(location.__class__(f"{location.uri}-plain")))


def test_a_late_publish_is_refused_and_can_be_redone(ledger):
    base = read_state(ledger)
    late = stage_publish(base, rows({"s": 7}), rows({"late": 7}))
    newer = publish(ledger, 1)
    with pytest.raises(RetryableCommitConflict):
        commit_exact(late)
    assert lineage(publish(newer, 2)) == [0, 1, 2]


def remove_versions(table: Table, *versions: int) -> None:
    table.native.cleanup_old_versions(versions=list(versions))


@pytest.mark.parametrize("left", ["the newest", "what merged the lineage"])
def test_a_publish_of_a_suspended_writer_is_refused_whatever_versions_are_removed(
    ledger, left, monkeypatch
):
    """It read before the others wrote, so it does not know of their commits."""
    table = publish(publish(ledger, 1), 2)
    late = stage_publish(read_state(table), rows({"s": 7}), rows({"late": 7}))
    newest = publish(publish(table, 3), 4)
    if left == "what merged the lineage":
        newest = compact_lineage(newest, small_fragments=2, **identity()).table
    remove_versions(newest, *range(table.version, newest.version))
    monkeypatch.setattr(Table, "newest_version", lambda self: self.version)
    with pytest.raises(RetryableCommitConflict):
        commit_exact(late)
    monkeypatch.undo()
    assert open_newest(ledger.location).version == newest.version
    assert lineage(publish(newest, 5)) == [0, 1, 2, 3, 4, 5]


def test_a_branch_has_the_anchor_of_its_source(ledger):
    table = publish(ledger, 1)
    branch = create_branch(table.location, ulids.next(), None, table.version)
    late = stage_publish(read_state(branch), rows({"s": 7}), rows({"late": 7}))
    newest = publish(publish(publish(branch, 2), 3), 4)
    remove_versions(newest, *range(branch.version, newest.version))
    with pytest.raises(CommitConflictError):
        lance_directly.commit(branch.native, late.native)
    assert lineage(publish(newest, 5)) == [0, 1, 2, 3, 4, 5]


def test_a_ledger_without_an_anchor_gets_one_with_the_next_publish(location, ledger):
    """As graphs have been made before there was one, and as a compaction of others leaves them."""
    mixed = publish(ledger, 1, recent=9)
    open_newest(location).native.optimize.compact_files()
    mixed = open_newest(location)
    assert read_state(mixed).anchor is None
    assert compact_lineage(mixed, small_fragments=2, **identity()) is None
    table = publish(mixed, 2, recent=9)
    anchor = read_state(table).anchor
    assert anchor is not None
    table = publish(table, 3, recent=9)
    assert read_state(table).anchor == anchor
    assert lineage(publish(table, 4)) == [0, 1, 2, 3, 4]


def test_the_publish_that_brings_an_anchor_covers_nothing_when_it_comes_late(location, ledger):
    open_newest(location).native.optimize.compact_files()
    mixed = open_newest(location)
    late, later = (stage_publish(read_state(mixed), rows({"s": n}), rows({})) for n in (7, 8))
    newest = publish(publish(mixed, 1), 2)
    with pytest.raises(CommitConflictError):
        lance_directly.commit(mixed.native, late.native)
    remove_versions(newest, *range(mixed.version, newest.version))
    assert lance_directly.commit(mixed.native, later.native).version < newest.version
    assert state(open_newest(location)) == {"s": 2, "t": -2}


def test_a_version_that_names_the_anchor_alone_refuses_who_comes_late(ledger):
    table = publish(ledger, 1)
    late = stage_publish(read_state(table), rows({"s": 7}), rows({"late": 7}))
    named = name_anchor(table, **identity()).table
    assert (state(named), lineage(named)) == (state(table), lineage(table))
    with pytest.raises(CommitConflictError):
        lance_directly.commit(table.native, late.native)


def test_the_state_is_read_without_touching_the_lineage(ledger):
    table = ledger
    for number in range(1, 6):
        table = publish(table, number)
    base = read_state(table)
    assert len(base.fragment_ids) == 1
    assert base.recent.num_rows == 0
    assert len(table.fragments()) == 1 + 6


def test_the_newest_lineage_shares_the_file_of_the_state_until_there_is_much(ledger):
    table, fragments = ledger, []
    for number in range(1, 9):
        table = publish(table, number, recent=3)
        fragments.append(len(table.fragments()))
        assert lineage(table) == list(range(number + 1))
        assert state(table) == {"s": number, "t": -number}
    assert fragments == [2, 2, 2, 3, 3, 3, 3, 4]
    assert read_state(table).recent.num_rows == 0


def test_merging_the_lineage_leaves_the_state_fragment_alone(ledger):
    table = ledger
    for number in range(1, 11):
        table = publish(table, number)
    before = read_state(table)
    merged = compact_lineage(table, small_fragments=5, **identity()).table
    after = read_state(merged)
    assert merged.version == table.version + 1
    assert after.fragment_ids == before.fragment_ids
    assert after.rows == before.rows
    assert lineage(merged) == lineage(table) == list(range(11))
    assert len(merged.fragments()) == 3
    assert after.anchor == before.anchor
    assert lineage(publish(merged, 11)) == list(range(12))
    assert lineage(open_table(table.location, table.version)) == list(range(11))


def test_full_lineage_fragments_are_not_merged_again(ledger):
    table, full = ledger, set()
    for number in range(1, 13):
        table = publish(table, number)
        options = {"small_fragments": 3, "full_fragment_rows": 3}
        merged = compact_lineage(table, **options, **identity())
        table = merged.table if merged else table
        now_full = {fragment.id for fragment in table.fragments() if fragment.rows >= 3}
        assert full <= now_full
        full = now_full
    assert len(full) == 4
    assert lineage(table) == list(range(13))


def test_little_lineage_is_not_merged(ledger):
    assert compact_lineage(publish(ledger, 1), **identity()) is None


def test_merging_and_publishing_on_one_base_collide_either_way(ledger):
    table = publish(publish(ledger, 1), 2)
    staged = stage_publish(read_state(table), rows({"s": 3}), rows({"c3": 3}))
    merged = compact_lineage(table, small_fragments=2, **identity()).table
    with pytest.raises(RetryableCommitConflict):
        commit_exact(staged)
    published = publish(merged, 3)
    published = publish(published, 4)
    publish(published, 5)
    with pytest.raises(RetryableCommitConflict):
        compact_lineage(published, small_fragments=2, **identity())


def test_a_foreign_compaction_that_mixes_both_loses_nothing(ledger):
    table = publish(publish(ledger, 1), 2)
    open_newest(table.location).native.optimize.compact_files()
    mixed = open_newest(table.location)
    assert len(mixed.fragments()) == 1
    assert state(mixed) == state(table)
    assert lineage(mixed) == [0, 1, 2]
    table = publish(mixed, 3)
    assert state(table) == {"s": 3, "t": -3}
    assert lineage(table) == [0, 1, 2, 3]
    assert read_state(table).recent.num_rows == 0


def test_our_own_compaction_refuses_a_ledger(ledger):
    with pytest.raises(AssertionError, match="compact_lineage"):
        write_groups(ledger, [[fragment.id for fragment in ledger.fragments()]])


def test_branches_of_a_ledger_are_independent(ledger):
    table = publish(publish(ledger, 1), 2)
    branch = create_branch(table.location, ulids.next(), None, table.version)
    assert state(branch) == {"s": 2, "t": -2}
    branch = publish(publish(branch, 10), 11)
    table = publish(table, 3)
    assert (state(branch)["s"], state(table)["s"]) == (11, 3)
    assert (lineage(branch), lineage(table)) == ([0, 1, 2, 10, 11], [0, 1, 2, 3])
    merged = compact_lineage(branch, small_fragments=2, **identity()).table
    assert lineage(merged) == [0, 1, 2, 10, 11]
    assert state(merged) == {"s": 11, "t": -11}
    grandchild = create_branch(table.location, ulids.next(), merged.location.branch, merged.version)
    assert lineage(publish(grandchild, 12)) == [0, 1, 2, 10, 11, 12]


def test_rows_of_a_manifest_fit(tmp_path, location):
    schema = mark_primary_key(
        pa.schema(
            [
                pa.field("id", pa.string()),
                pa.field("bases", pa.list_(pa.string())),
                pa.field("version", pa.uint64()),
            ]
        ),
        "id",
    )

    def entry(id: str, version: int | None) -> pa.Table:
        return pa.table({"id": [id], "bases": [None], "version": [version]}, schema=schema)

    first = stage_manifest_rows(
        location, schema, entry("table", 1), entry("commit-0", 1), **identity()
    )
    table = commit_exact(first).table
    base = read_state(table)
    staged = stage_publish(base, entry("table", 2**63), entry("commit-1", 2))
    table = commit_exact(staged).table
    assert read_state(table).rows.column("version").to_pylist() == [2**63]
    assert read_lineage(table, ["id"], "version > 1").to_pydict() == {"id": ["commit-1"]}


def test_plain_changes_do_not_mistake_a_plain_table_for_a_ledger(location):
    table = change(create(location, {"a": 1}), {"b": 2})
    with pytest.raises(ManifestCorrupt, match="not a manifest"):
        read_state(table)
