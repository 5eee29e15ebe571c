"""Small files that other parts of the system keep in a folder or a bucket, as graphs keep theirs.

A file is seen whole or not at all. It is created only where there is none, and replaced only if it
is still the one that was read; of any number of processes that try at once, one succeeds.
"""

from __future__ import annotations

from omnigraph.settings import Settings
from omnigraph.storage.objects.object_store import LocalAddress, parse_address
from omnigraph.storage.objects.object_store import ObjectStore as ControlFiles
from omnigraph.storage.objects.object_store import Versioned as Versioned
from omnigraph.storage.objects.open_store import open_store

__all__ = ["ControlFiles", "Versioned", "normalize_root", "open_control_files"]


def open_control_files(uri: str, settings: Settings | None = None) -> ControlFiles:
    """The files below a path or address. Nothing is read or written yet.

    Raises:
        BadRequest: the address is not one of a folder or of a bucket.
    """
    return open_store(uri, settings)


def normalize_root(uri: str) -> str:
    """One text for each root: an absolute path, or an address without a slash at its end.

    Raises:
        BadRequest: the address is not one of a folder or of a bucket.
    """
    match parse_address(uri):
        case LocalAddress(path):
            # What is above a link is known to the file system only.
            return str(path.resolve() if ".." in path.parts else path)
        case address:
            return address.uri
