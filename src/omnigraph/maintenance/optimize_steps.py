"""Plan and prepare the next step of optimizing a table, outside of the fence.

A table is optimized in steps of one version each: settings that delete behind our back go
first, then vectors are indexed, then fragments are merged, then B-trees are built. In this
order no step undoes another: merging keeps an index by row ids and ends the coverage of one by
addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

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
    """Carries out orders, one for each table, side by side."""

    def carry_out(self, orders: Sequence[CompactionJob]) -> Sequence[CompactionOutput | None]:
        """What was written for each order; None where the version to read from is gone."""
        ...


@dataclass(frozen=True, slots=True)
class CompactionThreads:
    """Carries them out in this process, this many tables at a time."""

    count: int

    def carry_out(self, orders: Sequence[CompactionJob]) -> Sequence[CompactionOutput | None]:
        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(run_job, orders))


ROWS_PER_PARTITION = 1 << 17
"""Searches look at every partition, so there are only as many as building in pieces needs."""


def list_stored_indexes(type_: EntityType, rows: int) -> tuple[IndexSpec, ...]:
    """The indexes to be kept in the type's table, in the order of its columns.

    A full-text index is not among them: text is searched in an index that readers make from the
    table's files and keep in memory, and a stored one would never be read.
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
    """Work whose files are written; it still has to become a version of the table."""

    def stage(self, table: Table, properties: Mapping[str, str]) -> StagedTransaction | None:
        """The transaction for the table as it is now; None if the work is no longer good."""
        ...

    @property
    def fragments(self) -> tuple[int, int]:
        """How many fragments it removes and how many it adds."""
        ...


@dataclass(frozen=True, slots=True)
class StripSettings:
    """Remove the settings by which the table would clean up by itself."""

    def stage(self, table: Table, properties: Mapping[str, str]) -> StagedTransaction | None:
        return stage_without_auto_cleanup(table, uuid=str(uuid4()), properties=properties)

    @property
    def fragments(self) -> tuple[int, int]:
        return (0, 0)


@dataclass(frozen=True, slots=True)
class MergeFragments:
    """Put merged fragments in the place of those they were made of."""

    groups: tuple[WrittenGroup, ...]

    def stage(self, table: Table, properties: Mapping[str, str]) -> StagedTransaction | None:
        return stage_rewrite(table, self.groups, uuid=str(uuid4()), properties=properties)

    @property
    def fragments(self) -> tuple[int, int]:
        removed = sum(len(group.replaced) for group in self.groups)
        return (removed, sum(len(group.written) for group in self.groups))


@dataclass(frozen=True, slots=True)
class UseSegments:
    """Make segments of an index part of the table."""

    segments: tuple[BuiltSegment, ...]

    def stage(self, table: Table, properties: Mapping[str, str]) -> StagedTransaction | None:
        return stage_segments(table, self.segments, uuid=str(uuid4()), properties=properties)

    @property
    def fragments(self) -> tuple[int, int]:
        return (0, 0)


def plan_next(
    table: Table, type_: EntityType, *, indexes_only: bool = False
) -> StripSettings | CompactionJob | None:
    """The next step of this table, or an order for the files it needs; None if it is done."""
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


def make_step(delivery: CompactionOutput) -> MaintenanceStep:
    """The step for which these files were ordered."""
    if delivery.groups:
        return MergeFragments(delivery.groups)
    return UseSegments(delivery.segments)


def list_pending_indexes(table: Table, type_: EntityType) -> tuple[PendingIndex, ...]:
    """The declared indexes that this version of the table cannot have yet."""
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
    """What there is to index: vectors, and everything else."""
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
    """Whether any row of these fragments has a vector to learn from."""
    given = f"{quote_identifier(spec.column)} IS NOT NULL"
    return bool(table.scan(["id"], given, limit=1, fragments=fragments).num_rows)


def _plan_build(table: Table, plans: Sequence[SegmentPlan]) -> CompactionJob | None:
    return CompactionJob(table.location, table.version, plans=tuple(plans)) if plans else None
