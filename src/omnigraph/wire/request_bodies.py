"""The bodies of requests. A member that is not declared is refused, never ignored."""

from __future__ import annotations

from typing import Any

import msgspec


class RequestBody(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The base of every body. What has its default is not sent: an older server may not know it."""


class QueryRequest(RequestBody, frozen=True, kw_only=True):
    """A read query, run on a branch as it is now or on a snapshot."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None


class ReadRequest(RequestBody, frozen=True, kw_only=True):
    """The body of the old route `read`."""

    query_source: str
    query_name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None


class MutateRequest(RequestBody, frozen=True, kw_only=True):
    """A mutation, made as one commit."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None


class ChangeRequest(RequestBody, frozen=True, kw_only=True):
    """The body of the old route `change`; `query_source` and `query_name` are old names."""

    query: str | None = None
    query_source: str | None = None
    name: str | None = None
    query_name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None


class InvokeQueryRequest(RequestBody, frozen=True, kw_only=True):
    """The arguments of a stored query; the whole body may be left out."""

    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None
    expect_mutation: bool | None = None


class BranchCreateRequest(RequestBody, frozen=True, kw_only=True, rename={"source": "from"}):
    name: str
    source: str | None = None


class BranchMergeRequest(RequestBody, frozen=True, kw_only=True):
    source: str
    target: str | None = None
    delete_branch: bool = False
    dry_run: bool = False
    resolve: str | list[str] | dict[str, str] | None = None
    decisions: list[dict[str, Any]] | None = None
    message: str | None = None


class SchemaApplyRequest(RequestBody, frozen=True, kw_only=True):
    schema_source: str
    allow_data_loss: bool = False
    dry_run: bool = False


class LoadRequest(RequestBody, frozen=True, kw_only=True, rename={"base": "from"}):
    """Records as JSON lines in one string; `load/ndjson` takes them as they are."""

    data: str
    branch: str | None = None
    base: str | None = None
    mode: str | None = None


class ExportRequest(RequestBody, frozen=True, kw_only=True):
    branch: str | None = None
    snapshot: str | None = None
    type_names: list[str] = []


class ChangeBaselineRequest(RequestBody, frozen=True, kw_only=True):
    branch: str | None = None
    kind: list[str] = []
    type: list[str] = []
    op: list[str] = []
