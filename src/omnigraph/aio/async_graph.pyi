"""The signatures of the asynchronous graph; written by `tests/aio/async_stub.py`."""
# ruff: noqa: ANN401 - as the verbs themselves have it

import datetime
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import polars as pl
import pyarrow as pa

from omnigraph.catalog.catalog import Catalog
from omnigraph.evolution.apply_result import SchemaApplyResult
from omnigraph.evolution.migration_plan import MigrationPlan
from omnigraph.execution.load_options import LoadMode
from omnigraph.execution.read import ReadLimits
from omnigraph.graph.blobs import ByteRange
from omnigraph.graph.conversion.load_inputs import Input
from omnigraph.graph.conversion.row_formats import Row
from omnigraph.graph.embedding import GraphEmbedSummary
from omnigraph.graph.engines import (
    EngineName,
    GranularityName,
    LoadEngineName,
    MergeEngineName,
    ModeName,
)
from omnigraph.graph.queries import QueryResult
from omnigraph.graph.results import PendingWrite, PlanText, RecoveredWrite
from omnigraph.graph.revisions import RevisionLike
from omnigraph.history.entity_changes import ChangeBatch
from omnigraph.identity import CommitId
from omnigraph.language.source import SourceText
from omnigraph.maintenance.autopilot import MaintainResult
from omnigraph.maintenance.maintenance_results import (
    CleanupResult,
    OptimizeResult,
    PendingIndex,
    RepairResult,
    VerifyResult,
)
from omnigraph.output_files import OutputFile
from omnigraph.pipeline.bulk_export import ExportResult
from omnigraph.plan.query_lint import LintReport
from omnigraph.policy.decision import Authority
from omnigraph.settings import Settings
from omnigraph.storage.manifest import RecoveryAudit
from omnigraph.wire.change_results import (
    BaselineEnd,
    CommitChanges,
    DiffStats,
    EntityChange,
    EntityHistory,
    FeedPage,
    TypeStats,
)
from omnigraph.wire.commit_results import Commit, Consumer, Tag
from omnigraph.wire.merge_results import ApplyResult, MergeResult
from omnigraph.wire.read_results import BlobStat, SnapshotInfo
from omnigraph.wire.write_results import (
    CreatedBranch,
    DeletedBranch,
    LoadResult,
    MutationResult,
    RecordedWrite,
)
from omnigraph.writer.change import CatalogSnapshot

async def open(
    uri: str | Path,
    *,
    read_only: bool = ...,
    actor: str | None = ...,
    policy: Authority | None = ...,
    settings: Settings | None = ...,
) -> AsyncGraph: ...
async def connect(
    url: str, *, token: str | None = ..., timeout: float | None = ..., ca_file: str | None = ...
) -> AsyncGraph: ...

