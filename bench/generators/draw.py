"""Random numbers that stay the same on every machine and under every NumPy release.

NumPy promises the raw output of a bit generator but not what its distributions make of it, so
the few distributions needed are made here from raw words, with exact arithmetic only.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

_UNIT = 2.0**-53
_NORMAL_MEAN = 4 * 65535 / 2
_NORMAL_DEVIATION = 65536 / 3**0.5


class Draw:
    """A stream of random numbers named by what it is for.

    Each column draws from its own stream, so adding one leaves all others as they were.
    """

    def __init__(self, seed: int, name: str) -> None:
        sequence = np.random.SeedSequence([seed, zlib.crc32(name.encode())])
        self._bits = np.random.PCG64(sequence)

    def words(self, count: int) -> Words:
        """`count` words of 64 random bits."""
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)

    def uniform(self, count: int) -> Floats:
        """Numbers from 0 up to but not including 1."""
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * _UNIT

    def integers(self, count: int, below: int) -> Integers:
        """Whole numbers from 0 to `below` - 1, equally likely."""
        return scaled(self.uniform(count), below)

    def square(self, count: int, below: int) -> Integers:
        """Ranks from 0 to `below` - 1, with chances falling as the square root of the rank."""
        u = self.uniform(count)
        return scaled(u * u, below)

    def three_halves(self, count: int, below: int) -> Integers:
        """Ranks from 0 to `below` - 1, with chances falling as the cube root of the rank."""
        u = self.uniform(count)
        return scaled(u * np.sqrt(u), below)

    def zipf(self, count: int, below: int) -> Integers:
        """Ranks from 0 to `below` - 1, with chances falling as the rank itself."""
        cumulative: Floats = np.cumsum(1.0 / np.arange(1, below + 1))
        found = np.searchsorted(cumulative, self.uniform(count) * cumulative[-1], side="right")
        return np.asarray(np.minimum(found, below - 1), dtype=np.int64)

    def normal(self, count: int) -> Floats:
        """Numbers spread nearly as a normal distribution: four uniform quarters of a word added."""
        quarters = self.words(count).view(np.uint16).reshape(count, 4)
        total = quarters.astype(np.int64).sum(axis=1)
        return np.asarray((total - _NORMAL_MEAN) / _NORMAL_DEVIATION, dtype=np.float64)

    def permutation(self, count: int) -> Integers:
        """The numbers from 0 to `count` - 1 in random order."""
        return np.argsort(self.words(count), kind="stable").astype(np.int64)


def scaled(u: Floats, below: int) -> Integers:
    """Numbers of [0, 1) stretched to whole numbers of [0, `below`)."""
    return np.minimum((u * below).astype(np.int64), below - 1)


def distinct_choices(
    draw: Draw, counts: Integers, first: Integers, below: int
) -> tuple[Integers, Integers]:
    """For each owner `counts[owner]` different numbers below `below`, starting with its `first`.

    Returns owners and choices as two columns. `below` must be prime: then steps of any length
    visit every number before they meet one again, and no duplicate has to be thrown away.
    """
    owners = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    stride = 1 + draw.integers(len(counts), below - 1)
    return owners, (first[owners] + positions(counts) * stride[owners]) % below


def distinct_sorted(values: Integers) -> Integers:
    """`values` in order, each once. Far faster here than `np.unique`, which hashes integers."""
    ordered = np.sort(values)
    is_new = np.ones(len(ordered), dtype=np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


def positions(counts: Integers) -> Integers:
    """0, 1, 2, … within each owner's run: `[2, 3]` gives `[0, 1, 0, 1, 2]`."""
    ends = np.cumsum(counts)
    starts = np.repeat(ends - counts, counts)
    return np.arange(len(starts), dtype=np.int64) - starts


def next_prime(number: int) -> int:
    """The smallest prime that is at least `number`."""
    candidate = max(number, 2)
    while any(candidate % divisor == 0 for divisor in range(2, int(candidate**0.5) + 1)):
        candidate += 1
    return candidate
