"""Changes of entities as every surface shows them: the feed, diffs and histories."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

import msgspec

from omnigraph.identity import CommitId, EntityKind
from omnigraph.result import Result
from omnigraph.wire.commit_results import Commit


class Op(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


class Endpoints(Result, frozen=True):
    """The ids of the two nodes of an edge."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")


class Image(Result, frozen=True):
    """An entity at one moment: its properties and, of an edge, its ends."""

    properties: Mapping[str, Any]
    endpoints: Endpoints | None = None


class NamedType(Result, frozen=True):
    """The type of a changed entity; its id stays when the type is renamed."""

    id: str
    name: str


class EntityChange(Result, frozen=True):
    """One entity that was inserted, updated or deleted.

    With images, an insert has `after`, a delete `before` and an update both. Without, an edge
    has its `endpoints`.
    """

    kind: EntityKind
    type: NamedType
    id: str
    op: Op
    before: Image | None = None
    after: Image | None = None
    endpoints: Endpoints | None = None

    @property
    def type_name(self) -> str:
        return self.type.name

    @property
    def type_id(self) -> str:
        return self.type.id


class Cause(Result, frozen=True, kw_only=True):
    """The commit of a change, as the feed identifies it."""

    commit_id: CommitId = msgspec.field(name="graph_commit_id")
    parent_commit_id: CommitId | None = None
    merged_parent_commit_id: CommitId | None = None
    actor_id: str | None = None
    manifest_version: int = msgspec.field(name="graph_manifest_version")
    branch: str = msgspec.field(name="authored_branch")
    created_at: int = msgspec.field(name="authored_at")


class CausedResult(Result, frozen=True, dict=True):
    """A result about one commit."""

    cause: Cause

    @cached_property
    def commit(self) -> Commit:
        """The commit; from a server, with the members of its cause only."""
        return Commit(**msgspec.structs.asdict(self.cause))

    @classmethod
    def of(cls, commit: Commit, *rest: object) -> Self:
        """Return the result of a commit, with all of its members."""
        cause = Cause(**{name: getattr(commit, name) for name in Cause.__struct_fields__})
        made = cls(cause, *rest)
        vars(made)["commit"] = commit
        return made


class CommitBlock(CausedResult, frozen=True):
    """A commit and its changes, or a part of them."""

    changes: tuple[EntityChange, ...]


class CommitChanges(CommitBlock, frozen=True):
    """The changes of one commit against its first parent, or a part of them."""

    next_page_token: str | None = None


class FeedPage(Result, frozen=True):
    """A page of the feed; with a page token its last commit continues on the next page."""

    blocks: tuple[CommitBlock, ...]
    next_page_token: str | None = None
    cursor: str | None = None
    caught_up: bool | None = None

    @property
    def position(self) -> str:
        """The position at which the next page starts."""
        position = self.next_page_token or self.cursor
        assert position is not None, "a page ends with one of the two"
        return position


class BaselineEnd(Result, frozen=True):
    """The commit of a copy of a branch, and the cursor to follow the feed from."""

    snapshot_commit_id: CommitId
    resume_cursor: str


class EntityVersion(CausedResult, frozen=True):
    """The value a commit gave an entity; without an image it was deleted."""

    op: str
    image: Image | None


class EntityHistory(Result, frozen=True):
    """Every version of an entity, newest first.

    `is_complete` says whether all of the history could be read; cleanup removes old commits.
    """

    kind: EntityKind
    type_name: str
    id: str
    versions: tuple[EntityVersion, ...]
    is_complete: bool = msgspec.field(name="complete")


class TypeStats(Result, frozen=True, omit_defaults=False):
    """Numbers of entities of a type that were inserted, updated and deleted."""

    kind: EntityKind
    type_name: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def total(self) -> int:
        return self.inserted + self.updated + self.deleted


class DiffStats(Result, frozen=True):
    """The compared snapshots, and the number of changed entities of each type."""

    before: str = msgspec.field(name="from")
    after: str = msgspec.field(name="to")
    stats: tuple[TypeStats, ...]
