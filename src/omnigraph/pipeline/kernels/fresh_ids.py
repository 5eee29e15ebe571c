"""Fresh ULIDs by the million: one clock and one random number, then counting."""

from __future__ import annotations

import os
import time

import numpy as np
import pyarrow as pa

from omnigraph.identity import encode_ulid

_COUNTED_BITS = 40
_COUNTED_CHARACTERS = 8
_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)


def mint_ids(count: int) -> pa.Array:
    """`count` ids in increasing order that are unique, as one column."""
    milliseconds = time.time_ns() // 1_000_000
    # The top bit of the counted part stays clear, so that counting never carries over.
    randomness = int.from_bytes(os.urandom(10), "big") & ~(1 << _COUNTED_BITS - 1)
    head = encode_ulid(milliseconds, randomness)[:-_COUNTED_CHARACTERS].encode()
    first = randomness & (1 << _COUNTED_BITS) - 1
    numbers = np.arange(first, first + count, dtype=np.uint64)
    text = np.empty((count, len(head) + _COUNTED_CHARACTERS), np.uint8)
    text[:, : len(head)] = np.frombuffer(head, np.uint8)
    for place in range(_COUNTED_CHARACTERS):
        shift = np.uint64(5 * (_COUNTED_CHARACTERS - 1 - place))
        text[:, len(head) + place] = _ALPHABET[(numbers >> shift & np.uint64(31)).astype(np.intp)]
    offsets = np.arange(0, (count + 1) * text.shape[1], text.shape[1], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1))]
    return pa.Array.from_buffers(pa.string(), count, buffers)
