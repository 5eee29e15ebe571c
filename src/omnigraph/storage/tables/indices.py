"""Indices of a table: their coverage, staging new segments, and search through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import Index, LanceOperation

from omnigraph.storage.tables.checksums import record_checksums
from omnigraph.storage.tables.file_probes import list_files_in, report_native_write
from omnigraph.storage.tables.fragments import require_complete_indices
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import StagedTransaction, stage_operation
from omnigraph.storage.tables.table import ROW_ID, Fragment, Table

SMALL_SEGMENT_ROWS = 10_000
"""Segments of up to this size are rebuilt together with new rows."""
SEGMENT_DOMINANCE = 2
"""A segment with more than this many times the new rows is kept, and a second one added."""


class LanceIndexKind(StrEnum):
    BTREE = "BTREE"
    BITMAP = "BITMAP"
    INVERTED = "INVERTED"
    IVF_FLAT = "IVF_FLAT"
    IVF_PQ = "IVF_PQ"
    IVF_HNSW_SQ = "IVF_HNSW_SQ"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index to build, with options of its kind such as `num_partitions`."""

    name: str
    column: str
    kind: LanceIndexKind
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """A part of an index: the rows of some fragments."""

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

    def serves(self, spec: IndexSpec) -> bool:
        """Return whether this is an index of that kind on that column, under any name."""
        return self.columns == (spec.column,) and self.kind.upper() == spec.kind


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """A segment to build: the fragments it covers, and the segments it replaces."""

    spec: IndexSpec
    fragment_ids: tuple[int, ...]
    uncovered: tuple[int, ...]
    """Those of them that no segment covers yet."""
    replaced: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BuiltSegment:
    """A segment whose files are written and not referenced by a version."""

    native: Index
    replaced: frozenset[str]
    files: Mapping[int, tuple[str, ...]]
    """The data files of every covered fragment, which identify them later."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The fragments and indices of a version of a table."""

    fragments: tuple[Fragment, ...]
    indices: tuple[TableIndex, ...]

    @property
    def rows_of(self) -> Mapping[int, int]:
        return {fragment.id: fragment.rows for fragment in self.fragments}


def describe_layout(table: Table) -> Layout:
    fragments = table.fragments()
    return Layout(fragments, _describe_indices(table, fragments))


def describe_indices(table: Table) -> tuple[TableIndex, ...]:
    """Every index of the table with its coverage, from metadata alone."""
    return _describe_indices(table, table.fragments())


def _describe_indices(table: Table, fragments: Sequence[Fragment]) -> tuple[TableIndex, ...]:
    rows_of = {fragment.id: fragment.rows for fragment in fragments}
    with translate_errors(f"reading the indices of {table!r}"):
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


def plan_segment(layout: Layout, spec: IndexSpec) -> SegmentPlan | None:
    """Plan a segment with which the index covers every row; None if it already does.

    It covers only the rows that are not indexed, and segments not much larger than those: an index
    has few segments, and a row is indexed a bounded number of times.
    """
    rows_of = layout.rows_of
    known = next((index for index in layout.indices if index.serves(spec)), None)
    if known is None:
        everywhere = tuple(rows_of)
        return SegmentPlan(spec, everywhere, everywhere) if rows_of else None
    covered = frozenset[int]().union(*(s.fragment_ids for s in known.segments))
    uncovered = tuple(sorted(rows_of.keys() - covered))
    if not uncovered:
        return None
    wanted, replaced = set(uncovered), set[str]()
    rows = sum(rows_of[id] for id in uncovered)
    for size, segment in sorted(
        ((sum(rows_of.get(id, 0) for id in s.fragment_ids), s) for s in known.segments),
        key=lambda pair: (pair[0], pair[1].uuid),
    ):
        if segment.is_inherited or size > max(SMALL_SEGMENT_ROWS, SEGMENT_DOMINANCE * rows):
            continue
        rows += size
        wanted |= segment.fragment_ids & rows_of.keys()
        replaced.add(segment.uuid)
    named = IndexSpec(known.name, spec.column, spec.kind, spec.options)
    return SegmentPlan(named, tuple(sorted(wanted)), uncovered, frozenset(replaced))


