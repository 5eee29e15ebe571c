"""The change feed of a branch: its commits oldest first, each with what it changed.

A page is cut at the head the branch had when it was asked for, and by how many changes, bytes and
commits it may have. It ends inside a commit, with a token for the rest, or between two, with a
cursor. Nothing is kept between two pages, so a reader that repeats one gets the same again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from omnigraph.errors import (
    BadRequest,
    ChangeCursorRejected,
    ChangeFeedGap,
    ChangeSchemaBoundary,
    CommitHasNoParent,
    HistoricalVersionReclaimed,
    ResourceLimitExceeded,
)
from omnigraph.history.entity_changes import (
    ChangeFilter,
    FindKeys,
    State,
    TypePair,
    compare_tables,
    pair_types,
)
from omnigraph.history.feed_tokens import (
    FeedTokenKind,
    Position,
    TokenBinding,
    decode_token,
    encode_token,
)
from omnigraph.history.images import EntityChange, iterate_changes
from omnigraph.identity import CommitId
from omnigraph.storage.manifest import Commit

MOST_CHANGES = 8_192
MOST_COMMITS = 512
NOW, BEGINNING, AFTER = "now", "beginning", "after:"
_ROWS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class PageLimits:
    """How much a page may have; a change that is too large alone is given alone."""

    changes: int = 1_000
    bytes: int = 4 << 20
    commits: int = 128

    def __post_init__(self) -> None:
        for what, given in (
            ("changes", self.changes),
            ("bytes", self.bytes),
            ("commits", self.commits),
        ):
            if given <= 0:
                raise BadRequest(f"the limit of {what} of a page must be at least 1, not {given}")
        if self.changes > MOST_CHANGES:
            raise ResourceLimitExceeded("change_page_changes", MOST_CHANGES, self.changes)
        if self.commits > MOST_COMMITS:
            raise ResourceLimitExceeded("change_page_commits", MOST_COMMITS, self.commits)


class Source(Protocol):
    """The history of one branch, as it was when the page was asked for."""

    @property
    def head(self) -> CommitId: ...

    @property
    def commits(self) -> Mapping[CommitId, Commit]: ...

    @property
    def binding(self) -> TokenBinding: ...

    @property
    def find_keys(self) -> FindKeys: ...

    def state(self, commit: Commit) -> State:
        """The graph right after a commit. Raises `HistoricalVersionReclaimed` if it is gone."""
        ...


@dataclass(frozen=True, slots=True)
class CommitBlock:
    """A commit and what it changed, or a part of that."""

    commit: Commit
    changes: tuple[EntityChange, ...]

    def wire(self) -> dict[str, object]:
        return {
            "cause": describe_cause(self.commit),
            "changes": [one.wire() for one in self.changes],
        }


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Some of the feed: with a page token its last commit goes on, with a cursor it is whole."""

    blocks: tuple[CommitBlock, ...]
    next_page_token: str | None = None
    cursor: str | None = None
    caught_up: bool | None = None

    @property
    def position(self) -> str:
        """Where the next page starts."""
        position = self.next_page_token or self.cursor
        assert position is not None, "a page ends with one of the two"
        return position

    def wire(self) -> dict[str, object]:
        body: dict[str, object] = {"blocks": [block.wire() for block in self.blocks]}
        if self.next_page_token is not None:
            return body | {"next_page_token": self.next_page_token}
        return body | {"cursor": self.cursor, "caught_up": self.caught_up}


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """What one commit changed against its first parent, or a part of that."""

    commit: Commit
    changes: tuple[EntityChange, ...]
    next_page_token: str | None = None

    def wire(self) -> dict[str, object]:
        body: dict[str, object] = {
            "cause": describe_cause(self.commit),
            "changes": [one.wire() for one in self.changes],
        }
        token = self.next_page_token
        return body if token is None else body | {"next_page_token": token}


