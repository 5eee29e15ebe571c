"""The result of a schema apply: its plan, tables and commit."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from omnigraph.evolution.migration_plan import MigrationNote, MigrationPlan
from omnigraph.evolution.migration_steps import Step
from omnigraph.identity import TableKey
from omnigraph.result import Result, WriteResult
from omnigraph.wire.commit_results import Commit


class TableEffect(StrEnum):
    """The effect of an apply on the table of a type."""

    CREATED = "created"
    DROPPED = "dropped"
    METADATA = "metadata"
    """Only names or column definitions change; no value is written."""
    COLUMNS = "columns"
    """Values of some columns are written; all others stay where they are."""
    ROWS = "rows"
    """Rows changed by a mutation are written; all rows, if columns change as well."""


class ChangedTable(Result, frozen=True):
    """One table that an apply creates, drops, renames or alters."""

    entity_kind: str
    type_name: str
    effect: TableEffect
    rows_before: int
    rows_after: int
    written: tuple[str, ...] = msgspec.field(name="columns_written")
    """The columns whose values are written."""

    @classmethod
    def of(
        cls,
        table_key: TableKey,
        effect: TableEffect,
        rows_before: int,
        rows_after: int,
        written: tuple[str, ...] = (),
    ) -> ChangedTable:
        entity_kind, _, type_name = table_key.partition(":")
        return cls(entity_kind, type_name, effect, rows_before, rows_after, written)

    @property
    def table_key(self) -> TableKey:
        return TableKey(f"{self.entity_kind}:{self.type_name}")


class AppliedMutation(Result, frozen=True):
    """One mutation run before the schema change, in the same commit."""

    query_name: str
    affected_nodes: int
    affected_edges: int


class SchemaApplyResult(WriteResult, frozen=True, kw_only=True):
    """The result of an apply or, with `dry_run`, its preview."""

    uri: str | None = None
    """The address of the graph, as a server gives it."""
    supported: bool
    step_count: int
    steps: tuple[Step, ...]
    notes: tuple[MigrationNote, ...]
    mutations: tuple[AppliedMutation, ...] = ()
    """The mutations run first, in order; none if the schema did not change."""
    branch: str
    applied: bool
    """True if the schema of the branch changed."""
    dry_run: bool
    manifest_version: int = msgspec.field(name="graph_manifest_version")
    tables: tuple[ChangedTable, ...]
    actor_id: str | None
    commit: Commit | None

    @property
    def plan(self) -> MigrationPlan:
        return MigrationPlan(self.supported, self.step_count, self.steps, self.notes)
