"""Commit a write under the fence: from taking it to removing the intent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

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
from omnigraph.storage.manifest.commits import RowCounts
from omnigraph.storage.manifest.manifest_changes import (
    ExactHead,
    Publication,
    SchemaChange,
    SetVersion,
)
from omnigraph.storage.manifest.manifest_reader import History, ManifestSnapshot, read_newest
from omnigraph.storage.manifest.manifest_state import TableEntry
from omnigraph.storage.orphans import list_removable_paths, require_retained_table
from omnigraph.storage.publish import Published, prepare_publish, publish
from omnigraph.storage.recovery.intents import (
    Intent,
    TableIntent,
    WriterKind,
    delete_intent,
    write_intent,
)
from omnigraph.storage.recovery.recover_writes import (
    hash_contract,
    is_showing_targets,
    resolve_all,
    resolve_intent,
    revoke_late_effects,
)
from omnigraph.storage.refs import find_ref, list_names
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import Merging, StagedTable, Ticket, drop_forks_on_failure
from omnigraph.storage.tables.commit import CommittedVersion, start_commit
from omnigraph.storage.tables.fragments import STAGED_FILES
from omnigraph.storage.tables.missing_files import find_missing_staged, list_staged_paths
from omnigraph.storage.tables.table import is_table, open_table
from omnigraph.storage.tables.table_versions import RESERVE_FRAGMENTS, read_record
from omnigraph.storage.writer_fence import FenceGuard

MAX_VERSIONS_COMPARED = 64
"""So many versions of a table are looked through; after more of them, others wrote as well."""

COMPACTING_OPERATIONS = frozenset({"Rewrite", "CreateIndex", "UpdateConfig", RESERVE_FRAGMENTS})
"""Operations that leave every row, its row id and its row versions as they were."""


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
"""What changed when an ended operation was undone. No row did: any write may be redone."""
MAINTENANCE = "maintenance"
"""What changed when there was only maintenance. No row did: any write may be redone."""
SCHEMA = "schema_contract"
"""What changed when the branch got another schema."""
BRANCH_IDENTIFIER = "branch_identifier:"
"""Before the name of a branch that was deleted and made again: no write follows it there."""
NO_ROW_CHANGED = frozenset({LATE_EFFECT, MAINTENANCE, STAGED_FILES})


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A prepared write: on what it was prepared, and what it will change."""

    snapshot: Snapshot
    ticket: Ticket
    kind: WriterKind
    tables: tuple[StagedTable, ...]
    actor_id: str | None = None
    expected_head: CommitId | None = None
    records_commit: bool = True
    """Whether the history gets a commit for it; maintenance may do without."""
    adopted: tuple[SetVersion, ...] = ()
    """Versions that are there already and that the graph shall show from now on."""
    origin: str | None = None
    """What a writer that may repeat itself calls the change; kept with the commit."""
    merged_parent: CommitId | None = None
    """The commit of another branch that the change brings in."""
    details: Mapping[str, object] = field(default_factory=dict)
    """What else is kept with the commit; values of JSON."""
    merging: Merging | None = None
    """What a merge brings in besides rows."""
    schema: SchemaChange | None = None
    """Another schema for the branch."""
    needs_sole_branch: bool = False
    """Whether it must not be published while there are other branches."""
    counts: tuple[RowCounts, ...] = ()
    """How many rows of which tables change; kept with the commit."""


def commit_write(request: WriteRequest, guard: FenceGuard) -> Published:
    """Make the write visible, or leave nothing of it.

    Raises:
        ReadSetChanged: the branch moved since the write was prepared; nothing was changed.
        PreconditionFailed: the caller's expected head is not the head.
        RecoveryRequired: an interrupted write, this one or another, could not be resolved.
        UncoveredDrift: a table was moved by something that is no writer of ours.
    """
    snapshot, intent = request.snapshot, _make_intent(request)
    with drop_forks_on_failure(request.tables):
        resolve_all(snapshot.root, guard, snapshot.ref)
        if snapshot.ref.renamed_from is not None:
            finish_rename(snapshot.root, guard, snapshot.ref)
        newest = require_unmoved(snapshot, request.expected_head)
        _require_source(request)
        _require_sole_branch(request)
        _require_files(request)
        guard.check()
        is_announced = _is_announced(request)
        if is_announced:
            write_intent(snapshot.root.store, intent)
    if not is_announced:
        publication = _make_publication(request, intent, ())
        return publish(
            snapshot.root, snapshot.ref, publication, base=newest, before_commit=guard.check
        )
    with ConcurrentCalls(snapshot.root.settings.write_concurrency) as beside:
        return _apply_effects(request, guard, intent, newest, beside)


def _is_announced(request: WriteRequest) -> bool:
    """Return whether it needs an intent: others must know of it before it is visible.

    Because tables move, or because we may sleep before the publish, and what it shows must not be
    cleaned away meanwhile: a version of another branch, a new table, its own file.
    """
    return bool(request.tables) or request.snapshot.root.lease_may_expire


