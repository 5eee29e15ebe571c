"""Removing what no retained commit can reach.

First, under the fence, manifest versions go: from then on nobody can start anything from a commit
that is not retained, so what the remaining ones show is all that will ever be asked for. Then the
versions of tables go, a branch of a table at a time, since nothing can come to need one of them.
Last come forks, folders and files that nothing refers to.
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
from omnigraph.maintenance.orphan_removal import UnreferencedFiles
from omnigraph.maintenance.reachability import Place, ReachabilityScan, Reachable
from omnigraph.maintenance.retention import Retention
from omnigraph.progress import working
from omnigraph.storage.graph_branches import forget_old_requests
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
from omnigraph.storage.tables import Table, TableLocation, open_table
from omnigraph.storage.tables.missing_files import find_missing
from omnigraph.storage.tables.remove_versions import (
    Removed,
    list_versions,
    preview_removal,
)
from omnigraph.storage.tables.table import find_latest_version, is_table
from omnigraph.storage.tables.table_versions import list_branches
from omnigraph.storage.tables.version_files import drop_stale_checksums
from omnigraph.storage.writer_fence import Hold

T = TypeVar("T")
_LOOKS = 4
"""So often is a branch looked at that others create or delete meanwhile."""
_AT_A_TIME = 16
"""So many branches of tables are shortened before other writers get their turn."""


@dataclass
class _Row:
    """One line of the report, growing."""

    removed: Removed = field(default_factory=Removed)
    errors: list[str] = field(default_factory=list)
    shortened: set[str | None] = field(default_factory=set)
    """The branches of which something was removed."""

    def take(self, branch: str | None, removed: Removed) -> None:
        """Note what was removed of a branch."""
        self.removed += removed
        if removed != Removed():
            self.shortened.add(branch)

    def describe_row(self, key: str) -> CleanedTable:
        error = "; ".join(self.errors) or None
        return CleanedTable(key, self.removed.bytes, self.removed.versions, error)


Remove = Callable[[TableLocation, Sequence[int]], Removed]


def preview_cleanup(root: GraphRoot, retention: Retention) -> CleanupResult:
    """What `cleanup` would remove now; nothing is changed and no writer is blocked."""
    for intent in list_pending_intents(root.store):
        examine(root, intent)  # one that cannot be read would stop the cleanup as well
    mark = ReachabilityScan(root, retention).mark()
    rows = {path: _Row() for path in (MANIFEST, *root.table_paths())}
    _clean_manifest(root, mark, rows[MANIFEST], preview_removal)
    _clean_tables(root, mark, rows, preview_removal)
    return _make_result(retention, mark, rows, [], confirm=False)


def run_cleanup(root: GraphRoot, retention: Retention) -> CleanupResult:
    """Remove what the policy does not protect; one table that fails does not stop the others.

    Raises:
        RecoveryRequired: an interrupted write cannot be settled.
        UncoveredDrift: a table of `main` was moved ahead of the graph by somebody else.
        FilesMissing: a branch or a retained commit shows what is not there.
        OmniError: a branch cannot be read. In all these cases nothing has been removed.
    """
    marker, is_whole = ReachabilityScan(root, retention), False
    # What must be read is, so that the fence is held for the rest only. What cannot be read, or is
    # gone because others clean up as well, is looked at again where nobody interferes.
    with suppress(OmniError):
        _require_whole(root, marker.mark())
        is_whole = True
    rows = {path: _Row() for path in (MANIFEST, *root.table_paths())}
    with root.hold() as hold:
        try:
            # Files shared with a branch that has another address for them would count as unneeded.
            relocate(root, hold)
            _settle(root, hold, marker, rows)
            _require_no_drift(root, hold)
            mark = marker.mark()
            if not is_whole:
                _require_whole(root, mark)
            leftovers = UnreferencedFiles(marker, hold)
            leftovers.announce_versions(_list_unneeded_manifests(root, mark))
            _clean_manifest(root, mark, rows[MANIFEST], partial(_remove_announced, leftovers, hold))
            mark = marker.remaining(mark)
        finally:
            # Whatever is created from now on starts at what was marked. Where the fence is a lease
            # and we slept, it may not; and what was marked may be gone, which is no damage.
            hold.check()
        current = _CurrentMark(marker, mark, hold)
    unneeded = _find_unneeded(root, mark, rows)
    _remove_held(root, leftovers, current, rows, unneeded)
    _reclaim(root, leftovers, mark, rows)
    forget_old_requests(root)
    return _make_result(retention, mark, rows, leftovers.reclaimed, confirm=True)


class _CurrentMark:
    """What is needed, looked at again whenever somebody else had the fence since.

    Manifest versions that are gone cannot be started from. But a write that was prepared before may
    come to the fence after that, and show an old version of a table again: a restore, or a merge
    that takes it over. It finds the version there.
    """

    def __init__(self, marker: ReachabilityScan, mark: Reachable, hold: Hold) -> None:
        self._marker, self._mark, self._epoch = marker, mark, hold.epoch

    def renew(self, hold: Hold, *, has_settled: bool) -> Reachable:
        """What is needed now. Each hold of the fence has the epoch after that of the one before."""
        if has_settled or hold.epoch != self._epoch + 1:
            self._mark = self._marker.mark_remaining()
        self._epoch = hold.epoch
        return self._mark


def _remove_held(
    root: GraphRoot,
    leftovers: UnreferencedFiles,
    current: _CurrentMark,
    rows: Mapping[str, _Row],
    unneeded: Sequence[_Unneeded],
) -> None:
    """Remove versions of tables under the fence, a few branches of tables at a time.

    No writer is about to commit there. Along with them the substrate takes files that no version
    names and that are a week old by the clock of this machine, which may have been set. A writer
    whose files went before it came to the fence finds that out there, and starts over. Where one
    may fall asleep at the fence, what it did is settled first, and versions are removed by list.
    """
    for start in range(0, len(unneeded), _AT_A_TIME):
        some = unneeded[start : start + _AT_A_TIME]
        try:
            with root.hold() as hold:
                mark = current.renew(hold, has_settled=bool(resolve_all(root, hold)))
                for one in some:
                    versions = mark.list_unneeded(one.place, one.versions)
                    with _noting_errors(one, rows[one.path]):
                        removed = _announce_and_remove(leftovers, hold, one.location, versions)
                        rows[one.path].take(one.location.branch, removed)
        except OmniError as error:
            for path in {one.path for one in some}:
                rows[path].errors.append(error.message)


@contextmanager
def _noting_errors(one: _Unneeded, row: _Row) -> Iterator[None]:
    """Note what goes wrong with one table, and go on; a branch of it may be deleted by then."""
    try:
        yield
    except OmniError as error:
        if one.location.branch is None or is_table(one.location):
            row.errors.append(error.message)


def _announce_and_remove(
    leftovers: UnreferencedFiles, hold: Hold, location: TableLocation, versions: Sequence[int]
) -> Removed:
    if not versions:
        return Removed()
    leftovers.announce_versions([(location, versions)])
    return _remove_announced(leftovers, hold, location, versions)


def _remove_announced(
    leftovers: UnreferencedFiles, hold: Hold, location: TableLocation, versions: Sequence[int]
) -> Removed:
    """Remove versions that nobody starts anything at any more."""
    hold.check()
    removed = leftovers.remove_versions(location, versions)
    leftovers.forget_versions(location, versions)
    return removed


def _settle(
    root: GraphRoot, hold: Hold, marker: ReachabilityScan, rows: Mapping[str, _Row]
) -> None:
    """Settle interrupted writes; on a full disk, make room for that first.

    Whether they are finished or undone, versions that no retained commit shows are not needed for
    it. What has no reference at all stays: an interrupted write may give it one.
    """
    try:
        resolve_all(root, hold)
        return
    except StorageFailure as failure:
        if not failure.is_disk_full:
            raise
        full = failure
    try:
        mark = marker.mark()
        _require_whole(root, mark)
        hold.check()
        remove = partial(_announce_and_remove, UnreferencedFiles(marker, hold), hold)
        _clean_manifest(root, mark, rows[MANIFEST], remove)
        kept = marker.remaining(mark).also_keeping(_list_announced(root))
        _clean_tables(root, kept, rows, remove)
    except OmniError as error:
        raise full from error
    resolve_all(root, hold)


def _list_announced(root: GraphRoot) -> Iterator[tuple[Place, int]]:
    """The table versions that interrupted writes start from or come to show."""
    for intent in list_pending_intents(root.store):
        for table in intent.tables:
            yield (table.path, table.branch), table.base_version
        for change in intent.adopted:
            kind = EntityKind(change.table_key.partition(":")[0])
            yield (make_table_path(kind, change.identity), change.owner_branch), change.version


def _require_whole(root: GraphRoot, mark: Reachable) -> None:
    """Raise if a version that stays names a file that is gone.

    Removing others could take the last state from which the rows can be had.
    """

    def open_pinned(path: str, branch: str | None, version: int) -> Table | None:
        with suppress(HistoricalVersionReclaimed):  # by another cleanup, just now
            return open_table(root.location(path, branch), version)
        return None

    pinned = [(*place, version) for place, versions in mark.pins.items() for version in versions]
    with ThreadPoolExecutor(root.settings.maintenance_concurrency) as pool:
        opened = list(pool.map(lambda one: open_pinned(*one), pinned))
    missing = find_missing(table for table in opened if table is not None)
    if missing:
        raise FilesMissing(sorted({str(one) for one in missing}))


def _reclaim(
    root: GraphRoot, leftovers: UnreferencedFiles, mark: Reachable, rows: Mapping[str, _Row]
) -> None:
    """What nothing refers to; each failure is noted with the table it concerns."""
    manifest = rows[MANIFEST]
    try:
        for path, errors in leftovers.reclaim_branches(mark, list(rows)).items():
            rows[path].errors += errors
    except OmniError as error:
        manifest.errors.append(error.message)
    for path, row in rows.items():
        _run_guarded(row, partial(leftovers.reclaim_files, path))
        _run_guarded(row, partial(_shorten_logs, root, path, row.shortened))
    _run_guarded(manifest, lambda: leftovers.reclaim_folders(p for p in rows if p != MANIFEST))
    _run_guarded(manifest, leftovers.reclaim_residue)
    _run_guarded(manifest, leftovers.finish)
    _run_guarded(manifest, partial(_complete_record_log, root))


def _shorten_logs(root: GraphRoot, path: str, branches: Collection[str | None]) -> int:
    """Drop the checksums of files that are gone; what that frees is too little to count.

    Also of the table itself, which notes the refs of its branches.
    """
    location = root.location(path)
    for branch in {None, *branches}:
        place = location.on_branch(branch)
        if is_table(place):
            drop_stale_checksums(place)
    return 0


def _complete_record_log(root: GraphRoot) -> int:
    """List the records of tags, consumers and requests that are not listed; it frees nothing."""
    if root.store.kind is StoreKind.LOCAL:
        with root.hold():
            rewrite_record_log(root.store)
    return 0


def _run_guarded(row: _Row, work: Callable[[], int]) -> None:
    try:
        row.removed += Removed(bytes=_retry_settled(work))
    except OmniError as error:
        row.errors.append(error.message)


def _retry_settled(work: Callable[[], T]) -> T:
    """What the work gives, tried again if it met a branch that just came or went."""
    for _ in range(_LOOKS - 1):
        with suppress(StorageFailure):
            return work()
    return work()


def _require_no_drift(root: GraphRoot, hold: Hold) -> None:
    """Raise if a table of `main` is ahead of the graph: somebody must judge that first."""
    snapshot = Snapshot(root, MAIN_REF, read_newest(root.manifest()))
    for entry in snapshot.entries.values():
        head = find_latest_version(root.location(entry.path, entry.owner_branch))
        if head > entry.version and entry.owner is None:
            revoke_late_effects(snapshot, [entry.identity], hold)


def _clean_manifest(root: GraphRoot, mark: Reachable, row: _Row, remove: Remove) -> None:
    """The versions of the manifest on each branch; a failure is noted and the rest goes on."""
    for location, unneeded in _list_unneeded_manifests(root, mark):
        try:
            row.take(location.branch, remove(location, unneeded))
        except OmniError as error:
            row.errors.append(error.message)  # what is left can be read, and so can what it shows


def _list_unneeded_manifests(
    root: GraphRoot, mark: Reachable
) -> Iterator[tuple[TableLocation, Sequence[int]]]:
    """The versions of the manifest that can go, on each branch that has some.

    The version a branch starts at goes with others only. Alone it is one small file: what it shows
    is kept for as long as the branch lives, on its parent. And removing anything from a branch
    costs a look at every other one.
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
    def place(self) -> Place:
        return self.path, self.location.branch


def _clean_tables(
    root: GraphRoot, mark: Reachable, rows: Mapping[str, _Row], remove: Remove
) -> None:
    """The versions of all tables; a failure is noted and the rest goes on."""
    for one in _find_unneeded(root, mark, rows):
        with _noting_errors(one, rows[one.path]):
            rows[one.path].take(one.location.branch, remove(one.location, one.versions))


def _find_unneeded(
    root: GraphRoot, mark: Reachable, rows: Mapping[str, _Row]
) -> Sequence[_Unneeded]:
    """What can go of each table, on each of its branches."""
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
        return []  # no branch knows it: it is no table but a leftover
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
            versions = look() if branch is None else _retry_settled(look)
        except OmniError as error:
            row.errors.append(error.message)
            continue
        if versions:
            found.append(_Unneeded(path, location, versions))
    return found


def _list_unneeded(
    mark: Reachable, path: str, location: TableLocation, start: int
) -> Sequence[int]:
    """The versions of one branch; as of the manifest, the one it starts at goes with others."""
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
