"""Find the nearest vectors of one table by Euclidean distance, from an index or an exact scan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.execution.search.hits import Hits, Integers, find_smallest
from omnigraph.execution.search.search_cache import SearchCache, read_piece_row_ids
from omnigraph.execution.search.vector_matrix import (
    Floats,
    Matrix,
    build_matrix,
    find_nearest_in_matrix,
    make_matrix,
    measure_distances,
)
from omnigraph.storage.tables import (
    DELETED,
    DISTANCE,
    ROW_ID,
    ColumnPiece,
    Table,
    find_nearest,
    read_piece,
    split_column,
)

_BYTES_PER_ITEM = 6
"""Four for the value itself, and the rest for its projection."""
_FEW = 1_000
_FEW_SHARE = 0.02
"""Fewer candidates, or a smaller share of the rows, are fetched by row id and measured."""
_MAX_RANKED_SHARE = 0.1
"""Ranking a larger share of the rows costs more than measuring all of them."""
_BATCH_BYTES = 32 << 20


def find_nearest_rows(
    memory: SearchCache,
    table: Table,
    column: str,
    query: Sequence[float],
    among: Integers | None,
    keep: int | None,
) -> Hits:
    """Find the `keep` nearest rows, with all ties of the last, and their distances.

    `among` are the row ids of the candidates, all of them live; by default all rows. Without
    `keep`, all distances are returned. Rows without a vector are left out.

    Raises:
        BadRequest: the query vector has another dimension than the column.
    """
    wanted = _as_vector(table, column, query)
    rows = table.count_rows()
    if keep == 0 or not rows or (among is not None and not len(among)):
        return Hits.together([])
    pieces = split_column(table, [column])
    is_few = among is not None and len(among) <= max(_FEW, rows * _FEW_SHARE)
    if among is not None and is_few and not all(memory.matrices.holds(p.content) for p in pieces):
        return _measure_parts([_fetch_vectors(table, column, among)], column, wanted, keep)
    if sum(p.rows for p in pieces) * len(wanted) * _BYTES_PER_ITEM <= memory.matrices.limit:
        return _search_in_memory(memory, table, column, pieces, wanted, among, keep)
    if keep is not None:
        found = _rank_candidates(table, column, wanted, among, keep, rows)
        if found is not None:
            return found
    return _measure_parts(_list_candidates(table, column, among), column, wanted, keep)


# --- in memory ------------------------------------------------------------------------------------


def _search_in_memory(
    memory: SearchCache,
    table: Table,
    column: str,
    pieces: Iterable[ColumnPiece],
    query: Floats,
    among: Integers | None,
    keep: int | None,
) -> Hits:
    parts = []
    for piece in pieces:
        matrix = memory.matrices.value(piece.content, partial(_read, table, column, piece))
        row_ids = read_piece_row_ids(memory, table, piece)
        row_ids = row_ids if matrix.rows is None else row_ids[matrix.rows]
        positions = _find_positions(row_ids, among, all_live=piece.deletions is None)
        positions, measured = find_nearest_in_matrix(matrix, positions, query, keep)
        parts.append(Hits(row_ids[positions], measured))
    return _keep_nearest(Hits.together(parts), keep)


def _read(table: Table, column: str, piece: ColumnPiece) -> Matrix:
    return build_matrix(read_piece(table, piece, [column]).column(column).combine_chunks())


def _find_positions(
    row_ids: Integers, among: Integers | None, *, all_live: bool
) -> Integers | None:
    """Mask the rows that are candidates; None for all of them."""
    if among is not None:
        return np.flatnonzero(np.isin(row_ids, among))
    return None if all_live else np.flatnonzero(row_ids != DELETED)


# --- by the ranking of the table ------------------------------------------------------------------


def _rank_candidates(
    table: Table, column: str, query: Floats, among: Integers | None, keep: int, rows: int
) -> Hits | None:
    """Rank the candidates among the first results of the index, if these suffice.

    More and more rows are requested, until enough of them are candidates and none beyond can be as
    near as the last one kept. None if measuring every row is cheaper.
    """
    share = 1.0 if among is None else min(1.0, len(among) / rows)
    count = math.ceil(keep / share * 1.3) + 10
    while count <= max(_FEW, rows * _MAX_RANKED_SHARE):
        first = find_nearest(table, column, query, count)
        is_all = first.num_rows < count
        answer = _measure_parts([_restrict_to(first, among)], column, query, keep)
        if is_all or _is_complete(answer, keep, first, len(query)):
            return answer
        count *= 4
    return None


def _is_complete(answer: Hits, keep: int, first: pa.Table, dimension: int) -> bool:
    """Return whether no row beyond the first ones can be as near as the last of the answer."""
    if len(answer.values) < keep:
        return False
    # Bound of the error of a sum of positive numbers in single precision.
    single = np.finfo(np.float32)
    last = float(first.column(DISTANCE)[-1].as_py())
    beyond = last * (1 - (dimension + 8) * float(single.eps)) - dimension * float(single.tiny)
    return math.isfinite(last) and float(answer.values.max()) ** 2 < beyond


# --- by measuring every candidate -----------------------------------------------------------------


def _list_candidates(table: Table, column: str, among: Integers | None) -> Iterator[pa.Table]:
    """Yield the candidate rows, a batch at a time."""
    dimension = table.schema.field(column).type.list_size
    batch_rows = max(1, _BATCH_BYTES // (4 * dimension))
    for batch in table.batches([column], with_row_id=True, batch_size=batch_rows):
        yield _restrict_to(pa.Table.from_batches([batch]), among)


def _restrict_to(rows: pa.Table, among: Integers | None) -> pa.Table:
    if among is None:
        return rows
    return rows.filter(pa.array(np.isin(_get_row_ids(rows), among)))


def _fetch_vectors(table: Table, column: str, among: Integers) -> pa.Table:
    return table.take_row_ids(pa.array(among, pa.uint64()), [ROW_ID, column])


def _measure_parts(parts: Iterable[pa.Table], column: str, query: Floats, keep: int | None) -> Hits:
    """The nearest of these rows, with bounded memory."""
    found = Hits.together([])
    for part in parts:
        rows, values = make_matrix(part.column(column).combine_chunks())
        row_ids = _get_row_ids(part) if rows is None else _get_row_ids(part)[rows]
        found = _keep_nearest(
            Hits.together([found, Hits(row_ids, measure_distances(values, query))]), keep
        )
    return found


def _get_row_ids(rows: pa.Table) -> Integers:
    ids: Integers = rows.column(ROW_ID).combine_chunks().cast(pa.int64()).to_numpy()
    return ids


def _keep_nearest(hits: Hits, keep: int | None) -> Hits:
    return hits if keep is None else hits.at(find_smallest(hits.values, keep))


def _as_vector(table: Table, column: str, query: Sequence[float]) -> Floats:
    """The query in the precision of the column: a stored vector is at distance zero."""
    dimension = table.schema.field(column).type.list_size
    if len(query) != dimension:
        raise BadRequest(f"{column} has {dimension} dimensions, the query vector {len(query)}")
    with np.errstate(over="ignore"):
        vector: Floats = np.asarray(query, np.float64).astype(np.float32)
    if not np.isfinite(vector).all():
        raise BadRequest(f"the query vector for {column} holds a number that is not finite")
    return vector
