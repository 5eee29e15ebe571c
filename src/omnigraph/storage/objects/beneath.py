"""Folders and files below a root, reached without following symbolic links.

A graph may come from somebody else. A link planted in it must not make a writer change or delete
anything outside, so each folder on the way is opened relative to the one above it, and none of
them may be a link. The root itself may be reached through links: its address is the caller's own.

Places are plain text here as in the local store: every commit passes.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from functools import lru_cache

from omnigraph.errors import LinkInGraph

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LINK_ERRORS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})


def open_folder(root: str, relative: str) -> int:
    """A descriptor of the folder; `relative` is empty for the root itself.

    Raises:
        LinkInGraph: a part of the way is a symbolic link.
        OSError: there is no such folder, or it cannot be opened.
    """
    if not relative:
        return os.open(root, _FOLDER)
    first, _, rest = relative.partition("/")
    # Only the last part of an address is kept from being a link, so the root itself may be one.
    at = f"{root}/{first}"
    descriptor = _open_part(at, at, None)
    try:
        for part in rest.split("/") if rest else ():
            at = f"{at}/{part}"
            below = _open_part(part, at, descriptor)
            os.close(descriptor)
            descriptor = below
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_folder(root: str, relative: str) -> int:
    """The same, with every missing folder on the way created and synced into its parent."""
    _make_root(root)
    descriptor = os.open(root, _FOLDER)
    at = root
    try:
        for part in relative.split("/") if relative else ():
            at = f"{at}/{part}"
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=descriptor)
                sync_folder(descriptor)
            below = _open_part(part, at, descriptor)
            os.close(descriptor)
            descriptor = below
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_file(place: str, flags: int) -> int:
    """A descriptor of a file that must not be a link itself.

    Raises:
        LinkInGraph: it is one.
    """
    try:
        return os.open(place, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in _LINK_ERRORS and os.path.islink(place):
            raise LinkInGraph(place) from error
        raise


def require_no_links(root: str, paths: tuple[str, ...]) -> None:
    """Raise `LinkInGraph` if a part of one of these paths below the root is a symbolic link."""
    for place in _list_parts(root, paths):
        if os.path.islink(place):
            raise LinkInGraph(place)


def require_no_links_below(folder: str) -> None:
    """Raise `LinkInGraph` if anything in this folder, at any depth, is a symbolic link."""
    try:
        with os.scandir(folder) as entries:
            listed = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in listed:
        if entry.is_symlink():
            raise LinkInGraph(entry.path)
        if entry.is_dir(follow_symlinks=False):
            require_no_links_below(entry.path)


@lru_cache(maxsize=256)  # every commit asks for the same few
def _list_parts(root: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Every place on the way to these paths, each once, and the paths themselves."""
    places: dict[str, None] = {}
    for path in paths:
        at = root
        for part in path.split("/"):
            at = f"{at}/{part}"
            places[at] = None
    return tuple(places)


def sync_folder(descriptor: int) -> None:
    """Make what was created, renamed or removed in the folder survive a power cut."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def remove_tree(name: str, folder: int) -> None:
    """Remove `name` in the open folder and everything below it; links go, not what they name."""
    try:
        descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return
    try:
        with os.scandir(descriptor) as entries:
            listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for entry, is_folder in listed:
            if is_folder:
                remove_tree(entry, descriptor)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(entry, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=folder)


def find_mode(name: str, folder: int | None) -> int | None:
    """The mode of an entry of the open folder, or of a whole path; None where there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _make_root(place: str) -> None:
    """Create the root and what is missing above it, each synced into its parent."""
    if os.path.isdir(place):
        return
    above = os.path.dirname(place)
    _make_root(above)
    with suppress(FileExistsError):
        os.mkdir(place)
        descriptor = os.open(above, _FOLDER)
        try:
            sync_folder(descriptor)
        finally:
            os.close(descriptor)


def _open_part(part: str, at: str, folder: int | None) -> int:
    try:
        return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        mode = find_mode(part, folder)
        if error.errno in _LINK_ERRORS and mode is not None and stat.S_ISLNK(mode):
            raise LinkInGraph(at) from error
        raise
