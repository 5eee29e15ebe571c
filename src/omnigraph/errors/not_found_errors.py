"""Errors about objects that do not exist: name another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.errors.omni_error import JsonValue, NotFoundError


class BranchNotFound(NotFoundError):
    code = "branch_not_found"

    def __init__(self, branch: str, help: str | None = None) -> None:
        super().__init__(f"branch '{branch}' not found{f'; {help}' if help else ''}")
        self.branch = branch


class CommitNotFound(NotFoundError):
    code = "commit_not_found"

    def __init__(self, commit_id: str) -> None:
        super().__init__(f"commit '{commit_id}' not found")
        self.commit_id = commit_id


class TagNotFound(NotFoundError):
    code = "tag_not_found"

    def __init__(self, tag: str) -> None:
        super().__init__(f"tag '{tag}' not found")
        self.tag = tag


class ConsumerNotFound(NotFoundError):
    code = "consumer_not_found"

    def __init__(self, consumer: str) -> None:
        super().__init__(f"consumer '{consumer}' not found")
        self.consumer = consumer


class QueryNotFound(NotFoundError):
    code = "query_not_found"

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        choice = f"; the file has: {', '.join(known)}" if known else ""
        super().__init__(f"query '{name}' not found{choice}")
        self.name, self.known = name, tuple(known)


class TypeNotFound(NotFoundError):
    """A type that the schema does not declare, or that a snapshot does not have."""

    code = "type_not_found"

    def __init__(self, type_name: str, message: str | None = None) -> None:
        super().__init__(message or f"type '{type_name}' not found")
        self.type_name = type_name


class EntityNotFound(NotFoundError):
    code = "entity_not_found"

    def __init__(self, type_key: str, id: str) -> None:
        super().__init__(f"{type_key} has no entity '{id}'")
        self.type_key, self.id = type_key, id


class BlobIsNull(NotFoundError):
    """An entity whose blob is null; an empty blob is a value."""

    code = "blob_is_null"

    def __init__(self, type_key: str, id: str, property: str) -> None:
        super().__init__(f"{type_key} '{id}' has no {property}")
        self.type_key, self.id, self.property = type_key, id, property


class GraphNotFound(NotFoundError):
    code = "graph_not_found"

    def __init__(self, uri: str) -> None:
        super().__init__(f"no graph at {uri}; create one with `omnigraph init`")
        self.uri = uri


class RouteNotFound(NotFoundError):
    code = "route_not_found"

    def __init__(self, path: str) -> None:
        super().__init__(f"no route matches {path}")
        self.path = path


class WriteNotFound(NotFoundError):
    """No write is recorded under the idempotency key; it may be sent again."""

    code = "write_not_found"

    def __init__(self, key: str) -> None:
        super().__init__(f"nothing was written under the idempotency key '{key}'")
        self.key = key


class HistoricalVersionReclaimed(NotFoundError):
    """A version that `cleanup` removed."""

    code = "version_reclaimed"
    http_status = 410

    def __init__(self, version: int, what: str, commit_id: str | None = None) -> None:
        named = f"version {version} of {what}"
        if commit_id is not None:
            named = f"the state of commit {commit_id} ({named})"
        super().__init__(
            f"{named} was removed by cleanup; read a newer commit, and tag those to be retained"
        )
        self.version, self.what, self.commit_id = version, what, commit_id


class ChangeFeedGap(NotFoundError):
    code = "change_feed_gap"
    http_status = 410

    def __init__(
        self,
        cursor: str | None,
        first_unreadable_commit_id: str,
        advice: str = "start again from a baseline",
    ) -> None:
        super().__init__(
            f"the change feed has a gap: commit {first_unreadable_commit_id} can no longer be "
            f"read; {advice}"
        )
        self.cursor, self.first_unreadable_commit_id = cursor, first_unreadable_commit_id

    def details(self) -> Mapping[str, JsonValue]:
        gap = {"first_unreadable_commit_id": self.first_unreadable_commit_id}
        return {"change_feed_gap": gap | ({"cursor": self.cursor} if self.cursor else {})}
