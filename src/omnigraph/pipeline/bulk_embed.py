"""Embed the records of a file, or the rows of a graph, by tasks.

A task requests the texts that have no stored answer, in batches, and stores each answer before the
next request, so that a run that starts over finds them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa

from omnigraph.catalog.catalog import Catalog
from omnigraph.catalog.codec import encode_ir
from omnigraph.constraints.table_changes import get_column
from omnigraph.embedding.embed_files import (
    EmbedRequest,
    EmbedSpec,
    EmbedSummary,
    EmbedTarget,
    LineRange,
    check_request,
    embed_file,
    render_field,
)
from omnigraph.embedding.embedder_choice import choose_model, open_embedder
from omnigraph.embedding.row_vectors import (
    Flags,
    GraphTarget,
    fill_vectors,
    list_graph_targets,
    mask_null,
)
from omnigraph.embedding.text_vectors import AnswerFolder, Pace, TextVectors, open_task_vectors
from omnigraph.errors import BadRequest, EmbeddingFailed
from omnigraph.execution.load_options import LoadMode, LoadOptions
from omnigraph.execution.read import Given
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.identity import TableKey
from omnigraph.output_files import OutputFile
from omnigraph.pipeline.bulk_load import LoadJob
from omnigraph.pipeline.input_splits import ColumnMapping
from omnigraph.pipeline.kernels.stage_kernel import (
    FrameSpec,
    StagedSplit,
    StageSpec,
    stage_partition,
)
from omnigraph.pipeline.staged_input import StagedRows
from omnigraph.pipeline.staging_area import StagingArea
from omnigraph.pipeline.table_scan import TableScan, plan_partitions, scan_rows
from omnigraph.pipeline.tasks import InlineTasks, Partition, Tasks
from omnigraph.plan.expressions import AnyOf, IsNull, Predicate, PropertyValue
from omnigraph.plan.plan_nodes import ROW
from omnigraph.settings import EmbedSettings
from omnigraph.storage.prepared_write import StagedTable, Ticket
from omnigraph.storage.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Failed:
    """Failure of a provider, which an immediate retry of the task would not change."""

    reason: str


# --- records of a file ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some lines of the input, and the index of their piece."""

    number: int
    lines: LineRange


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWork:
    """Settings shared by the tasks of a file: the request, and a folder for pieces."""

    request: EmbedRequest
    folder: Path
    vectors: TextVectors

    def output(self, number: int) -> Path:
        return self.folder / f"{number:06}.out"


def embed_piece(work: FileWork, piece: Piece) -> EmbedSummary | Failed:
    """Write the records of one piece, with their vectors, to a file of their own."""
    request = replace(
        work.request, lines=piece.lines, output=work.output(piece.number), is_resumable=False
    )
    vectors = work.vectors
    try:
        embedder = open_embedder(vectors.settings)
        return embed_file(request, embedder, pace=vectors.pace, answers=vectors.answers)
    except EmbeddingFailed as failure:
        return Failed(failure.message)


# --- rows of a graph ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask:
    """Fragments of a type, and the vectors to fill."""

    number: int
    scan: TableScan
    fragments: tuple[int, ...]
    fills: tuple[EmbedTarget, ...]
    replaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWork:
    """Settings shared by the tasks of a graph."""

    stage: StageSpec
    vectors: TextVectors


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedRows:
    """The rows of one task that got a vector, staged as whole rows."""

    split: StagedSplit
    vectors: int


def embed_rows(work: RowWork, task: RowTask) -> EmbeddedRows | Failed:
    """Stage the rows that get a vector; rows without text are left as they are."""
    type_ = task.scan.type_
    plain = pa.schema([(field.name, field.type) for field in build_logical_schema(type_)])
    rows = pa.Table.from_batches(scan_rows(task.scan, task.fragments), plain)
    changed: Flags = np.zeros(rows.num_rows, dtype=np.bool_)
    count = 0
    for fill in task.fills:
        chosen = _choose_rows(task, fill, rows)
        property_ = type_.by_name[fill.target]
        try:
            rows = fill_vectors(type_, rows, property_, fill.fields, chosen, work.vectors)
        except EmbeddingFailed as failure:
            return Failed(failure.message)
        changed, count = changed | chosen, count + int(chosen.sum())
    filled = rows.take(pa.array(np.flatnonzero(changed)))
    spec = FrameSpec(work.stage, ColumnMapping(task.scan.table_key))
    split = stage_partition(spec, Partition(task.number, iter(filled.to_batches())))
    return EmbeddedRows(split=split, vectors=count)


