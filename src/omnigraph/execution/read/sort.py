"""Sort rows by keys, then by ids, or by the rank of a search; only as far as the limit requires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from omnigraph.execution.read.code_arrays import (
    Codes,
    Doubles,
    Flags,
    Longs,
    encode_values,
    find_distinct,
    find_positions,
    find_positions_among,
    to_longs,
)
from omnigraph.execution.read.entities import rank_ids
from omnigraph.execution.read.expression_values import Values
from omnigraph.execution.read.read_context import ReadContext
from omnigraph.execution.read.row_blocks import BLOCK_ROWS, RowOrder, Rows, join_blocks
from omnigraph.execution.read.scores import fuse_rankings, rank_entities
from omnigraph.execution.read.table_reader import ID
from omnigraph.plan.expressions import FusedScore
from omnigraph.plan.plan_nodes import Rank, SortKey
from omnigraph.plan.walk import list_variables

_SIGN = np.int64(-(2**63))
_ALL_BUT_SIGN = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True)
class Ordinals:
    """Integers in the order of the values; where `known` is false the value is NULL."""

    values: Longs
    known: Flags | None

    def at(self, positions: Codes) -> Ordinals:
        """The values at some positions; -1 is NULL."""
        missing = positions < 0
        known = None if self.known is None else self.known[positions] & ~missing
        if known is None and missing.any():
            known = ~missing
        return Ordinals(
            self.values[positions] if len(self.values) else positions.astype(np.int64), known
        )

    def keys(self, *, descending: bool = False) -> list[Longs]:
        """Return the sort keys, the most significant first. NULL is smaller than every value."""
        keys = [self.values]
        if self.known is not None:
            keys = [self.known.astype(np.int64), np.where(self.known, self.values, 0)]
        return [~key for key in keys] if descending else keys


def encode_sort_key(values: pa.Array) -> Ordinals:
    """Encode strings by their bytes, false before true, both zeros equal and NaN last."""
    known = None if not values.null_count else np.asarray(pc.is_valid(values))
    kind = values.type
    if pat.is_null(kind):
        return Ordinals(np.zeros(len(values), dtype=np.int64), known)
    if pat.is_string(kind) or pat.is_large_string(kind):
        return Ordinals(_rank_texts(values), known)
    if pat.is_floating(kind):
        return Ordinals(_encode_floats(values), known)
    if pat.is_uint64(kind):
        wide = np.asarray(values.fill_null(0), dtype=np.uint64)
        return Ordinals(wide.view(np.int64) ^ _SIGN, known)
    if pat.is_boolean(kind):
        return Ordinals(np.asarray(values.fill_null(False)).astype(np.int64), known)
    return Ordinals(_encode_integers(values), known)


def _rank_texts(values: pa.Array) -> Longs:
    """The rank of each text among the distinct ones; repeated texts are compared once."""
    encoded = pc.dictionary_encode(values)
    ranks = np.asarray(pc.rank(encoded.dictionary, tiebreaker="dense")).astype(np.int64)
    codes = np.asarray(encoded.indices.fill_null(0))
    return ranks[codes] if len(ranks) else np.zeros(len(values), dtype=np.int64)


def encode_tie_keys(values: pa.Array) -> list[Longs]:
    """Keys for values of any kind; lists and objects have an arbitrary stable order."""
    if not pat.is_struct(values.type):
        return encode_sort_key(make_comparable(values)).keys()
    known = np.asarray(pc.is_valid(values)).astype(np.int64)
    return [known, *(key for member in values.flatten() for key in encode_tie_keys(member))]


def _encode_integers(values: pa.Array) -> Longs:
    """Integers, days and milliseconds as they are stored."""
    if pat.is_date32(values.type):
        values = values.cast(pa.int32())
    return to_longs(values.cast(pa.int64()).fill_null(0))


def _encode_floats(values: pa.Array) -> Longs:
    numbers = np.asarray(values.cast(pa.float64()).fill_null(0.0)) + 0.0
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
    # Below zero, larger bits mean a smaller number.
    return np.asarray(np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits), dtype=np.int64)


def normalize_zeros(values: pa.Array) -> pa.Array:
    """Normalize -0.0 to 0.0, also inside lists and objects.

    For where one value represents several equal ones.
    """
    kind = values.type
    if pat.is_floating(kind):
        return pc.add(values, pa.scalar(0, kind))
    if pat.is_fixed_size_list(kind) and pat.is_floating(kind.value_type):
        members = normalize_zeros(values.values.slice(values.offset * kind.list_size))
        members = members.slice(0, len(values) * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(members, type=kind, mask=values.is_null())
    if pat.is_list(kind) and pat.is_floating(kind.value_type):
        members = normalize_zeros(values.values)
        return pa.ListArray.from_arrays(values.offsets, members, type=kind, mask=values.is_null())
    if pat.is_struct(kind):
        members = [normalize_zeros(member) for member in values.flatten()]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=values.is_null())
    return values


@dataclass(frozen=True, slots=True)
class ValueCodes:
    """Codes of values: equal for equal values, -1 for NULL; `size` codes at most."""

    codes: Codes
    size: int


def encode_value_codes(values: pa.Array) -> ValueCodes:
    """Codes that are equal where the values are; lists and vectors element by element."""
    encoded = pc.dictionary_encode(make_comparable(values))
    indices = encode_values(np.asarray(encoded.indices.fill_null(-1)))
    return ValueCodes(indices, len(encoded.dictionary))


def make_comparable(values: pa.Array) -> pa.Array:
    """The values in a form that can be encoded and sorted, with one zero and one NaN."""
    kind = values.type
    if pat.is_floating(kind):
        return _normalize_floats(values)
    if pat.is_fixed_size_list(kind):
        return _render_lists(values.cast(pa.list_(kind.value_field)))
    if pat.is_list(kind):
        return _render_lists(values)
    return values


def _normalize_floats(values: pa.Array) -> pa.Array:
    plain = pc.if_else(
        pc.equal(values, pa.scalar(0, values.type)), pa.scalar(0, values.type), values
    )
    nan = pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(plain), nan, plain)


def _render_lists(lists: pa.Array) -> pa.Array:
    """Encode each list as a text; the length before each element keeps distinct lists distinct."""
    elements = make_comparable(lists.flatten()).cast(pa.string())
    lengths = pc.binary_length(elements).cast(pa.string())
    texts = pc.binary_join_element_wise(lengths, elements, ":").fill_null("-")
    counts = pc.list_value_length(lists).fill_null(0)
    offsets = np.concatenate([[0], np.cumsum(np.asarray(counts))]).astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")
    known = pc.binary_join_element_wise(counts.cast(pa.string()), joined, " ")
    return pc.if_else(pc.is_valid(lists), known, pa.scalar(None, pa.string()))


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
    """Sort rows; with `keep`, at least this many of the first ones.

    `order` is their present order: sorted rows pass through, and after a common prefix of both
    orders each run of equal rows is sorted by itself.
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
    """Sort each run of rows with equal `same`; a run may span blocks."""
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
    """Return the start of the last run of rows with equal keys."""
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
    """Encode the order of a variable's ids as integers; a missing one comes first."""
    codes, entities = rows.codes[variable], rows.entities[variable]
    if entities.is_ordered or not entities.size:
        return codes.astype(np.int64)
    if len(codes) * _FEW_OF_ALL < entities.size:
        # Only the ids of these few rows are compared.
        some = find_distinct(codes, entities.size)
        rank = rank_ids(entities.columns([ID], some)[ID])
        codes = find_positions(codes, some, entities.size)
    else:
        whole = entities.rank
        assert whole is not None, "codes that are not in id order need a rank"
        rank = whole
    return np.where(codes >= 0, rank[codes], -1) if len(rank) else codes.astype(np.int64)


