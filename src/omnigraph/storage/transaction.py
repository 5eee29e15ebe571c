"""Commit a write under the fence: from its acquisition to the removal of the intent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph.errors import (
    BranchNotFound,
    OmniError,
    OutcomeUnknown,
    PreconditionFailed,
    ReadSetChanged,
    RecoveryRequired,
    RetryableCommitConflict,
    StorageError,
    StorageFailure,
    StorageKind,
)
from omnigraph.identity import CommitId
from omnigraph.storage.concurrent_calls import ConcurrentCalls
from omnigraph.storage.graph_branches import finish_rename
from omnigraph.storage.manifest.manifest_changes import SetVersion
from omnigraph.storage.manifest.manifest_reader import History, ManifestSnapshot, read_newest
from omnigraph.storage.manifest.manifest_state import TableEntry
from omnigraph.storage.orphans import list_removable_paths, require_retained_table
from omnigraph.storage.prepared_write import PreparedWrite, StagedTable, drop_forks_on_failure
from omnigraph.storage.publish import Published, prepare_publish, publish
from omnigraph.storage.recovery.recover_writes import (
    is_showing_targets,
    resolve_all,
    resolve_intent,
    revoke_late_effects,
)
from omnigraph.storage.refs import find_ref, list_names
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.fragments import STAGED_FILES
from omnigraph.storage.tables.missing_files import find_missing_staged, list_staged_paths
from omnigraph.storage.tables.table import is_table, open_table
from omnigraph.storage.tables.table_branches import RESERVE_FRAGMENTS, read_record
from omnigraph.storage.tables.table_commit import CommittedVersion, start_commit
from omnigraph.storage.write_plan import TableMove, delete_intent, list_operations, write_intent
from omnigraph.storage.writer_fence import FenceGuard

MAX_VERSIONS_COMPARED = 64
"""The number of versions of a table to compare; beyond it, rows are assumed to have changed."""

COMPACTING_OPERATIONS = frozenset({"Rewrite", "CreateIndex", "UpdateConfig", RESERVE_FRAGMENTS})
"""Operations that change no row, row id or row version."""


def is_only_compacted(before: Snapshot, after: Snapshot) -> bool:
    """Return whether both snapshots hold the same rows, by the history of their tables."""
    if before.contract != after.contract or before.entries.keys() != after.entries.keys():
        return False
    pairs = [(before.entries[key], entry) for key, entry in after.entries.items()]
    moved = [(old, new) for old, new in pairs if old != new]
    return all(_is_compacted(before, old, new) for old, new in moved)


def _is_compacted(snapshot: Snapshot, old: TableEntry, new: TableEntry) -> bool:
    if replace(new, version=old.version) != old:
        return False
    if not 0 < new.version - old.version <= MAX_VERSIONS_COMPARED:
        return False
    # A handle of its own: reading a record borrows it exclusively, and kept handles are shared.
    table = open_table(snapshot.location(new), new.version)
    between = range(new.version, old.version, -1)
    return all(
        read_record(table, version).operation in COMPACTING_OPERATIONS for version in between
    )


LATE_EFFECT = "late_effect"
"""The member of `ReadSetChanged` for an undone operation; no row changed, so writes retry."""
MAINTENANCE = "maintenance"
"""The member of `ReadSetChanged` for maintenance; no row changed, so writes retry."""
SCHEMA = "schema_contract"
"""The member of `ReadSetChanged` for another schema."""
BRANCH_IDENTIFIER = "branch_identifier:"
"""Prefix of the member for a branch that was deleted and created again; writes do not retry."""
NO_ROW_CHANGED = frozenset({LATE_EFFECT, MAINTENANCE, STAGED_FILES})


def commit_write(write: PreparedWrite, guard: FenceGuard) -> Published:
    """Commit the write, or leave no effect.

    Raises:
        ReadSetChanged: the branch moved since the write was prepared; nothing was changed.
        PreconditionFailed: the caller's expected head is not the head.
        RecoveryRequired: this or another interrupted write could not be recovered.
        UncoveredDrift: a table was moved by a foreign writer.
    """
    snapshot, plan = write.snapshot, write.plan
    with drop_forks_on_failure(write.staged):
        if list_operations(snapshot.root.store):
            resolve_all(snapshot.root, guard, snapshot.ref)
        if snapshot.ref.renamed_from is not None:
            finish_rename(snapshot.root, guard, snapshot.ref)
        newest = require_unmoved(snapshot, plan.requires.expected_head)
        _require_source(write)
        _require_sole_branch(write)
        _require_files(write)
        guard.check()
        is_announced = _is_announced(write)
        if is_announced:
            write_intent(snapshot.root.store, plan)
    if not is_announced:
        publication = plan.make_publication(write.snapshot.state, ())
        return publish(
            snapshot.root, snapshot.ref, publication, base=newest, before_commit=guard.check
        )
    with ConcurrentCalls(snapshot.root.settings.write_concurrency) as beside:
        return _apply_effects(write, guard, newest, beside)


def _is_announced(write: PreparedWrite) -> bool:
    """Return whether a write needs an intent.

    It does if it moves tables, or if the fence may expire before the publish: cleanup must then
    retain the versions, new tables and files that it refers to.
    """
    return bool(write.staged) or write.snapshot.root.lease_may_expire


def _require_files(write: PreparedWrite) -> None:
    """Raise unless all staged files of a write exist.

    Cleanup removes unreferenced files under the fence, so files that exist under it stay until the
    write has announced them.
    """
    heartbeat, schema = write.heartbeat, write.plan.changes.schema
    if heartbeat is not None:
        heartbeat.check()
    # Where the fence is a lease, a cleanup that lost it may still be about to remove what it has
    # listed. What is not listed, or only beside our heartbeat, it will never touch.
    root = write.snapshot.root
    listed: frozenset[str] = frozenset()
    if root.lease_may_expire:
        listed = list_removable_paths(root.store, None if heartbeat is None else heartbeat.path)
    for created in schema.registered if schema else ():
        is_there = is_table(root.location(created.path))
        if not is_there or created.path in listed:
            raise ReadSetChanged(STAGED_FILES, f"{created.table_key}: {created.path}", None)
    for table in write.staged:
        missing = find_missing_staged(table.transaction)
        if missing is None:
            path = table.entry.path
            names = list_staged_paths(table.transaction, is_fork=table.is_fork)
            missing = next((name for name in names if f"{path}/{name}" in listed), None)
        if missing is not None:
            raise ReadSetChanged(STAGED_FILES, f"{table.entry.table_key}: {missing}", None)


def _require_source(write: PreparedWrite) -> None:
    """Raise unless the merged state still exists; its branch may have moved.

    Called under the fence, under which nothing is cleaned up.
    """
    root, plan = write.snapshot.root, write.plan
    source, merged = plan.requires.source_branch, plan.commit.merged
    if source is not None and merged is not None:
        ref = find_ref(root.store, source)
        if ref is None:
            raise BranchNotFound(source)
        if ref.incarnation != merged.incarnation:
            member = f"{BRANCH_IDENTIFIER}{source}"
            raise ReadSetChanged(member, merged.incarnation, ref.incarnation)
    for change in plan.changes.adopted:
        path = write.snapshot.entry(change.table_key).path
        require_retained_table(root, root.location(path, change.owner_branch), change.version)


def _require_sole_branch(write: PreparedWrite) -> None:
    """Raise if another branch was created since; creating one needs the fence."""
    if not write.plan.requires.sole_branch:
        return
    names = set(list_names(write.snapshot.root.store)) - {write.snapshot.branch}
    if names:
        raise ReadSetChanged("branches", None, ", ".join(sorted(names)))


def require_unmoved(snapshot: Snapshot, expected_head: CommitId | None = None) -> ManifestSnapshot:
    """Return the newest manifest; raise if the branch moved since the snapshot."""
    ref = find_ref(snapshot.root.store, snapshot.branch)
    if ref is None:
        raise BranchNotFound(snapshot.branch)
    if ref.incarnation != snapshot.ref.incarnation:
        member = f"{BRANCH_IDENTIFIER}{snapshot.branch}"
        raise ReadSetChanged(member, snapshot.ref.incarnation, ref.incarnation)
    now = Snapshot(snapshot.root, ref, read_newest(snapshot.manifest.location, snapshot.manifest))
    before, after = snapshot.manifest.generation, now.manifest.generation
    if before != after:
        raise ReadSetChanged("graph", before.name, after.name)
    if expected_head is not None and now.head != expected_head:
        raise PreconditionFailed(snapshot.branch, expected_head, now.head)
    change = _find_first_change(snapshot, now)
    if change is None:
        return now.manifest
    if is_only_compacted(snapshot, now):
        raise ReadSetChanged(MAINTENANCE, str(snapshot.manifest_version), str(now.manifest_version))
    raise change


def _find_first_change(snapshot: Snapshot, now: Snapshot) -> ReadSetChanged | None:
    before, after = snapshot.state.contract_hash, now.state.contract_hash
    if before != after:
        return ReadSetChanged(SCHEMA, before, after)
    if now.own_head != snapshot.own_head:
        return ReadSetChanged(f"graph_head:{snapshot.branch}", snapshot.own_head, now.own_head)
    for key, entry in now.entries.items():
        seen = snapshot.entries.get(key)
        if seen != entry:
            return ReadSetChanged(f"table:{key}", str(seen and seen.version), str(entry.version))
    return None


def _apply_effects(
    write: PreparedWrite,
    guard: FenceGuard,
    newest: ManifestSnapshot,
    beside: ConcurrentCalls,
) -> Published:
    root, ref, plan = write.snapshot.root, write.snapshot.ref, write.plan
    try:
        moving = [_start_moving(table, guard, beside) for table in write.staged]
        # Which versions and how many rows there will be is known: so the publish is prepared
        # while the tables move. It becomes visible only when all of them have.
        planned = tuple(
            move.show(move.target_version, table.planned_rows, ref.incarnation)
            for move, table in zip(plan.changes.moved, write.staged, strict=True)
        )
        publication = plan.make_publication(write.snapshot.state, planned)
        prepared = prepare_publish(newest, ref, publication)
        moved = tuple(
            _commit_moved(write, *one)
            for one in zip(plan.changes.moved, write.staged, moving, strict=True)
        )
        if moved != planned:
            publication = plan.make_publication(write.snapshot.state, moved)
        published = publish(
            root,
            ref,
            publication,
            base=newest,
            prepared=prepared,
            before_commit=guard.check,
        )
    except OmniError as error:
        beside.wait()
        return _handle_failure(write, guard, error)
    _forget(write)
    return published


def _start_moving(
    table: StagedTable, guard: FenceGuard, beside: ConcurrentCalls
) -> Callable[[], CommittedVersion]:
    """Start a table commit; return the call that finishes it."""
    guard.check()
    moving = start_commit(table.transaction, beside.start)
    if not beside.is_in_turn:
        return moving.finish
    committed = moving.finish()  # a table that cannot move keeps the next one from moving
    return lambda: committed


def _commit_moved(
    write: PreparedWrite,
    move: TableMove,
    table: StagedTable,
    finish: Callable[[], CommittedVersion],
) -> SetVersion:
    committed, snapshot = finish(), write.snapshot
    snapshot.root.handles.follow(table.transaction, committed.table)
    return move.show(committed.version, committed.row_count, snapshot.ref.incarnation)


def _forget(write: PreparedWrite) -> None:
    """Remove the intent; if that fails, the next writer finds the commit and removes it.

    So the removal need not be durable if a commit is recorded. A write without a commit is
    recognized by the versions the graph shows, which may change before a later removal.
    """
    try:
        store, durably = write.snapshot.root.store, not write.plan.records_commit
        delete_intent(store, write.plan.operation_id, durably=durably)
    except StorageError:
        return


def _handle_failure(write: PreparedWrite, guard: FenceGuard, error: OmniError) -> Published:
    """Resolve a failed write of this process, which holds the fence.

    Afterwards it is either visible as a whole or undone.
    """
    try:
        resolved = resolve_intent(write.snapshot.root, guard, write.plan)
    except OmniError as trouble:
        published = _find_published(write)
        if published is not None:  # by the writer that took over the fence and recovered this write
            return published
        if isinstance(trouble, RecoveryRequired):
            raise
        if not write.staged and not isinstance(error, OutcomeUnknown):
            # It was refused, and the publish was its only effect. The holder of the fence removes
            # the intent.
            raise error from trouble
        raise RecoveryRequired(write.plan.operation_id, f"{error}; then: {trouble}") from error
    if resolved.is_published:
        published = _find_published(write)
        assert published is not None, "a write that was resolved as published can be seen"
        return published
    if isinstance(error, RetryableCommitConflict | RecoveryRequired):
        # Where it landed on top of a late effect, both are undone by now.
        raise _explain_drift(write, guard) from error
    if isinstance(error, OutcomeUnknown):
        # Known by now: should it still arrive, it is on record as ended and will be undone.
        message = f"{error.message}; the write was given up and nothing was changed"
        raise StorageFailure(StorageKind.TRANSIENT, message) from error
    raise error


def _find_published(write: PreparedWrite) -> Published | None:
    """Return the published write; None if it is not visible or the graph cannot be read."""
    plan = write.plan
    try:
        manifest = read_newest(write.snapshot.manifest.location)
        if not plan.records_commit:
            return Published(manifest, None) if is_showing_targets(manifest.state, plan) else None
        commit = History().find_commit(manifest, plan.commit.commit_id)
    except OmniError:
        return None
    return None if commit is None else Published(manifest, commit)


def _explain_drift(write: PreparedWrite, guard: FenceGuard) -> ReadSetChanged:
    """Return the error for a table ahead of the graph without a pending intent.

    Undoes late effects of ended operations.
    """
    snapshot = write.snapshot
    # Our own failure may have been undone by now, which moved tables: what counts is the graph now.
    manifest = read_newest(snapshot.manifest.location)
    owned = [table.entry.identity for table in write.staged if not table.is_fork]
    if revoke_late_effects(Snapshot(snapshot.root, snapshot.ref, manifest), owned, guard):
        return ReadSetChanged(LATE_EFFECT, None, "undone")
    return ReadSetChanged("tables", None, "moved by another writer")
