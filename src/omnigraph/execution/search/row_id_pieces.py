"""Which rows the pieces of a table hold, kept in memory between searches."""

from __future__ import annotations

from functools import partial

from omnigraph.execution.search.hits import Integers
from omnigraph.execution.search.search_memory import SearchMemory
from omnigraph.storage.tables import ColumnPiece, Table, read_row_ids


def read_piece_row_ids(memory: SearchMemory, table: Table, piece: ColumnPiece) -> Integers:
    """The row id of every row of a piece; -1 for those this version of the table has not."""
    # Row ids are given on a branch, so what two branches share is looked up on each.
    key = (table.location.cache_key, piece.content, piece.deletions)
    return memory.row_ids.value(key, partial(read_row_ids, table, piece))
