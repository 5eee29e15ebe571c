"""Maintenance by Lance itself, as another program would run it.

Our own maintenance stages what it writes; these commit by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance.optimize import Compaction, CompactionOptions

from omnigraph.errors import RetryableCommitConflict
from omnigraph.storage.tables.indices import describe_indices
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.table import Table, open_table

ROWS_PER_FRAGMENT = 1 << 20


@dataclass(frozen=True, slots=True)
class CompactedTable:
    """The result of a compaction; the version is unchanged if there was nothing to do."""

    version: int
    fragments_removed: int
    fragments_added: int


def compaction_tasks(table: Table, *, rows_per_fragment: int = ROWS_PER_FRAGMENT) -> int:
    """Count the tasks that compaction would find."""
    return int(Compaction.plan(table.native, _options(table, rows_per_fragment)).num_tasks())


def compact(table: Table, *, rows_per_fragment: int = ROWS_PER_FRAGMENT) -> CompactedTable:
    """Merge small fragments and drop deleted rows for good, in two versions.

    On a branch, fragments covered by an index of the parent are left alone: rewriting them would
    make that index unreadable.
    """
    fresh = _fresh(table)
    with translate_errors(f"compacting {table!r}"):
        done = Compaction.execute(fresh.native, _options(table, rows_per_fragment))
    return CompactedTable(
        int(fresh.native.version), int(done.fragments_removed), int(done.fragments_added)
    )


def optimize_indices(table: Table, names: Sequence[str] | None = None) -> int:
    """Extend the indices over rows they do not cover yet; gives the version afterwards."""
    fresh = _fresh(table)
    with translate_errors(f"extending the indices of {table!r}"):
        if names is None:
            fresh.native.optimize.optimize_indices()
        else:
            fresh.native.optimize.optimize_indices(index_names=list(names))
    return int(fresh.native.version)


def _options(table: Table, rows_per_fragment: int) -> CompactionOptions:
    segments = [s for index in describe_indices(table) for s in index.segments if s.is_inherited]
    inherited = frozenset[int]().union(*(s.fragment_ids for s in segments))
    return {
        "target_rows_per_fragment": rows_per_fragment,
        "excluded_fragment_ids": sorted(inherited),
    }


def _fresh(table: Table) -> Table:
    """A handle of its own, since maintenance moves the handle it is called on."""
    newest = table.newest_version()
    if newest != table.version:
        raise RetryableCommitConflict(
            f"{table.location} moved from version {table.version} to {newest} concurrently"
        )
    return open_table(table.location, table.version)
