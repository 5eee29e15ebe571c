"""Probe the files of a table outside Lance, and guard every native write against planted links."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from tempfile import TemporaryDirectory

from lance.file import LanceFileSession

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.storage.objects.local_store import (
    read_small_file,
    require_no_links,
    require_no_links_below,
)
from omnigraph.storage.objects.object_store import report_write
from omnigraph.storage.tables.checksums import LOG
from omnigraph.storage.tables.lance_errors import translate_errors
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
"""The folders that each kind of write changes, below the folder of its branch."""
_REMOVALS = frozenset({"remove_versions", "delete_branch", "drop_tree"})
"""Writes for which Lance also lists files in folders below these."""


def report_native_write(action: str, location: TableLocation) -> AbstractContextManager[None]:
    """Report one durable write or removal by Lance, at this table or branch of it.

    Raises:
        LinkInGraph: a folder it would change is a symbolic link, or it would remove files and
            there is a link anywhere below that folder.
    """
    folders = _FOLDERS[action]
    require_plain_folders(location, folders)
    if action in _REMOVALS and location.local_folder is not None:
        for folder in folders:
            local_folder = location.local_folder
            require_no_links_below(local_folder if folder == "." else f"{local_folder}/{folder}")
    if action in ("create_branch", "delete_branch"):
        require_plain_folders(location.on_branch(None), ("_refs/branches",))
    return report_write(action, location.native_uri)


def require_plain_folders(location: TableLocation, folders: tuple[str, ...]) -> None:
    """Raise `LinkInGraph` if one of these folders of a table, or one above it, is a link."""
    local_folder, root = location.local_folder, location.graph_folder
    if local_folder is not None and root is not None:
        require_no_links(root, _name_below(root, local_folder, folders))


@lru_cache(maxsize=256)  # every commit uses the same few
def _name_below(root: str, table: str, folders: tuple[str, ...]) -> tuple[str, ...]:
    """Folders of a table as paths below the root of the graph."""
    start = table.removeprefix(f"{root}/")
    return tuple(f"{start}/{folder}" for folder in folders)


_NEWEST_FIRST = (1 << 64) - 1
VERSIONS, _VERSION_SUFFIX = "_versions", ".manifest"
TRANSACTIONS = "_transactions"
"""One transaction file at most for each version."""
NEWEST_HINT = f"{VERSIONS}/latest_version_hint.json"


@lru_cache(maxsize=64)  # a small commit names three versions, ten times
def name_version_file(version: int) -> str:
    """Return the name of the file of a version; numbers descend so that the newest sorts first."""
    return f"{VERSIONS}/{_NEWEST_FIRST - version:020d}{_VERSION_SUFFIX}"


def read_file_mark(folder: str, version: int) -> Hashable:
    """Return the identity of the file of a version; None if there is none."""
    try:
        file = os.stat(f"{folder}/{name_version_file(version)}")
    except OSError:
        return None
    return file.st_dev, file.st_ino, file.st_mtime_ns, file.st_size


def is_version_path(path: str) -> bool:
    """Return whether a path, relative to any folder, names the file of a version."""
    return path.endswith(_VERSION_SUFFIX) and f"{VERSIONS}/" in path


def encode_newest_hint(version: int) -> bytes:
    """Encode the hint of the newest version, to the byte as Lance does."""
    return b'{"version":%d}' % version


def name_branch_file(branch: str) -> str:
    """Return the path of the ref of a branch, below the root of its table."""
    return f"_refs/branches/{branch}.json"


def tag_file(name: str) -> str:
    """Return the path of a tag, below the root of its table."""
    return f"_refs/tags/{name}.json"


def is_version(location: TableLocation, version: int) -> bool:
    with translate_errors(f"checking for version {version} of {location}"):
        return bool(_list_files(location).contains(name_version_file(version)))


def is_newest_by_hint(location: TableLocation, version: int) -> bool:
    """Return whether two files show, without a listing, that no newer version exists.

    The time to list a local folder grows with its versions. Each commit writes a hint with its
    number, so where the hint names this version and the file of the next is absent, none was
    committed since. That holds as long as versions are never removed past an outdated hint, which
    `cleanup` ensures. False is inconclusive; on an object store a listing is one request anyway.
    """
    folder = location.local_folder
    if folder is None or os.path.lexists(f"{folder}/{name_version_file(version + 1)}"):
        return False
    try:
        note = read_small_file(f"{folder}/{NEWEST_HINT}")
    except OSError:
        return False
    return note == encode_newest_hint(version)


def is_hint_current(location: TableLocation) -> bool:
    """Return whether the hint of a local table names its newest version, if it has any."""
    folder, versions = location.local_folder, list_version_numbers(location)
    if not versions:
        return True
    try:
        return read_small_file(f"{folder}/{NEWEST_HINT}") == encode_newest_hint(versions[-1])
    except OSError:
        return False


def list_version_numbers(location: TableLocation) -> list[int]:
    """List the numbers of existing versions, ascending; empty where there is no table.

    Lance would read the newest version first, which is too slow for thousands of branches.
    """
    with translate_errors(f"listing the versions of {location}"):
        return _read_version_numbers(_list_version_files(location))


def _read_version_numbers(names: Iterable[str]) -> list[int]:
    numbers = (name.removesuffix(_VERSION_SUFFIX) for name in names)
    return sorted(_NEWEST_FIRST - int(number) for number in numbers if number.isdecimal())


def list_versions_of_branches(
    location: TableLocation, branches: Iterable[str]
) -> dict[str, list[int]]:
    """List the versions of several branches; absent branches are left out.

    A local folder is listed for each. On an object store, where each would be a request, all
    folders of branches are listed as one.
    """
    if location.local_folder is not None:
        found = {name: list_version_numbers(location.on_branch(name)) for name in branches}
        return {name: versions for name, versions in found.items() if versions}
    with translate_errors(f"listing the versions of the branches of {location.uri}"):
        files = [str(path) for path in _list_files(location.on_branch(None)).list("tree")]
    named: dict[str, list[str]] = {name: [] for name in branches}
    for path in files:
        match path.split("/"):
            case ["tree", branch, folder, file] if folder == VERSIONS and branch in named:
                named[branch].append(file)
    return {name: _read_version_numbers(found) for name, found in named.items() if found}


def _list_version_files(location: TableLocation) -> list[str]:
    folder = location.local_folder
    if folder is None:
        return [str(name).rpartition("/")[2] for name in _list_files(location).list(VERSIONS)]
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.listdir(f"{folder}/{VERSIONS}")
    return []


def has_versions(location: TableLocation) -> bool:
    """Return whether any version exists, of a table or of a branch."""
    return bool(list_version_numbers(location))


def is_lance_branch(location: TableLocation, branch: str) -> bool:
    """Return whether the table has a ref of the branch; its files may exist without one."""
    root = location.on_branch(None).local_folder
    if root is not None:
        return os.path.isfile(f"{root}/{name_branch_file(branch)}")
    with translate_errors(f"checking for branch {branch} of {location.uri}"):
        return bool(_list_files(location.on_branch(None)).contains(name_branch_file(branch)))


def is_never_written(location: TableLocation) -> bool:
    """Return whether a local branch surely has only the version it starts at."""
    folder = location.local_folder
    if folder is None:
        return False
    try:
        top, versions = os.listdir(folder), os.listdir(f"{folder}/{VERSIONS}")
        transactions = os.listdir(f"{folder}/{TRANSACTIONS}")
    except OSError:
        return False
    numbers = _read_version_numbers(versions)
    known = {NEWEST_HINT, *map(name_version_file, numbers)}
    return (
        {VERSIONS, TRANSACTIONS, LOG}.issuperset(top)
        and known.issuperset(f"{VERSIONS}/{name}" for name in versions)
        and len(transactions) <= len(numbers)
    )


def list_branch_files(location: TableLocation, branch: str) -> list[str]:
    """Every file in the branch's own folder, relative to the table's root."""
    with translate_errors(f"listing branch {branch} of {location.uri}"):
        return list(_list_files(location.on_branch(None)).list(f"tree/{branch}"))


def read_file(location: TableLocation, path: str) -> bytes:
    """Read a small file by its path relative to the folder of the table or branch.

    Raises:
        StorageFailure: of kind `NOT_FOUND` if the file does not exist.
    """
    folder = location.local_folder
    if folder is not None:
        try:
            return read_small_file(f"{folder}/{path}")
        except FileNotFoundError as error:
            raise _make_no_file(location, path) from error
    files = _list_files(location)
    with translate_errors(f"reading {path} of {location}"), TemporaryDirectory() as copies:
        if not files.contains(path):
            raise _make_no_file(location, path)
        copy = f"{copies}/copy"
        files.download_file(path, copy)
        return read_small_file(copy)


def _make_no_file(location: TableLocation, path: str) -> StorageFailure:
    return StorageFailure(StorageKind.NOT_FOUND, f"no {path} of {location}")


def remove_files(location: TableLocation, paths: Iterable[str]) -> None:
    """Delete files named relative to the table's root."""
    with translate_errors(f"removing files of {location.uri}"):
        files = _list_files(location.on_branch(None))
        for path in paths:
            require_plain_folders(location.on_branch(None), (path.rpartition("/")[0],))
            with report_write("delete_file", f"{location.uri}/{path}"):
                files.delete_file(path)


def remove_empty_folders(location: TableLocation, branch: str) -> None:
    """Remove the empty folders of a deleted branch on a local disk.

    Lance removes files and leaves their folders.
    """
    root = location.on_branch(None).local_folder
    if root is None or not os.path.lexists(f"{root}/tree/{branch}"):
        return
    require_plain_folders(location.on_branch(None), (f"tree/{branch}",))
    for folder, _, _ in os.walk(f"{root}/tree/{branch}", topdown=False):
        with suppress(OSError):  # not empty, or removed concurrently
            os.rmdir(folder)


def _list_files(location: TableLocation) -> LanceFileSession:
    return LanceFileSession(location.native_uri, storage_options=location.native_options)


def list_files_in(folder: str, name: str) -> list[str]:
    """Return the files of a folder inside another, by their paths below that; none if absent."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(f"{name}/{file}" for file in os.listdir(f"{folder}/{name}"))
    return []
