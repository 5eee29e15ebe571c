"""Clone a graph to another address while it is written, atomically."""

from __future__ import annotations

import re
import threading
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from omnigraph.errors import (
    AlreadyInitialized,
    BadRequest,
    BranchNotFound,
    ConflictError,
    HistoricalVersionReclaimed,
    ManifestCorrupt,
    OmniError,
    StorageFailure,
    StorageKind,
)
from omnigraph.identity import MAIN, BranchName, EntityKind
from omnigraph.progress import Work, working
from omnigraph.result import Result
from omnigraph.storage.consumers import (
    CONSUMER_RECORDS,
    ConsumerRecord,
    list_consumers,
    list_needed_commits,
)
from omnigraph.storage.graph_lifecycle import (
    CLONE_CLAIMS,
    CloneClaim,
    decode_claim,
    list_mirror_files,
    release_claim,
    require_finished,
    write_control_files,
)
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import (
    ADDRESS,
    BRANCHES,
    INIT_CLAIM,
    MANIFEST,
    ORPHAN_CANDIDATES,
    SCHEMA_FILES,
    make_tables_folder,
)
from omnigraph.storage.manifest.commit_records import CommitRecord
from omnigraph.storage.manifest.manifest_reader import History, read_manifest
from omnigraph.storage.manifest.manifest_state import SchemaContract, TableEntry
from omnigraph.storage.objects.object_store import ObjectStore, StoreKind
from omnigraph.storage.objects.open_store import require_create_if_absent
from omnigraph.storage.refs import (
    REF_RECORDS,
    TAG_RECORDS,
    BranchRef,
    TagRecord,
    list_refs,
    list_tags,
    note_named,
)
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import file_probes
from omnigraph.storage.tables.checksums import Checksum, ChecksumLogs, add_checksums
from omnigraph.storage.tables.file_probes import NEWEST_HINT, encode_newest_hint
from omnigraph.storage.tables.location import PhysicalTable, relocate_version
from omnigraph.storage.tables.missing_files import TableFiles, list_referred_files
from omnigraph.storage.tables.remove_versions import (
    list_table_tags,
    list_tagged_versions,
    list_versions,
)
from omnigraph.storage.tables.table import find_latest_version, open_table
from omnigraph.storage.tables.table_branches import (
    list_branches,
    record_branch_ref,
    record_version_file,
)

_MAX_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Cut:
    """The branches of a graph at one moment, with the newest manifest version of each."""

    refs: tuple[BranchRef, ...]
    versions: Mapping[str | None, int]

    def only(self, names: Collection[BranchName]) -> Cut:
        """Restrict to some branches, with `main` and all branches they were created from.

        Raises:
            BranchNotFound: there is no such branch.
        """
        by_name = {ref.name: ref for ref in self.refs}
        kept = {MAIN}
        for name in names:
            at: BranchName | None = name
            while at is not None and at not in kept:
                if at not in by_name:
                    raise BranchNotFound(at)
                kept.add(at)
                at = by_name[at].parent
        refs = tuple(ref for ref in self.refs if ref.name in kept)
        return Cut(refs, {ref.incarnation: self.versions[ref.incarnation] for ref in refs})


def take_cut(root: GraphRoot) -> Cut:
    """Take the newest version of each branch at one moment, fenced if they keep moving."""
    seen: Cut | None = None
    for _ in range(_MAX_ATTEMPTS):
        try:
            now = _look(root)
        except StorageFailure:
            continue  # a branch was deleted meanwhile
        if now == seen or len(now.refs) == 1:
            return now
        seen = now
    with root.acquire_fence():
        return _look(root)


def _look(root: GraphRoot) -> Cut:
    refs = tuple(list_refs(root.store))
    with ThreadPoolExecutor(root.settings.maintenance_concurrency) as pool:
        versions = pool.map(lambda ref: find_latest_version(root.manifest(ref.incarnation)), refs)
        return Cut(refs, dict(zip((ref.incarnation for ref in refs), versions, strict=True)))


