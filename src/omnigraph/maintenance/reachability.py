"""What a graph can still reach: the first half of cleaning up.

Retained are the newest manifest version of every live branch, the commits its policy protects,
those that tags name, and those that consumers of the change feed have yet to read. Reachable is
what the manifest versions show that are left then. Manifest versions never change, so what one
shows is read once, however often is marked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from omnigraph.errors import (
    HistoricalVersionReclaimed,
    ManifestCorrupt,
    OmniError,
    StorageFailure,
    StorageKind,
)
from omnigraph.identity import TableKey
from omnigraph.maintenance.retention import Retention
from omnigraph.storage.consumers import list_consumers, list_needed_commits
from omnigraph.storage.graph_lifecycle import GENESIS_VERSION
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import CONSUMERS, MANIFEST, TAGS
from omnigraph.storage.manifest import (
    Commit,
    History,
    ManifestSnapshot,
    MergedState,
    TableEntry,
    read_manifest,
    read_newest,
)
from omnigraph.storage.refs import MAIN_REF, REF_RECORDS, BranchRef, list_tags, require_none_lost
from omnigraph.storage.sealed_records import RecordMemory, require_no_lost_records
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import TableLocation, open_table
from omnigraph.storage.tables.checksums import LOG, ChecksumLogs
from omnigraph.storage.tables.file_probes import is_version, list_versions_of_branches
from omnigraph.storage.tables.remove_versions import list_tagged_versions, list_versions
from omnigraph.storage.tables.version_files import (
    find_lost_after,
    find_lost_versions,
    require_branch_ref,
    require_version_file,
)

RESTLESS_S = 300.0
"""Where the fence is a lease, ten of its usual terms: few sleep that long and then act."""

_LOOKS = 5
"""So often a graph is looked at again that cannot be read; others may be at work on it."""
_MAX_SCANS = 50
"""The same for one whose branches come and go while we look."""

Place = tuple[str, str | None]
"""A physical table: its path and its branch."""
Entries = tuple[TableEntry, ...]


@dataclass(frozen=True, slots=True)
class Reachable:
    """Everything that is needed, at one moment."""

    refs: tuple[BranchRef, ...]
    newest: Mapping[str | None, ManifestSnapshot]
    versions: Mapping[str | None, Sequence[int]]
    """The manifest versions that are there, by the physical branch they are on."""
    manifests: Mapping[str | None, frozenset[int]]
    """Those of them to keep."""
    pins: Mapping[Place, frozenset[int]]
    """The table versions they show."""
    floors: Mapping[Place, int]
    """Versions from here on stay, because a writer may still be asleep on what was before them."""
    manifest_floors: Mapping[str | None, int]
    keys: Mapping[str, TableKey]
    """What each table is called now, by its path."""

    def list_unneeded(self, place: Place, versions: Iterable[int]) -> list[int]:
        """Those versions of a table that nothing shows.

        Not those newer than everything that is shown: their writer may be about to publish them.
        """
        pins = self.pins.get(place)
        if not pins:
            return []
        limit = min(self.floors.get(place, max(pins)), max(pins))
        return [version for version in versions if version < limit and version not in pins]

    def also_keeping(self, versions: Iterable[tuple[Place, int]]) -> Reachable:
        """The same with more table versions to keep."""
        pins = {place: set(all_) for place, all_ in self.pins.items()}
        for place, version in versions:
            pins.setdefault(place, set()).add(version)
        return replace(self, pins={place: frozenset(all_) for place, all_ in pins.items()})

    def keeping_first_versions(self) -> Reachable:
        """The same with the first version of every table that some branch does not have.

        A branch that gets one with a merge shows it first as it was made, without a row.
        """
        shown = Counter(e.path for m in self.newest.values() for e in m.state.entries.values())
        lacking = [path for path, branches in shown.items() if branches < len(self.newest)]
        if not lacking:
            return self
        return self.also_keeping(((path, None), GENESIS_VERSION) for path in lacking)

    def list_unneeded_manifests(self, branch: str | None) -> list[int]:
        kept = self.manifests[branch]
        limit = min(self.manifest_floors.get(branch, max(kept)), max(kept))
        there = self.versions[branch]
        return [version for version in there if version < limit and version not in kept]


class ReachabilityScan:
    """Marks one graph, any number of times."""

    def __init__(self, root: GraphRoot, retention: Retention) -> None:
        self.root, self.retention = root, retention
        self._shown: dict[tuple[str | None, int], Entries] = {}
        self._warm: dict[str | None, ManifestSnapshot] = {}
        self._starts: dict[tuple[str | None, int], ManifestSnapshot] = {}
        self._logs = ChecksumLogs()
        self._refs: tuple[BranchRef, ...] = ()
        self._opened: set[tuple[str, str | None, int]] = set()
        self._histories: dict[str | None, History] = defaultdict(History)
        self._trusted: set[tuple[str, str | None, int]] = set()
        self._known_refs: set[Place] = set()
        self._merges: dict[str | None, list[Commit]] = {}
        self._versions: dict[str | None, list[int]] = {}
        self._commits: dict[str | None, tuple[int, list[Commit]]] = {}
        self._records = RecordMemory(REF_RECORDS)

    def mark(self) -> Reachable:
        """What is needed now.

        Raises:
            OmniError: a branch cannot be read, or shows a table version that cannot be opened.
        """
        return self._read_branch(self._mark)

    def mark_remaining(self) -> Reachable:
        """What is needed now, and all that other manifest versions show which are there."""
        return self._read_branch(lambda: self._keep_all(self._mark()))

    def _read_branch(self, look: Callable[[], Reachable]) -> Reachable:
        """What the look gives, tried again while branches move on or go under our eyes."""
        looks = failures = 0
        while True:
            looks, self._refs = looks + 1, self._list_refs()
            try:
                return look()
            except OmniError:
                failures += self._list_refs() == self._refs
                if failures == _LOOKS or looks > _MAX_SCANS:
                    raise

    def _list_refs(self) -> tuple[BranchRef, ...]:
        return (MAIN_REF, *self._records.list_all(self.root.store))

    def remaining(self, mark: Reachable) -> Reachable:
        """The same with all that any manifest version shows which is there now.

        The substrate keeps a version for the sake of a branch that starts at it, and removing one
        may fail. Whatever can be read is a place to start from, so all of it must stay whole. What
        is kept for such a branch may itself lack files that nobody needs any more.
        """
        return self._keep_all(replace(mark, versions=self._list_all_versions(mark.refs)))

    def _keep_all(self, mark: Reachable) -> Reachable:
        manifests = {branch: frozenset(all_) for branch, all_ in mark.versions.items()}
        pins = self._list_pins(manifests, needed=False)
        return replace(mark, manifests=manifests, pins=pins).keeping_first_versions()

    def _list_all_versions(self, refs: Iterable[BranchRef]) -> dict[str | None, list[int]]:
        """The manifest versions of these branches that are there."""
        manifest = self.root.manifest()
        named = {ref.incarnation: ref for ref in refs if ref.incarnation is not None}
        known = list_versions_of_branches(manifest, named)
        found: dict[str | None, list[int]] = {None: list_versions(manifest)}
        for id, ref in named.items():
            found[id] = known[id] if id in known else self._list_versions(ref)
        return found

    def _list_versions(self, ref: BranchRef) -> list[int]:
        try:
            return list_versions(self.root.manifest(ref.incarnation))
        except StorageFailure as error:
            if error.kind is not StorageKind.NOT_FOUND:
                raise
            raise ManifestCorrupt(
                f"the manifest has no branch {ref.incarnation}, which '{ref.name}' stands for: if "
                f"creating it was interrupted, run `omnigraph branch delete {ref.name}`; if not, "
                "bring it back from a backup"
            ) from error

    def _mark(self) -> Reachable:
        refs, self._logs = self._refs, ChecksumLogs()
        require_none_lost(self.root, refs)
        require_no_lost_records(self.root.store, TAGS, CONSUMERS)
        self._versions = self._list_all_versions(refs)
        newest = {ref.incarnation: self._read_newest(ref) for ref in refs}
        self._require_no_lost_manifest(newest)
        self._preflight(newest.values())
        commits = {ref.incarnation: self._list_own_commits(ref, newest) for ref in refs}
        self._merges = {branch: [c for c in own if c.merged] for branch, own in commits.items()}
        manifests = self._list_retained(commits, newest, self._list_claimed(refs, newest))
        self._require_undamaged(manifests)
        bases = self._list_resting(commits) if self.root.lease_may_expire else {}
        return Reachable(
            refs=refs,
            newest=newest,
            versions=self._versions,
            manifests=manifests,
            pins=self._list_pins(manifests),
            floors=self._list_floors(bases, newest),
            manifest_floors=bases,
            keys={e.path: e.table_key for m in newest.values() for e in m.state.entries.values()},
        ).keeping_first_versions()

    def _read_newest(self, ref: BranchRef) -> ManifestSnapshot:
        """The newest manifest of a branch, read again only if it moved since the last look."""
        newest = self._read_start(ref) or self._read_written(ref)
        self._shown[ref.incarnation, newest.version] = tuple(newest.state.entries.values())
        return newest

    def _read_written(self, ref: BranchRef) -> ManifestSnapshot:
        warm = self._warm.get(ref.incarnation)
        location = self._locate_verified(ref.incarnation)
        if (
            warm is not None
            and warm.version == self._versions[ref.incarnation][-1]
            and find_lost_after(location, warm.version) is None
        ):
            return warm
        newest = read_newest(location, warm)
        self._warm[ref.incarnation] = newest
        return newest

    def _read_start(self, ref: BranchRef) -> ManifestSnapshot | None:
        """What a branch shows to which nothing was committed: the version it starts at.

        It is read from the parent, once for all branches that start there: of thousands of
        branches, most may never have been written to. None for any other branch.
        """
        if ref.is_main or not self._is_unwritten(ref):
            return None
        start = ref.parent_incarnation, ref.fork_version
        if start not in self._starts:
            try:
                self._starts[start] = read_manifest(self._locate_verified(start[0]), start[1])
            except OmniError:
                return None  # the branch has the same, and says better what is wrong
        return self._starts[start]

    def _is_unwritten(self, ref: BranchRef) -> bool:
        assert ref.incarnation is not None, "main was written when the graph was made"
        if self._versions[ref.incarnation] != [ref.fork_version]:
            return False
        return find_lost_after(self.root.manifest(ref.incarnation), ref.fork_version) is None

    def _locate_verified(self, branch: str | None) -> TableLocation:
        """The manifest on a branch, every file of which is compared with its checksum."""
        location = self.root.manifest(branch)
        return replace(location, is_verified=True, checksum_logs=self._logs)

    def _preflight(self, manifests: Iterable[ManifestSnapshot]) -> None:
        """Raise unless every table version that a branch shows now can be opened."""
        distinct = {id(m): m for m in manifests}.values()
        entries = {
            (e.path, e.owner_branch, e.version) for m in distinct for e in m.state.entries.values()
        }
        with ThreadPoolExecutor(self.root.settings.maintenance_concurrency) as pool:
            list(pool.map(self._require_openable, sorted(entries, key=str)))

    def _require_openable(self, one: tuple[str, str | None, int]) -> None:
        """Raise unless a table version can be opened; once it was, it need only be there."""
        path, branch, version = one
        location = self.root.location(path, branch)
        if one not in self._opened or not is_version(location, version):
            open_table(location, version)
            self._opened.add(one)

    def _require_no_lost_manifest(self, newest: Mapping[str | None, ManifestSnapshot]) -> None:
        """Raise if a manifest version is gone that nobody removed.

        Until it is back, nobody knows what it showed; the one a branch starts at keeps what the
        branch shares with its parent.
        """
        for branch, manifest in newest.items():
            if manifest.location.branch != branch:
                continue  # it has only what it starts at, which was looked for
            lost = find_lost_versions(manifest.location)
            if lost:
                raise ManifestCorrupt(
                    f"version {lost[0]} of {manifest.location} was written and is gone; restore "
                    "its file from a backup before cleaning up. To go on without it, remove "
                    f"{manifest.location}/{LOG}"
                )

    def _require_undamaged(self, manifests: Mapping[str | None, frozenset[int]]) -> None:
        """Raise unless what says what is needed is what was written.

        Damaged, it might not name what a commit shows, and that would pass for garbage.
        """
        logs, pins = self._logs, self._list_pins(manifests)
        places = {**{(MANIFEST, branch): all_ for branch, all_ in manifests.items()}, **pins}
        for (path, branch), versions in places.items():
            location = self.root.location(path, branch)
            if branch is not None and (path, branch) not in self._known_refs:
                require_branch_ref(location, branch, logs)
                self._known_refs.add((path, branch))
            for version in sorted(versions):
                if (path, branch, version) not in self._trusted:
                    require_version_file(location, version, logs)
                    self._trusted.add((path, branch, version))

    def _list_own_commits(
        self, ref: BranchRef, newest: Mapping[str | None, ManifestSnapshot]
    ) -> list[Commit]:
        """The commits authored on the branch itself, newest first."""
        manifest = newest[ref.incarnation]
        if manifest.location.branch != ref.incarnation:
            return []  # it shows what its parent has
        known = self._commits.get(ref.incarnation)
        if known is None or known[0] != manifest.version:
            commits = self._histories[ref.incarnation].commits(manifest)
            own = [commit for commit in commits if commit.incarnation == ref.incarnation]
            known = self._commits[ref.incarnation] = (manifest.version, own)
        return known[1]

    def _list_retained(
        self,
        commits: Mapping[str | None, list[Commit]],
        newest: Mapping[str | None, ManifestSnapshot],
        claimed: Mapping[str | None, set[int]],
    ) -> dict[str | None, frozenset[int]]:
        tagged: dict[str | None, set[int]] = defaultdict(set)
        for tag_branch, version in list_tagged_versions(self.root.manifest()):
            tagged[tag_branch].add(version)
        now = self.root.now_us()
        return {
            branch: frozenset(
                {newest[branch].version}
                | {commit.manifest_version for commit in self.retention.list_kept(own, now)}
                | tagged.get(branch, set())
                | claimed.get(branch, set())
            )
            for branch, own in commits.items()
        }

    def _list_claimed(
        self, refs: Iterable[BranchRef], newest: Mapping[str | None, ManifestSnapshot]
    ) -> dict[str | None, set[int]]:
        """The manifest versions that tags and consumers need, by physical branch."""
        claimed: dict[str | None, set[int]] = defaultdict(set)
        for tag in list_tags(self.root.store):
            claimed[tag.incarnation].add(tag.manifest_version)
        alive = {ref.incarnation: ref for ref in refs}
        for consumer in list_consumers(self.root.store):
            ref = alive.get(consumer.incarnation)
            if ref is None or consumer.is_expired(self.root.now_us()):
                continue
            manifest = newest[ref.incarnation]
            commits = self._histories[ref.incarnation].commits(manifest)
            head = Snapshot(self.root, ref, manifest).head
            for commit in list_needed_commits(consumer, head, {c.commit_id: c for c in commits}):
                claimed[commit.incarnation].add(commit.manifest_version)
        return claimed

    def _list_pins(
        self, manifests: Mapping[str | None, frozenset[int]], *, needed: bool = True
    ) -> dict[Place, frozenset[int]]:
        wanted = [(branch, version) for branch, all_ in manifests.items() for version in all_]
        fresh = [one for one in wanted if one not in self._shown]
        with ThreadPoolExecutor(self.root.settings.maintenance_concurrency) as pool:
            shown = list(pool.map(lambda one: self._read_shown_entries(*one, needed=needed), fresh))
        shown += [self._shown[one] for one in set(wanted).difference(fresh)]
        pins: dict[Place, set[int]] = defaultdict(set)
        for entries in shown:
            for entry in entries:
                pins[entry.path, entry.owner_branch].add(entry.version)
        for state in self._list_merged_states(manifests):
            for table in state.tables:
                pins[table.path, table.branch].add(table.version)
        return {place: frozenset(versions) for place, versions in pins.items()}

    def _list_merged_states(
        self, manifests: Mapping[str | None, frozenset[int]]
    ) -> Iterator[MergedState]:
        """States that were merged and may be the base of another merge.

        Those of merges that are kept and still there, and of the newest merge of each branch that
        still lives. An earlier cleanup may have kept fewer, and what was merged is gone with them.
        """
        for branch, merges in self._merges.items():
            met: set[str | None] = set()
            there = manifests[branch].intersection(self._versions[branch])
            for commit in merges:
                assert commit.merged is not None, "only merges are remembered"
                source = commit.merged.incarnation
                is_newest = source in manifests and source not in met
                met.add(source)
                if is_newest or commit.manifest_version in there:
                    yield commit.merged

    def _read_shown_entries(self, branch: str | None, version: int, *, needed: bool) -> Entries:
        """The tables of a manifest version; none if an earlier cleanup removed it.

        Of a version that is needed every file must be there and be what was written. Any other is
        read without comparing: what a branch starts at lacks files that nobody needs any more.
        """
        known = self._shown.get((branch, version))
        if known is not None:
            return known
        try:
            unverified = replace(self.root.manifest(branch), is_verified=False)
            location = self._locate_verified(branch) if needed else unverified
            manifest = read_manifest(location, version)
        except HistoricalVersionReclaimed:
            return ()
        entries = tuple(manifest.state.entries.values())
        self._shown[branch, version] = entries
        return entries

    # --- sleepers ---------------------------------------------------------------------------------

    def _list_resting(self, commits: Mapping[str | None, list[Commit]]) -> dict[str | None, int]:
        """The newest manifest version of each branch that no sleeper can have missed."""
        limit = self.root.now_us() - int(RESTLESS_S * 1_000_000)
        return {
            branch: next((c.manifest_version for c in own if c.created_at <= limit), 0)
            for branch, own in commits.items()
        }

    def _list_floors(
        self, bases: Mapping[str | None, int], newest: Mapping[str | None, ManifestSnapshot]
    ) -> dict[Place, int]:
        floors: dict[Place, int] = {}
        for branch, version in bases.items():
            shown = self._read_shown_entries(branch, version, needed=True) if version else ()
            base = {(e.path, e.owner_branch): e.version for e in shown}
            for entry in newest[branch].state.entries.values():
                place = (entry.path, entry.owner_branch)
                floor = base.get(place, 0)
                floors[place] = min(floor, floors.get(place, floor))
        return floors
