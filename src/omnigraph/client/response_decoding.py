"""Decode the bodies a server answers with into the results of a graph.

Each function is the inverse of the `wire()` of its result. Members that a body lacks have their
default: the incarnation of a branch, the digest of a keyed write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from omnigraph.evolution.apply_result import (
    AppliedMutation,
    ChangedTable,
    SchemaApplyResult,
)
from omnigraph.evolution.migration_plan import MigrationNote
from omnigraph.evolution.migration_steps import Step
from omnigraph.graph.idempotency import RecordedWrite
from omnigraph.graph.merging import MergeResult
from omnigraph.graph.results import (
    Commit,
    Consumer,
    CreatedBranch,
    LoadResult,
    MutationResult,
    RowCounts,
    SkippedRows,
    SnapshotInfo,
    TableInfo,
    Tag,
)
from omnigraph.graph.undo import ApplyOutcome, ApplyResult
from omnigraph.history.ancestry import MergeOutcome
from omnigraph.history.change_feed import CommitBlock, CommitChanges, FeedPage
from omnigraph.history.entity_changes import Endpoints, EntityChange, Image, Op
from omnigraph.history.entity_history import EntityHistory, EntityVersion
from omnigraph.history.merge import TableCounts
from omnigraph.identity import BranchName, CommitId, EntityKind, TableKey
from omnigraph.typed_reading import convert_into
from omnigraph.wire import response_bodies as bodies
from omnigraph.wire.error_bodies import join_type_key, read_conflict, read_problem

T = TypeVar("T")
Body = Mapping[str, Any]


def read_commit(body: bodies.CommitOutput) -> Commit:
    return Commit(
        commit_id=CommitId(body.graph_commit_id),
        branch=body.graph_branch or "",
        manifest_version=body.graph_manifest_version,
        parent_commit_id=_as_commit_id(body.parent_commit_id),
        merged_parent_commit_id=_as_commit_id(body.merged_parent_commit_id),
        actor_id=body.actor_id,
        created_at=body.created_at,
        origin=None if body.origin is UNSET else body.origin,
        details={} if body.details is UNSET else body.details,
        kind=_or_none(body.kind),
        tables=() if body.tables is UNSET else tuple(_read_counts(one) for one in body.tables),
    )


def _read_counts(body: bodies.RowCountsOutput) -> RowCounts:
    return RowCounts(body.table_key, body.inserted, body.updated, body.deleted)


def _read_made(body: bodies.CommitOutput | None) -> Commit | None:
    return None if body is None else read_commit(body)


def _as_commit_id(text: str | None) -> CommitId | None:
    return None if text is None else CommitId(text)


def read_mutation(body: bodies.ChangeOutput, *, is_replayed: bool) -> MutationResult:
    return MutationResult(
        branch=body.branch,
        query_name=body.query_name,
        affected_nodes=body.affected_nodes,
        affected_edges=body.affected_edges,
        actor_id=body.actor_id,
        commit=_read_made(body.commit),
        is_replayed=is_replayed,
    )


def read_load(body: bodies.GraphBatchLoadOutput, *, is_replayed: bool) -> LoadResult:
    return LoadResult(
        branch=body.branch,
        base_branch=body.base_branch,
        branch_created=body.branch_created,
        mode=body.mode,
        engine=body.engine,
        engine_reason=_or_none(body.engine_reason),
        nodes={one.name: one.entities_loaded for one in body.nodes},
        edges={one.name: one.entities_loaded for one in body.edges},
        actor_id=body.actor_id,
        commit=_read_made(body.commit),
        spark_app_id=_or_none(body.spark_app_id),
        stages=() if body.stages is UNSET else tuple(body.stages),
        rows=_or_none(body.rows),
        bytes=_or_none(body.bytes),
        seconds=_or_none(body.seconds),
        skipped=_read_skipped(body.skipped),
        is_replayed=is_replayed,
    )


def _or_none(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


def _read_skipped(body: Body | UnsetType) -> SkippedRows:
    if isinstance(body, UnsetType):
        return SkippedRows()
    return SkippedRows(body["total"], tuple(read_problem(one) for one in body["rows"]))


def read_snapshot(body: bodies.SnapshotOutput) -> SnapshotInfo:
    tables = tuple(
        TableInfo(
            one.table_key,
            one.table_path,
            one.manifest_version,
            one.table_branch,
            one.entity_count,
        )
        for one in body.tables
    )
    return SnapshotInfo(
        graph_branch=body.graph_branch,
        snapshot_id=body.snapshot_id,
        graph_commit_id=body.graph_commit_id,
        graph_manifest_version=body.graph_manifest_version,
        internal_schema_version=body.internal_schema_version,
        tables=tables,
    )


def read_created_branch(body: bodies.BranchCreateOutput, *, is_replayed: bool) -> CreatedBranch:
    parent = None if body.source is None else BranchName(body.source)
    return CreatedBranch(
        BranchName(body.name), "", parent, actor_id=body.actor_id, is_replayed=is_replayed
    )


def read_apply(body: bodies.ApplyCommitOutput, *, is_replayed: bool) -> ApplyResult:
    return ApplyResult(
        branch=body.branch,
        outcome=ApplyOutcome(body.outcome),
        applied_commit_id=body.applied_commit_id,
        tables=read_table_counts(body.tables),
        conflicts=tuple(read_conflict(one) for one in body.conflicts),
        resolved=body.resolved,
        actor_id=body.actor_id,
        dry_run=body.dry_run,
        commit=_read_made(body.commit),
        is_replayed=is_replayed,
    )


def read_tag(body: bodies.TagOutput) -> Tag:
    """A tag; where its commit is stored is known to the server only."""
    return Tag(
        name=body.name,
        commit_id=CommitId(body.graph_commit_id),
        branch=body.graph_branch,
        incarnation=None,
        manifest_version=0,
        created_at=body.created_at,
        actor_id=body.actor_id,
    )


def read_consumer(body: bodies.ConsumerOutput) -> Consumer:
    return Consumer(
        name=body.name,
        branch=body.graph_branch,
        incarnation=None,
        commit_id=CommitId(body.graph_commit_id),
        expires_at=body.expires_at,
        updated_at=body.updated_at,
    )


def read_entity_history(body: bodies.EntityHistoryOutput) -> EntityHistory:
    versions = tuple(
        EntityVersion(_read_cause(one.cause), one.op, _read_image(one.image))
        for one in body.versions
    )
    return EntityHistory(EntityKind(body.kind), body.type_name, body.id, versions, body.complete)


def read_merge(body: bodies.BranchMergeOutput, *, is_replayed: bool) -> MergeResult:
    deleted, error = body.branch_deleted, body.branch_delete_error
    return MergeResult(
        source=body.source,
        target=body.target,
        outcome=MergeOutcome(body.outcome),
        base_commit_ids=tuple(body.base_commit_ids),
        tables=read_table_counts(body.tables),
        conflicts=tuple(read_conflict(one) for one in body.conflicts),
        resolved=body.resolved,
        actor_id=body.actor_id,
        dry_run=body.dry_run,
        engine=body.engine,
        commit=_read_made(body.commit),
        branch_deleted=None if deleted is UNSET else deleted,
        branch_delete_error=None if error is UNSET else error,
        is_replayed=is_replayed,
    )


def read_table_counts(tables: Iterable[Body]) -> tuple[TableCounts, ...]:
    return tuple(
        TableCounts(
            TableKey(join_type_key(one)),
            one["inserted"],
            one["updated"],
            one["deleted"],
            one["conflicts"],
        )
        for one in tables
    )


def read_schema_apply(body: bodies.SchemaApplyOutput, *, is_replayed: bool) -> SchemaApplyResult:
    return SchemaApplyResult(
        supported=body.supported,
        step_count=body.step_count,
        steps=convert_into(body.steps, tuple[Step, ...]),
        notes=convert_into(_or_none(body.notes) or (), tuple[MigrationNote, ...]),
        mutations=convert_into(
            msgspec.to_builtins(_or_none(body.mutations) or ()), tuple[AppliedMutation, ...]
        ),
        branch=body.branch,
        applied=body.applied,
        dry_run=body.dry_run,
        manifest_version=body.graph_manifest_version,
        tables=convert_into(body.tables, tuple[ChangedTable, ...]),
        actor_id=body.actor_id,
        commit=_read_made(body.commit),
        is_replayed=is_replayed,
    )


def read_recorded_write(body: bodies.WriteOutput) -> RecordedWrite:
    return RecordedWrite(body.key, body.operation, "", body.answer, _read_made(body.commit))


# --- changes ------------------------------------------------------------------------------------


def read_feed_page(body: bodies.ChangeFeedOutput) -> FeedPage:
    blocks = tuple(CommitBlock(_read_cause(one.cause), _read_changes(one)) for one in body.blocks)
    token, cursor, caught_up = body.next_page_token, body.cursor, body.caught_up
    return FeedPage(
        blocks,
        next_page_token=None if token is UNSET else token,
        cursor=None if cursor is UNSET else cursor,
        caught_up=None if caught_up is UNSET else caught_up,
    )


def read_commit_changes(body: bodies.CommitChangesOutput) -> CommitChanges:
    token = body.next_page_token
    return CommitChanges(
        _read_cause(body.cause), _read_changes(body), None if token is UNSET else token
    )


def _read_cause(body: bodies.ChangeCause) -> Commit:
    """The commit of a block; what was said about it is not told there."""
    parent, merged, actor = body.parent_commit_id, body.merged_parent_commit_id, body.actor_id
    return Commit(
        commit_id=CommitId(body.graph_commit_id),
        branch=body.authored_branch,
        manifest_version=body.graph_manifest_version,
        parent_commit_id=None if parent is UNSET else _as_commit_id(parent),
        merged_parent_commit_id=None if merged is UNSET else _as_commit_id(merged),
        actor_id=None if actor is UNSET else actor,
        created_at=body.authored_at,
    )


def _read_changes(block: bodies.ChangeBlock) -> tuple[EntityChange, ...]:
    return tuple(read_change(one) for one in block.changes)


def read_change(body: Body) -> EntityChange:
    return EntityChange(
        kind=EntityKind(body["kind"]),
        type_name=body["type"]["name"],
        type_id=body["type"]["id"],
        id=body["id"],
        op=Op(body["op"]),
        before=_read_image(body.get("before")),
        after=_read_image(body.get("after")),
        endpoints=_read_endpoints(body.get("endpoints")),
    )


def _read_image(body: Body | None) -> Image | None:
    if body is None:
        return None
    return Image(body["properties"], _read_endpoints(body.get("endpoints")))


def _read_endpoints(body: Body | None) -> Endpoints | None:
    return None if body is None else Endpoints(body["from"], body["to"])