def describe_cause(commit: Commit) -> dict[str, object]:
    """A commit as the feed tells of it; what it has not is left out."""
    optional = {
        "parent_commit_id": commit.parent_commit_id,
        "merged_parent_commit_id": commit.merged_parent_commit_id,
        "actor_id": commit.actor_id,
    }
    return {
        "graph_commit_id": commit.commit_id,
        **{name: value for name, value in optional.items() if value is not None},
        "graph_manifest_version": commit.manifest_version,
        "authored_branch": commit.branch,
        "authored_at": commit.created_at,
    }


# --- one commit -------------------------------------------------------------------------------


def commit_changes(
    source: Source,
    commit: Commit,
    wanted: ChangeFilter,
    limits: PageLimits,
    page_token: str | None = None,
) -> CommitChanges:
    """A page of what a commit changed against its first parent.

    Raises:
        CommitHasNoParent: it is the first one.
        ChangeSchemaBoundary: it changed the columns of a type.
        ChangeFeedGap: cleanup has removed it, or its parent.
    """
    position = None
    if page_token is not None:
        token = decode_token(page_token, source.binding, FeedTokenKind.COMMIT_PAGE)
        if token.commit != commit.commit_id:
            raise ChangeCursorRejected("it belongs to another commit")
        position = token.position
    page = _Page(limits)
    try:
        last = page.fill(_iterate_changes(source, commit, wanted, position))
    except HistoricalVersionReclaimed as error:
        raise ChangeFeedGap(None, commit.commit_id) from error
    rest = None
    if last is not None:
        rest = encode_token(
            FeedTokenKind.COMMIT_PAGE, source.binding, commit.commit_id, position=last
        )
    return CommitChanges(commit, tuple(page.taken), rest)


def list_changed_types(source: Source, commit: Commit, wanted: ChangeFilter) -> list[TypePair]:
    """The types of a commit in the fixed order, each with its table before and after it.

    Raises:
        CommitHasNoParent: it is the first one.
        ChangeSchemaBoundary: it changed the columns of a type.
        HistoricalVersionReclaimed: cleanup has removed it, or its parent.
    """
    if commit.parent_commit_id is None:
        raise CommitHasNoParent(commit.commit_id)
    parent = source.commits[commit.parent_commit_id]
    before, after = source.state(parent), source.state(commit)
    return pair_types(before, after, wanted=wanted, tables_may_come=False)


def _iterate_changes(
    source: Source, commit: Commit, wanted: ChangeFilter, position: Position | None = None
) -> Iterator[EntityChange]:
    """What a commit changed, behind a position, in the order that never changes."""
    pairs = list_changed_types(source, commit, wanted)
    at = 0
    if position is not None:
        ids = [pair.type_id for pair in pairs]
        if position.type_id not in ids:
            raise ChangeCursorRejected("it names a type that the commit does not have")
        at = ids.index(position.type_id)
    for pair in pairs[at:]:
        beyond = None
        if position is not None and pair.type_id == position.type_id:
            beyond = position.count_given
        for batch in compare_tables(
            pair,
            wanted,
            images=True,
            beyond=beyond,
            rows=_ROWS_AT_ONCE,
            find_keys=source.find_keys,
        ):
            yield from iterate_changes(batch)


@dataclass
class _Page:
    """A page that is being filled."""

    limits: PageLimits
    taken: list[EntityChange] = field(default_factory=list)
    count: int = 0
    size: int = 0
    _last: tuple[str, str] = ("", "")

    def fill(self, changes: Iterator[EntityChange]) -> Position | None:
        """Take what fits; gives the last change taken if more would follow."""
        self.taken = []
        for change in changes:
            size = len(msgspec.json.encode(change.wire()))
            is_full = self.count >= self.limits.changes or self.size + size > self.limits.bytes
            if is_full and self.count:
                return Position.at(*self._last) if self.taken else _AT_ITS_START
            self.taken.append(change)
            self._last = (change.type_id, change.id)
            self.count, self.size = self.count + 1, self.size + size
        return None

    @property
    def is_full(self) -> bool:
        return self.count >= self.limits.changes or self.size >= self.limits.bytes


_AT_ITS_START = Position("")
"""Nothing of the commit fits; the page ends before it."""


