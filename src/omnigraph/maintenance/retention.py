"""Retention: the commits a policy protects, and the versions a graph can still reach.

This is the mark phase of cleanup. Retained are the newest manifest version of every live branch,
the commits its policy protects, those that tags name, and those that consumers of the change feed
have yet to read. Reachable are the table versions that these manifest versions show. Manifest
versions never change, so each is read once per scan.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta

from omnigraph.errors import (
    BadOptions,
    HistoricalVersionReclaimed,
    ManifestCorrupt,
    OmniError,
    StorageFailure,
    StorageKind,
)
from omnigraph.identity import TableKey
from omnigraph.storage.consumers import list_consumers, list_needed_commits
from omnigraph.storage.graph_lifecycle import GENESIS_VERSION
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import CONSUMERS, MANIFEST, TAGS
from omnigraph.storage.manifest import (
    CommitRecord,
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
from omnigraph.storage.tables import PhysicalTable, TableLocation, open_table
from omnigraph.storage.tables.checksums import LOG, ChecksumLogs
from omnigraph.storage.tables.file_integrity import (
    find_lost_after,
    find_lost_versions,
    require_branch_ref,
    require_version_file,
)
from omnigraph.storage.tables.file_probes import is_version, list_versions_of_branches
from omnigraph.storage.tables.remove_versions import list_tagged_versions, list_versions

LEASE_GRACE_S = 300.0
"""Where the fence is a lease, ten of its usual terms: few writers resume after so long a pause."""

_MAX_ATTEMPTS = 5
"""Attempts on a graph that cannot be read; others may be writing it."""
_MAX_SCANS = 50
"""Attempts on a graph whose branches are created and deleted meanwhile."""

RECOMMENDED_KEEP = 10
FLOOR = 3
"""An age never retains fewer commits than this: the clocks that dated them may be wrong."""

Entries = tuple[TableEntry, ...]


@dataclass(frozen=True, slots=True)
class Retention:
    """The commits cleanup retains: with both limits, those that either protects.

    Raises:
        BadOptions: no limit was given, or one that means nothing.
    """

    keep: int | None = None
    older_than_s: float | None = None

    def __post_init__(self) -> None:
        if self.keep is None and self.older_than_s is None:
            raise BadOptions(
                "cleanup needs a policy: how many commits to retain, or the age to remove them at; "
                f"--keep {RECOMMENDED_KEEP} is a good choice"
            )
        if self.keep is not None and self.keep < 0:
            raise BadOptions(f"keep must be at least 0, not {self.keep}")
        age = self.older_than_s
        if age is not None and not (math.isfinite(age) and age >= 0):
            raise BadOptions(f"the age must be at least 0 seconds, not {age}")

    def list_retained(self, commits: Sequence[CommitRecord], now_us: int) -> list[CommitRecord]:
        """Return the commits of one branch, given newest first, that must stay readable."""
        count = 0 if self.keep is None else max(self.keep, 1)
        if self.older_than_s is None:
            return list(commits[:count])
        limit = now_us - self.older_than_s * 1_000_000
        count = max(count, FLOOR)
        return [c for at, c in enumerate(commits) if at < count or c.created_at > limit]

    def __str__(self) -> str:
        parts = []
        if self.keep is not None:
            parts.append(f"the newest {max(self.keep, 1)} commits")
        if self.older_than_s is not None:
            age = timedelta(seconds=self.older_than_s)
            parts.append(f"commits younger than {age} (and the newest {FLOOR})")
        return f"keep {' and '.join(parts)} of every branch"


@dataclass(frozen=True, slots=True)
class Reachable:
    """The versions that are needed, at one moment."""

    refs: tuple[BranchRef, ...]
    newest: Mapping[str | None, ManifestSnapshot]
    versions: Mapping[str | None, Sequence[int]]
    """The existing manifest versions, by physical branch."""
    manifests: Mapping[str | None, frozenset[int]]
    """Those of them to retain."""
    pins: Mapping[PhysicalTable, frozenset[int]]
    """The table versions they show."""
    floors: Mapping[PhysicalTable, int]
    """Versions from here on stay, because a suspended writer may have started before them."""
    manifest_floors: Mapping[str | None, int]
    keys: Mapping[str, TableKey]
    """The current key of each table, by its path."""

    def list_unneeded(self, table: PhysicalTable, versions: Iterable[int]) -> list[int]:
        """Return the versions of a table that no manifest version shows.

        Versions newer than every shown one are left out: a writer may be about to publish them.
        """
        pins = self.pins.get(table)
        if not pins:
            return []
        limit = min(self.floors.get(table, max(pins)), max(pins))
        return [version for version in versions if version < limit and version not in pins]

    def also_retaining(self, versions: Iterable[tuple[PhysicalTable, int]]) -> Reachable:
        """Return a copy that retains more table versions."""
        pins = {table: set(all_) for table, all_ in self.pins.items()}
        for table, version in versions:
            pins.setdefault(table, set()).add(version)
        return replace(self, pins={table: frozenset(all_) for table, all_ in pins.items()})

    def retaining_first_versions(self) -> Reachable:
        """Return a copy that retains the first version of every table that some branch lacks.

        A branch that gets a table with a merge first shows it as created, without rows.
        """
        shown = Counter(e.path for m in self.newest.values() for e in m.state.entries.values())
        lacking = [path for path, branches in shown.items() if branches < len(self.newest)]
        if not lacking:
            return self
        return self.also_retaining(((path, None), GENESIS_VERSION) for path in lacking)

    def list_unneeded_manifests(self, branch: str | None) -> list[int]:
        kept = self.manifests[branch]
        limit = min(self.manifest_floors.get(branch, max(kept)), max(kept))
        there = self.versions[branch]
        return [version for version in there if version < limit and version not in kept]


class ReachabilityScan:
    """Scans one graph, any number of times."""

    def __init__(self, root: GraphRoot, retention: Retention) -> None:
        self.root, self.retention = root, retention
        self._shown: dict[tuple[str | None, int], Entries] = {}
        self._cached_manifests: dict[str | None, ManifestSnapshot] = {}
        self._starts: dict[tuple[str | None, int], ManifestSnapshot] = {}
        self._logs = ChecksumLogs()
        self._refs: tuple[BranchRef, ...] = ()
        self._opened: set[tuple[str, str | None, int]] = set()
        self._histories: dict[str | None, History] = defaultdict(History)
        self._verified: set[tuple[str, str | None, int]] = set()
        self._known_refs: set[PhysicalTable] = set()
        self._merges: dict[str | None, list[CommitRecord]] = {}
        self._versions: dict[str | None, list[int]] = {}
        self._commits: dict[str | None, tuple[int, list[CommitRecord]]] = {}
        self._records = RecordMemory(REF_RECORDS)

    def mark(self) -> Reachable:
        """Return the versions needed now.

        Raises:
            OmniError: a branch cannot be read, or shows a table version that cannot be opened.
        """
        return self._read_branch(self._mark)

    def mark_remaining(self) -> Reachable:
        """Return the versions needed now, and those that any existing manifest version shows."""
        return self._read_branch(lambda: self._retain_all(self._mark()))

    def _read_branch(self, scan: Callable[[], Reachable]) -> Reachable:
        """Return the result of a scan, retrying while branches move or are deleted."""
        attempts = failures = 0
        while True:
            attempts, self._refs = attempts + 1, self._list_refs()
            try:
                return scan()
            except OmniError:
                failures += self._list_refs() == self._refs
                if failures == _MAX_ATTEMPTS or attempts > _MAX_SCANS:
                    raise

    def _list_refs(self) -> tuple[BranchRef, ...]:
        return (MAIN_REF, *self._records.list_all(self.root.store))

    def remaining(self, mark: Reachable) -> Reachable:
        """Return a copy that retains all that any existing manifest version shows.

        Lance retains a version at which a branch starts, and removing one may fail. Every readable
        version is a possible starting point, so all of it must stay whole. A version retained for
        such a branch may itself lack files that are no longer needed.
        """
        return self._retain_all(replace(mark, versions=self._list_all_versions(mark.refs)))

    def _retain_all(self, mark: Reachable) -> Reachable:
        manifests = {branch: frozenset(all_) for branch, all_ in mark.versions.items()}
        pins = self._list_pins(manifests, needed=False)
        return replace(mark, manifests=manifests, pins=pins).retaining_first_versions()

    def _list_all_versions(self, refs: Iterable[BranchRef]) -> dict[str | None, list[int]]:
        """Return the existing manifest versions of these branches."""
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
        manifests = self._list_retained(commits, newest, self._list_pinned(refs, newest))
        self._require_undamaged(manifests)
        bases = self._list_lease_floors(commits) if self.root.lease_may_expire else {}
        return Reachable(
            refs=refs,
            newest=newest,
            versions=self._versions,
            manifests=manifests,
            pins=self._list_pins(manifests),
            floors=self._list_floors(bases, newest),
            manifest_floors=bases,
            keys={e.path: e.table_key for m in newest.values() for e in m.state.entries.values()},
        ).retaining_first_versions()

    def _read_newest(self, ref: BranchRef) -> ManifestSnapshot:
        """Return the newest manifest of a branch, read again only if it moved since."""
        newest = self._read_start(ref) or self._read_written(ref)
        self._shown[ref.incarnation, newest.version] = tuple(newest.state.entries.values())
        return newest

    def _read_written(self, ref: BranchRef) -> ManifestSnapshot:
        cached = self._cached_manifests.get(ref.incarnation)
        location = self._locate_verified(ref.incarnation)
        if (
            cached is not None
            and cached.version == self._versions[ref.incarnation][-1]
            and find_lost_after(location, cached.version) is None
        ):
            return cached
        newest = read_newest(location, cached)
        self._cached_manifests[ref.incarnation] = newest
        return newest

    def _read_start(self, ref: BranchRef) -> ManifestSnapshot | None:
        """Return the start version of a branch without commits of its own, else None.

        It is read from the parent, once for all branches that start there: of thousands of
        branches, most may never have been written to.
        """
        if ref.is_main or not self._is_unwritten(ref):
            return None
        start = ref.parent_incarnation, ref.fork_version
        if start not in self._starts:
            try:
                self._starts[start] = read_manifest(self._locate_verified(start[0]), start[1])
            except OmniError:
                return None  # reading the branch itself gives the better error
        return self._starts[start]

    def _is_unwritten(self, ref: BranchRef) -> bool:
        assert ref.incarnation is not None, "main was written when the graph was made"
        if self._versions[ref.incarnation] != [ref.fork_version]:
            return False
        return find_lost_after(self.root.manifest(ref.incarnation), ref.fork_version) is None

    def _locate_verified(self, branch: str | None) -> TableLocation:
        """Return the manifest of a branch, whose files are compared with their checksums."""
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
        """Raise if a manifest version is missing that no cleanup removed.

        Until it is restored, the versions it showed are unknown.
        """
        for branch, manifest in newest.items():
            if manifest.location.branch != branch:
                continue  # it has only its start version, checked on the parent
            lost = find_lost_versions(manifest.location)
            if lost:
                raise ManifestCorrupt(
                    f"version {lost[0]} of {manifest.location} was written and is gone; restore "
                    "its file from a backup before cleaning up. To go on without it, remove "
                    f"{manifest.location}/{LOG}"
                )

    def _require_undamaged(self, manifests: Mapping[str | None, frozenset[int]]) -> None:
        """Raise unless the files that determine reachability are intact.

        A damaged one might omit a version that a commit shows, which would then be removed.
        """
        logs, pins = self._logs, self._list_pins(manifests)
        needed = {**{(MANIFEST, branch): all_ for branch, all_ in manifests.items()}, **pins}
        for (path, branch), versions in needed.items():
            location = self.root.location(path, branch)
            if branch is not None and (path, branch) not in self._known_refs:
                require_branch_ref(location, branch, logs)
                self._known_refs.add((path, branch))
            for version in sorted(versions):
                if (path, branch, version) not in self._verified:
                    require_version_file(location, version, logs)
                    self._verified.add((path, branch, version))

    def _list_own_commits(
        self, ref: BranchRef, newest: Mapping[str | None, ManifestSnapshot]
    ) -> list[CommitRecord]:
        """Return the commits authored on the branch itself, newest first."""
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
        commits: Mapping[str | None, list[CommitRecord]],
        newest: Mapping[str | None, ManifestSnapshot],
        pinned: Mapping[str | None, set[int]],
    ) -> dict[str | None, frozenset[int]]:
        tagged: dict[str | None, set[int]] = defaultdict(set)
        for tag_branch, version in list_tagged_versions(self.root.manifest()):
            tagged[tag_branch].add(version)
        now = self.root.now_us()
        return {
            branch: frozenset(
                {newest[branch].version}
                | {commit.manifest_version for commit in self.retention.list_retained(own, now)}
                | tagged.get(branch, set())
                | pinned.get(branch, set())
            )
            for branch, own in commits.items()
        }

    def _list_pinned(
        self, refs: Iterable[BranchRef], newest: Mapping[str | None, ManifestSnapshot]
    ) -> dict[str | None, set[int]]:
        """Return the manifest versions that tags and consumers need, by physical branch."""
        pinned: dict[str | None, set[int]] = defaultdict(set)
        for tag in list_tags(self.root.store):
            pinned[tag.incarnation].add(tag.manifest_version)
        alive = {ref.incarnation: ref for ref in refs}
        for consumer in list_consumers(self.root.store):
            ref = alive.get(consumer.incarnation)
            if ref is None or consumer.is_expired(self.root.now_us()):
                continue
            manifest = newest[ref.incarnation]
            commits = self._histories[ref.incarnation].commits(manifest)
            head = Snapshot(self.root, ref, manifest).head
            for commit in list_needed_commits(consumer, head, {c.commit_id: c for c in commits}):
                pinned[commit.incarnation].add(commit.manifest_version)
        return pinned

    def _list_pins(
        self, manifests: Mapping[str | None, frozenset[int]], *, needed: bool = True
    ) -> dict[PhysicalTable, frozenset[int]]:
        wanted = [(branch, version) for branch, all_ in manifests.items() for version in all_]
        fresh = [one for one in wanted if one not in self._shown]
        with ThreadPoolExecutor(self.root.settings.maintenance_concurrency) as pool:
            shown = list(pool.map(lambda one: self._read_shown_entries(*one, needed=needed), fresh))
        shown += [self._shown[one] for one in set(wanted).difference(fresh)]
        pins: dict[PhysicalTable, set[int]] = defaultdict(set)
        for entries in shown:
            for entry in entries:
                pins[entry.path, entry.owner_branch].add(entry.version)
        for state in self._list_merged_states(manifests):
            for table in state.tables:
                pins[table.path, table.branch].add(table.version)
        return {table: frozenset(versions) for table, versions in pins.items()}

    def _list_merged_states(
        self, manifests: Mapping[str | None, frozenset[int]]
    ) -> Iterator[MergedState]:
        """Yield merged states that may be the base of another merge.

        Those of retained merges, and of the newest merge of each branch that still exists. An
        earlier cleanup may have retained fewer.
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
        """Return the tables of a manifest version; none if an earlier cleanup removed it.

        Every file of a needed version must be intact. Any other is read without checking: the start
        version of a branch may lack files that are no longer needed.
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

    # --- suspended writers ------------------------------------------------------------------------

    def _list_lease_floors(
        self, commits: Mapping[str | None, list[CommitRecord]]
    ) -> dict[str | None, int]:
        """Return the newest manifest version of each branch that every live writer has seen."""
        limit = self.root.now_us() - int(LEASE_GRACE_S * 1_000_000)
        return {
            branch: next((c.manifest_version for c in own if c.created_at <= limit), 0)
            for branch, own in commits.items()
        }

    def _list_floors(
        self, bases: Mapping[str | None, int], newest: Mapping[str | None, ManifestSnapshot]
    ) -> dict[PhysicalTable, int]:
        floors: dict[PhysicalTable, int] = {}
        for branch, version in bases.items():
            shown = self._read_shown_entries(branch, version, needed=True) if version else ()
            base = {(e.path, e.owner_branch): e.version for e in shown}
            for entry in newest[branch].state.entries.values():
                table = (entry.path, entry.owner_branch)
                floor = base.get(table, 0)
                floors[table] = min(floor, floors.get(table, floor))
        return floors
