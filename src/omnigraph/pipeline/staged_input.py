"""Stage the input of a load: rows of files, tables and data frames as tables of a staging area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog
from omnigraph.catalog.codec import encode_ir
from omnigraph.embedding.row_vectors import is_configured
from omnigraph.embedding.text_vectors import open_task_vectors
from omnigraph.errors import BadOptions, BadRequest
from omnigraph.execution.load_options import LoadMode, LoadOptions, find_match_key
from omnigraph.identity import TableKey
from omnigraph.pipeline.check_stages import Sizes
from omnigraph.pipeline.input_splits import (
    ColumnMapping,
    FileSource,
    FrameSource,
    TableSource,
    build_table_mapping,
    plan_inputs,
)
from omnigraph.pipeline.kernels.stage_kernel import (
    FrameSpec,
    StagedSplit,
    StageSpec,
    TablePiece,
    stage_partition,
    stage_split,
    stage_table,
)
from omnigraph.pipeline.kernels.staged_blocks import MatchTask, match_rows
from omnigraph.pipeline.load_report import Origin, SourceMap
from omnigraph.pipeline.staging_area import (
    REJECTS,
    Staged,
    StagingArea,
    build_staging_schema,
    commit_staging,
)
from omnigraph.pipeline.tasks import SparkTasks, Tasks
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table, write_fragments


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows that executors staged in an area, and their schema."""

    area: str
    ir: str
    splits: Sequence[StagedSplit]


Source = FileSource | TableSource | FrameSource | StagedRows


def list_vector_tables(
    snapshot: Snapshot, catalog: Catalog, mode: LoadMode
) -> dict[TableKey, Table]:
    """List the tables whose rows may keep their vectors in a merge; none without a provider."""
    if mode is not LoadMode.MERGE or not is_configured(snapshot.root.settings.embed):
        return {}
    return {
        key: snapshot.table(key)
        for key, type_ in catalog.by_table_key.items()
        if type_.embedded and snapshot.entry(key).row_count
    }


