"""Errors of Lance are mapped to ours, and a lost answer is resolved by reading."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import (
    AlreadyExists,
    HistoricalVersionReclaimed,
    OutcomeUnknown,
    RetryableCommitConflict,
    StorageFailure,
    StorageKind,
)
from omnigraph.storage.tables.lance_errors import classify_storage_error, translate
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import stage_changes, stage_create, stage_overwrite
from omnigraph.storage.tables.table import find_latest_version, open_newest, open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commit import commit_exact, restore
from storage.tables import race_workers
from storage.tables.table_fixtures import SCHEMA, change, content, create, identity, rows, ulids


def test_a_missing_table_is_detected_by_reading(location):
    for attempt in (lambda: open_table(location, 1), lambda: open_newest(location)):
        with pytest.raises(StorageFailure, match="no table at") as failure:
            attempt()
        assert failure.value.kind is StorageKind.NOT_FOUND
    create(location, {"a": 1})
    with pytest.raises(StorageFailure, match="no table at"):
        open_table(location.on_branch(ulids.next()), 1)


def test_a_version_that_never_was_differs_from_one_that_cleanup_removed(location):
    table = change(change(create(location, {"a": 1}), {"b": 2}), {"c": 3})
    branch = change(create_branch(location, ulids.next(), None, 3), {"d": 4}).location
    with pytest.raises(StorageFailure, match="never had a version 9"):
        open_table(location, 9)
    with pytest.raises(StorageFailure, match="never had a version 1"):
        open_table(branch, 1)
    table.native.cleanup_old_versions(versions=[1])
    with pytest.raises(HistoricalVersionReclaimed) as reclaimed:
        open_table(location, 1)
    assert reclaimed.value.version == 1
    with pytest.raises(HistoricalVersionReclaimed):
        restore(location, 1, **identity())
    assert find_latest_version(location) == 3


def test_reading_an_open_table_whose_version_was_reclaimed_says_so(location):
    table = create(location, {"a": 1})
    newer = commit_exact(stage_overwrite(table, rows({"b": 2}), **identity())).table
    newer.native.cleanup_old_versions(older_than=timedelta(0))
    with pytest.raises(HistoricalVersionReclaimed):
        content(table)


def test_a_version_with_a_missing_file_is_damaged_not_reclaimed(location):
    table = create(location, {"a": 1})
    shutil.rmtree(Path(location.uri) / "data")
    with pytest.raises(StorageFailure) as failure:
        content(table)
    assert failure.value.kind is StorageKind.PERMANENT


def test_an_unusable_address_is_a_matter_of_configuration(tmp_path):
    for uri in ("nosuchscheme://bucket/table", str(tmp_path / "file" / "table")):
        (tmp_path / "file").touch()
        with pytest.raises(StorageFailure) as failure:
            open_table(TableLocation(uri), 1)
        assert failure.value.kind is StorageKind.CONFIGURATION


def test_a_directory_that_cannot_be_written_is_a_matter_of_configuration():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        table = create(TableLocation(f"{folder}/table"), {"a": 1})
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            kind = pool.apply(race_workers.change_without_permission, (table,))
        assert kind == "configuration"
        assert content(open_newest(table.location)) == {"a": 1}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("no answer"), StorageKind.TRANSIENT),
        (OSError("Connection reset by peer"), StorageKind.TRANSIENT),
        (PermissionError(13, "Permission denied"), StorageKind.CONFIGURATION),
        (OSError("No space left on device (os error 28)"), StorageKind.CONFIGURATION),
        (OSError("Dataset already exists: x"), StorageKind.PRECONDITION),
        (pa.ArrowInvalid("bad bytes"), StorageKind.PERMANENT),
        (OSError("Invalid data file: bad magic"), StorageKind.PERMANENT),
        (RuntimeError("something else"), StorageKind.UNKNOWN),
    ],
    ids=lambda value: str(value),
)
def test_failures_are_sorted_by_who_can_help(error, kind):
    assert classify_storage_error(error) is kind
    translated = translate(error, "doing this")
    assert isinstance(translated, StorageFailure)
    assert translated.kind is kind
    assert "doing this" in translated.message


@pytest.mark.parametrize(
    ("error", "is_disk_full", "is_file_missing"),
    [
        (OSError("No space left on device (os error 28)"), True, False),
        (OSError("LanceError(IO): Disk quota exceeded (os error 122)"), True, False),
        (OSError("Object at location data/x.lance not found"), False, True),
        (OSError("Permission denied (os error 13)"), False, False),
    ],
    ids=lambda value: str(value),
)
def test_an_error_is_classified_independently_of_the_operation(
    error, is_disk_full, is_file_missing
):
    failure = translate(error, "reading /data/no space left/not found/table.lance")
    assert isinstance(failure, StorageFailure)
    assert failure.is_disk_full is is_disk_full
    assert failure.is_file_missing is is_file_missing


@pytest.mark.parametrize(
    "text",
    [
        "Retryable commit conflict for version 3: preempted by concurrent transaction",
        "Commit conflict for version 3: Failed to commit the transaction after 0 retries",
        "Incompatible transaction: …",
        "Too many concurrent writers. Attempted 0 retries.",
    ],
)
def test_a_lost_race_is_a_conflict_also_when_it_comes_as_a_plain_error(text):
    assert isinstance(translate(OSError(text), "compacting"), RetryableCommitConflict)


@pytest.fixture
def losing_answers(monkeypatch):
    """Every commit does what it should, and then its answer is lost."""
    real = lance.LanceDataset.commit

    def commit_and_fail(*arguments, **options):
        real(*arguments, **options)
        raise OSError("connection reset while waiting for the answer")

    monkeypatch.setattr(lance.LanceDataset, "commit", staticmethod(commit_and_fail))


@pytest.fixture
def failing_commits(monkeypatch):
    """Fail every commit with the error of the test."""

    def install(error: Exception) -> None:
        def fail(*_arguments, **_options):
            raise error

        monkeypatch.setattr(lance.LanceDataset, "commit", staticmethod(fail))

    return install


def test_a_lost_answer_to_a_commit_that_landed_is_a_success(location, losing_answers):
    table = create(location, {"a": 1})
    done = commit_exact(stage_changes(table, rows({"b": 2}), **identity()))
    assert done.version == 2
    assert content(done.table) == {"a": 1, "b": 2}


def test_a_lost_answer_without_a_trace_leaves_the_outcome_unknown(location, failing_commits):
    table = create(location, {"a": 1})
    staged = stage_changes(table, rows({"b": 2}), **identity())
    failing_commits(OSError("connection reset by peer"))
    with pytest.raises(OutcomeUnknown):
        commit_exact(staged)


def test_a_commit_that_cannot_be_done_says_why(location, failing_commits):
    table = create(location, {"a": 1})
    staged = stage_changes(table, rows({"b": 2}), **identity())
    failing_commits(OSError("Permission denied (os error 13)"))
    with pytest.raises(StorageFailure) as failure:
        commit_exact(staged)
    assert failure.value.kind is StorageKind.CONFIGURATION


def test_a_history_with_a_gap_leaves_the_outcome_unknown(location):
    """Such a late writer cannot decide whether its commit was among the removed."""
    table = create(location, {"a": 1})
    staged = stage_changes(table, rows({"late": 0}), **identity())
    newer = change(change(table, {"b": 2}), {"c": 3})
    newer.native.cleanup_old_versions(versions=[2])
    with pytest.raises(OutcomeUnknown, match="gap at version 2"):
        commit_exact(staged)
    assert find_latest_version(location) == 3


def test_losing_the_race_to_create_is_distinguished_from_failing(location, failing_commits):
    staged = stage_create(location, SCHEMA, **identity())
    failing_commits(OSError("Commit conflict for version 1: …"))
    with pytest.raises(AlreadyExists):
        commit_exact(staged)
