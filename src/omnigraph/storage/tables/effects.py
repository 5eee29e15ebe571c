"""What every native write of a table passes: the check for planted links, and the observer.

The substrate opens files by their path and follows links on the way. So before it writes or
removes anything, the folders it is going to touch are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from omnigraph.storage.objects.beneath import require_no_links
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


def report_native_write(action: str, location: TableLocation) -> AbstractContextManager[None]:
    """One durable write or removal by the substrate, at this table or branch of it.

    Raises:
        LinkInGraph: a folder it would change is a symbolic link.
    """
    require_plain_folders(location, _FOLDERS[action])
    if action in ("create_branch", "delete_branch"):
        require_plain_folders(location.on_branch(None), ("_refs/branches",))
    return report_write(action, location.native_uri)


def require_plain_folders(location: TableLocation, folders: Iterable[str]) -> None:
    """Raise `LinkInGraph` if one of these folders of a table, or one above it, is a link."""
    place, root = location.local_folder, location.graph_folder
    if place is not None and root is not None:
        table = place.removeprefix(f"{root}/")
        require_no_links(root, [f"{table}/{folder}" for folder in folders])
