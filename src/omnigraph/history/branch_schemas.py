"""Merging branches of which one has a schema with additions.

A row of a side that lacks a column is read as if the column had been added to it: with the default,
or NULL. So all three sides have the same columns, and are compared and written like any others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.errors import CompileError, SchemaContractMismatch
from omnigraph.evolution.migration_plan import is_additive, plan_migration
from omnigraph.evolution.migration_steps import Step, UnsupportedChange
from omnigraph.execution.stored_rows import get_default_value
from omnigraph.language.source import SourceText
from omnigraph.storage.graph_lifecycle import GENESIS_VERSION
from omnigraph.storage.layout import SCHEMA_SOURCE
from omnigraph.storage.manifest import TableEntry
from omnigraph.storage.tables import Table
from omnigraph.writer.change import CatalogSnapshot

_RENAMED = "something that was renamed"


def find_merged_schema(source: CatalogSnapshot, target: CatalogSnapshot) -> Catalog:
    """Return the schema of the branch that has all types and properties of the other.

    Raises:
        SchemaContractMismatch: neither contains the other; with the steps between them.
    """
    if not list_lacking_steps(target, source):
        return target.catalog
    if not list_lacking_steps(source, target):
        return source.catalog
    theirs, ours = source.snapshot.branch, target.snapshot.branch
    raise SchemaContractMismatch(
        f"branches '{theirs}' and '{ours}' have different schemas, and neither contains "
        f"the other: '{ours}' lacks {_describe_steps(target, source)}; "
        f"'{theirs}' lacks {_describe_steps(source, target)}"
    )


def list_lacking_steps(branch: CatalogSnapshot, other: CatalogSnapshot) -> tuple[Step, ...]:
    """List the steps that one branch lacks to contain the schema of another; empty if it has all.

    Steps that would remove its own additions are not included.
    """
    if branch.snapshot.state.contract_hash == other.snapshot.state.contract_hash:
        return ()
    back = _plan_steps(other, branch)
    if back is not None and all(is_additive(step) for step in back):
        return ()  # the branch has all of it, and more
    forth = _plan_steps(branch, other)
    return (UnsupportedChange("schema", _RENAMED),) if forth is None else forth


def _plan_steps(before: CatalogSnapshot, after: CatalogSnapshot) -> tuple[Step, ...] | None:
    """Plan the steps from the schema of one branch to another; None if hints do not fit."""
    text = SourceText(after.snapshot.contract.source, SCHEMA_SOURCE)
    try:
        return plan_migration(before.catalog, compile_schema(text)).steps
    except CompileError:
        return None  # they were written for another history


def _describe_steps(before: CatalogSnapshot, after: CatalogSnapshot) -> str:
    steps = _plan_steps(before, after)
    return _RENAMED if steps is None else ", ".join(step.describe() for step in steps)


def get_first_version(entry: TableEntry) -> TableEntry:
    """Return the first, empty version of a table: its state on a branch without the type."""
    return replace(entry, version=GENESIS_VERSION, owner_branch=None, row_count=0, owner=None)


def show_missing_types(
    target: CatalogSnapshot, source: CatalogSnapshot, schema: Catalog
) -> CatalogSnapshot:
    """Return the target with the types it lacks, which have no rows."""
    into, theirs = target.snapshot, source.snapshot
    absent = [theirs.entries[key] for key in theirs.entries.keys() - into.entries.keys()]
    if not absent:
        return CatalogSnapshot(into, schema)
    added = {entry.identity: theirs.state.registrations[entry.identity] for entry in absent}
    state = replace(into.state, registrations={**into.state.registrations, **added})
    wider = replace(into, manifest=replace(into.manifest, state=state))
    return CatalogSnapshot(wider.show_versions(map(get_first_version, absent)), schema)


@dataclass(frozen=True, slots=True)
class ColumnWidening:
    """Extends tables by the columns of a type that they lack."""

    type: NodeType | EdgeType
    widest: Table
    """A table with all of them."""

    def apply(self, table: Table) -> Table:
        known = set(table.schema.names)
        absent = [p for p in self.type.properties if p.name not in known]
        if not absent:
            return table
        return table.widen(self.widest, {p.name: self._first_value(p) for p in absent})

    def _first_value(self, property_: Property) -> object:
        """Return the value that adding the property gives a row: its default, or NULL."""
        if property_.default is None:
            return None
        return get_default_value(property_, f"{self.type.name}.{property_.name}").as_py()
