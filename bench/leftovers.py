"""Folders of samples that are over, removed when nothing is measured any more.

Some file systems are slow to make files where many were deleted minutes ago: ext4 looks at every
one of them before it uses its number again, and a new file takes fifty times as long. The next
sample would be measured by what the last one left. So small folders wait for the end; large ones
go at once, for the room they take.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

LARGE_BYTES = 256 << 20
SLOW_NEW_FILE_S = 100e-6

_waiting: list[Path] = []


def leave(folder: Path) -> None:
    """Remove an unused folder, now or at the end."""
    if _size(folder) > LARGE_BYTES:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        _waiting.append(folder)


def remove_leftovers() -> None:
    while _waiting:
        shutil.rmtree(_waiting.pop(), ignore_errors=True)


def new_file_seconds() -> float:
    """Return the median seconds that creating an empty file in the folder of samples takes."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        seconds = []
        for number in range(41):
            started = time.perf_counter()
            os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _size(folder: Path) -> int:
    found = 0
    for parent, _, names in os.walk(folder):
        found += sum((Path(parent) / name).lstat().st_size for name in names)
    return found
