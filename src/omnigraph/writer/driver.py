"""The driver of every write: prepare, acquire the fence, commit, retry if the branch moved.

The writer that finds many small fragments compacts them before it releases the fence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Self

from omnigraph.errors import (
    HistoricalVersionReclaimed,
    OmniError,
    PreconditionFailed,
    ReadSetChanged,
)
from omnigraph.identity import CommitId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import normalize_branch, normalize_message
from omnigraph.storage.manifest import ManifestSnapshot, TableEntry
from omnigraph.storage.prepared_write import (
    StagedTable,
    Ticket,
    Writable,
    drop_forks_on_failure,
    mint_ticket,
)
from omnigraph.storage.publish import Published
from omnigraph.storage.recovery import resolve_all
from omnigraph.storage.refs import read_ref
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staging_heartbeat import Heartbeat, keep_heartbeat
from omnigraph.storage.tables import is_blob, stage_rewrite, write_groups
from omnigraph.storage.tables.compaction import drop_dominant
from omnigraph.storage.tables.indices import Layout, describe_layout
from omnigraph.storage.tables.table import Fragment
from omnigraph.storage.transaction import (
    BRANCH_IDENTIFIER,
    MAINTENANCE,
    NO_ROW_CHANGED,
    commit_write,
    require_unmoved,
)
from omnigraph.storage.write_plan import WriterKind
from omnigraph.storage.writer_fence import FenceGuard, is_valid
from omnigraph.writer.change import (
    BranchReader,
    CatalogSnapshot,
    Change,
    PlanContent,
    WriteOptions,
)

COSTLY_RACES = 4
"""The number of races a costly write loses before it holds the fence while it is prepared."""


class WriteFence:
    """The fence of a graph, acquired when a write is ready and released when it ends.

    A write that finds the branch moved keeps the fence while it is prepared again: of many
    concurrent writers only one wins each round, so one that queued again could starve. Only a
    costly write lets the others go first, a few times.
    """

    def __init__(self, root: GraphRoot, *, is_costly: bool = False) -> None:
        self._root = root
        self._guard: FenceGuard | None = None
        self._races = COSTLY_RACES if is_costly else 0

    def acquire_fence(self) -> FenceGuard:
        """Return the fence, acquired now unless it is held."""
        if self._guard is None:
            self._guard = self._root.acquire_fence()
        return self._guard

    def note_loss(self) -> None:
        """Record that the write must be prepared again."""
        if self._races:
            self._races -= 1
            self._release()
        elif self._guard is not None and not is_valid(self._guard):
            self._release()

    def _release(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()


MAX_PREPARATIONS = 33
"""The first preparation and thirty-two retries, after which the write fails."""


@dataclass(frozen=True)
class Writer:
    """The writer of a graph; it calls `wrote` after each change, once the fence is released."""

    branches: BranchReader
    wrote: Callable[[], None] | None = None

    def write(
        self, change: Change, options: WriteOptions, *, note: Heartbeat | None = None
    ) -> Published | None:
        """Make a change visible as one publish; return None if there was nothing to do.

        Args:
            change: The change, prepared as often as needed.
            options: The branch, the actor, and the preconditions of the commit.
            note: The heartbeat that protects files written before; its owner ends it.

        Raises:
            ReadSetChanged: the branch moved and the change must not be prepared again, or it
                moved on every attempt.
            PreconditionFailed: the branch is not at the expected head.
            BadOptions: the message cannot be stored.
        """
        root = self.branches.root
        options = replace(options, message=normalize_message(options.message))
        noted = keep_heartbeat(root) if change.is_costly and note is None else nullcontext(note)
        with noted as protecting, WriteFence(root, is_costly=change.is_costly) as window:
            published = self._run_attempts(_Attempt(change, options, protecting), window)
        if published is not None and self.wrote is not None:
            self.wrote()
        return published

    def _run_attempts(self, attempt: _Attempt, window: WriteFence) -> Published | None:
        for remaining in reversed(range(MAX_PREPARATIONS)):
            view = self.branches.read_newest(attempt.options.branch)
            try:
                with _retry_if_reclaimed(view.snapshot):
                    published = attempt.run(view, window.acquire_fence)
            except ReadSetChanged as cause:
                if not remaining or not attempt.may_retry(cause):
                    raise
                window.note_loss()
                continue
            if published is not None:
                compacted = _compact_if_due(view, published.manifest, window.acquire_fence)
                self.branches.remember(view.snapshot.ref, compacted)
            return published
        raise AssertionError("the last attempt returns or raises")

    def write_held(
        self,
        change: Change,
        guard: FenceGuard,
        options: WriteOptions,
        *,
        note: Heartbeat | None = None,
    ) -> Published | None:
        """Make a change under a guard that the caller holds, in one attempt, after recovery.

        Raises:
            ReadSetChanged: the guard was lost, or a late effect of an ended write was undone.
        """
        ref = read_ref(self.branches.root.store, normalize_branch(options.branch))
        resolve_all(self.branches.root, guard, ref)
        view = self.branches.read_newest(options.branch)
        published = _Attempt(change, options, note).run(view, lambda: guard)
        if published is not None:
            self.branches.remember(view.snapshot.ref, published.manifest)
        return published


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A change with the options and the heartbeat of its write."""

    change: Change
    options: WriteOptions
    note: Heartbeat | None = None

    def run(self, view: CatalogSnapshot, take_guard: Callable[[], FenceGuard]) -> Published | None:
        """Prepare the change on a view, and commit it."""
        snapshot, head = view.snapshot, self.options.expected_head
        expected = None if head is None else CommitId(head)
        if expected is not None and snapshot.head != expected:
            raise PreconditionFailed(snapshot.branch, expected, snapshot.head)
        ticket = mint_ticket(snapshot, self.note)
        content = self.change.prepare(view, ticket)
        if content is None:
            if expected is not None:
                require_unmoved(snapshot, expected)
            return None
        with drop_forks_on_failure(content.staged):
            guard = take_guard()
        return commit_write(
            content.complete(snapshot, ticket, self.change.kind, self.options), guard
        )

    def may_retry(self, cause: ReadSetChanged) -> bool:
        if cause.member in NO_ROW_CHANGED:
            return True
        if cause.member.startswith(BRANCH_IDENTIFIER):
            return False
        return self.options.expected_head is None and self.change.may_retry(cause)


