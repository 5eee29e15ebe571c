"""What a clone consists of: versions of tables, and the files they refer to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.errors import ManifestCorrupt, StorageFailure, StorageKind
from omnigraph.storage.clone.cut import Cut
from omnigraph.storage.consumers import Consumer, list_consumers, list_needed_commits
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.manifest.commits import Commit
from omnigraph.storage.manifest.read import History, read_manifest
from omnigraph.storage.manifest.state import SchemaContract, TableEntry
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.files import TableFiles, list_referred_files
from omnigraph.storage.tables.lance_branches import list_branches
from omnigraph.storage.tables.remove_versions import list_tagged_versions, list_versions
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tags import Tag, list_tags

Place = tuple[str, str | None]
"""A table, or the manifest, by its path, and one of its physical branches."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to copy, as paths and versions below the root."""

    cut: Cut
    contract: SchemaContract
    versions: Mapping[Place, frozenset[int]]
    files: frozenset[str]
    tags: Sequence[Tag]
    consumers: Sequence[Consumer]
    """Those that can go on with the copy: what they have yet to read is copied."""

    def count(self) -> tuple[int, int]:
        """How many tables there are, and how many versions of the manifest."""
        tables = {path for path, _ in self.versions if path != MANIFEST}
        versions = [len(all_) for (path, _), all_ in self.versions.items() if path == MANIFEST]
        return len(tables), sum(versions)


def make_plan(root: GraphRoot, cut: Cut, *, shallow: bool) -> Plan:
    """What the cut consists of.

    With its history: every version of the manifest that is there. Without it (`shallow`): the
    newest one of each branch, those that branches start at, and those somebody put a tag on.
    """
    # One that is made from here on may name a version that is not copied.
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
    root: GraphRoot, cut: Cut, versions: Mapping[Place, frozenset[int]]
) -> Iterator[Consumer]:
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


def _is_copied(commit: Commit, versions: Mapping[Place, frozenset[int]]) -> bool:
    return commit.manifest_version in versions.get((MANIFEST, commit.incarnation), frozenset())


class _Planner:
    def __init__(
        self, root: GraphRoot, cut: Cut, pool: ThreadPoolExecutor, tags: Sequence[Tag]
    ) -> None:
        self._root, self._cut, self._pool, self._tags = root, cut, pool, tags

    def manifests(self, *, shallow: bool) -> dict[Place, frozenset[int]]:
        newest = {(MANIFEST, branch): frozenset({v}) for branch, v in self._cut.versions.items()}
        if not shallow:
            return self.with_parents(
                {place: self._list_all(place, newest[place]) for place in newest}
            )
        found: dict[Place, set[int]] = {place: set(all_) for place, all_ in newest.items()}
        tagged = {(tag.incarnation, tag.manifest_version) for tag in self._tags}
        for branch, version in tagged | list_tagged_versions(self._root.manifest()):
            if version < self._cut.versions.get(branch, 0):
                found[MANIFEST, branch].add(version)
        return self.with_parents(found)

    def _list_all(self, place: Place, newest: frozenset[int]) -> frozenset[int]:
        listed = list_versions(self._root.manifest(place[1]))
        return frozenset(version for version in listed if version <= max(newest))

    def tables(self, manifests: Mapping[Place, frozenset[int]]) -> dict[Place, frozenset[int]]:
        """The versions that these versions of the manifest show."""
        wanted = [(branch, version) for (_, branch), all_ in manifests.items() for version in all_]
        found: dict[Place, set[int]] = defaultdict(set)
        for entries in self._pool.map(lambda one: self._list_shown(*one), wanted):
            for entry in entries:
                found[entry.path, entry.owner_branch].add(entry.version)
        return {place: frozenset(all_) for place, all_ in found.items()}

    def _list_shown(self, branch: str | None, version: int) -> tuple[TableEntry, ...]:
        manifest = read_manifest(self._root.manifest(branch), version)
        return tuple(manifest.state.entries.values())

    def with_parents(self, versions: Mapping[Place, Iterable[int]]) -> dict[Place, frozenset[int]]:
        """The same with the versions that branches start at: without them they are no branches.

        Cleanup removes such a version once the branch reads none of its files. The branch it was
        made from stays, and is copied with its newest version then.
        """
        found: dict[Place, set[int]] = defaultdict(set)
        listed: dict[Place, list[int]] = {}
        for place, all_ in versions.items():
            found[place].update(all_)
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
        return {place: frozenset(all_) for place, all_ in found.items()}

    def files(self, versions: Mapping[Place, frozenset[int]]) -> frozenset[str]:
        """Every file these versions refer to."""
        wanted = [(place, version) for place, all_ in versions.items() for version in all_]
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

    def _list_files(self, place: Place, version: int) -> TableFiles:
        return list_referred_files(open_table(self._root.location(*place), version))
