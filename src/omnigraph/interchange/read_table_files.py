"""Parquet and Arrow files, and tables and data frames in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.interchange.source_tables import SourceTable


def open_parquet(path: Path, name: str) -> SourceTable:
    return SourceTable(name=name, origin=str(path), read=partial(_read_parquet, path))


def open_arrow(path: Path, name: str) -> SourceTable:
    return SourceTable(name=name, origin=str(path), read=partial(_read_arrow, path))


def open_frame(name: str, frame: object) -> SourceTable:
    """A table, or a data frame of any library that hands out Arrow data."""
    if isinstance(frame, pa.RecordBatch):
        table = pa.Table.from_batches([frame])
    elif type(frame).__module__.startswith("polars.lazyframe"):
        table = pa.table(frame.collect())  # type: ignore[attr-defined]
    elif isinstance(frame, list):
        table = pa.Table.from_pylist(frame)
    elif isinstance(frame, pa.Table) or hasattr(frame, "__arrow_c_stream__"):
        table = pa.table(frame)
    else:
        raise BadRequest(
            f"'{name}' is {type(frame).__name__}; give tables, data frames or lists of dictionaries"
        )
    return SourceTable(name=name, origin=name, read=table.to_batches)


def _read_parquet(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - only where such a file is given

    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches()
    except (OSError, pa.ArrowInvalid) as error:
        raise BadRequest(f"cannot read {path} as Parquet: {error}") from error


def _read_arrow(path: Path) -> Iterator[pa.RecordBatch]:
    """A file of Arrow's, or a stream of it, or Feather."""
    try:
        with pa.memory_map(str(path)) as source:
            if source.read(6) == b"ARROW1":
                reader = pa.ipc.open_file(source)
                yield from (reader.get_batch(at) for at in range(reader.num_record_batches))
                return
            source.seek(0)
            yield from pa.ipc.open_stream(source)
    except (OSError, pa.ArrowInvalid) as error:
        raise BadRequest(f"cannot read {path} as Arrow: {error}") from error
