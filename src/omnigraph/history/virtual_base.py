"""What two histories started from where they have several newest common commits.

After merges in both directions, two heads may have several newest common commits, and these may
disagree about an entity. What the entity was when the histories parted is then found as if those
commits had been merged: by what each of them changed since what *they* have in common, and so on
into the past. Where that would be a conflict, or where cleanup took a state it needs, the base is
unknown, and the sides conflict about the entity unless they have it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.equality import Mask, compare_entities
from omnigraph.history.merge_bases import Commits, find_newest, list_ancestors
from omnigraph.identity import ID_COLUMN, CommitId
from omnigraph.storage.tables import ROW_ADDRESS, Table

Choice = npt.NDArray[np.int64]
"""For each of some entities, the number of the state whose row it is."""
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """Some entities in one version of a table: the address of each, null where it is absent."""

    table: Table
    addresses: pa.Array


@dataclass
class VirtualBase:
    """The base of some entities of one table, taken from whichever state has it."""

    ids: pa.Array
    commits: Commits
    open_table: Callable[[CommitId], Table | None]
    """The table at a commit; None if it cannot be read any more."""
    states: list[LocatedRows] = field(default_factory=list)
    """What a choice chooses from."""
    _numbers: dict[CommitId, int] = field(default_factory=dict)

    def choose(self, heads: Sequence[CommitId]) -> Choice:
        """For each entity the state that has it as a merge of these commits would."""
        return self._merge(heads, np.arange(len(self.ids)))

    def _merge(self, heads: Sequence[CommitId], places: Choice) -> Choice:
        first, *others = heads
        merged, seen = self._take_all_at(first, places), list_ancestors(self.commits, first)
        for other in others:
            theirs, reached = self._take_all_at(other, places), list_ancestors(self.commits, other)
            unlike = np.flatnonzero(~self._compare(merged, theirs, places))
            if len(unlike):
                common = find_newest(self.commits, seen & reached)
                merged[unlike] = self._settle(
                    common, merged[unlike], theirs[unlike], places[unlike]
                )
            seen |= reached
        return merged

    def _settle(
        self, common: Sequence[CommitId], ours: Choice, theirs: Choice, places: Choice
    ) -> Choice:
        """What becomes of entities that two states have otherwise."""
        if not common:
            return np.full(len(places), UNKNOWN)
        base = self._merge(common, places)
        untouched = self._compare(base, ours, places)
        kept = np.where(self._compare(base, theirs, places), ours, UNKNOWN)
        return np.where(untouched, theirs, kept)

    def _take_all_at(self, commit_id: CommitId, places: Choice) -> Choice:
        """Every entity as one commit has it."""
        if commit_id not in self._numbers:
            self._numbers[commit_id] = self._find(commit_id)
        return np.full(len(places), self._numbers[commit_id])

    def _find(self, commit_id: CommitId) -> int:
        table = self.open_table(commit_id)
        if table is None:
            return UNKNOWN
        self.states.append(find_rows(table, self.ids))
        return len(self.states) - 1

    def _compare(self, one: Choice, other: Choice, places: Choice) -> Mask:
        """Whether both have an entity alike; what is unknown is like nothing."""
        same: Mask = (one == other) & (one != UNKNOWN)
        compared = np.flatnonzero((one != other) & (one != UNKNOWN) & (other != UNKNOWN))
        pairs = one[compared] * len(self.states) + other[compared]
        for pair in np.unique(pairs):
            some = compared[pairs == pair]
            rows = pa.array(places[some])
            left, right = (self.states[number] for number in divmod(int(pair), len(self.states)))
            same[some] = compare_entities(
                left.table, left.addresses.take(rows), right.table, right.addresses.take(rows)
            )
        return same


def find_rows(table: Table, ids: pa.Array) -> LocatedRows:
    """Where each of these ids is in a version of a table."""
    found = table.lookup(ID_COLUMN, ids, [ID_COLUMN, ROW_ADDRESS])
    places = pc.index_in(ids, value_set=found.column(ID_COLUMN).combine_chunks())
    return LocatedRows(table, found.column(ROW_ADDRESS).combine_chunks().take(places))
