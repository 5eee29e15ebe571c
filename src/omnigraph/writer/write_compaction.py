"""Merging the small fragments that small writes leave, on the way and by the writers themselves.

Every small write adds a fragment to each table it touches, and every later write and read of the
table pays for each of them. So now and then a writer that has just committed, and still holds the
fence, merges those no index covers yet. It costs about as much as one more small write. Everything
else, such as indexes and large fragments, is left to maintenance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

from omnigraph.errors import ReadSetChanged
from omnigraph.storage.manifest import TableEntry
from omnigraph.storage.recovery import WriterKind
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import StagedTable, Ticket, Writable
from omnigraph.storage.tables import is_blob, stage_rewrite, write_groups
from omnigraph.storage.tables.compaction import drop_dominant
from omnigraph.storage.tables.indices import Layout, describe_layout
from omnigraph.storage.tables.table import Fragment
from omnigraph.writer.change import CatalogSnapshot, Prepared

SMALL_FRAGMENT_ROWS = 1_024
"""Larger fragments are few, and copying them is no matter of milliseconds."""


@dataclass(frozen=True, slots=True)
class CompactSmallFragments:
    """Merges the small fragments of some tables; made by a writer that still holds the fence."""

    entries: tuple[TableEntry, ...]
    kind = WriterKind.OPTIMIZE
    is_costly = False

    @classmethod
    def find_due(cls, before: Snapshot, after: Snapshot) -> CompactSmallFragments | None:
        """The merge that is due after a write; None if none is.

        A table is looked at whenever its version is a multiple of the setting, so that nothing has
        to count.
        """
        every = before.root.settings.fold_after
        entries = after.entries.items() if every else ()
        due = [e for key, e in entries if e.version % every == 0 and before.entries.get(key) != e]
        return cls(tuple(due)) if due else None

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
        found = [_compact_table(view.snapshot, entry, ticket) for entry in self.entries]
        staged = tuple(table for table in found if table is not None)
        return Prepared(staged, records_commit=False) if staged else None

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - there is a next time
        return False


def _compact_table(snapshot: Snapshot, entry: TableEntry, ticket: Ticket) -> StagedTable | None:
    table = snapshot.open_entry(entry)
    if any(is_blob(field) for field in table.schema):
        return None  # bytes without a limit would be copied again and again
    groups = plan_write_compaction(describe_layout(table), snapshot.root.settings.fold_after // 2)
    if not groups:
        return None
    written = write_groups(table, groups)
    merged = stage_rewrite(table, written, uuid=str(uuid4()), properties=ticket.properties)
    assert merged is not None, "nobody else moves a table while the fence is held"
    return StagedTable(Writable(entry, table, is_fork=False), merged)


def plan_write_compaction(layout: Layout, least: int) -> tuple[tuple[int, ...], ...]:
    """The runs of small neighbours no index covers, of at least this many fragments each."""
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