def _require_files(request: WriteRequest) -> None:
    """Raise unless everything the write has staged is there.

    Asked under the fence: cleanup removes what nothing refers to under it as well, so what is there
    now stays until the write has announced it.
    """
    heartbeat = request.ticket.heartbeat
    if heartbeat is not None:
        heartbeat.check()
    # Where the fence is a lease, a cleanup that lost it may still be about to remove what it has
    # listed. What is not listed, or only beside our heartbeat, it will never touch.
    root = request.snapshot.root
    listed: frozenset[str] = frozenset()
    if root.lease_may_expire:
        listed = list_removable_paths(root.store, None if heartbeat is None else heartbeat.path)
    for created in request.schema.registered if request.schema else ():
        is_there = is_table(root.location(created.path))
        if not is_there or created.path in listed:
            raise ReadSetChanged(STAGED_FILES, f"{created.table_key}: {created.path}", None)
    for table in request.tables:
        missing = find_missing_staged(table.transaction)
        if missing is None:
            path = table.entry.path
            names = list_staged_paths(table.transaction, is_fork=table.is_fork)
            missing = next((name for name in names if f"{path}/{name}" in listed), None)
        if missing is not None:
            raise ReadSetChanged(STAGED_FILES, f"{table.entry.table_key}: {missing}", None)


def _require_source(request: WriteRequest) -> None:
    """Raise unless what is brought in is still there; its branch may have moved on meanwhile.

    Looked at under the fence: nothing is cleaned away while it is held.
    """
    root = request.snapshot.root
    if request.merging is not None:
        source = request.merging.source
        ref = find_ref(root.store, source.branch)
        if ref is None:
            raise BranchNotFound(source.branch)
        if ref.incarnation != source.ref.incarnation:
            member = f"{BRANCH_IDENTIFIER}{source.branch}"
            raise ReadSetChanged(member, source.ref.incarnation, ref.incarnation)
    for change in request.adopted:
        path = request.snapshot.entry(change.table_key).path
        require_retained_table(root, root.location(path, change.owner_branch), change.version)


def _require_sole_branch(request: WriteRequest) -> None:
    """Raise if another branch was made meanwhile. Making one takes the fence, which we hold."""
    if not request.needs_sole_branch:
        return
    names = set(list_names(request.snapshot.root.store)) - {request.snapshot.branch}
    if names:
        raise ReadSetChanged("branches", None, ", ".join(sorted(names)))


def require_unmoved(snapshot: Snapshot, expected_head: CommitId | None = None) -> ManifestSnapshot:
    """The newest manifest; raises unless the branch still is what the snapshot saw."""
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
    before, after = hash_contract(snapshot.state), hash_contract(now.state)
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
    request: WriteRequest,
    guard: FenceGuard,
    intent: Intent,
    newest: ManifestSnapshot,
    beside: ConcurrentCalls,
) -> Published:
    root, ref = request.snapshot.root, request.snapshot.ref
    try:
        moving = [_start_moving(table, guard, beside) for table in request.tables]
        # Which versions and how many rows there will be is known: so the publish is prepared
        # while the tables move. It becomes visible only when all of them have.
        planned = _plan_state(request)
        publication = _make_publication(request, intent, planned)
        prepared = prepare_publish(newest, ref, publication)
        moved = tuple(
            _commit_moved(request, *one) for one in zip(request.tables, moving, strict=True)
        )
        if moved != planned:
            publication = _make_publication(request, intent, moved)
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
        return _handle_failure(request, guard, intent, error)
    _forget(request, intent)
    return published


def _start_moving(
    table: StagedTable, guard: FenceGuard, beside: ConcurrentCalls
) -> Callable[[], CommittedVersion]:
    """Start a table commit; the call returned finishes it."""
    guard.check()
    moving = start_commit(table.transaction, beside.start)
    if not beside.is_in_turn:
        return moving.finish
    committed = moving.finish()  # a table that cannot move keeps the next one from moving
    return lambda: committed


def _commit_moved(
    request: WriteRequest, table: StagedTable, finish: Callable[[], CommittedVersion]
) -> SetVersion:
    committed = finish()
    request.snapshot.root.handles.follow(table.transaction, committed.table)
    return _make_shown_change(request, table, committed.version, committed.row_count)


def _plan_state(request: WriteRequest) -> tuple[SetVersion, ...]:
    """Predict the versions the tables will be published at."""
    return tuple(
        _make_shown_change(request, table, table.transaction.target_version, table.planned_rows)
        for table in request.tables
    )


def _make_shown_change(
    request: WriteRequest, table: StagedTable, version: int, row_count: int
) -> SetVersion:
    entry, schema = table.entry, request.schema
    return SetVersion(
        entry.identity,
        schema.name_after(entry.identity, entry.table_key) if schema else entry.table_key,
        version,
        table.transaction.location.branch,
        row_count,
        request.snapshot.ref.incarnation,
    )


