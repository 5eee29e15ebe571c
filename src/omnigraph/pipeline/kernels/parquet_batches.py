"""Rows of a Parquet file, read no further than they may expand to.

A Parquet file keeps a text that is repeated once, in a dictionary, and decoding writes it out for
every row: a file of a megabyte may stand for terabytes. So texts are read as references to their
dictionary, which is small, also those in lists and structs; how much they expand to is known before
they are written out.
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
        texts = self._list_texts(set(columns))
        file = pq.ParquetFile(self._stream, metadata=self._metadata, read_dictionary=texts)
        given = 0
        for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=list(columns)):
            size = sum(_count_expanded_bytes(column) for column in batch.columns)
            given += size
            require_allowed(given, self._split.file, self._limits)
            rows = max(1, batch.num_rows * _BYTES_AT_ONCE // max(size, _BYTES_AT_ONCE))
            for start in range(0, batch.num_rows, rows):
                yield self._write_out(batch.slice(start, rows))

    def _list_texts(self, columns: set[str]) -> list[str]:
        """The texts in these columns, by their paths in the file."""
        schema = self._metadata.schema
        leaves = (schema.column(number) for number in range(len(schema)))
        return [
            leaf.path
            for leaf in leaves
            if leaf.physical_type == "BYTE_ARRAY"
            and leaf.logical_type.type != "DECIMAL"
            and _is_within(leaf.path, columns)
        ]

    def _write_out(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names: list[str] = batch.schema.names
        columns = [
            column if column.type == kind else column.cast(kind)
            for column, kind in ((batch.column(n), self._schema.field(n).type) for n in names)
        ]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _require_declared(self, groups: Sequence[int], columns: set[str]) -> None:
        """Refuse by what the file says of itself, before anything is decompressed."""
        declared = 0
        for group in (self._metadata.row_group(number) for number in groups):
            chunks = (group.column(number) for number in range(group.num_columns))
            declared += sum(
                chunk.total_uncompressed_size
                for chunk in chunks
                if _is_within(chunk.path_in_schema, columns)
            )
        require_allowed(declared, self._split.file, self._limits)


def _is_within(path: str, columns: set[str]) -> bool:
    """Whether a path in the file is that of one of the columns, or of a part of one."""
    return path in columns or path.partition(".")[0] in columns


def _count_expanded_bytes(column: pa.Array) -> int:
    """How many bytes the values take once each is written out."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        if not _has_length(kind.value_type):
            return int(column.nbytes)
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())
        return int(pc.sum(lengths.take(column.indices)).as_py() or 0)
    if pa.types.is_struct(kind):
        return sum(_count_expanded_bytes(part) for part in column.flatten())
    if pa.types.is_map(kind):
        return _count_expanded_bytes(column.keys) + _count_expanded_bytes(column.items)
    if any(
        is_list(kind)
        for is_list in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    ):
        return _count_expanded_bytes(column.flatten())
    return int(column.nbytes)


def _has_length(kind: pa.DataType) -> bool:
    """Whether it is a type of texts or bytes."""
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )
