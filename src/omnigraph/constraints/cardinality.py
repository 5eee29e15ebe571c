"""`@card(m..n)`: how many edges of a type leave one node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Catalog, EdgeType
from omnigraph.constraints.table_changes import (
    NO_IDS,
    Changes,
    Committed,
    TableChange,
    get_column,
    mask_remaining,
)
from omnigraph.errors import Violation, ViolationKind
from omnigraph.identity import EntityKind, make_table_key


def find_cardinality_violations(
    changes: Changes, catalog: Catalog, committed: Committed
) -> Iterator[Violation]:
    """Sources the write touches that end up with too few or too many edges, by their ids.

    A source that is deleted itself is skipped, and one that no edge was written for or removed
    from is not looked at.
    """
    for edge in catalog.edges.values():
        change = changes.get(edge.table_key)
        if change is not None and edge.has_cardinality:
            yield from _make_violations(change, edge, changes, committed)


def _make_violations(
    change: TableChange, edge: EdgeType, changes: Changes, committed: Committed
) -> Iterator[Violation]:
    written = get_column(change.rows, "src")
    counted = _count_edges(change, written, committed)
    counted = counted.filter(is_broken(edge, counted.column("edges")))
    nodes = changes.get(make_table_key(EntityKind.NODE, edge.from_type))
    if nodes is not None:
        counted = counted.filter(mask_remaining(get_column(counted, "source"), nodes.deleted))
    counted = counted.sort_by("source")
    first_rows = pc.index_in(get_column(counted, "source"), value_set=written)
    for one, index in zip(counted.to_pylist(), first_rows.to_pylist(), strict=True):
        message = describe_cardinality(edge, one["source"], one["edges"])
        kind = ViolationKind.CARDINALITY
        found = (
            Violation(kind, edge.table_key, message)
            if index is None
            else change.violation(kind, message, index)
        )
        yield replace(found, source=one["source"])


def describe_cardinality(edge: EdgeType, source: str, edges: int) -> str:
    problem = f"min {edge.minimum}" if edges < edge.minimum else f"max {edge.maximum}"
    return f"@card violation on edge {edge.name}: source '{source}' has {edges} edges ({problem})"


def is_broken(edge: EdgeType, edges: pa.ChunkedArray) -> pa.ChunkedArray:
    too_few = pc.less(edges, edge.minimum)
    return too_few if edge.maximum is None else pc.or_(too_few, pc.greater(edges, edge.maximum))


def _count_edges(change: TableChange, written: pa.Array, committed: Committed) -> pa.Table:
    """Each source the write touches, once, with the number of its edges after the write."""
    kept, vacated = _find_kept_sources(change, written, committed)
    counts = pc.value_counts(pa.concat_arrays([written, kept]))
    sources = counts.field("values")
    emptied = pc.unique(vacated)
    emptied = emptied.filter(mask_remaining(emptied, sources))
    none = pa.repeat(pa.scalar(0, pa.int64()), len(emptied))
    columns = [
        pa.concat_arrays([sources, emptied]),
        pa.concat_arrays([counts.field("counts"), none]),
    ]
    return pa.table(columns, names=["source", "edges"])


def _find_kept_sources(
    change: TableChange, written: pa.Array, committed: Committed
) -> tuple[pa.Array, pa.Array]:
    """The sources of committed edges that stay, for touched sources, and of those that go."""
    table = change.table_key
    vacated = get_column(committed.find(table, "id", change.gone, ["id", "src"]), "src")
    if change.replaces_all:
        return NO_IDS, vacated
    touched = pa.concat_arrays([written, vacated])
    found = committed.find(table, "src", touched, ["id", "src"])
    kept = found.filter(mask_remaining(get_column(found, "id"), change.gone))
    return get_column(kept, "src"), vacated