# --- many -------------------------------------------------------------------------------------


def poll(source: Source, position: str, wanted: ChangeFilter, limits: PageLimits) -> FeedPage:
    """The page of the feed that follows a position.

    Args:
        source: The branch.
        position: `now`, `beginning`, `after:` and a commit id, a cursor or a page token.
        wanted: Only these changes; commits without any are told of all the same.
        limits: How much the page may have.

    Raises:
        ChangeCursorRejected: the position is damaged or belongs elsewhere.
        ChangeFeedGap: cleanup has removed the first commit that follows.
        ChangeSchemaBoundary: the first commit that follows changed the columns of a type.
    """
    start = _start(source, position)
    walk = walk_commits(source, start.read, start.cut)
    page = _Page(limits)
    blocks: list[CommitBlock] = []
    read, within = start.read, start.within
    for commit in walk[: limits.commits]:
        if blocks and page.is_full:
            break
        try:
            rest = page.fill(_iterate_changes(source, commit, wanted, within))
        except (HistoricalVersionReclaimed, ChangeSchemaBoundary) as error:
            if blocks:
                break  # the next page starts with it, and says why it cannot be had
            if isinstance(error, ChangeSchemaBoundary):
                raise
            cursor = encode_token(FeedTokenKind.FEED_CURSOR, source.binding, read) if read else None
            raise ChangeFeedGap(cursor, commit.commit_id) from error
        if rest is _AT_ITS_START:
            break
        blocks.append(CommitBlock(commit, tuple(page.taken)))
        if rest is not None:
            token = encode_token(
                FeedTokenKind.FEED_PAGE,
                source.binding,
                commit.commit_id,
                cut=start.cut,
                position=rest,
            )
            return FeedPage(tuple(blocks), next_page_token=token)
        read, within = commit.commit_id, None
    cursor = encode_token(FeedTokenKind.FEED_CURSOR, source.binding, read)
    return FeedPage(tuple(blocks), cursor=cursor, caught_up=read == source.head)


@dataclass(frozen=True, slots=True)
class _Start:
    """Up to where a reader has read, whether it stands within the next commit, and the cut."""

    read: CommitId
    cut: CommitId
    within: Position | None = None


def _start(source: Source, position: str) -> _Start:
    text = position.strip()
    if text == NOW:
        return _Start(source.head, source.head)
    if text == BEGINNING:
        return _Start(find_first_commit(source), source.head)
    if text.startswith(AFTER):
        return _Start(CommitId(text.removeprefix(AFTER).strip()), source.head)
    token = decode_token(text, source.binding, FeedTokenKind.FEED_CURSOR, FeedTokenKind.FEED_PAGE)
    if token.kind == FeedTokenKind.FEED_CURSOR:
        return _Start(CommitId(token.commit), source.head)
    commit = source.commits.get(CommitId(token.commit))
    if commit is None or commit.parent_commit_id is None:
        raise ChangeCursorRejected("it names a commit that the branch does not have")
    return _Start(commit.parent_commit_id, CommitId(token.cut), token.position)


def find_first_commit(source: Source) -> CommitId:
    """The commit the graph was created with."""
    at = source.commits[source.head]
    while at.parent_commit_id is not None:
        at = source.commits[at.parent_commit_id]
    return at.commit_id


def walk_commits(source: Source, read: CommitId, cut: CommitId) -> list[Commit]:
    """The commits of the first-parent line behind what was read up to the cut, oldest first.

    Raises:
        BadRequest: what was read is not on that line.
    """
    found = []
    at: CommitId | None = cut
    while at is not None and at != read:
        commit = source.commits.get(at)
        if commit is None:
            break
        found.append(commit)
        at = commit.parent_commit_id
    if at != read:
        raise BadRequest(f"commit {read} is not in the history of this branch")
    return found[::-1]


def make_cursor_after(source: Source, commit_id: CommitId) -> str:
    """The cursor of a reader that has read up to a commit."""
    return encode_token(FeedTokenKind.FEED_CURSOR, source.binding, commit_id)
