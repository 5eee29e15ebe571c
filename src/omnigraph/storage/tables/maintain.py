"""Making a table smaller and faster without changing what it says.

These commit on their own, under names of the substrate's choosing, and so must run where no
other writer of the table can be; a writer that slips in makes them fail, never the reverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lance import LanceOperation
from lance.optimize import Compaction, CompactionOptions

from omnigraph.errors import RetryableCommitConflict
from omnigraph.storage.objects.counting import observed_write
from omnigraph.storage.tables.failures import translated
from omnigraph.storage.tables.handle import Table, open_table
from omnigraph.storage.tables.indices import inherited_coverage
from omnigraph.storage.tables.ledger import is_ledger
from omnigraph.storage.tables.stage import StagedTransaction, stage_operation
from omnigraph.storage.tables.wholeness import require_whole_indices, require_whole_rows

ROWS_PER_FRAGMENT = 1 << 20
AUTO_CLEANUP = "lance.auto_cleanup."


@dataclass(frozen=True, slots=True)
class CompactedTable:
    """What compaction did; the version is the old one if there was nothing to do."""

    version: int
    fragments_removed: int
    fragments_added: int


def compaction_tasks(table: Table, *, rows_per_fragment: int = ROWS_PER_FRAGMENT) -> int:
    """How many pieces of work compaction would find."""
    with translated(f"planning compaction of {table!r}"):
        plan = Compaction.plan(table.native, _options(table, rows_per_fragment))
        return int(plan.num_tasks())


def compact(table: Table, *, rows_per_fragment: int = ROWS_PER_FRAGMENT) -> CompactedTable:
    """Merge small fragments and drop deleted rows for good. Row ids stay.

    On a branch, fragments covered by an index of the parent are left alone: rewriting them would
    make that index unreadable. It takes two versions, and a failure may leave the first of them,
    which changes nothing.
    """
    assert not is_ledger(table), "state and lineage must not be merged: use compact_lineage"
    fresh = _fresh(table)
    with (
        translated(f"compacting {table!r}"),
        observed_write("compact", table.location.native_uri),
    ):
        done = Compaction.execute(fresh.native, _options(table, rows_per_fragment))
        require_whole_rows(table.location, [f.metadata for f in fresh.native.get_fragments()])
    return CompactedTable(
        int(fresh.native.version), int(done.fragments_removed), int(done.fragments_added)
    )


def optimize_indices(table: Table, names: Sequence[str] | None = None) -> int:
    """Extend the indices over rows they do not cover yet; gives the version afterwards."""
    fresh = _fresh(table)
    with (
        translated(f"extending the indices of {table!r}"),
        observed_write("optimize_indices", table.location.native_uri),
    ):
        if names is None:
            fresh.native.optimize.optimize_indices()
        else:
            fresh.native.optimize.optimize_indices(index_names=list(names))
        require_whole_indices(table.location, _index_sizes(fresh))
    return int(fresh.native.version)


def auto_cleanup_keys(table: Table) -> tuple[str, ...]:
    """The settings by which the table would remove versions behind our back."""
    with translated(f"reading the settings of {table!r}"):
        return tuple(sorted(k for k in table.native.config() if k.startswith(AUTO_CLEANUP)))


def stage_without_auto_cleanup(
    table: Table, *, uuid: str, properties: Mapping[str, str]
) -> StagedTransaction | None:
    """The table without those settings; None if it has none."""
    keys = auto_cleanup_keys(table)
    if not keys:
        return None
    operation = LanceOperation.UpdateConfig(LanceOperation.UpdateMap(dict.fromkeys(keys)))
    return stage_operation(table, operation, uuid=uuid, properties=properties)


def _index_sizes(table: Table) -> dict[str, int]:
    """How many bytes the segments of this branch's own indices have, where that is recorded."""
    segments = [segment for index in table.native.describe_indices() for segment in index.segments]
    return {
        str(segment.uuid): segment.size_bytes
        for segment in segments
        if segment.base_id is None and segment.size_bytes is not None
    }


def _options(table: Table, rows_per_fragment: int) -> CompactionOptions:
    return {
        "target_rows_per_fragment": rows_per_fragment,
        "excluded_fragment_ids": sorted(inherited_coverage(table)),
    }


def _fresh(table: Table) -> Table:
    """A handle of its own, since maintenance moves the handle it is called on."""
    newest = table.newest_version()
    if newest != table.version:
        raise RetryableCommitConflict(
            f"{table.location} moved from version {table.version} to {newest} meanwhile"
        )
    return open_table(table.location, table.version)
