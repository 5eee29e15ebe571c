"""Rows that lie in a staging area as one commit, checked as every load is."""

from __future__ import annotations

from contextlib import closing

from omnigraph.errors import ReadSetChanged
from omnigraph.execution.load import LoadMode
from omnigraph.graph.view import Views
from omnigraph.pipeline.source.access import StagedWrite
from omnigraph.pipeline.source.staged import StagedLoad
from omnigraph.storage.recovery.intent import WriterKind
from omnigraph.storage.write import Ticket
from omnigraph.writer.change import Prepared, View
from omnigraph.writer.driver import Writer


def commit_rows(views: Views, write: StagedWrite) -> str | None:
    """The new commit; None where the branch has a commit of the same origin already.

    Raises:
        PreconditionFailed: the branch is not at the commit the write expects.
    """
    with closing(StagedLoad(views.root, write)) as job:
        published = Writer(views).write(
            _StagedRows(views, job, write),
            branch=write.branch,
            actor=write.actor,
            expected_head=write.expected_head,
        )
    return None if published is None or published.commit is None else published.commit.commit_id


class _StagedRows:
    """Rows that others staged, and that are there as often as they must be prepared."""

    kind, is_costly = WriterKind.LOAD, True

    def __init__(self, views: Views, job: StagedLoad, write: StagedWrite) -> None:
        self._views, self._job, self._write = views, job, write

    def prepare(self, view: View, ticket: Ticket) -> Prepared | None:
        origin = self._write.origin
        # A commit that comes after this look makes the branch move, and then everything is redone.
        if origin is not None and self._has_commit_of(origin):
            return None
        staged = self._job.prepare(view.snapshot, view.catalog, ticket)
        return Prepared(staged, origin=origin)

    def _has_commit_of(self, origin: str) -> bool:
        commits = self._views.commits(self._write.branch)
        return any(commit.origin == origin for commit in commits)

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        return self._write.mode is not LoadMode.OVERWRITE
