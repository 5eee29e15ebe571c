"""One writer at a time by a lock on a file, which the kernel frees when the process dies.

The lock belongs to the open file, not to the process (`flock`), so closing some other handle of
the same file does not lose it. Two files are locked: a writer first takes the queue and keeps it
until it has the writer lock. Whoever just finished must pass the queue again and so cannot snatch
the lock from those who wait.

The lock file holds a record of who has it. It is for people and for telling whether the writer
before us gave the lock back; the lock itself is the kernel's.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from omnigraph.errors import WriterBusy
from omnigraph.storage.fence.hold import Holder, fence_lost
from omnigraph.storage.fence.process import Clock, Sleep, Turn, take_turn
from omnigraph.storage.layout import WRITER_LOCK, WRITER_QUEUE_LOCK
from omnigraph.storage.objects.address import local_identity
from omnigraph.storage.objects.failures import translated_os_errors

_RECORD_BYTES = 1024
_QUEUE_POLL_S = 0.02
_LOCK_POLL_S = 0.005
_UNSUPPORTED = frozenset(
    {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
)

# The lock files this process has open. A forked child shares them and would keep a lock alive after
# its parent's death, so it closes them first thing.
_open_descriptors: set[int] = set()


def _close_inherited() -> None:
    while _open_descriptors:
        os.close(_open_descriptors.pop())


os.register_at_fork(after_in_child=_close_inherited)


class LocalFence:
    """One writer at a time on a directory that all writers see through one file system."""

    spans_processes = True

    def __init__(
        self,
        root: Path,
        *,
        holder: Holder | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._root, self._identity = root, local_identity(root)
        self._holder = holder
        self._clock, self._sleep = clock, sleep

    def acquire(self, wait_s: float) -> LocalHold:
        started = self._clock()
        turn = take_turn(self._identity, wait_s)
        try:
            with translated_os_errors("lock", str(self._root / WRITER_LOCK)):
                return self._lock_file(turn, started, wait_s)
        except BaseException:
            turn.end()
            raise

    def _lock_file(self, turn: Turn, started: float, wait_s: float) -> LocalHold:
        queue = self._take(WRITER_QUEUE_LOCK, _QUEUE_POLL_S, started, wait_s)
        try:
            lock = self._take(WRITER_LOCK, _LOCK_POLL_S, started, wait_s)
        finally:
            _close(queue)
        try:
            previous = _read_record(lock)
            record = _Record(previous.epoch + 1, self._holder or Holder.of_this_process(), _now())
            _write_record(lock, record)
        except BaseException:
            _close(lock)
            raise
        is_left_behind = previous.holder is not None
        return LocalHold(lock, self._root / WRITER_LOCK, turn, record, took_over=is_left_behind)

    def _take(self, name: str, poll_s: float, started: float, wait_s: float) -> int:
        """A descriptor that holds the lock on the file of this name."""
        place = self._root / name
        while True:
            descriptor = _open(place)
            try:
                while not _try_lock(descriptor):
                    self._wait(poll_s, started, wait_s)
            except BaseException:
                _close(descriptor)
                raise
            if _is_at(descriptor, place):
                return descriptor
            _close(descriptor)  # the file was removed while we waited, and made again

    def _wait(self, poll_s: float, started: float, wait_s: float) -> None:
        waited = self._clock() - started
        if waited >= wait_s:
            raise WriterBusy(_describe_holder(self._root / WRITER_LOCK), round(waited, 1))
        # Uneven pauses keep waiting processes from trying in step.
        self._sleep(min(poll_s * (0.5 + random.random()), wait_s - waited))


class LocalHold:
    """The lock file, locked."""

    def __init__(
        self, descriptor: int, place: Path, turn: Turn, record: _Record, *, took_over: bool
    ) -> None:
        self._descriptor, self._place, self._turn = descriptor, place, turn
        self.epoch, self.took_over = record.epoch, took_over

    def check(self) -> None:
        if not self._turn.is_ours:
            raise fence_lost(self.epoch, "a released hold")
        with translated_os_errors("look for", str(self._place)):
            is_in_place = _is_at(self._descriptor, self._place)
        if not is_in_place:
            raise fence_lost(self.epoch, "another lock file")

    def release(self) -> None:
        if not self._turn.is_ours:
            return
        with suppress(OSError):  # Unrecorded, it only makes the next writer look for leftovers.
            _write_record(self._descriptor, _Record(self.epoch, None, _now()))
        _close(self._descriptor)
        self._turn.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def find_exclusion_problem(root: Path) -> str | None:
    """Why locks on this file system keep nobody out, or None if they do.

    Locks a file through one handle and tries again through another, which must be refused. Some
    network mounts let both in.
    """
    place = root / WRITER_QUEUE_LOCK
    with translated_os_errors("lock", str(place)):
        first, second = _open(place), _open(place)
        try:
            if not _try_lock(first):
                return None  # Somebody else has it: this is exclusion at work.
            return "two handles could lock one file at once" if _try_lock(second) else None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return "it has no file locks"
        finally:
            _close(first)
            _close(second)


@dataclass(frozen=True, slots=True)
class _Record:
    epoch: int
    holder: Holder | None
    since: str


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _read_record(descriptor: int) -> _Record:
    """Who had the lock last. A file nobody wrote to yet says: nobody, epoch 0."""
    text = os.pread(descriptor, _RECORD_BYTES, 0)
    if not text.strip(b"\0 \n"):
        return _Record(0, None, "")
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    match value:
        case {"epoch": int(epoch), "holder": holder, "since": str(since)}:
            return _Record(epoch, Holder.from_json(holder), since)
        case _:
            # Cut short by a crash: what its writer was doing is unknown as well.
            return _Record(0, Holder("", "unknown", 0), "")


def _write_record(descriptor: int, record: _Record) -> None:
    # Always the same length: overwritten in place, it needs no room on a full disk.
    holder = None if record.holder is None else record.holder.as_json()
    value = {"epoch": record.epoch, "holder": holder, "since": record.since}
    text = json.dumps(value).encode()
    os.pwrite(descriptor, text.ljust(_RECORD_BYTES - 1)[: _RECORD_BYTES - 1] + b"\n", 0)


def _describe_holder(place: Path) -> str:
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return "unknown"
    try:
        record = _read_record(descriptor)
    finally:
        os.close(descriptor)
    return f"{record.holder} since {record.since}" if record.holder else "a writer just starting"


def _open(place: Path) -> int:
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    _open_descriptors.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    _open_descriptors.discard(descriptor)
    os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, place: Path) -> bool:
    """Whether the open file is the one found under its name."""
    try:
        found = place.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)
