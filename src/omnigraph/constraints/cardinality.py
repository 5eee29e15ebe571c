"""`@card(m..n)`: how many edges of a type leave one node."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.constraints.model import NO_IDS, Changes, Committed, TableChange, column, without
from omnigraph.errors import Violation, ViolationKind
from omnigraph.identity import EntityKind, table_key


def cardinality_violations(
    changes: Changes, catalog: Catalog, committed: Committed
) -> Iterator[Violation]:
    """Sources the write touches that end up with too few or too many edges.

    A source that is deleted itself is skipped, and one that no edge was written for or removed
    from is not looked at.
    """
    for edge in catalog.edges.values():
        change = changes.get(edge.table_key)
        if change is not None and edge.has_cardinality:
            yield from _violations(change, edge, changes, committed)


def _violations(
    change: TableChange, edge: EdgeType, changes: Changes, committed: Committed
) -> Iterator[Violation]:
    written = column(change.rows, "src")
    kept, vacated = _kept_sources(change, written, committed)
    touched = pc.unique(pa.concat_arrays([written, vacated]))
    nodes = changes.get(table_key(EntityKind.NODE, edge.from_type))
    if nodes is not None:
        touched = touched.filter(without(touched, nodes.deleted))
    counts = pc.value_counts(pa.concat_arrays([written, kept]))
    count_of = dict(
        zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    )
    for source in sorted(touched.to_pylist()):
        count = count_of.get(source, 0)
        problem = _problem(edge, count)
        if problem is not None:
            message = f"@card violation on edge {edge.name}: source '{source}' has {count} edges"
            index = pc.index(written, source).as_py()
            yield change.violation(
                ViolationKind.CARDINALITY, f"{message} ({problem})", index if index >= 0 else None
            )


def _problem(edge: EdgeType, count: int) -> str | None:
    if edge.maximum is not None and count > edge.maximum:
        return f"max {edge.maximum}"
    return f"min {edge.minimum}" if count < edge.minimum else None


def _kept_sources(
    change: TableChange, written: pa.Array, committed: Committed
) -> tuple[pa.Array, pa.Array]:
    """The sources of the touched nodes' committed edges that stay, and those edges vacate."""
    table = change.table_key
    vacated = column(committed.find(table, "id", change.gone, ["id", "src"]), "src")
    if change.replaces_all:
        return NO_IDS, vacated
    touched = pc.unique(pa.concat_arrays([written, vacated]))
    found = committed.find(table, "src", touched, ["id", "src"])
    kept = found.filter(without(column(found, "id"), change.gone))
    return column(kept, "src"), vacated
