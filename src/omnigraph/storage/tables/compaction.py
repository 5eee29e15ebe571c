"""Merge the small fragments of a table into large ones, in place or as jobs for executors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from lance import FragmentMetadata, LanceOperation
from lance.fragment import DataFile
from lance.optimize import CompactionTask

from omnigraph.errors import HistoricalVersionReclaimed, StorageFailure, StorageKind
from omnigraph.storage.tables.file_probes import report_native_write
from omnigraph.storage.tables.fragments import (
    STORAGE_VERSION,
    add_blob_files,
    has_blob_columns,
    record_rows,
    require_complete_rows,
)
from omnigraph.storage.tables.indices import (
    BuiltSegment,
    LanceIndexKind,
    Layout,
    SegmentPlan,
    TableIndex,
    build_segment,
)
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.manifest_table import is_manifest_table
from omnigraph.storage.tables.stage_table import StagedTransaction, stage_operation
from omnigraph.storage.tables.table import Fragment, Table, open_table

ROWS_PER_FRAGMENT = 1 << 20
"""Fragments of at least this size are never merged."""
SMALL_ROWS = 10_000
"""Fragments of up to this many rows are always merged: copying them costs little."""
DOMINANCE = 2
"""A fragment with more than this many times the rows that follow it is not copied for them."""
DELETED_SHARE = 0.1
"""A fragment with a larger share of deleted rows is rewritten without them."""

_TASK_OPTIONS: dict[str, object] = {
    "target_rows_per_fragment": ROWS_PER_FRAGMENT,
    "max_rows_per_group": 1024,
    "materialize_deletions": True,
    "materialize_deletions_threshold": 0.0,
    "defer_index_remap": False,
    "index_remap_mode": "Direct",
    "enable_binary_copy": False,
    "enable_binary_copy_force": False,
    "binary_copy_read_batch_bytes": 16 << 20,
    "excluded_fragment_ids": [],
    "max_overlays_per_fragment": 10,
    "data_storage_version": STORAGE_VERSION,
    "has_eager_remappable_index": False,
}
"""Options of a Lance compaction task; most concern modes that are not used here."""
_FILE_FIELDS = tuple(field.name for field in fields(DataFile) if field.name != "_path")


@dataclass(frozen=True, slots=True)
class WrittenGroup:
    """Fragments and the larger ones that replace them, durable and not yet visible."""

    base_version: int
    replaced: tuple[FragmentMetadata, ...]
    written: tuple[FragmentMetadata, ...]


def plan_groups(
    layout: Layout, *, rows_per_fragment: int = ROWS_PER_FRAGMENT
) -> tuple[tuple[int, ...], ...]:
    """Plan the runs of fragments to merge, and single fragments to rewrite for their deleted rows.

    Fragments covered by an index inherited from the parent branch are excluded, and so are runs
    that a row-id index covers in part: Lance refuses to merge what such an index separates.
    """
    excluded = _list_inherited(layout.indices)
    groups = []
    for run in _find_runs(layout, excluded):
        for packed in _pack_run(run, rows_per_fragment):
            group = _select_worthwhile(packed)
            if group:
                groups.append(tuple(fragment.id for fragment in group))
    return tuple(groups)


def _list_inherited(indices: Iterable[TableIndex]) -> frozenset[int]:
    segments = [s for index in indices for s in index.segments if s.is_inherited]
    return frozenset[int]().union(*(segment.fragment_ids for segment in segments))


def _find_runs(layout: Layout, excluded: frozenset[int]) -> Iterator[list[Fragment]]:
    """Yield runs of adjacent fragments that may be merged with each other."""
    by_row_id = [
        segment
        for index in layout.indices
        if index.kind.upper() != LanceIndexKind.BTREE
        for segment in index.segments
    ]
    run: list[Fragment] = []
    last: object = None
    for fragment in layout.fragments:
        mark = frozenset(s.uuid for s in by_row_id if fragment.id in s.fragment_ids)
        if run and (mark != last or fragment.id in excluded):
            yield run
            run = []
        if fragment.id not in excluded:
            run.append(fragment)
            last = mark
    if run:
        yield run


def _pack_run(run: Sequence[Fragment], rows_per_fragment: int) -> Iterator[list[Fragment]]:
    """Split a run where merging would give more than one full fragment."""
    packed: list[Fragment] = []
    rows = 0
    for fragment in run:
        is_full = fragment.rows >= rows_per_fragment
        if packed and (is_full or rows + fragment.rows > rows_per_fragment):
            yield packed
            packed, rows = [], 0
        packed.append(fragment)
        rows += fragment.rows
        if is_full:
            yield packed
            packed, rows = [], 0
    if packed:
        yield packed


def _select_worthwhile(packed: Sequence[Fragment]) -> list[Fragment]:
    """Select the part of a run that is worth rewriting; empty if none is."""
    group = drop_dominant(packed, SMALL_ROWS)
    return group if len(group) > 1 or _is_wasteful(group[0]) else []


def drop_dominant(run: Sequence[Fragment], small_rows: int = 0) -> list[Fragment]:
    """Drop leading fragments that are large compared with everything after them.

    A large fragment is not copied again for each few rows appended after it: it waits until there
    are enough of them, so that a row is copied a bounded number of times. Fragments of
    up to `small_rows`, and those that lose deleted rows, are always copied.
    """
    following = sum(fragment.rows for fragment in run)
    for start, fragment in enumerate(run):
        following -= fragment.rows
        is_large = fragment.rows > max(small_rows, DOMINANCE * following)
        if not is_large or _is_wasteful(fragment):
            return list(run[start:])
    return list(run[-1:])


def _is_wasteful(fragment: Fragment) -> bool:
    return fragment.deleted_rows > DELETED_SHARE * fragment.physical_rows


def write_groups(table: Table, groups: Sequence[Sequence[int]]) -> tuple[WrittenGroup, ...]:
    """Write the rows of each group to new fragments, keeping row ids and row versions."""
    assert not is_manifest_table(table), "state and lineage must not be merged: use compact_lineage"
    by_id = {f.fragment_id: f.metadata for f in table.native.get_fragments()}
    return tuple(_write_group(table, [by_id[id] for id in group]) for group in groups)


def _write_group(table: Table, replaced: Sequence[FragmentMetadata]) -> WrittenGroup:
    with translate_errors(f"compacting {table!r}"):
        with report_native_write("compact", table.location):
            task = CompactionTask.from_json(_make_task(table, replaced))  # type: ignore[attr-defined]
            result = task.execute(table.native)
        written = tuple(result.new_fragments)
        if has_blob_columns(table.schema):
            written = tuple(add_blob_files(table.location, written))
    assert sum(f.physical_rows for f in written) == sum(f.num_rows for f in replaced)
    require_complete_rows(table.location, written)
    record_rows(table.location, written)
    return WrittenGroup(table.version, tuple(replaced), written)


def _make_task(table: Table, fragments: Sequence[FragmentMetadata]) -> str:
    """Encode a compaction task of Lance."""
    described = ",".join(_encode_fragment(fragment) for fragment in fragments)
    rest = json.dumps({"read_version": table.version, "options": _TASK_OPTIONS})
    return f'{{"task":{{"fragments":[{described}]}},{rest[1:]}'


def _encode_fragment(fragment: FragmentMetadata) -> str:
    """Encode a fragment as `to_json` does, several times as fast."""
    if fragment.overlays or fragment.deletion_file is not None:
        return json.dumps(fragment.to_json())
    row_ids = fragment.row_id_meta
    plain = {
        "id": fragment.id,
        "files": [
            {"path": file.path, **{name: getattr(file, name) for name in _FILE_FIELDS}}
            for file in fragment.files
        ],
        "overlays": [],
        "physical_rows": fragment.physical_rows,
        "deletion_file": None,
        "row_id_meta": None if row_ids is None else row_ids.asdict(),  # type: ignore[attr-defined]
    }
    created, updated = fragment.created_at_version_meta, fragment.last_updated_at_version_meta
    return (
        f"{json.dumps(plain)[:-1]},"
        f'"created_at_version_meta":{created.json() if created else "null"},'
        f'"last_updated_at_version_meta":{updated.json() if updated else "null"}}}'
    )


def stage_rewrite(
    table: Table, groups: Sequence[WrittenGroup], *, properties: Mapping[str, str]
) -> StagedTransaction | None:
    """Stage the version of this table in which the written groups replace the old fragments.

    The table may be newer than the one they were written from: a group is skipped if any of its
    fragments was removed or lost rows since. None if all are skipped.
    """
    kept = [group for group in groups if _is_unchanged(table, group)]
    if not kept:
        return None
    next_id = _find_last_fragment_id(table) + 1
    rewritten = []
    for group in kept:
        for fragment in group.written:
            # Assigned here, because the commit would assign ids only after updating the indices.
            fragment.id, next_id = next_id, next_id + 1
        # Replaced fragments are identified by id; encoding all their files again is slow.
        replaced = [FragmentMetadata(old.id, [], old.physical_rows) for old in group.replaced]
        rewritten.append(LanceOperation.RewriteGroup(replaced, list(group.written)))
    operation = LanceOperation.Rewrite(rewritten, [])
    return stage_operation(table, operation, properties=properties)


def _is_unchanged(table: Table, group: WrittenGroup) -> bool:
    """Return whether the table still has every fragment of the group with all of its rows."""
    if table.version == group.base_version:
        return True
    for old in group.replaced:
        now = table.native.get_fragment(old.id)
        if now is None or now.metadata.to_json() != old.to_json():
            return False
    return True


def _find_last_fragment_id(table: Table) -> int:
    """Return the greatest id of any fragment, existing or still covered by an index.

    An index does not forget removed fragments: a new fragment with the id of a removed one would
    count as indexed.
    """
    with translate_errors(f"listing the fragments of {table!r}"):
        known = [max(table.fragment_ids())]
        for index in table.native.describe_indices():
            known += [max(segment.fragment_ids, default=0) for segment in index.segments]
    return max(known)


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """Files to write for one version of a table: merged fragments, or segments of indexes."""

    location: TableLocation
    version: int
    groups: tuple[tuple[int, ...], ...] = ()
    plans: tuple[SegmentPlan, ...] = ()

    @property
    def pieces(self) -> tuple[CompactionJob, ...]:
        """Split the job into jobs of one group or one segment each."""
        return (
            *(replace(self, groups=(group,), plans=()) for group in self.groups),
            *(replace(self, groups=(), plans=(plan,)) for plan in self.plans),
        )


@dataclass(frozen=True, slots=True)
class CompactionOutput:
    """The files written for a job, durable and not yet visible."""

    groups: tuple[WrittenGroup, ...] = ()
    segments: tuple[BuiltSegment, ...] = ()


def is_available(order: CompactionJob) -> bool:
    """Return whether the version to read from can be opened here."""
    try:
        open_table(order.location, order.version)
    except (HistoricalVersionReclaimed, StorageFailure) as failure:
        if not is_removed_by_cleanup(failure):
            raise
        return False
    return True


def run_job(order: CompactionJob) -> CompactionOutput | None:
    """Carry out a compaction job; None if the version to read from was removed."""
    try:
        # Open a second handle: Lance blocks the other users of a handle that builds an index.
        table = open_table(order.location, order.version)
        groups = write_groups(table, order.groups)
        return CompactionOutput(groups, tuple(build_segment(table, plan) for plan in order.plans))
    except (HistoricalVersionReclaimed, StorageFailure) as failure:
        if not is_removed_by_cleanup(failure):
            raise
        return None


def combine_outputs(deliveries: Iterable[CompactionOutput | None]) -> CompactionOutput | None:
    """Combine the outputs of the parts of a job; None if any is missing."""
    found = list(deliveries)
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    return CompactionOutput(
        tuple(group for part in parts for group in part.groups),
        tuple(segment for part in parts for segment in part.segments),
    )


def is_removed_by_cleanup(failure: HistoricalVersionReclaimed | StorageFailure) -> bool:
    """Return whether a read failed because cleanup removed the version."""
    if isinstance(failure, StorageFailure):
        return failure.kind is StorageKind.NOT_FOUND
    return True