def _choose_rows(task: RowTask, fill: EmbedTarget, rows: pa.Table) -> Flags:
    """Mask the rows that get a vector: those with a text, and without a vector unless replaced."""
    columns = [rows.column(name).to_pylist() for name in fill.fields]
    says = [any(map(render_field, values)) for values in zip(*columns, strict=True)]
    chosen: Flags = np.array(says, dtype=np.bool_)
    return chosen if task.replaces else chosen & mask_null(get_column(rows, fill.target))


Result = TypeVar("Result")

_LINES_PER_PIECE = 512
_ROWS_PER_TASK = 2_048


def _divide_work(per_minute: float | None, tasks: Tasks, count: int) -> float | None:
    """Return the number of texts that each concurrent task may request per minute."""
    if per_minute is None:
        return None
    return per_minute / max(1, min(tasks.parallelism, count))


def _require_successes(results: Sequence[Result | Failed]) -> list[Result]:
    """Return the results of all tasks; raise if one of them failed."""
    done: list[Result] = []
    for result in results:
        if isinstance(result, Failed):
            raise EmbeddingFailed(result.reason)
        done.append(result)
    return done


# --- files ----------------------------------------------------------------------------------------


def embed_file_in_tasks(
    tasks: Tasks, request: EmbedRequest, settings: EmbedSettings, per_minute: float | None
) -> EmbedSummary:
    """Write the output file and return the counts; it appears whole or not at all.

    Input, output and the folders next to it must be reachable by every executor.

    Raises:
        BadRequest: the request does not fit its spec, or a line of the input is no record.
        EmbeddingFailed: the provider failed.
    """
    check_request(request)
    output = OutputFile(request.output)
    open_embedder(settings)  # a missing key is reported before anything is started
    folder = request.output.with_name(f"{request.output.name}.pieces")
    answers = request.output.with_name(f"{request.output.name}.vectors")
    pieces = list(_split_pieces(request.input))
    pace = Pace(_divide_work(per_minute, tasks, len(pieces)))
    vectors = TextVectors(settings, AnswerFolder(str(answers.absolute())), pace)
    with _list_folders(folder, answers, is_kept=request.is_resumable):
        located = replace(request, input=request.input.absolute())
        work = FileWork(request=located, folder=folder.absolute(), vectors=vectors)
        done = _require_successes(tasks.run(embed_piece, pieces, work, stage="embed"))
        _gather(output, [work.output(piece.number) for piece in pieces])
    return _sum_counts(request, done, settings)


@contextmanager
def _list_folders(pieces: Path, answers: Path, *, is_kept: bool) -> Iterator[None]:
    """Provide the folders of tasks; answers outlive a failed run that may be resumed."""
    try:
        shutil.rmtree(pieces, ignore_errors=True)
        pieces.mkdir(parents=True)
    except OSError as error:
        raise BadRequest(f"cannot write {pieces}: {error.strerror}") from None
    is_done = False
    try:
        yield
        is_done = True
    finally:
        shutil.rmtree(pieces, ignore_errors=True)
        if is_done or not is_kept:
            shutil.rmtree(answers, ignore_errors=True)


def _split_pieces(source: Path) -> Iterator[Piece]:
    """Divide the input into pieces between lines."""
    number, start, first, end = 0, 0, 1, 0
    try:
        with source.open("rb") as file:
            for line, text in enumerate(file, start=1):
                end += len(text)
                if line - first + 1 == _LINES_PER_PIECE:
                    lines = LineRange(start=start, end=end, first_line=first)
                    yield Piece(number=number, lines=lines)
                    number, start, first = number + 1, end, line + 1
    except OSError as error:
        raise BadRequest(f"cannot read {source}: {error.strerror}") from None
    if end > start:
        yield Piece(number=number, lines=LineRange(start=start, end=end, first_line=first))


def _gather(output: OutputFile, parts: Sequence[Path]) -> None:
    scratch = output.path.with_name(f"{output.path.name}.tmp")
    try:
        with scratch.open("wb") as file:
            for part in parts:
                with part.open("rb") as piece:
                    shutil.copyfileobj(piece, file)
            file.flush()
            os.fsync(file.fileno())
        output.put(scratch)
    except OSError as error:
        raise BadRequest(f"cannot write {output.path}: {error.strerror}") from None
    finally:
        scratch.unlink(missing_ok=True)


