"""Habits of Lance when committing, each pinned because we rely on it or work around it.

A red test here means that Lance has changed: stop, and read docs/internals/lance.md.
"""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.fragment import write_fragments

from omnigraph.errors import AlreadyExists, OutcomeUnknown, RecoveryRequired
from omnigraph.storage.tables.fragments import sum_complete_version
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.manifest_table import read_state, stage_manifest_rows
from omnigraph.storage.tables.stage_table import stage_changes, stage_create
from omnigraph.storage.tables.table import open_newest
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables import lance_directly, race_workers
from storage.tables.table_fixtures import (
    SCHEMA,
    content,
    create,
    identity,
    rows,
    stage_publish,
    ulids,
)


@pytest.fixture
def dataset(tmp_path) -> LanceDataset:
    return lance_directly.create(tmp_path / "table", {"a": 1})


def upsert(dataset: LanceDataset):
    return dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()


def test_an_inline_merge_of_one_new_key_has_one_winner_and_other_keys_both_land(dataset):
    """Red: re-read "Inline merges"."""
    first, second, third = (lance.dataset(dataset.uri) for _ in range(3))
    upsert(first).conflict_retries(0).use_index(False).execute(rows({"k": 1}))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        upsert(second).conflict_retries(0).use_index(False).execute(rows({"k": 2}))
    upsert(third).conflict_retries(0).use_index(False).execute(rows({"other": 3}))
    assert lance_directly.ids(lance_directly.newest(dataset)) == ["a", "k", "other"]


def test_the_file_of_a_version_names_its_transaction_without_being_opened(tmp_path):
    """Red: re-read "Version files"; commits are right all the same, and slower."""
    location = TableLocation(str(tmp_path / "table"))
    staged = stage_create(location, SCHEMA, rows({"a": 1}), **identity())
    table = commit_exact(staged).table
    assert sum_complete_version(location, table.version, staged.uuid, 0)
    for number in range(130):  # so that the number of the base takes two bytes
        staged = stage_changes(table, rows({"a": number}), **identity())
        base, table = table, commit_exact(staged).table
        assert sum_complete_version(location, table.version, staged.uuid, base.version)


def test_staged_merges_of_one_new_key_both_land(dataset):
    """Red (the second is refused): re-read "Staged merges"; the hole may be closed."""
    staged = [upsert(dataset).execute_uncommitted(rows({"k": n}))[0] for n in range(2)]
    for transaction in staged:
        lance_directly.commit(dataset, transaction)
    assert lance_directly.ids(lance_directly.newest(dataset)) == ["a", "k", "k"]


def test_a_late_append_is_rebased_without_retries(dataset):
    """Red: re-read "Rebasing"; the exactness check may have become needless."""
    late = lance_directly.staged_append(dataset, {"late": 1}, uuid="mine")
    lance_directly.append(dataset, {"b": 2})
    landed = lance_directly.commit(dataset, late)
    assert landed.version == 3
    record = landed.read_transaction(3)
    assert record.uuid == "mine"
    # The record does not show it: only the number of the resulting version does.
    assert record.read_version == 1
    assert lance_directly.ids(landed) == ["a", "b", "late"]


def test_our_commit_notices_that_it_was_rebased(location):
    """Red: re-read "Rebasing"."""
    table = create(location, {"a": 1})
    staged = stage_changes(table, rows({"b": 2}), **identity())
    foreign = lance.dataset(location.uri)
    lance_directly.append(foreign, {"foreign": 0})
    # A bare append takes no part in our protocol, so the sentinel does not stop it.
    assert lance_directly.commit(table.native, staged.native).version == 3
    with pytest.raises(RecoveryRequired, match="version 3 instead of 2"):
        commit_exact(staged)


def test_strict_transactions_collide_in_lance_itself(location):
    """Red: re-read "The sentinel fragment". This holds without looking before the commit."""
    table = create(location, {"a": 1})
    first, second = (stage_changes(table, rows({k: 1}), **identity()) for k in ("x", "y"))
    lance_directly.commit(table.native, first.native)
    with pytest.raises(CommitConflictError):
        lance_directly.commit(table.native, second.native)


