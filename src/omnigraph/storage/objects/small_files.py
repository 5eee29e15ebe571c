"""Reading small local files with as few calls of the system as it takes."""

from __future__ import annotations

import os

SMALL_FILE_BYTES = 1 << 16


def read_small_file(place: str) -> bytes:
    """The content of a file; raises `OSError` as every other way of reading does.

    A commit reads several, and a buffered file object costs more than the reading itself.
    """
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = [os.read(descriptor, SMALL_FILE_BYTES)]
        while len(chunks[-1]) == SMALL_FILE_BYTES:
            chunks.append(os.read(descriptor, SMALL_FILE_BYTES))
        return b"".join(chunks)
    finally:
        os.close(descriptor)
