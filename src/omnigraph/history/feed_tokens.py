"""Tokens of the change feed: where a reader stands, as an opaque text that it hands back.

A token is bound to the graph, to the very branch and to what the reader asked for, and carries a
checksum; one that is damaged or belongs elsewhere is refused.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from enum import StrEnum

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ChangeCursorRejected
from omnigraph.typed_reading import decode_into

LONGEST_TOKEN = 4_096
LONGEST_ID = 256
"""Longer ids are kept by their beginning and their hash."""
_PREFIX_BYTES = 64
_VERSION = 1
_CHECKSUM_BYTES = 32


class FeedTokenKind(StrEnum):
    COMMIT_PAGE = "commit-page"
    FEED_CURSOR = "feed-cursor"
    FEED_PAGE = "feed-page"


@dataclass(frozen=True, slots=True)
class TokenBinding:
    """What tokens belong to: a graph, one incarnation of a branch, and a filter."""

    graph: str
    branch: str
    wanted: str

    @classmethod
    def of(cls, domain: str, genesis: str, incarnation: str | None, wanted: str) -> TokenBinding:
        return cls(_hash(f"{domain}\x1f{genesis}"), _hash(incarnation or "main"), wanted)


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last change that was given: its type, and its id or what tells it."""

    type_id: str
    id: str = ""
    """The id or, of a long one, its beginning."""
    hash: str = ""
    """Of a long id."""

    @classmethod
    def at(cls, type_id: str, id: str) -> Position:
        data = id.encode()
        if len(data) <= LONGEST_ID:
            return cls(type_id, id)
        # Cut between two characters.
        prefix = data[:_PREFIX_BYTES].decode(errors="ignore")
        return cls(type_id, prefix, hashlib.sha256(data).hexdigest())

    def count_given(self, ids: pa.Array) -> int:
        """How many of these ascending ids have been given."""
        if not self.hash:
            return int(pc.sum(pc.less_equal(ids, self.id)).as_py() or 0)
        alike = pc.indices_nonzero(pc.starts_with(ids, self.id)).to_pylist()
        for at in alike:
            if hashlib.sha256(ids[at].as_py().encode()).hexdigest() == self.hash:
                return int(at) + 1
        raise ChangeCursorRejected("it names an entity that the commit did not change")


class FeedToken(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a token says. Of a cursor, `commit` has been read; of a page, it is being read."""

    kind: str
    version: int
    graph: str
    branch: str
    wanted: str
    commit: str
    cut: str = ""
    """Of a page of a feed: the newest commit it will come to."""
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
    assert len(text) <= LONGEST_TOKEN, "ids are cut, and everything else is short"
    return text


def decode_token(
    text: str, binding: TokenBinding, *kinds: FeedTokenKind, any_filter: bool = False
) -> FeedToken:
    """What a token says, if it is whole and belongs here.

    Raises:
        ChangeCursorRejected: it is damaged, of another kind, or made for something else.
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
    if len(text) > LONGEST_TOKEN:
        raise ChangeCursorRejected(f"it is longer than {LONGEST_TOKEN} characters")
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