def sort_by_keys(keys: Sequence[Longs], rows: int) -> Longs:
    """Sort by several keys, the most significant first; the sort is stable."""
    if not keys:
        return np.arange(rows, dtype=np.int64)
    return np.lexsort(tuple(reversed(keys))).astype(np.int64)


def encode_row_keys(values: Values, key: SortKey) -> Ordinals:
    """A sort key for every row, evaluated once for each distinct entity."""
    variables = list_variables(key.value)
    only = next(iter(variables)) if len(variables) == 1 else None
    rows = values.rows
    if only is None or only not in rows.entities:
        return encode_sort_key(values.of(key.value))
    codes, size = rows.codes[only], rows.entities[only].size
    wanted = find_distinct(codes, size)
    some = Rows(len(wanted), {only: wanted}, {only: rows.entities[only]})
    return encode_sort_key(Values(values.context, some).of(key.value)).at(
        find_positions(codes, wanted, size)
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
    """Select a superset of the first `keep` rows, in their present order.

    `columns` may be a prefix of the keys: rows that are equal in it are all selected.
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
            # Rows before the tie are certain; the next column decides among the rest only.
            break
    return chosen


def rank(
    node: Rank, context: ReadContext, child: Iterator[Rows], keep: int | None
) -> Iterator[Rows]:
    """Yield the rows whose entity has a score, best first.

    Ties are ordered by the further keys, then by the ranked entity, so that its rows are
    contiguous, and last by the ids of all variables.
    """
    blocks = list(child)
    if not blocks:
        return
    rows = join_blocks(blocks)
    order, scores = _compute_ranking(node, context, rows, keep)
    rows, positions = _append_ranking(rows, node.ranking.variable, order)
    keys = sort_keys(context, rows, node.keys, ()) if node.keys else []
    levels = _find_levels(scores)[positions]
    ties = [encode_id_order(rows, variable) for variable in node.tie_break]
    found = rows.take(sort_by_keys([levels, *keys, positions, *ties], rows.size))
    yield from found.slice(0, found.size if keep is None else keep).pieces(BLOCK_ROWS)


def _append_ranking(rows: Rows, variable: str, order: Codes) -> tuple[Rows, Longs]:
    """Select the rows whose entity is ranked, and the rank of each."""
    codes, size = rows.codes[variable], rows.entities[variable].size
    is_ranked = np.zeros(size + 1, dtype=np.bool_)  # -1 indexes the last position
    is_ranked[order] = True
    kept = rows.take(np.flatnonzero(is_ranked[codes]))
    positions = find_positions_among(kept.codes[variable].astype(np.int64), order.astype(np.int64))
    return kept, positions.astype(np.int64)


def _compute_ranking(
    node: Rank, context: ReadContext, rows: Rows, keep: int | None
) -> tuple[Codes, Doubles]:
    """The entities of the match from the best to the last one, with their scores."""
    ranking = node.ranking
    entities = rows.entities[ranking.variable]
    codes = find_distinct(rows.codes[ranking.variable], entities.size)
    keep = None if keep is None else min(keep, len(codes))
    # With further keys, ties of the score are not decided by id.
    needed = None if node.keys else keep
    if isinstance(ranking, FusedScore):
        found = fuse_rankings(context, ranking, entities, codes, keep, needed)
        context.fused[ranking] = found
        return found
    return rank_entities(context, ranking, entities, codes, needed)


def _find_levels(scores: Doubles) -> Longs:
    """Number the runs of equal scores, in the order of the ranking."""
    changes = np.concatenate([[0], np.cumsum(scores[1:] != scores[:-1])])[: len(scores)]
    return changes.astype(np.int64)
