"""The change feed of a branch: its commits oldest first, each with its changes.

A cursor is an opaque token for a position in the feed. A baseline is a copy of the branch to
start following the feed from.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import (
    BadRequest,
    ChangeCursorRejected,
    ChangeFeedGap,
    ChangeSchemaBoundary,
    CommitHasNoParent,
    HistoricalVersionReclaimed,
    ResourceLimitExceeded,
)
from omnigraph.execution.stored_rows import export_jsonl
from omnigraph.history.entity_changes import (
    ChangeFilter,
    FindKeys,
    State,
    TypePair,
    compare_tables,
    iterate_changes,
    pair_types,
)
from omnigraph.identity import CommitId
from omnigraph.storage.manifest import CommitRecord
from omnigraph.struct_decoding import decode_into
from omnigraph.wire.change_results import (
    BaselineEnd,
    CommitBlock,
    CommitChanges,
    EntityChange,
    FeedPage,
)

MAX_TOKEN_CHARS = 4_096
MAX_ID_CHARS = 256
"""Longer ids are stored as a prefix and a hash."""
_PREFIX_BYTES = 64
_VERSION = 1
_CHECKSUM_BYTES = 32


class FeedTokenKind(StrEnum):
    COMMIT_PAGE = "commit-page"
    FEED_CURSOR = "feed-cursor"
    FEED_PAGE = "feed-page"


@dataclass(frozen=True, slots=True)
class TokenBinding:
    """The scope of tokens: a graph, one incarnation of a branch, and a filter."""

    graph: str
    branch: str
    wanted: str

    @classmethod
    def of(cls, domain: str, genesis: str, incarnation: str | None, wanted: str) -> TokenBinding:
        return cls(_hash(f"{domain}\x1f{genesis}"), _hash(incarnation or "main"), wanted)


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last change returned: its type and its id."""

    type_id: str
    id: str = ""
    """The id, or the prefix of a long one."""
    hash: str = ""
    """The hash of a long id."""

    @classmethod
    def at(cls, type_id: str, id: str) -> Position:
        data = id.encode()
        if len(data) <= MAX_ID_CHARS:
            return cls(type_id, id)
        # Cut between two characters.
        prefix = data[:_PREFIX_BYTES].decode(errors="ignore")
        return cls(type_id, prefix, hashlib.sha256(data).hexdigest())

    def count_given(self, ids: pa.Array) -> int:
        """Count how many of these ascending ids were returned before."""
        if not self.hash:
            return int(pc.sum(pc.less_equal(ids, self.id)).as_py() or 0)
        alike = pc.indices_nonzero(pc.starts_with(ids, self.id)).to_pylist()
        for at in alike:
            if hashlib.sha256(ids[at].as_py().encode()).hexdigest() == self.hash:
                return int(at) + 1
        raise ChangeCursorRejected("it names an entity that the commit did not change")


