"""Versions of the manifest that were read or published before, to be found again without reading.

What a merge starts from, what a difference is taken to and what a feed goes on from is mostly a
version that this process has shown a moment ago.
"""

from __future__ import annotations

from omnigraph.cache import Cache
from omnigraph.storage.manifest.read import ManifestSnapshot, read_manifest
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.marks import find_mark

KEPT_MANIFESTS = 64


class KnownManifests:
    """The versions used last, by place. A place names the generation of its graph."""

    def __init__(self, capacity: int = KEPT_MANIFESTS) -> None:
        self._kept: Cache[tuple[TableLocation, int], ManifestSnapshot] = Cache(capacity)

    def keep(self, manifest: ManifestSnapshot) -> None:
        self._kept.keep((manifest.location, manifest.version), manifest)

    def read(self, location: TableLocation, version: int) -> ManifestSnapshot:
        """A version of the manifest, which is there now: cleanup may have taken one that is kept.

        Raises:
            HistoricalVersionReclaimed: it was cleaned away.
        """
        known = self._kept.find((location, version))
        if known is not None and find_mark(location, version) == known.mark:
            return known
        manifest = read_manifest(location, version)
        self.keep(manifest)
        return manifest
