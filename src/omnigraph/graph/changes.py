"""Changes of a branch: its feed, differences, commits, the history of an entity, consumers."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.cache import Cache
from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    CommitNotFound,
    PolicyDenied,
    ReadSetChanged,
    TypeNotFound,
)
from omnigraph.graph.branch_snapshots import BranchSnapshots, CatalogSnapshot, RecentKeys
from omnigraph.graph.reads import ReadVerbs
from omnigraph.graph.revisions import RevisionLike, find_commit, format_revision
from omnigraph.identity import CommitId
from omnigraph.policy.decision import Action
from omnigraph.storage.consumers import set_consumer
from omnigraph.storage.manifest import CommitRecord
from omnigraph.storage.refs import BranchRef, find_ref
from omnigraph.storage.tables import find_changed_keys
from omnigraph.wire.commit_results import Commit, Consumer

if TYPE_CHECKING:
    from omnigraph.history.change_feed import Baseline, PageLimits, TokenBinding
    from omnigraph.history.diff import Diff
    from omnigraph.history.entity_changes import ChangeFilter, FindKeys, State
    from omnigraph.wire.change_results import CommitChanges, EntityHistory, FeedPage


class ChangeVerbs(ReadVerbs):
    """The changes of a branch: its feed, single commits, differences and entities."""

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
        """Return a page of the change feed of a branch: commits oldest first, with the changes.

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
        from omnigraph.history.change_feed import PageLimits

        branch = self._choose(branch)
        views = self._restrict_views(branch)
        self._require_visible(types, branch)
        wanted = make_change_filter(kinds, types, ops)
        limits = PageLimits(max_changes, max_bytes, max_commits)
        start = position if isinstance(position, str) else f"after:{position.commit_id}"
        return read_feed(views, branch, start, wanted, limits, self._open.recent_keys)

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
        """Return a page of the changes of a commit relative to its first parent, with images.

        Pass the `next_page_token` of a page to get the next one.

        >>> page = graph.commit_changes(graph.commits()[0].commit_id, types=["Knows"])
        >>> [(change.op.value, change.after.endpoints.wire()) for change in page.changes]
        [('insert', {'from': 'Ada', 'to': 'Ben'})]
        """
        from omnigraph.history.change_feed import PageLimits

        named = format_revision(commit).strip()
        found = find_commit(self._open.views, named, self._choose(branch))
        try:
            views = self._restrict_views(found.branch)
        except PolicyDenied:
            raise CommitNotFound(named) from None  # they learn nothing of it
        self._require_visible(types, found.branch)
        wanted = make_change_filter(kinds, types, ops)
        limits = PageLimits(max_changes, max_bytes)
        return read_commit(views, found, wanted, limits, page_token, self._open.recent_keys)

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
        """Return the differences between two revisions, or a revision and the current state.

        Args:
            before: A branch, tag, commit, snapshot, version or time, as `at` takes it.
            after: Likewise; by default, the current state of the branch.
            images: Whether changes carry the whole entity before and after.
            kinds: Only `node` or `edge`.
            types: Only these types.
            ops: Only `insert`, `update` or `delete`.
            branch: The branch that versions and times refer to.

        >>> [str(change.op) for change in graph.diff("1")]
        ['insert', 'insert', 'insert']
        """
        from omnigraph.history.diff import Diff

        wanted, branch = make_change_filter(kinds, types, ops), self._choose(branch)
        sides = [make_state(self.at(revision, branch=branch).view) for revision in (before, after)]
        self._require_visible(types, branch)
        return Diff(*sides, images=images, wanted=wanted)

    def baseline(
        self,
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        branch: str | None = None,
    ) -> Baseline:
        """Return a copy of a branch from which to follow its feed; `ops` only bind the cursor.

        >>> baseline = graph.baseline(types=["Knows"])
        >>> next(baseline.records())
        {'edge': 'Knows', 'from': 'Ada', 'to': 'Ben', 'data': {'id': 'k1'}}
        """
        branch = self._choose(branch)
        views = self._restrict_views(branch, Action.EXPORT)
        self._require_visible(types, branch, Action.EXPORT)
        return read_baseline(views, branch, make_change_filter(kinds, types, ops))

    def entity_history(
        self, type_name: str, entity_id: str, *, kind: str | None = None, branch: str | None = None
    ) -> EntityHistory:
        """Return every version of an entity on a branch, newest first.

        >>> _ = graph.mutate('query q() { update Person set { age: 37 } where name = "Ada" }')
        >>> history = graph.entity_history("Person", "Ada")
        >>> [(one.op, one.image.properties["age"]) for one in history.versions]
        [('update', 37), ('insert', 36)]
        """
        branch = self._choose(branch)
        views = self._restrict_views(branch)
        self._require_visible([type_name], branch)
        return read_entity(views, branch, type_name, entity_id, kind)

    def set_consumer(
        self,
        name: str,
        position: str | Commit | None = None,
        *,
        lasts: datetime.timedelta = datetime.timedelta(days=7),
        branch: str | None = None,
    ) -> Consumer:
        """Record how far a consumer has read the feed, so that cleanup retains the rest for it.

        Args:
            name: The name of the consumer; an earlier record of that name is replaced.
            position: The cursor or the commit id up to which it has read; the head by default.
            lasts: How long the unread changes are retained.
            branch: The branch whose feed it reads.

        >>> graph.set_consumer("search-index").commit_id == graph.commits()[0].commit_id
        True
        """
        self._open.require_writable()
        seconds = lasts.total_seconds()
        branch = self._choose(branch)
        self._guard.allow(Action.CHANGE, branch=branch)
        read_to = position.commit_id if isinstance(position, Commit) else position
        return note_consumer(self._open.views, name, branch, read_to, seconds)


