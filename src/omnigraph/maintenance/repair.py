"""Repair a graph: accept tables that another program advanced, quarantine unreadable intents.

A table of `main` whose newest version is not the one the graph shows cannot be written. The
operations on it are read from its own records: compactions change no row and can be accepted,
anything else only if an operator insists. Rows are never rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from omnigraph.errors import (
    BadRequest,
    ConflictError,
    ManifestCorrupt,
    NotFoundError,
    OmniError,
    ReadSetChanged,
)
from omnigraph.identity import MAIN, OperationId
from omnigraph.maintenance.maintenance_results import (
    Drift,
    RepairAction,
    RepairedTable,
    RepairResult,
)
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import make_intent_path, make_quarantined_intent_path
from omnigraph.storage.manifest import SetVersion, TableEntry, read_newest
from omnigraph.storage.prepared_write import Ticket
from omnigraph.storage.recovery import resolve_all
from omnigraph.storage.recovery.recover_writes import (
    give_up,
    has_only_late_effects,
    revoke_late_effects,
)
from omnigraph.storage.refs import MAIN_REF, list_refs
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import open_table
from omnigraph.storage.tables.table import find_latest_version
from omnigraph.storage.tables.table_branches import (
    RESERVE_FRAGMENTS,
    TableVersionRecord,
    read_history,
)
from omnigraph.storage.write_plan import WritePlan, WriterKind, decode_intent
from omnigraph.storage.writer_fence import FenceGuard
from omnigraph.writer.change import BranchReader, CatalogSnapshot, PlanContent, WriteOptions
from omnigraph.writer.driver import Writer


def quarantine_intent(root: GraphRoot, operation_id: str) -> str:
    """Quarantine the intent of an operation and return its path.

    Only if that loses nothing: every table it names, or every table if it cannot be read, must be
    at the version the graph shows. A readable intent is recorded as abandoned.

    Raises:
        NotFoundError: there is no such intent.
        ConflictError: a table is ahead of the graph; the intent may be what explains it.
    """
    if not operation_id.isalnum():
        raise BadRequest(f"'{operation_id}' is not an operation id")
    operation = OperationId(operation_id)
    path, target = make_intent_path(operation), make_quarantined_intent_path(operation)
    with root.acquire_fence() as guard:
        data = root.store.find(path)
        if data is None:
            raise NotFoundError(f"no pending write {operation_id}")
        plan = _decode_if_readable(data, path)
        _require_in_place(root, plan)
        if plan is not None:
            _record_end(root, guard, plan)
        guard.check()
        root.store.put(target, data)
        root.store.delete(path)
    return target


def _decode_if_readable(data: bytes, path: str) -> WritePlan | None:
    try:
        return decode_intent(data, path)
    except ManifestCorrupt:
        return None


def _record_end(root: GraphRoot, guard: FenceGuard, plan: WritePlan) -> None:
    """Record that the write was abandoned, because its writer may only be suspended."""
    try:
        give_up(root, guard, plan)
    except ManifestCorrupt:
        return  # of another graph, or the history cannot be read: quarantine still helps


def _require_in_place(root: GraphRoot, plan: WritePlan | None) -> None:
    named = None if plan is None else {table.path for table in plan.changes.moved}
    for ref in list_refs(root.store):
        snapshot = Snapshot(root, ref, read_newest(root.manifest(ref.incarnation)))
        for entry in snapshot.entries.values():
            is_own = entry.owner == ref.incarnation
            if is_own and (named is None or entry.path in named):
                _require_at_head(root, entry)


def _require_at_head(root: GraphRoot, entry: TableEntry) -> None:
    head = find_latest_version(root.location(entry.path, entry.owner_branch))
    if head != entry.version:
        raise ConflictError(
            f"{entry.table_key} is at version {head} while the graph shows {entry.version}; the "
            "intent may explain it and was not quarantined"
        )


REPAIR_ACTOR = "omnigraph:repair"
FORCED_ACTOR = "omnigraph:repair:force"
REWRITE = "Rewrite"


@dataclass(frozen=True, slots=True)
class _DriftedTable:
    """A table with its drift."""

    entry: TableEntry
    row: RepairedTable

    def decide_action(self, action: RepairAction) -> _DriftedTable:
        return replace(self, row=msgspec.structs.replace(self.row, action=action))


def repair(branches: BranchReader, *, confirm: bool = False, force: bool = False) -> RepairResult:
    """Find tables of `main` that are ahead of the graph; with `confirm`, accept them.

    Without `force` only versions that provably changed no row are accepted.

    Raises:
        RecoveryRequired: an interrupted write of `main` cannot be recovered.
    """
    if force and not confirm:
        raise BadRequest("--force accepts what may have changed rows, so it needs --confirm too")
    root = branches.root
    with root.acquire_fence() as guard:
        resolve_all(root, guard, MAIN_REF)
        snapshot = _read_newest(root)
        found = [_examine(snapshot, entry) for entry in _list_owned(snapshot)]
        decided = [
            one.decide_action(_choose_action(one.row, confirm=confirm, force=force))
            for one in found
        ]
        if confirm:
            _undo(snapshot, decided, guard)
            _accept(branches, decided, guard)
        version = _read_newest(root).manifest_version
    return RepairResult(confirm, force, version, tuple(one.row for one in decided))


def _read_newest(root: GraphRoot) -> Snapshot:
    return Snapshot(root, MAIN_REF, read_newest(root.manifest()))


def _list_owned(snapshot: Snapshot) -> list[TableEntry]:
    return [entry for entry in snapshot.entries.values() if entry.owner is None]


# --- examination ----------------------------------------------------------------------------------


def _examine(snapshot: Snapshot, entry: TableEntry) -> _DriftedTable:
    location = snapshot.location(entry)
    head = find_latest_version(location)
    if head < entry.version:
        raise ManifestCorrupt(
            f"the graph shows version {entry.version} of {entry.table_key}, whose newest version "
            f"is {head}"
        )
    history: list[TableVersionRecord] = []
    error: str | None = None
    try:
        history = read_history(location, entry.version + 1, head)
    except OmniError as failure:
        error = failure.message
    drift, error = _choose_verdict(snapshot, entry, history, error)
    row = RepairedTable(
        table_key=entry.table_key,
        classification=drift,
        action=RepairAction.NO_OP,
        manifest_version=entry.version,
        lance_head_version=head,
        operations=tuple(record.operation or "unknown" for record in history),
        error=error,
    )
    return _DriftedTable(entry, row)


def _choose_verdict(
    snapshot: Snapshot, entry: TableEntry, history: Sequence[TableVersionRecord], error: str | None
) -> tuple[Drift, str | None]:
    if error is not None:
        return Drift.UNVERIFIABLE, error
    if not history:
        return Drift.NO_DRIFT, None
    # A record that can be named but not read has no id: what it stands for is not proven.
    lost = [r.version for r in history if r.operation is None or r.uuid is None]
    if lost:
        return Drift.UNVERIFIABLE, f"the record of version {lost[0]} cannot be read"
    if is_maintenance(history, entry.version):
        return Drift.VERIFIED_MAINTENANCE, None
    if has_only_late_effects(snapshot, history):
        return Drift.REVOKED_EFFECT, None
    return Drift.SUSPICIOUS, None


def is_maintenance(history: Sequence[TableVersionRecord], base: int) -> bool:
    """Return whether these versions, the first after `base`, are only compactions.

    A compaction reserves fragments and then rewrites, both on the same version. A reservation has
    no name of its own in the records, so one counts only right before its rewrite.
    """
    position, before = 0, base
    while position < len(history):
        record = history[position]
        if record.operation == RESERVE_FRAGMENTS:
            following = history[position + 1] if position + 1 < len(history) else None
            if following is None or following.operation != REWRITE:
                return False
            if following.read_version != before or record.read_version != before:
                return False
            position += 2
        elif record.operation == REWRITE:
            position += 1
        else:
            return False
        before = history[position - 1].version
    return True


# --- actions --------------------------------------------------------------------------------------


def _choose_action(row: RepairedTable, *, confirm: bool, force: bool) -> RepairAction:
    if row.classification is Drift.NO_DRIFT:
        return RepairAction.NO_OP
    if not confirm:
        return RepairAction.PREVIEW
    if row.classification is Drift.VERIFIED_MAINTENANCE:
        return RepairAction.HEALED
    if row.classification is Drift.REVOKED_EFFECT:
        return RepairAction.UNDONE
    return RepairAction.FORCED if force else RepairAction.REFUSED


def _undo(snapshot: Snapshot, decided: Sequence[_DriftedTable], guard: FenceGuard) -> None:
    """Undo late effects of ended operations, as any writer that finds them does."""
    late = [one.entry.identity for one in decided if one.row.action is RepairAction.UNDONE]
    if late:
        revoke_late_effects(snapshot, late, guard)


def _accept(branches: BranchReader, decided: Sequence[_DriftedTable], guard: FenceGuard) -> None:
    """Publish the newest version of every accepted table, all in one commit."""
    accepted = (RepairAction.HEALED, RepairAction.FORCED)
    chosen = [one for one in decided if one.row.action in accepted]
    if not chosen:
        return
    is_forced = any(one.row.action is RepairAction.FORCED for one in chosen)
    actor = FORCED_ACTOR if is_forced else REPAIR_ACTOR
    Writer(branches).write_held(
        _Acceptance(chosen), guard, WriteOptions(branch=MAIN, actor_id=actor)
    )


@dataclass(frozen=True, slots=True)
class _Acceptance:
    """A change that publishes existing versions of some tables."""

    chosen: Sequence[_DriftedTable]
    kind = WriterKind.OPTIMIZE
    is_costly = False

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent:  # noqa: ARG002 - no table moves
        root = view.snapshot.root
        return PlanContent(adopted=tuple(_show_at_head(root, one) for one in self.chosen))

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - look first
        return False


def _show_at_head(root: GraphRoot, one: _DriftedTable) -> SetVersion:
    entry, head = one.entry, one.row.lance_head_version
    table = open_table(root.location(entry.path, entry.owner_branch), head)
    return SetVersion(
        entry.identity,
        entry.table_key,
        head,
        entry.owner_branch,
        table.count_rows(),
        entry.owner,
    )