def _sum_counts(
    request: EmbedRequest, done: Sequence[EmbedSummary], settings: EmbedSettings
) -> EmbedSummary:
    return EmbedSummary(
        input=str(request.input),
        output=str(request.output),
        records=sum(one.records for one in done),
        selected_records=sum(one.selected_records for one in done),
        embedded_records=sum(one.embedded_records for one in done),
        cleaned_records=0,
        mode=request.mode,
        dimension=request.spec.dimension,
        model=choose_model(settings),
    )


# --- graphs ---------------------------------------------------------------------------------------


@dataclass
class GraphEmbedding:
    """Stages that fill vectors: rows that lack one are staged with it, then merged.

    A state that others moved the branch to is read again; a text whose vector is stored among the
    answers is not requested again.
    """

    tasks: Tasks
    types: Sequence[str] = ()
    spec: EmbedSpec | None = None
    reembed_all: bool = False
    per_minute: float | None = None
    vectors: int = 0
    """Number of vectors that were computed."""
    _area: StagingArea | None = None
    _load: LoadJob | None = None

    @property
    def counts(self) -> Mapping[TableKey, int]:
        """Number of rows of each type that got a vector."""
        return {} if self._load is None else self._load.counts

    def prepare(
        self, snapshot: Snapshot, catalog: Catalog, ticket: Ticket
    ) -> tuple[StagedTable, ...]:
        """Stage one transaction for each table with new vectors.

        Raises:
            EmbeddingFailed: the provider failed; the answers it gave are stored.
        """
        self.close()
        self._area = area = StagingArea(snapshot.root, uuid4().hex)
        rows = self._stage(snapshot, catalog, area)
        self.vectors = sum(one.vectors for one in rows)
        if not self.vectors:
            return ()
        source = StagedRows(area.id, encode_ir(catalog), [one.split for one in rows])
        options = LoadOptions(mode=LoadMode.MERGE)
        self._load = LoadJob(snapshot.root, InlineTasks(), source, options)
        return self._load.prepare(snapshot, catalog, ticket)

    def close(self) -> None:
        """Remove what was staged."""
        if self._area is not None:
            self._area.remove()

    def _stage(self, snapshot: Snapshot, catalog: Catalog, area: StagingArea) -> list[EmbeddedRows]:
        """Stage the rows that get vectors."""
        ir, aws = encode_ir(catalog), snapshot.root.settings.aws
        locations = {key: area.table_location(key) for key in catalog.by_table_key}
        model = choose_model(snapshot.root.settings.embed)
        targets = list_graph_targets(catalog, self.types, self.spec, model)
        rows = list(self._plan_tasks(snapshot, ir, targets))
        share = _divide_work(self.per_minute, self.tasks, len(rows))
        options = LoadOptions(mode=LoadMode.MERGE)
        stage = StageSpec(ir=ir, locations=locations, aws=aws, options=options)
        work = RowWork(stage=stage, vectors=open_task_vectors(snapshot.root, share))
        return _require_successes(self.tasks.run(embed_rows, rows, work, stage="embed"))

    def _plan_tasks(
        self, snapshot: Snapshot, ir: str, targets: Sequence[GraphTarget]
    ) -> Iterator[RowTask]:
        """Yield one task for each group of fragments of each type: a row is staged once."""
        number = 0
        for key in sorted({target.type_.table_key for target in targets}):
            mine = [target for target in targets if target.type_.table_key == key]
            table, type_ = snapshot.table(key), mine[0].type_
            columns = tuple(build_logical_schema(type_).names)
            given = Given({}, datetime.now(UTC))
            scan = TableScan(
                ir=ir,
                table_key=key,
                table=table,
                made_at_ns=table.read_commit_time_ns(),
                columns=columns,
                given=given,
                filters=self._build_filters(mine),
                with_blobs=True,
            )
            fills = tuple(EmbedTarget(target.property.name, target.fields) for target in mine)
            for fragments in plan_partitions(table, _ROWS_PER_TASK):
                yield RowTask(
                    number=number,
                    scan=scan,
                    fragments=fragments,
                    fills=fills,
                    replaces=self.reembed_all,
                )
                number += 1

    def _build_filters(self, targets: Sequence[GraphTarget]) -> tuple[Predicate, ...]:
        if self.reembed_all:
            return ()
        vectors = [PropertyValue(ROW, t.property.name, t.property.type) for t in targets]
        return (AnyOf(tuple(IsNull(vector) for vector in vectors)),)
