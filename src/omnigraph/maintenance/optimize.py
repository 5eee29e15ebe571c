"""Compact fragments and build indexes of every table of a branch.

Slow work happens outside of the fence, on the version the graph showed when it began. The fence is
held only to commit the files on the current version, so that writers wait for milliseconds and
seldom invalidate the work. Each round moves every table by at most one
version and publishes that; a commit is recorded once, at the end, if anything was done at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from omnigraph.errors import (
    HistoricalVersionReclaimed,
    ManifestCorrupt,
    ReadSetChanged,
    RetryableCommitConflict,
    StorageFailure,
    UncoveredDrift,
)
from omnigraph.identity import MAIN, TableKey
from omnigraph.maintenance.maintenance_results import (
    MANIFEST_KEY,
    OptimizedTable,
    OptimizeResult,
    PendingIndex,
    Skip,
)
from omnigraph.maintenance.optimize_steps import (
    CompactionThreads,
    CompactionWorkers,
    MaintenanceStep,
    StripSettings,
    list_pending_indexes,
    make_step,
    plan_next,
)
from omnigraph.progress import working
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import normalize_branch
from omnigraph.storage.manifest import CommitRecord, TableEntry, read_newest
from omnigraph.storage.prepared_write import StagedTable, Ticket, Writable
from omnigraph.storage.recovery import resolve_all
from omnigraph.storage.recovery.recover_writes import revoke_late_effects
from omnigraph.storage.refs import read_ref
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staging_heartbeat import Heartbeat, start_heartbeat
from omnigraph.storage.tables import CompactionJob, commit_exact, open_table
from omnigraph.storage.tables.compaction import is_removed_by_cleanup
from omnigraph.storage.tables.manifest_table import compact_lineage, name_anchor
from omnigraph.storage.tables.remove_versions import stage_without_auto_cleanup
from omnigraph.storage.tables.table import find_latest_version, open_newest
from omnigraph.storage.write_plan import WriterKind
from omnigraph.storage.writer_fence import FenceGuard
from omnigraph.writer.change import BranchReader, CatalogSnapshot, PlanContent, WriteOptions
from omnigraph.writer.driver import Writer

MAX_ROUNDS = 16
"""A table takes four steps at most; more rounds repeat steps that writers invalidated."""
MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class OptimizeRequest:
    """Options of a run: those of its write, its steps, and whether it records a commit."""

    options: WriteOptions = field(default_factory=lambda: WriteOptions(branch=MAIN))
    indexes_only: bool = False
    records_commit: bool = True

    @property
    def kind(self) -> WriterKind:
        return WriterKind.ENSURE_INDICES if self.indexes_only else WriterKind.OPTIMIZE


@dataclass
class _OptimizedEntry:
    """Progress of one table."""

    removed: int = 0
    added: int = 0
    committed: bool = False
    attempts: int = 0
    is_done: bool = False
    drift: UncoveredDrift | None = None

    def mark_committed(self, step: MaintenanceStep) -> None:
        removed, added = step.fragments
        self.removed += removed
        self.added += added
        self.committed, self.attempts = True, 0

    def mark_stale(self) -> None:
        self.attempts += 1
        self.is_done = self.attempts >= MAX_ATTEMPTS


@dataclass
class _OptimizeRun:
    branches: BranchReader
    request: OptimizeRequest
    workers: CompactionWorkers
    tables: dict[TableKey, _OptimizedEntry] = field(default_factory=dict)
    note: Heartbeat | None = None
    """The heartbeat that tells cleanup of this writer; begun before the first file is written."""

    @property
    def writer(self) -> Writer:
        return Writer(self.branches)

    @property
    def root(self) -> GraphRoot:
        return self.branches.root

    @property
    def done(self) -> int:
        return sum(table.is_done for table in self.tables.values())

    @property
    def is_productive(self) -> bool:
        return any(table.committed for table in self.tables.values())


def optimize(
    branches: BranchReader, request: OptimizeRequest, workers: CompactionWorkers | None = None
) -> OptimizeResult:
    """Take every useful step on the tables a branch owns.

    Inherited tables are left to their owner. A table that another program advanced is skipped and
    reported.

    Args:
        branches: The graph.
        request: Branch, actor and steps.
        workers: Executors that write files; threads of this process by default.

    Raises:
        RecoveryRequired: an interrupted write of the branch cannot be recovered.
    """
    threads = CompactionThreads(branches.root.settings.maintenance_concurrency)
    run = _OptimizeRun(branches, request, workers or threads)
    _begin(run)
    try:
        _compact_tables(run)
    finally:
        if run.note is not None:
            run.note.end()
    commit = _record_commit(run) if run.is_productive and request.records_commit else None
    manifest = () if request.indexes_only else (_compact_manifest(run),)
    branch = normalize_branch(request.options.branch)
    commit_id = None if commit is None else commit.commit_id
    return OptimizeResult(
        branch, (*_report(run), *manifest), commit_id, commit.shown if commit else None
    )


def _compact_tables(run: _OptimizeRun) -> None:
    with working("optimizing", total=len(run.tables), unit="tables") as work:
        for _ in range(MAX_ROUNDS):
            steps = _prepare(run)
            work.advance(run.done - work.done)
            if not steps:
                break
            _commit_steps(run, steps)


def _begin(run: _OptimizeRun) -> None:
    """Recover pending writes and find the tables that have no drift."""
    with run.root.acquire_fence() as guard:
        snapshot = _read_recovered(run, guard)
        owned = list_owned_entries(snapshot)
        run.tables = {entry.table_key: _OptimizedEntry() for entry in owned}
        for entry, head in zip(owned, _read_heads(snapshot, owned), strict=True):
            if head < entry.version:
                raise ManifestCorrupt(
                    f"the graph shows version {entry.version} of {entry.table_key}, "
                    f"whose newest version is {head}"
                )
            if head > entry.version:
                _check_drift(run, snapshot, entry, guard)


def _read_recovered(run: _OptimizeRun, guard: FenceGuard) -> Snapshot:
    """Return the current branch, after recovering its pending writes."""
    ref = read_ref(run.root.store, normalize_branch(run.request.options.branch))
    resolve_all(run.root, guard, ref)
    return Snapshot(run.root, ref, read_newest(run.root.manifest(ref.incarnation)))


def list_owned_entries(snapshot: Snapshot) -> list[TableEntry]:
    """The tables this branch may write without forking them."""
    owner = snapshot.ref.incarnation
    return [entry for entry in snapshot.entries.values() if entry.owner == owner]


def _read_heads(snapshot: Snapshot, entries: Iterable[TableEntry]) -> list[int]:
    root = snapshot.root
    with ThreadPoolExecutor(root.settings.maintenance_concurrency) as pool:
        locations = (snapshot.location(entry) for entry in entries)
        return list(pool.map(find_latest_version, locations))


def _check_drift(
    run: _OptimizeRun, snapshot: Snapshot, entry: TableEntry, guard: FenceGuard
) -> None:
    """Undo late effects of ended operations; record any other drift."""
    try:
        revoke_late_effects(snapshot, [entry.identity], guard)
    except UncoveredDrift as drift:
        run.tables[entry.table_key] = _OptimizedEntry(is_done=True, drift=drift)


# --- a round --------------------------------------------------------------------------------------


def _prepare(run: _OptimizeRun) -> dict[TableKey, MaintenanceStep]:
    """Return the next step of every table that has one, with its files written."""
    seen = run.branches.read_newest(run.request.options.branch)
    waiting = [e for e in list_owned_entries(seen.snapshot) if not _is_done(run, e.table_key)]
    with ThreadPoolExecutor(run.root.settings.maintenance_concurrency) as pool:
        planned = list(pool.map(lambda entry: _plan_table(run, seen, entry), waiting))
    steps: dict[TableKey, MaintenanceStep] = {}
    jobs: dict[TableKey, CompactionJob] = {}
    for entry, plan in zip(waiting, planned, strict=True):
        if isinstance(plan, CompactionJob):
            jobs[entry.table_key] = plan
        elif plan is not None:
            steps[entry.table_key] = plan
    return steps | _run_jobs(run, jobs)


def _run_jobs(
    run: _OptimizeRun, jobs: Mapping[TableKey, CompactionJob]
) -> dict[TableKey, MaintenanceStep]:
    """Write the files of these jobs in parallel and return the steps that use them."""
    if not jobs:
        return {}
    run.note = run.note or start_heartbeat(run.root)
    outputs = run.workers.carry_out(list(jobs.values()))
    steps = {}
    for key, output in zip(jobs, outputs, strict=True):
        if output is None:
            run.tables[key].mark_stale()
        else:
            steps[key] = make_step(output)
    return steps


def _is_done(run: _OptimizeRun, key: TableKey) -> bool:
    table = run.tables.get(key)
    return table is None or table.is_done


def _plan_table(
    run: _OptimizeRun, seen: CatalogSnapshot, entry: TableEntry
) -> StripSettings | CompactionJob | None:
    table, type_ = run.tables[entry.table_key], seen.catalog.by_table_key[entry.table_key]
    try:
        opened = open_table(seen.snapshot.location(entry), entry.version)
        plan = plan_next(opened, type_, indexes_only=run.request.indexes_only)
    except (HistoricalVersionReclaimed, StorageFailure) as failure:
        if not is_removed_by_cleanup(failure):
            raise
        table.mark_stale()
        return None
    if plan is None:
        table.is_done = True
    return plan


def _commit_steps(run: _OptimizeRun, steps: Mapping[TableKey, MaintenanceStep]) -> None:
    """Commit the prepared steps on the current version, all in one hold of the fence."""
    change = _StepCommit(run, steps)
    is_published = _publish_steps(run, change)
    for key, step in steps.items():
        if is_published and key in change.staged:
            run.tables[key].mark_committed(step)
        else:
            run.tables[key].mark_stale()


def _publish_steps(run: _OptimizeRun, change: _StepCommit) -> bool:
    """Return whether the steps were published; a table with drift is skipped from then on."""
    request = run.request
    try:
        with run.root.acquire_fence() as guard:
            published = run.writer.write_held(change, guard, request.options, note=run.note)
    except UncoveredDrift as drift:
        table = run.tables[TableKey(drift.table_key)]
        table.is_done, table.drift = True, drift
        return False
    except ReadSetChanged:
        return False
    return published is not None


class _StepCommit:
    """A change that commits prepared steps; staged under the fence, on the version shown then."""

    is_costly = False

    def __init__(self, run: _OptimizeRun, steps: Mapping[TableKey, MaintenanceStep]) -> None:
        self.kind, self._steps = run.request.kind, steps
        self.staged: dict[TableKey, StagedTable] = {}

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        for entry in list_owned_entries(view.snapshot):
            step = self._steps.get(entry.table_key)
            if step is None:
                continue
            table = view.snapshot.open_entry(entry)
            transaction = step.stage(table, ticket.properties)
            if transaction is not None:
                writable = Writable(entry, table, is_fork=False)
                self.staged[entry.table_key] = StagedTable(writable, transaction)
        if not self.staged:
            return None
        return PlanContent(tuple(self.staged.values()), records_commit=False)

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - there is a next round
        return False


def _record_commit(run: _OptimizeRun) -> CommitRecord | None:
    """Record the one commit of the whole run; it changes no table."""
    request = run.request
    published = run.writer.write(_CommitRecord(request.kind), request.options)
    return published.commit if published else None


@dataclass(frozen=True, slots=True)
class _CommitRecord:
    """A commit for versions that are visible already."""

    kind: WriterKind
    is_costly = False

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent:  # noqa: ARG002 - no table
        return PlanContent()

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        return True


# --- afterwards -----------------------------------------------------------------------------------


def _compact_manifest(run: _OptimizeRun) -> OptimizedTable:
    """Compact the lineage of the manifest; no row changes, so nothing is published.

    Every publish names the same fragment as this does. If one came first this fails, and the next
    run tries again.
    """
    with run.root.acquire_fence() as guard:
        snapshot = _read_recovered(run, guard)
        location = snapshot.manifest.location
        before = open_newest(location)
        with suppress(ReadSetChanged, RetryableCommitConflict):
            guard.check()
            strip = stage_without_auto_cleanup(before, properties={})
            table = commit_exact(strip).table if strip is not None else before
            guard.check()
            merged = compact_lineage(table, properties={}, small_fragments=2)
            if merged is None and strip is not None:
                merged = name_anchor(table, properties={})
            after = merged.table if merged is not None else table
            old, new = ({f.id for f in t.fragments()} for t in (before, after))
            return OptimizedTable(
                MANIFEST_KEY,
                fragments_removed=len(old - new),
                fragments_added=len(new - old),
                committed=after.version > before.version,
            )
    return OptimizedTable(MANIFEST_KEY)


def _report(run: _OptimizeRun) -> list[OptimizedTable]:
    seen = run.branches.read_newest(run.request.options.branch)
    return [_describe(run, seen, key) for key in sorted(run.tables)]


def _describe(run: _OptimizeRun, seen: CatalogSnapshot, key: TableKey) -> OptimizedTable:
    table = run.tables[key]
    if table.drift is not None:
        return OptimizedTable(
            key,
            table.removed,
            table.added,
            table.committed,
            Skip.DRIFT_NEEDS_REPAIR,
            table.drift.manifest_version,
            table.drift.lance_head_version,
        )
    pending: tuple[PendingIndex, ...] = ()
    if key in seen.snapshot.entries:
        pending = list_pending_indexes(seen.snapshot.table(key), seen.catalog.by_table_key[key])
    return OptimizedTable(key, table.removed, table.added, table.committed, pending_indexes=pending)
