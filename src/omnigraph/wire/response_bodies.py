"""The bodies of answers about schemas, which the engine makes with the `wire()` of its results."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from omnigraph.wire.commit_results import Commit


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The base of every body; members that may be left out have no value in the document."""


class AppliedMutationOutput(Answer, frozen=True, kw_only=True):
    """A mutation that was run before the change of the schema, in the same commit."""

    query_name: str
    affected_nodes: int
    affected_edges: int


class SchemaApplyOutput(Answer, frozen=True, kw_only=True):
    """The steps to another schema, and the commit that took them."""

    uri: str
    supported: bool
    step_count: int
    steps: list[dict[str, Any]]
    branch: str
    applied: bool
    dry_run: bool
    graph_manifest_version: int
    tables: list[dict[str, Any]]
    actor_id: str | None
    commit: Commit | None
    notes: list[dict[str, Any]] | UnsetType = UNSET
    mutations: list[AppliedMutationOutput] | UnsetType = UNSET


class SchemaPlanOutput(Answer, frozen=True, kw_only=True):
    """The steps to another schema."""

    supported: bool
    step_count: int
    steps: list[dict[str, Any]]
    notes: list[dict[str, Any]]
