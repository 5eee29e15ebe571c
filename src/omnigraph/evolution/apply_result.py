"""The result of a schema apply: its plan, tables and commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.catalog.schema_json import Json
from omnigraph.errors import Diagnostic
from omnigraph.evolution.migration_plan import MigrationPlan
from omnigraph.evolution.migration_steps import Step
from omnigraph.identity import TableKey
from omnigraph.storage.manifest import Commit


class TableEffect(StrEnum):
    """The effect of an apply on the table of a type."""

    CREATED = "created"
    DROPPED = "dropped"
    METADATA = "metadata"
    """Only names or column definitions change; no value is written."""
    COLUMNS = "columns"
    """Values of some columns are written; all others stay where they are."""
    ROWS = "rows"
    """Rows that a mutation changed are written; where columns change as well, all rows are."""


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """One table that an apply creates, drops, renames or alters."""

    table_key: TableKey
    effect: TableEffect
    rows_before: int
    rows_after: int
    written: tuple[str, ...] = ()
    """The columns whose values are written."""

    def wire(self) -> dict[str, object]:
        entity_kind, _, type_name = self.table_key.partition(":")
        return {
            "entity_kind": entity_kind,
            "type_name": type_name,
            "effect": str(self.effect),
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
            "columns_written": list(self.written),
        }


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step as recorded with its commit."""

    body: Mapping[str, object]
    text: str

    def wire(self) -> Json:
        return dict(self.body)

    def describe(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class RecordedNote:
    """A note of the plan, as recorded with its commit."""

    severity: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """The plan of an earlier apply, as recorded with its commit."""

    steps: tuple[RecordedStep, ...]
    notes: tuple[RecordedNote, ...] = ()

    @property
    def supported(self) -> bool:
        """True: the steps were applied."""
        return True

    @property
    def is_empty(self) -> bool:
        return not self.steps

    def wire(self) -> Json:
        return {
            "supported": True,
            "step_count": len(self.steps),
            "steps": [step.wire() for step in self.steps],
            "notes": [
                {"severity": note.severity, "code": note.code, "message": note.message}
                for note in self.notes
            ],
        }


@dataclass(frozen=True, slots=True)
class AppliedMutation:
    """One mutation run before the schema change, in the same commit."""

    query_name: str
    affected_nodes: int
    affected_edges: int

    def wire(self) -> dict[str, object]:
        return {
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
        }


@dataclass(frozen=True, slots=True)
class SchemaApplyResult:
    """The result of an apply or, with `dry_run`, its preview."""

    branch: str
    plan: MigrationPlan | RecordedPlan
    tables: tuple[ChangedTable, ...]
    dry_run: bool
    manifest_version: int
    actor_id: str | None = None
    commit: Commit | None = None
    mutations: tuple[AppliedMutation, ...] = ()
    """The mutations run first, in order; none if the schema did not change."""
    is_replayed: bool = False
    """True if replayed from an earlier apply under the same idempotency key."""

    @property
    def applied(self) -> bool:
        """True if the schema of the branch changed."""
        return self.commit is not None

    @property
    def steps(self) -> tuple[Step | RecordedStep, ...]:
        return self.plan.steps

    @property
    def notes(self) -> tuple[Diagnostic | RecordedNote, ...]:
        return self.plan.notes

    def wire(self) -> Mapping[str, object]:
        ran = {"mutations": [one.wire() for one in self.mutations]} if self.mutations else {}
        return {
            **self.plan.wire(),
            **ran,
            "branch": self.branch,
            "applied": self.applied,
            "dry_run": self.dry_run,
            "graph_manifest_version": self.manifest_version,
            "tables": [table.wire() for table in self.tables],
            "actor_id": self.actor_id,
            "commit": self.commit.wire() if self.commit else None,
        }
