"""Which entities lead to which: what an expansion finds out, and rows extended by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from omnigraph.execution.read.arrays import (
    Codes,
    Flags,
    Longs,
    expand_ranges,
    find_places,
    mask_found,
)
from omnigraph.execution.read.entities import Entities
from omnigraph.execution.read.row_blocks import Rows, split_portions
from omnigraph.execution.read.row_requirements import Demand

_TABLE_CELLS = 1 << 22
"""A table of this many cells stays in the caches of a processor."""
_PAIRS_PER_TABLE = 1_000
"""Filling a table costs as much as searching for about this many pairs."""


@dataclass(frozen=True, slots=True)
class Links:
    """From each of `sources`, ascending codes, to `targets[starts[i]:starts[i + 1]]`.

    Targets ascend within a source. `extra` holds further columns besides the targets: hop counts
    and edges, by the variable they are bound to. `is_set` says that no link occurs twice.
    """

    sources: Codes
    starts: Longs
    targets: Codes
    extra: Mapping[str, Codes]
    is_set: bool = True

    @property
    def counts(self) -> Longs:
        return np.diff(self.starts)

    def keep(self, mask: Flags) -> Links:
        """Only the links the mask marks."""
        kept_before: Longs = np.zeros(len(mask) + 1, dtype=np.int64)
        np.cumsum(mask, out=kept_before[1:])
        extra = {name: column[mask] for name, column in self.extra.items()}
        targets = self.targets[mask]
        return replace(self, starts=kept_before[self.starts], targets=targets, extra=extra)

    def retarget(self, mapping: Codes) -> Links:
        """The same links with targets renamed; those renamed to -1 are dropped.

        The mapping keeps the order of the targets it keeps.
        """
        renamed = replace(self, targets=mapping[self.targets])
        mask: Flags = renamed.targets >= 0
        return renamed if mask.all() else renamed.keep(mask)


def find_starts(owners: Longs | Codes, count: int) -> Longs:
    """Where the run of each owner starts in an ascending array of owners."""
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=count), out=starts[1:])
    return starts


def follow(
    rows: Rows,
    source: str,
    links: Links,
    target: str,
    entities: Mapping[str, Entities],
    demand: Demand,
) -> Iterator[Rows]:
    """Each row once for every link of its source, in the order of rows and then of links.

    Columns that are not needed are left out. If that leaves nothing new to say, and equal rows may
    be merged, the links are merely counted.
    """
    starts, counts = _find_runs(rows, source, links)
    old, keep = rows.only(demand.variables), demand.variables
    new = {n: column for n, column in {target: links.targets, **links.extra}.items() if n in keep}
    found = {name: e for name, e in entities.items() if name in keep}
    if demand.merge and not new:
        some = np.flatnonzero(counts)
        yield old.take(some).add_weights(counts[some])
        return
    for first, last in split_portions(counts):
        some = counts[first:last]
        which = _find_places(starts[first:last], some)
        columns = {name: column[which] for name, column in new.items()}
        yield old.slice(first, last).repeat(some).with_columns(columns, found)


def _find_runs(rows: Rows, source: str, links: Links) -> tuple[Longs, Longs]:
    """Where the links of each row start, and how many there are."""
    codes = rows.codes[source]
    if len(codes) == len(links.sources) and np.array_equal(codes, links.sources):
        return links.starts[:-1], links.counts
    if not len(links.sources):
        return np.zeros(rows.size, dtype=np.int64), np.zeros(rows.size, dtype=np.int64)
    at = find_places(codes, links.sources, rows.entities[source].size)
    return links.starts[at], np.where(at >= 0, links.counts[at], 0)


def _find_places(starts: Longs, counts: Longs) -> Longs | slice:
    """The places of all links of some rows; one slice when they follow each other."""
    ends = starts + counts
    if np.array_equal(starts[1:], ends[:-1]):
        return slice(int(starts[0]), int(ends[-1]))
    return expand_ranges(starts, counts)


def close(
    rows: Rows,
    source: str,
    links: Links,
    target: str,
    entities: Mapping[str, Entities],
    demand: Demand,
) -> Iterator[Rows]:
    """The rows whose target, bound already, is linked to their source: once for each link."""
    at = find_places(rows.codes[source], links.sources, rows.entities[source].size)
    asked = _LinkRequest(at, rows.codes[target], rows.entities[target].size)
    old = rows.only(demand.variables)
    if links.is_set and not links.extra and (linked := _look_in_tables(asked, links)) is not None:
        yield old if linked.all() else old.take(np.flatnonzero(linked))
        return
    first, counts = _search(asked, links)
    which = expand_ranges(first, counts)
    keep = demand.variables
    columns = {name: column[which] for name, column in links.extra.items() if name in keep}
    found = {name: e for name, e in entities.items() if name in keep}
    yield old.take(np.repeat(np.arange(rows.size), counts)).with_columns(columns, found)


@dataclass(frozen=True, slots=True)
class _LinkRequest:
    """Pairs that may be linked: a place among the sources and a target, -1 for none of them."""

    at: Codes
    targets: Codes
    size: int
    """How many targets there are."""


def _search(asked: _LinkRequest, links: Links) -> tuple[Longs, Longs]:
    """Where the links of each pair start among all links, and how many there are."""
    keys = np.repeat(np.arange(len(links.sources)), links.counts) * asked.size + links.targets
    known = (asked.at >= 0) & (asked.targets >= 0)
    wanted = np.where(known, asked.at.astype(np.int64) * asked.size + asked.targets, -1)
    first = np.searchsorted(keys, wanted, side="left").astype(np.int64)
    if links.is_set:
        return first, mask_found(keys, wanted, first).astype(np.int64)
    return first, (np.searchsorted(keys, wanted, side="right") - first).astype(np.int64)


def _look_in_tables(asked: _LinkRequest, links: Links) -> Flags | None:
    """Which pairs are linked, from tables of all targets of a few sources at a time.

    None if the pairs are too few for that, or do not come by source.
    """
    at, sources_at_once = asked.at, _TABLE_CELLS // asked.size if asked.size else 0
    if not sources_at_once or len(links.sources) * _PAIRS_PER_TABLE > len(at) * sources_at_once:
        return None
    if not bool((at[1:] >= at[:-1]).all()):
        return None
    found: Flags = np.zeros(len(at), dtype=np.bool_)
    table = np.zeros(min(sources_at_once, len(links.sources)) * asked.size, dtype=np.bool_)
    owners = np.repeat(np.arange(len(links.sources)), links.counts)
    firsts = np.arange(0, len(links.sources), sources_at_once, dtype=at.dtype)
    bounds = [*np.searchsorted(at, firsts), len(at)]
    for first, start, stop in zip(firsts.tolist(), bounds[:-1], bounds[1:], strict=True):
        last = min(first + sources_at_once, len(links.sources))
        own = slice(links.starts[first], links.starts[last])
        cells = (owners[own] - first) * asked.size + links.targets[own]
        targets = asked.targets[start:stop]
        table[cells] = True
        places_asked = (at[start:stop].astype(np.int64) - first) * asked.size + targets
        found[start:stop] = table[places_asked] & (targets >= 0)
        table[cells] = False
    return found
