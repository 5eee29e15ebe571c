"""Edges: both of their ends exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.constraints.endpoints import describe_missing_end
from omnigraph.constraints.table_changes import get_column, mask_remaining
from omnigraph.errors import Violation, ViolationKind
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.staged_row_reader import (
    ALL,
    Bucket,
    RuleFindings,
    RuleSpec,
    drop_rows,
    encode_findings,
    read_staged_ids,
    read_staged_rows,
)
from omnigraph.pipeline.staging_area import AT, Staged
from omnigraph.storage.tables import ROW_ADDRESS, Table, TableLocation


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


def check_ends(spec: RuleSpec, task: EndTask) -> list[RuleFindings]:
    """Edges whose end is no node after the load."""
    rows = _read_edges(task)
    ends = get_column(rows, task.end)
    missing = _are_missing(ends, task)
    row_outcomes: tuple[str, ...] = ()
    if task.edges is not None:
        row_outcomes = drop_rows(task.drop_to, get_column(rows, ROW_ADDRESS).filter(missing))
    return [encode_findings(_find_missing_ends(rows, missing, task), spec.rejects, row_outcomes)]


def _read_edges(task: EndTask) -> pa.Table:
    if task.edges is not None:
        return read_staged_rows(
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
    unwritten = mask_remaining(ends, read_staged_ids(task.nodes, task.bucket))
    if task.node_base is None:
        return unwritten
    asked = ends.filter(unwritten)
    if not len(asked):
        return unwritten
    found = get_column(task.node_base.lookup("id", asked, ["id"]), "id")
    return pc.and_(unwritten, mask_remaining(ends, found))


def _find_missing_ends(rows: pa.Table, missing: pa.Array, task: EndTask) -> Iterator[Violation]:
    found = rows.filter(missing)
    has_place = AT in found.schema.names
    if not has_place:
        found = found.sort_by("id")
    for one in found.to_pylist():
        message = describe_missing_end(task.end, one[task.end], task.node_type)
        yield Violation(
            ViolationKind.ORPHAN_EDGE,
            task.table_key,
            message,
            id=one["id"],
            position=one[AT] if has_place else None,
        )