Selector = Iterable[str]


def make_change_filter(kinds: Selector, types: Selector, ops: Selector) -> ChangeFilter:
    from omnigraph.history.entity_changes import ChangeFilter

    return ChangeFilter(frozenset(kinds), frozenset(types), frozenset(ops))


@dataclass(frozen=True)
class BranchHistory:
    """The commits reachable from a branch, and their states: the source of a change feed."""

    views: BranchSnapshots
    ref: BranchRef
    head: CommitId
    commits: Mapping[CommitId, CommitRecord]
    binding: TokenBinding
    find_keys: FindKeys
    _states: Cache[CommitId, State] = field(default_factory=lambda: Cache(2), repr=False)

    def state(self, commit: CommitRecord) -> State:
        """Return the state of the graph at a commit, which must be the head of that state."""
        return self._states.value(
            commit.commit_id, lambda: make_state(self.views.of_commit(commit))
        )

    def require_alive(self) -> None:
        """Raise if the branch was deleted or created again during the read."""
        found = find_ref(self.views.root.store, self.ref.name)
        if found is None:
            raise BranchNotFound(self.ref.name)
        if found.incarnation != self.ref.incarnation:
            member = f"branch_identifier:{self.ref.name}"
            raise ReadSetChanged(member, self.ref.incarnation, found.incarnation)

    @cached_property
    def newest(self) -> State:
        return self.state(self.commits[self.head])


def make_state(view: CatalogSnapshot) -> State:
    from omnigraph.history.entity_changes import State

    return State(view.snapshot, view.catalog)


def open_history(
    views: BranchSnapshots,
    branch: str,
    wanted: ChangeFilter,
    find_keys: FindKeys = find_changed_keys,
) -> BranchHistory:
    """Return the current history of a branch; tokens are bound to its incarnation."""
    from omnigraph.history.change_feed import TokenBinding

    view = views.read_newest(branch)
    snapshot, head = view.snapshot, view.snapshot.head
    commits = views.commits_at(snapshot)
    assert head is not None, "a graph is created with a commit"
    genesis = min(commits.values(), key=lambda commit: commit.order).commit_id
    domain, incarnation = view.catalog.identity_domain, snapshot.ref.incarnation
    binding = TokenBinding.of(domain, genesis, incarnation, wanted.digest)
    wanted.check_types(view.catalog)
    return BranchHistory(views, snapshot.ref, head, commits, binding, find_keys)


_TOKEN_START = "eyJ"
"""Prefix of every encoded token: `{"` in base64."""


