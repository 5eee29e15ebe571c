"""Control objects as files below a directory, reached without following symbolic links."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Generic, Self, TypeVar

from omnigraph.errors import LinkInGraph, StorageFailure, StorageKind
from omnigraph.storage.layout import LOCAL_HIDDEN_PREFIX, OBJECTS_LOCK
from omnigraph.storage.objects.object_store import (
    CHUNK_BYTES,
    StoreKind,
    Versioned,
    make_missing_object,
    require_path,
    require_prefix,
    resolve_local_identity,
    translate_os_errors,
)

SMALL_FILE_BYTES = 1 << 16


def read_small_file(file_path: str) -> bytes:
    """Read a small file; raises `OSError`.

    A commit reads several, and a buffered file object costs more than the read itself.
    """
    descriptor = os.open(file_path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = [os.read(descriptor, SMALL_FILE_BYTES)]
        while len(chunks[-1]) == SMALL_FILE_BYTES:
            chunks.append(os.read(descriptor, SMALL_FILE_BYTES))
        return b"".join(chunks)
    finally:
        os.close(descriptor)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LINK_ERRORS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})


def open_folder(root: str, relative: str) -> int:
    """Open a folder and return its descriptor; `relative` is empty for the root itself.

    Raises:
        LinkInGraph: a component of the path is a symbolic link.
        OSError: the folder does not exist, or cannot be opened.
    """
    if not relative:
        return os.open(root, _FOLDER)
    first, _, rest = relative.partition("/")
    # Only the last component of an address must not be a link, so the root itself may be one.
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
    """Open a folder, and create missing parents, each synced into its own parent."""
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


def open_file(file_path: str, flags: int) -> int:
    """Open a file that must not be a symbolic link and return its descriptor.

    Raises:
        LinkInGraph: it is a symbolic link.
    """
    try:
        return os.open(file_path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in _LINK_ERRORS and os.path.islink(file_path):
            raise LinkInGraph(file_path) from error
        raise


def require_no_links(root: str, paths: tuple[str, ...]) -> None:
    """Raise `LinkInGraph` if a part of one of these paths below the root is a symbolic link."""
    for file_path in _list_parts(root, paths):
        if os.path.islink(file_path):
            raise LinkInGraph(file_path)


def require_no_links_below(folder: str) -> None:
    """Raise `LinkInGraph` if anything below this folder, at any depth, is a symbolic link."""
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


@lru_cache(maxsize=256)  # every commit uses the same few
def _list_parts(root: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """List the paths and all of their parents, each once."""
    parts: dict[str, None] = {}
    for path in paths:
        at = root
        for part in path.split("/"):
            at = f"{at}/{part}"
            parts[at] = None
    return tuple(parts)


def sync_folder(descriptor: int) -> None:
    """Make creations, renames and removals in the folder survive a power failure."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def remove_tree(name: str, folder: int) -> None:
    """Remove `name` in the open folder with all below it; links are removed, not followed."""
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
    """Return the mode of an entry of the open folder, or of a path; None if it does not exist."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _make_root(file_path: str) -> None:
    """Create the root with its missing parents, each synced into its own parent."""
    if os.path.isdir(file_path):
        return
    above = os.path.dirname(file_path)
    _make_root(above)
    with suppress(FileExistsError):
        os.mkdir(file_path)
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


_TEMPORARY_PREFIX = f"{LOCAL_HIDDEN_PREFIX}tmp-"
_LOCK_WAIT_S = 30.0
_LOCK_POLL_S = 0.002

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


FolderT = TypeVar("FolderT", int, int | None)


class LocalObjectStore:
    """Files below `root`, which is created by the first write."""

    kind = StoreKind.LOCAL

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.uri = str(self.root)
        self._below = f"{self.uri.rstrip('/')}/"
        self.identity = resolve_local_identity(self.root)
        self.storage_options: Mapping[str, str] = {}

    def uri_of(self, path: str) -> str:
        return self._get_file_path(path)

    def _get_file_path(self, path: str) -> str:
        return self._below + require_path(path)

    def _get_folder(self, prefix: str) -> str:
        return self._below + require_prefix(prefix) if prefix else self.uri

    # --- reading ---

    def get(self, path: str) -> bytes:
        data = self.find(path)
        if data is None:
            raise make_missing_object(self.uri_of(path))
        return data

    def find(self, path: str) -> bytes | None:
        file_path = self._get_file_path(path)
        with translate_os_errors("read", file_path):
            return _find_bytes(file_path)

    def get_versioned(self, path: str) -> Versioned:
        data = self.get(path)
        return Versioned(data, _read_tag(data))

    def find_versioned(self, path: str) -> Versioned | None:
        data = self.find(path)
        return None if data is None else Versioned(data, _read_tag(data))

    def exists(self, path: str) -> bool:
        file_path = self._get_file_path(path)
        with translate_os_errors("look for", file_path):
            mode = _find_mode(file_path)
            if mode is None:
                return False
            return _has_objects(file_path) if stat.S_ISDIR(mode) else True

    def list(self, prefix: str) -> tuple[str, ...]:
        folder = self._get_folder(prefix)
        with translate_os_errors("list", folder):
            return tuple(sorted(e.name for e in _list_visible_entries(folder) if e.is_file()))

    def list_prefixes(self, prefix: str) -> tuple[str, ...]:
        folder = self._get_folder(prefix)
        with translate_os_errors("list", folder):
            folders = [e for e in _list_visible_entries(folder) if e.is_dir()]
            return tuple(sorted(e.name for e in folders if _has_objects(e.path)))

    def chunks(self, path: str) -> Iterator[bytes]:
        file_path = self._get_file_path(path)
        with translate_os_errors("read", file_path):
            if not stat.S_ISREG(_find_mode(file_path) or 0):
                raise make_missing_object(self.uri_of(path))
            with open(file_path, "rb", buffering=0) as file:
                while piece := file.read(CHUNK_BYTES):
                    yield piece

    # --- writing ---

    def put(self, path: str, data: bytes, *, durably: bool = True) -> None:
        self._put(path, (data,), durably=durably)

    def put_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        self._put(path, chunks, durably=True)

    def _put(self, path: str, chunks: Iterable[bytes], *, durably: bool) -> None:
        with (
            translate_os_errors("write", self._get_file_path(path)),
            self._make_folder(path) as (at, name),
        ):
            with _TemporaryFile(at, chunks, durably=durably) as temporary, self._lock_root():
                temporary.replace(name)
            if durably:
                sync_folder(at)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        file_path = self._get_file_path(path)
        with translate_os_errors("create", file_path), self._make_folder(path) as (at, name):
            if find_mode(name, at) is not None:
                return False
            with _TemporaryFile(at, (data,)) as temporary:
                if not _link(temporary.name, name, at, file_path):
                    return False
            sync_folder(at)
            return True

    def put_if_match(self, path: str, data: bytes, tag: str) -> bool:
        file_path = self._get_file_path(path)
        with translate_os_errors("replace", file_path), self._find_folder(path) as (at, name):
            if at is None or find_mode(name, at) is None:
                return False
            with _TemporaryFile(at, (data,)) as temporary, self._lock_root():
                current = _find_bytes(file_path)
                if current is None or _read_tag(current) != tag:
                    return False
                temporary.replace(name)
            sync_folder(at)
            return True

    def delete(self, path: str, *, durably: bool = True) -> None:
        file_path = self._get_file_path(path)
        with translate_os_errors("delete", file_path), self._find_folder(path) as (at, name):
            if at is not None and self._unlink(name, at) and durably:
                sync_folder(at)

    def _unlink(self, name: str, at: int) -> bool:
        """Remove a file from an open folder; False if there is none of that name."""
        mode = find_mode(name, at)
        if mode is None or stat.S_ISDIR(mode):
            return False
        with self._lock_root(), suppress(FileNotFoundError):
            os.unlink(name, dir_fd=at)
        return True

    def delete_all(self, paths: Sequence[str]) -> None:
        by_folder: dict[str, list[str]] = {}
        for path in paths:
            by_folder.setdefault(path.rpartition("/")[0], []).append(path)
        for inside in by_folder.values():
            self._delete_from_folder(inside)

    def _delete_from_folder(self, paths: Sequence[str]) -> None:
        file_path = self._get_folder(paths[0].rpartition("/")[0])
        with translate_os_errors("delete", file_path), self._find_folder(paths[0]) as (at, _):
            if at is None:
                return
            for path in paths:
                with translate_os_errors("delete", self._get_file_path(path)):
                    self._unlink(path.rpartition("/")[2], at)
            sync_folder(at)

    def delete_prefix(self, path: str) -> None:
        file_path = self._get_file_path(path)
        with translate_os_errors("delete", file_path), self._find_folder(path) as (at, name):
            mode = None if at is None else find_mode(name, at)
            if at is None or mode is None or not stat.S_ISDIR(mode):
                return
            remove_tree(name, at)
            sync_folder(at)

    def _make_folder(self, path: str) -> _OpenFolder[int]:
        """The folder of an object, open, and the name of the object in it."""
        folder, _, name = require_path(path).rpartition("/")
        try:
            return _OpenFolder(open_folder(self.uri, folder), name)
        except FileNotFoundError:
            return _OpenFolder(make_folder(self.uri, folder), name)

    def _find_folder(self, path: str) -> _OpenFolder[int | None]:
        """Open the folder of an object; None if it does not exist, and so no object."""
        folder, _, name = require_path(path).rpartition("/")
        try:
            return _OpenFolder(open_folder(self.uri, folder), name)
        except (FileNotFoundError, NotADirectoryError):
            return _OpenFolder(None, name)

    def _lock_root(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> _HeldLock:
        """Exclude other replacements, swaps and deletions below this root.

        The lock covers one comparison and one rename, so a long wait means that its holder is
        suspended; then an error is better than waiting forever.
        """
        file_path = self._below + OBJECTS_LOCK
        descriptor = open_file(file_path, os.O_RDWR | os.O_CREAT)
        try:
            deadline = clock() + _LOCK_WAIT_S
            while not _try_lock(descriptor):
                if clock() >= deadline:
                    raise StorageFailure(
                        StorageKind.TRANSIENT, f"{file_path} has been locked for {_LOCK_WAIT_S:g} s"
                    )
                sleep(_LOCK_POLL_S)
        except BaseException:
            os.close(descriptor)
            raise
        return _HeldLock(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _find_bytes(file_path: str) -> bytes | None:
    """The content, or None where there is no file: not where one may not be read."""
    try:
        return read_small_file(file_path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _find_mode(file_path: str) -> int | None:
    try:
        return os.lstat(file_path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _list_visible_entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [e for e in entries if not e.name.startswith(LOCAL_HIDDEN_PREFIX)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _has_objects(folder: str) -> bool:
    # Folders are not objects: an empty one does not exist, as on an object store.
    entries = _list_visible_entries(folder)
    return any(not e.is_dir(follow_symlinks=False) for e in entries) or any(
        _has_objects(e.path) for e in entries if e.is_dir(follow_symlinks=False)
    )


# Hand-written context managers: every commit enters several, and as generators they cost more than
# the system calls within.


class _OpenFolder(Generic[FolderT]):
    """An open folder and the name of an object in it."""

    __slots__ = ("_descriptor", "_name")

    def __init__(self, descriptor: FolderT, name: str) -> None:
        self._descriptor: FolderT = descriptor
        self._name = name

    def __enter__(self) -> tuple[FolderT, str]:
        return self._descriptor, self._name

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


class _HeldLock:
    """A locked file; closing it releases the lock."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


