"""Bounded cache of a graph handle for searches: row ids, text segments, matrices.

Entries are computed from immutable files, so after a write only new files are read, and branches
share entries. Deleted rows are looked up separately.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.cache import Cache
from omnigraph.execution.search.hits import Integers
from omnigraph.execution.search.inverted_index import Flags, Segment, build_segment
from omnigraph.storage.tables import (
    DELETED,
    ColumnPiece,
    Table,
    read_piece,
    read_row_ids,
    split_column,
)

if TYPE_CHECKING:
    from omnigraph.execution.search.vector_matrix import Matrix


DEFAULT_TEXT_BYTES = 1 << 30
"""Fits some millions of short texts; evicted ones are read again for each query."""
DEFAULT_VECTOR_BYTES = 512 << 20
"""Fits a million vectors of a hundred dimensions."""
_ROW_ID_BYTES = 256 << 20


class SearchCache:
    """Cached pieces of columns; safe to share between threads.

    A piece depends on immutable files only, so that branches and versions of a table share it.
    """

    def __init__(
        self,
        text_bytes: int = DEFAULT_TEXT_BYTES,
        vector_bytes: int = DEFAULT_VECTOR_BYTES,
    ) -> None:
        self.segments: Cache[tuple[object, ...], Segment] = Cache(
            text_bytes, lambda segment: segment.size_bytes
        )
        self.matrices: Cache[tuple[object, ...], Matrix] = Cache(
            vector_bytes, lambda matrix: matrix.size_bytes
        )
        self.row_ids: Cache[tuple[object, ...], Integers] = Cache(
            _ROW_ID_BYTES, lambda row_ids: row_ids.nbytes
        )

    def clear(self) -> None:
        """Free the memory."""
        for cache in (self.segments, self.matrices, self.row_ids):
            cache.clear()


def read_piece_row_ids(memory: SearchCache, table: Table, piece: ColumnPiece) -> Integers:
    """The row id of every row of a piece; -1 for rows deleted in this version of the table."""
    # Row ids are assigned per branch, so shared pieces are looked up on each.
    key = (table.location.cache_key, piece.content, piece.deletions)
    return memory.row_ids.value(key, partial(read_row_ids, table, piece))


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """A segment, the row ids of its rows, and a mask of the live ones; None if all are."""

    segment: Segment
    row_ids: Integers
    live: Flags | None

    @property
    def document_count(self) -> int:
        """Return the number of rows with a text."""
        if self.live is None:
            return self.segment.document_count
        return int(np.count_nonzero(self.segment.has_text & self.live))

    @property
    def term_count(self) -> int:
        """Return the total number of terms of their texts."""
        if self.live is None:
            return self.segment.term_count
        return int(self.segment.lengths.sum(where=self.live))


def iterate_segments(memory: SearchCache, table: Table, column: str) -> Iterator[LiveSegment]:
    """Yield the column, a piece at a time, so that a large table need not fit in memory."""
    for piece in split_column(table, ["id", column]):
        segment = memory.segments.value(piece.content, partial(_read, table, column, piece))
        row_ids = read_piece_row_ids(memory, table, piece)
        live = None if piece.deletions is None else row_ids != DELETED
        yield LiveSegment(segment, row_ids, live)


def _read(table: Table, column: str, piece: ColumnPiece) -> Segment:
    rows = read_piece(table, piece, ["id", column])
    return build_segment(rows.column("id").combine_chunks(), _combine_chunks(rows.column(column)))


def _combine_chunks(texts: pa.ChunkedArray) -> pa.Array:
    # Large strings have 64-bit offsets.
    return texts.cast(pa.large_string()).combine_chunks()
