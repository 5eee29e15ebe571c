"""Indices of a table: which there are, what they cover, and staging new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lance import Index, LanceOperation

from omnigraph.storage.objects.counting import observed_write
from omnigraph.storage.tables.failures import translated
from omnigraph.storage.tables.handle import Table
from omnigraph.storage.tables.stage import StagedTransaction, stage_operation
from omnigraph.storage.tables.wholeness import require_whole_indices


class IndexKind(StrEnum):
    BTREE = "BTREE"
    BITMAP = "BITMAP"
    INVERTED = "INVERTED"
    IVF_FLAT = "IVF_FLAT"
    IVF_PQ = "IVF_PQ"
    IVF_HNSW_SQ = "IVF_HNSW_SQ"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index to build; the options are those of its kind, such as `num_partitions`."""

    name: str
    column: str
    kind: IndexKind
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexSegment:
    uuid: str
    fragment_ids: frozenset[int]
    is_inherited: bool
    """Its files belong to the parent of this branch: compaction would break it."""


@dataclass(frozen=True, slots=True)
class TableIndex:
    """An index and how much of the table it covers."""

    name: str
    columns: tuple[str, ...]
    kind: str
    segments: tuple[IndexSegment, ...]
    indexed_rows: int
    unindexed_rows: int

    @property
    def is_complete(self) -> bool:
        return self.unindexed_rows == 0


def describe_indices(table: Table) -> tuple[TableIndex, ...]:
    """Every index of the table with its coverage, from metadata alone."""
    rows_of = {fragment.id: fragment.rows for fragment in table.fragments()}
    with translated(f"reading the indices of {table!r}"):
        found = table.native.describe_indices()
    indices = []
    for index in found:
        segments = tuple(
            IndexSegment(s.uuid, frozenset(s.fragment_ids), s.base_id is not None)
            for s in index.segments
        )
        covered = frozenset[int]().union(*(s.fragment_ids for s in segments)) & rows_of.keys()
        indexed = sum(rows_of[id] for id in covered)
        indices.append(
            TableIndex(
                name=index.name,
                columns=tuple(index.field_names),
                kind=index.index_type,
                segments=segments,
                indexed_rows=indexed,
                unindexed_rows=sum(rows_of.values()) - indexed,
            )
        )
    return tuple(sorted(indices, key=lambda index: index.name))


def inherited_coverage(table: Table) -> frozenset[int]:
    """The fragments that an index of the parent branch covers."""
    segments = [s for index in describe_indices(table) for s in index.segments if s.is_inherited]
    return frozenset[int]().union(*(s.fragment_ids for s in segments))


def stage_indices(
    table: Table,
    specs: Sequence[IndexSpec],
    *,
    uuid: str,
    properties: Mapping[str, str],
) -> StagedTransaction | None:
    """Build these indices over the whole table, all in one version; None if there are no rows.

    An index of the same name is replaced.
    """
    if not specs or not table.fragments():
        return None
    names = {spec.name for spec in specs}
    assert len(names) == len(specs), "two indices of one name"
    with translated(f"building indices of {table!r}"):
        with observed_write("write_indices", table.location.native_uri):
            built = [_build(table, spec) for spec in specs]
        replaced = [old for old in _segments(table) if old.name in names]
    sizes = {str(one.uuid): sum(file.size_bytes for file in one.files or ()) for one in built}
    require_whole_indices(table.location, sizes)
    operation = LanceOperation.CreateIndex(built, replaced)
    return stage_operation(table, operation, uuid=uuid, properties=properties)


def _build(table: Table, spec: IndexSpec) -> Index:
    options = dict(spec.options)
    if spec.kind is IndexKind.INVERTED:
        options.setdefault("with_position", True)
    segment = table.native.create_index_uncommitted(
        spec.column,
        str(spec.kind),
        name=spec.name,
        replace=True,
        fragment_ids=[fragment.id for fragment in table.fragments()],
        **options,
    )
    if spec.kind is IndexKind.INVERTED:
        # Unmerged, its files stay in a staging folder and every query fails after the commit.
        return table.native.merge_existing_index_segments([segment])
    return segment


def _segments(table: Table) -> list[Index]:
    """The segments in use, in the form in which a transaction removes them."""
    return [
        Index(
            uuid=segment.uuid,
            name=index.name,
            fields=list(index.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
            created_at=segment.created_at,
            base_id=segment.base_id,
        )
        for index in table.native.describe_indices()
        for segment in index.segments
    ]
