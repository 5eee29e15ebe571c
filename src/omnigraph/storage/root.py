"""One graph root: where its parts are, and what every writer of it shares."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from omnigraph.identity import EntityKind, UlidSource
from omnigraph.settings import FenceMode, Settings
from omnigraph.storage.fence.hold import Fence, Hold
from omnigraph.storage.generations import get_known_generation
from omnigraph.storage.layout import MANIFEST, make_tables_folder
from omnigraph.storage.manifest.known_manifests import KnownManifests
from omnigraph.storage.objects.open_store import open_store
from omnigraph.storage.objects.store import ObjectStore, StoreKind
from omnigraph.storage.tables.location import Generation, TableLocation
from omnigraph.storage.tables.open_tables import TableHandles
from omnigraph.storage.tables.probes import name_version_file


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
        from omnigraph.storage.fence.lease import LeaseTerms  # noqa: PLC0415
        from omnigraph.storage.fence.open_fence import open_fence  # noqa: PLC0415

        terms = LeaseTerms.lasting(self.settings.lease_term_s)
        return open_fence(self.store, self.settings.writer_fence, self.ids, terms)

    @property
    def has_sleepers(self) -> bool:
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