@dataclass(frozen=True, slots=True)
class Plan:
    """The files to copy, as paths and versions below the root."""

    cut: Cut
    contract: SchemaContract
    versions: Mapping[PhysicalTable, frozenset[int]]
    files: frozenset[str]
    tags: Sequence[TagRecord]
    consumers: Sequence[ConsumerRecord]
    """Those whose unread commits are all copied."""

    def count(self) -> tuple[int, int]:
        """Return the number of tables, and of manifest versions."""
        tables = {path for path, _ in self.versions if path != MANIFEST}
        versions = [len(all_) for (path, _), all_ in self.versions.items() if path == MANIFEST]
        return len(tables), sum(versions)


def make_plan(root: GraphRoot, cut: Cut, *, shallow: bool) -> Plan:
    """Plan the copy of a cut.

    With its history: every existing version of the manifest. Without it (`shallow`): the newest one
    of each branch, those that branches start at, and those with a tag.
    """
    # A tag that is created later may name a version that is not copied.
    tags = [tag for tag in list_tags(root.store) if tag.incarnation in cut.versions]
    with ThreadPoolExecutor(root.settings.maintenance_concurrency) as pool:
        planner = _Planner(root, cut, pool, tags)
        manifests = planner.manifests(shallow=shallow)
        versions = planner.with_parents(manifests | planner.tables(manifests))
        files = planner.files(versions)
    contract = read_manifest(root.manifest(), cut.versions[None]).state.contract
    if contract is None:
        raise ManifestCorrupt(f"the manifest of {root.uri} has no schema")
    return Plan(
        cut,
        contract,
        versions,
        files,
        [tag for tag in tags if tag.manifest_version in versions[MANIFEST, tag.incarnation]],
        list(_list_served_consumers(root, cut, versions)),
    )


def _list_served_consumers(
    root: GraphRoot, cut: Cut, versions: Mapping[PhysicalTable, frozenset[int]]
) -> Iterator[ConsumerRecord]:
    refs = {ref.incarnation: ref for ref in cut.refs}
    for consumer in list_consumers(root.store):
        ref = refs.get(consumer.incarnation)
        if ref is not None:
            manifest = read_manifest(root.manifest(ref.incarnation), cut.versions[ref.incarnation])
            commits = {one.commit_id: one for one in History().commits(manifest)}
            head = Snapshot(root, ref, manifest).head
            needed = list(list_needed_commits(consumer, head, commits))
            if needed and all(_is_copied(one, versions) for one in needed):
                yield consumer


def _is_copied(commit: CommitRecord, versions: Mapping[PhysicalTable, frozenset[int]]) -> bool:
    return commit.manifest_version in versions.get((MANIFEST, commit.incarnation), frozenset())


