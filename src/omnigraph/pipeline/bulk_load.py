"""Load input in stages, to staged transactions that the graph commits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import pyarrow as pa

from omnigraph.catalog.catalog import Catalog
from omnigraph.catalog.codec import encode_ir
from omnigraph.errors import BadOptions, BadRequest, ExternalBlobPolicy, RowProblem, RowsRejected
from omnigraph.execution.embed_on_write import is_configured, list_embedded_properties
from omnigraph.execution.load_input import LoadMode, LoadOptions, find_match_key
from omnigraph.identity import TableKey
from omnigraph.pipeline.checks import SIZES, Checks
from omnigraph.pipeline.inputs import ColumnMapping, build_table_mapping, plan_inputs
from omnigraph.pipeline.kernels.complete_rows import NO_ADDRESS, MatchTask, match_rows
from omnigraph.pipeline.kernels.embed_kernel import make_embedder_spec
from omnigraph.pipeline.kernels.stage_kernel import (
    FrameSpec,
    StagedSplit,
    StageSpec,
    TablePiece,
    stage_partition,
    stage_split,
    stage_table,
)
from omnigraph.pipeline.kernels.write_kernel import FillTask, PlacedProblem, fill_rows
from omnigraph.pipeline.report import (
    Left,
    Origin,
    Places,
    list_first_problems,
    list_mismatches,
    list_repeated_keys,
    list_taken_ids,
    raise_repeated,
    raise_taken,
    raise_unreadable,
    write_rejects,
)
from omnigraph.pipeline.report import make_problem as violation_problem
from omnigraph.pipeline.staging_area import (
    REJECTS,
    ROW_OUTCOMES,
    Staged,
    StagingArea,
    build_staging_schema,
    commit_staging,
)
from omnigraph.pipeline.tasks import InlineTasks, SparkTasks, StageTime, Tasks
from omnigraph.pipeline.writing import Outputs
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import StagedTable, Ticket
from omnigraph.storage.tables import Table, write_fragments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files, folders and patterns."""

    places: tuple[str | Path, ...]
    name: str | None = ""
    """Name of the input in reports; empty for the names of its files."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table in memory."""

    table: pa.Table


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A Spark data frame."""

    frame: DataFrame


Source = FileSource | TableSource | FrameSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements of a load, for its report."""

    engine: str
    spark_app_id: str | None
    stages: tuple[StageTime, ...]
    rows: int
    bytes: int
    seconds: float
    left: Left


def list_vector_tables(
    snapshot: Snapshot, catalog: Catalog, mode: LoadMode
) -> dict[TableKey, Table]:
    """The tables whose rows keep their vectors in a merge, as far as vectors are made at all."""
    if mode is not LoadMode.MERGE or not is_configured(snapshot.root.settings.embed):
        return {}
    return {
        key: snapshot.table(key)
        for key, type_ in catalog.by_table_key.items()
        if list_embedded_properties(type_) and snapshot.entry(key).row_count
    }


