"""One graph root: its parts, its fence, and the caches every writer of it shares."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from omnigraph.cache import Cache
from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.identity import EntityKind, UlidSource
from omnigraph.settings import FenceMode, Settings
from omnigraph.storage.layout import MANIFEST, make_tables_folder
from omnigraph.storage.local_fence import LocalFence, find_exclusion_problem
from omnigraph.storage.manifest.manifest_reader import KnownManifests, get_known_generation
from omnigraph.storage.objects.object_store import ObjectStore, StoreKind
from omnigraph.storage.objects.open_store import open_store, supports_put_if_match
from omnigraph.storage.tables.file_probes import name_version_file
from omnigraph.storage.tables.location import Generation, TableLocation
from omnigraph.storage.tables.row_lookup import RowDirectory
from omnigraph.storage.tables.stage_table import StagedTransaction
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.writer_fence import Fence, Hold, ProcessFence
from omnigraph.storage.writer_lease import LeaseFence, LeaseTerms

KEPT_DIRECTORIES = 16
KEPT_HANDLES = 256
"""A handle holds the list of its fragments; a large table's takes some hundred kilobytes."""


class TableHandles:
    """The tables used last, by place and version. A version never changes, so none grows stale.

    A place names the generation of its table, so what was removed and made again is not mistaken
    for what was there before.
    """

    def __init__(self, capacity: int = KEPT_HANDLES) -> None:
        self._tables: Cache[tuple[TableLocation, int], Table] = Cache(capacity)
        self._directories: Cache[TableLocation, RowDirectory] = Cache(KEPT_DIRECTORIES)

    def find(self, location: TableLocation, version: int) -> Table | None:
        return self._tables.find((location, version))

    def open(self, location: TableLocation, version: int) -> Table:
        """The table at exactly this version, opened unless it is at hand."""
        return self.find(location, version) or self.keep(open_table(location, version))

    def keep(self, table: Table) -> Table:
        """The same table, to be found from now on, with the directory all its versions share."""
        table.directory = self._directories.value(table.location, RowDirectory)
        self._tables.keep((table.location, table.version), table)
        return table

    def follow(self, staged: StagedTransaction, committed: Table) -> None:
        """Keep a table as this process has just left it."""
        directory = self.keep(committed).directory
        assert directory is not None, "a kept table has a directory"
        directory.follow(staged, committed)


log = logging.getLogger(__name__)

_warned: set[str] = set()


def open_fence(
    store: ObjectStore, mode: FenceMode, ids: UlidSource, terms: LeaseTerms | None = None
) -> Fence:
    """The strongest fence the root of `store` can have, after trying that it holds.

    The root must exist. Keep the result: trying an object store takes a few requests. `terms` are
    those of a lease, where it comes to one.

    Raises:
        StorageFailure: a fence is required and the storage cannot offer one.
    """
    if mode is FenceMode.OFF:
        return ProcessFence(store.identity)
    problem = _find_problem(store, ids)
    if problem is None:
        return _get_shared_fence(store, terms)
    if mode is FenceMode.REQUIRED:
        raise StorageFailure(
            StorageKind.CONFIGURATION,
            f"{store.uri} cannot keep writers in different processes apart: {problem}",
        )
    _warn_once(store, problem)
    return ProcessFence(store.identity)


def _find_problem(store: ObjectStore, ids: UlidSource) -> str | None:
    if store.kind is StoreKind.LOCAL:
        problem = find_exclusion_problem(Path(store.uri))
        return None if problem is None else f"the file system does not lock files, {problem}"
    if supports_put_if_match(store, ids):
        return None
    return "the store does not replace objects conditionally"


def _get_shared_fence(store: ObjectStore, terms: LeaseTerms | None) -> Fence:
    if store.kind is StoreKind.LOCAL:
        return LocalFence(Path(store.uri))
    return LeaseFence(store, terms=terms)


def _warn_once(store: ObjectStore, problem: str) -> None:
    if store.identity not in _warned:
        _warned.add(store.identity)
        log.warning("%s: %s; only one process at a time may write this graph", store.uri, problem)


def read_clock_us() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True)
class GraphRoot:
    """A root with its store, its fence, its clock and its source of ids."""

    store: ObjectStore
    settings: Settings = field(default_factory=Settings)
    ids: UlidSource = field(default_factory=UlidSource)
    now_us: Callable[[], int] = read_clock_us
    handles: TableHandles = field(default_factory=TableHandles, repr=False, compare=False)
    manifests: KnownManifests = field(default_factory=KnownManifests, repr=False, compare=False)

    @classmethod
    def at(cls, uri: str, settings: Settings | None = None) -> GraphRoot:
        chosen = settings or Settings()
        return cls(open_store(uri, chosen), chosen)

    @property
    def uri(self) -> str:
        return self.store.uri

    @cached_property
    def fence(self) -> Fence:
        # Readers take no fence, and do not load what it is made of.
        from omnigraph.storage.writer_lease import LeaseTerms  # noqa: PLC0415

        terms = LeaseTerms.lasting(self.settings.lease_term_s)
        return open_fence(self.store, self.settings.writer_fence, self.ids, terms)

    @property
    def lease_may_expire(self) -> bool:
        """Whether a writer may act after its hold was taken from it: the fence is a lease."""
        is_lease = self.store.kind is not StoreKind.LOCAL
        return is_lease or self.settings.writer_fence is FenceMode.OFF

    def hold(self) -> Hold:
        """The right to change this graph, once no other writer has it."""
        return self.fence.acquire(self.settings.writer_wait_s)

    def location(
        self, path: str, branch: str | None = None, generation: Generation | None = None
    ) -> TableLocation:
        """A table below this root, by default of the graph that was seen here last."""
        folder = self.store.uri if self.store.kind is StoreKind.LOCAL else None
        return TableLocation(
            self.store.uri_of(path),
            branch,
            self.store.storage_options,
            generation or self.generation,
            folder,
            self.settings.verify_reads,
        )

    @property
    def generation(self) -> Generation | None:
        """That of the graph that was seen here last; None if none was seen."""
        return get_known_generation(self._manifest_uri)

    @cached_property
    def _manifest_uri(self) -> str:
        return self.store.uri_of(MANIFEST)

    def version_path(self, location: TableLocation, version: int) -> str:
        """The file that makes a version of a table exist, below this root."""
        folder = location.native_uri.removeprefix(f"{self.store.uri}/")
        return f"{folder}/{name_version_file(version)}"

    def table_paths(self) -> list[str]:
        """The folders of all tables, whether the graph knows them or not."""
        folders = [make_tables_folder(kind) for kind in EntityKind]
        return [f"{at}/{name}" for at in folders for name in self.store.list_prefixes(at)]

    def manifest(self, branch: str | None = None) -> TableLocation:
        """The manifest table on one of its physical branches; None is the branch of `main`."""
        return self.location(MANIFEST, branch)
