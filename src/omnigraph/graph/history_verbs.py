"""The verbs about the history of a branch: merge, tags, differences, the change feed."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import CommitNotFound, PolicyDenied
from omnigraph.graph.engines import MergeEngineName
from omnigraph.graph.reading_verbs import ReadingVerbs
from omnigraph.graph.revisions import RevisionLike, format_revision
from omnigraph.policy.decision import Action
from omnigraph.storage.manifest import Commit

if TYPE_CHECKING:
    from omnigraph.graph.idempotency import RecordedWrite
    from omnigraph.graph.merging import MergeResult
    from omnigraph.graph.results import CreatedBranch
    from omnigraph.history.change_feed import Baseline, CommitChanges, FeedPage
    from omnigraph.history.diff import Diff
    from omnigraph.history.entity_history import EntityHistory
    from omnigraph.storage.consumers import Consumer
    from omnigraph.storage.manifest import RecoveryAudit
    from omnigraph.storage.refs import Tag


class HistoryVerbs(ReadingVerbs):
    """Branching off, merging and following a branch."""

    def create_branch(
        self,
        name: str,
        *,
        source: str | None = None,
        commit: RevisionLike | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> CreatedBranch:
        """Create a branch from another one, or from a commit. Copies nothing.

        With an `idempotency_key` it is created once, however often it is asked for.

        >>> review = graph.create_branch("review")
        >>> review.name, review.parent, review.actor_id
        ('review', 'main', 'maria')
        """
        from omnigraph.graph import branching

        self._open.require_writable()
        creator, source = actor or self.actor, self._choose(source)
        self._guard.allow(Action.BRANCH_CREATE, branch=source, target_branch=name, actor=actor)
        start = self._find_commit_id(commit, source)
        return branching.create_branch(
            self._open.views, name, source, start, creator, idempotency_key
        )

    def merge(
        self,
        source: str,
        into: str | None = None,
        *,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        delete_branch: bool = False,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        engine: MergeEngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Merge a branch into another one, as one commit or not at all.

        Args:
            source: The branch to merge; it is not changed.
            into: The branch to change.
            dry_run: Report what would be done and what conflicts; write nothing.
            resolve: What decides conflicts: `ours`, `theirs` or `newest` for everything or as
                `Type=rule`, and `Type.property=rule` with `max`, `min`, `sum`, `union` or `append`.
            decisions: What was decided about single conflicts, as a dry run lists them with a
                `take` of `source`, `target`, `base` or property values; or a file of that.
            delete_branch: Delete the source afterwards; if that is refused, the result says so.
            expected_head: Only if `into` is at this commit.
            actor: Who the commit is recorded for.
            message: A text stored with the commit.
            engine: Where rows are compared: `local`, in this process, `spark`, or `auto`, on Spark
                where many rows changed.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.
            idempotency_key: Names the merge: it is made once, however often it is asked for.

        Raises:
            MergeConflicts: the branches contradict each other and nothing decides.

        >>> _ = graph.create_branch("review")
        >>> _ = graph.branch("review").mutate('query q() { insert Person { name: "Cy" } }')
        >>> str(graph.merge("review").outcome), len(graph.nodes("Person"))
        ('fast_forward', 3)
        """
        from omnigraph.graph import merging
        from omnigraph.graph.idempotency import WriteKey

        if not dry_run:
            self._open.require_writable()
        into = self._choose(into)
        self._guard.allow(Action.BRANCH_MERGE, branch=source, target_branch=into, actor=actor)
        if delete_branch:
            self._guard.allow(Action.BRANCH_DELETE, target_branch=source, actor=actor)
        given = merging.load_decisions(decisions)
        who, head = actor or self.actor, self._find_commit_id(expected_head, into)
        asked = (source.strip(), into.strip(), resolve, list(given), head, message)
        request = merging.MergeRequest(
            source=source,
            target=into,
            resolve=resolve,
            decisions=given,
            actor=who,
            expected_head=head,
            dry_run=dry_run,
            delete_branch=delete_branch,
            message=message,
            engine=engine,
            session=session,
            spark_conf=spark_conf,
            key=WriteKey.of(idempotency_key, "merge", who, *asked),
        )
        with self._hiding_conflicts(into, actor):
            result = merging.merge(self._open.views, self._open.writer, request)
        return replace(result, conflicts=self._hide_values(result.conflicts, into, actor))

    def find_write(
        self, idempotency_key: str, *, branch: str | None = None, actor: str | None = None
    ) -> RecordedWrite:
        """What became of a write that was sent with an idempotency key, by the same actor.

        Raises:
            WriteNotFound: no commit of the branch was made under it, and no branch was created,
                renamed or deleted.

        >>> add = 'query q() { insert Person { name: "Cy" } }'
        >>> first = graph.mutate(add, idempotency_key="add-cy")
        >>> again = graph.mutate(add, idempotency_key="add-cy")
        >>> again.commit == first.commit == graph.find_write("add-cy").commit
        True
        >>> again.is_replayed, len(graph.nodes("Person"))
        (True, 3)
        """
        from omnigraph.graph.idempotency import find_write

        self._guard.allow(Action.CHANGE, branch=self._choose(branch), actor=actor)
        who = actor or self.actor
        return find_write(self._open.views, idempotency_key, who, self._choose(branch))

    def tag(
        self,
        name: str,
        at: RevisionLike | None = None,
        *,
        branch: str | None = None,
        actor: str | None = None,
    ) -> Tag:
        """Give a commit a permanent name: the head of a branch, or the commit at a place.

        Cleanup keeps a tagged commit readable. A tag does not move.

        >>> graph.tag("v1").commit_id == graph.commits()[0].commit_id
        True
        >>> len(graph.at("v1").nodes("Person"))
        2
        """
        from omnigraph.graph import revisions
        from omnigraph.storage.refs import create_tag

        self._open.require_writable()
        branch = self._choose(branch)
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        wanted = revisions.HEAD if at is None else format_revision(at)
        commit = revisions.find_commit(self._open.views, wanted, branch)
        if at is not None:
            self._guard.allow(Action.READ, branch=commit.branch, actor=actor)
        return create_tag(self._open.views.root, name, commit, actor or self.actor)

    def diff(
        self,
        before: RevisionLike,
        after: RevisionLike | None = None,
        *,
        images: bool = False,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        branch: str | None = None,
    ) -> Diff:
        """The differences between two places, or between a place and the current state of a branch.

        Args:
            before: A branch, tag, commit, snapshot, version or time, as `at` takes it.
            after: The same; the branch as it is now by default.
            images: Whether changes carry the whole entity before and after.
            kinds: Only `node` or `edge`.
            types: Only these types.
            ops: Only `insert`, `update` or `delete`.
            branch: The branch that versions and times refer to.

        >>> [str(change.op) for change in graph.diff("1")]
        ['insert', 'insert', 'insert']
        """
        from omnigraph.graph import changing
        from omnigraph.history.diff import Diff

        wanted, branch = changing.make_change_filter(kinds, types, ops), self._choose(branch)
        self._require_visible(types, branch)
        sides = [
            changing.make_state(self.at(place, branch=branch).view) for place in (before, after)
        ]
        return Diff(*sides, images=images, wanted=wanted)

    def commit_changes(
        self,
        commit: RevisionLike,
        *,
        page_token: str | None = None,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        max_changes: int = 1_000,
        max_bytes: int = 4 << 20,
        branch: str | None = None,
    ) -> CommitChanges:
        """What a commit changed relative to its first parent, with images, one page at a time.

        Pass the `next_page_token` of a page to get the next one.

        >>> page = graph.commit_changes(graph.commits()[0].commit_id, types=["Knows"])
        >>> [(change.op.value, change.after.endpoints.wire()) for change in page.changes]
        [('insert', {'from': 'Ada', 'to': 'Ben'})]
        """
        from omnigraph.graph import changing, revisions
        from omnigraph.history.change_feed import PageLimits

        named = format_revision(commit).strip()
        found = revisions.find_commit(self._open.views, named, self._choose(branch))
        try:
            views = self._restrict_views(found.branch)
        except PolicyDenied:
            raise CommitNotFound(named) from None  # they learn nothing of it
        self._require_visible(types, found.branch)
        wanted = changing.make_change_filter(kinds, types, ops)
        limits = PageLimits(max_changes, max_bytes)
        return changing.read_commit(views, found, wanted, limits, page_token, self._open.keys)

    def changes(
        self,
        position: str | Commit = "now",
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        max_changes: int = 1_000,
        max_bytes: int = 4 << 20,
        max_commits: int = 128,
        branch: str | None = None,
    ) -> FeedPage:
        """A page of the change feed of a branch: commits oldest first, with what each changed.

        Args:
            position: `now`, `beginning`, `after:` and a commit id, or where an earlier page ended:
                its `position`. A `Commit` is the position after it.
            kinds: Only `node` or `edge`.
            types: Only these types.
            ops: Only `insert`, `update` or `delete`.
            max_changes: The maximum number of changes.
            max_bytes: The maximum size in bytes of JSON; a larger change is returned alone.
            max_commits: The maximum number of commits.
            branch: The branch whose feed to read.

        >>> page = graph.changes("beginning")
        >>> [len(block.changes) for block in page.blocks], page.caught_up
        ([3], True)
        >>> graph.changes(page.position).blocks
        ()
        """
        from omnigraph.graph import changing
        from omnigraph.history.change_feed import PageLimits

        branch = self._choose(branch)
        views = self._restrict_views(branch)
        self._require_visible(types, branch)
        wanted = changing.make_change_filter(kinds, types, ops)
        limits = PageLimits(max_changes, max_bytes, max_commits)
        start = position if isinstance(position, str) else f"after:{position.commit_id}"
        return changing.read_feed(views, branch, start, wanted, limits, self._open.keys)

    def baseline(
        self,
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        branch: str | None = None,
    ) -> Baseline:
        """A copy of a branch to start following its feed from; `ops` only bind the cursor.

        >>> baseline = graph.baseline(types=["Knows"])
        >>> next(baseline.records())
        {'edge': 'Knows', 'from': 'Ada', 'to': 'Ben', 'data': {'id': 'k1'}}
        """
        from omnigraph.graph import changing

        branch = self._choose(branch)
        views = self._restrict_views(branch, Action.EXPORT)
        self._require_visible(types, branch, Action.EXPORT)
        return changing.read_baseline(views, branch, changing.make_change_filter(kinds, types, ops))

    def entity_history(
        self, type_name: str, entity_id: str, *, kind: str | None = None, branch: str | None = None
    ) -> EntityHistory:
        """Every value an entity had on a branch, newest first, with commit, actor and time.

        >>> _ = graph.mutate('query q() { update Person set { age: 37 } where name = "Ada" }')
        >>> history = graph.entity_history("Person", "Ada")
        >>> [(one.op, one.image.properties["age"]) for one in history.versions]
        [('update', 37), ('insert', 36)]
        """
        from omnigraph.graph import changing

        branch = self._choose(branch)
        views = self._restrict_views(branch)
        self._require_visible([type_name], branch)
        return changing.read_entity(views, branch, type_name, entity_id, kind)

    def set_consumer(
        self,
        name: str,
        position: str | Commit | None = None,
        *,
        lasts: datetime.timedelta = datetime.timedelta(days=7),
        branch: str | None = None,
    ) -> Consumer:
        """Record how far a consumer of the feed has read, so that cleanup keeps the rest for it.

        Args:
            name: The name of the consumer; replaces what was recorded under it before.
            position: The cursor or the commit id up to which it has read; the head by default.
            lasts: How long the changes it has not read are kept.
            branch: The branch whose feed it reads.

        >>> graph.set_consumer("search-index").commit_id == graph.commits()[0].commit_id
        True
        """
        from omnigraph.graph import changing

        self._open.require_writable()
        seconds = lasts.total_seconds()
        branch = self._choose(branch)
        self._guard.allow(Action.CHANGE, branch=branch)
        read_to = position.commit_id if isinstance(position, Commit) else position
        return changing.note_consumer(self._open.views, name, branch, read_to, seconds)

    def recovery_list(self, branch: str | None = None) -> tuple[RecoveryAudit, ...]:
        """The recovered writes recorded on a branch.

        >>> graph.recovery_list()
        ()
        """
        from omnigraph.graph import open_graph

        self._guard.allow(Action.ADMIN)
        return open_graph.list_recoveries(self._open.views, self._choose(branch))
