"""The segments of a text column at one version of a table, kept in memory between searches.

They are made from the files of the table, which never change, so that after a write only the new
files have to be read, and branches share what they have in common. Which rows are deleted is
looked up apart from that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.execution.search.hits import Integers
from omnigraph.execution.search.row_id_pieces import read_piece_row_ids
from omnigraph.execution.search.search_memory import SearchMemory
from omnigraph.execution.search.segment import Flags, Segment, build_segment
from omnigraph.storage.tables import DELETED, ColumnPiece, Table, read_piece, split_column


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """A segment, the row ids of its rows, and which of them the version of the table has.

    None means all of them.
    """

    segment: Segment
    row_ids: Integers
    live: Flags | None

    @property
    def document_count(self) -> int:
        """How many rows have a text."""
        if self.live is None:
            return self.segment.document_count
        return int(np.count_nonzero(self.segment.has_text & self.live))

    @property
    def term_count(self) -> int:
        """How many terms their texts have in all."""
        if self.live is None:
            return self.segment.term_count
        return int(self.segment.lengths.sum(where=self.live))


def iterate_segments(memory: SearchMemory, table: Table, column: str) -> Iterator[LiveSegment]:
    """The whole column, a piece at a time, so that a large table need not fit in memory."""
    for piece in split_column(table, ["id", column]):
        segment = memory.segments.value(piece.content, partial(_read, table, column, piece))
        row_ids = read_piece_row_ids(memory, table, piece)
        live = None if piece.deletions is None else row_ids != DELETED
        yield LiveSegment(segment, row_ids, live)


def _read(table: Table, column: str, piece: ColumnPiece) -> Segment:
    rows = read_piece(table, piece, ["id", column])
    return build_segment(rows.column("id").combine_chunks(), _combine_chunks(rows.column(column)))


def _combine_chunks(texts: pa.ChunkedArray) -> pa.Array:
    # In large strings, whose offsets do not run out however long the texts are.
    return texts.cast(pa.large_string()).combine_chunks()
