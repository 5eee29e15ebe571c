"""The effect window: from holding the fence to removing the intent.

Everything before it only prepares: rows are checked and written to files nobody references. In
the window the write is announced, each table is moved by exactly one version, and one publish
makes all of it visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from omnigraph.errors import (
    BranchNotFound,
    OmniError,
    PreconditionFailed,
    ReadSetChanged,
    RecoveryRequired,
    RetryableCommitConflict,
    StorageError,
    UncoveredDrift,
)
from omnigraph.identity import CommitId, OperationId
from omnigraph.storage.fence.hold import Hold
from omnigraph.storage.manifest.changes import ExactHead, NewCommit, Publication, SetVersion
from omnigraph.storage.manifest.commits import RecoveryAudit, RecoveryKind, TableOutcome
from omnigraph.storage.manifest.read import History, read_newest
from omnigraph.storage.manifest.state import TableEntry
from omnigraph.storage.publish import Published, publish
from omnigraph.storage.recovery.decide import Decision
from omnigraph.storage.recovery.intent import (
    EPOCH_PROPERTY,
    OPERATION_PROPERTY,
    Intent,
    TableIntent,
    WriterKind,
    delete_intent,
    write_intent,
)
from omnigraph.storage.recovery.settle import Settled, contract_hash, settle, settle_all
from omnigraph.storage.refs import BranchRef, find_ref
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.branches import create_branch, delete_branch
from omnigraph.storage.tables.commit import commit_exact, restore
from omnigraph.storage.tables.handle import Table
from omnigraph.storage.tables.history import read_history
from omnigraph.storage.tables.stage import StagedTransaction

ENDED = frozenset(
    {
        RecoveryKind.ROLLED_BACK,
        RecoveryKind.ABANDONED,
        RecoveryKind.ORPHANED_BRANCH_DISCARDED,
        RecoveryKind.REVOKED_EFFECT,
    }
)
"""Ways in which an operation ended without its effects becoming visible."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The ids of one write, minted before anything of it is written."""

    operation_id: OperationId
    commit_id: CommitId
    rollback_commit_id: CommitId
    created_at: int

    @property
    def properties(self) -> dict[str, str]:
        """What every table transaction of the write carries, to be found by after a crash."""
        return {OPERATION_PROPERTY: self.operation_id}


def mint_ticket(snapshot: Snapshot) -> Ticket:
    operation, commit, rollback = snapshot.root.ids.take(3)
    now = snapshot.root.now_us()
    return Ticket(OperationId(operation), CommitId(commit), CommitId(rollback), now)


@dataclass(frozen=True, slots=True)
class StagedTable:
    """One table of a write: where it stood, and the transaction that moves it."""

    entry: TableEntry
    transaction: StagedTransaction
    is_fork: bool


@dataclass(frozen=True, slots=True)
class Writable:
    """A table a branch may write: its own, or a fresh fork of an inherited one."""

    entry: TableEntry
    table: Table
    is_fork: bool


def open_writable(snapshot: Snapshot, entry: TableEntry) -> Writable:
    """The table at its pinned version, forked first if this branch only inherited it.

    A fork has a name of its own that nothing refers to until the write is published, so one left
    behind by a crash is garbage and harms nobody.
    """
    if entry.owner == snapshot.ref.incarnation:
        return Writable(entry, snapshot.root.open_entry(entry), is_fork=False)
    location = snapshot.root.location(entry.path)
    name = snapshot.root.ids.next()
    forked = create_branch(location, name, entry.owner_branch, entry.version)
    return Writable(entry, forked, is_fork=True)


