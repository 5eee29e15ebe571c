"""Remove orphans: forks, folders and files that nothing refers to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from omnigraph.errors import ConflictError, ManifestCorrupt, OmniError, StorageFailure
from omnigraph.identity import BranchName
from omnigraph.maintenance.reachability import ReachabilityScan, Reachable
from omnigraph.storage.layout import MANIFEST, STAGING
from omnigraph.storage.orphans import FirstSeen, find_temporary_files, remove_temporary_files
from omnigraph.storage.recovery import list_pending_intents, resolve_all
from omnigraph.storage.refs import (
    BranchRef,
    list_marked,
    list_refs,
    list_related,
    mark_deleted,
    unmark_deleted,
    unmark_related,
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
from omnigraph.storage.tables.table_versions import (
    LanceBranch,
    delete_branch,
    has_own_versions,
    list_branches,
)
from omnigraph.storage.writer_fence import Hold
from omnigraph.storage.writer_heartbeat import (
    HEARTBEAT_TIMEOUT_S,
    FoundNote,
    list_notes,
    remove_dead_note,
)

SHORTEST_GRACE_S = 60.0
"""However short the time is that unreferenced files are spared, a write may take this long."""
_AT_A_TIME = 64
"""So many branches are removed before other writers get their turn."""
_FILES_AT_A_TIME = 256
"""The same for files."""


class UnreferencedFiles:
    """Reclaims what one graph no longer refers to; `reclaimed` lists it.

    Made under the fence, where those at work cannot begin to commit.
    """

    def __init__(self, marker: ReachabilityScan, hold: Hold) -> None:
        self._root, self._marker = marker.root, marker
        grace_s = self._root.settings.cleanup_grace_s
        # 0 says that nobody is at work. Who says anything else has writers, and these may always
        # take that long.
        self._grace_s = max(grace_s, SHORTEST_GRACE_S) if grace_s else 0.0
        store = self._root.store
        self._first_seen = FirstSeen(store, self._root.now_us, self._grace_s, self._list_live_notes)
        for note in list_notes(store):
            remove_dead_note(store, note, hold, self._is_silent)
        self._shown: frozenset[str] = frozenset()
        """The tables that were needed when branches were last looked at."""
        self.reclaimed: list[str] = []

    def _list_live_notes(self) -> frozenset[str]:
        """The notes of those who are, or may be, at work."""
        return frozenset(note.path for note in list_notes(self._root.store))

    def _is_silent(self, note: FoundNote) -> bool:
        limit_s = max(HEARTBEAT_TIMEOUT_S, self._grace_s)
        return self._first_seen.is_unchanged_for(f"{note.path}#{note.content}", limit_s)

    def announce_versions(self, doomed: Iterable[tuple[TableLocation, Sequence[int]]]) -> None:
        """List versions that are about to be removed, so that nobody starts anything at them.

        On a local disk nobody comes to the fence before they are gone. Where it is a lease, we may
        sleep before that, and whoever comes would find them still there.
        """
        if self._root.lease_may_expire:
            paths = [path for one in doomed for path in self._list_version_paths(*one)]
            if paths:
                self._first_seen.announce(paths)

    def remove_versions(self, location: TableLocation, versions: Sequence[int]) -> Removed:
        """Remove versions that were announced, and every file that only they name."""
        root = self._root
        if not root.lease_may_expire:
            return remove_versions(location, versions)
        concurrency = root.settings.maintenance_concurrency
        return remove_versions_by_list(root.store, location, versions, concurrency)

    def forget_versions(self, location: TableLocation, versions: Sequence[int]) -> None:
        """These were removed, or the substrate has spared them: they need not be listed."""
        self._first_seen.forget(self._list_version_paths(location, versions))

    def _list_version_paths(self, location: TableLocation, versions: Sequence[int]) -> list[str]:
        return [self._root.version_path(location, version) for version in versions]

    # --- branches ---------------------------------------------------------------------------------

    def reclaim_branches(self, mark: Reachable, paths: Sequence[str]) -> dict[str, list[str]]:
        """Remove the physical branches of tables that no retained version shows.

        They are found by what was marked, and removed under the fence, a few at a time, after
        another look. Gives what went wrong, by table.
        """
        errors: dict[str, list[str]] = {}
        self._shown = frozenset(path for path, _ in mark.pins)
        found = set(self._find_unwanted(mark, paths, errors))
        while found:
            with self._root.hold() as hold:
                mark = self._marker.mark_remaining()
                self._shown = frozenset(path for path, _ in mark.pins)
                some = {path for path, _ in found}
                still = [one for one in self._find_unwanted(mark, some, errors) if one in found]
                for path, name in still[:_AT_A_TIME]:
                    hold.check()
                    if path == MANIFEST:
                        # Its creator may only be asleep, and wake while we are.
                        mark_deleted(self._root.store, BranchRef(BranchName(name), name))
                        hold.check()
                    self._drop(path, name, errors)
            found = set(still[_AT_A_TIME:])
        self._drop_marks()
        return errors

    def _find_unwanted(
        self, mark: Reachable, paths: Iterable[str], errors: dict[str, list[str]]
    ) -> list[tuple[str, str]]:
        """Branches and folders of branches that can go, those made from others before those."""
        found = []
        for path in paths:
            if path in errors:
                continue
            try:
                found += [(path, name) for name in self._find_unwanted_of(mark, path)]
            except OmniError as error:
                self._first_seen.keep(f"{path}/tree/")
                errors.setdefault(path, []).append(error.message)
        return found

    def _find_unwanted_of(self, mark: Reachable, path: str) -> list[str]:
        location = self._root.location(path)
        if not is_table(location):
            return []
        wanted, known = self._list_wanted(mark, path), list_branches(location)
        zombies = [name for name in list_tree_names(location) if name not in known]
        names = [*_sort_children_first(known), *zombies]
        return [name for name in names if name not in wanted and self._is_settled(path, name)]

    def _list_wanted(self, mark: Reachable, path: str) -> set[str | None]:
        """The branches of a table that something shows or is about to."""
        if path == MANIFEST:
            return set(mark.manifests)
        announced = {
            table.branch
            for intent in list_pending_intents(self._root.store)
            for table in intent.tables
            if table.path == path
        }
        return announced | {branch for place, branch in mark.pins if place == path}

    def _is_settled(self, path: str, name: str) -> bool:
        """Whether no writer can still be preparing a branch of this name.

        Branches of the manifest are made under the fence. One of a table that has versions of its
        own was committed to, which is done under the fence as well.
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

    def _drop_marks(self) -> None:
        """Remove marks of branches of which nothing is left; of deletion, also if they live."""
        store, manifest = self._root.store, self._root.location(MANIFEST)
        if not list_marked(store) and not list_related(store):
            return
        with self._root.hold() as hold:
            left = set(list_branches(manifest)) | set(list_tree_names(manifest))
            alive = {ref.incarnation for ref in list_refs(store)}
            for incarnation in list_marked(store):
                if incarnation in alive or incarnation not in left:
                    hold.check()
                    unmark_deleted(store, incarnation)
            for incarnation in list_related(store):
                if incarnation not in alive | left:
                    hold.check()
                    unmark_related(store, incarnation)

    # --- files ------------------------------------------------------------------------------------

    def reclaim_files(self, path: str) -> int:
        """Remove files of a table that no version names and that were seen so before."""
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
            place = location.on_branch(branch)
            try:
                found = {f"{path}/{file.path}": file for file in list_unreferenced_files(place)}
            except StorageFailure:
                if branch is None or is_table(place):
                    raise
                continue  # deleted while we looked
            freed += self._remove_due(place, found)
        return freed

    def _remove_due(self, place: TableLocation, found: dict[str, UnreferencedFile]) -> int:
        if not found:
            return 0
        due, freed = self._first_seen.due(found, self._list_possible_bases(place)), 0
        for start in range(0, len(due), _FILES_AT_A_TIME):
            names = due[start : start + _FILES_AT_A_TIME]
            with self._root.hold() as hold:
                resolve_all(self._root, hold)
                freed += remove_unreferenced(place, [found[name] for name in names], hold.check)
            self._first_seen.forget(names)
            self.reclaimed += names
        return freed

    def _list_possible_bases(self, place: TableLocation) -> list[str]:
        """The versions on which a file of the manifest may still be published.

        Whoever publishes proves nothing of its file: it is written under the fence. Where that is a
        lease, its author may sleep until the file was seen twice. So it stays until the manifest
        has moved, and what was prepared on the version before is refused.
        """
        is_manifest = place.uri == self._root.manifest().uri
        if not is_manifest or not self._root.lease_may_expire or not self._grace_s:
            return []
        return [self._root.version_path(place, find_latest_version(place))]

    def reclaim_folders(self, tables: Iterable[str]) -> int:
        """Remove tables that no branch knows and input that is no longer being loaded.

        How many bytes that frees is not counted: it would cost a listing of its own.
        """
        staged = [f"{STAGING}/{name}" for name in self._root.store.list_prefixes(STAGING)]
        unknown = [path for path in tables if path not in self._shown]
        if not staged and not unknown:
            return 0
        with self._root.hold() as hold:
            mark = self._marker.mark_remaining()
            shown = {path for path, _ in mark.pins}
            for intent in list_pending_intents(self._root.store):
                shown |= {table.path for table in intent.tables}
                shown |= {t.path for t in intent.schema.registered} if intent.schema else set()
            for path in self._first_seen.due([*(t for t in unknown if t not in shown), *staged]):
                hold.check()
                self._root.store.delete_prefix(path)
                self._first_seen.forget([path])
                self.reclaimed.append(path)
        return 0

    def reclaim_residue(self) -> int:
        """Remove half-written files of killed processes."""
        found = {one.path: one for one in find_temporary_files(self._root.store)}
        due = self._first_seen.due(found)
        freed = remove_temporary_files(self._root.store, [found[path] for path in due])
        self._first_seen.forget(due)
        self.reclaimed += due
        return freed

    def finish(self) -> int:
        """Leave what was seen for the next cleanup."""
        self._first_seen.save()
        return 0


def _sort_children_first(branches: Mapping[str, LanceBranch]) -> list[str]:
    """The branches so that each comes before the one it was created from."""
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
