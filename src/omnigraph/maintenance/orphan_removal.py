"""Remove orphans: forks, folders and files that nothing refers to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from omnigraph.errors import ConflictError, ManifestCorrupt, OmniError, StorageFailure
from omnigraph.identity import BranchName
from omnigraph.maintenance.retention import ReachabilityScan, Reachable
from omnigraph.storage.layout import MANIFEST, STAGING
from omnigraph.storage.orphans import OrphanCandidates, find_temporary_files, remove_temporary_files
from omnigraph.storage.recovery import list_pending_intents, resolve_all
from omnigraph.storage.refs import (
    DELETION_MARKS,
    RELATION_MARKS,
    BranchRef,
    list_marked,
    list_refs,
    mark_deleted,
)
from omnigraph.storage.staging_heartbeat import (
    HEARTBEAT_TIMEOUT_S,
    FoundHeartbeat,
    list_heartbeats,
    remove_dead_heartbeat,
)
from omnigraph.storage.tables import TableLocation
from omnigraph.storage.tables.remove_versions import (
    Removed,
    UnreferencedFile,
    list_tree_names,
    list_unreferenced_files,
    remove_unreferenced,
    remove_versions,
    remove_versions_by_list,
)
from omnigraph.storage.tables.table import find_latest_version, is_table
from omnigraph.storage.tables.table_branches import (
    LanceBranch,
    delete_branch,
    has_own_versions,
    list_branches,
)
from omnigraph.storage.writer_fence import FenceGuard

MIN_GRACE_S = 60.0
"""A lower bound of the grace period, because a write may take this long."""
_BRANCHES_PER_HOLD = 64
"""Branches removed in one hold of the fence, before other writers get their turn."""
_FILES_PER_HOLD = 256
"""Files removed in one hold of the fence."""


class OrphanRemoval:
    """Removes the orphans of one graph; `reclaimed` lists them.

    Created under the fence, so that no active writer can begin to commit.
    """

    def __init__(self, marker: ReachabilityScan, guard: FenceGuard) -> None:
        self._root, self._marker = marker.root, marker
        grace_s = self._root.settings.cleanup_grace_s
        # 0 asserts that there is no active writer. Any other value implies writers, which may
        # always take that long.
        self._grace_s = max(grace_s, MIN_GRACE_S) if grace_s else 0.0
        store = self._root.store
        self._first_seen = OrphanCandidates(
            store, self._root.now_us, self._grace_s, self._list_live_notes
        )
        for note in list_heartbeats(store):
            remove_dead_heartbeat(store, note, guard, self._is_silent)
        self._shown: frozenset[str] = frozenset()
        """The tables reachable at the last scan of branches."""
        self.reclaimed: list[str] = []

    def _list_live_notes(self) -> frozenset[str]:
        """Return the heartbeats of writers that are, or may be, active."""
        return frozenset(note.path for note in list_heartbeats(self._root.store))

    def _is_silent(self, note: FoundHeartbeat) -> bool:
        limit_s = max(HEARTBEAT_TIMEOUT_S, self._grace_s)
        return self._first_seen.is_unchanged_for(f"{note.path}#{note.content}", limit_s)

    def announce_versions(self, removable: Iterable[tuple[TableLocation, Sequence[int]]]) -> None:
        """Announce versions about to be removed, so that no operation starts at them.

        On a local disk no other process gets the fence before they are gone. A lease may expire
        while this process is suspended, and the next holder would still find them.
        """
        if self._root.lease_may_expire:
            paths = [path for one in removable for path in self._list_version_paths(*one)]
            if paths:
                self._first_seen.announce(paths)

    def remove_versions(self, location: TableLocation, versions: Sequence[int]) -> Removed:
        """Remove announced versions, and every file that only they name."""
        root = self._root
        if not root.lease_may_expire:
            return remove_versions(location, versions)
        concurrency = root.settings.maintenance_concurrency
        return remove_versions_by_list(root.store, location, versions, concurrency)

    def forget_versions(self, location: TableLocation, versions: Sequence[int]) -> None:
        """Withdraw versions that were removed, or that Lance retained."""
        self._first_seen.forget(self._list_version_paths(location, versions))

    def _list_version_paths(self, location: TableLocation, versions: Sequence[int]) -> list[str]:
        return [self._root.version_path(location, version) for version in versions]

    # --- branches ---------------------------------------------------------------------------------

    def reclaim_branches(self, mark: Reachable, paths: Sequence[str]) -> dict[str, list[str]]:
        """Remove physical branches of tables that no retained version shows.

        They are found by the scan, and removed under the fence, a few at a time, after another
        scan. Return the errors by table.
        """
        errors: dict[str, list[str]] = {}
        self._shown = frozenset(path for path, _ in mark.pins)
        found = set(self._find_orphaned(mark, paths, errors))
        while found:
            with self._root.acquire_fence() as guard:
                mark = self._marker.mark_remaining()
                self._shown = frozenset(path for path, _ in mark.pins)
                some = {path for path, _ in found}
                still = [one for one in self._find_orphaned(mark, some, errors) if one in found]
                for path, name in still[:_BRANCHES_PER_HOLD]:
                    guard.check()
                    if path == MANIFEST:
                        # Its creator may only be suspended, and resume meanwhile.
                        mark_deleted(self._root.store, BranchRef(BranchName(name), name))
                        guard.check()
                    self._drop(path, name, errors)
            found = set(still[_BRANCHES_PER_HOLD:])
        self._remove_marks()
        return errors

    def _find_orphaned(
        self, mark: Reachable, paths: Iterable[str], errors: dict[str, list[str]]
    ) -> list[tuple[str, str]]:
        """Return branches and their folders that can be removed, children before parents."""
        found = []
        for path in paths:
            if path in errors:
                continue
            try:
                found += [(path, name) for name in self._find_orphaned_of(mark, path)]
            except OmniError as error:
                self._first_seen.keep(f"{path}/tree/")
                errors.setdefault(path, []).append(error.message)
        return found

    def _find_orphaned_of(self, mark: Reachable, path: str) -> list[str]:
        location = self._root.location(path)
        if not is_table(location):
            return []
        referenced, known = self._list_referenced(mark, path), list_branches(location)
        residue = [name for name in list_tree_names(location) if name not in known]
        names = [*_sort_children_first(known), *residue]
        return [name for name in names if name not in referenced and self._is_abandoned(path, name)]

    def _list_referenced(self, mark: Reachable, path: str) -> set[str | None]:
        """Return the branches of a table that a version shows or a pending write may."""
        if path == MANIFEST:
            return set(mark.manifests)
        announced = {
            table.branch
            for plan in list_pending_intents(self._root.store)
            for table in plan.changes.moved
            if table.path == path
        }
        return announced | {branch for table, branch in mark.pins if table == path}

    def _is_abandoned(self, path: str, name: str) -> bool:
        """Return whether no writer can still be preparing a branch of this name.

        Branches of the manifest are created under the fence. A branch of a table with versions of
        its own was committed to, which also needs the fence.
        """
        location = self._root.location(path, name)
        return (
            path == MANIFEST
            or has_own_versions(location)
            or bool(self._first_seen.due([f"{path}/tree/{name}"]))
        )

    def _drop(self, path: str, name: str, errors: dict[str, list[str]]) -> None:
        try:
            delete_branch(self._root.location(path), name)
        except ConflictError:
            return  # a branch made from it is needed, and reads its files
        except OmniError as error:
            errors.setdefault(path, []).append(error.message)
            return
        self._first_seen.forget([f"{path}/tree/{name}"])
        self.reclaimed.append(f"{path}/tree/{name}")

    def _remove_marks(self) -> None:
        """Remove the marks of removed branches, and the deletion marks of existing ones."""
        store, manifest = self._root.store, self._root.location(MANIFEST)
        if not list_marked(store) and not RELATION_MARKS.list_names(store):
            return
        with self._root.acquire_fence() as guard:
            left = set(list_branches(manifest)) | set(list_tree_names(manifest))
            existing = {ref.incarnation for ref in list_refs(store)}
            for incarnation in list_marked(store):
                if incarnation in existing or incarnation not in left:
                    guard.check()
                    DELETION_MARKS.remove(store, incarnation)
            for incarnation in RELATION_MARKS.list_names(store):
                if incarnation not in existing | left:
                    guard.check()
                    RELATION_MARKS.remove(store, incarnation)

    # --- files ------------------------------------------------------------------------------------

    def reclaim_files(self, path: str) -> int:
        """Remove files of a table that no version names, after their grace period."""
        try:
            return self._reclaim_files(path)
        except BaseException:
            self._first_seen.keep(f"{path}/")
            raise

    def _reclaim_files(self, path: str) -> int:
        location = self._root.location(path)
        if not is_table(location):
            return 0
        freed = 0
        for branch in (None, *list_branches(location)):
            fork = location.on_branch(branch)
            try:
                found = {f"{path}/{file.path}": file for file in list_unreferenced_files(fork)}
            except StorageFailure:
                if branch is None or is_table(fork):
                    raise
                continue  # deleted meanwhile
            freed += self._remove_due(fork, found)
        return freed

    def _remove_due(self, location: TableLocation, found: dict[str, UnreferencedFile]) -> int:
        if not found:
            return 0
        due, freed = self._first_seen.due(found, self._list_possible_bases(location)), 0
        for start in range(0, len(due), _FILES_PER_HOLD):
            names = due[start : start + _FILES_PER_HOLD]
            with self._root.acquire_fence() as guard:
                resolve_all(self._root, guard)
                freed += remove_unreferenced(location, [found[name] for name in names], guard.check)
            self._first_seen.forget(names)
            self.reclaimed += names
        return freed

    def _list_possible_bases(self, location: TableLocation) -> list[str]:
        """Return the versions on which a file of the manifest may still be published.

        A publish asserts nothing about its file, which is written under the fence. Where that is a
        lease, its author may be suspended past the grace period. So the file stays until the
        manifest has moved, and a commit prepared on the version before is refused.
        """
        is_manifest = location.uri == self._root.manifest().uri
        if not is_manifest or not self._root.lease_may_expire or not self._grace_s:
            return []
        return [self._root.version_path(location, find_latest_version(location))]

    def reclaim_folders(self, tables: Iterable[str]) -> int:
        """Remove tables that no branch shows and staged input of ended loads.

        The bytes freed are not counted: that would cost a listing of its own.
        """
        staged = [f"{STAGING}/{name}" for name in self._root.store.list_prefixes(STAGING)]
        unknown = [path for path in tables if path not in self._shown]
        if not staged and not unknown:
            return 0
        with self._root.acquire_fence() as guard:
            mark = self._marker.mark_remaining()
            shown = {path for path, _ in mark.pins}
            for plan in list_pending_intents(self._root.store):
                shown |= {table.path for table in plan.changes.moved}
                schema = plan.changes.schema
                shown |= {table.path for table in schema.registered} if schema else set()
            for path in self._first_seen.due([*(t for t in unknown if t not in shown), *staged]):
                guard.check()
                self._root.store.delete_prefix(path)
                self._first_seen.forget([path])
                self.reclaimed.append(path)
        return 0

    def reclaim_residue(self) -> int:
        """Remove temporary files of killed processes."""
        found = {one.path: one for one in find_temporary_files(self._root.store)}
        due = self._first_seen.due(found)
        freed = remove_temporary_files(self._root.store, [found[path] for path in due])
        self._first_seen.forget(due)
        self.reclaimed += due
        return freed

    def finish(self) -> int:
        """Save the orphan candidates for the next cleanup."""
        self._first_seen.save()
        return 0


def _sort_children_first(branches: Mapping[str, LanceBranch]) -> list[str]:
    """Return the branches in an order that puts each before its parent."""
    ordered: list[str] = []
    waiting = dict(branches)
    while waiting:
        parents = {branch.parent_branch for branch in waiting.values()}
        leaves = sorted(name for name in waiting if name not in parents)
        if not leaves:
            raise ManifestCorrupt(f"the branches {', '.join(sorted(waiting))} start at each other")
        ordered += leaves
        for name in leaves:
            del waiting[name]
    return ordered
