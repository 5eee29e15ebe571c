"""The virtual base of two sides with several newest common commits: a merge of those commits.

No commit has it. If merging the common commits is a conflict, there is no base: of one column
if rows merge by property, else of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import MergeBaseUnavailable
from omnigraph.history.ancestry import (
    Commits,
    PastState,
    PastStates,
    find_newest,
    list_ancestors,
    open_kept,
)
from omnigraph.history.branch_schemas import ColumnWidening, get_first_version
from omnigraph.history.equality import compare_images, read_images
from omnigraph.history.table_sides import (
    ROWS_AT_ONCE,
    UNKNOWN,
    Choice,
    Granularity,
    LocatedRows,
    Mask,
    Masks,
    VirtualRows,
    find_rows,
)
from omnigraph.identity import ID_COLUMN, CommitId, TableKey
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table

Offsets = npt.NDArray[np.intp]

MAX_MERGES = 200
"""Maximum number of merges to find one base; beyond it, the base is unknown."""


@dataclass(frozen=True, slots=True)
class FoundBase:
    """The base of some entities."""

    rows: VirtualRows
    is_known: Mask
    """False if even the presence of the entity is unknown."""
    addresses: pa.Array
    """The address of each entity in the rows; null if it is absent or unknown."""


class FindBase(Protocol):
    """Finds the base of entities on which the newest common commits disagree."""

    def __call__(self, ids: pa.Array) -> FoundBase: ...


@dataclass
class _BaseFinder:
    """Finds the base of entities of one table, for each unit that merges as a whole."""

    ids: pa.Array
    commits: Commits
    open_table: Callable[[CommitId], Table | None]
    """Opens the table at a commit; None if it was removed."""
    columns: tuple[str, ...]
    granularity: Granularity
    _versions: list[LocatedRows] = field(default_factory=list)
    """Versions of the table; a choice has indexes into this list."""
    _numbers: dict[CommitId, int] = field(default_factory=dict)
    _merged: dict[tuple[CommitId, ...], tuple[Choice, Mask]] = field(default_factory=dict)
    """Cached merges of commits, each with the entities it covers."""

    def find(self, heads: tuple[CommitId, ...]) -> FoundBase:
        """Find the merge of these commits for every entity."""
        choice = self._merge(heads, np.arange(len(self.ids)))
        known, present = choice[self._row_unit] != UNKNOWN, self._mask_present(choice)
        offsets = np.arange(len(self.ids), dtype=np.uint64)
        if self.granularity is Granularity.ENTITY:
            choice = np.broadcast_to(choice, (len(self.columns), len(self.ids)))
        rows = VirtualRows(self._versions, self.columns, choice)
        return FoundBase(rows, known, pa.array(offsets, mask=~present))

    @cached_property
    def _units(self) -> list[tuple[str, ...]]:
        """The columns that are merged together; a choice has a row for each of these."""
        if self.granularity is Granularity.ENTITY:
            return [self.columns]
        return [(name,) for name in self.columns]

    @cached_property
    def _row_unit(self) -> int:
        """The unit of the id, which decides the presence of the entity."""
        return next(at for at, unit in enumerate(self._units) if ID_COLUMN in unit)

    # --- merging ----------------------------------------------------------------------------------

    def _merge(self, heads: tuple[CommitId, ...], offsets: Offsets) -> Choice:
        """Merge some commits; results are cached, since several branches repeat them."""
        if len(heads) == 1:
            return self._take_all_at(heads[0], offsets)
        shape = len(self._units), len(self.ids)
        if heads not in self._merged:
            if not heads or len(self._merged) == MAX_MERGES:
                return np.full((shape[0], len(offsets)), UNKNOWN, np.int16)
            self._merged[heads] = np.full(shape, UNKNOWN, np.int16), np.zeros(shape[1], np.bool_)
        merged, is_merged = self._merged[heads]
        rest = offsets[~is_merged[offsets]]
        if len(rest):
            merged[:, rest] = self._merge_anew(heads, rest)
            is_merged[rest] = True
        return merged[:, offsets]

    def _merge_anew(self, heads: tuple[CommitId, ...], offsets: Offsets) -> Choice:
        first, *others = heads
        merged, seen = self._take_all_at(first, offsets), list_ancestors(self.commits, first)
        for other in others:
            theirs, reached = self._take_all_at(other, offsets), list_ancestors(self.commits, other)
            alike = self._compare(merged, theirs, offsets)
            unlike = np.flatnonzero(~alike.all(axis=0))
            if len(unlike):
                common = find_newest(self.commits, seen & reached)
                merged[:, unlike] = self._merge_unlike(
                    common, merged[:, unlike], theirs[:, unlike], alike[:, unlike], offsets[unlike]
                )
            seen |= reached
        return merged

    def _merge_unlike(
        self,
        common: tuple[CommitId, ...],
        ours: Choice,
        theirs: Choice,
        alike: Masks,
        offsets: Offsets,
    ) -> Choice:
        """Merge entities that differ between two states, unit by unit."""
        base = self._merge(common, offsets)
        keeps_ours = alike | self._compare(base, theirs, offsets)
        takes_theirs = self._compare(base, ours, offsets)
        merged = np.select([takes_theirs, keeps_ours], [theirs, ours], np.int16(UNKNOWN))
        # One state has deleted what the other has changed.
        contradicts = ~self._mask_present(merged, offsets) & (merged == UNKNOWN).any(axis=0)
        merged[:, contradicts] = UNKNOWN
        return merged

    def _take_all_at(self, commit_id: CommitId, offsets: Offsets) -> Choice:
        """Take every entity as one commit has it."""
        if commit_id not in self._numbers:
            self._numbers[commit_id] = self._open(commit_id)
        return np.full((len(self._units), len(offsets)), self._numbers[commit_id], np.int16)

    def _open(self, commit_id: CommitId) -> int:
        table = self.open_table(commit_id)
        if table is None:
            return UNKNOWN
        self._versions.append(find_rows(table, self.ids))
        return len(self._versions) - 1

    def _mask_present(self, choice: Choice, offsets: Offsets | None = None) -> Mask:
        """Mask the entities that are known to be present."""
        chosen, found = choice[self._row_unit], np.zeros(choice.shape[1], np.bool_)
        for number in np.unique(chosen[chosen != UNKNOWN]):
            some = np.flatnonzero(chosen == number)
            present = self._versions[number].is_present
            found[some] = present[some if offsets is None else offsets[some]]
        return found

    # --- comparison -------------------------------------------------------------------------------

    def _compare(self, one: Choice, other: Choice, offsets: Offsets) -> Masks:
        """Mask the units that are equal in both choices; an unknown one equals nothing."""
        same: Masks = (one == other) & (one != UNKNOWN)
        compared = (one != other) & (one != UNKNOWN) & (other != UNKNOWN)
        pairs = one.astype(np.int64) * len(self._versions) + other
        for pair in np.unique(pairs[compared]):
            cells = compared & (pairs == pair)
            units, rows = np.flatnonzero(cells.any(axis=1)), np.flatnonzero(cells.any(axis=0))
            left, right = (self._versions[at] for at in divmod(int(pair), len(self._versions)))
            found = self._compare_versions(left, right, units, offsets[rows])
            block = np.ix_(units, rows)
            same[block] = np.where(cells[block], found, same[block])
        return same

    def _compare_versions(
        self, left: LocatedRows, right: LocatedRows, units: Offsets, offsets: Offsets
    ) -> Masks:
        present, there = left.is_present[offsets], right.is_present[offsets]
        same: Masks = np.tile(present == there, (len(units), 1))
        compared = np.flatnonzero(present & there)
        chosen = [self._units[at] for at in units]
        names = [name for unit in chosen for name in unit]
        for start in range(0, len(compared), ROWS_AT_ONCE):
            some = compared[start : start + ROWS_AT_ONCE]
            rows = pa.array(offsets[some])
            one, other = (
                read_images(side.table, side.addresses.take(rows), names) for side in (left, right)
            )
            for at, unit in enumerate(chosen):
                same[at, some] = compare_images(one, other, unit)
        return same


def make_base_finder(
    bases: Sequence[PastState],
    target: Snapshot,
    key: TableKey,
    past: PastStates,
    widening: ColumnWidening,
    columns: tuple[str, ...],
    granularity: Granularity,
) -> FindBase:
    """Return a function that finds the virtual base of entities on which the bases disagree."""

    def open_table(commit_id: CommitId) -> Table | None:
        state = past.find(commit_id)
        if state is None:
            return None
        ours = target.entries[key]
        entry = state.entries.get(key, get_first_version(ours))
        if entry.identity != ours.identity:
            return None
        try:
            return widening.apply(open_kept(target, entry, state))
        except MergeBaseUnavailable:
            return None

    def find(ids: pa.Array) -> FoundBase:
        finder = _BaseFinder(ids, past.commits, open_table, columns, granularity)
        return finder.find(tuple(base.commit_id for base in bases))

    return find
