"""What tells the input of one load from that of another, for its idempotency key."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa

from omnigraph.graph.loading import LongInput, is_frame, is_table
from omnigraph.settings import AwsSettings


def identify_input(given: Any, aws: AwsSettings) -> object:  # noqa: ANN401 - whatever can be loaded
    """Bytes, or something that can be written as JSON; different where the content is.

    Of a long stream only the beginning is known, and a data frame is known by what it computes.
    """
    if isinstance(given, bytes):
        return given
    if isinstance(given, LongInput):
        return given.start
    if is_table(given):
        return _digest_table(given)
    if is_frame(given):
        return {"frame": given.semanticHash(), "columns": given.schema.json()}
    from omnigraph.pipeline.inputs import identify_files  # noqa: PLC0415 - loads the pipeline

    return identify_files(given if isinstance(given, list | tuple) else [given], aws)


def _digest_table(table: pa.Table | pa.RecordBatch) -> str:
    """A digest of the columns; how they are cut into chunks makes no difference."""
    digest = hashlib.sha256()
    for name, column in zip(table.schema.names, table.columns, strict=True):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        chunks = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
        for chunk in chunks:
            batch, sink = pa.record_batch([chunk], names=[name]), pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            digest.update(sink.getvalue())
    return digest.hexdigest()
