"""What a schema apply was asked for, and what it came to."""

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
    """What an apply does to the table of a type."""

    CREATED = "created"
    DROPPED = "dropped"
    METADATA = "metadata"
    """Only what it is called, or what its columns are; no value is written."""
    COLUMNS = "columns"
    """Values of some columns are written; all others stay where they are."""
    ROWS = "rows"
    """Rows that a mutation changed are written; where columns change as well, all rows are."""


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """One table that an apply makes, drops, renames or gives other columns."""

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
class KeptStep:
    """A step as it was kept with the commit that took it."""

    body: Mapping[str, object]
    text: str

    def wire(self) -> Json:
        return dict(self.body)

    def describe(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class KeptNote:
    """What was worth knowing before the steps were taken."""

    severity: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """The steps of an apply that was made before."""

    steps: tuple[KeptStep, ...]
    notes: tuple[KeptNote, ...] = ()

    @property
    def supported(self) -> bool:
        """What was done could be done."""
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
    """One mutation that was run before the change of the schema, in the same commit."""

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
    """What an apply did, or with `dry_run` would do."""

    branch: str
    plan: MigrationPlan | KeptPlan
    tables: tuple[ChangedTable, ...]
    dry_run: bool
    manifest_version: int
    actor_id: str | None = None
    commit: Commit | None = None
    mutations: tuple[AppliedMutation, ...] = ()
    """What was run first, in order; nothing if there was nothing to change."""
    is_replayed: bool = False
    """Whether it was made before, under the same idempotency key."""

    @property
    def applied(self) -> bool:
        """Whether the branch has another schema now."""
        return self.commit is not None

    @property
    def steps(self) -> tuple[Step | KeptStep, ...]:
        return self.plan.steps

    @property
    def notes(self) -> tuple[Diagnostic | KeptNote, ...]:
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
