"""The writer fence on a local disk: a file lock that the kernel releases when the process dies."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import msgspec

from omnigraph.errors import WriterBusy
from omnigraph.storage.layout import OBJECTS_LOCK, WRITER_LOCK, WRITER_QUEUE_LOCK
from omnigraph.storage.objects.local_store import open_file
from omnigraph.storage.objects.object_store import (
    ObjectStore,
    resolve_local_identity,
    translate_os_errors,
)
from omnigraph.storage.sealed_records import is_sealed, seal
from omnigraph.storage.writer_fence import (
    Clock,
    FenceGuard,
    Holder,
    Sleep,
    Turn,
    make_fence_lost,
    take_turn,
)
from omnigraph.struct_decoding import convert_into, decode_into

# The lock files this process has open. A forked child shares them and would keep a lock alive after
# its parent's death, so it closes them first thing.
_open_descriptors: set[int] = set()


def _close_inherited() -> None:
    while _open_descriptors:
        os.close(_open_descriptors.pop())


os.register_at_fork(after_in_child=_close_inherited)


def open_lock_file(path: Path | str) -> int:
    """Open a lock file, creating it if it is missing; nothing is locked yet."""
    descriptor = open_file(str(path), os.O_RDWR | os.O_CREAT)
    _open_descriptors.add(descriptor)
    return descriptor


def close_lock_file(descriptor: int) -> None:
    """Close a lock file, which releases its lock."""
    _open_descriptors.discard(descriptor)
    os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(descriptor: int, path: Path | str) -> bool:
    """Return whether the open file is still the one at its path."""
    try:
        found = os.stat(path)  # noqa: PTH116 - every commit asks, mostly with plain text
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)


RECORD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class LockRecord:
    """The holder of the writer lock; None if it is free."""

    epoch: int
    holder: Holder | None
    since: str


NOBODY = LockRecord(0, None, "")
UNKNOWN = LockRecord(0, Holder("", "unknown", 0), "")


def encode_record(record: LockRecord) -> bytes:
    """Encode the content of the lock file, of fixed length: replacing it needs no disk space."""
    text = msgspec.json.encode(seal(msgspec.to_builtins(record)))
    return text.ljust(RECORD_BYTES - 1)[: RECORD_BYTES - 1] + b"\n"


def decode_record(content: bytes) -> LockRecord:
    """Decode the record of the last holder; `NOBODY` if the file was never written.

    A damaged one is `UNKNOWN`: its writer may have died.
    """
    if not content.strip(b"\0 \n"):
        return NOBODY
    try:
        value = decode_into(content, dict[str, object])
        return convert_into(value, LockRecord) if is_sealed(value) else UNKNOWN
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNKNOWN


def find_lock_damage(store: ObjectStore) -> dict[str, str]:
    """Describe the damage of lock files by name."""
    problems: dict[str, str] = {}
    for name in (WRITER_LOCK, WRITER_QUEUE_LOCK, OBJECTS_LOCK):
        content = store.find(name)
        if content is None:
            problems[name] = "is missing; the next writer makes it again"
        elif not (_is_record(content) if name == WRITER_LOCK else not content):
            problems[name] = "is not what a writer leaves; the next one replaces it"
    return problems


def _is_record(content: bytes) -> bool:
    """Return whether the content is exactly a record with its padding."""
    record = decode_record(content)
    return record is not UNKNOWN and (record is NOBODY or content == encode_record(record))


_QUEUE_POLL_S = 0.02
_LOCK_POLL_S = 0.005
_UNSUPPORTED = frozenset(
    {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
)


class LocalFence:
    """A fence among all processes that reach a directory through one file system."""

    spans_processes = True

    def __init__(
        self,
        root: Path,
        *,
        holder: Holder | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._path, self._queue = str(root / WRITER_LOCK), str(root / WRITER_QUEUE_LOCK)
        self._identity = resolve_local_identity(root)
        self._holder = holder
        self._clock, self._sleep = clock, sleep
        self._left: tuple[bytes, LockRecord] | None = None
        """The content that the last release of this fence wrote, and its record."""

    def acquire(self, wait_s: float) -> LocalGuard:
        started = self._clock()
        turn = take_turn(self._identity, wait_s)
        try:
            with translate_os_errors("lock", self._path):
                return self._lock_file(turn, started, wait_s)
        except BaseException:
            turn.end()
            raise

    def _lock_file(self, turn: Turn, started: float, wait_s: float) -> LocalGuard:
        queue = self._take(self._queue, _QUEUE_POLL_S, started, wait_s)
        try:
            lock = self._take(self._path, _LOCK_POLL_S, started, wait_s)
        finally:
            close_lock_file(queue)
        try:
            previous = self._read_record(lock)
            record = LockRecord(
                previous.epoch + 1, self._holder or _describe_process(os.getpid()), _read_clock()
            )
            _write_record(lock, record)
        except BaseException:
            close_lock_file(lock)
            raise
        is_left_behind = previous.holder is not None
        return LocalGuard(lock, self._path, turn, record, self._keep, took_over=is_left_behind)

    def _keep(self, content: bytes, record: LockRecord) -> None:
        self._left = content, record

    def _read_record(self, lock: int) -> LockRecord:
        content, left = _read_content(lock), self._left
        return left[1] if left is not None and left[0] == content else decode_record(content)

    def _take(self, path: str, poll_s: float, started: float, wait_s: float) -> int:
        """Lock the file at a path; return its descriptor."""
        while True:
            descriptor = open_lock_file(path)
            try:
                while not try_lock(descriptor):
                    self._wait(poll_s, started, wait_s)
            except BaseException:
                close_lock_file(descriptor)
                raise
            if is_at(descriptor, path):
                return descriptor
            close_lock_file(descriptor)  # the file was removed meanwhile, and created again

    def _wait(self, poll_s: float, started: float, wait_s: float) -> None:
        waited = self._clock() - started
        if waited >= wait_s:
            raise WriterBusy(_describe_holder(self._path), round(waited, 1))
        # Uneven pauses keep waiting processes from trying in step.
        self._sleep(min(poll_s * (0.5 + random.random()), wait_s - waited))


class LocalGuard(FenceGuard):
    """A held lock file."""

    def __init__(
        self,
        descriptor: int,
        path: str,
        turn: Turn,
        record: LockRecord,
        keep: Callable[[bytes, LockRecord], None],
        *,
        took_over: bool,
    ) -> None:
        self._descriptor, self._path, self._turn = descriptor, path, turn
        self._keep = keep
        self.epoch, self.took_over = record.epoch, took_over

    def check(self) -> None:
        if not self._turn.is_ours:
            raise make_fence_lost(self.epoch, "a released guard")
        with translate_os_errors("look for", self._path):
            is_in_place = is_at(self._descriptor, self._path)
        if not is_in_place:
            raise make_fence_lost(self.epoch, "another lock file")

    def release(self) -> None:
        if not self._turn.is_ours:
            return
        with suppress(OSError):  # unrecorded, this writer merely counts as dead
            left = LockRecord(self.epoch, None, _read_clock())
            self._keep(_write_record(self._descriptor, left), left)
        close_lock_file(self._descriptor)
        self._turn.end()


def find_exclusion_problem(root: Path) -> str | None:
    """Describe why locks of this file system do not exclude each other; None if they do.

    A file is locked through one handle, and again through another, which must be refused. Some
    network mounts grant both.
    """
    path = root / WRITER_QUEUE_LOCK
    with translate_os_errors("lock", str(path)):
        first, second = open_lock_file(path), open_lock_file(path)
        try:
            if not try_lock(first):
                return None  # another process holds it: exclusion works
            return "two handles could lock one file at once" if try_lock(second) else None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return "it has no file locks"
        finally:
            close_lock_file(first)
            close_lock_file(second)


@lru_cache(maxsize=1)  # every commit asks; a forked child is another process
def _describe_process(pid: int) -> Holder:  # noqa: ARG001 - what the answer is kept for
    return Holder.of_this_process()


def _read_clock() -> str:
    second, millisecond = divmod(time.time_ns() // 1_000_000, 1_000)
    return f"{_show_second(second)}.{millisecond:03d}+00:00"


@lru_cache(maxsize=1)  # called twice by every commit, and dates are slow
def _show_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()


def _read_content(descriptor: int) -> bytes:
    return os.pread(descriptor, RECORD_BYTES, 0)


def _write_record(descriptor: int, record: LockRecord) -> bytes:
    content = encode_record(record)
    os.pwrite(descriptor, content, 0)
    return content


def _describe_holder(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return "unknown"
    try:
        record = decode_record(_read_content(descriptor))
    finally:
        os.close(descriptor)
    return f"{record.holder} since {record.since}" if record.holder else "a writer just starting"