class AsyncGraph:
    @property
    def actor(self) -> str | None: ...
    async def apply_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = ...,
        allow_data_loss: bool = ...,
        allow_drop_all: bool = ...,
        expressions: Mapping[str, str] | None = ...,
        mutations: Sequence[str | Path | SourceText] = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        dry_run: bool = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        idempotency_key: str | None = ...,
    ) -> SchemaApplyResult: ...
    async def at(
        self,
        revision: RevisionLike | None = ...,
        *,
        commit: RevisionLike | None = ...,
        snapshot: str | None = ...,
        version: int | None = ...,
        branch: str | None = ...,
    ) -> AsyncView: ...
    async def baseline(
        self,
        *,
        kinds: Sequence[str] = ...,
        types: Sequence[str] = ...,
        ops: Sequence[str] = ...,
        branch: str | None = ...,
    ) -> AsyncBaseline: ...
    def branch(self, name: str) -> AsyncBranch: ...
    async def branches(self) -> list[str]: ...
    @property
    def catalog(self) -> Awaitable[Catalog]: ...
    async def changes(
        self,
        position: str | Commit = ...,
        *,
        kinds: Sequence[str] = ...,
        types: Sequence[str] = ...,
        ops: Sequence[str] = ...,
        max_changes: int = ...,
        max_bytes: int = ...,
        max_commits: int = ...,
        branch: str | None = ...,
    ) -> FeedPage: ...
    async def cherry_pick(
        self,
        commit: RevisionLike,
        *,
        branch: str | None = ...,
        parent: int | None = ...,
        dry_run: bool = ...,
        resolve: str | Mapping[str, str] | Sequence[str] | None = ...,
        decisions: str | Path | Sequence[Mapping[str, object]] = ...,
        granularity: GranularityName = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> ApplyResult: ...
    async def cleanup(
        self,
        *,
        keep: int | None = ...,
        older_than: datetime.timedelta | None = ...,
        confirm: bool = ...,
    ) -> CleanupResult: ...
    async def close(self) -> None: ...
    async def commit(self, commit_id: RevisionLike, branch: str | None = ...) -> Commit: ...
    async def commit_changes(
        self,
        commit: RevisionLike,
        *,
        page_token: str | None = ...,
        kinds: Sequence[str] = ...,
        types: Sequence[str] = ...,
        ops: Sequence[str] = ...,
        max_changes: int = ...,
        max_bytes: int = ...,
        branch: str | None = ...,
    ) -> CommitChanges: ...
    async def commits(
        self,
        branch: str | None = ...,
        *,
        limit: int | None = ...,
        before: RevisionLike | None = ...,
        after: RevisionLike | None = ...,
        types: Sequence[str] = ...,
        kinds: Sequence[str] = ...,
    ) -> tuple[Commit, ...]: ...
    async def consumers(self) -> list[Consumer]: ...
    async def create_branch(
        self,
        name: str,
        *,
        source: str | None = ...,
        commit: RevisionLike | None = ...,
        actor: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> CreatedBranch: ...
    async def delete_branch(
        self, name: str, *, idempotency_key: str | None = ...
    ) -> DeletedBranch: ...
    async def delete_consumer(self, name: str) -> Consumer: ...
    async def delete_tag(self, name: str) -> Tag: ...
    async def diff(
        self,
        before: RevisionLike,
        after: RevisionLike | None = ...,
        *,
        images: bool = ...,
        kinds: Sequence[str] = ...,
        types: Sequence[str] = ...,
        ops: Sequence[str] = ...,
        branch: str | None = ...,
    ) -> AsyncDiff: ...
    async def edges(self, type_name: str, *, branch: str | None = ...) -> AsyncTypeRows: ...
    async def embed(
        self,
        types: Sequence[str] = ...,
        *,
        spec: str | Path | Mapping[str, object] | None = ...,
        branch: str | None = ...,
        reembed_all: bool = ...,
        per_minute: float | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
    ) -> GraphEmbedSummary: ...
    async def ensure_indices(
        self,
        *,
        branch: str | None = ...,
        actor: str | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
    ) -> tuple[PendingIndex, ...]: ...
    async def entity_history(
        self, type_name: str, entity_id: str, *, kind: str | None = ..., branch: str | None = ...
    ) -> EntityHistory: ...
    async def explain(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        branch: str | None = ...,
        analyze: bool = ...,
    ) -> PlanText: ...
    def export(
        self, types: Sequence[str] | None = ..., *, branch: str | None = ...
    ) -> AsyncIterator[dict[str, object]]: ...
    async def find_write(
        self, idempotency_key: str, *, branch: str | None = ..., actor: str | None = ...
    ) -> RecordedWrite: ...
    async def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = ...,
        *,
        branch: str | None = ...,
        snapshot: RevisionLike | None = ...,
        expect_mutation: bool | None = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> QueryResult | MutationResult: ...
    async def lint(
        self, queries: str | Path | SourceText, *, branch: str | None = ...
    ) -> LintReport: ...
    async def load(
        self,
        records: Input,
        mode: LoadMode | ModeName,
        *,
        branch: str | None = ...,
        base: str | None = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        engine: LoadEngineName | None = ...,
        format: str | None = ...,
        type: str | None = ...,
        columns: Mapping[str, str] | None = ...,
        select: Sequence[str] = ...,
        match: Sequence[str] = ...,
        partial: bool = ...,
        on_error: str = ...,
        rejects: str | Path | OutputFile | None = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        idempotency_key: str | None = ...,
        delimiter: str | None = ...,
    ) -> LoadResult: ...
    async def maintain(self) -> MaintainResult: ...
    async def merge(
        self,
        source: str,
        into: str | None = ...,
        *,
        dry_run: bool = ...,
        resolve: str | Mapping[str, str] | Sequence[str] | None = ...,
        decisions: str | Path | Sequence[Mapping[str, object]] = ...,
        granularity: GranularityName = ...,
        delete_branch: bool = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        engine: MergeEngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        idempotency_key: str | None = ...,
    ) -> MergeResult: ...
    async def mutate(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        branch: str | None = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> MutationResult: ...
    async def nodes(self, type_name: str, *, branch: str | None = ...) -> AsyncTypeRows: ...
    async def optimize(
        self,
        *,
        branch: str | None = ...,
        actor: str | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
    ) -> OptimizeResult: ...
    async def plan_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = ...,
        allow_data_loss: bool = ...,
        expressions: Mapping[str, str] | None = ...,
    ) -> MigrationPlan: ...
    @property
    def policy(self) -> Authority | None: ...
    async def query(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        branch: str | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        limits: ReadLimits | None = ...,
    ) -> QueryResult: ...
    async def read_blob(
        self,
        type_name: str,
        entity_id: str,
        property: str,
        *,
        kind: str | None = ...,
        branch: str | None = ...,
        start: int | None = ...,
        length: int | None = ...,
    ) -> AsyncBlob: ...
    @property
    def read_only(self) -> bool: ...
    async def recover(self, *, check: bool = ...) -> list[PendingWrite] | list[RecoveredWrite]: ...
    @property
    def recovered_on_open(self) -> list[RecoveredWrite]: ...
    async def recovery_list(self, branch: str | None = ...) -> tuple[RecoveryAudit, ...]: ...
    async def recovery_pending(self) -> list[PendingWrite]: ...
    async def rename_branch(
        self, name: str, new_name: str, *, idempotency_key: str | None = ...
    ) -> CreatedBranch: ...
    async def repair(self, *, confirm: bool = ..., force: bool = ...) -> RepairResult: ...
    async def restore(
        self,
        revision: RevisionLike,
        *,
        branch: str | None = ...,
        dry_run: bool = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> ApplyResult: ...
    async def revert(
        self,
        commit: RevisionLike,
        *,
        branch: str | None = ...,
        parent: int | None = ...,
        dry_run: bool = ...,
        resolve: str | Mapping[str, str] | Sequence[str] | None = ...,
        decisions: str | Path | Sequence[Mapping[str, object]] = ...,
        granularity: GranularityName = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> ApplyResult: ...
    @property
    def schema(self) -> Awaitable[str]: ...
    async def set_consumer(
        self,
        name: str,
        position: str | Commit | None = ...,
        *,
        lasts: datetime.timedelta = ...,
        branch: str | None = ...,
    ) -> Consumer: ...
    @property
    def settings(self) -> Settings: ...
    async def snapshot(self, branch: str | None = ...) -> SnapshotInfo: ...
    async def stored_queries(self) -> list[dict[str, object]]: ...
    async def tag(
        self,
        name: str,
        at: RevisionLike | None = ...,
        *,
        branch: str | None = ...,
        actor: str | None = ...,
    ) -> Tag: ...
    async def tags(self) -> list[Tag]: ...
    @property
    def uri(self) -> str: ...
    async def verify(self, *, deep: bool = ..., history: bool = ...) -> VerifyResult: ...
    def query_batches(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        branch: str | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        limits: ReadLimits | None = ...,
    ) -> AsyncIterator[pa.RecordBatch]: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *failure: object) -> None: ...

class AsyncBranch:
    @property
    def actor(self) -> str | None: ...
    async def apply_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = ...,
        allow_data_loss: bool = ...,
        allow_drop_all: bool = ...,
        expressions: Mapping[str, str] | None = ...,
        mutations: Sequence[str | Path | SourceText] = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        dry_run: bool = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        idempotency_key: str | None = ...,
    ) -> SchemaApplyResult: ...
    async def at(
        self,
        revision: RevisionLike | None = ...,
        *,
        commit: RevisionLike | None = ...,
        snapshot: str | None = ...,
        version: int | None = ...,
        branch: str | None = ...,
    ) -> AsyncView: ...
    async def baseline(
        self,
        *,
        kinds: Sequence[str] = ...,
        types: Sequence[str] = ...,
        ops: Sequence[str] = ...,
        branch: str | None = ...,
    ) -> AsyncBaseline: ...
    @property
    def catalog(self) -> Awaitable[Catalog]: ...
    async def changes(
        self,
        position: str | Commit = ...,
        *,
        kinds: Sequence[str] = ...,
        types: Sequence[str] = ...,
        ops: Sequence[str] = ...,
        max_changes: int = ...,
        max_bytes: int = ...,
        max_commits: int = ...,
        branch: str | None = ...,
    ) -> FeedPage: ...
    async def cherry_pick(
        self,
        commit: RevisionLike,
        *,
        branch: str | None = ...,
        parent: int | None = ...,
        dry_run: bool = ...,
        resolve: str | Mapping[str, str] | Sequence[str] | None = ...,
        decisions: str | Path | Sequence[Mapping[str, object]] = ...,
        granularity: GranularityName = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> ApplyResult: ...
    async def commit(self, commit_id: RevisionLike, branch: str | None = ...) -> Commit: ...
    async def commit_changes(
        self,
        commit: RevisionLike,
        *,
        page_token: str | None = ...,
        kinds: Sequence[str] = ...,
        types: Sequence[str] = ...,
        ops: Sequence[str] = ...,
        max_changes: int = ...,
        max_bytes: int = ...,
        branch: str | None = ...,
    ) -> CommitChanges: ...
    async def commits(
        self,
        branch: str | None = ...,
        *,
        limit: int | None = ...,
        before: RevisionLike | None = ...,
        after: RevisionLike | None = ...,
        types: Sequence[str] = ...,
        kinds: Sequence[str] = ...,
    ) -> tuple[Commit, ...]: ...
    async def create_branch(
        self,
        name: str,
        *,
        source: str | None = ...,
        commit: RevisionLike | None = ...,
        actor: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> CreatedBranch: ...
    async def delete(self) -> DeletedBranch: ...
    async def diff(
        self,
        before: RevisionLike,
        after: RevisionLike | None = ...,
        *,
        images: bool = ...,
        kinds: Sequence[str] = ...,
        types: Sequence[str] = ...,
        ops: Sequence[str] = ...,
        branch: str | None = ...,
    ) -> AsyncDiff: ...
    async def edges(self, type_name: str, *, branch: str | None = ...) -> AsyncTypeRows: ...
    async def embed(
        self,
        types: Sequence[str] = ...,
        *,
        spec: str | Path | Mapping[str, object] | None = ...,
        branch: str | None = ...,
        reembed_all: bool = ...,
        per_minute: float | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
    ) -> GraphEmbedSummary: ...
    async def ensure_indices(
        self,
        *,
        branch: str | None = ...,
        actor: str | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
    ) -> tuple[PendingIndex, ...]: ...
    async def entity_history(
        self, type_name: str, entity_id: str, *, kind: str | None = ..., branch: str | None = ...
    ) -> EntityHistory: ...
    async def explain(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        branch: str | None = ...,
        analyze: bool = ...,
    ) -> PlanText: ...
    def export(
        self, types: Sequence[str] | None = ..., *, branch: str | None = ...
    ) -> AsyncIterator[dict[str, object]]: ...
    async def find_write(
        self, idempotency_key: str, *, branch: str | None = ..., actor: str | None = ...
    ) -> RecordedWrite: ...
    async def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = ...,
        *,
        branch: str | None = ...,
        snapshot: RevisionLike | None = ...,
        expect_mutation: bool | None = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> QueryResult | MutationResult: ...
    async def lint(
        self, queries: str | Path | SourceText, *, branch: str | None = ...
    ) -> LintReport: ...
    async def load(
        self,
        records: Input,
        mode: LoadMode | ModeName,
        *,
        branch: str | None = ...,
        base: str | None = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        engine: LoadEngineName | None = ...,
        format: str | None = ...,
        type: str | None = ...,
        columns: Mapping[str, str] | None = ...,
        select: Sequence[str] = ...,
        match: Sequence[str] = ...,
        partial: bool = ...,
        on_error: str = ...,
        rejects: str | Path | OutputFile | None = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        idempotency_key: str | None = ...,
        delimiter: str | None = ...,
    ) -> LoadResult: ...
    async def merge(
        self,
        source: str,
        into: str | None = ...,
        *,
        dry_run: bool = ...,
        resolve: str | Mapping[str, str] | Sequence[str] | None = ...,
        decisions: str | Path | Sequence[Mapping[str, object]] = ...,
        granularity: GranularityName = ...,
        delete_branch: bool = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        engine: MergeEngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        idempotency_key: str | None = ...,
    ) -> MergeResult: ...
    async def mutate(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        branch: str | None = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> MutationResult: ...
    @property
    def name(self) -> str: ...
    async def nodes(self, type_name: str, *, branch: str | None = ...) -> AsyncTypeRows: ...
    async def optimize(
        self,
        *,
        branch: str | None = ...,
        actor: str | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
    ) -> OptimizeResult: ...
    async def plan_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = ...,
        allow_data_loss: bool = ...,
        expressions: Mapping[str, str] | None = ...,
    ) -> MigrationPlan: ...
    @property
    def policy(self) -> Authority | None: ...
    async def query(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        branch: str | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        limits: ReadLimits | None = ...,
    ) -> QueryResult: ...
    async def read_blob(
        self,
        type_name: str,
        entity_id: str,
        property: str,
        *,
        kind: str | None = ...,
        branch: str | None = ...,
        start: int | None = ...,
        length: int | None = ...,
    ) -> AsyncBlob: ...
    @property
    def read_only(self) -> bool: ...
    async def recovery_list(self, branch: str | None = ...) -> tuple[RecoveryAudit, ...]: ...
    async def rename(self, new_name: str) -> CreatedBranch: ...
    async def restore(
        self,
        revision: RevisionLike,
        *,
        branch: str | None = ...,
        dry_run: bool = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> ApplyResult: ...
    async def revert(
        self,
        commit: RevisionLike,
        *,
        branch: str | None = ...,
        parent: int | None = ...,
        dry_run: bool = ...,
        resolve: str | Mapping[str, str] | Sequence[str] | None = ...,
        decisions: str | Path | Sequence[Mapping[str, object]] = ...,
        granularity: GranularityName = ...,
        expected_head: RevisionLike | None = ...,
        actor: str | None = ...,
        message: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> ApplyResult: ...
    @property
    def revision(self) -> str: ...
    @property
    def schema(self) -> Awaitable[str]: ...
    async def set_consumer(
        self,
        name: str,
        position: str | Commit | None = ...,
        *,
        lasts: datetime.timedelta = ...,
        branch: str | None = ...,
    ) -> Consumer: ...
    @property
    def settings(self) -> Settings: ...
    async def snapshot(self, branch: str | None = ...) -> SnapshotInfo: ...
    async def stored_queries(self) -> list[dict[str, object]]: ...
    async def tag(
        self,
        name: str,
        at: RevisionLike | None = ...,
        *,
        branch: str | None = ...,
        actor: str | None = ...,
    ) -> Tag: ...
    @property
    def uri(self) -> str: ...
    def query_batches(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        branch: str | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        limits: ReadLimits | None = ...,
    ) -> AsyncIterator[pa.RecordBatch]: ...

class AsyncView:
    @property
    def catalog(self) -> Awaitable[Catalog]: ...
    @property
    def commit_id(self) -> str | None: ...
    async def edges(self, type_name: str) -> AsyncTypeRows: ...
    async def explain(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        analyze: bool = ...,
    ) -> PlanText: ...
    async def explain_json(
        self, query: str | Path | SourceText, name: str | None = ...
    ) -> dict[str, object]: ...
    def export(self, types: Sequence[str] | None = ...) -> AsyncIterator[dict[str, object]]: ...
    async def export_files(
        self,
        out: str | Path,
        *,
        format: str = ...,
        types: Sequence[str] | None = ...,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
    ) -> ExportResult: ...
    def export_jsonl(self, types: Sequence[str] | None = ...) -> AsyncIterator[bytes]: ...
    async def info(self) -> SnapshotInfo: ...
    async def lint(self, queries: str | Path | SourceText) -> LintReport: ...
    async def nodes(self, type_name: str) -> AsyncTypeRows: ...
    async def query(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        limits: ReadLimits | None = ...,
    ) -> QueryResult: ...
    async def read_blob(
        self,
        type_name: str,
        entity_id: str,
        property: str,
        *,
        kind: str | None = ...,
        start: int | None = ...,
        length: int | None = ...,
    ) -> AsyncBlob: ...
    @property
    def revision(self) -> str: ...
    @property
    def schema(self) -> Awaitable[str]: ...
    async def to_networkx(self, types: Sequence[str] | None = ...) -> Any: ...
    async def to_pyg(self, types: Sequence[str] | None = ...) -> Any: ...
    @property
    def view(self) -> CatalogSnapshot: ...
    def query_batches(
        self,
        query: str | Path | SourceText,
        name: str | None = ...,
        params: Mapping[str, object] | None = ...,
        *,
        engine: EngineName = ...,
        session: object | None = ...,
        spark_conf: Mapping[str, str] | None = ...,
        limits: ReadLimits | None = ...,
    ) -> AsyncIterator[pa.RecordBatch]: ...

class AsyncTypeRows:
    @property
    def arrow_schema(self) -> pa.Schema: ...
    def batches(self) -> AsyncIterator[pa.RecordBatch]: ...
    @property
    def columns(self) -> list[str]: ...
    async def first(self) -> Row | None: ...
    async def scalar(self) -> Any: ...
    async def to_arrow(self) -> pa.Table: ...
    async def to_pandas(self) -> Any: ...
    async def to_polars(self) -> pl.DataFrame: ...
    def __len__(self) -> int: ...
    def __aiter__(self) -> AsyncIterator[Row]: ...

class AsyncBlob:
    stat: BlobStat
    range: ByteRange | None
    def chunks(self, size: int = ...) -> AsyncIterator[bytes]: ...
    @property
    def content_range(self) -> str | None: ...
    @property
    def etag(self) -> str | None: ...
    async def read(self) -> bytes: ...
    async def read_range(self, start: int, end: int) -> bytes: ...
    @property
    def size(self) -> int | None: ...
    def __len__(self) -> int: ...

class AsyncBaseline:
    @property
    def end(self) -> Awaitable[BaselineEnd]: ...
    def jsonl(self) -> AsyncIterator[bytes]: ...
    def records(self) -> AsyncIterator[dict[str, object]]: ...
    @property
    def resume_cursor(self) -> str: ...
    @property
    def snapshot_commit_id(self) -> CommitId: ...
    def wire(self) -> dict[str, object]: ...

class AsyncDiff:
    def batches(self) -> AsyncIterator[ChangeBatch]: ...
    async def count(self) -> DiffStats: ...
    @property
    def is_empty(self) -> Awaitable[bool]: ...
    @property
    def snapshot_ids(self) -> Awaitable[tuple[str, str]]: ...
    @property
    def stats(self) -> Awaitable[Mapping[str, TypeStats]]: ...
    async def to_arrow(self) -> Mapping[str, pa.Table]: ...
    def __aiter__(self) -> AsyncIterator[EntityChange]: ...
