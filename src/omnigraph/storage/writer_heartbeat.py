"""Heartbeats of writers whose files no version refers to yet."""

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
from omnigraph.storage.layout import WRITE_NOTES, make_write_note_path
from omnigraph.storage.local_fence import close_lock_file, is_at, open_lock_file, try_lock
from omnigraph.storage.objects.local_store import require_no_links
from omnigraph.storage.objects.object_store import ObjectStore, StoreKind, translate_os_errors
from omnigraph.storage.tables.location import is_flat_name
from omnigraph.storage.writer_fence import Hold, Holder

HEARTBEAT_S = 20.0
"""So often the author of a note changes it."""
LONGEST_S = 6 * 86_400.0
"""However long files are spared by us, the substrate removes them after a week."""
HEARTBEAT_TIMEOUT_S = 300.0
"""The author of a note that does not change for so long is dead, or has slept and will be told."""


class WriteNote(Protocol):
    """A note, for as long as its author works."""

    @property
    def path(self) -> str:
        """Its path, relative to the root of the graph."""
        ...

    def check(self) -> None:
        """Pass if everything written since the note was left is there; called under the fence.

        Raises:
            ConflictError: cleanup has taken the author for dead.
        """
        ...

    def end(self) -> None:
        """Take the note back. Safe to repeat."""
        ...


def begin_write_note(root: GraphRoot) -> WriteNote:
    """A note that files are about to be written; `end` it when they are visible or given up."""
    path = make_write_note_path(root.ids.next())
    if root.store.kind is StoreKind.LOCAL and root.fence.spans_processes:
        require_no_links(root.store.uri, (WRITE_NOTES,))
        return _LockedWriteNote(Path(root.store.uri), path)
    return _HeartbeatWriteNote.create(root.store, path, HEARTBEAT_S)


@contextmanager
def hold_write_note(root: GraphRoot) -> Iterator[WriteNote]:
    """Keep a heartbeat for the duration of a block."""
    note = begin_write_note(root)
    try:
        yield note
    finally:
        note.end()


@contextmanager
def share_write_note(root: GraphRoot, pointer: str) -> Iterator[None]:
    """Keep the note of shared work fresh for the duration of a block; the first one leaves it.

    It stays until somebody ends it, or until nobody has worked for `HEARTBEAT_TIMEOUT_S`.
    `pointer` is the object by which all find it: below the folder of the work, and removed with it.
    """
    path = make_write_note_path(root.ids.next())
    note = _HeartbeatWriteNote.create(root.store, path, HEARTBEAT_S)
    try:
        if not root.store.put_if_absent(pointer, path.encode()):
            note.end()  # another one was first: its note is older and protects more
            note = _open_shared_note(root, pointer)
            note.beat()
        yield
    finally:
        note.rest()


def continue_write_note(root: GraphRoot, pointer: str) -> WriteNote:
    """The note of shared work, kept fresh from now on by this process.

    Raises:
        ConflictError: cleanup has taken those who worked for dead.
    """
    note = _open_shared_note(root, pointer)
    note.beat()
    return note


def end_shared_work(root: GraphRoot, pointer: str) -> None:
    """Take the note of shared work back that was given up, if there is one."""
    with suppress(OmniError):  # left behind, it is removed by a cleanup after a while
        _open_shared_note(root, pointer).end()


def _open_shared_note(root: GraphRoot, pointer: str) -> _HeartbeatWriteNote:
    found = root.store.find(pointer)
    if found is None:
        raise _make_considered_dead_error()
    path = found.decode(errors="replace")
    folder, _, name = path.rpartition("/")
    if folder != WRITE_NOTES or not name.isalnum():
        raise ManifestCorrupt(f"{pointer} names no note: {path!r}; start the load again")
    return _HeartbeatWriteNote(root.store, path, HEARTBEAT_S)


def _require_short(began_s: float) -> None:
    taken_s = time.monotonic() - began_s
    if taken_s > LONGEST_S:
        raise ConflictError(
            f"the write took {taken_s / 86_400:.1f} days to prepare, but files without a reference "
            f"may be removed after {LONGEST_S / 86_400:.0f}; nothing was changed, so retry it"
        )


def _make_considered_dead_error() -> ConflictError:
    return ConflictError(
        "cleanup considered this write dead because its note was not renewed in time, and "
        "may have removed its files; nothing was changed, so retry it"
    )


