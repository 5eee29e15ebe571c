"""One graph root: its parts, its fence, and the caches every writer of it shares."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from omnigraph.cache import Cache
from omnigraph.identity import EntityKind, UlidSource
from omnigraph.settings import FenceMode, Settings
from omnigraph.storage.layout import MANIFEST, make_tables_folder
from omnigraph.storage.manifest.manifest_reader import ManifestCache, get_known_generation
from omnigraph.storage.objects.object_store import ObjectStore, StoreKind
from omnigraph.storage.objects.open_store import open_store
from omnigraph.storage.tables.file_probes import name_version_file
from omnigraph.storage.tables.location import Generation, TableLocation
from omnigraph.storage.tables.row_lookup import RowDirectory
from omnigraph.storage.tables.stage_table import StagedTransaction
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.writer_fence import Fence, FenceGuard

MAX_CACHED_DIRECTORIES = 16
MAX_CACHED_HANDLES = 256
"""Each handle has the list of its fragments, some hundred kilobytes for a large table."""


class TableHandles:
    """Cache of opened tables, by location and version, which are immutable.

    A location names the generation of its table, so a table that was removed and created again is
    not confused with its predecessor.
    """

    def __init__(self, capacity: int = MAX_CACHED_HANDLES) -> None:
        self._tables: Cache[tuple[TableLocation, int], Table] = Cache(capacity)
        self._directories: Cache[TableLocation, RowDirectory] = Cache(MAX_CACHED_DIRECTORIES)

    def find(self, location: TableLocation, version: int) -> Table | None:
        return self._tables.find((location, version))

    def open(self, location: TableLocation, version: int) -> Table:
        """Open a table at a version, or return its cached handle."""
        return self.find(location, version) or self.keep(open_table(location, version))

    def keep(self, table: Table) -> Table:
        """Cache a table, and attach the row directory that all its versions share."""
        table.directory = self._directories.value(table.location, RowDirectory)
        self._tables.keep((table.location, table.version), table)
        return table

    def follow(self, staged: StagedTransaction, committed: Table) -> None:
        """Cache a table as this process has just committed it."""
        directory = self.keep(committed).directory
        assert directory is not None, "a kept table has a directory"
        directory.follow(staged, committed)


def read_clock_us() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True)
class GraphRoot:
    """A graph root with its store, fence, clock and id source."""

    store: ObjectStore
    settings: Settings = field(default_factory=Settings)
    ids: UlidSource = field(default_factory=UlidSource)
    now_us: Callable[[], int] = read_clock_us
    handles: TableHandles = field(default_factory=TableHandles, repr=False, compare=False)
    manifests: ManifestCache = field(default_factory=ManifestCache, repr=False, compare=False)

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
        from omnigraph.storage.lease_fence import LeaseTerms, open_fence  # noqa: PLC0415

        terms = LeaseTerms.lasting(self.settings.lease_term_s)
        return open_fence(self.store, self.settings.writer_fence, self.ids, terms)

    @property
    def lease_may_expire(self) -> bool:
        """True if the fence is a lease: a writer may act after its expiry."""
        is_lease = self.store.kind is not StoreKind.LOCAL
        return is_lease or self.settings.writer_fence is FenceMode.OFF

    def acquire_fence(self) -> FenceGuard:
        """Acquire the writer fence of the graph."""
        return self.fence.acquire(self.settings.writer_wait_s)

    def location(
        self, path: str, branch: str | None = None, generation: Generation | None = None
    ) -> TableLocation:
        """Return the location of a table, by default of the last seen generation."""
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
        """The generation of the graph as seen last; None if none was seen."""
        return get_known_generation(self._manifest_uri)

    @cached_property
    def _manifest_uri(self) -> str:
        return self.store.uri_of(MANIFEST)

    def version_path(self, location: TableLocation, version: int) -> str:
        """Return the path of the manifest of a table version."""
        folder = location.native_uri.removeprefix(f"{self.store.uri}/")
        return f"{folder}/{name_version_file(version)}"

    def table_paths(self) -> list[str]:
        """List the folders of all tables, registered or not."""
        folders = [make_tables_folder(kind) for kind in EntityKind]
        return [f"{at}/{name}" for at in folders for name in self.store.list_prefixes(at)]

    def manifest(self, branch: str | None = None) -> TableLocation:
        """Return the manifest table on a physical branch; None is that of `main`."""
        return self.location(MANIFEST, branch)