def build_segment(table: Table, plan: SegmentPlan) -> BuiltSegment:
    """Build a planned segment in files that no version references."""
    with (
        translate_errors(f"building the index {plan.spec.name} of {table!r}"),
        report_native_write("write_indices", table.location),
    ):
        built = _build(table, plan.spec, plan.fragment_ids)
    sizes = {str(built.uuid): sum(file.size_bytes for file in built.files or ())}
    require_complete_indices(table.location, sizes)
    record_indices(table.location, sizes)
    files = {id: files for id, files in _list_data_files(table).items() if id in plan.fragment_ids}
    return BuiltSegment(built, plan.replaced, files)


def stage_segments(
    table: Table, segments: Sequence[BuiltSegment], *, properties: Mapping[str, str]
) -> StagedTransaction | None:
    """Stage the version of this table that uses the segments.

    The table may be newer than the one they were built from: a segment covers those of its
    fragments whose files are unchanged. None if none covers any.
    """
    live, present = _list_data_files(table), _list_segments(table)
    added, removed = [], set[str]()
    for segment in segments:
        kept = {id for id, files in segment.files.items() if live.get(id) == files}
        if kept:
            # Declared as a bitmap type without constructor; a set is accepted as well.
            narrowed = replace(segment.native, fragment_ids=kept)  # type: ignore[arg-type]
            added.append(narrowed)
            removed |= segment.replaced
    if not added:
        return None
    operation = LanceOperation.CreateIndex(added, [s for s in present if s.uuid in removed])
    return stage_operation(table, operation, properties=properties)


def _list_data_files(table: Table) -> dict[int, tuple[str, ...]]:
    with translate_errors(f"listing the files of {table!r}"):
        fragments = [fragment.metadata for fragment in table.native.get_fragments()]
    return {f.id: tuple(str(file.path) for file in f.files) for f in fragments}


def _build(table: Table, spec: IndexSpec, fragment_ids: Sequence[int]) -> Index:
    options = dict(spec.options)
    if spec.kind is LanceIndexKind.INVERTED:
        options.setdefault("with_position", True)
    segment = table.native.create_index_uncommitted(
        spec.column,
        str(spec.kind),
        name=spec.name,
        replace=True,
        fragment_ids=list(fragment_ids),
        **options,
    )
    if spec.kind is LanceIndexKind.INVERTED:
        # Unmerged, its files remain in a staging folder and every query fails after the commit.
        return table.native.merge_existing_index_segments([segment])
    return segment


def _list_segments(table: Table) -> list[Index]:
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


DISTANCE = "_distance"
"""The column of squared distances, in single precision, that a vector search adds."""

ROWS_PER_PIECE = 1 << 17
"""Rows transposed at a time; more would only raise peak memory."""

DELETED = -1
"""Row id of a deleted row."""

_ALL_PARTITIONS = 1 << 20
"""Number of partitions to probe; any number above that of an index means all of them."""
_REFINE = 100
"""Candidates per result that are fetched from a lossy index and measured exactly."""
_EXACT_INDEX = str(LanceIndexKind.IVF_FLAT)


# --- columns in pieces ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnPiece:
    """Consecutive rows of one fragment, deleted ones included, as stored in its files.

    Pieces with equal `content` hold the same rows in every version and branch. `deletions` names
    the deletion file; None if no row is deleted.
    """

    content: tuple[object, ...]
    deletions: str | None
    fragment: int
    start: int
    rows: int


def split_column(table: Table, columns: Sequence[str]) -> tuple[ColumnPiece, ...]:
    """The table cut into pieces, from metadata alone."""
    with translate_errors(f"listing the files of {table!r}"):
        fields = {field.name(): field.id() for field in table.native.lance_schema.fields()}
        wanted = tuple(fields[name] for name in columns)
        fragments = [fragment.metadata for fragment in table.native.get_fragments()]
    return tuple(
        piece for metadata in fragments for piece in _split_fragment(table, metadata, wanted)
    )


