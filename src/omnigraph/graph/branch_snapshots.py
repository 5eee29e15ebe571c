"""Read branches: the newest snapshot of a branch, with its catalog.

An open graph reads only what changed: an unchanged manifest is not read again, and a catalog is
compiled once per schema.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Self, TypeVar

from omnigraph.catalog.catalog import Catalog
from omnigraph.catalog.codec import load_if_digest_matches
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    CommitNotFound,
    HistoricalVersionReclaimed,
    SchemaContractMismatch,
    StorageError,
)
from omnigraph.identity import BranchName, CommitId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import normalize_branch
from omnigraph.storage.manifest import (
    CommitRecord,
    History,
    ManifestSnapshot,
    ManifestState,
    SchemaContract,
    read_newest,
)
from omnigraph.storage.refs import BranchRef, find_ref, list_names, list_refs, read_ref
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import ChangedKeys, Generation, Table, find_changed_keys
from omnigraph.writer.change import CatalogSnapshot as CatalogSnapshot

T = TypeVar("T")

_MAX_ATTEMPTS = 8
"""Attempts to read a branch that is deleted and created again concurrently."""


@dataclass
class _GenerationSeen:
    """The generation of the graph last seen at the address; shared by all readers of this root."""

    generation: Generation | None = field(default=None)


class BranchSnapshots:
    """Opens snapshots of a graph's branches; safe to share between threads."""

    def __init__(self, root: GraphRoot) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._seen = _GenerationSeen()
        self._warm: dict[str | None, ManifestSnapshot] = {}
        self._histories: dict[str | None, History] = {}
        self._catalogs: dict[SchemaContract, Catalog] = {}
        self._checked: tuple[ManifestState, Catalog] | None = None
        self._see: Callable[[CatalogSnapshot], CatalogSnapshot] | None = None

    def __repr__(self) -> str:
        return f"Views({self.root.uri!r})"

    def with_filter(self, see: Callable[[CatalogSnapshot], CatalogSnapshot]) -> Self:
        """Return a reader that passes every view through `see`; caches are shared."""
        other = copy.copy(self)
        other._see = see
        return other

    def read_newest(self, branch: str) -> CatalogSnapshot:
        """Return the current snapshot of a branch, with its catalog."""
        return self._make_view(Snapshot(self.root, *self._read_newest_of(normalize_branch(branch))))

    def with_newest(self, branch: str, use: Callable[[CatalogSnapshot], T]) -> T:
        """Apply `use` to the current snapshot; retry if cleanup removes it concurrently."""
        for _ in range(_MAX_ATTEMPTS - 1):
            with suppress(HistoricalVersionReclaimed):
                return use(self.read_newest(branch))
        return use(self.read_newest(branch))

    def remember(self, ref: BranchRef, manifest: ManifestSnapshot) -> None:
        """Cache a manifest that was just published, so that the next read need not load it."""
        self.root.manifests.keep(manifest)
        with self._lock:
            self._forget_unless_of(manifest.generation)
            known = self._warm.get(ref.incarnation)
            if known is None or known.version <= manifest.version:
                self._warm[ref.incarnation] = manifest

    def _forget_unless_of(self, generation: Generation) -> None:
        """Drop the caches of the previous graph at this address, if it was replaced."""
        if generation != self._seen.generation:
            self._seen.generation = generation
            self._warm.clear()
            self._histories.clear()

    def _read_newest_of(self, branch: BranchName) -> tuple[BranchRef, ManifestSnapshot]:
        """Return the branch and its newest manifest; retry if it is deleted and created again."""
        for _ in range(_MAX_ATTEMPTS):
            ref = read_ref(self.root.store, branch)
            with suppress(BranchNotFound), self._retry_while_alive(ref):
                return ref, self._read_newest_manifest(ref)
        raise BranchNotFound(branch)

    @contextmanager
    def _retry_while_alive(self, ref: BranchRef) -> Iterator[None]:
        """Raise BranchNotFound for reads that fail because the branch was deleted."""
        try:
            yield
        except (StorageError, HistoricalVersionReclaimed) as error:
            if find_ref(self.root.store, ref.name) == ref:
                raise
            raise BranchNotFound(ref.name) from error

    def _read_newest_manifest(self, ref: BranchRef) -> ManifestSnapshot:
        warm = self._warm.get(ref.incarnation)
        if warm is not None and warm.generation == self.root.generation:
            location = warm.location
        else:
            location = self.root.manifest(ref.incarnation)
        manifest = read_newest(location, warm)
        if manifest is not warm:
            self.remember(ref, manifest)
        return manifest

    def at_commit(self, commit_id: str, branch: str) -> CatalogSnapshot:
        """Return the state of the graph at a commit.

        The bound branch is searched first, then every other one.
        """
        return self.of_commit(self.commit(commit_id, branch))

    def of_commit(self, commit: CommitRecord) -> CatalogSnapshot:
        """Return the state of the graph at a known commit."""
        ref = self.authoring_ref(commit)
        with self._retry_while_alive(ref):
            location = self.root.manifest(commit.incarnation)
            try:
                manifest = self.root.manifests.read(location, commit.manifest_version)
            except HistoricalVersionReclaimed as error:
                raise HistoricalVersionReclaimed(
                    error.version, error.what, commit.commit_id
                ) from error
        head = manifest.state.head_of(commit.branch, commit.incarnation)
        if head is None or head.commit_id != commit.commit_id:
            raise BadRequest(
                f"manifest version {commit.manifest_version} of branch '{commit.branch}' does "
                f"not contain commit {commit.commit_id}"
            )
        return self._make_view(Snapshot(self.root, ref, manifest))

    def at_version(self, version: int, branch: str) -> CatalogSnapshot:
        """Return the state at a manifest version of a branch."""
        ref, newest = self._read_newest_of(normalize_branch(branch))
        if not 1 <= version <= newest.version:
            raise BadRequest(
                f"branch '{ref.name}' has manifest versions up to {newest.version}, not {version}"
            )
        while version < ref.fork_version:
            assert ref.parent is not None, "a branch with a fork version has a parent"
            ref = self.ref_of(ref.parent_incarnation, ref.parent)
        with self._retry_while_alive(ref):
            manifest = self.root.manifests.read(self.root.manifest(ref.incarnation), version)
        return self._make_view(Snapshot(self.root, ref, manifest))

    def commits(self, branch: str) -> tuple[CommitRecord, ...]:
        """List every commit reachable from the branch, newest first."""
        ref, newest = self._read_newest_of(normalize_branch(branch))
        with self._retry_while_alive(ref):
            return self._get_history(ref, newest).commits(newest)

    def commits_at(self, snapshot: Snapshot) -> Mapping[CommitId, CommitRecord]:
        """Return every commit visible at a snapshot, in no particular order."""
        with self._retry_while_alive(snapshot.ref):
            history = self._get_history(snapshot.ref, snapshot.manifest)
            return history.commits_by_id(snapshot.manifest)

    def find_commit(
        self, snapshot: Snapshot, is_wanted: Callable[[CommitRecord], bool]
    ) -> CommitRecord | None:
        """Return some commit visible at a snapshot that satisfies the predicate."""
        with self._retry_while_alive(snapshot.ref):
            return self._get_history(snapshot.ref, snapshot.manifest).find(
                snapshot.manifest, is_wanted
            )

    def commit(self, commit_id: str, branch: str) -> CommitRecord:
        return self._find_on_branch(commit_id, branch)[0]

    def commits_with(self, commit_id: str, branch: str) -> dict[CommitId, CommitRecord]:
        """Return the commits of the first branch that contains this one; the bound branch first."""
        _, ref, newest = self._find_on_branch(commit_id, branch)
        with self._retry_while_alive(ref):
            return dict(self._get_history(ref, newest).commits_by_id(newest))

    def _find_on_branch(
        self, commit_id: str, branch: str
    ) -> tuple[CommitRecord, BranchRef, ManifestSnapshot]:
        wanted, bound = CommitId(commit_id.strip()), normalize_branch(branch)
        for name in self._list_from(bound):
            try:
                ref, newest = self._read_newest_of(name)
                with self._retry_while_alive(ref):
                    found = self._get_history(ref, newest).find_commit(newest, wanted)
            except BranchNotFound:
                if name == bound:
                    raise
                continue  # deleted while we looked
            if found is not None:
                return found, ref, newest
        raise CommitNotFound(commit_id)

    def _list_from(self, bound: BranchName) -> Iterator[BranchName]:
        """Yield every branch, this one first; the others are listed only on demand."""
        yield bound
        yield from (name for name in list_names(self.root.store) if name != bound)

    def commits_starting(self, prefix: str, branch: str) -> dict[CommitId, CommitRecord]:
        """Return the commits with this id prefix: of the branch or, if it has none, of all."""
        bound = normalize_branch(branch)
        found = {c.commit_id: c for c in self.commits(bound) if c.commit_id.startswith(prefix)}
        if found:
            return found
        for name in list_names(self.root.store):
            with suppress(BranchNotFound):  # deleted while we look
                found |= {
                    c.commit_id: c for c in self.commits(name) if c.commit_id.startswith(prefix)
                }
        return found

    def history(self, branch: BranchName) -> tuple[History, ManifestSnapshot]:
        ref, newest = self._read_newest_of(branch)
        return self._get_history(ref, newest), newest

    def _get_history(self, ref: BranchRef, newest: ManifestSnapshot) -> History:
        with self._lock:
            self._forget_unless_of(newest.generation)
            return self._histories.setdefault(ref.incarnation, History())

    def authoring_ref(self, commit: CommitRecord) -> BranchRef:
        """Return the branch a commit was authored on, under its current name."""
        try:
            return self.ref_of(commit.incarnation, BranchName(commit.branch))
        except BranchNotFound:
            raise BadRequest(
                f"commit {commit.commit_id} was made on branch '{commit.branch}', which was deleted"
            ) from None

    def ref_of(self, incarnation: str | None, name: BranchName) -> BranchRef:
        """Return the branch of an incarnation under its current name; `name` is a former one."""
        found = find_ref(self.root.store, name)
        if found is not None and found.incarnation == incarnation:
            return found
        for ref in list_refs(self.root.store):
            if ref.incarnation == incarnation:
                return ref
        raise BranchNotFound(name)

    def _make_view(self, snapshot: Snapshot) -> CatalogSnapshot:
        view = CatalogSnapshot(snapshot, self._decode_catalog(snapshot.state))
        return view if self._see is None else self._see(view)

    def _decode_catalog(self, state: ManifestState) -> Catalog:
        checked = self._checked
        if checked is not None and state.has_tables_of(checked[0]):
            return checked[1]
        contract = state.contract
        if contract is None:
            raise SchemaContractMismatch("the manifest holds no schema")
        catalog = self._catalogs.get(contract)
        if catalog is None:
            catalog = load_if_digest_matches(contract.source, contract.ir, contract.state)
        if catalog is None:
            # The schema compiler is imported only if the digests of the stored form do not match.
            from omnigraph.maintenance.verify import check_schema

            catalog = check_schema(contract)
        check_tables(catalog, state)
        with self._lock:
            self._catalogs[contract] = catalog
        self._checked = state, catalog
        return catalog


def check_tables(catalog: Catalog, state: ManifestState) -> None:
    """Raise unless the schema and the manifest list the same tables."""
    declared = {key: type_.identity for key, type_ in catalog.by_table_key.items()}
    shown = {key: entry.identity for key, entry in state.entries.items()}
    if declared == shown:
        return
    for key in sorted(declared.keys() | shown.keys()):
        if declared.get(key) != shown.get(key):
            raise SchemaContractMismatch(
                f"the schema has {key} as {declared.get(key)}, the manifest as {shown.get(key)}"
            )


class RecentKeys:
    """Caches the ids changed between two versions: the pages of a large commit share them."""

    def __init__(self) -> None:
        self._last: tuple[object, ChangedKeys] | None = None

    def find(self, before: Table | None, after: Table | None) -> ChangedKeys:
        asked = tuple(None if t is None else (t.location, t.version) for t in (before, after))
        last = self._last
        if last is None or last[0] != asked:
            last = (asked, find_changed_keys(before, after))
            self._last = last
        return last[1]