class _Planner:
    def __init__(
        self, root: GraphRoot, cut: Cut, pool: ThreadPoolExecutor, tags: Sequence[TagRecord]
    ) -> None:
        self._root, self._cut, self._pool, self._tags = root, cut, pool, tags

    def manifests(self, *, shallow: bool) -> dict[PhysicalTable, frozenset[int]]:
        newest = {(MANIFEST, branch): frozenset({v}) for branch, v in self._cut.versions.items()}
        if not shallow:
            return self.with_parents(
                {table: self._list_all(table, newest[table]) for table in newest}
            )
        found: dict[PhysicalTable, set[int]] = {table: set(all_) for table, all_ in newest.items()}
        tagged = {(tag.incarnation, tag.manifest_version) for tag in self._tags}
        for branch, version in tagged | list_tagged_versions(self._root.manifest()):
            if version < self._cut.versions.get(branch, 0):
                found[MANIFEST, branch].add(version)
        return self.with_parents(found)

    def _list_all(self, table: PhysicalTable, newest: frozenset[int]) -> frozenset[int]:
        listed = list_versions(self._root.manifest(table[1]))
        return frozenset(version for version in listed if version <= max(newest))

    def tables(
        self, manifests: Mapping[PhysicalTable, frozenset[int]]
    ) -> dict[PhysicalTable, frozenset[int]]:
        """Find the table versions that versions of the manifest show."""
        wanted = [(branch, version) for (_, branch), all_ in manifests.items() for version in all_]
        found: dict[PhysicalTable, set[int]] = defaultdict(set)
        for entries in self._pool.map(lambda one: self._list_shown(*one), wanted):
            for entry in entries:
                found[entry.path, entry.owner_branch].add(entry.version)
        return {table: frozenset(all_) for table, all_ in found.items()}

    def _list_shown(self, branch: str | None, version: int) -> tuple[TableEntry, ...]:
        manifest = read_manifest(self._root.manifest(branch), version)
        return tuple(manifest.state.entries.values())

    def with_parents(
        self, versions: Mapping[PhysicalTable, Iterable[int]]
    ) -> dict[PhysicalTable, frozenset[int]]:
        """Add the versions that branches start at, without which Lance finds no branch.

        Cleanup removes such a version once the branch reads none of its files. Then the source of
        the branch is copied with its newest version instead.
        """
        found: dict[PhysicalTable, set[int]] = defaultdict(set)
        listed: dict[PhysicalTable, list[int]] = {}
        for table, all_ in versions.items():
            found[table].update(all_)
        for path in sorted({path for path, branch in versions if branch is not None}):
            known = list_branches(self._root.location(path))
            waiting = [branch for at, branch in versions if at == path]
            while waiting:
                branch = waiting.pop()
                if branch is None:
                    continue
                record = known.get(branch)
                if record is None:
                    raise StorageFailure(StorageKind.NOT_FOUND, f"no branch {branch} of {path}")
                parent = (path, record.parent_branch)
                if parent not in listed:  # thousands of branches may start at one
                    listed[parent] = list_versions(self._root.location(*parent))
                there = listed[parent]
                if parent not in found:
                    waiting.append(record.parent_branch)
                if record.parent_version in there:
                    found[parent].add(record.parent_version)
                elif parent not in found:
                    found[parent].add(max(there))
        return {table: frozenset(all_) for table, all_ in found.items()}

    def files(self, versions: Mapping[PhysicalTable, frozenset[int]]) -> frozenset[str]:
        """List every file that versions refer to."""
        wanted = [(table, version) for table, all_ in versions.items() for version in all_]
        files: set[str] = set()
        folders: set[str] = set()
        for (path, _), found in self._pool.map(
            lambda one: (one[0], self._list_files(*one)), wanted
        ):
            files.update(f"{path}/{file}" for file in found.files)
            folders.update(f"{path}/{folder}" for folder in found.folders)
        store, ordered = self._root.store, sorted(folders)
        for folder, names in zip(ordered, self._pool.map(store.list, ordered), strict=True):
            files.update(f"{folder}/{name}" for name in names)
        return frozenset(files)

    def _list_files(self, table: PhysicalTable, version: int) -> TableFiles:
        return list_referred_files(open_table(self._root.location(*table), version))


_FILE = re.compile(
    r"(?P<table>__manifest|[^/]+/[^/]+)(?:/tree/(?P<branch>[0-9A-Z]{26}))?/(?P<name>.+)"
)


class CopiedChecksums:
    """Checksums of the files that a clone has copied; thread-safe."""

    def __init__(self, source: GraphRoot, target: GraphRoot) -> None:
        self._source, self._target = source, target
        self._logs = ChecksumLogs()
        self._copied: dict[str, list[Checksum]] = defaultdict(list)
        self._lock = threading.Lock()

    def take(self, path: str, size: int, crc: int) -> None:
        """Add a file that was just read from the source.

        Raises:
            ManifestCorrupt: its checksum differs from that of the source.
        """
        parts = _FILE.fullmatch(path)
        if parts is None:
            return
        table, branch, name = parts["table"], parts["branch"], parts["name"]
        self._require_same(table, branch, Checksum(name, size, crc))
        folder = self._target.location(table, branch).local_folder
        if folder is not None:
            with self._lock:
                self._copied[folder].append(Checksum(name, size, crc))

    def _require_same(self, table: str, branch: str | None, found: Checksum) -> None:
        folder = self._source.location(table, branch).local_folder
        if folder is None:
            return
        with self._lock:
            noted = self._logs.of(folder).files.get(found.name)
        if noted is not None and (noted.size, noted.crc) != (found.size, found.crc):
            raise ManifestCorrupt(
                f"{folder}/{found.name} is not what was written: its checksum differs. "
                "`omnigraph verify --deep` names everything that is damaged; restore it from a "
                "backup before this graph is cloned"
            )

    def note(self, versions: Mapping[tuple[str, str | None], Iterable[int]]) -> None:
        """Write the checksum logs and version hints of the tables, on a local disk."""
        store = self._target.store
        if store.kind is not StoreKind.LOCAL:
            return
        for folder, sums in self._copied.items():
            add_checksums(folder, sums)
        for (table, branch), numbers in versions.items():
            location = self._target.location(table, branch)
            for number in sorted(numbers):
                record_version_file(location, number)
            home = table if branch is None else f"{table}/tree/{branch}"
            store.put(f"{home}/{NEWEST_HINT}", encode_newest_hint(max(numbers)))
            if branch is not None:
                record_branch_ref(location, branch)