class LoadJob:
    """One load. Stage once, then prepare on a snapshot as often as needed."""

    def __init__(self, root: GraphRoot, tasks: Tasks, source: Source, options: LoadOptions) -> None:
        self._root, self._tasks, self._source, self._options = root, tasks, source, options
        self._sizes = SIZES
        self._area = StagingArea(root, uuid4().hex)
        self._began = time.monotonic()
        self._ir: str | None = None
        self._versions: dict[TableKey, int | None] = {}
        """Versions of the tables that the input was matched with."""
        self._splits: list[StagedSplit] = []
        self._staged: dict[TableKey, Staged] = {}
        self._places = Places((), ())
        self._outputs = Outputs(root, tasks, options.mode, self._sizes, reusable=not options.skips)
        self._left = Left()
        self._left_of_type: Counter[TableKey] = Counter()
        """Number of readable rows of each type that were skipped."""
        self._rejects: Table | None = None

    def close(self) -> None:
        """Remove what was staged."""
        self._area.remove()

    @property
    def counts(self) -> Mapping[TableKey, int]:
        """Number of records of each type that were loaded."""
        counts: Counter[TableKey] = Counter()
        for split in self._splits:
            counts.update({key: one.rows for key, one in split.tables.items()})
        counts.subtract(self._left_of_type)
        return {key: counts[key] for key in sorted(counts) if counts[key]}

    def list_stage_times(self) -> Measured:
        return Measured(
            engine=self._tasks.engine,
            spark_app_id=self._tasks.application,
            stages=tuple(self._tasks.times),
            rows=sum(self.counts.values()),
            bytes=sum(split.bytes for split in self._splits),
            seconds=time.monotonic() - self._began,
            left=self._left,
        )

    # --- reading ---------------------------------------------------------------------------------

    def prepare(
        self, snapshot: Snapshot, catalog: Catalog, ticket: Ticket
    ) -> tuple[StagedTable, ...]:
        """One staged transaction for each table the load changes.

        Raises:
            RowsRejected: records cannot be read.
            ConstraintViolated: a rule of the schema is broken.
            KeyConflict: an id is there already, or twice.
        """
        matched = self._list_matched(snapshot, catalog)
        self._stage(catalog, matched, list_vector_tables(snapshot, catalog, self._options.mode))
        self._left = self._find_unreadable()
        staged = {key: one for key, one in self._staged.items() if self._is_touched(key)}
        checks = Checks(
            tasks=self._tasks,
            area=self._area,
            ir=self._build_schema(),
            catalog=catalog,
            options=self._options,
            snapshot=snapshot,
            places=self._places,
            minted=self._mint(),
            sizes=self._sizes,
            left=self._left,
            rejects=self._area.fresh("ruled-out") if self._options.rejects is not None else None,
        )
        touched = sorted({*staged, *(k for s in self._splits for k in s.mismatch_counts)})
        try:
            staged = checks.find_keys(staged)
            self._raise_or_leave(checks, touched)
            if self._options.partial:
                staged = self._fill(staged, checks, catalog)
            staged = checks.check(staged)
            if not self._options.skips:
                self._raise_taken(checks, sorted(staged))
        finally:
            self._write_rejects(checks)
        written = self._outputs.write(snapshot, ticket, staged, self._build_schema())
        if self._options.skips:
            self._count_left(checks)
        return written

    def _build_schema(self) -> str:
        assert self._ir is not None, "the input is staged first"
        return self._ir

    def _is_touched(self, key: TableKey) -> bool:
        return self._staged[key].rows > 0

    def _list_matched(self, snapshot: Snapshot, catalog: Catalog) -> dict[TableKey, Table | None]:
        """The edges of types whose edges without ids are looked up; None where there are none."""
        if self._options.mode is not LoadMode.MERGE:
            return {}
        keys = []
        for key, type_ in catalog.by_table_key.items():
            with suppress(BadOptions):  # a type that cannot be matched may not be in the input
                if find_match_key(type_, self._options.match) is not None:
                    keys.append(key)
        return {key: snapshot.table(key) if snapshot.entry(key).row_count else None for key in keys}

    def _stage(
        self,
        catalog: Catalog,
        matched: Mapping[TableKey, Table | None],
        stored: Mapping[TableKey, Table],
    ) -> None:
        """Read the input once for each schema it meets, and for each state it is matched with."""
        ir = encode_ir(catalog)
        versions = {key: None if one is None else one.version for key, one in matched.items()}
        if (self._ir, self._versions) == (ir, versions):
            return
        self._versions = versions
        if self._ir is not None:
            self._area.remove()
            self._area = StagingArea(self._root, uuid4().hex)
            self._outputs.forget()
            self._rejects = None
        self._ir = ir
        locations = {key: self._area.table_location(key) for key in catalog.by_table_key}
        rejects = self._area.location("rejects") if self._options.rejects is not None else None
        spec = StageSpec(
            ir=ir,
            locations=locations,
            aws=self._root.settings.aws,
            options=self._options,
            input=self._root.settings.input,
            rejects=rejects,
            embedder_spec=make_embedder_spec(self._root),
            matched=matched,
            stored=stored,
        )
        origins = self._read(spec, catalog)
        self._places = Places(origins, [split.lines for split in self._splits])
        self._staged = {}
        for key, type_ in catalog.by_table_key.items():
            texts = [t for s in self._splits if key in s.tables for t in s.tables[key].fragments]
            schema = build_staging_schema(type_, with_presence=self._options.partial)
            table = commit_staging(locations[key], schema, texts)
            if table is not None:
                rows = sum(s.tables[key].rows for s in self._splits if key in s.tables)
                self._staged[key] = Staged(table, rows)

    def _read(self, spec: StageSpec, catalog: Catalog) -> list[Origin]:
        """Stage the whole input; gives the origin of each piece."""
        match self._source:
            case FileSource():
                return self._read_files(self._source, spec, catalog)
            case TableSource():
                return self._read_table(self._source, spec, catalog)
            case FrameSource():
                return self._read_frame(self._source, spec, catalog)

    def _read_files(self, source: FileSource, spec: StageSpec, catalog: Catalog) -> list[Origin]:
        split_bytes = self._sizes.split_bytes
        inputs = plan_inputs(source.places, self._options, catalog, spec.aws, split_bytes)
        self._splits = self._tasks.run(stage_split, inputs.splits, spec, stage="read")
        return [
            Origin(split.file.name if source.name == "" else source.name, split.start == 0)
            for split in inputs.splits
        ]

    def _read_table(self, source: TableSource, spec: StageSpec, catalog: Catalog) -> list[Origin]:
        mapping = self._build_mapping(catalog)
        location = self._area.location("input")
        plain = pa.table(source.table.columns, names=source.table.column_names)
        rows = write_fragments(location, plain, rows_per_file=1 << 18)
        table = commit_staging(location, plain.schema, rows)
        pieces = []
        if table is not None and plain.num_rows:
            pieces = [
                TablePiece(number=number, table=table, fragments=(fragment.id,), mapping=mapping)
                for number, fragment in enumerate(table.fragments())
            ]
        self._splits = self._tasks.run(stage_table, pieces, spec, stage="read") if pieces else []
        return [Origin() for _ in pieces]

    def _read_frame(self, source: FrameSource, spec: StageSpec, catalog: Catalog) -> list[Origin]:
        mapping = self._build_mapping(catalog)
        if not isinstance(self._tasks, SparkTasks):
            raise BadRequest("a Spark data frame is loaded on Spark; use engine='spark'")
        self._splits = self._tasks.map_rows(
            source.frame, stage_partition, FrameSpec(spec, mapping), stage="read"
        )
        for place, split in enumerate(self._splits):
            assert split.split == place, "every partition answers once, in order"
        return [Origin() for _ in self._splits]

    def _build_mapping(self, catalog: Catalog) -> ColumnMapping:
        options = self._options
        mapping = build_table_mapping(catalog, options.need_type(), options.columns, options.select)
        assert mapping is not None, "a type was named"
        return mapping

    # --- deciding --------------------------------------------------------------------------------

    def _find_unreadable(self) -> Left:
        """Raise for records that cannot be read, or note that they are left out."""
        left = Left()
        if self._options.skips:
            left.add(list_first_problems(self._splits, self._places))
            return left
        try:
            raise_unreadable(self._splits, self._places)
        except RowsRejected:
            self._write_rejects()
            raise
        return left

    def _raise_or_leave(self, checks: Checks, touched: Sequence[TableKey]) -> None:
        if not self._options.skips:
            raise_repeated(self._splits, checks.keys, touched, self._places)
            return
        for key in touched:
            problems, _ = list_mismatches(self._splits, key, self._places)
            self._left.add(problems)
            found = checks.keys.get(key, ())
            repeated = [violation_problem(v) for v in list_repeated_keys(found, self._places)]
            self._left.add([*repeated, *list_taken_ids(found, self._places)])

    def _count_left(self, checks: Checks) -> None:
        """Every row that was neither written nor superseded by another was left out, once."""
        written, left = self._outputs.rows, self._left_of_type
        left.clear()
        for key, one in self._staged.items():
            superseded = sum(found.superseded for found in checks.keys.get(key, ()))
            left[key] = one.rows - superseded - written.get(key, 0)
        unread = sum(split.problem_count for split in self._splits)
        mismatched = sum(split.mismatch_counts.total() for split in self._splits)
        self._left.total = unread + mismatched + left.total()

    def _raise_taken(self, checks: Checks, touched: Sequence[TableKey]) -> None:
        for key in touched:
            addresses = [s.tables[key].address for s in self._splits if key in s.tables]
            known = [address for address in addresses if address is not None]
            if known and not any(one.dropped for one in checks.keys[key]):
                raise ExternalBlobPolicy(known[0], NO_ADDRESS)
            raise_taken(key, checks.keys[key], self._places)

    def _mint(self) -> frozenset[TableKey]:
        explicit = {
            key
            for split in self._splits
            for key, one in split.tables.items()
            if not one.all_minted and one.rows
        }
        return frozenset(self._staged) - explicit

    def _write_rejects(self, checks: Checks | None = None) -> None:
        if self._options.rejects is None:
            return
        if self._rejects is None:
            texts = [text for split in self._splits for text in split.rejects]
            self._rejects = commit_staging(self._area.location("rejects"), REJECTS, texts)
        ruled = None
        if checks is not None and checks.rejects is not None:
            ruled = commit_staging(checks.rejects, REJECTS, checks.rejected)
        tables = [table for table in (self._rejects, ruled) if table is not None]
        write_rejects(self._options.rejects, tables, self._places)

    # --- partial records -------------------------------------------------------------------------

    def _fill(
        self, staged: Mapping[TableKey, Staged], checks: Checks, catalog: Catalog
    ) -> dict[TableKey, Staged]:
        """Partial records made whole with what the graph holds."""
        targets = {key: self._area.fresh("whole") for key in staged}
        drops = {key: self._area.fresh("drops") for key in staged} if self._options.skips else {}
        tasks = [
            FillTask(
                table_key=key,
                staged=one,
                fragment=fragment.id,
                base=checks.base(key),
                target=targets[key],
                drop_to=drops.get(key),
            )
            for key, one in staged.items()
            for fragment in one.table.fragments()
        ]
        found = self._tasks.run(fill_rows, tasks, self._build_schema(), stage="fill")
        total = sum(one.problem_count for one in found)
        shown = [self._locate(p) for one in found for p in one.problems][:100]
        if total and not self._options.skips:
            raise RowsRejected(shown, total)
        self._left.add(shown)
        result = {}
        for key, one in staged.items():
            mine = [f for f in found if f.table_key == key]
            schema = build_staging_schema(catalog.by_table_key[key])
            table = commit_staging(targets[key], schema, [t for f in mine for t in f.fragments])
            assert table is not None
            dropped = [text for f in mine for text in f.row_outcomes]
            row_outcomes = commit_staging(drops[key], ROW_OUTCOMES, dropped) if dropped else None
            result[key] = replace(one, table=table).with_row_outcomes(row_outcomes)
        return result

    def _locate(self, placed: PlacedProblem) -> RowProblem:
        file, line = self._places.of(placed.position)
        return msgspec.structs.replace(placed.problem, file=file, line=line)


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """Rows that executors staged, and how they become a commit."""

    uri: str
    branch: str
    mode: LoadMode
    partial: bool
    actor: str | None
    area: str
    ir: str
    splits: Sequence[StagedSplit]
    origin: str | None = None
    """Identity of the write; a branch that has a commit of this origin is left unchanged."""
    message: str | None = None
    """A text kept with the commit."""


