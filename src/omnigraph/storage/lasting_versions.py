"""Versions that something new may depend on: a tag, a consumer, a branch, a merge.

Cleanup decides under the fence what nobody needs, so what is there under the fence stays. Where the
fence is a lease, a cleanup may have lost it in its sleep and still be about to remove what it
decided on. It has listed that before, so nothing may start at a version that is listed.
"""

from __future__ import annotations

from collections.abc import Collection

from omnigraph.errors import BranchNotFound, HistoricalVersionReclaimed, StorageFailure
from omnigraph.storage.first_seen import list_removable_paths
from omnigraph.storage.manifest.read import read_manifest
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.probes import is_lance_branch
from omnigraph.storage.tables.remove_versions import list_versions
from omnigraph.storage.tables.table import open_table


def require_lasting_manifest(
    root: GraphRoot, branch: str, incarnation: str | None, version: int
) -> None:
    """Raise unless a manifest version of a branch is there to stay. To be called under the fence.

    Raises:
        HistoricalVersionReclaimed: cleanup has removed it, or is about to.
        BranchNotFound: the branch was deleted, and its versions with it.
    """
    location = root.manifest(incarnation)
    try:
        read_manifest(location, version)
    except StorageFailure:
        if incarnation is not None and not is_lance_branch(root.manifest(), incarnation):
            raise BranchNotFound(branch) from None
        raise
    _require_unlisted(root, location, version)


def require_lasting_table(root: GraphRoot, location: TableLocation, version: int) -> None:
    """The same for a version of a table."""
    open_table(location, version)
    _require_unlisted(root, location, version)


def require_lasting_versions(
    root: GraphRoot, location: TableLocation, versions: Collection[int]
) -> None:
    """The same for many versions, which are looked for and not read."""
    there = set(list_versions(location))
    for version in sorted(versions):
        if version not in there:
            raise HistoricalVersionReclaimed(version, str(location))
    _require_unlisted(root, location, *versions)


def _require_unlisted(root: GraphRoot, location: TableLocation, *versions: int) -> None:
    if not root.has_sleepers:
        return
    listed = list_removable_paths(root.store)
    for version in versions:
        if root.version_path(location, version) in listed:
            raise HistoricalVersionReclaimed(version, str(location))