def find_position(history: BranchHistory, text: str) -> CommitId:
    """Resolve a position of the feed to the newest commit before it.

    It is `now`, `beginning`, a cursor of a feed of the branch, or a revision that names a commit.
    """
    from omnigraph.history.change_feed import (
        AFTER,
        BEGINNING,
        NOW,
        FeedTokenKind,
        decode_token,
        find_first_commit,
    )

    wanted = text.strip()
    if wanted == NOW:
        return history.head
    if wanted == BEGINNING:
        return find_first_commit(history)
    wanted = wanted.removeprefix(AFTER).strip()
    if wanted.startswith(_TOKEN_START):
        token = decode_token(wanted, history.binding, FeedTokenKind.FEED_CURSOR, any_filter=True)
        return CommitId(token.commit)
    return find_commit(history.views, wanted, history.ref.name).commit_id


def read_commit(
    views: BranchSnapshots,
    commit: CommitRecord,
    wanted: ChangeFilter,
    limits: PageLimits,
    page_token: str | None,
    keys: RecentKeys,
) -> CommitChanges:
    """Return a page of the changes of one commit of any branch."""
    from omnigraph.history.change_feed import commit_changes

    ref = views.authoring_ref(commit)
    history = open_history(views, ref.name, wanted, keys.find)
    page = commit_changes(history, commit, wanted, limits, page_token)
    history.require_alive()
    return page


def read_feed(
    views: BranchSnapshots,
    branch: str,
    position: str,
    wanted: ChangeFilter,
    limits: PageLimits,
    keys: RecentKeys,
) -> FeedPage:
    from omnigraph.history.change_feed import poll

    history = open_history(views, branch, wanted, keys.find)
    page = poll(history, position, wanted, limits)
    history.require_alive()
    return page


def read_baseline(views: BranchSnapshots, branch: str, wanted: ChangeFilter) -> Baseline:
    from omnigraph.history.change_feed import Baseline

    history = open_history(views, branch, wanted)
    return Baseline(history, history.newest, wanted)


def read_entity(
    views: BranchSnapshots, branch: str, type_name: str, id: str, kind: str | None
) -> EntityHistory:
    """Return every version of an entity; empty if it never existed."""
    from omnigraph.history.entity_changes import ChangeFilter
    from omnigraph.history.entity_history import read_entity_history

    history = open_history(views, branch, ChangeFilter())
    found = read_entity_history(history, _find_type(history, type_name, kind), id)
    history.require_alive()
    return found


def _find_type(history: BranchHistory, name: str, kind: str | None) -> NodeType | EdgeType:
    catalog = history.newest.catalog
    found: list[NodeType | EdgeType] = []
    if kind in (None, "node") and name in catalog.nodes:
        found.append(catalog.nodes[name])
    edge = catalog.find_edge(name)
    if kind in (None, "edge") and edge is not None:
        found.append(edge)
    if not found:
        raise TypeNotFound(name, f"the schema has no type '{name}'")
    if len(found) > 1:
        raise BadRequest(f"'{name}' is a node type and an edge type; say which kind is meant")
    return found[0]


def note_consumer(
    views: BranchSnapshots, name: str, branch: str, position: str | None, lasts_s: float
) -> Consumer:
    """Record how far a consumer has read: up to a cursor, a commit id, or the head."""
    from omnigraph.history.change_feed import FeedTokenKind, decode_token, walk_commits
    from omnigraph.history.entity_changes import ChangeFilter

    history = open_history(views, branch, ChangeFilter())
    if lasts_s <= 0:
        raise BadRequest(f"the expiry of a consumer must be positive, not {lasts_s:g} s")
    commit_id = history.head
    if position is not None:
        wanted = CommitId(position.strip())
        if wanted in history.commits:
            commit_id = wanted
        else:
            token = decode_token(
                wanted, history.binding, FeedTokenKind.FEED_CURSOR, any_filter=True
            )
            commit_id = CommitId(token.commit)
    # What the feed does not come to keeps nothing.
    unread = walk_commits(history, commit_id, history.head)
    commit, lasts_us = history.commits[commit_id], int(lasts_s * 1_000_000)
    return set_consumer(views.root, name, history.ref, commit, lasts_us, unread).shown