def test_publishes_collide_in_lance_itself(location):
    """Red: re-read "The sentinel fragment"."""
    first = stage_manifest_rows(location, SCHEMA, rows({"s": 0}), rows({"c0": 0}), **identity())
    base = read_state(commit_exact(first).table)
    one, two = (stage_publish(base, rows({"s": n}), rows({f"c{n}": n})) for n in (1, 2))
    lance_directly.commit(base.table.native, one.native)
    with pytest.raises(CommitConflictError):
        lance_directly.commit(base.table.native, two.native)


def test_a_stale_overwrite_is_refused(dataset):
    """Red: re-read "Overwrite is strict"."""
    late = lance_directly.staged_overwrite(dataset, {"late": 1})
    lance_directly.append(dataset, {"b": 2})
    with pytest.raises(CommitConflictError):
        lance_directly.commit(dataset, late)


def test_a_second_create_at_version_zero_is_refused(location):
    """Red: re-read "Overwrite is strict"."""
    late = stage_create(location, SCHEMA, rows({"late": 1}), **identity())
    create(location, {"a": 1})
    with pytest.raises(OSError, match="not found"):
        LanceDataset.commit(location.uri, late.native, max_retries=0, enable_stable_row_ids=True)
    with pytest.raises(AlreadyExists):
        commit_exact(late)


def test_a_minted_identity_is_retained_on_main_and_on_a_branch(location):
    """Red: re-read "Identity of a transaction"."""
    create(location, {"a": 1})
    branch = create_branch(location, ulids.next(), None, 1)
    for place in (location, branch.location):
        dataset = lance.dataset(place.native_uri)
        staged = lance_directly.staged_append(
            dataset, {"b": 2}, uuid="not-even-a-uuid", transaction_properties={"k": "v"}
        )
        record = lance_directly.commit(dataset, staged).read_transaction(2)
        assert record.uuid == "not-even-a-uuid"
        assert record.transaction_properties == {"k": "v"}
        assert record.read_version == 1


def test_a_commit_lock_that_does_not_lock_loses_updates(racers, tmp_path):
    """Red: re-read "Commit locks"; supplying one may no longer disable the conditional write."""
    dataset = lance_directly.create(tmp_path / "table", {"a": 1})
    everyone = range(race_workers.PROCESSES)
    for _ in range(60):
        dataset = lance_directly.newest(dataset)
        arguments = ((dataset.uri, dataset.version, racer) for racer in everyone)
        versions = [v for v in racers(race_workers.append_with_commit_lock, *arguments) if v]
        if len(versions) > len(set(versions)):
            return
    pytest.fail("no two processes reported the same version as theirs")


def test_restore_covers_a_concurrent_commit_without_a_word(dataset):
    """Red: re-read "Restore never conflicts"."""
    lance_directly.append(dataset, {"b": 2})
    restored = lance_directly.commit(dataset, Transaction(1, LanceOperation.Restore(1)))
    assert restored.version == 3
    assert lance_directly.ids(restored) == ["a"]


def test_cleanup_blinds_the_check_of_a_stale_writer(dataset):
    """Red: re-read "Cleanup blinds conflict detection"."""
    stale = lance_directly.staged_overwrite(dataset, {"stale": 9})
    newer = dataset
    for n in range(3):
        newer = lance_directly.append(dataset, {f"n{n}": n})
    newer.cleanup_old_versions(versions=[2, 3])
    # It reports version 2, which is never visible: the newest is 4.
    assert lance_directly.commit(dataset, stale).version == 2
    assert lance_directly.newest(dataset).version == 4
    assert lance_directly.ids(lance_directly.newest(dataset)) == ["a", "n0", "n1", "n2"]


