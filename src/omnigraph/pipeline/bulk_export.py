"""Export a snapshot as files, by tasks."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.catalog.codec import encode_ir
from omnigraph.errors import BadRequest
from omnigraph.execution.stored_rows import build_logical_schema, convert_from_table_rows
from omnigraph.identity import EntityKind, TableKey
from omnigraph.pipeline.input_splits import open_filesystem, store_path
from omnigraph.pipeline.kernels.write_kernel import group_fragments
from omnigraph.pipeline.staging_area import decode_catalog_cached
from omnigraph.pipeline.tasks import StageTime, Tasks
from omnigraph.result import Result
from omnigraph.settings import AwsSettings
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table
from omnigraph.types.arrow import BLOB
from omnigraph.types.to_json import export_lines

ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSpec:
    ir: str
    format: str
    aws: AwsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTask:
    """Some fragments of a table, and the file their rows go to."""

    table_key: TableKey
    table: Table
    fragments: tuple[int, ...]
    path: str


class ExportedFile(Result, frozen=True, kw_only=True):
    """One file of an export."""

    table_key: TableKey
    path: str
    rows: int
    bytes: int


def export_fragments(spec: ExportSpec, task: ExportTask) -> ExportedFile:
    """Write one whole file; a repeated run writes the same file."""
    type_ = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    rows = 0
    with _write_whole_file(task.path, spec.aws) as stream:
        writer = _Parquet(stream) if spec.format == "parquet" else _Lines(stream, type_)
        for batch in _read_rows(task, type_):
            writer.add(batch)
            rows += batch.num_rows
        writer.close(type_)
        size = stream.tell()
    return ExportedFile(table_key=task.table_key, path=task.path, rows=rows, bytes=size)


def _read_rows(task: ExportTask, type_: NodeType | EdgeType) -> Iterator[pa.RecordBatch]:
    for batch in task.table.batches(
        fragments=task.fragments, blob_bytes=True, batch_size=ROWS_AT_ONCE
    ):
        yield from convert_from_table_rows(pa.Table.from_batches([batch]), type_).to_batches()


class _Lines:
    """Records as JSON lines."""

    def __init__(self, stream: Any, type_: NodeType | EdgeType) -> None:  # noqa: ANN401
        self._stream, self._type = stream, type_

    def add(self, batch: pa.RecordBatch) -> None:
        self._stream.write(export_lines(self._type.name, self._type.kind, batch))

    def close(self, type_: NodeType | EdgeType) -> None: ...


class _Parquet:
    """Columns as Parquet; a blob is a column of bytes."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - a file of Arrow
        self._stream = stream
        self._writer: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - only where Parquet is written

        plain = _convert_plain(batch)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._stream, plain.schema, compression="zstd")
        self._writer.write_batch(plain)

    def close(self, type_: NodeType | EdgeType) -> None:
        if self._writer is None:
            self.add(_make_empty_rows(type_))
        self._writer.close()


def _make_empty_rows(type_: NodeType | EdgeType) -> pa.RecordBatch:
    schema = build_logical_schema(type_)
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _convert_plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = {"src": "from", "dst": "to"}
    has_ends = {"src", "dst"} <= set(batch.schema.names)
    columns, fields = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        is_blob = field.type == BLOB
        values = pc.struct_field(column, "data") if is_blob else column
        name = names.get(field.name, field.name) if has_ends else field.name
        columns.append(values)
        fields.append(pa.field(name, values.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


@contextlib.contextmanager
def _write_whole_file(path: str, aws: AwsSettings) -> Iterator[Any]:
    """Write a file that appears under its name only when it is complete."""
    store = open_filesystem(path, aws)
    if path.startswith("s3://"):
        with store.open_output_stream(store_path(path)) as stream:
            yield stream
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{uuid4().hex[:8]}")
    try:
        with store.open_output_stream(str(partial)) as stream:
            yield stream
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


FORMATS = ("jsonl", "parquet")
ROWS_PER_FILE = 1 << 20
SUMMARY = "_export.json"

_FOLDERS = {EntityKind.NODE: "nodes", EntityKind.EDGE: "edges"}


class ExportResult(Result, frozen=True, kw_only=True):
    """Result of an export."""

    out: str
    format: str
    engine: str
    spark_app_id: str | None
    files: tuple[ExportedFile, ...]
    rows: int
    bytes: int
    seconds: float
    stages: tuple[StageTime, ...]


def export_files(
    tasks: Tasks,
    snapshot: Snapshot,
    catalog: Catalog,
    types: Sequence[NodeType | EdgeType],
    out: str | Path,
    format: str,
    rows_per_file: int = ROWS_PER_FILE,
) -> ExportResult:
    """Export every row of these types to files of a folder that must be new or empty."""
    if format not in FORMATS:
        raise BadRequest(f"format '{format}' is not one of {', '.join(FORMATS)}")
    began, aws = time.monotonic(), snapshot.root.settings.aws
    target = str(out).rstrip("/")
    _require_empty(target)
    planned = [
        ExportTask(
            table_key=type_.table_key,
            table=snapshot.table(type_.table_key),
            fragments=group,
            path=_make_file_name(target, type_, n, format),
        )
        for type_ in types
        for n, group in enumerate(_group_fragments(snapshot, type_, rows_per_file))
    ]
    spec = ExportSpec(ir=encode_ir(catalog), format=format, aws=aws)
    files = tasks.run(export_fragments, planned, spec, stage="export") if planned else []
    result = ExportResult(
        out=target,
        format=format,
        engine=tasks.engine,
        spark_app_id=tasks.application,
        files=tuple(files),
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
        seconds=round(time.monotonic() - began, 3),
        stages=tuple(tasks.times),
    )
    _write_summary(target, result, snapshot, aws)
    return result


def _group_fragments(
    snapshot: Snapshot, type_: NodeType | EdgeType, rows_per_file: int
) -> list[tuple[int, ...]]:
    if not snapshot.entry(type_.table_key).row_count:
        return []
    return group_fragments(snapshot.table(type_.table_key), rows_per_file)


def _make_file_name(out: str, type_: NodeType | EdgeType, number: int, format: str) -> str:
    return f"{out}/{_FOLDERS[type_.kind]}/{type_.name}/part-{number:05}.{format}"


def _require_empty(path: str) -> None:
    if path.startswith("s3://"):
        return
    folder = Path(path.removeprefix("file://"))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadRequest(f"{path} is not an empty folder")


def _write_summary(out: str, result: ExportResult, snapshot: Snapshot, aws: AwsSettings) -> None:
    counts: dict[str, int] = {}
    for file in result.files:
        counts[file.table_key] = counts.get(file.table_key, 0) + file.rows
    text = json.dumps(
        {"graph_commit_id": snapshot.head, "format": result.format, "rows": counts}, indent=2
    )
    path = f"{out}/{SUMMARY}"
    if not out.startswith("s3://"):
        Path(out).mkdir(parents=True, exist_ok=True)
    with open_filesystem(path, aws).open_output_stream(store_path(path)) as stream:
        stream.write(text.encode() + b"\n")
