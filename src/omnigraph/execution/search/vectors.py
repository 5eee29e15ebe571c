"""The nearest vectors of one table, by Euclidean distance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BadRequest
from omnigraph.storage.tables.handle import Table
from omnigraph.storage.tables.search import DISTANCE, nearest_rows

Vector = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

_FEW = 1_000
_FEW_SHARE = 0.02
"""So few candidates, or such a share of the rows, are fetched and measured one by one."""
_MOST_RANKED_SHARE = 0.1
"""Ranking a larger share of the rows costs more than measuring all of them."""
_BATCH_BYTES = 32 << 20
_ROWS_PER_BLOCK = 1_024
"""What is worked on at a time should stay in the processor's cache."""


def nearest(
    table: Table, column: str, query: Sequence[float], within: pa.Array | None, keep: int | None
) -> pa.Table:
    """The id and distance of the `keep` nearest rows among `within`, nearest first.

    Without `within` all rows are candidates, without `keep` all of them are given. Rows without a
    vector are left out; equal distances stand in the order of the ids.

    Raises:
        BadRequest: the query has another number of dimensions than the column.
    """
    wanted = _as_vector(table, column, query)
    among = None if within is None else pc.unique(within).drop_null()
    rows = table.count_rows()
    if keep == 0 or not rows or (among is not None and not len(among)):
        return _ranking(pa.array([], pa.string()), np.empty(0), None)
    if among is not None and len(among) <= max(_FEW, rows * _FEW_SHARE):
        return _measured([table.lookup("id", among, ["id", column])], wanted, keep)
    if keep is not None:
        found = _ranked(table, column, wanted, among, keep, rows)
        if found is not None:
            return found
    return _measured(_candidates(table, column, among), wanted, keep)


# --- by the ranking of the table ------------------------------------------------------------------


def _ranked(
    table: Table, column: str, query: Vector, among: pa.Array | None, keep: int, rows: int
) -> pa.Table | None:
    """The best candidates among the first rows of the table's own ranking, if that says enough.

    More and more rows are asked for, until enough of them are candidates and none beyond could
    still be as near as the last one kept. None means that measuring every row is cheaper.
    """
    share = 1.0 if among is None else min(1.0, len(among) / rows)
    count = math.ceil(keep / share * 1.3) + 10
    while count <= max(_FEW, rows * _MOST_RANKED_SHARE):
        first = nearest_rows(table, column, query, count)
        is_all = first.num_rows < count
        chosen = first if among is None else first.filter(_is_among(first.column("id"), among))
        answer = _measured([chosen], query, keep)
        if is_all or _is_settled(answer, keep, first, len(query)):
            return answer
        count *= 4
    return None


def _is_settled(answer: pa.Table, keep: int, first: pa.Table, dimension: int) -> bool:
    """Whether no row beyond the first ones can be as near as the last of the answer."""
    if answer.num_rows < keep:
        return False
    # What is added up in single precision, all of it positive, is off by no more than this.
    single = np.finfo(np.float32)
    last = float(first.column(DISTANCE)[-1].as_py())
    beyond = last * (1 - (dimension + 8) * float(single.eps)) - dimension * float(single.tiny)
    return math.isfinite(last) and float(answer.column("distance")[-1].as_py()) ** 2 < beyond


# --- by measuring every candidate -----------------------------------------------------------------


def _candidates(table: Table, column: str, among: pa.Array | None) -> Iterator[pa.Table]:
    """Every row that may be kept, a batch at a time."""
    is_among = None if among is None else _is_among(table.scan(["id"]).column("id"), among)
    dimension = table.schema.field(column).type.list_size
    batch_rows = max(1, _BATCH_BYTES // (4 * dimension))
    start = 0
    for batch in table.batches(["id", column], batch_size=batch_rows):
        rows = pa.Table.from_batches([batch])
        # Both scans give the rows in the order they are stored.
        yield rows if is_among is None else rows.filter(is_among.slice(start, rows.num_rows))
        start += rows.num_rows


def _measured(parts: Iterable[pa.Table], query: Vector, keep: int | None) -> pa.Table:
    """The nearest of these rows; never more of them are held than could still be kept."""
    ids: pa.Array = pa.array([], pa.string())
    distances: Doubles = np.empty(0)
    for part in parts:
        found, measured = _distances(part, query)
        ids = pa.concat_arrays([ids, found])
        distances = np.concatenate([distances, measured])
        if keep is not None and len(ids) > keep:
            nearer = np.flatnonzero(distances <= np.partition(distances, keep - 1)[keep - 1])
            ids, distances = ids.take(pa.array(nearer)), distances[nearer]
    return _ranking(ids, distances, keep)


def _distances(rows: pa.Table, query: Vector) -> tuple[pa.Array, Doubles]:
    """The ids of the rows that have a vector, in the second column, and how far each is."""
    if rows.column(1).null_count:
        rows = rows.filter(rows.column(1).is_valid())
    items = rows.column(1).combine_chunks().flatten()
    values: Vector = items.to_numpy(zero_copy_only=False).reshape(-1, len(query))
    exact_query, squares = query.astype(np.float64), np.empty(len(values))
    for start in range(0, len(values), _ROWS_PER_BLOCK):
        apart = values[start : start + _ROWS_PER_BLOCK] - exact_query
        np.square(apart, out=apart).sum(axis=1, out=squares[start : start + _ROWS_PER_BLOCK])
    return rows.column("id").combine_chunks(), np.sqrt(squares)


def _ranking(ids: pa.Array, distances: Doubles, keep: int | None) -> pa.Table:
    rows = pa.table({"id": ids, "distance": pa.array(distances, pa.float64())})
    ordered = rows.sort_by([("distance", "ascending"), ("id", "ascending")])
    return ordered if keep is None else ordered.slice(0, keep)


def _is_among(ids: pa.ChunkedArray, among: pa.Array) -> pa.ChunkedArray:
    return pc.is_in(ids, value_set=among)


def _as_vector(table: Table, column: str, query: Sequence[float]) -> Vector:
    """The query in the precision of the column: what is stored is found at distance zero."""
    dimension = table.schema.field(column).type.list_size
    if len(query) != dimension:
        raise BadRequest(f"{column} has {dimension} dimensions, the query vector {len(query)}")
    with np.errstate(over="ignore"):
        vector: Vector = np.asarray(query, np.float64).astype(np.float32)
    if not np.isfinite(vector).all():
        raise BadRequest(f"the query vector for {column} holds a number that is not finite")
    return vector