class StagedInput:
    """Staged input of a load, in one table for each type.

    It is read once for each schema, and matched once for each state.
    """

    def __init__(
        self, root: GraphRoot, tasks: Tasks, source: Source, options: LoadOptions, sizes: Sizes
    ) -> None:
        self._root, self._tasks, self._source = root, tasks, source
        self._options, self._sizes = options, sizes
        given = source.area if isinstance(source, StagedRows) else uuid4().hex
        self.area = StagingArea(root, given)
        self.tables: dict[TableKey, Staged] = {}
        self.splits: list[StagedSplit] = []
        self.source_map = SourceMap((), ())
        self._ir: str | None = None
        self._versions: dict[TableKey, int | None] = {}
        """Versions of the tables that the input was matched with."""
        self._without_ids: dict[TableKey, Staged] = {}
        """Staged edges without ids, of types whose stored edges they are matched with."""

    def close(self) -> None:
        """Remove the staged rows."""
        self.area.remove()

    @property
    def ir(self) -> str:
        assert self._ir is not None, "the input is staged first"
        return self._ir

    def list_minted(self) -> frozenset[TableKey]:
        """List the types whose ids were all created by the load."""
        explicit = {
            key
            for split in self.splits
            for key, one in split.tables.items()
            if not one.all_minted and one.rows
        }
        return frozenset(self.tables) - explicit

    def commit_rejects(self) -> Table | None:
        """Return the table of the records that cannot be read; None without any."""
        texts = [text for split in self.splits for text in split.rejects]
        return commit_staging(self.area.location("rejects"), REJECTS, texts)

    def stage(self, snapshot: Snapshot, catalog: Catalog) -> bool:
        """Stage the input for a state; return whether the staged rows changed."""
        matched = self._list_matched(snapshot, catalog)
        if not isinstance(self._source, StagedRows):
            vectors = list_vector_tables(snapshot, catalog, self._options.mode)
            return self._stage(catalog, matched, vectors)
        is_first = self._stage(catalog, {}, {})
        if is_first:
            there = {key: self.tables[key] for key in matched if key in self.tables}
            self._without_ids = {key: one for key, one in there.items() if _lacks_ids(one.table)}
        for key, staged in self._without_ids.items():
            self.tables[key] = self._match(key, staged, matched[key], catalog)
        return is_first or bool(self._without_ids)

    def _list_matched(self, snapshot: Snapshot, catalog: Catalog) -> dict[TableKey, Table | None]:
        """List the stored edges of types whose edges without ids are looked up; None for none."""
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
    ) -> bool:
        ir = encode_ir(catalog)
        versions = {key: None if one is None else one.version for key, one in matched.items()}
        if (self._ir, self._versions) == (ir, versions):
            return False
        self._versions = versions
        if self._ir is not None:
            self.area.remove()
            self.area = StagingArea(self._root, uuid4().hex)
        self._ir = ir
        locations = {key: self.area.table_location(key) for key in catalog.by_table_key}
        rejects = self.area.location("rejects") if self._options.rejects is not None else None
        spec = StageSpec(
            ir=ir,
            locations=locations,
            aws=self._root.settings.aws,
            options=self._options,
            input=self._root.settings.input,
            rejects=rejects,
            vectors=open_task_vectors(self._root),
            matched=matched,
            stored=stored,
        )
        origins = self._read(spec, catalog)
        self.source_map = SourceMap(origins, [split.lines for split in self.splits])
        self.tables = {}
        for key, type_ in catalog.by_table_key.items():
            texts = [t for s in self.splits if key in s.tables for t in s.tables[key].fragments]
            schema = build_staging_schema(type_, with_presence=self._options.partial)
            table = commit_staging(locations[key], schema, texts)
            if table is not None:
                rows = sum(s.tables[key].rows for s in self.splits if key in s.tables)
                self.tables[key] = Staged(table, rows)
        return True

    def _read(self, spec: StageSpec, catalog: Catalog) -> list[Origin]:
        """Stage the whole input; return the origin of each piece."""
        match self._source:
            case FileSource():
                return self._read_files(self._source, spec, catalog)
            case TableSource():
                return self._read_table(self._source, spec, catalog)
            case FrameSource():
                return self._read_frame(self._source, spec, catalog)
            case StagedRows():
                if spec.ir != self._source.ir:
                    reason = "the schema was changed while rows were written; write them again"
                    raise BadRequest(reason)
                self.splits = sorted(self._source.splits, key=lambda one: one.split)
                return [Origin() for _ in self.splits]

    def _read_files(self, source: FileSource, spec: StageSpec, catalog: Catalog) -> list[Origin]:
        split_bytes = self._sizes.split_bytes
        splits = plan_inputs(source.paths, self._options, catalog, spec.aws, split_bytes)
        self.splits = self._tasks.run(stage_split, splits, spec, stage="read")
        return [
            Origin(split.file.name if source.name == "" else source.name, split.start == 0)
            for split in splits
        ]

    def _read_table(self, source: TableSource, spec: StageSpec, catalog: Catalog) -> list[Origin]:
        mapping = self._build_mapping(catalog)
        location = self.area.location("input")
        plain = pa.table(source.table.columns, names=source.table.column_names)
        rows = write_fragments(location, plain, rows_per_file=1 << 18)
        table = commit_staging(location, plain.schema, rows)
        pieces = []
        if table is not None and plain.num_rows:
            pieces = [
                TablePiece(number=number, table=table, fragments=(fragment.id,), mapping=mapping)
                for number, fragment in enumerate(table.fragments())
            ]
        self.splits = self._tasks.run(stage_table, pieces, spec, stage="read") if pieces else []
        return [Origin() for _ in pieces]

    def _read_frame(self, source: FrameSource, spec: StageSpec, catalog: Catalog) -> list[Origin]:
        mapping = self._build_mapping(catalog)
        if not isinstance(self._tasks, SparkTasks):
            raise BadRequest("a Spark data frame is loaded on Spark; use engine='spark'")
        self.splits = self._tasks.map_rows(
            source.frame, stage_partition, FrameSpec(spec, mapping), stage="read"
        )
        for index, split in enumerate(self.splits):
            assert split.split == index, "every partition answers once, in order"
        return [Origin() for _ in self.splits]

    def _build_mapping(self, catalog: Catalog) -> ColumnMapping:
        options = self._options
        mapping = build_table_mapping(catalog, options.need_type(), options.columns, options.select)
        assert mapping is not None, "a type was named"
        return mapping

    def _match(self, key: TableKey, staged: Staged, base: Table | None, catalog: Catalog) -> Staged:
        """Stage edges again, with the ids of the stored edges they match."""
        type_, partial = catalog.by_table_key[key], self._options.partial
        schema = build_staging_schema(type_, with_presence=partial)
        target = self.area.fresh("matched")
        tasks = [
            MatchTask(table_key=key, staged=staged.table, fragment=one.id, base=base, target=target)
            for one in staged.table.fragments()
        ]
        found = self._tasks.run(match_rows, tasks, self.ir, stage="match")
        table = commit_staging(target, schema, [one for part in found for one in part])
        assert table is not None, "there are rows"
        return replace(staged, table=table)


def _lacks_ids(table: Table) -> bool:
    return any(batch.column("id").null_count for batch in table.batches(["id"]))
