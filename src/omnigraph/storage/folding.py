"""Merging the small fragments that small writes leave, on the way and by the writers themselves.

Every small write adds a fragment to each table it touches, and every later write and read of the
table pays for each of them. So now and then a writer that has just committed, and still holds the
fence, merges those no index covers yet. It costs about as much as one more small write. Everything
else, such as indexes and large fragments, is left to maintenance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from uuid import uuid4

from omnigraph.errors import OmniError
from omnigraph.storage.fence.hold import Hold
from omnigraph.storage.manifest.read import ManifestVersion
from omnigraph.storage.manifest.state import TableEntry
from omnigraph.storage.recovery.intent import WriterKind
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.blobs import is_blob
from omnigraph.storage.tables.compaction import (
    stage_rewrite,
    without_dominant,
    write_groups,
)
from omnigraph.storage.tables.handle import Fragment
from omnigraph.storage.tables.indices import Layout, describe_layout
from omnigraph.storage.write import (
    StagedTable,
    Ticket,
    Writable,
    WriteRequest,
    commit_write,
    mint_ticket,
)

SMALL_FRAGMENT_ROWS = 1_024
"""Larger fragments are few, and copying them is no matter of milliseconds."""


def fold_if_due(
    before: Snapshot, manifest: ManifestVersion, take_hold: Callable[[], Hold]
) -> ManifestVersion:
    """Merge small fragments of the tables a write has moved; gives the manifest after that.

    A table is looked at whenever its version is a multiple of the setting, so that nobody has to
    count. Whatever goes wrong is no failure of the write, which is visible already: files that
    were written are garbage, and an announced merge is settled by the next writer.
    """
    after = Snapshot(before.root, before.ref, manifest)
    due = list(_due(before, after))
    if not due:
        return manifest
    try:
        return _fold(after, due, take_hold)
    except OmniError:
        return manifest


def _due(before: Snapshot, after: Snapshot) -> Iterator[TableEntry]:
    every = before.root.settings.fold_after
    for key, entry in after.entries.items() if every else ():
        if entry.version % every == 0 and before.entries.get(key) != entry:
            yield entry


def _fold(
    snapshot: Snapshot, due: Sequence[TableEntry], take_hold: Callable[[], Hold]
) -> ManifestVersion:
    ticket = mint_ticket(snapshot)
    found = [_merged(snapshot, entry, ticket) for entry in due]
    staged = tuple(table for table in found if table is not None)
    if not staged:
        return snapshot.manifest
    request = WriteRequest(snapshot, ticket, WriterKind.OPTIMIZE, staged, records_commit=False)
    return commit_write(request, take_hold).manifest


def _merged(snapshot: Snapshot, entry: TableEntry, ticket: Ticket) -> StagedTable | None:
    table = snapshot.open_entry(entry)
    if any(is_blob(field) for field in table.schema):
        return None  # bytes without a limit would be copied again and again
    groups = plan_fold(describe_layout(table), snapshot.root.settings.fold_after // 2)
    if not groups:
        return None
    written = write_groups(table, groups)
    merged = stage_rewrite(table, written, uuid=str(uuid4()), properties=ticket.properties)
    assert merged is not None, "nobody else moves a table while the fence is held"
    return StagedTable(Writable(entry, table, is_fork=False), merged)


def plan_fold(layout: Layout, least: int) -> tuple[tuple[int, ...], ...]:
    """The runs of small neighbours no index covers, of at least so many fragments each."""
    covered = frozenset[int]().union(
        *(segment.fragment_ids for index in layout.indices for segment in index.segments)
    )
    groups = []
    for run in _small_runs(layout.fragments, covered):
        group = without_dominant(run)
        if len(group) >= max(least, 2):
            groups.append(tuple(fragment.id for fragment in group))
    return tuple(groups)


def _small_runs(fragments: Sequence[Fragment], covered: frozenset[int]) -> Iterator[list[Fragment]]:
    run: list[Fragment] = []
    for fragment in fragments:
        if fragment.physical_rows <= SMALL_FRAGMENT_ROWS and fragment.id not in covered:
            run.append(fragment)
        elif run:
            yield run
            run = []
    if run:
        yield run