class FeedToken(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a token: a cursor's `commit` has been read, a page token's is being read."""

    kind: str
    version: int
    graph: str
    branch: str
    wanted: str
    commit: str
    cut: str = ""
    """Of a page of a feed: the newest commit that is included."""
    position: Position | None = None


def encode_token(
    kind: FeedTokenKind,
    binding: TokenBinding,
    commit: str,
    *,
    cut: str = "",
    position: Position | None = None,
) -> str:
    token = FeedToken(
        str(kind),
        _VERSION,
        binding.graph,
        binding.branch,
        binding.wanted,
        commit,
        cut,
        position,
    )
    data = msgspec.json.encode(token)
    text = base64.urlsafe_b64encode(data + hashlib.sha256(data).digest()).rstrip(b"=").decode()
    assert len(text) <= MAX_TOKEN_CHARS, "ids are cut, and everything else is short"
    return text


def decode_token(
    text: str, binding: TokenBinding, *kinds: FeedTokenKind, any_filter: bool = False
) -> FeedToken:
    """Decode and verify a token.

    Raises:
        ChangeCursorRejected: it is damaged, of another kind, or bound to something else.
    """
    token = _read(text)
    if token.version != _VERSION:
        raise ChangeCursorRejected(f"it has version {token.version}, not {_VERSION}")
    if token.kind not in kinds:
        raise ChangeCursorRejected(f"it is a {token.kind}, where a {' or '.join(kinds)} is needed")
    if token.graph != binding.graph:
        raise ChangeCursorRejected("it belongs to another graph")
    if token.branch != binding.branch:
        raise ChangeCursorRejected(
            "it belongs to another branch, or to an earlier branch of this name"
        )
    if token.wanted != binding.wanted and not any_filter:
        raise ChangeCursorRejected("it was made for other kinds, types or operations")
    return token


def _read(text: str) -> FeedToken:
    if len(text) > MAX_TOKEN_CHARS:
        raise ChangeCursorRejected(f"it is longer than {MAX_TOKEN_CHARS} characters")
    try:
        raw = text.strip().encode("ascii")
        whole = base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
        data, checksum = whole[:-_CHECKSUM_BYTES], whole[-_CHECKSUM_BYTES:]
        if hashlib.sha256(data).digest() != checksum:
            raise ChangeCursorRejected("it is damaged: its checksum does not match")
        return decode_into(data, FeedToken)
    except (ValueError, msgspec.DecodeError):
        raise ChangeCursorRejected("it is damaged or not a token") from None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


MAX_CHANGES = 8_192
MAX_COMMITS = 512
NOW, BEGINNING, AFTER = "now", "beginning", "after:"
_ROWS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The limits of a page; a change that exceeds them alone is returned alone."""

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
        if self.changes > MAX_CHANGES:
            raise ResourceLimitExceeded("change_page_changes", MAX_CHANGES, self.changes)
        if self.commits > MAX_COMMITS:
            raise ResourceLimitExceeded("change_page_commits", MAX_COMMITS, self.commits)


class Source(Protocol):
    """The history of one branch at the time of the request."""

    @property
    def head(self) -> CommitId: ...

    @property
    def commits(self) -> Mapping[CommitId, CommitRecord]: ...

    @property
    def binding(self) -> TokenBinding: ...

    @property
    def find_keys(self) -> FindKeys: ...

    def state(self, commit: CommitRecord) -> State:
        """Return the state at a commit. Raises `HistoricalVersionReclaimed` if it was removed."""
        ...


# --- one commit -------------------------------------------------------------------------------


def commit_changes(
    source: Source,
    commit: CommitRecord,
    wanted: ChangeFilter,
    limits: PageLimits,
    page_token: str | None = None,
) -> CommitChanges:
    """Return a page of the changes of a commit relative to its first parent.

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
    return CommitChanges.of(commit.shown, tuple(page.taken), rest)


def list_changed_types(
    source: Source, commit: CommitRecord, wanted: ChangeFilter
) -> list[TypePair]:
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
    source: Source, commit: CommitRecord, wanted: ChangeFilter, position: Position | None = None
) -> Iterator[EntityChange]:
    """Yield the changes of a commit after a position, in a deterministic order."""
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
    """A page being filled."""

    limits: PageLimits
    taken: list[EntityChange] = field(default_factory=list)
    count: int = 0
    size: int = 0
    _last: tuple[str, str] = ("", "")

    def fill(self, changes: Iterator[EntityChange]) -> Position | None:
        """Add the changes that fit; return the last one if more would follow."""
        self.taken = []
        for change in changes:
            size = len(msgspec.json.encode(change))
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
"""No change of the commit fits; the page ends before it."""


# --- many -------------------------------------------------------------------------------------


def poll(source: Source, position: str, wanted: ChangeFilter, limits: PageLimits) -> FeedPage:
    """Return the page of the feed that follows a position.

    Args:
        source: The branch.
        position: `now`, `beginning`, `after:` and a commit id, a cursor or a page token.
        wanted: Only these changes; commits without any are included.
        limits: The limits of the page.

    Raises:
        ChangeCursorRejected: the position is damaged or bound to something else.
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
        blocks.append(CommitBlock.of(commit.shown, tuple(page.taken)))
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
    """The commit read last, the position within the next one, and the newest commit included."""

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
    """Return the first commit of the graph."""
    at = source.commits[source.head]
    while at.parent_commit_id is not None:
        at = source.commits[at.parent_commit_id]
    return at.commit_id


def walk_commits(source: Source, read: CommitId, cut: CommitId) -> list[CommitRecord]:
    """Return the first-parent commits after `read` up to the newest included, oldest first.

    Raises:
        BadRequest: `read` is not among them.
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
    """Return the cursor after a commit."""
    return encode_token(FeedTokenKind.FEED_CURSOR, source.binding, commit_id)


class Baseline:
    """Every record of a branch at one commit, and the cursor from which its feed continues.

    The cursor is available once all records were read, so that no partial copy is followed.

    >>> baseline = graph.baseline()
    >>> len(list(baseline.records()))
    3
    >>> graph.changes(baseline.resume_cursor).caught_up
    True
    """

    def __init__(self, source: Source, state: State, wanted: ChangeFilter) -> None:
        wanted.check_types(state.catalog)
        self._source, self._state, self._wanted = source, state, wanted
        self._is_taken = False

    def __repr__(self) -> str:
        return f"Baseline({self.snapshot_commit_id!r})"

    @property
    def snapshot_commit_id(self) -> CommitId:
        return self._source.head

    @property
    def resume_cursor(self) -> str:
        """Return the position from which the feed continues after this copy."""
        if not self._is_taken:
            raise BadRequest(
                "the cursor is available once every record of the baseline has been read"
            )
        return make_cursor_after(self._source, self.snapshot_commit_id)

    def jsonl(self) -> Iterator[bytes]:
        """The records as blocks of JSON lines, as an export writes them."""
        types = [
            type_
            for _, type_ in sorted(self._state.catalog.by_table_key.items())
            if self._wanted.admits(type_)
        ]
        yield from export_jsonl(self._state.snapshot, types)
        self._is_taken = True

    def records(self) -> Iterator[dict[str, object]]:
        """Yield the records as Python objects."""
        for block in self.jsonl():
            for line in block.splitlines():
                yield msgspec.json.decode(line)

    def wire(self) -> dict[str, object]:
        return self.end.wire()

    @property
    def end(self) -> BaselineEnd:
        """The commit and the cursor, available once every record was read."""
        return BaselineEnd(self.snapshot_commit_id, self.resume_cursor)
