"""Reading every row: ids are there once, edges end at nodes, and indexes tell the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.tables import LanceIndexKind, Table, build_in_list, describe_indices
from omnigraph.storage.tables.auto_cleanup import require_valid_table
from omnigraph.storage.tables.quoting import can_be_listed

Complain = Callable[[str, str], None]

SAMPLE = 200
"""So many values of an indexed column are looked up through the index."""


def verify_rows(table: Table, complain: Complain) -> None:
    """Tell everything that is wrong with the rows of a table."""
    ids: Counter[str | None] = Counter()
    columns = [field.name for field in table.schema]
    for batch in table.batches(columns, blob_bytes=True):
        batch.validate(full=True)
        ids.update(batch.column("id").to_pylist())
    for id, count in ids.items():
        if id is None:
            complain("id", f"{count} rows have no id")
        elif count > 1:
            complain("duplicate_id", f"'{id}' occurs {count} times")
    require_valid_table(table)
    for message in _find_index_mistakes(table):
        complain("index", message)


def count_dangling_ends(edges: Table, column: str, nodes: Table) -> tuple[int, str | None]:
    """How many edges have an end that is no node, and one such end."""
    ids = nodes.scan(["id"]).column("id").combine_chunks()
    count, example = 0, None
    for batch in edges.batches([column]):
        ends = batch.column(column)
        missing = ends.filter(pc.invert(pc.is_in(ends, value_set=ids)))
        count += len(missing)
        if len(missing) and example is None:
            example = str(missing[0].as_py())
    return count, example


def _find_index_mistakes(table: Table) -> Iterator[str]:
    """Where looking up through a B-tree and scanning give different answers."""
    for index in describe_indices(table):
        column = index.columns[0]
        is_tree = index.kind.upper() == LanceIndexKind.BTREE and index.columns == (column,)
        if not is_tree or not can_be_listed(table.schema.field(column).type):
            continue
        wanted = _sample(table, column)
        if not len(wanted):
            continue
        filter = build_in_list(column, wanted)
        fast = _collect_ids(table.scan(["id"], filter))
        slow = _collect_ids(table.scan(["id"], filter, use_index=False))
        if fast != slow:
            missing, extra = len(slow - fast), len(fast - slow)
            yield f"the index on {column} misses {missing} rows and adds {extra}"


def _sample(table: Table, column: str) -> pa.Array:
    """Values spread over the whole column."""
    values = pc.unique(table.scan([column]).column(column)).drop_null()
    step = max(1, len(values) // SAMPLE)
    taken = values.take(pa.array(range(0, len(values), step), pa.int64())[:SAMPLE])
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _collect_ids(rows: pa.Table) -> set[str]:
    return set(rows.column("id").to_pylist())
