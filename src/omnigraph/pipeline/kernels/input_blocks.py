"""Read input in bounded memory: decompressed bytes, blocks of whole lines, and Parquet rows."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InputTooLarge
from omnigraph.pipeline.input_splits import InputFile, InputSplit, open_filesystem, store_path
from omnigraph.settings import AwsSettings, InputSettings

_ALWAYS_BYTES = 64 << 20
"""Bytes that are read at any compression ratio: short input may compress well."""


@contextmanager
def open_whole(file: InputFile, aws: AwsSettings, limits: InputSettings) -> Iterator[BinaryIO]:
    """Open a file for reading from start to end, decompressed.

    Raises:
        InputTooLarge: it expands beyond the limits; detected while it is read.
    """
    store, path = open_filesystem(file.path, aws), store_path(file.path)
    if file.compression is None:
        with store.open_input_stream(path) as stream:
            yield stream
        return
    with store.open_input_stream(path, compression=file.compression) as stream:
        yield _Limited(stream, file, limits)  # type: ignore[misc]  # what readers of it use


class _Limited(io.RawIOBase):
    """A stream that raises when it exceeds its limit."""

    def __init__(self, stream: BinaryIO, file: InputFile, limits: InputSettings) -> None:
        self._stream, self._file, self._limits = stream, file, limits
        self._given = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size) if size >= 0 else self._stream.read()
        self._given += len(data)
        require_allowed(self._given, self._file, self._limits)
        return data


def require_allowed(given: int, file: InputFile, limits: InputSettings) -> None:
    """Raise if the bytes read from a file exceed what its size and the limits allow."""
    most, ratio = limits.expanded_bytes, limits.expansion_ratio
    if most and given > most:
        raise InputTooLarge(
            file.name,
            f"expands to more than {most >> 20} MiB",
            InputSettings.variable("expanded_bytes"),
        )
    if ratio and given > max(_ALWAYS_BYTES, ratio * file.size):
        raise InputTooLarge(
            file.name,
            f"expands to more than {ratio} times its size",
            InputSettings.variable("expansion_ratio"),
        )


BLOCK_BYTES = 32 << 20
_STEP_BYTES = 1 << 16


def read_lines_between(stream: BinaryIO, start: int, end: int, longest: int) -> bytes:
    """Read the lines that start in a range; the last one is read to its end."""
    stream.seek(max(0, start - 1))
    data = stream.read(end - max(0, start - 1))
    if start:
        first = data.find(b"\n") + 1
        if first == 0:
            return b""  # the whole range is the inside of a line that started before it
        data = data[first:]
    if not data or data.endswith(b"\n"):
        return data
    pieces, size = [data], len(data) - data.rfind(b"\n") - 1
    while size <= longest and (piece := stream.read(_STEP_BYTES)):
        line_end = piece.find(b"\n")
        if line_end >= 0:
            pieces.append(piece[: line_end + 1])
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def read_line_blocks(stream: BinaryIO, longest: int) -> Iterator[tuple[bytes, bool]]:
    """Yield blocks of whole lines from a stream, each with True if it is the first."""
    begun, is_start = bytearray(), True
    while block := stream.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        room = max(0, longest + 1 - len(begun))
        if end == 0:
            begun += block[:room]
            continue
        line_end = block.find(b"\n")
        yield bytes(begun) + block[: min(room, line_end)] + block[line_end:end], is_start
        begun, is_start = bytearray(block[end:]), False
    if begun:
        yield bytes(begun), is_start


ROWS_AT_ONCE = 1 << 17
_BYTES_AT_ONCE = 256 << 20


class ParquetRows:
    """The rows of some row groups of a file."""

    def __init__(self, stream: BinaryIO, split: InputSplit, limits: InputSettings) -> None:
        self._stream, self._split, self._limits = stream, split, limits
        import pyarrow.parquet as pq  # noqa: PLC0415 - only for Parquet input

        self._metadata = pq.ParquetFile(stream).metadata
        self._schema = self._metadata.schema.to_arrow_schema()

    @property
    def names(self) -> list[str]:
        names: list[str] = self._schema.names
        return names

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these columns, in batches of a bounded size.

        Raises:
            InputTooLarge: they expand beyond the limits.
        """
        groups = list(range(self._split.start, self._split.end))
        self._require_declared(groups, set(columns))
        texts = self._list_texts(set(columns))
        import pyarrow.parquet as pq  # noqa: PLC0415 - only for Parquet input

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
        """List the text columns, by their paths in the file."""
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
        """Refuse by the sizes that the file declares, before anything is decompressed."""
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
    """Return whether a path in the file is that of one of the columns, or of a part of one."""
    return path in columns or path.partition(".")[0] in columns


def _count_expanded_bytes(column: pa.Array) -> int:
    """Return the number of bytes the values take once each is written out."""
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
    """Return whether it is a type of texts or bytes."""
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )
