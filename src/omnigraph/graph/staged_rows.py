"""Rows that lie in a staging area as one commit, checked as every load is."""

from __future__ import annotations

from contextlib import closing

from omnigraph.errors import ReadSetChanged
from omnigraph.execution.load_input import LoadMode
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.pipeline.staged_load import StagedLoad, StagedWrite
from omnigraph.pipeline.staging_area import StagingArea
from omnigraph.storage.recovery import WriterKind
from omnigraph.storage.staged import Ticket
from omnigraph.storage.write_notes import continue_write_note
from omnigraph.writer.change import CatalogSnapshot, Prepared
from omnigraph.writer.driver import Writer


def commit_rows(views: BranchSnapshots, write: StagedWrite) -> str | None:
    """The new commit; None where the branch has a commit of the same origin already.

    Raises:
        ConflictError: cleanup has taken the tasks that staged them for dead.
    """
    note = continue_write_note(views.root, StagingArea(views.root, write.area).note)
    with closing(StagedLoad(views.root, write)) as job:
        try:
            published = Writer(views).write(
                _StagedRows(views, job, write),
                branch=write.branch,
                actor=write.actor,
                message=write.message,
                note=note,
            )
        finally:
            note.end()
    return None if published is None or published.commit is None else published.commit.commit_id


class _StagedRows:
    """Rows that others staged, and that are there as often as they must be prepared."""

    kind, is_costly = WriterKind.LOAD, True

    def __init__(self, views: BranchSnapshots, job: StagedLoad, write: StagedWrite) -> None:
        self._views, self._job, self._write = views, job, write

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
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