@contextmanager
def _retry_if_reclaimed(snapshot: Snapshot) -> Iterator[None]:
    """Retry a write whose snapshot was outdated and removed by cleanup."""
    try:
        yield
    except HistoricalVersionReclaimed as error:
        raise ReadSetChanged(MAINTENANCE, str(snapshot.manifest_version), None) from error


# --- compaction after a write --------------------------------------------------------------------

MAX_COMPACTED_ROWS = 1_024
"""The number of rows of the largest small fragment, which is copied in a few milliseconds."""


def _compact_if_due(
    before: CatalogSnapshot, manifest: ManifestSnapshot, take_guard: Callable[[], FenceGuard]
) -> ManifestSnapshot:
    """Compact small fragments if that is due; return the manifest afterwards.

    The write is visible already, so a failure here is not one of the write: new files are
    unreferenced, and an intent that was written is resolved by the next writer.
    """
    snapshot = before.snapshot
    after = CatalogSnapshot(Snapshot(snapshot.root, snapshot.ref, manifest), before.catalog)
    due = _list_due_tables(snapshot, after.snapshot)
    if not due:
        return manifest
    attempt = _Attempt(CompactSmallFragments(due), WriteOptions(branch=snapshot.branch))
    try:
        published = attempt.run(after, take_guard)
    except OmniError:
        return manifest
    return manifest if published is None else published.manifest


def _list_due_tables(before: Snapshot, after: Snapshot) -> tuple[TableEntry, ...]:
    """List the tables that a write moved to a version at which compaction is due.

    It is due at every multiple of the setting, so that nothing has to be counted.
    """
    every = before.root.settings.fold_after
    moved = [e for key, e in after.entries.items() if before.entries.get(key) != e] if every else ()
    return tuple(entry for entry in moved if entry.version % every == 0)


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
    groups = _plan_compaction(describe_layout(table), snapshot.root.settings.fold_after // 2)
    if not groups:
        return None
    written = write_groups(table, groups)
    merged = stage_rewrite(table, written, properties=ticket.properties)
    assert merged is not None, "no other writer moves a table while the fence is held"
    return StagedTable(Writable(entry, table, is_fork=False), merged)


def _plan_compaction(layout: Layout, least: int) -> tuple[tuple[int, ...], ...]:
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
        if fragment.physical_rows <= MAX_COMPACTED_ROWS and fragment.id not in covered:
            run.append(fragment)
        elif run:
            yield run
            run = []
    if run:
        yield run
