"""Both ends of every edge exist, after the write as before it."""

from __future__ import annotations

from collections.abc import Iterator

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
from omnigraph.identity import EntityKind, TableKey, make_table_key


def find_endpoint_violations(
    changes: Changes, catalog: Catalog, committed: Committed
) -> Iterator[Violation]:
    """Edges of the write with a missing end, then kept edges that lose one; by edge type."""
    for edge in catalog.edges.values():
        change = changes.get(edge.table_key)
        if change is not None and change.rows.num_rows:
            yield from _find_missing_ends(change, edge, changes, committed)
    for edge in catalog.edges.values():
        yield from _find_orphaned_edges(edge, changes, committed)


def describe_missing_end(end: str, id: str, node_type: str) -> str:
    return f"{end} '{id}' not found in {node_type}"


def _list_ends(edge: EdgeType) -> tuple[tuple[str, TableKey], tuple[str, TableKey]]:
    return (
        ("src", make_table_key(EntityKind.NODE, edge.from_type)),
        ("dst", make_table_key(EntityKind.NODE, edge.to_type)),
    )


def _find_missing_ends(
    change: TableChange, edge: EdgeType, changes: Changes, committed: Committed
) -> Iterator[Violation]:
    both = _list_ends(edge)
    ends = [get_column(change.rows, name) for name, _ in both]
    masks = _build_masks(ends, [nodes for _, nodes in both], changes, committed)
    for (name, nodes), ids, missing in zip(both, ends, masks, strict=True):
        type_name = nodes.partition(":")[2]
        for index in pc.indices_nonzero(missing).to_pylist():
            message = describe_missing_end(name, ids[index].as_py(), type_name)
            yield change.violation(ViolationKind.ORPHAN_EDGE, message, index)


def _build_masks(
    ends: list[pa.Array], tables: list[TableKey], changes: Changes, committed: Committed
) -> list[pa.Array]:
    """For each end which of its nodes are missing; both are looked up at once where they can be."""
    if tables[0] != tables[1]:
        pairs = zip(ends, tables, strict=True)
        return [_are_missing(ids, nodes, changes.get(nodes), committed) for ids, nodes in pairs]
    nodes = tables[0]
    missing = _are_missing(pa.concat_arrays(ends), nodes, changes.get(nodes), committed)
    return [missing.slice(0, len(ends[0])), missing.slice(len(ends[0]))]


def _are_missing(
    ends: pa.Array, nodes: TableKey, change: TableChange | None, committed: Committed
) -> pa.Array:
    """Which of the ends are no nodes after the write; committed nodes are asked for last."""
    unwritten = mask_remaining(ends, change.ids if change is not None else NO_IDS)
    if change is not None and change.replaces_all:
        return unwritten
    asked = ends.filter(unwritten)
    if change is not None:
        asked = asked.filter(mask_remaining(asked, change.deleted))
    if not len(asked):
        return unwritten
    found = get_column(committed.find(nodes, "id", asked, ["id"]), "id")
    return pc.and_(unwritten, mask_remaining(ends, found))


def _find_orphaned_edges(
    edge: EdgeType, changes: Changes, committed: Committed
) -> Iterator[Violation]:
    """Committed edges that stay while a node at one of their ends goes."""
    own = changes.get(edge.table_key)
    if own is not None and own.replaces_all:
        return
    gone = own.gone if own is not None else NO_IDS
    for name, nodes in _list_ends(edge):
        change = changes.get(nodes)
        if change is None or not len(change.deleted):
            continue
        found = committed.find(edge.table_key, name, change.deleted, ["id", name])
        kept = found.filter(mask_remaining(get_column(found, "id"), gone)).sort_by("id")
        type_name = nodes.partition(":")[2]
        for one in kept.to_pylist():
            yield Violation(
                ViolationKind.ORPHAN_EDGE,
                edge.table_key,
                describe_missing_end(name, one[name], type_name),
                id=one["id"],
            )
