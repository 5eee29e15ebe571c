"""The one way by which anything above storage changes a graph.

A change is prepared on the newest view, outside of the fence, and committed under it. Where the
branch moved meanwhile it is prepared again, if that is safe. Everything that all changes have in
common is here and nowhere else: the check of the head, the fence, the note that keeps cleanup away
from files nothing refers to yet, the attempts, merging small fragments afterwards, and telling
those who want to know what was published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from omnigraph.errors import (
    HistoricalVersionReclaimed,
    OmniError,
    PreconditionFailed,
    ReadSetChanged,
)
from omnigraph.identity import CommitId
from omnigraph.storage.fence.hold import Hold
from omnigraph.storage.manifest import ManifestSnapshot
from omnigraph.storage.names import normalize_branch, normalize_message
from omnigraph.storage.publish import Published
from omnigraph.storage.recovery import settle_all
from omnigraph.storage.refs import read_ref
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import drop_forks_on_failure, mint_ticket
from omnigraph.storage.write import (
    BRANCH_IDENTIFIER,
    MAINTENANCE,
    NO_ROW_CHANGED,
    WriteRequest,
    commit_write,
    require_unmoved,
)
from omnigraph.storage.write_notes import WriteNote, hold_write_note
from omnigraph.writer.change import BranchReader, CatalogSnapshot, Change, count_rows
from omnigraph.writer.window import CommitWindow
from omnigraph.writer.write_compaction import CompactSmallFragments

MAX_PREPARATIONS = 33
"""The first preparation and thirty-two more; then the caller learns that the branch is busy."""


def _tell_nobody() -> None:
    """For writers without a listener."""


@dataclass(frozen=True)
class Writer:
    """Makes changes of one graph visible; `wrote` hears of each, once the fence is free again."""

    branches: BranchReader
    wrote: Callable[[], None] = _tell_nobody

    def write(
        self,
        change: Change,
        *,
        branch: str,
        actor: str | None = None,
        expected_head: str | None = None,
        message: str | None = None,
        note: WriteNote | None = None,
    ) -> Published | None:
        """Make a change visible as one publish; gives None if there was nothing to do.

        Args:
            change: What to do; prepared as often as needed.
            branch: The branch to change.
            actor: Who the commit is recorded for.
            expected_head: Only if the branch is at this commit.
            message: What is said about it; kept with the commit.
            note: What protects files that were written before; its author ends it.

        Raises:
            ReadSetChanged: the branch moved and the change must not be prepared again, or it
                moved every time.
            PreconditionFailed: the branch is not at the expected head.
            BadOptions: the message cannot be kept.
        """
        said = normalize_message(message)
        root = self.branches.root
        expected = None if expected_head is None else CommitId(expected_head)
        noted = hold_write_note(root) if change.is_costly and note is None else nullcontext(note)
        with noted as protecting, CommitWindow(root, is_costly=change.is_costly) as window:
            attempt = _Attempt(change, actor, expected, protecting, said)
            published = self._run_attempts(attempt, branch, window)
        if published is not None:
            self.wrote()
        return published

    def _run_attempts(
        self, attempt: _Attempt, branch: str, window: CommitWindow
    ) -> Published | None:
        for remaining in reversed(range(MAX_PREPARATIONS)):
            view = self.branches.read_newest(branch)
            try:
                with _retry_if_reclaimed(view.snapshot):
                    published = attempt.run(view, window.hold)
            except ReadSetChanged as cause:
                if not remaining or not attempt.may_retry(cause):
                    raise
                window.note_loss()
                continue
            if published is not None:
                compacted = _compact_if_due(view, published.manifest, window.hold)
                self.branches.remember(view.snapshot.ref, compacted)
            return published
        raise AssertionError("the last attempt returns or raises")

    def write_held(
        self,
        change: Change,
        hold: Hold,
        *,
        branch: str,
        actor: str | None = None,
        note: WriteNote | None = None,
    ) -> Published | None:
        """The same in a window that the caller keeps open: one attempt, with nothing pending.

        Raises:
            ReadSetChanged: the hold was lost, or a late effect of an ended write was undone.
        """
        ref = read_ref(self.branches.root.store, normalize_branch(branch))
        settle_all(self.branches.root, hold, ref)
        view = self.branches.read_newest(branch)
        published = _Attempt(change, actor, None, note).run(view, lambda: hold)
        if published is not None:
            self.branches.remember(view.snapshot.ref, published.manifest)
        return published


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A change with whatever else makes it a write."""

    change: Change
    actor: str | None
    expected_head: CommitId | None
    note: WriteNote | None
    message: str | None = None

    def run(self, view: CatalogSnapshot, take_hold: Callable[[], Hold]) -> Published | None:
        """Prepare on a view and commit."""
        snapshot, expected = view.snapshot, self.expected_head
        if expected is not None and snapshot.head != expected:
            raise PreconditionFailed(snapshot.branch, expected, snapshot.head)
        ticket = mint_ticket(snapshot, self.note)
        prepared = self.change.prepare(view, ticket)
        if prepared is None:
            if expected is not None:
                require_unmoved(snapshot, expected)
            return None
        with drop_forks_on_failure(prepared.tables):
            hold = take_hold()
        said = {} if self.message is None else {"message": self.message}
        request = WriteRequest(
            snapshot,
            ticket,
            self.change.kind,
            prepared.tables,
            actor_id=self.actor,
            expected_head=expected,
            records_commit=prepared.records_commit,
            adopted=prepared.adopted,
            origin=prepared.origin,
            merged_parent=prepared.merged_parent,
            details={**prepared.details, **said},
            merging=prepared.merging,
            schema=prepared.schema,
            needs_sole_branch=prepared.needs_sole_branch,
            counts=count_rows(prepared),
        )
        return commit_write(request, hold)

    def may_retry(self, cause: ReadSetChanged) -> bool:
        if cause.member in NO_ROW_CHANGED:
            return True
        if cause.member.startswith(BRANCH_IDENTIFIER):
            return False
        return self.expected_head is None and self.change.may_retry(cause)


@contextmanager
def _retry_if_reclaimed(snapshot: Snapshot) -> Iterator[None]:
    """Let a write start over whose snapshot was outdated, and then cleaned away, while it ran."""
    try:
        yield
    except HistoricalVersionReclaimed as error:
        raise ReadSetChanged(MAINTENANCE, str(snapshot.manifest_version), None) from error


def _compact_if_due(
    before: CatalogSnapshot, manifest: ManifestSnapshot, take_hold: Callable[[], Hold]
) -> ManifestSnapshot:
    """Merge small fragments if that is due; gives the manifest after that.

    Whatever goes wrong is no failure of the write, which is visible already: files that were
    written are garbage, and an announced compaction is settled by the next writer.
    """
    snapshot = before.snapshot
    after = CatalogSnapshot(Snapshot(snapshot.root, snapshot.ref, manifest), before.catalog)
    compaction = CompactSmallFragments.find_due(snapshot, after.snapshot)
    if compaction is None:
        return manifest
    try:
        published = _Attempt(compaction, None, None, None).run(after, take_hold)
    except OmniError:
        return manifest
    return manifest if published is None else published.manifest