def _forget(request: WriteRequest, intent: Intent) -> None:
    """Remove the intent; should that fail, the next writer sees the commit and removes it.

    For the same reason a recorded commit need not wait until the removal would survive a power cut.
    What records none is told by the versions the graph shows, which may change before the next
    write makes the removal durable.
    """
    try:
        store, durably = request.snapshot.root.store, not request.records_commit
        delete_intent(store, intent.operation_id, durably=durably)
    except StorageError:
        return


def _handle_failure(
    request: WriteRequest, guard: FenceGuard, intent: Intent, error: OmniError
) -> Published:
    """Resolve our own failed write at once: we hold the fence and know that it is over.

    The outcome is then definite: either it is visible after all, or nothing of it is left.
    """
    try:
        resolved = resolve_intent(request.snapshot.root, guard, intent)
    except OmniError as trouble:
        published = _find_published(request, intent)
        if published is not None:  # by whoever took the fence from us and finished our write
            return published
        if isinstance(trouble, RecoveryRequired):
            raise
        if not request.tables and not isinstance(error, OutcomeUnknown):
            # It was refused, and the publish was all it had to do. Whoever has the fence now gives
            # up what was announced.
            raise error from trouble
        raise RecoveryRequired(intent.operation_id, f"{error}; then: {trouble}") from error
    if resolved.is_published:
        published = _find_published(request, intent)
        assert published is not None, "a write that was resolved as published can be seen"
        return published
    if isinstance(error, RetryableCommitConflict | RecoveryRequired):
        # Where it landed on top of a late effect, both are undone by now.
        raise _explain_drift(request, guard) from error
    if isinstance(error, OutcomeUnknown):
        # Known by now: should it still arrive, it is on record as ended and will be undone.
        message = f"{error.message}; the write was given up and nothing was changed"
        raise StorageFailure(StorageKind.TRANSIENT, message) from error
    raise error


def _find_published(request: WriteRequest, intent: Intent) -> Published | None:
    """The write as the graph shows it; None if it does not, or cannot be read."""
    try:
        manifest = read_newest(request.snapshot.manifest.location)
        if not intent.records_commit:
            return Published(manifest, None) if is_showing_targets(manifest.state, intent) else None
        commit = History().find_commit(manifest, request.ticket.commit_id)
    except OmniError:
        return None
    return None if commit is None else Published(manifest, commit)


def _explain_drift(request: WriteRequest, guard: FenceGuard) -> ReadSetChanged:
    """Why a table was ahead of the graph although no intent was pending.

    Late effects of ended operations are undone on the way.
    """
    snapshot = request.snapshot
    # Our own failure may have been undone by now, which moved tables: what counts is the graph now.
    manifest = read_newest(snapshot.manifest.location)
    owned = [table.entry.identity for table in request.tables if not table.is_fork]
    if revoke_late_effects(Snapshot(snapshot.root, snapshot.ref, manifest), owned, guard):
        return ReadSetChanged(LATE_EFFECT, None, "undone")
    return ReadSetChanged("tables", None, "moved by another writer")


def _make_publication(
    request: WriteRequest, intent: Intent, changes: tuple[SetVersion, ...]
) -> Publication:
    entries = [table.entry for table in request.tables]
    entries += [request.snapshot.entry(change.table_key) for change in request.adopted]
    schema = request.schema
    if schema is not None:
        shown = request.snapshot.state.by_identity
        entries += [shown[identity] for identity in schema.concerned]
    return Publication(
        changes=(*(schema.changes if schema else ()), *changes, *request.adopted),
        expected={e.identity: (e.table_key, e.version) for e in entries},
        head=ExactHead(request.snapshot.own_head),
        commit=intent.new_commit,
        contract=schema.contract if schema else None,
        history=intent.history,
    )


def _make_intent(request: WriteRequest) -> Intent:
    snapshot, ticket, merging = request.snapshot, request.ticket, request.merging
    return Intent(
        operation_id=ticket.operation_id,
        root=snapshot.root.store.identity,
        writer_kind=request.kind,
        branch=snapshot.branch,
        incarnation=snapshot.ref.incarnation,
        tables=tuple(_make_table_intent(table) for table in request.tables),
        commit_id=ticket.commit_id,
        rollback_commit_id=ticket.rollback_commit_id,
        actor_id=request.actor_id,
        created_at=ticket.created_at,
        own_head=snapshot.own_head,
        contract_hash=hash_contract(snapshot.state),
        records_commit=request.records_commit,
        origin=request.origin,
        merged_parent_commit_id=request.merged_parent,
        details=dict(request.details),
        graph=snapshot.state.graph_identity,
        adopted=request.adopted,
        merged=merging.state if merging else None,
        history=merging.history if merging else (),
        schema=request.schema,
        counts=request.counts,
    )


def _make_table_intent(table: StagedTable) -> TableIntent:
    return TableIntent(
        identity=table.entry.identity,
        table_key=table.entry.table_key,
        path=table.entry.path,
        branch=table.transaction.location.branch,
        base_version=table.transaction.read_version,
        transaction=table.transaction.uuid,
        is_fork=table.is_fork,
    )
