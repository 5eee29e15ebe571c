"""The workers of the race tests; a module of its own so they can import it."""

from __future__ import annotations

import multiprocessing
import os
import threading

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

from omnigraph.errors import AlreadyExists, OmniError, RetryableCommitConflict, StorageFailure
from omnigraph.storage.tables.manifest_table import compact_lineage, read_state
from omnigraph.storage.tables.stage_table import stage_changes, stage_create
from omnigraph.storage.tables.table import open_newest, open_table
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables.table_fixtures import SCHEMA, identity, rows, stage_publish

PROCESSES = 4
_start_together: threading.Barrier


def join_race(barrier) -> None:
    global _start_together
    _start_together = barrier


def start_method() -> str | None:
    return multiprocessing.get_start_method(allow_none=True)


def _outcome(action) -> str:
    """`won`, or the name of the error."""
    _start_together.wait()
    try:
        action()
    except OmniError as error:
        return type(error).__name__
    return "won"


def create_table(location, racer: int) -> str:
    """Stage before the others can have committed, so that only the commits race."""
    try:
        staged = stage_create(location, SCHEMA, rows({f"r{racer}": racer}), **identity())
    except AlreadyExists:
        raise AssertionError("the round began with a table in place") from None
    return _outcome(lambda: commit_exact(staged))


def change_table(location, version: int, racer: int) -> str:
    """Each racer writes rows of its own: only the sentinel makes them collide."""
    table = open_table(location, version)
    staged = stage_changes(table, rows({f"v{version}r{racer}": racer}), **identity())
    return _outcome(lambda: commit_exact(staged))


def publish(location, version: int, racer: int) -> str:
    base = read_state(open_table(location, version))
    lineage = rows({f"commit-{version}-{racer}": version})
    staged = stage_publish(base, rows({"state": racer}), lineage, recent_lineage=0)
    return _outcome(lambda: commit_exact(staged))


def publish_or_compact(location, version: int, racer: int) -> str:
    """One racer merges the lineage while the others publish."""
    if racer:
        return publish(location, version, racer)
    table = open_table(location, version)
    return _outcome(lambda: compact_lineage(table, small_fragments=2, **identity()))


def count_up(location, times: int) -> int:
    """Add one to the state, again and again, redoing it whenever another was first."""
    conflicts = 0
    _start_together.wait()
    for _ in range(times):
        while True:
            base = read_state(open_newest(location))
            count = base.rows.column("value")[0].as_py() + 1
            lineage = rows({f"step-{count}": count})
            try:
                commit_exact(stage_publish(base, rows({"state": count}), lineage))
                break
            except RetryableCommitConflict:
                conflicts += 1
    return conflicts


class _NoLock:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def append_with_commit_lock(uri: str, version: int, racer: int) -> int:
    """The version this racer believes it made, committing through a lock that locks nothing."""
    dataset = lance.dataset(uri, version=version)
    fragments = write_fragments(pa.table({"id": [f"v{version}r{racer}"]}), dataset)
    transaction = Transaction(version, LanceOperation.Append(fragments))
    _start_together.wait()
    try:
        committed = LanceDataset.commit(
            dataset, transaction, commit_lock=lambda _: _NoLock(), max_retries=0
        )
    except OSError:
        return 0
    return committed.version


def change_without_permission(table) -> str:
    """The kind of failure met by someone who may read the table and not write it."""
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        stage_changes(table, rows({"b": 2}), **identity())
    except StorageFailure as failure:
        return str(failure.kind)
    return "nothing"
