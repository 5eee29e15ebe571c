"""The history of a branch for the feed, for single commits and for single entities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from omnigraph.cache import Cache
from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import BadRequest, BranchNotFound, ReadSetChanged, TypeNotFound
from omnigraph.graph.branch_snapshots import BranchSnapshots, CatalogSnapshot
from omnigraph.graph.revisions import find_commit
from omnigraph.history.change_feed import (
    AFTER,
    BEGINNING,
    NOW,
    Baseline,
    CommitChanges,
    FeedPage,
    FeedTokenKind,
    PageLimits,
    TokenBinding,
    commit_changes,
    decode_token,
    find_first_commit,
    poll,
    walk_commits,
)
from omnigraph.history.entity_changes import ChangeFilter, FindKeys, State
from omnigraph.history.entity_history import EntityHistory, read_entity_history
from omnigraph.identity import CommitId
from omnigraph.storage.consumers import Consumer, set_consumer
from omnigraph.storage.manifest import Commit
from omnigraph.storage.refs import BranchRef, find_ref
from omnigraph.storage.tables import ChangedKeys, Table, find_changed_keys

Selector = Iterable[str]


def make_change_filter(kinds: Selector, types: Selector, ops: Selector) -> ChangeFilter:
    return ChangeFilter(frozenset(kinds), frozenset(types), frozenset(ops))


class RecentKeys:
    """Remembers the ids that two versions do not share: the pages of a large commit ask again."""

    def __init__(self) -> None:
        self._last: tuple[object, ChangedKeys] | None = None

    def find(self, before: Table | None, after: Table | None) -> ChangedKeys:
        asked = tuple(None if t is None else (t.location, t.version) for t in (before, after))
        last = self._last
        if last is None or last[0] != asked:
            last = (asked, find_changed_keys(before, after))
            self._last = last
        return last[1]


@dataclass(frozen=True)
class BranchHistory:
    """What the feed reads: the commits a branch can see now, and the states they left."""

    views: BranchSnapshots
    ref: BranchRef
    head: CommitId
    commits: Mapping[CommitId, Commit]
    binding: TokenBinding
    find_keys: FindKeys
    _states: Cache[CommitId, State] = field(default_factory=lambda: Cache(2), repr=False)

    def state(self, commit: Commit) -> State:
        """The graph right after a commit, which must be the head that its state names."""
        return self._states.value(
            commit.commit_id, lambda: make_state(self.views.of_commit(commit))
        )

    def require_alive(self) -> None:
        """Raise if the branch was deleted or made again while it was read."""
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
    return State(view.snapshot, view.catalog)


def open_history(
    views: BranchSnapshots,
    branch: str,
    wanted: ChangeFilter,
    find_keys: FindKeys = find_changed_keys,
) -> BranchHistory:
    """The history of a branch as it is now; tokens are bound to that very branch."""
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
"""How the text of every token begins: with `{"`, in its encoding."""


def find_position(history: BranchHistory, text: str) -> CommitId:
    """The commit up to which a reader has read that starts after what a text names.

    It may be `now`, `beginning`, a cursor of a feed of the branch, or whatever names a commit.
    """
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
    commit: Commit,
    wanted: ChangeFilter,
    limits: PageLimits,
    page_token: str | None,
    keys: RecentKeys,
) -> CommitChanges:
    """A page of what one commit changed, wherever it was made."""
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
    history = open_history(views, branch, wanted, keys.find)
    page = poll(history, position, wanted, limits)
    history.require_alive()
    return page


def read_baseline(views: BranchSnapshots, branch: str, wanted: ChangeFilter) -> Baseline:
    history = open_history(views, branch, wanted)
    return Baseline(history, history.newest, wanted)


def read_entity(
    views: BranchSnapshots, branch: str, type_name: str, id: str, kind: str | None
) -> EntityHistory:
    """Every value an entity had; none, if it never was."""
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
    """Note how far a consumer has read: up to a cursor, a commit id, or now."""
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
    return set_consumer(views.root, name, history.ref, commit, lasts_us, unread)
