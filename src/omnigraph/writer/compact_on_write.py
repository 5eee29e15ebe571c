"""Compact small fragments after a write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph.errors import ReadSetChanged
from omnigraph.storage.manifest import TableEntry
from omnigraph.storage.prepared_write import StagedTable, Ticket, Writable
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import is_blob, stage_rewrite, write_groups
from omnigraph.storage.tables.compaction import drop_dominant
from omnigraph.storage.tables.indices import Layout, describe_layout
from omnigraph.storage.tables.table import Fragment
from omnigraph.storage.write_plan import WriterKind
from omnigraph.writer.change import CatalogSnapshot, PlanContent

SMALL_FRAGMENT_ROWS = 1_024
"""The number of rows of the largest small fragment, which is copied in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class CompactSmallFragments:
    """Merge the small fragments of some tables, by a writer that still holds the fence."""

    entries: tuple[TableEntry, ...]
    kind = WriterKind.OPTIMIZE
    is_costly = False

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        found = [_compact_table(view.snapshot, entry, ticket) for entry in self.entries]
        staged = tuple(table for table in found if table is not None)
        return PlanContent(staged, records_commit=False) if staged else None

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - a later write compacts
        return False


def _compact_table(snapshot: Snapshot, entry: TableEntry, ticket: Ticket) -> StagedTable | None:
    table = snapshot.open_entry(entry)
    if any(is_blob(field) for field in table.schema):
        return None  # bytes without a limit would be copied again and again
    groups = plan_write_compaction(describe_layout(table), snapshot.root.settings.fold_after // 2)
    if not groups:
        return None
    written = write_groups(table, groups)
    merged = stage_rewrite(table, written, properties=ticket.properties)
    assert merged is not None, "nobody else moves a table while the fence is held"
    return StagedTable(Writable(entry, table, is_fork=False), merged)


def plan_write_compaction(layout: Layout, least: int) -> tuple[tuple[int, ...], ...]:
    """Return runs of at least `least` small neighbours that no index covers."""
    covered = frozenset[int]().union(
        *(segment.fragment_ids for index in layout.indices for segment in index.segments)
    )
    groups = []
    for run in _find_small_runs(layout.fragments, covered):
        group = drop_dominant(run)
        if len(group) >= max(least, 2):
            groups.append(tuple(fragment.id for fragment in group))
    return tuple(groups)


def _find_small_runs(
    fragments: Sequence[Fragment], covered: frozenset[int]
) -> Iterator[list[Fragment]]:
    run: list[Fragment] = []
    for fragment in fragments:
        if fragment.physical_rows <= SMALL_FRAGMENT_ROWS and fragment.id not in covered:
            run.append(fragment)
        elif run:
            yield run
            run = []
    if run:
        yield run