def drop_forks(snapshot: Snapshot, tables: Sequence[StagedTable]) -> None:
    """Remove the forks of a write that was given up before it was announced, as far as possible."""
    for table in tables:
        branch = table.transaction.location.branch
        if table.is_fork and branch is not None:
            try:
                delete_branch(snapshot.root.location(table.entry.path), branch)
            except OmniError:
                continue


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A prepared write: on what it was prepared, and what it will change."""

    snapshot: Snapshot
    ticket: Ticket
    kind: WriterKind
    tables: tuple[StagedTable, ...]
    actor_id: str | None = None
    expected_head: CommitId | None = None


def commit_write(request: WriteRequest) -> Published:
    """Make the write visible, or leave nothing of it.

    Raises:
        ReadSetChanged: the branch moved since the write was prepared; nothing was changed.
        PreconditionFailed: the caller's expected head is not the head.
        RecoveryRequired: an interrupted write, this one or another, could not be settled.
        UncoveredDrift: a table was moved by something that is no writer of ours.
    """
    root = request.snapshot.root
    with root.hold() as hold:
        settle_all(root, hold)
        revalidate(request.snapshot, request.expected_head)
        if not request.tables:
            return publish(
                root, request.snapshot.ref, _publication(request, ()), before_commit=hold.check
            )
        return _effects(request, hold)


def revalidate(snapshot: Snapshot, expected_head: CommitId | None = None) -> None:
    """Raise unless the branch still is what the snapshot saw."""
    ref = find_ref(snapshot.root.store, snapshot.branch)
    if ref is None:
        raise BranchNotFound(snapshot.branch)
    if ref.incarnation != snapshot.ref.incarnation:
        member = f"branch_identifier:{snapshot.branch}"
        raise ReadSetChanged(member, snapshot.ref.incarnation, ref.incarnation)
    now = Snapshot(snapshot.root, ref, read_newest(snapshot.manifest.location, snapshot.manifest))
    if expected_head is not None and now.head != expected_head:
        raise PreconditionFailed(snapshot.branch, expected_head, now.head)
    if now.own_head != snapshot.own_head:
        raise ReadSetChanged(f"graph_head:{snapshot.branch}", snapshot.own_head, now.own_head)
    before, after = contract_hash(snapshot.state), contract_hash(now.state)
    if before != after:
        raise ReadSetChanged("schema_contract", before, after)
    for key, entry in now.entries.items():
        seen = snapshot.entries.get(key)
        if seen != entry:
            raise ReadSetChanged(f"table:{key}", str(seen and seen.version), str(entry.version))


def _effects(request: WriteRequest, hold: Hold) -> Published:
    root, intent = request.snapshot.root, _intent(request)
    hold.check()
    write_intent(root.store, intent)
    changes: list[SetVersion] = []
    try:
        for table in request.tables:
            hold.check()
            changes.append(_move(request.snapshot.ref, table))
        published = publish(
            root,
            request.snapshot.ref,
            _publication(request, tuple(changes)),
            warm=request.snapshot.manifest,
            before_commit=hold.check,
        )
    except OmniError as error:
        return _after_failure(request, hold, intent, error)
    _forget(request, intent)
    return published


def _move(ref: BranchRef, table: StagedTable) -> SetVersion:
    committed = commit_exact(table.transaction)
    return SetVersion(
        table.entry.identity,
        table.entry.table_key,
        committed.version,
        table.transaction.location.branch,
        committed.row_count,
        ref.incarnation,
    )


def _forget(request: WriteRequest, intent: Intent) -> None:
    """Remove the intent; should that fail, the next writer sees the commit and removes it."""
    try:
        delete_intent(request.snapshot.root.store, intent.operation_id)
    except StorageError:
        return


def _after_failure(
    request: WriteRequest, hold: Hold, intent: Intent, error: OmniError
) -> Published:
    """Settle our own failed write at once: we hold the fence and know that it is over.

    The outcome is then definite: either it is visible after all, or nothing of it is left.
    """
    root = request.snapshot.root
    try:
        settled = settle(root, hold, intent)
    except RecoveryRequired:
        raise
    except OmniError as trouble:
        raise RecoveryRequired(intent.operation_id, f"{error}; then: {trouble}") from error
    if settled.commit_id == intent.commit_id:
        return _found(request, settled)
    if isinstance(error, RetryableCommitConflict):
        raise _explain_drift(request, hold) from error
    raise error


def _found(request: WriteRequest, settled: Settled) -> Published:
    assert settled.decision in (Decision.ROLL_FORWARD, Decision.FINISH_PUBLISHED)
    snapshot = request.snapshot
    manifest = read_newest(snapshot.manifest.location)
    commit = History().find_commit(manifest, request.ticket.commit_id)
    return Published(manifest, commit)


def _explain_drift(request: WriteRequest, hold: Hold) -> OmniError:
    """Why a table was ahead of the graph although no intent was pending.

    A late effect of a writer that lost its fence is undone here: its operation is on record as
    ended without success, so nobody can be waiting for it.
    """
    for table in request.tables:
        if table.is_fork:
            continue
        problem = revoke_late_effects(request.snapshot, table.entry, hold)
        if problem is not None:
            return problem
    return ReadSetChanged("tables", None, "moved by another writer")


def revoke_late_effects(snapshot: Snapshot, entry: TableEntry, hold: Hold) -> UncoveredDrift | None:
    """Undo versions of ended operations that arrived late; give the drift that is not theirs."""
    root = snapshot.root
    location = root.location(entry.path, entry.owner_branch)
    history = read_history(location, entry.version + 1)
    if not history:
        return None
    manifest = read_newest(snapshot.manifest.location)
    ended = {a.operation_id for a in History().audits(manifest) if a.kind in ENDED}
    operations = {record.properties.get(OPERATION_PROPERTY, "") for record in history}
    if not operations <= ended:
        return UncoveredDrift(entry.table_key, entry.version, history[-1].version)
    hold.check()
    restored = restore(
        location, entry.version, uuid=str(uuid4()), properties={EPOCH_PROPERTY: str(hold.epoch)}
    )
    operation = OperationId(max(operations))
    outcome = TableOutcome(entry.table_key, history[-1].version, entry.version)
    audit = RecoveryAudit(
        operation, RecoveryKind.REVOKED_EFFECT, "", None, None, (outcome,), root.now_us()
    )
    change = SetVersion(
        entry.identity,
        entry.table_key,
        restored,
        entry.owner_branch,
        entry.row_count,
        entry.owner,
    )
    expected = {entry.identity: (entry.table_key, entry.version)}
    publication = Publication(changes=(change,), expected=expected, audits=(audit,))
    publish(root, snapshot.ref, publication, warm=manifest, before_commit=hold.check)
    return None


def _publication(request: WriteRequest, changes: tuple[SetVersion, ...]) -> Publication:
    entries = [table.entry for table in request.tables]
    return Publication(
        changes=changes,
        expected={e.identity: (e.table_key, e.version) for e in entries},
        head=ExactHead(request.snapshot.own_head),
        commit=NewCommit(request.ticket.commit_id, request.actor_id, request.ticket.created_at),
    )


def _intent(request: WriteRequest) -> Intent:
    snapshot, ticket = request.snapshot, request.ticket
    return Intent(
        operation_id=ticket.operation_id,
        root=snapshot.root.store.identity,
        writer_kind=request.kind,
        branch=snapshot.branch,
        incarnation=snapshot.ref.incarnation,
        tables=tuple(_table_intent(table) for table in request.tables),
        commit_id=ticket.commit_id,
        rollback_commit_id=ticket.rollback_commit_id,
        actor_id=request.actor_id,
        created_at=ticket.created_at,
        own_head=snapshot.own_head,
        contract_hash=contract_hash(snapshot.state),
    )


def _table_intent(table: StagedTable) -> TableIntent:
    return TableIntent(
        identity=table.entry.identity,
        table_key=table.entry.table_key,
        path=table.entry.path,
        branch=table.transaction.location.branch,
        base_version=table.transaction.read_version,
        transaction=table.transaction.uuid,
        is_fork=table.is_fork,
    )
