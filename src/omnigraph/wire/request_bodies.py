"""Request bodies. A member that is not declared is refused, never ignored."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class RequestBody(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Base of request bodies. Defaults are not sent: an older server may not know the member."""


class QueryRequest(RequestBody, frozen=True, kw_only=True):
    """A read query, run on the head of a branch or on a snapshot."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None


class MutateRequest(RequestBody, frozen=True, kw_only=True):
    """A mutation, run as one commit."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    message: str | None = None


class InvokeQueryRequest(RequestBody, frozen=True, kw_only=True):
    """The arguments of a stored query; the whole body is optional."""

    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None
    expect_mutation: bool | None = None
    message: str | None = None


class ExplainRequest(RequestBody, frozen=True, kw_only=True):
    """A query to explain; with `analyze` it is run as well."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None
    analyze: bool = False


class LintRequest(RequestBody, frozen=True, kw_only=True):
    """Queries to check without running any; `name` is used in messages."""

    queries: str
    name: str = "<query>"
    branch: str | None = None
    snapshot: str | None = None


class BranchCreateRequest(RequestBody, frozen=True, kw_only=True, rename={"source": "from"}):
    """A branch to create from the head of another one, or from a commit."""

    name: str
    source: str | None = None
    commit: str | None = None


class BranchRenameRequest(RequestBody, frozen=True, kw_only=True):
    """A branch and its new name."""

    name: str
    new_name: str


class BranchMergeRequest(RequestBody, frozen=True, kw_only=True, rename={"into": "target"}):
    """A branch to merge into another one."""

    source: str
    into: str | None = None
    delete_branch: bool = False
    dry_run: bool = False
    resolve: str | list[str] | dict[str, str] | None = None
    decisions: list[dict[str, Any]] | None = None
    granularity: Literal["property", "entity"] = "property"
    expected_head: str | None = None
    message: str | None = None


class ApplyCommitRequest(RequestBody, frozen=True, kw_only=True):
    """A commit to revert or cherry-pick: an id, a prefix of one, a tag, or another revision."""

    commit: str
    branch: str | None = None
    parent: int | None = None
    dry_run: bool = False
    resolve: str | list[str] | dict[str, str] | None = None
    decisions: list[dict[str, Any]] | None = None
    granularity: Literal["property", "entity"] = "property"
    expected_head: str | None = None
    message: str | None = None


class RestoreRequest(RequestBody, frozen=True, kw_only=True):
    """The revision to restore a branch to."""

    revision: str
    branch: str | None = None
    dry_run: bool = False
    expected_head: str | None = None
    message: str | None = None


class TagCreateRequest(RequestBody, frozen=True, kw_only=True):
    """A tag for the commit at a revision, or for the head of a branch."""

    name: str
    at: str | None = None
    branch: str | None = None


class ConsumerSetRequest(RequestBody, frozen=True, kw_only=True):
    """The position of a consumer, and how long later commits are retained for it."""

    position: str | None = None
    lasts_seconds: float = 7 * 24 * 3600.0
    branch: str | None = None


class SchemaPlanRequest(RequestBody, frozen=True, kw_only=True):
    """A schema to plan the migration to."""

    schema_source: str
    branch: str | None = None
    allow_data_loss: bool = False
    expressions: dict[str, str] | None = None


class SchemaApplyRequest(RequestBody, frozen=True, kw_only=True):
    """A schema to apply, with backfill expressions and mutations to run first."""

    schema_source: str
    branch: str | None = None
    allow_data_loss: bool = False
    allow_drop_all: bool = False
    expressions: dict[str, str] | None = None
    mutations: list[str] = []
    expected_head: str | None = None
    dry_run: bool = False
    message: str | None = None


def name_mutation(number: int) -> str:
    """Return the source name of a mutation of such a request in diagnostics."""
    return f"mutations[{number}]"


class LoadRequest(RequestBody, frozen=True, kw_only=True, rename={"base": "from"}):
    """Records as JSON lines in one string; `load/ndjson` takes them unwrapped."""

    data: str
    branch: str | None = None
    base: str | None = None
    mode: str | None = None
    partial: bool = False
    match: list[str] = []
    expected_head: str | None = None
    message: str | None = None


class ExportRequest(RequestBody, frozen=True, kw_only=True):
    branch: str | None = None
    snapshot: str | None = None
    type_names: list[str] = []


class ChangeBaselineRequest(RequestBody, frozen=True, kw_only=True):
    branch: str | None = None
    kind: list[str] = []
    type: list[str] = []
    op: list[str] = []
