"""Commits as every surface shows them, and the names that refer to them: tags and consumers."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import msgspec

from omnigraph.identity import CommitId
from omnigraph.result import Result

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NO_DETAILS: Mapping[str, Any] = {}


class RowCounts(Result, frozen=True, omit_defaults=False):
    """Numbers of rows of a table that a commit inserted, updated and deleted."""

    table_key: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def type_name(self) -> str:
        return self.table_key.partition(":")[2]


class Commit(Result, frozen=True, kw_only=True):
    """One logical change of the graph. `created_at` is microseconds since the Unix epoch."""

    commit_id: CommitId = msgspec.field(name="graph_commit_id")
    branch: str = msgspec.field(name="graph_branch")
    manifest_version: int = msgspec.field(name="graph_manifest_version")
    parent_commit_id: CommitId | None
    merged_parent_commit_id: CommitId | None
    actor_id: str | None
    created_at: int
    kind: str | None = None
    """The kind of the write, such as `load`; None for commits without a recorded kind."""
    tables: tuple[RowCounts, ...] = ()
    """Numbers of changed rows by table, if the kind is recorded."""
    origin: str | None = None
    """The identity of the change for a writer that may repeat it."""
    details: Mapping[str, Any] = _NO_DETAILS
    """Further members recorded by its writer, as JSON values."""

    def __hash__(self) -> int:
        return hash(self.commit_id)

    @property
    def message(self) -> str | None:
        """The message of the commit."""
        said = self.details.get("message")
        return said if isinstance(said, str) else None

    @property
    def time(self) -> datetime.datetime:
        """The time of the commit."""
        return _EPOCH + datetime.timedelta(microseconds=self.created_at)

    @property
    def parents(self) -> tuple[CommitId, ...]:
        """The parent commits; a merge has two."""
        both = (self.parent_commit_id, self.merged_parent_commit_id)
        return tuple(parent for parent in both if parent is not None)

    @property
    def revision(self) -> str:
        """The revision that names it."""
        return self.commit_id


class CommitList(Result, frozen=True, kw_only=True):
    """A page of the commits of a branch, newest first."""

    commits: tuple[Commit, ...]
    next_page_token: str | None = None


class Tag(Result, frozen=True, kw_only=True):
    """A permanent name for a commit. `created_at` is microseconds since the Unix epoch."""

    name: str
    commit_id: CommitId = msgspec.field(name="graph_commit_id")
    branch: str = msgspec.field(name="graph_branch")
    actor_id: str | None
    created_at: int

    @property
    def revision(self) -> str:
        """The revision that names its commit."""
        return self.commit_id


class TagList(Result, frozen=True, kw_only=True):
    """A page of the tags, by name."""

    tags: tuple[Tag, ...]
    next_page_token: str | None = None


class Consumer(Result, frozen=True, kw_only=True):
    """A reader of the feed of a branch: its position, and the time at which it expires.

    `expires_at` and `updated_at` are microseconds since the Unix epoch.
    """

    name: str
    branch: str = msgspec.field(name="graph_branch")
    commit_id: CommitId = msgspec.field(name="graph_commit_id")
    expires_at: int
    updated_at: int

    def is_expired(self, now_us: int) -> bool:
        return now_us >= self.expires_at


class ConsumerList(Result, frozen=True, kw_only=True):
    """A page of the consumers of the change feeds, by name."""

    consumers: tuple[Consumer, ...]
    next_page_token: str | None = None
