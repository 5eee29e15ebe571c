"""Which entities lead to which: what an expansion finds out, and rows extended by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from omnigraph.execution.read.arrays import Codes, Flags, Longs, places, ranges
from omnigraph.execution.read.entities import Entities
from omnigraph.execution.read.rows import Rows, portions


@dataclass(frozen=True, slots=True)
class Links:
    """From each of `sources`, ascending codes, to `targets[starts[i]:starts[i + 1]]`.

    Targets ascend within a source. `extra` holds further columns beside the targets: hop counts
    and edges, by the variable they are bound to.
    """

    sources: Codes
    starts: Longs
    targets: Codes
    extra: Mapping[str, Codes]

    @property
    def counts(self) -> Longs:
        return np.diff(self.starts)

    def kept(self, mask: Flags) -> Links:
        """Only the links the mask marks."""
        owners = np.repeat(np.arange(len(self.sources)), self.counts)[mask]
        extra = {name: column[mask] for name, column in self.extra.items()}
        return Links(self.sources, starts_of(owners, len(self.sources)), self.targets[mask], extra)

    def retargeted(self, mapping: Codes) -> Links:
        """The same links with targets renamed; those renamed to -1 are dropped.

        The mapping keeps the order of the targets it keeps.
        """
        renamed = replace(self, targets=mapping[self.targets])
        mask: Flags = renamed.targets >= 0
        return renamed if mask.all() else renamed.kept(mask)


def starts_of(owners: Longs | Codes, count: int) -> Longs:
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
    keep: frozenset[str],
) -> Iterator[Rows]:
    """Each row once for every link of its source, in the order of rows and then of links.

    Of the old columns only those in `keep` are carried along.
    """
    at = places(rows.codes[source], links.sources, rows.entities[source].size)
    counts = np.where(at >= 0, links.counts[at], 0) if len(links.sources) else np.zeros_like(at)
    starts = links.starts[at]
    old = rows.only(keep)
    new = {target: links.targets, **links.extra}
    for first, last in portions(counts.astype(np.int64)):
        repeated = np.repeat(np.arange(first, last), counts[first:last])
        which = ranges(starts[first:last], counts[first:last].astype(np.int64))
        columns = {name: column[which] for name, column in new.items() if name in keep}
        found = {name: e for name, e in entities.items() if name in keep}
        yield old.take(repeated).with_columns(columns, found)


def close(
    rows: Rows,
    source: str,
    links: Links,
    target: str,
    entities: Mapping[str, Entities],
    keep: frozenset[str],
) -> Iterator[Rows]:
    """The rows whose target, bound already, is linked to their source: once for each link."""
    size = rows.entities[target].size
    at = places(rows.codes[source], links.sources, rows.entities[source].size)
    wanted = rows.codes[target]
    keys = np.repeat(np.arange(len(links.sources)), links.counts) * size + links.targets
    asked = np.where((at >= 0) & (wanted >= 0), at.astype(np.int64) * size + wanted, -1)
    first = np.searchsorted(keys, asked, side="left")
    counts = np.searchsorted(keys, asked, side="right") - first
    which = ranges(first.astype(np.int64), counts.astype(np.int64))
    repeated = np.repeat(np.arange(rows.size), counts)
    columns = {name: column[which] for name, column in links.extra.items() if name in keep}
    found = {name: e for name, e in entities.items() if name in keep}
    yield rows.only(keep).take(repeated).with_columns(columns, found)