class _LockedWriteNote:
    """An empty file that is locked by its author."""

    def __init__(self, root: Path, path: str) -> None:
        self.path, self._began_s = path, time.monotonic()
        self._place = place = root / path
        with translate_os_errors("lock", str(place)):
            place.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor: int | None = _lock_note(place)

    def check(self) -> None:
        _require_short(self._began_s)
        with translate_os_errors("look for", str(self._place)):
            if self._descriptor is None or not is_at(self._descriptor, self._place):
                raise _make_considered_dead_error()

    def end(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        with suppress(OSError):  # left behind and not locked, it is removed by the next cleanup
            if is_at(descriptor, self._place):
                self._place.unlink()
        close_lock_file(descriptor)


def _lock_note(place: Path) -> int:
    while True:
        descriptor = open_lock_file(place)
        # A cleanup may have found it before it was locked, and then removes it.
        if try_lock(descriptor) and is_at(descriptor, place):
            return descriptor
        close_lock_file(descriptor)


class _HeartbeatWriteNote:
    """An object that a thread of its author keeps changing."""

    def __init__(self, store: ObjectStore, path: str, beat_s: float) -> None:
        self._store, self.path, self._beat_s = store, path, beat_s
        self._holder = str(Holder.of_this_process())
        self._beats, self._began_s = 0, time.monotonic()
        self._over = threading.Event()
        # A daemon: it must not keep a process alive that has nothing else to do.
        self._heart = threading.Thread(target=self._resume, name="omnigraph-at-work", daemon=True)
        self._heart.start()

    @classmethod
    def create(cls, store: ObjectStore, path: str, beat_s: float) -> _HeartbeatWriteNote:
        """A new one."""
        holder = str(Holder.of_this_process())
        store.put(path, _encode_heartbeat(holder, 0))
        return cls(store, path, beat_s)

    def _resume(self) -> None:
        while not self._over.wait(self._beat_s):
            self.beat()

    def beat(self) -> None:
        """Change the note, if it is still there."""
        with suppress(OmniError):  # there is a next beat, and the note is looked for at the end
            found = self._store.find_versioned(self.path)
            if found is not None:
                self._beats += 1
                # Conditional, because a note that was removed must not come back.
                body = _encode_heartbeat(self._holder, self._beats)
                self._store.put_if_match(self.path, body, found.tag)

    def check(self) -> None:
        _require_short(self._began_s)
        if self._over.is_set() or self._store.find(self.path) is None:
            raise _make_considered_dead_error()

    def rest(self) -> None:
        """Stop changing the note, and leave it for others to go on with."""
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
class FoundNote:
    """A note as others see it."""

    path: str
    content: str | None
    """What it says now, which changes as long as its author lives; None if it is a lock."""


def list_notes(store: ObjectStore) -> list[FoundNote]:
    """Every note that is there, whether its author lives or not."""
    found = []
    for name in store.list(WRITE_NOTES):
        path = make_write_note_path(name)
        now = store.find_versioned(path) if is_flat_name(name) else None
        if now is not None:
            content = now.tag if now.data else None
            found.append(FoundNote(path, content))
    return found


def remove_dead_note(
    store: ObjectStore, note: FoundNote, hold: Hold, is_silent: Callable[[FoundNote], bool]
) -> bool:
    """Remove the note if its author is dead; tells whether it is gone.

    Args:
        store: Where the note is.
        note: The note as it is now.
        hold: The fence, without which it must not be removed.
        is_silent: Whether a note that is no lock has not changed for long.
    """
    if note.content is not None:
        if not is_silent(note):
            return False
        hold.check()
        store.delete(note.path)
    else:
        require_no_links(store.uri, (WRITE_NOTES,))
        if not _remove_unlocked(Path(store.uri) / note.path):
            return False
    # Had the fence been lost by now, its author might just have found the note and gone on.
    hold.check()
    return True


def _remove_unlocked(place: Path) -> bool:
    with translate_os_errors("lock", str(place)):
        descriptor = open_lock_file(place)
        try:
            if not try_lock(descriptor):
                return False
            if is_at(descriptor, place):
                place.unlink()
            return True
        finally:
            close_lock_file(descriptor)