class StagedLoad(LoadJob):
    """Checks and writes rows that lie in a staging area; the process that commits runs it."""

    def __init__(self, root: GraphRoot, write: StagedWrite) -> None:
        options = LoadOptions(mode=write.mode, partial=write.partial)
        super().__init__(root, InlineTasks(), FileSource(()), options)
        self._area = StagingArea(root, write.area)
        self._given: list[StagedSplit] = sorted(write.splits, key=lambda one: one.split)
        self._staged_for = write.ir
        self._without_ids: dict[TableKey, Staged] = {}
        """Edges as they were staged, of types that they are looked up in."""

    def _stage(
        self,
        catalog: Catalog,
        matched: Mapping[TableKey, Table | None],
        stored: Mapping[TableKey, Table],
    ) -> None:
        """Take the rows as they are; edges without ids are looked up in every state anew."""
        is_first = self._ir is None
        super()._stage(catalog, {}, stored)
        if is_first:
            there = {key: self._staged[key] for key in matched if key in self._staged}
            self._without_ids = {key: one for key, one in there.items() if _lacks_ids(one.table)}
        for key, staged in self._without_ids.items():
            self._outputs.forget()
            schema = build_staging_schema(
                catalog.by_table_key[key], with_presence=self._options.partial
            )
            self._staged[key] = self._match(key, staged, matched[key], schema)

    def _match(
        self, key: TableKey, staged: Staged, base: Table | None, schema: pa.Schema
    ) -> Staged:
        """Stage edges anew with the ids of the stored edges they match."""
        target = self._area.fresh("matched")
        tasks = [
            MatchTask(table_key=key, staged=staged.table, fragment=one.id, base=base, target=target)
            for one in staged.table.fragments()
        ]
        found = self._tasks.run(match_rows, tasks, self._build_schema(), stage="match")
        table = commit_staging(target, schema, [one for part in found for one in part])
        assert table is not None, "there are rows"
        return replace(staged, table=table)

    def _read(
        self,
        spec: StageSpec,
        catalog: Catalog,  # noqa: ARG002 - reading here is over
    ) -> list[Origin]:
        if spec.ir != self._staged_for:
            raise BadRequest("the schema was changed while rows were written; write them again")
        self._splits = self._given
        return [Origin() for _ in self._given]


def _lacks_ids(table: Table) -> bool:
    return any(batch.column("id").null_count for batch in table.batches(["id"]))
