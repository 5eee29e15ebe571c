"""Edges: both of their ends exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.constraints.endpoints import missing_end_message
from omnigraph.constraints.model import column, without
from omnigraph.errors import Violation, ViolationKind
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.reading import (
    ALL,
    Bucket,
    Findings,
    RuleSpec,
    drop_rows,
    findings,
    staged_ids,
    staged_rows,
)
from omnigraph.pipeline.staging import AT, Staged
from omnigraph.storage.tables.handle import ROW_ADDRESS, Table
from omnigraph.storage.tables.location import TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTask:
    """One end of some edges, looked up among the nodes of its type in one bucket."""

    table_key: TableKey
    end: str
    node_type: str
    nodes: Staged | None
    """The nodes of the input, if it has any of the type."""
    node_base: Table | None
    """The committed nodes that stay; None where there are none, or where all are replaced."""
    edges: Staged | None
    """The edges of the input; None to look at committed ones."""
    edge_base: Table | None
    fragments: tuple[int, ...]
    bucket: Bucket = ALL
    drop_to: TableLocation | None = None


def check_ends(spec: RuleSpec, task: EndTask) -> list[Findings]:
    """Edges whose end is no node after the load."""
    rows = _edges(task)
    ends = column(rows, task.end)
    missing = _are_missing(ends, task)
    fates: tuple[str, ...] = ()
    if task.edges is not None:
        fates = drop_rows(task.drop_to, column(rows, ROW_ADDRESS).filter(missing))
    return [findings(_missing_ends(rows, missing, task), spec.rejects, fates)]


def _edges(task: EndTask) -> pa.Table:
    if task.edges is not None:
        return staged_rows(
            task.edges,
            ["id", task.end],
            fragments=task.fragments,
            bucket=task.bucket,
            by=task.end,
        )
    assert task.edge_base is not None
    found = task.edge_base.scan(["id", task.end], fragments=task.fragments)
    return task.bucket.keep(found, task.end)


def _are_missing(ends: pa.Array, task: EndTask) -> pa.Array:
    unwritten = without(ends, staged_ids(task.nodes, task.bucket))
    if task.node_base is None:
        return unwritten
    asked = ends.filter(unwritten)
    if not len(asked):
        return unwritten
    found = column(task.node_base.lookup("id", asked, ["id"]), "id")
    return pc.and_(unwritten, without(ends, found))


def _missing_ends(rows: pa.Table, missing: pa.Array, task: EndTask) -> Iterator[Violation]:
    found = rows.filter(missing)
    has_place = AT in found.schema.names
    if not has_place:
        found = found.sort_by("id")
    for one in found.to_pylist():
        message = missing_end_message(task.end, one[task.end], task.node_type)
        yield Violation(
            ViolationKind.ORPHAN_EDGE,
            task.table_key,
            message,
            id=one["id"],
            position=one[AT] if has_place else None,
        )
