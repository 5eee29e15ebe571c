"""Recover interrupted writes: roll forward or back, and revoke effects that came too late."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from omnigraph.errors import (
    ConflictError,
    ExpectedVersionMismatch,
    ManifestCorrupt,
    OmniError,
    ReadSetChanged,
    RecoveryRequired,
    UncoveredDrift,
)
from omnigraph.identity import CommitId, OperationId, TableIdentity
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import make_intent_path
from omnigraph.storage.manifest.commit_records import (
    RECOVERY_ACTOR,
    RECOVERY_KIND,
    CommitMetadata,
    RecoveryAudit,
    RecoveryKind,
    TableOutcome,
)
from omnigraph.storage.manifest.manifest_changes import (
    ExactHead,
    Publication,
    SetVersion,
)
from omnigraph.storage.manifest.manifest_reader import History, ManifestSnapshot, read_newest
from omnigraph.storage.manifest.manifest_state import ManifestState, TableEntry
from omnigraph.storage.publish import publish
from omnigraph.storage.recovery.recovery_decision import (
    OURS,
    IntentStatus,
    ObservedTable,
    RecoveryDecision,
    RecoveryVerdict,
    TableClass,
    classify,
    decide,
    is_late,
    list_ended_operations,
    observe,
)
from omnigraph.storage.refs import MAIN_REF, BranchRef, find_branch, is_lost
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.table import is_table, open_newest, open_table
from omnigraph.storage.tables.table_branches import (
    TableVersionRecord,
    delete_branch,
    read_history,
    read_record,
)
from omnigraph.storage.tables.table_commit import restore
from omnigraph.storage.write_plan import (
    OPERATION_PROPERTY,
    TableMove,
    WritePlan,
    WriterKind,
    delete_intent,
    list_pending_intents,
)
from omnigraph.storage.writer_fence import FenceGuard

EPOCH_PROPERTY = "omnigraph.epoch"
"""The transaction property with the epoch of the guard under which a version was restored."""


def drop_created(root: GraphRoot, path: str, operation: OperationId) -> None:
    """Remove a table that an operation created and never published, on a best-effort basis."""
    try:
        if is_table(root.location(path)):
            table = open_newest(root.location(path))
            record = read_record(table, table.version)
            if record.properties.get(OPERATION_PROPERTY) == operation:
                root.store.delete_prefix(path)
    except OmniError:
        return  # unreferenced, so it is harmless garbage


_MAX_ATTEMPTS = 3
"""Attempts to recover a write whose writer is still acting."""


@dataclass(frozen=True, slots=True)
class ExaminedIntent:
    """A pending write, the observed state of its tables, and the decision."""

    plan: WritePlan
    ref: BranchRef | None
    manifest: ManifestSnapshot
    tables: tuple[ObservedTable, ...]
    verdict: RecoveryVerdict

    @property
    def classes(self) -> tuple[TableClass, ...]:
        return tuple(classify(table) for table in self.tables)


@dataclass(frozen=True, slots=True)
class ResolvedIntent:
    """The outcome of recovering one pending write."""

    operation_id: OperationId
    decision: RecoveryDecision
    commit_id: CommitId | None

    @property
    def is_published(self) -> bool:
        """True if the graph shows the write."""
        return self.decision in (RecoveryDecision.ROLL_FORWARD, RecoveryDecision.FINISH_PUBLISHED)


def examine(root: GraphRoot, plan: WritePlan) -> ExaminedIntent:
    """Observe the tables of a pending write, and decide its recovery; changes nothing.

    Raises:
        ManifestCorrupt: the intent is of another graph.
    """
    # Nothing is pending when a branch is renamed. But where the fence is a lease, a writer that
    # slept may announce its write after that, under the old name.
    ref = find_branch(root.store, plan.requires.branch, plan.requires.incarnation)
    manifest = read_newest(root.manifest(ref.incarnation if ref else None))
    _require_own(plan, manifest.state)
    if ref is None:
        lost = plan.requires.incarnation is not None and is_lost(root, plan.requires.incarnation)
        verdict = decide([], IntentStatus(is_branch_alive=False, is_branch_lost=lost))
        return ExaminedIntent(plan, None, manifest, (), verdict)
    return _judge(plan, ref, manifest, observe(root, plan, manifest))


def _judge(
    plan: WritePlan, ref: BranchRef, manifest: ManifestSnapshot, tables: tuple[ObservedTable, ...]
) -> ExaminedIntent:
    verdict = decide([classify(t) for t in tables], _decide_outlook(plan, ref, manifest))
    return ExaminedIntent(plan, ref, manifest, tables, verdict)


def _require_own(plan: WritePlan, state: ManifestState) -> None:
    """Raise unless the intent is of this graph, at whatever address."""
    if plan.requires.graph != state.graph_identity:
        path = make_intent_path(plan.operation_id)
        raise ManifestCorrupt(f"{path} belongs to another graph, which was at {plan.requires.root}")


def _decide_outlook(plan: WritePlan, ref: BranchRef, manifest: ManifestSnapshot) -> IntentStatus:
    history = History()
    head = manifest.state.head_of(ref.name, ref.incarnation)
    unchanged = (head.commit_id if head else None) == plan.requires.own_head
    unchanged = unchanged and manifest.state.contract_hash == plan.requires.contract_hash
    commits = {commit.commit_id for commit in history.commits(manifest)}
    is_published = plan.commit.commit_id in commits
    if not plan.records_commit:
        is_published = is_showing_targets(manifest.state, plan)
    rollbacks = (RecoveryKind.ROLLED_BACK, RecoveryKind.ABANDONED)
    ended = {a.operation_id for a in history.audits(manifest) if a.kind in rollbacks}
    return IntentStatus(
        is_branch_alive=True,
        is_published=is_published,
        is_rolled_back=plan.operation_id in ended,
        is_authority_unchanged=unchanged,
    )


def is_showing_targets(state: ManifestState, plan: WritePlan) -> bool:
    """Return whether the graph shows every table at exactly the version of the write."""
    pins = [(t, state.by_identity.get(t.identity)) for t in plan.changes.moved]
    return bool(pins) and all(
        pin is not None and (pin.owner_branch, pin.version) == (t.branch, t.target_version)
        for t, pin in pins
    )


def resolve_all(
    root: GraphRoot, guard: FenceGuard, branch: BranchRef | None = None
) -> list[ResolvedIntent]:
    """Recover every pending write, oldest first; return the outcomes.

    With `branch`, a write to another branch that cannot be recovered is skipped: its tables are
    not written here.

    Raises:
        RecoveryRequired: one cannot be recovered without destroying data.
    """
    resolved = []
    for plan in list_pending_intents(root.store):
        try:
            resolved.append(resolve_intent(root, guard, plan))
        except RecoveryRequired:
            if branch is None or _list_concerns(plan, branch):
                raise
    return resolved


def _list_concerns(plan: WritePlan, branch: BranchRef) -> bool:
    is_for_all = plan.writer_kind is WriterKind.SCHEMA_APPLY
    return is_for_all or plan.requires.incarnation == branch.incarnation


def resolve_intent(root: GraphRoot, guard: FenceGuard, plan: WritePlan) -> ResolvedIntent:
    """Recover one pending write: roll it forward or back.

    Where the fence is a lease, a suspended writer may resume and publish it, if that was the
    only step left. A decision is valid only for the manifest it was made on, so then the write
    is examined again.
    """
    for remaining in reversed(range(_MAX_ATTEMPTS)):
        try:
            return _carry_out(root, guard, examine(root, plan))
        except (ReadSetChanged, ExpectedVersionMismatch):
            guard.check()  # who lost it leaves the rest to others
            if not remaining:
                raise
    raise AssertionError("the last look returns or raises")


def give_up(root: GraphRoot, guard: FenceGuard, plan: WritePlan) -> None:
    """Record a write without effects as abandoned, unless its end is recorded already.

    If its writer resumes later, it cannot publish, and its table versions are recognized as late
    effects. On a deleted branch they are unreachable, so that needs no record.

    Raises:
        ManifestCorrupt: it is a write to another graph.
    """
    ref = find_branch(root.store, plan.requires.branch, plan.requires.incarnation)
    if ref is None:
        return
    manifest = read_newest(root.manifest(ref.incarnation))
    _require_own(plan, manifest.state)
    found = _judge(plan, ref, manifest, ())
    if found.verdict.decision is RecoveryDecision.ABANDON:
        _make_record(root, guard, found, RecoveryKind.ABANDONED)


def _carry_out(root: GraphRoot, guard: FenceGuard, found: ExaminedIntent) -> ResolvedIntent:
    plan, decision = found.plan, found.verdict.decision
    commit_id: CommitId | None = None
    match decision:
        case RecoveryDecision.REFUSE:
            raise RecoveryRequired(plan.operation_id, found.verdict.reason)
        case RecoveryDecision.FINISH_PUBLISHED:
            commit_id = plan.commit.commit_id if plan.records_commit else None
        case RecoveryDecision.FINISH_ROLLED_BACK:
            _drop_unshown(root, guard, plan)
        case RecoveryDecision.DISCARD_BRANCH:
            _discard(root, guard, plan)
        case RecoveryDecision.ABANDON:
            _make_record(root, guard, found, RecoveryKind.ABANDONED)
            _drop_unshown(root, guard, plan)
        case RecoveryDecision.ROLL_FORWARD:
            commit_id = _roll_forward(root, guard, found)
        case RecoveryDecision.ROLL_BACK:
            commit_id = _roll_back(root, guard, found)
        case _:
            assert_never(decision)
    guard.check()
    delete_intent(root.store, plan.operation_id)
    return ResolvedIntent(plan.operation_id, decision, commit_id)


def _roll_forward(root: GraphRoot, guard: FenceGuard, found: ExaminedIntent) -> CommitId | None:
    """Publish the plan of the write, under its own commit id, actor and time."""
    plan, ref = found.plan, found.ref
    assert ref is not None, "rolling forward needs the branch"
    moves, commit = plan.changes.moved, plan.recorded_commit
    commit_id = commit.commit_id if commit else None
    outcomes = tuple(TableOutcome(t.table_key, t.base_version, t.target_version) for t in moves)
    audit = _make_audit(root, plan, RecoveryKind.ROLLED_FORWARD, commit_id, outcomes)
    moved = tuple(make_version_change(root, t, ref, t.target_version) for t in moves)
    publication = plan.make_publication(found.manifest.state, moved, (audit,))
    publish(root, ref, publication, before_commit=guard.check)
    return commit_id


def _roll_back(root: GraphRoot, guard: FenceGuard, found: ExaminedIntent) -> CommitId:
    """Undo every effect and publish the restored tables, so that graph and tables agree.

    Forks are dropped: no version shows them. A restore by an earlier attempt is recognized and not
    repeated.
    """
    plan, ref = found.plan, found.ref
    assert ref is not None, "rolling back needs the branch"
    undone = [t for t in found.tables if not t.move.is_fork and classify(t) in OURS]
    changes: list[SetVersion] = []
    outcomes: list[TableOutcome] = []
    for table in undone:
        assert table.pin is not None, "an effect of ours on a table the graph does not show"
        restored = _restore_table(root, guard, plan, table, table.pin)
        changes.append(make_version_change(root, table.move, ref, restored))
        outcomes.append(TableOutcome(table.move.table_key, table.move.target_version, table.pin))
    commit = CommitMetadata(
        commit_id=plan.rollback_commit_id,
        actor_id=RECOVERY_ACTOR,
        created_at=plan.commit.created_at,
        kind=RECOVERY_KIND,
    )
    audit = _make_audit(root, plan, RecoveryKind.ROLLED_BACK, commit.commit_id, tuple(outcomes))
    publication = Publication(
        changes=tuple(changes),
        expected=found.manifest.state.list_pins(t.move.identity for t in undone),
        head=_get_exact_head(found, ref),
        commit=commit,
        audits=(audit,),
    )
    publish(root, ref, publication, before_commit=guard.check)
    _drop_unshown(root, guard, plan)
    return commit.commit_id


def _restore_table(
    root: GraphRoot, guard: FenceGuard, plan: WritePlan, table: ObservedTable, pin: int
) -> int:
    assert table.head is not None, "a table of ours has a head"
    if classify(table) is TableClass.COMPENSATED:
        return table.head
    guard.check()
    return restore(
        root.location(table.move.path, table.move.branch),
        pin,
        properties={OPERATION_PROPERTY: plan.operation_id},
    )


def make_version_change(
    root: GraphRoot, table: TableMove, ref: BranchRef, version: int
) -> SetVersion:
    """Return the change that shows this version of a table, with its row count."""
    opened = open_table(root.location(table.path, table.branch), version)
    return table.show(version, opened.count_rows(), ref.incarnation)


def _discard(root: GraphRoot, guard: FenceGuard, plan: WritePlan) -> None:
    """Record on `main` that a write of a deleted branch was discarded."""
    kind = RecoveryKind.ORPHANED_BRANCH_DISCARDED
    manifest = read_newest(root.manifest())
    if not _is_recorded(manifest, plan, kind):
        publication = Publication(audits=(_make_audit(root, plan, kind, None, ()),))
        publish(root, MAIN_REF, publication, before_commit=guard.check)
    _drop_unshown(root, guard, plan)


def _make_record(
    root: GraphRoot, guard: FenceGuard, found: ExaminedIntent, kind: RecoveryKind
) -> None:
    """Record that a write ended unpublished; the manifest moves, so it cannot publish later."""
    plan, ref = found.plan, found.ref
    assert ref is not None, "recording needs the branch"
    publication = Publication(
        expected=found.manifest.state.list_pins(one.identity for one in plan.changes.shown),
        head=_get_exact_head(found, ref),
        audits=(_make_audit(root, plan, kind, None, ()),),
    )
    publish(root, ref, publication, before_commit=guard.check)


def _get_exact_head(found: ExaminedIntent, ref: BranchRef) -> ExactHead:
    """Return the head at which the write was examined."""
    head = found.manifest.state.head_of(ref.name, ref.incarnation)
    return ExactHead(head.commit_id if head else None)


def _is_recorded(manifest: ManifestSnapshot, plan: WritePlan, kind: RecoveryKind) -> bool:
    audits = History().audits(manifest)
    return any(a.operation_id == plan.operation_id and a.kind is kind for a in audits)


def _make_audit(
    root: GraphRoot,
    plan: WritePlan,
    kind: RecoveryKind,
    commit_id: CommitId | None,
    outcomes: tuple[TableOutcome, ...],
) -> RecoveryAudit:
    return RecoveryAudit(
        operation_id=plan.operation_id,
        kind=kind,
        writer_kind=plan.writer_kind,
        commit_id=commit_id,
        actor_id=plan.commit.actor_id,
        tables=outcomes,
        created_at=root.now_us(),
    )


def _drop_unshown(root: GraphRoot, guard: FenceGuard, plan: WritePlan) -> None:
    """Remove the forks and new tables of a write that is not published.

    A failed removal leaves an orphan for cleanup.
    """
    for created in plan.changes.schema.registered if plan.changes.schema else ():
        guard.check()
        drop_created(root, created.path, plan.operation_id)
    for table in plan.changes.moved:
        if table.is_fork and table.branch is not None:
            guard.check()
            try:
                delete_branch(root.location(table.path), table.branch)
            except ConflictError:
                continue


def revoke_late_effects(
    snapshot: Snapshot, identities: Iterable[TableIdentity], guard: FenceGuard
) -> bool:
    """Restore these tables to the newest snapshot; return whether any was ahead of it.

    Raises:
        UncoveredDrift: a version is not a late effect of an ended operation; its table is left
            unchanged.
    """
    is_any_ahead = False
    for entry in [snapshot.state.by_identity[identity] for identity in identities]:
        location = snapshot.location(entry)
        history = read_history(location, entry.version + 1)
        if not history:
            continue
        if not has_only_late_effects(snapshot, history):
            guard.check()  # who lost it may have met a writer at work
            raise UncoveredDrift(entry.table_key, entry.version, history[-1].version)
        _undo(snapshot, entry, history, guard)
        is_any_ahead = True
    return is_any_ahead


def has_only_late_effects(snapshot: Snapshot, history: Sequence[TableVersionRecord]) -> bool:
    """Return whether all these versions are late effects of ended operations."""
    ended = list_ended_operations(snapshot.manifest)
    return all(is_late(record, ended) for record in history)


def _list_operations(history: Sequence[TableVersionRecord]) -> set[str]:
    """Return the operations of these versions; an empty one for foreign versions."""
    return {record.properties.get(OPERATION_PROPERTY, "") for record in history}


def _undo(
    snapshot: Snapshot, entry: TableEntry, history: Sequence[TableVersionRecord], guard: FenceGuard
) -> None:
    operations = sorted(_list_operations(history))
    # The restore belongs to an ended operation too: after a crash before the publish, the next
    # recovery finds only versions of ended operations, and restores again.
    properties = {OPERATION_PROPERTY: operations[-1], EPOCH_PROPERTY: str(guard.epoch)}
    location = snapshot.location(entry)
    guard.check()
    restored = restore(location, entry.version, properties=properties)
    change = SetVersion(
        entry.identity,
        entry.table_key,
        restored,
        entry.owner_branch,
        entry.row_count,
        entry.owner,
    )
    outcome = TableOutcome(entry.table_key, history[-1].version, entry.version)
    now = snapshot.root.now_us()
    publication = Publication(
        changes=(change,),
        expected={entry.identity: (entry.table_key, entry.version)},
        audits=tuple(_make_revocation_audit(OperationId(one), outcome, now) for one in operations),
    )
    publish(snapshot.root, snapshot.ref, publication, before_commit=guard.check)


def _make_revocation_audit(
    operation: OperationId, outcome: TableOutcome, now_us: int
) -> RecoveryAudit:
    kind = RecoveryKind.REVOKED_EFFECT
    return RecoveryAudit(operation, kind, "", None, None, (outcome,), now_us)