def _split_fragment(
    table: Table, metadata: lance.FragmentMetadata, fields: tuple[int, ...]
) -> list[ColumnPiece]:
    files = [f.path for f in metadata.files if not set(fields).isdisjoint(f.fields)]
    # Overlays, which are never written here, would change values without changing files.
    content = (table.location.uri, fields, *files, *map(str, metadata.overlays))
    deleted = metadata.deletion_file
    deletions = deleted.path(metadata.id) if deleted is not None else None
    return [
        ColumnPiece(
            content=(*content, start),
            deletions=deletions,
            fragment=metadata.id,
            start=start,
            rows=min(ROWS_PER_PIECE, metadata.physical_rows - start),
        )
        for start in range(0, metadata.physical_rows, ROWS_PER_PIECE)
    ]


def read_piece(table: Table, piece: ColumnPiece, columns: Sequence[str]) -> pa.Table:
    """Every row of a piece, deleted ones included, in the order they are stored."""
    return _scan_piece(table, piece, columns).select(list(columns))


def read_row_ids(table: Table, piece: ColumnPiece) -> npt.NDArray[np.int64]:
    """The row id of every row of a piece, in the order they are stored; -1 for deleted ones."""
    found = _scan_piece(table, piece, [ROW_ID]).column(ROW_ID).combine_chunks()
    ids: npt.NDArray[np.int64] = found.cast(pa.int64()).fill_null(DELETED).to_numpy()
    return ids


def _scan_piece(table: Table, piece: ColumnPiece, columns: Sequence[str]) -> pa.Table:
    with translate_errors(f"scanning a piece of {table!r}"):
        fragment = table.native.get_fragment(piece.fragment)
        assert fragment is not None, f"{piece} is not of {table!r}"
        # The row id marks deleted rows, which have none.
        found = table.native.scanner(
            columns=list(columns),
            fragments=[fragment],
            offset=piece.start,
            limit=piece.rows,
            with_row_id=True,
            include_deleted_rows=True,
            scan_in_order=True,
        ).to_table()
    assert found.num_rows == piece.rows, f"{piece} has {found.num_rows} rows"
    return found


# --- words ----------------------------------------------------------------------------------------


def split_words(text: str) -> list[str]:
    """The words of a text in order, in lower case and with Latin letters folded to ASCII."""
    tokens = lance.tokenize(text, stem=False, remove_stop_words=False, max_token_length=None)
    return [token.text for token in tokens]


def stem_words(words: Sequence[str]) -> list[str]:
    """Return the English stem of each word, as split by `split_words`."""
    tokens = lance.tokenize(
        " ".join(words), stem=True, remove_stop_words=False, max_token_length=None
    )
    assert len(tokens) == len(words), "a word that is not one word"
    return [token.text for token in tokens]


def drop_stop_words(words: Sequence[str]) -> set[str]:
    """Return the words without the most common ones of English."""
    tokens = lance.tokenize(
        " ".join(words), stem=False, remove_stop_words=True, max_token_length=None
    )
    return {token.text for token in tokens}


# --- vectors --------------------------------------------------------------------------------------


def find_nearest(table: Table, column: str, query: npt.NDArray[np.float32], count: int) -> pa.Table:
    """Find the `count` nearest rows: row id, vector and squared distance, nearest first.

    Rows without index coverage take part; rows without a vector do not. The result is exact, up to
    single precision, unless the index is lossy.
    """
    with translate_errors(f"searching the vectors of {table!r}"):
        return table.native.scanner(
            columns=[ROW_ID, column, DISTANCE],
            nearest={
                "column": column,
                "q": query,
                "k": count,
                "metric": "L2",
                "nprobes": _ALL_PARTITIONS,
                **({"refine_factor": _REFINE} if has_lossy_index(table, column) else {}),
            },
        ).to_table()


def has_lossy_index(table: Table, column: str) -> bool:
    """Return whether the column has a vector index that drops some of the detail."""
    kinds = {index.kind for index in describe_indices(table) if index.columns == (column,)}
    return bool(kinds - {_EXACT_INDEX})


def record_indices(location: TableLocation, uuids: Iterable[str]) -> None:
    folder = location.local_folder
    if folder is not None:
        record_checksums(
            folder, [f for uuid in uuids for f in list_files_in(folder, f"_indices/{uuid}")]
        )