def test_an_update_is_compared_with_the_newest_version_whatever_was_removed(location):
    """Red: re-read "Cleanup blinds conflict detection": the anchor of a ledger relies on it."""
    table = create(location, {"a": 1})
    (first,) = (fragment.metadata for fragment in table.native.get_fragments())
    late, *others = (write_fragments(rows({f"n{n}": n}), table.native) for n in range(4))
    newest = table.native
    for added in others:
        naming = LanceOperation.Update(updated_fragments=[first], new_fragments=added)
        newest = lance_directly.commit(newest, Transaction(newest.version, naming))
    newest.cleanup_old_versions(versions=[1, 2, 3])
    naming = LanceOperation.Update(updated_fragments=[first], new_fragments=late)
    with pytest.raises(CommitConflictError, match="preempted by concurrent transaction"):
        lance_directly.commit(table.native, Transaction(1, naming))
    blind = LanceOperation.Update(new_fragments=late)
    assert lance_directly.commit(table.native, Transaction(1, blind)).version == 5


def test_our_commit_checks_for_conflicts_first(location):
    """Red: re-read "Cleanup blinds conflict detection"."""
    table = create(location, {})
    stale = stage_changes(table, rows({"stale": 9}), **identity())
    dataset = lance.dataset(location.uri)
    for n in range(3):
        newer = lance_directly.append(dataset, {f"n{n}": n})
    newer.cleanup_old_versions(versions=[2, 3])
    with pytest.raises(OutcomeUnknown, match="gap"):
        commit_exact(stale)
    assert sorted(content(open_newest(location))) == ["n0", "n1", "n2"]


def test_one_transaction_committed_twice_doubles_its_rows(dataset):
    """Red: re-read "No idempotence"."""
    staged = lance_directly.staged_append(dataset, {"b": 2})
    lance_directly.commit(dataset, staged)
    lance_directly.commit(dataset, staged)
    assert lance_directly.ids(lance_directly.newest(dataset)) == ["a", "b", "b"]


def test_a_commit_does_not_look_for_its_files(dataset, tmp_path):
    """Red: re-read "No idempotence"."""
    fragments = write_fragments(rows({"b": 2}), dataset)
    (tmp_path / "table" / "data" / fragments[0].files[0].path).unlink()
    operation = LanceOperation.Append(fragments)
    landed = lance_directly.commit(dataset, Transaction(1, operation))
    assert landed.version == 2
    with pytest.raises(Exception, match="Not found"):
        landed.to_table()


def test_the_record_of_a_version_is_in_the_version_file_too(dataset, tmp_path):
    """Red: re-read "Identity of a transaction": losing _transactions would lose history."""
    for file in (tmp_path / "table" / "_transactions").iterdir():
        file.unlink()
    assert lance.dataset(dataset.uri).read_transaction(1) is not None


def test_writing_in_overwrite_mode_renumbers_the_fields(tmp_path):
    """Red: re-read "Field numbers"; values written so are read as null after a dropped column."""
    first = pa.table({"id": ["a"], "dropped": [1], "value": [7]})
    dataset = lance.write_dataset(first, str(tmp_path / "table"))
    dataset.drop_columns(["dropped"])
    for mode, expected in (("append", [7]), ("overwrite", [None])):
        fragments = write_fragments(first.drop_columns(["dropped"]), dataset, mode=mode)
        operation = LanceOperation.Overwrite(dataset.lance_schema, fragments)
        dataset = lance_directly.commit(dataset, Transaction(dataset.version, operation))
        assert dataset.to_table().column("value").to_pylist() == expected


def test_a_fragment_may_leave_out_a_column_that_may_be_null(tmp_path):
    """Red: re-read "Columns a file leaves out"; a ledger finds its state by it."""
    dataset = lance.write_dataset(rows({"a": 1}), str(tmp_path / "table"))
    (fragment,) = write_fragments(rows({"b": 2}).select(["id"]), dataset)
    value = next(f.id() for f in dataset.lance_schema.fields() if f.name() == "value")
    assert value not in fragment.files[0].fields
    landed = lance_directly.commit(dataset, Transaction(1, LanceOperation.Append([fragment])))
    assert landed.to_table(filter="value IS NULL").column("id").to_pylist() == ["b"]


def test_the_hint_of_the_newest_version_is_only_a_hint(location):
    """Red: re-read "Opening"."""
    create(location, {"a": 1})
    hint = Path(location.uri) / "_versions" / "latest_version_hint.json"
    assert hint.exists()
    hint.write_text('{"version": 99}')
    assert open_newest(location).version == 1
    assert lance.dataset(location.uri, version=1).count_rows() == 1
