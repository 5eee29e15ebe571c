"""Edges that were staged without ids get those of the edges that are there, or new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType
from omnigraph.constraints.table_changes import get_column
from omnigraph.execution.edge_matching import find_match_key, match_ids
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.fresh_ids import mint_ids
from omnigraph.pipeline.staging_area import decode_catalog_cached
from omnigraph.storage.tables import Table, TableLocation, write_fragments


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchTask:
    """One fragment of staged edges, and the edges of their type that are there, if any."""

    table_key: TableKey
    staged: Table
    fragment: int
    base: Table | None
    target: TableLocation


def match_rows(ir: str, task: MatchTask) -> list[str]:
    """The same rows with ids, in their order, as files elsewhere."""
    type_ = decode_catalog_cached(ir).by_table_key[task.table_key]
    key = find_match_key(type_)
    assert isinstance(type_, EdgeType), "only edges are staged without ids"
    assert key is not None, "and only where they can be found"
    rows = pa.Table.from_batches(list(task.staged.batches(fragments=[task.fragment])))
    columns = {name: get_column(rows, name) for name in rows.column_names}
    find = partial(find_edges, task.base)
    columns["id"] = match_ids(type_, columns, key, find, mint_ids(rows.num_rows))
    whole = pa.table(columns, schema=rows.schema)
    return write_fragments(task.target, whole, rows_per_file=max(1, rows.num_rows))


def find_edges(table: Table | None, by: str, values: pa.Array, columns: Sequence[str]) -> pa.Table:
    """Stored edges; of a type that has none, none."""
    if table is None or not len(values):
        return pa.table({name: pa.array([], pa.string()) for name in columns})
    return table.lookup(by, values, columns)
