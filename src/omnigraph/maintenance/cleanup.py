"""Remove versions and files that no retained commit can reach.

First, under the fence, manifest versions are removed: from then on no operation can start from a
commit that is not retained, so the table versions the remaining ones show are all that can be
needed. Then table versions are removed, one branch of a table at a time. Forks, folders and files
that nothing refers to come last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from omnigraph.errors import FilesMissing, HistoricalVersionReclaimed, OmniError, StorageFailure
from omnigraph.identity import EntityKind
from omnigraph.maintenance.maintenance_results import MANIFEST_KEY, CleanedTable, CleanupResult
from omnigraph.maintenance.orphan_removal import OrphanRemoval
from omnigraph.maintenance.retention import ReachabilityScan, Reachable, Retention
from omnigraph.progress import working
from omnigraph.storage.branch_requests import remove_old_requests
from omnigraph.storage.graph_lifecycle import relocate
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import MANIFEST, make_table_path
from omnigraph.storage.manifest import read_newest
from omnigraph.storage.objects import StoreKind
from omnigraph.storage.recovery import examine, list_pending_intents, resolve_all
from omnigraph.storage.recovery.recover_writes import revoke_late_effects
from omnigraph.storage.refs import MAIN_REF
from omnigraph.storage.sealed_records import rewrite_record_log
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import PhysicalTable, Table, TableLocation, open_table
from omnigraph.storage.tables.file_integrity import drop_stale_checksums
from omnigraph.storage.tables.missing_files import find_missing
from omnigraph.storage.tables.remove_versions import (
    Removed,
    list_versions,
    preview_removal,
)
from omnigraph.storage.tables.table import find_latest_version, is_table
from omnigraph.storage.tables.table_branches import list_branches
from omnigraph.storage.writer_fence import FenceGuard

T = TypeVar("T")
_MAX_ATTEMPTS = 4
"""Attempts on a branch that others create or delete meanwhile."""
_BRANCHES_PER_HOLD = 16
"""Branches of tables cleaned in one hold of the fence, before other writers get their turn."""


@dataclass
class _Row:
    """One row of the report, as it is built."""

    removed: Removed = field(default_factory=Removed)
    errors: list[str] = field(default_factory=list)
    cleaned: set[str | None] = field(default_factory=set)
    """Branches that lost versions."""

    def take(self, branch: str | None, removed: Removed) -> None:
        """Add what was removed from a branch."""
        self.removed += removed
        if removed != Removed():
            self.cleaned.add(branch)

    def describe_row(self, key: str) -> CleanedTable:
        error = "; ".join(self.errors) or None
        return CleanedTable(key, self.removed.bytes, self.removed.versions, error)


Remove = Callable[[TableLocation, Sequence[int]], Removed]


def preview_cleanup(root: GraphRoot, retention: Retention) -> CleanupResult:
    """Return what `cleanup` would remove now; change nothing and block no writer."""
    for plan in list_pending_intents(root.store):
        examine(root, plan)  # one that cannot be read would stop the cleanup as well
    mark = ReachabilityScan(root, retention).mark()
    rows = {path: _Row() for path in (MANIFEST, *root.table_paths())}
    _clean_manifest(root, mark, rows[MANIFEST], preview_removal)
    _clean_tables(root, mark, rows, preview_removal)
    return _make_result(retention, mark, rows, [], confirm=False)


def run_cleanup(root: GraphRoot, retention: Retention) -> CleanupResult:
    """Remove what the policy does not retain; one table that fails does not stop the others.

    Raises:
        RecoveryRequired: an interrupted write cannot be recovered.
        UncoveredDrift: a table of `main` was advanced by another program.
        FilesMissing: a branch or a retained commit refers to missing files.
        OmniError: a branch cannot be read. In all these cases nothing has been removed.
    """
    marker, is_whole = ReachabilityScan(root, retention), False
    # Read before taking the fence, to hold it only for the rest. Failures here, such as versions
    # that a concurrent cleanup removed, are checked again under the fence.
    with suppress(OmniError):
        _require_whole(root, marker.mark())
        is_whole = True
    rows = {path: _Row() for path in (MANIFEST, *root.table_paths())}
    with root.acquire_fence() as guard:
        try:
            # Files shared with a branch that has another address for them would count as unneeded.
            relocate(root, guard)
            _recover_pending(root, guard, marker, rows)
            _require_no_drift(root, guard)
            mark = marker.mark()
            if not is_whole:
                _require_whole(root, mark)
            orphans = OrphanRemoval(marker, guard)
            orphans.announce_versions(_list_unneeded_manifests(root, mark))
            _clean_manifest(root, mark, rows[MANIFEST], partial(_remove_announced, orphans, guard))
            mark = marker.remaining(mark)
        finally:
            # Whatever is created from now on starts at a marked version. If the fence is a lease
            # that expired meanwhile, it may not, and marked versions may be gone without damage.
            guard.check()
        current = _CurrentMark(marker, mark, guard)
    unneeded = _find_unneeded(root, mark, rows)
    _remove_held(root, orphans, current, rows, unneeded)
    _reclaim(root, orphans, mark, rows)
    remove_old_requests(root)
    return _make_result(retention, mark, rows, orphans.reclaimed, confirm=True)


class _CurrentMark:
    """The reachable versions, scanned again whenever another process held the fence since.

    A removed manifest version cannot be a starting point. But a write prepared before its removal
    may take the fence afterwards and show an old table version again: a restore, or a merge that
    adopts it. That version must still be there.
    """

    def __init__(self, marker: ReachabilityScan, mark: Reachable, guard: FenceGuard) -> None:
        self._marker, self._mark, self._epoch = marker, mark, guard.epoch

    def renew(self, guard: FenceGuard, *, has_recovered: bool) -> Reachable:
        """Return the current reachable versions. Each hold of the fence increments the epoch."""
        if has_recovered or guard.epoch != self._epoch + 1:
            self._mark = self._marker.mark_remaining()
        self._epoch = guard.epoch
        return self._mark


def _remove_held(
    root: GraphRoot,
    orphans: OrphanRemoval,
    current: _CurrentMark,
    rows: Mapping[str, _Row],
    unneeded: Sequence[_Unneeded],
) -> None:
    """Remove versions of tables under the fence, a few branches of tables at a time.

    No writer is about to commit there. Lance also removes files that no version names and that are
    a week old by the clock of this machine, which may be wrong. A writer whose files were removed
    before it took the fence detects that there, and starts over. Where a lease may expire while
    its writer is suspended, that write is recovered first, and versions are removed by list.
    """
    for start in range(0, len(unneeded), _BRANCHES_PER_HOLD):
        some = unneeded[start : start + _BRANCHES_PER_HOLD]
        try:
            with root.acquire_fence() as guard:
                mark = current.renew(guard, has_recovered=bool(resolve_all(root, guard)))
                for one in some:
                    versions = mark.list_unneeded(one.table, one.versions)
                    with _recording_errors(one, rows[one.path]):
                        removed = _announce_and_remove(orphans, guard, one.location, versions)
                        rows[one.path].take(one.location.branch, removed)
        except OmniError as error:
            for path in {one.path for one in some}:
                rows[path].errors.append(error.message)


@contextmanager
def _recording_errors(one: _Unneeded, row: _Row) -> Iterator[None]:
    """Record the errors of one table and continue; a branch of it may be deleted by then."""
    try:
        yield
    except OmniError as error:
        if one.location.branch is None or is_table(one.location):
            row.errors.append(error.message)


def _announce_and_remove(
    orphans: OrphanRemoval, guard: FenceGuard, location: TableLocation, versions: Sequence[int]
) -> Removed:
    if not versions:
        return Removed()
    orphans.announce_versions([(location, versions)])
    return _remove_announced(orphans, guard, location, versions)


def _remove_announced(
    orphans: OrphanRemoval, guard: FenceGuard, location: TableLocation, versions: Sequence[int]
) -> Removed:
    """Remove announced versions, which are no longer a starting point."""
    guard.check()
    removed = orphans.remove_versions(location, versions)
    orphans.forget_versions(location, versions)
    return removed


def _recover_pending(
    root: GraphRoot, guard: FenceGuard, marker: ReachabilityScan, rows: Mapping[str, _Row]
) -> None:
    """Recover interrupted writes; on a full disk, free space for that first.

    Recovery, forward or back, needs no version that no retained commit shows. Files without any
    reference stay: an interrupted write may refer to them.
    """
    try:
        resolve_all(root, guard)
        return
    except StorageFailure as failure:
        if not failure.is_disk_full:
            raise
        full = failure
    try:
        mark = marker.mark()
        _require_whole(root, mark)
        guard.check()
        remove = partial(_announce_and_remove, OrphanRemoval(marker, guard), guard)
        _clean_manifest(root, mark, rows[MANIFEST], remove)
        kept = marker.remaining(mark).also_retaining(_list_pending_versions(root))
        _clean_tables(root, kept, rows, remove)
    except OmniError as error:
        raise full from error
    resolve_all(root, guard)


def _list_pending_versions(root: GraphRoot) -> Iterator[tuple[PhysicalTable, int]]:
    """Yield the table versions that interrupted writes start from or may publish."""
    for plan in list_pending_intents(root.store):
        for table in plan.changes.moved:
            yield (table.path, table.branch), table.base_version
        for change in plan.changes.adopted:
            kind = EntityKind(change.table_key.partition(":")[0])
            yield (make_table_path(kind, change.identity), change.owner_branch), change.version


def _require_whole(root: GraphRoot, mark: Reachable) -> None:
    """Raise if a retained version names a missing file.

    Removing others could destroy the last state from which the rows can be restored.
    """

    def open_pinned(path: str, branch: str | None, version: int) -> Table | None:
        with suppress(HistoricalVersionReclaimed):  # by another cleanup, just now
            return open_table(root.location(path, branch), version)
        return None

    pinned = [(*table, version) for table, versions in mark.pins.items() for version in versions]
    with ThreadPoolExecutor(root.settings.maintenance_concurrency) as pool:
        opened = list(pool.map(lambda one: open_pinned(*one), pinned))
    missing = find_missing(table for table in opened if table is not None)
    if missing:
        raise FilesMissing(sorted({str(one) for one in missing}))


def _reclaim(
    root: GraphRoot, orphans: OrphanRemoval, mark: Reachable, rows: Mapping[str, _Row]
) -> None:
    """Remove orphans; each failure is recorded with the table it concerns."""
    manifest = rows[MANIFEST]
    try:
        for path, errors in orphans.reclaim_branches(mark, list(rows)).items():
            rows[path].errors += errors
    except OmniError as error:
        manifest.errors.append(error.message)
    for path, row in rows.items():
        _run_guarded(row, partial(orphans.reclaim_files, path))
        _run_guarded(row, partial(_truncate_logs, root, path, row.cleaned))
    _run_guarded(manifest, lambda: orphans.reclaim_folders(p for p in rows if p != MANIFEST))
    _run_guarded(manifest, orphans.reclaim_residue)
    _run_guarded(manifest, orphans.finish)
    _run_guarded(manifest, partial(_complete_record_log, root))


def _truncate_logs(root: GraphRoot, path: str, branches: Collection[str | None]) -> int:
    """Drop the checksums of removed files; the space freed is too little to count.

    Also of the table itself, whose log covers the refs of its branches.
    """
    location = root.location(path)
    for branch in {None, *branches}:
        fork = location.on_branch(branch)
        if is_table(fork):
            drop_stale_checksums(fork)
    return 0


def _complete_record_log(root: GraphRoot) -> int:
    """Complete the log of tag, consumer and request records; this frees no space."""
    if root.store.kind is StoreKind.LOCAL:
        with root.acquire_fence():
            rewrite_record_log(root.store)
    return 0


def _run_guarded(row: _Row, work: Callable[[], int]) -> None:
    try:
        row.removed += Removed(bytes=_retry(work))
    except OmniError as error:
        row.errors.append(error.message)


def _retry(work: Callable[[], T]) -> T:
    """Return the result, retrying if a branch was created or deleted meanwhile."""
    for _ in range(_MAX_ATTEMPTS - 1):
        with suppress(StorageFailure):
            return work()
    return work()


def _require_no_drift(root: GraphRoot, guard: FenceGuard) -> None:
    """Raise if a table of `main` is ahead of the graph: an operator must run repair first."""
    snapshot = Snapshot(root, MAIN_REF, read_newest(root.manifest()))
    for entry in snapshot.entries.values():
        head = find_latest_version(root.location(entry.path, entry.owner_branch))
        if head > entry.version and entry.owner is None:
            revoke_late_effects(snapshot, [entry.identity], guard)


def _clean_manifest(root: GraphRoot, mark: Reachable, row: _Row, remove: Remove) -> None:
    """Remove unneeded manifest versions of each branch; record failures and continue."""
    for location, unneeded in _list_unneeded_manifests(root, mark):
        try:
            row.take(location.branch, remove(location, unneeded))
        except OmniError as error:
            row.errors.append(error.message)  # remaining versions stay readable


def _list_unneeded_manifests(
    root: GraphRoot, mark: Reachable
) -> Iterator[tuple[TableLocation, Sequence[int]]]:
    """Yield the unneeded manifest versions of each branch that has some.

    The version a branch starts at is removed only along with others. Alone it is one small file:
    the tables it shows are retained on its parent while the branch exists. And removing any version
    of a branch costs a scan of every other one.
    """
    for ref in mark.refs:
        unneeded = mark.list_unneeded_manifests(ref.incarnation)
        if unneeded and (ref.is_main or unneeded != [ref.fork_version]):
            yield root.manifest(ref.incarnation), unneeded


@dataclass(frozen=True, slots=True)
class _Unneeded:
    """Versions of one branch of a table that nothing shows."""

    path: str
    location: TableLocation
    versions: Sequence[int]

    @property
    def table(self) -> PhysicalTable:
        return self.path, self.location.branch


def _clean_tables(
    root: GraphRoot, mark: Reachable, rows: Mapping[str, _Row], remove: Remove
) -> None:
    """Remove unneeded versions of all tables; record failures and continue."""
    for one in _find_unneeded(root, mark, rows):
        with _recording_errors(one, rows[one.path]):
            rows[one.path].take(one.location.branch, remove(one.location, one.versions))


def _find_unneeded(
    root: GraphRoot, mark: Reachable, rows: Mapping[str, _Row]
) -> Sequence[_Unneeded]:
    """Return the unneeded versions of each table, by branch."""
    tables = [path for path in rows if path != MANIFEST]
    with working("cleaning", total=len(tables), unit="tables") as work:

        def look(path: str) -> list[_Unneeded]:
            found = _find_unneeded_of(root, mark, path, rows[path])
            work.advance()
            return found

        with ThreadPoolExecutor(root.settings.maintenance_concurrency) as pool:
            return [one for found in pool.map(look, tables) for one in found]


def _find_unneeded_of(root: GraphRoot, mark: Reachable, path: str, row: _Row) -> list[_Unneeded]:
    if path not in mark.keys:
        return []  # no branch shows it: an orphan, removed later
    try:
        forks = list_branches(root.location(path))
    except OmniError as error:
        row.errors.append(error.message)
        return []
    starts = {None: 0} | {name: fork.parent_version for name, fork in forks.items()}
    found = []
    for branch, start in starts.items():
        location = root.location(path, branch)
        try:
            look = partial(_list_unneeded, mark, path, location, start)
            versions = look() if branch is None else _retry(look)
        except OmniError as error:
            row.errors.append(error.message)
            continue
        if versions:
            found.append(_Unneeded(path, location, versions))
    return found


def _list_unneeded(
    mark: Reachable, path: str, location: TableLocation, start: int
) -> Sequence[int]:
    """Return the unneeded versions of one branch; the start of a fork only along with others."""
    if location.branch is not None and not is_table(location):
        return []  # deleted since it was listed
    unneeded = mark.list_unneeded((path, location.branch), list_versions(location))
    return [] if unneeded == [start] else unneeded


def _make_result(
    retention: Retention,
    mark: Reachable,
    rows: Mapping[str, _Row],
    reclaimed: Sequence[str],
    *,
    confirm: bool,
) -> CleanupResult:
    names = {MANIFEST: MANIFEST_KEY} | {path: str(key) for path, key in mark.keys.items()}
    tables = {names.get(path, path): row for path, row in rows.items()}
    ordered = sorted(tables, key=lambda name: (name == MANIFEST_KEY, name))
    return CleanupResult(
        keep_versions=retention.keep,
        older_than_secs=retention.older_than_s,
        confirm=confirm,
        tables=tuple(tables[name].describe_row(name) for name in ordered),
        reclaimed=tuple(reclaimed),
    )
