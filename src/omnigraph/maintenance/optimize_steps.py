"""Plan and prepare the next step of optimizing a table, outside of the fence.

A table is optimized in steps of one version each: auto-cleanup settings are removed
first, then vectors are indexed, then fragments are compacted, then B-trees are built. In this
order no step undoes another: compaction keeps an index by row ids and ends the coverage of one by
addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from omnigraph.catalog.catalog import EntityType, list_indexes
from omnigraph.catalog.catalog import IndexKind as DeclaredKind
from omnigraph.maintenance.maintenance_results import PendingIndex
from omnigraph.storage.tables import (
    CompactionJob,
    CompactionOutput,
    LanceIndexKind,
    StagedTransaction,
    Table,
    quote_identifier,
    run_job,
    stage_rewrite,
)
from omnigraph.storage.tables.compaction import WrittenGroup, plan_groups
from omnigraph.storage.tables.indices import (
    BuiltSegment,
    IndexSpec,
    Layout,
    SegmentPlan,
    describe_layout,
    plan_segment,
    stage_segments,
)
from omnigraph.storage.tables.remove_versions import (
    find_auto_cleanup_keys,
    stage_without_auto_cleanup,
)


class CompactionWorkers(Protocol):
    """Runs compaction jobs, one for each table, in parallel."""

    def carry_out(self, jobs: Sequence[CompactionJob]) -> Sequence[CompactionOutput | None]:
        """Return the output of each job; None where the version to read from is gone."""
        ...


@dataclass(frozen=True, slots=True)
class CompactionThreads:
    """Runs jobs in this process, so many tables at a time."""

    count: int

    def carry_out(self, jobs: Sequence[CompactionJob]) -> Sequence[CompactionOutput | None]:
        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(run_job, jobs))


ROWS_PER_PARTITION = 1 << 17
"""Searches read every partition, so there are only as many as an incremental build needs."""


def list_stored_indexes(type_: EntityType, rows: int) -> tuple[IndexSpec, ...]:
    """Return the indexes to be stored in the type's table, in the order of its columns.

    A full-text index is not among them: readers build one in memory from the table's files, and a
    stored one would never be read.
    """
    specs = []
    for declared in list_indexes(type_):
        (column,) = declared.columns
        if declared.kind is DeclaredKind.BTREE:
            specs.append(IndexSpec(f"{column}_btree", column, LanceIndexKind.BTREE))
        elif declared.kind is DeclaredKind.VECTOR:
            # It keeps whole vectors, so that searching with it gives the same answers.
            options = {"num_partitions": max(1, rows // ROWS_PER_PARTITION)}
            specs.append(IndexSpec(f"{column}_vectors", column, LanceIndexKind.IVF_FLAT, options))
    return tuple(specs)


UNTRAINABLE = "no row has a vector yet"


class MaintenanceStep(Protocol):
    """A step whose files are written and that is not committed yet."""

    def stage(self, table: Table, properties: Mapping[str, str]) -> StagedTransaction | None:
        """Return the transaction for the current table; None if the step is stale."""
        ...

    @property
    def fragments(self) -> tuple[int, int]:
        """The number of fragments removed and added."""
        ...


@dataclass(frozen=True, slots=True)
class StripSettings:
    """Remove the auto-cleanup settings of a table."""

    def stage(self, table: Table, properties: Mapping[str, str]) -> StagedTransaction | None:
        return stage_without_auto_cleanup(table, properties=properties)

    @property
    def fragments(self) -> tuple[int, int]:
        return (0, 0)


@dataclass(frozen=True, slots=True)
class MergeFragments:
    """Replace fragments with their compacted form."""

    groups: tuple[WrittenGroup, ...]

    def stage(self, table: Table, properties: Mapping[str, str]) -> StagedTransaction | None:
        return stage_rewrite(table, self.groups, properties=properties)

    @property
    def fragments(self) -> tuple[int, int]:
        removed = sum(len(group.replaced) for group in self.groups)
        return (removed, sum(len(group.written) for group in self.groups))


@dataclass(frozen=True, slots=True)
class UseSegments:
    """Add built segments of an index to the table."""

    segments: tuple[BuiltSegment, ...]

    def stage(self, table: Table, properties: Mapping[str, str]) -> StagedTransaction | None:
        return stage_segments(table, self.segments, properties=properties)

    @property
    def fragments(self) -> tuple[int, int]:
        return (0, 0)


def plan_next(
    table: Table, type_: EntityType, *, indexes_only: bool = False
) -> StripSettings | CompactionJob | None:
    """Return the next step of this table, or the job for its files; None if it is done."""
    layout = describe_layout(table)
    vectors, trees = _plan_segments(table, layout, type_)
    if indexes_only:
        return _plan_build(table, [*vectors, *trees])
    if find_auto_cleanup_keys(table):
        return StripSettings()
    if vectors:
        return _plan_build(table, vectors)
    groups = plan_groups(layout)
    if groups:
        return CompactionJob(table.location, table.version, groups=groups)
    return _plan_build(table, trees)


def make_step(output: CompactionOutput) -> MaintenanceStep:
    """Return the step that uses these files."""
    if output.groups:
        return MergeFragments(output.groups)
    return UseSegments(output.segments)


def list_pending_indexes(table: Table, type_: EntityType) -> tuple[PendingIndex, ...]:
    """Return the declared indexes that this version of the table cannot have yet."""
    rows = table.count_rows()
    if not rows:
        return ()
    vectors = [s for s in list_stored_indexes(type_, rows) if s.kind is LanceIndexKind.IVF_FLAT]
    return tuple(
        PendingIndex(type_.table_key, spec.column, UNTRAINABLE)
        for spec in vectors
        if not _has_vectors(table, spec, None)
    )


def _plan_segments(
    table: Table, layout: Layout, type_: EntityType
) -> tuple[list[SegmentPlan], list[SegmentPlan]]:
    """Return the segments to build: those of vectors, and all others."""
    rows = sum(fragment.rows for fragment in layout.fragments)
    vectors, trees = [], []
    for spec in list_stored_indexes(type_, rows):
        plan = plan_segment(layout, spec)
        if plan is None:
            continue
        if spec.kind is not LanceIndexKind.IVF_FLAT:
            trees.append(plan)
        elif _has_vectors(table, spec, plan.uncovered):
            vectors.append(plan)
    return vectors, trees


def _has_vectors(table: Table, spec: IndexSpec, fragments: Sequence[int] | None) -> bool:
    """Return whether any row of these fragments has a vector to train on."""
    given = f"{quote_identifier(spec.column)} IS NOT NULL"
    return bool(table.scan(["id"], given, limit=1, fragments=fragments).num_rows)


def _plan_build(table: Table, plans: Sequence[SegmentPlan]) -> CompactionJob | None:
    return CompactionJob(table.location, table.version, plans=tuple(plans)) if plans else None
