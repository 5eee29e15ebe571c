"""Control objects as files below a directory.

A reader finds a file whole or not at all, because every write prepares a complete, synced
temporary file and then makes it visible in one step:

    replace          rename over the old file
    create           hard link to the new name, which fails if the name is taken
    compare and swap hash the old file and rename, both under a lock on one file of the root

Plain replaces and deletes take the same lock, so that none slips between a compare and its swap.
The kernel frees the lock when its holder dies. Names of temporary files start with a prefix that
listings leave out; one left by a killed process is never read.

Places are plain text here: every commit passes many times, and path objects cost more than the
calls of the system they are made for.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.storage.layout import LOCAL_HIDDEN_PREFIX
from omnigraph.storage.objects.address import local_identity
from omnigraph.storage.objects.failures import missing_object, translated_os_errors
from omnigraph.storage.objects.small_files import read_small_file
from omnigraph.storage.objects.store import StoreKind, Versioned, checked_path, checked_prefix

_LOCK_NAME = f"{LOCAL_HIDDEN_PREFIX}objects.lock"
_TEMPORARY_PREFIX = f"{LOCAL_HIDDEN_PREFIX}tmp-"
_LOCK_WAIT_S = 30.0
_LOCK_POLL_S = 0.002

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalObjectStore:
    """Files below `root`, which need not exist until something is written."""

    kind = StoreKind.LOCAL

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.uri = str(self.root)
        self._below = f"{self.uri.rstrip('/')}/"
        self.identity = local_identity(self.root)
        self.storage_options: Mapping[str, str] = {}

    def uri_of(self, path: str) -> str:
        return self._place(path)

    def _place(self, path: str) -> str:
        return self._below + checked_path(path)

    def _folder(self, prefix: str) -> str:
        return self._below + checked_prefix(prefix) if prefix else self.uri

    # --- reading ---

    def get(self, path: str) -> bytes:
        data = self.find(path)
        if data is None:
            raise missing_object(self.uri_of(path))
        return data

    def find(self, path: str) -> bytes | None:
        place = self._place(path)
        with translated_os_errors("read", place):
            return _find_bytes(place)

    def get_versioned(self, path: str) -> Versioned:
        data = self.get(path)
        return Versioned(data, _tag_of(data))

    def find_versioned(self, path: str) -> Versioned | None:
        data = self.find(path)
        return None if data is None else Versioned(data, _tag_of(data))

    def exists(self, path: str) -> bool:
        place = self._place(path)
        with translated_os_errors("look for", place):
            mode = _find_mode(place)
            if mode is None:
                return False
            return _holds_objects(place) if stat.S_ISDIR(mode) else True

    def list(self, prefix: str) -> tuple[str, ...]:
        folder = self._folder(prefix)
        with translated_os_errors("list", folder):
            return tuple(sorted(e.name for e in _visible_entries(folder) if e.is_file()))

    def list_prefixes(self, prefix: str) -> tuple[str, ...]:
        folder = self._folder(prefix)
        with translated_os_errors("list", folder):
            folders = [e for e in _visible_entries(folder) if e.is_dir()]
            return tuple(sorted(e.name for e in folders if _holds_objects(e.path)))

    # --- writing ---

    def put(self, path: str, data: bytes) -> None:
        place = self._place(path)
        with translated_os_errors("write", place):
            with _temporary_file(place, data) as temporary, self._exclusively():
                os.replace(temporary, place)
            _sync_folder_of(place)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        place = self._place(path)
        with translated_os_errors("create", place):
            if _find_mode(place) is not None:
                return False
            with _temporary_file(place, data) as temporary:
                if not _link(temporary, place):
                    return False
            _sync_folder_of(place)
            return True

    def put_if_match(self, path: str, data: bytes, tag: str) -> bool:
        place = self._place(path)
        with translated_os_errors("replace", place):
            if _find_mode(place) is None:
                return False
            with _temporary_file(place, data) as temporary, self._exclusively():
                current = _find_bytes(place)
                if current is None or _tag_of(current) != tag:
                    return False
                os.replace(temporary, place)
            _sync_folder_of(place)
            return True

    def delete(self, path: str, *, durably: bool = True) -> None:
        place = self._place(path)
        with translated_os_errors("delete", place):
            mode = _find_mode(place)
            if mode is None or stat.S_ISDIR(mode):
                return
            with self._exclusively(), suppress(FileNotFoundError):
                os.unlink(place)
            if durably:
                _sync_folder_of(place)

    def delete_prefix(self, path: str) -> None:
        place = self._place(path)
        with translated_os_errors("delete", place):
            mode = _find_mode(place)
            if mode is None or not stat.S_ISDIR(mode):
                return
            _remove_tree(place)
            _sync_folder_of(place)

    @contextmanager
    def _exclusively(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[None]:
        """Keep every other replace, swap and delete of this root out.

        The lock is held for a compare and a rename only, so a long wait means that its holder is
        stopped; then an error is better than waiting for ever.
        """
        place = self._below + _LOCK_NAME
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            deadline = clock() + _LOCK_WAIT_S
            while not _try_lock(descriptor):
                if clock() >= deadline:
                    raise StorageFailure(
                        StorageKind.TRANSIENT, f"{place} has been locked for {_LOCK_WAIT_S:g} s"
                    )
                sleep(_LOCK_POLL_S)
            yield
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _tag_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _find_bytes(place: str) -> bytes | None:
    """The content, or None where there is no file: not where one may not be read."""
    try:
        return read_small_file(place)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _find_mode(place: str) -> int | None:
    try:
        return os.lstat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _visible_entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [e for e in entries if not e.name.startswith(LOCAL_HIDDEN_PREFIX)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _holds_objects(folder: str) -> bool:
    # Folders are not objects: one that holds none is not there, as on an object store.
    entries = _visible_entries(folder)
    return any(not e.is_dir(follow_symlinks=False) for e in entries) or any(
        _holds_objects(e.path) for e in entries if e.is_dir(follow_symlinks=False)
    )


@contextmanager
def _temporary_file(place: str, data: bytes) -> Iterator[str]:
    """A complete and synced file beside `place`, gone afterwards unless renamed."""
    folder = os.path.dirname(place)
    temporary = f"{folder}/{_TEMPORARY_PREFIX}{uuid4().hex}"
    try:
        try:
            _write_synced(temporary, data)
        except FileNotFoundError:
            _make_folders(folder)
            _write_synced(temporary, data)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _write_synced(place: str, data: bytes) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        left = memoryview(data)
        while left:  # a disk that gets full takes a part of it
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(temporary: str, place: str) -> bool:
    try:
        os.link(temporary, place)
    except FileExistsError:
        # Over a network the answer to a link that succeeded can get lost and be asked again;
        # the number of names the file has tells whose file took the name.
        return os.stat(temporary).st_nlink > 1
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise StorageFailure(
            StorageKind.CONFIGURATION,
            f"cannot create {place}: the file system has no hard links, which the safe creation "
            "of files needs",
        ) from error
    return True


def _make_folders(folder: str) -> None:
    """Create `folder` and what is missing above it, each synced into its parent."""
    if os.path.isdir(folder):
        return
    _make_folders(os.path.dirname(folder))
    with suppress(FileExistsError):
        os.mkdir(folder)
        _sync_folder_of(folder)
    if not os.path.isdir(folder):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)


def _sync_folder_of(place: str) -> None:
    """Make a rename or link of `place` survive a power cut."""
    folder = os.path.dirname(place)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # removed by another process in the meantime, with all that was in it
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _remove_tree(folder: str) -> None:
    with suppress(FileNotFoundError):
        with os.scandir(folder) as entries:
            listed = list(entries)
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                _remove_tree(entry.path)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)
        os.rmdir(folder)
