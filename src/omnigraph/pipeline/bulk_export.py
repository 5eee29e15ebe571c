"""Writing a snapshot out as files, many at a time.

    <out>/nodes/<Type>/part-00000.jsonl      or .parquet
    <out>/edges/<Type>/part-00000.jsonl
    <out>/_export.json                       what is there, written last

A folder without the last file is an export that did not finish. Loading the folder gives the same
graph again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.catalog.codec import encode_ir
from omnigraph.errors import BadRequest
from omnigraph.identity import EntityKind
from omnigraph.pipeline.inputs import open_filesystem, store_path
from omnigraph.pipeline.kernels.export_kernel import (
    ExportedFile,
    ExportSpec,
    ExportTask,
    export_fragments,
)
from omnigraph.pipeline.kernels.write_kernel import group_fragments
from omnigraph.pipeline.tasks import StageTime, Tasks
from omnigraph.settings import AwsSettings
from omnigraph.storage.snapshot import Snapshot

FORMATS = ("jsonl", "parquet")
ROWS_PER_FILE = 1 << 20
SUMMARY = "_export.json"

_FOLDERS = {EntityKind.NODE: "nodes", EntityKind.EDGE: "edges"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """What an export wrote."""

    out: str
    format: str
    engine: str
    spark_app_id: str | None
    files: tuple[ExportedFile, ...]
    stages: tuple[StageTime, ...]
    seconds: float

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def wire(self) -> dict[str, object]:
        return {
            "out": self.out,
            "format": self.format,
            "engine": self.engine,
            "spark_app_id": self.spark_app_id,
            "files": [
                {"table_key": f.table_key, "path": f.place, "rows": f.rows, "bytes": f.bytes}
                for f in self.files
            ],
            "rows": self.rows,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "stages": [stage.wire() for stage in self.stages],
        }


def export_files(
    tasks: Tasks,
    snapshot: Snapshot,
    catalog: Catalog,
    types: Sequence[NodeType | EdgeType],
    out: str | Path,
    format: str,
    rows_per_file: int = ROWS_PER_FILE,
) -> ExportResult:
    """Every row of these types, in files of a folder that must be new or empty."""
    if format not in FORMATS:
        raise BadRequest(f"format '{format}' is not one of {', '.join(FORMATS)}")
    began, aws = time.monotonic(), snapshot.root.settings.aws
    place = str(out).rstrip("/")
    _require_empty(place)
    planned = [
        ExportTask(
            table_key=type_.table_key,
            table=snapshot.table(type_.table_key),
            fragments=group,
            place=_make_file_name(place, type_, n, format),
        )
        for type_ in types
        for n, group in enumerate(_group_fragments(snapshot, type_, rows_per_file))
    ]
    spec = ExportSpec(ir=encode_ir(catalog), format=format, aws=aws)
    files = tasks.run(export_fragments, planned, spec, stage="export") if planned else []
    result = ExportResult(
        out=place,
        format=format,
        engine=tasks.engine,
        spark_app_id=tasks.application,
        files=tuple(files),
        stages=tuple(tasks.times),
        seconds=time.monotonic() - began,
    )
    _write_summary(place, result, snapshot, aws)
    return result


def _group_fragments(
    snapshot: Snapshot, type_: NodeType | EdgeType, rows_per_file: int
) -> list[tuple[int, ...]]:
    if not snapshot.entry(type_.table_key).row_count:
        return []
    return group_fragments(snapshot.table(type_.table_key), rows_per_file)


def _make_file_name(place: str, type_: NodeType | EdgeType, number: int, format: str) -> str:
    return f"{place}/{_FOLDERS[type_.kind]}/{type_.name}/part-{number:05}.{format}"


def _require_empty(place: str) -> None:
    if place.startswith("s3://"):
        return
    folder = Path(place.removeprefix("file://"))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadRequest(f"{place} is not an empty folder")


def _write_summary(place: str, result: ExportResult, snapshot: Snapshot, aws: AwsSettings) -> None:
    counts: dict[str, int] = {}
    for file in result.files:
        counts[file.table_key] = counts.get(file.table_key, 0) + file.rows
    text = json.dumps(
        {"graph_commit_id": snapshot.head, "format": result.format, "rows": counts}, indent=2
    )
    path = f"{place}/{SUMMARY}"
    if not place.startswith("s3://"):
        Path(place).mkdir(parents=True, exist_ok=True)
    with open_filesystem(path, aws).open_output_stream(store_path(path)) as stream:
        stream.write(text.encode() + b"\n")