class _TemporaryFile:
    """A complete, synced file in an open folder, removed on exit unless it was renamed."""

    __slots__ = ("_chunks", "_durably", "_folder", "_is_renamed", "name")

    def __init__(self, folder: int, chunks: Iterable[bytes], *, durably: bool = True) -> None:
        self.name = f"{_TEMPORARY_PREFIX}{os.urandom(16).hex()}"
        self._folder, self._chunks, self._durably = folder, chunks, durably
        self._is_renamed = False

    def replace(self, name: str) -> None:
        """Rename it over the file of this name, if any."""
        os.replace(self.name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._is_renamed = True

    def __enter__(self) -> Self:
        try:
            _write_whole(self.name, self._folder, self._chunks, durably=self._durably)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_renamed:
            with suppress(FileNotFoundError):
                os.unlink(self.name, dir_fd=self._folder)


def _write_whole(name: str, folder: int, chunks: Iterable[bytes], *, durably: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        for chunk in chunks:
            left = memoryview(chunk)
            while left:  # a full disk writes a part of it
                left = left[os.write(descriptor, left) :]
        if durably:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(temporary: str, name: str, folder: int, file_path: str) -> bool:
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        # On a network file system the response to a successful link can be lost and the call
        # repeated; the link count of the file tells whose file has the name.
        return os.stat(temporary, dir_fd=folder).st_nlink > 1
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise StorageFailure(
            StorageKind.CONFIGURATION,
            f"cannot create {file_path}: the file system has no hard links, "
            "which safe creation of files requires",
        ) from error
    return True