_PLANS = 5
_FOLDERS = (MANIFEST, *(make_tables_folder(kind) for kind in EntityKind), BRANCHES)


class CloneResult(Result, frozen=True):
    """The result of a clone."""

    uri: str
    source: str
    branches: tuple[BranchName, ...]
    tables: int
    versions: int
    """The number of readable graph versions, on all branches together."""
    files: int
    bytes: int


def clone(
    source: GraphRoot,
    target: GraphRoot,
    branches: Collection[BranchName] = (),
    *,
    shallow: bool = False,
    force: bool = False,
) -> CloneResult:
    """Copy a graph; `branches`, if any, are those to copy besides `main`.

    Raises:
        AlreadyInitialized: there is a graph at the target.
        CloneUnfinished: there is an unfinished clone; `force` starts it over.
        BranchNotFound: there is no such branch.
    """
    _require_apart(source.store, target.store)
    require_create_if_absent(target.store, target.ids)
    copying = _Copying(source, target, target.ids.next())
    copying.claim(force=force)
    return copying.run(branches, shallow=shallow)


def _require_apart(source: ObjectStore, target: ObjectStore) -> None:
    one, other = f"{source.identity}/", f"{target.identity}/"
    if one.startswith(other) or other.startswith(one):
        raise BadRequest(f"a clone of {source.uri} cannot be at {target.uri}: one is in the other")


def _refuse_used(store: ObjectStore) -> None:
    for path in (MANIFEST, INIT_CLAIM, *SCHEMA_FILES):
        if store.exists(path):
            raise AlreadyInitialized(store.uri, path)


