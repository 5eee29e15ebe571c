"""Locks on files, which the kernel frees when the process that holds them dies.

A lock belongs to the open file and not to the process (`flock`), so closing some other handle of
the same file does not lose it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from omnigraph.storage.objects.beneath import open_file

# The lock files this process has open. A forked child shares them and would keep a lock alive after
# its parent's death, so it closes them first thing.
_open_descriptors: set[int] = set()


def _close_inherited() -> None:
    while _open_descriptors:
        os.close(_open_descriptors.pop())


os.register_at_fork(after_in_child=_close_inherited)


def open_lock_file(place: Path | str) -> int:
    """A descriptor of the file, which is made if it is missing; nothing is locked yet."""
    descriptor = open_file(str(place), os.O_RDWR | os.O_CREAT)
    _open_descriptors.add(descriptor)
    return descriptor


def close_lock_file(descriptor: int) -> None:
    """Close it, which gives back its lock."""
    _open_descriptors.discard(descriptor)
    os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(descriptor: int, place: Path | str) -> bool:
    """Whether the open file is the one found under its name."""
    try:
        found = os.stat(place)  # noqa: PTH116 - every commit asks, mostly with plain text
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)
