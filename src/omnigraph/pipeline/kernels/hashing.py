"""A hash of strings that is the same on every machine and in every release.

Tasks divide keys among themselves by it without talking to each other, so a library's own hash,
which may depend on the processor, will not do.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]

_MULTIPLIER = 0x9E3779B97F4A7C15
_SHIFT = np.uint64(33)
_MIXERS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))


def hash_strings(keys: pa.Array) -> Hashes:
    """A number for each string; NULL counts as the empty string."""
    binary = keys.cast(pa.large_binary()).fill_null(b"")
    if not len(binary):
        return np.empty(0, np.uint64)
    _, offsets_buffer, data_buffer = binary.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[binary.offset :][: len(binary) + 1]
    lengths = np.diff(offsets)
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    places = np.arange(len(data)) - np.repeat(starts, lengths)
    # A polynomial of the bytes, all of them at once; overflow wraps, and is meant to.
    terms = (data.astype(np.uint64) + np.uint64(1)) * _compute_powers(int(lengths.max()))[places]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return _mix_hashes(sums[starts + lengths] - sums[starts])


def _compute_powers(count: int) -> Hashes:
    factors = np.full(max(1, count), _MULTIPLIER, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _mix_hashes(hashes: Hashes) -> Hashes:
    """Every bit of the sum in every bit of the result."""
    for mixer in _MIXERS:
        hashes = (hashes ^ (hashes >> _SHIFT)) * mixer
    return hashes ^ (hashes >> _SHIFT)