class _Copying:
    def __init__(self, source: GraphRoot, target: GraphRoot, attempt: str) -> None:
        self._source, self._target = source, target
        self._claim = CloneClaim(attempt, source.uri)
        self._copied: dict[str, int] = {}
        """The copied files, with their sizes."""
        self._checksums = CopiedChecksums(source, target)

    def claim(self, *, force: bool) -> None:
        store = self._target.store
        before = CLONE_CLAIMS.find_stored(store)
        if force and before is not None and not decode_claim(before).is_released:
            if not CLONE_CLAIMS.swap(store, self._claim, before):
                raise self._make_overtaken()
            for path in _FOLDERS:
                store.delete_prefix(path)
            for path in (*SCHEMA_FILES, ADDRESS, ORPHAN_CANDIDATES):
                store.delete(path)
            return
        require_finished(store)
        _refuse_used(store)
        if not CLONE_CLAIMS.swap(store, self._claim, before):
            require_finished(store)
            raise AlreadyInitialized(store.uri, MANIFEST)
        try:
            _refuse_used(store)  # another clone may have finished before the claim
        except AlreadyInitialized:
            release_claim(store, self._claim)
            raise

    def _make_overtaken(self) -> ConflictError:
        uri = self._target.store.uri
        return ConflictError(f"another clone to {uri} was started or finished concurrently")

    def _require_claim(self) -> None:
        """Raise if another clone has taken the target."""
        if not CLONE_CLAIMS.holds(self._target.store, self._claim):
            raise self._make_overtaken()

    def run(self, branches: Collection[BranchName], *, shallow: bool) -> CloneResult:
        with (
            working("copying", unit="files") as work,
            ThreadPoolExecutor(self._target.settings.maintenance_concurrency) as pool,
        ):
            plan = self._copy_all(branches, work, pool, shallow=shallow)
        self._finish(plan)
        tables, versions = plan.count()
        return CloneResult(
            uri=self._target.uri,
            source=self._source.uri,
            branches=tuple(ref.name for ref in plan.cut.refs),
            tables=tables,
            versions=versions,
            files=len(self._copied),
            bytes=sum(self._copied.values()),
        )

    def _copy_all(
        self,
        branches: Collection[BranchName],
        work: Work,
        pool: ThreadPoolExecutor,
        *,
        shallow: bool,
    ) -> Plan:
        """Copy all files of the graph as of one moment."""
        for attempt in range(_PLANS):
            try:
                cut = take_cut(self._source)
                plan = make_plan(
                    self._source, cut.only(branches) if branches else cut, shallow=shallow
                )
                self._copy_files(plan, work, pool)
                self._require_claim()
                self._copy_versions(plan, pool)
                self._copy_branches(plan)
                self._copy_tags(plan)
            except (HistoricalVersionReclaimed, StorageFailure) as failure:
                if attempt + 1 == _PLANS or not _may_be_cleaned_away(failure):
                    raise
            else:
                return plan
        raise AssertionError("the last plan is carried out or raises")

    def _copy_files(self, plan: Plan, work: Work, pool: ThreadPoolExecutor) -> None:
        missing = sorted(plan.files - self._copied.keys())
        work.total = len(self._copied) + len(missing)
        for path, size in pool.map(self._copy_file, missing):
            self._copied[path] = size
            work.advance()

    def _copy_file(self, path: str) -> tuple[str, int]:
        size = crc = 0

        def count_chunks() -> Iterable[bytes]:
            nonlocal size, crc
            for chunk in self._source.store.chunks(path):
                size, crc = size + len(chunk), zlib.crc32(chunk, crc)
                yield chunk
            self._checksums.take(path, size, crc)

        self._target.store.put_chunks(path, count_chunks())
        return path, size

    def _copy_versions(self, plan: Plan, pool: ThreadPoolExecutor) -> None:
        wanted = [(table, version) for table, all_ in plan.versions.items() for version in all_]
        for _ in pool.map(lambda one: self._copy_version(*one), wanted):
            continue

    def _copy_version(self, table: PhysicalTable, version: int) -> None:
        path, branch = table
        folder = path if branch is None else f"{path}/tree/{branch}"
        file = f"{folder}/{file_probes.name_version_file(version)}"
        data = self._source.store.get(file)
        home = self._target.store.uri_of(path)
        self._target.store.put(file, relocate_version(data, home))

    def _copy_branches(self, plan: Plan) -> None:
        """Copy the refs of physical branches, which create these."""
        for table, branch in plan.versions:
            if branch is not None:
                self._copy_object(f"{table}/{file_probes.name_branch_file(branch)}")

    def _copy_tags(self, plan: Plan) -> None:
        """Copy the Lance tags of copied manifest versions."""
        for name, branch, version in list_table_tags(self._source.manifest()):
            if version in plan.versions.get((MANIFEST, branch), ()):
                self._copy_object(f"{MANIFEST}/{file_probes.tag_file(name)}")

    def _copy_object(self, path: str) -> None:
        self._target.store.put(path, self._source.store.get(path))

    def _finish(self, plan: Plan) -> None:
        """Write the records of the copied versions, verify these, and release the claim."""
        target, store = self._target, self._target.store
        self._require_claim()
        self._checksums.note(plan.versions)
        for ref in plan.cut.refs:
            if ref.incarnation is not None:
                # Relation marks are not copied, so deletions of the copy read all records.
                REF_RECORDS.put(store, replace(ref, leaves_marks=False))
                note_named(target, ref.incarnation)
            newest = find_latest_version(target.manifest(ref.incarnation))
            if newest != plan.cut.versions[ref.incarnation]:
                raise ConflictError(
                    f"'{ref.name}' at {store.uri} is at manifest version {newest}, and not at "
                    f"{plan.cut.versions[ref.incarnation]}: something else writes there"
                )
        for tag in plan.tags:
            TAG_RECORDS.create(store, tag)
        for consumer in plan.consumers:
            CONSUMER_RECORDS.create(store, consumer)
        for path, text in list_mirror_files(plan.contract):
            store.put(path, text.encode())
        write_control_files(target)
        if not release_claim(store, self._claim):
            raise self._make_overtaken()


def _may_be_cleaned_away(failure: OmniError) -> bool:
    """Return whether files may be missing because cleanup has removed them."""
    if isinstance(failure, StorageFailure):
        return failure.kind in (StorageKind.NOT_FOUND, StorageKind.PERMANENT)
    return True
