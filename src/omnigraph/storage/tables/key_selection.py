"""Rows by the values of one column: when to ask an index for them, and how to find them without."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.tables.quoting import build_in_list

_KEYS_PER_LIST = 5_000
"""Longer lists cost more to plan than the index saves."""
_LIST_SHARE = 0.01
"""Above this share of the rows, one scan of the key column beats the index."""
_FEW_KEYS = 10
"""So few are listed however small the table is."""
_ROWS_PER_SLAB = 1 << 20
_ROWS_PER_KEY = 8
"""So many rows to a key are worth a table of hashes of the keys."""


def are_few_keys(keys: int, rows: int) -> bool:
    """Whether so many keys, of so many rows, are found faster by lists than by a scan."""
    return keys <= max(_FEW_KEYS, int(rows * _LIST_SHARE))


def build_key_filters(column: str, keys: pa.Array) -> list[str]:
    """Filters that together let the rows with these keys through; one even if there are none."""
    starts = range(0, max(len(keys), 1), _KEYS_PER_LIST)
    return [build_in_list(column, keys.slice(start, _KEYS_PER_LIST)) for start in starts]


def drop_duplicate_keys(keys: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """The keys as the column has them, each once and none of them null."""
    if len(keys) == 1 and keys.type == kind and not keys.null_count:
        # What a small write asks for; each step below would cost more than finding it.
        return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    return pc.unique(keys.cast(kind)).drop_null()


def select_keys(rows: pa.Table, column: str, keys: pa.Array) -> pa.Table:
    """The rows whose `column` is one of `keys`."""
    if not pa.types.is_string(keys.type):
        return rows.filter(pc.is_in(rows.column(column), value_set=keys))
    # The same by another table of hashes, which for texts is five times as fast.
    return rows.join(pa.table({column: keys}), column, join_type="left semi", use_threads=False)


def split_slabs(batches: Iterator[pa.RecordBatch], *, keys: int) -> Iterator[pa.Table]:
    """The batches in tables of a million rows, or up to four where there are many keys.

    Looking for keys builds a hash table of them for every call, which must not be every batch.
    """
    wanted = max(_ROWS_PER_SLAB, min(_ROWS_PER_KEY * keys, 4 * _ROWS_PER_SLAB))
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= wanted:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
