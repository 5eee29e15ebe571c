"""Putting rows in order: by keys, then by ids; only as much of it as has to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from omnigraph.execution.read.arrays import Longs, find_distinct, find_places
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.entities import rank_ids
from omnigraph.execution.read.expression_values import Values
from omnigraph.execution.read.row_blocks import BLOCK_ROWS, Rows, join_blocks
from omnigraph.execution.read.row_requirements import RowOrder
from omnigraph.execution.read.sort_keys import Ordinals, encode_sort_key
from omnigraph.execution.read.table_reader import ID
from omnigraph.plan.nodes import SortKey
from omnigraph.plan.walk import list_variables

_FEW_OF_ALL = 8
"""Rows are few if the variable has this many times more entities than there are rows."""


def sort_rows(
    context: ReadContext,
    blocks: Iterator[Rows],
    keys: Sequence[SortKey],
    tie_break: Sequence[str],
    order: RowOrder,
    keep: int | None,
) -> Iterator[Rows]:
    """The rows in order; with `keep` at least this many of the first ones.

    `order` says how they come already: rows that come in the order asked for are passed on as
    they come, and a common beginning of both orders is sorted a stretch at a time.
    """
    if not keys:
        common = _find_common_order(order.variables, tie_break)
        if common == len(tie_break):
            yield from blocks
            return
        if common:
            yield from _sort_by_stretches(blocks, tie_break[:common], tie_break)
            return
    yield from _sort_blocks(context, blocks, keys, tie_break, keep)


def _find_common_order(have: Sequence[str], want: Sequence[str]) -> int:
    count = 0
    while count < min(len(have), len(want)) and have[count] == want[count]:
        count += 1
    return count


def _sort_by_stretches(
    blocks: Iterator[Rows], same: Sequence[str], tie_break: Sequence[str]
) -> Iterator[Rows]:
    """Sort rows that agree in `same`: they stand together, but perhaps across blocks."""
    waiting: list[Rows] = []
    for block in blocks:
        end = _find_last_start(block, same)
        if end == 0 and waiting and not _continues_stretch(waiting[-1], block, same):
            yield _sort_by_ids(join_blocks(waiting), tie_break)
            waiting = []
        if end:
            yield _sort_by_ids(join_blocks([*waiting, block.slice(0, end)]), tie_break)
            waiting = []
        waiting.append(block.slice(end, block.size))
    if waiting:
        yield _sort_by_ids(join_blocks(waiting), tie_break)


def _find_last_start(rows: Rows, same: Sequence[str]) -> int:
    """Where the last stretch of rows that agree begins."""
    last = 0
    for variable in same:
        codes = rows.codes[variable]
        changes = np.flatnonzero(codes[1:] != codes[:-1])
        last = max(last, int(changes[-1]) + 1 if len(changes) else 0)
    return last


def _continues_stretch(before: Rows, after: Rows, same: Sequence[str]) -> bool:
    return all(before.codes[v][-1] == after.codes[v][0] for v in same)


def _sort_by_ids(rows: Rows, tie_break: Sequence[str]) -> Rows:
    return rows.take(
        sort_by_keys([encode_id_order(rows, variable) for variable in tie_break], rows.size)
    )


def encode_id_order(rows: Rows, variable: str) -> Longs:
    """Integers in the order of a variable's ids; a missing one comes first."""
    codes, entities = rows.codes[variable], rows.entities[variable]
    if entities.is_ordered or not entities.size:
        return codes.astype(np.int64)
    if len(codes) * _FEW_OF_ALL < entities.size:
        # The ids of these few are compared with each other only.
        some = find_distinct(codes, entities.size)
        rank = rank_ids(entities.columns([ID], some)[ID])
        codes = find_places(codes, some, entities.size)
    else:
        whole = entities.rank
        assert whole is not None, "only codes in the order of ids need no rank"
        rank = whole
    return np.where(codes >= 0, rank[codes], -1) if len(rank) else codes.astype(np.int64)


def sort_by_keys(keys: Sequence[Longs], rows: int) -> Longs:
    """The rows by several keys, the most significant first; equal rows stay as they are."""
    if not keys:
        return np.arange(rows, dtype=np.int64)
    return np.lexsort(tuple(reversed(keys))).astype(np.int64)


def encode_row_keys(values: Values, key: SortKey) -> Ordinals:
    """A sort key for every row, worked out once for each entity that occurs."""
    variables = list_variables(key.value)
    only = next(iter(variables)) if len(variables) == 1 else None
    rows = values.rows
    if only is None or only not in rows.entities:
        return encode_sort_key(values.of(key.value))
    codes, size = rows.codes[only], rows.entities[only].size
    wanted = find_distinct(codes, size)
    some = Rows(len(wanted), {only: wanted}, {only: rows.entities[only]})
    return encode_sort_key(Values(values.context, some).of(key.value)).at(
        find_places(codes, wanted, size)
    )


def sort_keys(
    context: ReadContext, rows: Rows, keys: Sequence[SortKey], tie_break: Sequence[str]
) -> list[Longs]:
    values = Values(context, rows)
    found: list[Longs] = []
    for key in keys:
        found += encode_row_keys(values, key).keys(descending=key.descending)
    return [*found, *(encode_id_order(rows, variable) for variable in tie_break)]


def _sort_blocks(
    context: ReadContext,
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
            waiting = [_select_best(context, join_blocks(waiting), keys, tie_break, keep)]
    if waiting:
        rows = join_blocks(waiting)
        yield from _select_best(context, rows, keys, tie_break, keep).pieces(BLOCK_ROWS)


def _select_best(
    context: ReadContext,
    rows: Rows,
    keys: Sequence[SortKey],
    tie_break: Sequence[str],
    keep: int | None,
) -> Rows:
    if keep is not None and keep < rows.size:
        first = sort_keys(context, rows, keys[:1], () if keys else tie_break[:1])
        rows = rows.take(select_candidates(first, keep)) if first else rows
    columns = sort_keys(context, rows, keys, tie_break)
    return rows.take(sort_by_keys(columns, rows.size)[:keep])


def select_candidates(columns: Sequence[Longs], keep: int) -> Longs:
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
