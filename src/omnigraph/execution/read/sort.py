"""Putting rows in order: by keys, then by ids; only as much of it as has to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from omnigraph.execution.read.arrays import Longs, distinct, places
from omnigraph.execution.read.context import Context
from omnigraph.execution.read.demand import RowOrder
from omnigraph.execution.read.entities import id_ranks
from omnigraph.execution.read.keys import Ordinals, ordinals
from omnigraph.execution.read.reader import ID
from omnigraph.execution.read.rows import BLOCK_ROWS, Rows, joined
from omnigraph.execution.read.values import Values
from omnigraph.plan.nodes import SortKey
from omnigraph.plan.walk import variables_of

_FEW_OF_ALL = 8
"""Rows are few if the variable has so many times more entities than there are rows."""


def sorted_rows(
    context: Context,
    blocks: Iterator[Rows],
    keys: Sequence[SortKey],
    tie_break: Sequence[str],
    order: RowOrder,
    keep: int | None,
) -> Iterator[Rows]:
    """The rows in order; with `keep` at least so many of the first ones.

    `order` says how they come already: rows that come in the order asked for are passed on as
    they come, and a common beginning of both orders is sorted a stretch at a time.
    """
    if not keys:
        common = _common(order.variables, tie_break)
        if common == len(tie_break):
            yield from blocks
            return
        if common:
            yield from _by_stretches(blocks, tie_break[:common], tie_break)
            return
    yield from _sorted(context, blocks, keys, tie_break, keep)


def _common(have: Sequence[str], want: Sequence[str]) -> int:
    count = 0
    while count < min(len(have), len(want)) and have[count] == want[count]:
        count += 1
    return count


def _by_stretches(
    blocks: Iterator[Rows], same: Sequence[str], tie_break: Sequence[str]
) -> Iterator[Rows]:
    """Sort rows that agree in `same`: they stand together, but perhaps across blocks."""
    waiting: list[Rows] = []
    for block in blocks:
        end = _last_start(block, same)
        if end == 0 and waiting and not _goes_on(waiting[-1], block, same):
            yield _by_ids(joined(waiting), tie_break)
            waiting = []
        if end:
            yield _by_ids(joined([*waiting, block.slice(0, end)]), tie_break)
            waiting = []
        waiting.append(block.slice(end, block.size))
    if waiting:
        yield _by_ids(joined(waiting), tie_break)


def _last_start(rows: Rows, same: Sequence[str]) -> int:
    """Where the last stretch of rows that agree begins."""
    last = 0
    for variable in same:
        codes = rows.codes[variable]
        changes = np.flatnonzero(codes[1:] != codes[:-1])
        last = max(last, int(changes[-1]) + 1 if len(changes) else 0)
    return last


def _goes_on(before: Rows, after: Rows, same: Sequence[str]) -> bool:
    return all(before.codes[v][-1] == after.codes[v][0] for v in same)


def _by_ids(rows: Rows, tie_break: Sequence[str]) -> Rows:
    return rows.take(in_order([id_order(rows, variable) for variable in tie_break], rows.size))


def id_order(rows: Rows, variable: str) -> Longs:
    """Integers in the order of a variable's ids; a missing one comes first."""
    codes, entities = rows.codes[variable], rows.entities[variable]
    if entities.is_ordered or not entities.size:
        return codes.astype(np.int64)
    if len(codes) * _FEW_OF_ALL < entities.size:
        # The ids of these few are compared with each other only.
        some = distinct(codes, entities.size)
        rank = id_ranks(entities.columns([ID], some)[ID])
        codes = places(codes, some, entities.size)
    else:
        whole = entities.rank
        assert whole is not None, "only codes in the order of ids need no rank"
        rank = whole
    return np.where(codes >= 0, rank[codes], -1) if len(rank) else codes.astype(np.int64)


def in_order(keys: Sequence[Longs], rows: int) -> Longs:
    """The rows by several keys, the most significant first; equal rows stay as they are."""
    if not keys:
        return np.arange(rows, dtype=np.int64)
    return np.lexsort(tuple(reversed(keys))).astype(np.int64)


def row_ordinals(values: Values, key: SortKey) -> Ordinals:
    """A sort key for every row, worked out once for each entity that occurs."""
    variables = variables_of(key.value)
    only = next(iter(variables)) if len(variables) == 1 else None
    rows = values.rows
    if only is None or only not in rows.entities:
        return ordinals(values.of(key.value))
    codes, size = rows.codes[only], rows.entities[only].size
    wanted = distinct(codes, size)
    some = Rows(len(wanted), {only: wanted}, {only: rows.entities[only]})
    return ordinals(Values(values.context, some).of(key.value)).at(places(codes, wanted, size))


def sort_keys(
    context: Context, rows: Rows, keys: Sequence[SortKey], tie_break: Sequence[str]
) -> list[Longs]:
    values = Values(context, rows)
    found: list[Longs] = []
    for key in keys:
        found += row_ordinals(values, key).keys(descending=key.descending)
    return [*found, *(id_order(rows, variable) for variable in tie_break)]


def _sorted(
    context: Context,
    blocks: Iterator[Rows],
    keys: Sequence[SortKey],
    tie_break: Sequence[str],
    keep: int | None,
) -> Iterator[Rows]:
    waiting: list[Rows] = []
    for block in blocks:
        waiting.append(block)
        size = sum(rows.size for rows in waiting)
        if keep is not None and size > max(4 * keep, BLOCK_ROWS):
            waiting = [_best(context, joined(waiting), keys, tie_break, keep)]
    if waiting:
        rows = joined(waiting)
        yield from _best(context, rows, keys, tie_break, keep).pieces(BLOCK_ROWS)


def _best(
    context: Context,
    rows: Rows,
    keys: Sequence[SortKey],
    tie_break: Sequence[str],
    keep: int | None,
) -> Rows:
    if keep is not None and keep < rows.size:
        first = sort_keys(context, rows, keys[:1], () if keys else tie_break[:1])
        rows = rows.take(candidates(first, keep)) if first else rows
    columns = sort_keys(context, rows, keys, tie_break)
    return rows.take(in_order(columns, rows.size)[:keep])


def candidates(columns: Sequence[Longs], keep: int) -> Longs:
    """Rows among which the first `keep` are sure to be, in their old order.

    `columns` may be only the first of the keys: rows that are equal in them all stay.
    """
    if keep == 0:
        return np.zeros(0, dtype=np.int64)
    chosen = np.arange(len(columns[0]), dtype=np.int64)
    for column in columns:
        values = column[chosen]
        limit = np.partition(values, keep - 1)[keep - 1]
        decided = bool((values < limit).any())
        chosen = chosen[values <= limit]
        if decided or len(chosen) <= keep:
            # Some rows are in for sure; the next column would decide among the rest only.
            break
    return chosen
