"""The changes of a branch: as a frame of a range of commits, and as a stream.

An offset of the stream is a commit, with a cursor of the feed that is bound to the graph, to the
very branch and to what is read. Spark keeps offsets in the checkpoint, and the source keeps
nothing, so a stream that starts again goes on exactly where it was.

A stream that starts at `now` has to fix what that was before anything can be missed. Its first
offset is the word itself; the first batch leads from there to the newest commit, has no rows, and
is in the checkpoint before any other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import BadRequest, ChangeFeedGap, HistoricalVersionReclaimed
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.changes import (
    BranchHistory,
    find_position,
    note_consumer,
    open_history,
)
from omnigraph.graph.guard import Guard
from omnigraph.history.change_feed import NOW, FeedTokenKind, decode_token, make_cursor_after
from omnigraph.history.entity_changes import ChangeFilter
from omnigraph.identity import MAIN, CommitId
from omnigraph.pipeline.spark_columns import make_arrow_schema
from omnigraph.pipeline.table_scan import choose_columns
from omnigraph.policy import Action
from omnigraph.settings import Settings
from omnigraph.spark_source.batch_read import find_named_type
from omnigraph.spark_source.change_partitions import (
    START_AGAIN,
    ChangedPieces,
    ChangePlan,
    ChangeRows,
    build_change_schema,
    plan_changes,
)
from omnigraph.spark_source.options import ChangeOptions
from omnigraph.storage.graph_root import GraphRoot

Offset = dict[str, str]
_RENEWALS = 4
"""Number of renewals of a consumer within its expiry."""


@dataclass(frozen=True)
class PinnedChanges:
    """The changes to read, pinned when the frame is created."""

    options: ChangeOptions
    wanted: ChangeFilter
    type_: NodeType | EdgeType | None
    head: CommitId
    """The head of the branch at that time, or the commit given."""

    @classmethod
    def pin(cls, options: ChangeOptions, settings: Settings) -> PinnedChanges:
        views = _open_views(options, settings)
        wanted = ChangeFilter(options.kinds, options.types, options.ops)
        history = open_history(views, options.branch, wanted)
        type_ = None
        if options.type_name is not None:
            type_ = find_named_type(history.newest.catalog, options.type_name)
            wanted = replace(
                wanted, types=frozenset({type_.name}), kinds=frozenset({str(type_.kind)})
            )
        head = history.head
        if options.ending_at is not None:
            head = find_position(history, options.ending_at)
        return cls(options, wanted, type_, head)

    @property
    def schema(self) -> pa.Schema:
        return choose_columns(build_change_schema(self.type_), self.options.columns)

    def open(self, settings: Settings) -> BranchHistory:
        return open_history(_open_views(self.options, settings), self.options.branch, self.wanted)

    def plan(
        self, history: BranchHistory, after: CommitId, until: CommitId, most: int | None = None
    ) -> ChangePlan:
        rows = self.options.rows_per_partition
        return plan_changes(
            history, after, until, self.wanted, rows_per_task=rows, only=self.type_, most=most
        )


def _open_views(options: ChangeOptions, settings: Settings) -> BranchSnapshots:
    """Open the branches, restricted by the policy if there is one."""
    views = BranchSnapshots(GraphRoot.at(options.uri, settings))
    if options.policy is None:
        return views
    guard = Guard.make(options.policy, options.actor, lambda: views.read_newest(MAIN).catalog)
    guard.allow(Action.READ, branch=options.branch)
    if options.consumer is not None:
        guard.allow(Action.CHANGE, branch=options.branch)
    return views.with_filter(partial(guard.see, branch=options.branch))


class ChangeReader(DataSourceReader):
    """Reads the changes of a range of commits."""

    def __init__(self, pinned: PinnedChanges, schema: StructType, settings: Settings) -> None:
        options = pinned.options
        if options.starting_after is None:
            raise BadRequest(
                "say after which commit changes are read: option 'startingAfter', a commit, tag, "
                "version, time, cursor or 'beginning'"
            )
        if options.consumer is not None:
            raise BadRequest("option 'consumer' is for streams only")
        self._start = options.starting_after
        self._pinned, self._settings = pinned, settings
        self._rows = ChangeRows(pinned.wanted, make_arrow_schema(schema))

    def partitions(self) -> Sequence[InputPartition]:
        history = self._pinned.open(self._settings)
        start = find_position(history, self._start)
        return list(self._pinned.plan(history, start, self._pinned.head).tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, ChangedPieces):  # without any, Spark asks all the same
            yield from self._rows.read(partition)


class ChangeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the commits of a branch.

    Spark creates one in the process that plans, which runs as long as the query, and
    others, which only read, on the executors.
    """

    def __init__(self, pinned: PinnedChanges, schema: StructType, settings: Settings) -> None:
        if pinned.options.ending_at is not None:
            raise BadRequest("option 'endingAt' is for batch reads only: a stream has no end")
        self._pinned, self._settings = pinned, settings
        self._rows = ChangeRows(pinned.wanted, make_arrow_schema(schema))
        self._cut: CommitId | None = None
        """End of a query that reads what is available."""
        self._plan: ChangePlan | None = None
        """The latest plan: Spark asks for the offset first, then for its partitions."""
        self._views: BranchSnapshots | None = None
        self._noted_at: float | None = None
        self._is_bound = False
        """True if its offsets are known to be of this branch."""

    # --- offsets ------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:
        """Return the start of a stream without a checkpoint, equal on every call."""
        start = self._pinned.options.starting_after or NOW
        if start.strip() == NOW:
            return {"commit": NOW, "cursor": ""}
        history = self._open()
        return _make_offset(history, find_position(history, start))

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark passes on its own limits only, and has none of commits.
        return ReadMaxRows(self._pinned.options.most_commits)

    def prepareForTriggerAvailableNow(self) -> None:
        self._cut = self._open().head

    def latestOffset(self, start: Mapping[str, str], limit: ReadLimit) -> Offset:
        if self._is_bound and start["commit"] == (self._cut or self._head()):
            self._renew(CommitId(start["commit"]))
            return dict(start)
        history = self._open()
        until = self._cut or history.head
        if start["commit"] == NOW:
            self._note(until)
            return _make_offset(history, until)
        read = _read_commit(history, start)
        self._is_bound = True
        self._renew(read)
        if read == until:
            return dict(start)
        unlimited = isinstance(limit, ReadAllAvailable)
        most = len(history.commits) if unlimited else self._pinned.options.most_commits
        self._plan = self._pinned.plan(history, read, until, most)
        return _make_offset(history, self._plan.until)

    # --- rows ---------------------------------------------------------------------------------

    def partitions(
        self, start: Mapping[str, str], end: Mapping[str, str]
    ) -> Sequence[InputPartition]:
        if start["commit"] == NOW:
            return []
        plan = self._plan
        if plan is None or (plan.after, plan.until) != (start["commit"], end["commit"]):
            history = self._open()
            plan = self._pinned.plan(
                history, _read_commit(history, start), _read_commit(history, end)
            )
        return list(plan.tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ChangedPieces)
        yield from self._rows.read(partition)

    # --- how far it is ------------------------------------------------------------------------

    def commit(self, end: Mapping[str, str]) -> None:
        """Record that all changes up to this offset were processed."""
        if end["commit"] != NOW:
            self._note(CommitId(end["commit"]))

    def _renew(self, read: CommitId) -> None:
        """Renew the consumer while there are no changes, so that it does not expire."""
        pause = self._pinned.options.consumer_lasts_s / _RENEWALS
        if self._noted_at is None or time.monotonic() - self._noted_at > pause:
            self._note(read)

    def _note(self, commit_id: CommitId) -> None:
        options = self._pinned.options
        if options.consumer is None:
            return
        try:
            note_consumer(
                self._all_views,
                options.consumer,
                options.branch,
                commit_id,
                options.consumer_lasts_s,
            )
        except HistoricalVersionReclaimed as error:
            raise ChangeFeedGap(None, commit_id, START_AGAIN) from error
        self._noted_at = time.monotonic()

    # --- the graph ----------------------------------------------------------------------------

    @property
    def _all_views(self) -> BranchSnapshots:
        if self._views is None:
            self._views = _open_views(self._pinned.options, self._settings)
        return self._views

    def _head(self) -> CommitId | None:
        """Return the newest commit; Spark polls it, so nothing else is read."""
        return self._all_views.read_newest(self._pinned.options.branch).snapshot.head

    def _open(self) -> BranchHistory:
        return open_history(self._all_views, self._pinned.options.branch, self._pinned.wanted)


def _make_offset(history: BranchHistory, commit_id: CommitId) -> Offset:
    return {"commit": commit_id, "cursor": make_cursor_after(history, commit_id)}


def _read_commit(history: BranchHistory, offset: Mapping[str, str]) -> CommitId:
    """Return the commit of an offset; raise unless it is of this branch and this filter."""
    token = decode_token(offset["cursor"], history.binding, FeedTokenKind.FEED_CURSOR)
    return CommitId(token.commit)
