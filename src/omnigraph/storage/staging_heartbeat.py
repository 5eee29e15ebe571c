"""Heartbeats of writers whose files no version refers to yet.

A heartbeat is no sealed record: only its tag, or its lock, is ever compared.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from omnigraph.errors import ConflictError, ManifestCorrupt, OmniError
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import HEARTBEATS, make_heartbeat_path
from omnigraph.storage.local_fence import close_lock_file, is_at, open_lock_file, try_lock
from omnigraph.storage.objects.local_store import require_no_links
from omnigraph.storage.objects.object_store import ObjectStore, StoreKind, translate_os_errors
from omnigraph.storage.tables.location import is_flat_name
from omnigraph.storage.writer_fence import FenceGuard, Holder

HEARTBEAT_INTERVAL_S = 20.0
"""The interval at which a writer renews its heartbeat."""
MAX_WRITE_S = 6 * 86_400.0
"""Maximum duration of a preparation: Lance itself removes unreferenced files after a week."""
HEARTBEAT_TIMEOUT_S = 300.0
"""The time without renewal after which a writer is dead, or suspended and will be refused."""


class Heartbeat(Protocol):
    """The heartbeat of a writer, which protects its files from cleanup."""

    @property
    def path(self) -> str:
        """Its path, relative to the root of the graph."""
        ...

    def check(self) -> None:
        """Raise unless all files written since it began exist; called under the fence.

        Raises:
            ConflictError: cleanup considered the writer dead.
        """
        ...

    def end(self) -> None:
        """Remove the heartbeat. Safe to repeat."""
        ...


def start_heartbeat(root: GraphRoot) -> Heartbeat:
    """Start a heartbeat before files are written; `end` it once they are visible or abandoned."""
    path = make_heartbeat_path(root.ids.next())
    if root.store.kind is StoreKind.LOCAL and root.fence.spans_processes:
        require_no_links(root.store.uri, (HEARTBEATS,))
        return _LockedHeartbeat(Path(root.store.uri), path)
    return _RenewedHeartbeat.create(root.store, path, HEARTBEAT_INTERVAL_S)


@contextmanager
def keep_heartbeat(root: GraphRoot) -> Iterator[Heartbeat]:
    """Keep a heartbeat for the duration of a block."""
    heartbeat = start_heartbeat(root)
    try:
        yield heartbeat
    finally:
        heartbeat.end()


@contextmanager
def share_heartbeat(root: GraphRoot, pointer: str) -> Iterator[None]:
    """Renew the heartbeat of shared work for the duration of a block; the first caller creates it.

    It exists until it is ended, or times out after `HEARTBEAT_TIMEOUT_S`. `pointer` is the object
    that names it: below the folder of the work, and removed with it.
    """
    path = make_heartbeat_path(root.ids.next())
    heartbeat = _RenewedHeartbeat.create(root.store, path, HEARTBEAT_INTERVAL_S)
    try:
        if not root.store.put_if_absent(pointer, path.encode()):
            heartbeat.end()  # another caller was first: its heartbeat is older and protects more
            heartbeat = _open_shared(root, pointer)
            heartbeat.beat()
        yield
    finally:
        heartbeat.rest()


def continue_heartbeat(root: GraphRoot, pointer: str) -> Heartbeat:
    """Renew the heartbeat of shared work in this process from now on.

    Raises:
        ConflictError: cleanup considered the writers dead.
    """
    heartbeat = _open_shared(root, pointer)
    heartbeat.beat()
    return heartbeat


def end_shared_heartbeat(root: GraphRoot, pointer: str) -> None:
    """Remove the heartbeat of shared work that was abandoned, if there is one."""
    with suppress(OmniError):  # left behind, it is removed by a cleanup after a while
        _open_shared(root, pointer).end()


def _open_shared(root: GraphRoot, pointer: str) -> _RenewedHeartbeat:
    found = root.store.find(pointer)
    if found is None:
        raise _make_considered_dead_error()
    path = found.decode(errors="replace")
    folder, _, name = path.rpartition("/")
    if folder != HEARTBEATS or not name.isalnum():
        raise ManifestCorrupt(f"{pointer} names no heartbeat: {path!r}; start the load again")
    return _RenewedHeartbeat(root.store, path, HEARTBEAT_INTERVAL_S)


def _require_short(began_s: float) -> None:
    taken_s = time.monotonic() - began_s
    if taken_s > MAX_WRITE_S:
        raise ConflictError(
            f"the write took {taken_s / 86_400:.1f} days to prepare, but files without a reference "
            f"may be removed after {MAX_WRITE_S / 86_400:.0f}; nothing was changed, so retry it"
        )


def _make_considered_dead_error() -> ConflictError:
    return ConflictError(
        "cleanup considered this write dead because its heartbeat was not renewed in time, and "
        "may have removed its files; nothing was changed, so retry it"
    )


class _LockedHeartbeat:
    """An empty file that is locked by its writer."""

    def __init__(self, root: Path, path: str) -> None:
        self.path, self._began_s = path, time.monotonic()
        self._file = file = root / path
        with translate_os_errors("lock", str(file)):
            file.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor: int | None = _lock_heartbeat(file)

    def check(self) -> None:
        _require_short(self._began_s)
        with translate_os_errors("look for", str(self._file)):
            if self._descriptor is None or not is_at(self._descriptor, self._file):
                raise _make_considered_dead_error()

    def end(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        with suppress(OSError):  # left behind and not locked, it is removed by the next cleanup
            if is_at(descriptor, self._file):
                self._file.unlink()
        close_lock_file(descriptor)


def _lock_heartbeat(file: Path) -> int:
    while True:
        descriptor = open_lock_file(file)
        # A cleanup may have found it before it was locked, and then removes it.
        if try_lock(descriptor) and is_at(descriptor, file):
            return descriptor
        close_lock_file(descriptor)


class _RenewedHeartbeat:
    """An object that is renewed by a thread of its writer."""

    def __init__(self, store: ObjectStore, path: str, beat_s: float) -> None:
        self._store, self.path, self._beat_s = store, path, beat_s
        self._holder = str(Holder.of_this_process())
        self._beats, self._began_s = 0, time.monotonic()
        self._over = threading.Event()
        # A daemon: it must not keep a process alive that has nothing else to do.
        self._heart = threading.Thread(target=self._resume, name="omnigraph-at-work", daemon=True)
        self._heart.start()

    @classmethod
    def create(cls, store: ObjectStore, path: str, beat_s: float) -> _RenewedHeartbeat:
        """Create a heartbeat."""
        holder = str(Holder.of_this_process())
        store.put(path, _encode_heartbeat(holder, 0))
        return cls(store, path, beat_s)

    def _resume(self) -> None:
        while not self._over.wait(self._beat_s):
            self.beat()

    def beat(self) -> None:
        """Renew the heartbeat, if it still exists."""
        with suppress(OmniError):  # there is a next beat, and `check` at the end
            found = self._store.find_versioned(self.path)
            if found is not None:
                self._beats += 1
                # Conditional, because a heartbeat that was removed must not come back.
                body = _encode_heartbeat(self._holder, self._beats)
                self._store.put_if_match(self.path, body, found.tag)

    def check(self) -> None:
        _require_short(self._began_s)
        if self._over.is_set() or self._store.find(self.path) is None:
            raise _make_considered_dead_error()

    def rest(self) -> None:
        """Stop renewing the heartbeat without ending it."""
        self._over.set()
        self._heart.join()

    def end(self) -> None:
        if not self._over.is_set():
            self.rest()
            with suppress(OmniError):  # left behind, it is removed by a cleanup after a while
                self._store.delete(self.path)


def _encode_heartbeat(holder: str, beats: int) -> bytes:
    return json.dumps({"version": 1, "holder": holder, "beat": beats}).encode()


# --- the other side -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundHeartbeat:
    """A heartbeat as other processes read it."""

    path: str
    content: str | None
    """Its content, which each renewal changes; None if it is a lock."""


def list_heartbeats(store: ObjectStore) -> list[FoundHeartbeat]:
    """List all heartbeats, dead ones included."""
    found = []
    for name in store.list(HEARTBEATS):
        path = make_heartbeat_path(name)
        now = store.find_versioned(path) if is_flat_name(name) else None
        if now is not None:
            content = now.tag if now.data else None
            found.append(FoundHeartbeat(path, content))
    return found


def remove_dead_heartbeat(
    store: ObjectStore,
    heartbeat: FoundHeartbeat,
    guard: FenceGuard,
    is_silent: Callable[[FoundHeartbeat], bool],
) -> bool:
    """Remove the heartbeat if its writer is dead; return whether it was removed.

    Args:
        store: Where the heartbeat is.
        heartbeat: The heartbeat as read last.
        guard: The guard of the fence, under which it is removed.
        is_silent: Return whether a heartbeat that is no lock has timed out.
    """
    if heartbeat.content is not None:
        if not is_silent(heartbeat):
            return False
        guard.check()
        store.delete(heartbeat.path)
    else:
        require_no_links(store.uri, (HEARTBEATS,))
        if not _remove_unlocked(Path(store.uri) / heartbeat.path):
            return False
    # Without the fence, its writer might have found the heartbeat and committed meanwhile.
    guard.check()
    return True


def _remove_unlocked(file: Path) -> bool:
    with translate_os_errors("lock", str(file)):
        descriptor = open_lock_file(file)
        try:
            if not try_lock(descriptor):
                return False
            if is_at(descriptor, file):
                file.unlink()
            return True
        finally:
            close_lock_file(descriptor)
