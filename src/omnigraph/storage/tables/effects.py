"""What every native write of a table passes: the check for planted links, and the observer.

The substrate opens files by their path and follows links on the way. So before it writes or
removes anything, the folders it is going to touch are looked at. Where it removes what it finds in
them, so is everything below: it goes into linked folders, and takes what is a week old and named by
no version.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache

from omnigraph.storage.objects.beneath import require_no_links, require_no_links_below
from omnigraph.storage.objects.write_observer import report_write
from omnigraph.storage.tables.location import TableLocation

_VERSION_FOLDERS = ("_transactions", "_versions")
_FOLDERS = {
    "write_fragments": ("data",),
    "write_deletions": ("_deletions",),
    "write_indices": ("_indices",),
    "compact": ("data", "_indices"),
    "commit": _VERSION_FOLDERS,
    "restore": _VERSION_FOLDERS,
    "remove_versions": (*_VERSION_FOLDERS, "data", "_deletions", "_indices"),
    "create_branch": _VERSION_FOLDERS,
    "delete_branch": (".",),
    "drop_tree": (".",),
}
"""The folders each kind of write changes, below the folder of the branch it is about."""
_REMOVALS = frozenset({"remove_versions", "delete_branch", "drop_tree"})
"""Writes for which the substrate looks for files in folders below those as well."""


def report_native_write(action: str, location: TableLocation) -> AbstractContextManager[None]:
    """One durable write or removal by the substrate, at this table or branch of it.

    Raises:
        LinkInGraph: a folder it would change is a symbolic link, or it would remove files and
            there is a link anywhere below that folder.
    """
    folders = _FOLDERS[action]
    require_plain_folders(location, folders)
    if action in _REMOVALS and location.local_folder is not None:
        for folder in folders:
            place = location.local_folder
            require_no_links_below(place if folder == "." else f"{place}/{folder}")
    if action in ("create_branch", "delete_branch"):
        require_plain_folders(location.on_branch(None), ("_refs/branches",))
    return report_write(action, location.native_uri)


def require_plain_folders(location: TableLocation, folders: tuple[str, ...]) -> None:
    """Raise `LinkInGraph` if one of these folders of a table, or one above it, is a link."""
    place, root = location.local_folder, location.graph_folder
    if place is not None and root is not None:
        require_no_links(root, _name_below(root, place, folders))


@lru_cache(maxsize=256)  # every commit asks for the same few
def _name_below(root: str, table: str, folders: tuple[str, ...]) -> tuple[str, ...]:
    """Folders of a table as paths below the root of the graph."""
    start = table.removeprefix(f"{root}/")
    return tuple(f"{start}/{folder}" for folder in folders)
