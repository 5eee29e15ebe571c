"""Rows that lie in a staging area as one commit, checked as every load is."""

from __future__ import annotations

from omnigraph.errors import PreconditionFailed, ReadSetChanged
from omnigraph.execution.load import LoadMode
from omnigraph.graph.preparing import MAX_PREPARATIONS, CommitWindow
from omnigraph.graph.view import View, Views
from omnigraph.identity import CommitId
from omnigraph.pipeline.source.access import StagedWrite
from omnigraph.pipeline.source.staged import StagedLoad
from omnigraph.storage.at_work import AtWork, at_work
from omnigraph.storage.publish import Published
from omnigraph.storage.recovery.intent import WriterKind
from omnigraph.storage.write import NO_ROW_CHANGED, WriteRequest, commit_write, mint_ticket


def commit_rows(views: Views, write: StagedWrite) -> str | None:
    """The new commit; None where the branch has a commit of the same origin already.

    Raises:
        PreconditionFailed: the branch is not at the commit the write expects.
    """
    job = StagedLoad(views.root, write)
    try:
        with at_work(views.root) as note, CommitWindow(views.root, is_costly=True) as window:
            for _ in range(MAX_PREPARATIONS - 1):
                try:
                    return _attempt(views, job, write, window, note)
                except ReadSetChanged as change:
                    if not _may_retry(write, change):
                        raise
                    window.lost()
            return _attempt(views, job, write, window, note)
    finally:
        job.close()


def _attempt(
    views: Views, job: StagedLoad, write: StagedWrite, window: CommitWindow, note: AtWork
) -> str | None:
    view = views.newest(write.branch)
    if write.expected_head is not None and view.snapshot.head != write.expected_head:
        raise PreconditionFailed(view.snapshot.branch, write.expected_head, view.snapshot.head)
    # A commit that comes after this look makes the branch move, and then everything is redone.
    if write.origin is not None and _has_commit_of(views, write.branch, write.origin):
        return None
    published = _commit(view, job, write, window, note)
    views.remember(view.snapshot.ref, window.conclude(view.snapshot, published))
    assert published.commit is not None, "a load always commits"
    return published.commit.commit_id


def _has_commit_of(views: Views, branch: str, origin: str) -> bool:
    return any(commit.origin == origin for commit in views.commits(branch))


def _commit(
    view: View, job: StagedLoad, write: StagedWrite, window: CommitWindow, note: AtWork
) -> Published:
    ticket = mint_ticket(view.snapshot, note)
    staged = job.prepare(view.snapshot, view.catalog, ticket)
    request = WriteRequest(
        view.snapshot,
        ticket,
        WriterKind.LOAD,
        staged,
        write.actor,
        None if write.expected_head is None else CommitId(write.expected_head),
        origin=write.origin,
    )
    return commit_write(request, window.hold)


def _may_retry(write: StagedWrite, change: ReadSetChanged) -> bool:
    return change.member in NO_ROW_CHANGED or write.mode is not LoadMode.OVERWRITE
