"""Rows of a Parquet file, read no further than they may expand to.

A Parquet file keeps a text that is repeated once, in a dictionary, and decoding writes it out for
every row: a file of a megabyte may stand for terabytes. So texts are read as references to their
dictionary, which is small; how much they expand to is known before they are written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.pipeline.inputs import InputSplit
from omnigraph.pipeline.kernels.decompress import require_allowed
from omnigraph.settings import InputSettings

ROWS_AT_ONCE = 1 << 17
_BYTES_AT_ONCE = 256 << 20


class ParquetRows:
    """The rows of some row groups of a file."""

    def __init__(self, stream: BinaryIO, split: InputSplit, limits: InputSettings) -> None:
        self._stream, self._split, self._limits = stream, split, limits
        self._metadata = pq.ParquetFile(stream).metadata
        self._schema = self._metadata.schema.to_arrow_schema()

    @property
    def names(self) -> list[str]:
        names: list[str] = self._schema.names
        return names

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of these columns, in batches of a bounded size.

        Raises:
            InputTooLarge: they expand to more than the limits allow.
        """
        groups = list(range(self._split.start, self._split.end))
        self._require_declared(groups, set(columns))
        texts = [name for name in columns if _is_text(self._schema.field(name).type)]
        file = pq.ParquetFile(self._stream, metadata=self._metadata, read_dictionary=texts)
        given = 0
        for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=list(columns)):
            size = sum(_count_expanded_bytes(column) for column in batch.columns)
            given += size
            require_allowed(given, self._split.file, self._limits)
            rows = max(1, batch.num_rows * _BYTES_AT_ONCE // max(size, _BYTES_AT_ONCE))
            for start in range(0, batch.num_rows, rows):
                yield _decode_dictionaries(batch.slice(start, rows))

    def _require_declared(self, groups: Sequence[int], columns: set[str]) -> None:
        """Refuse by what the file says of itself, before anything is decompressed."""
        declared = 0
        for group in (self._metadata.row_group(number) for number in groups):
            chunks = (group.column(number) for number in range(group.num_columns))
            declared += sum(
                chunk.total_uncompressed_size
                for chunk in chunks
                if chunk.path_in_schema.partition(".")[0] in columns
            )
        require_allowed(declared, self._split.file, self._limits)


def _is_text(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def _count_expanded_bytes(column: pa.Array) -> int:
    """How many bytes the values take once each is written out."""
    if not pa.types.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def _decode_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
