"""Edges: both ends exist, and no node has too few or too many of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.constraints.cardinality import cardinality_message, is_broken
from omnigraph.constraints.endpoints import missing_end_message
from omnigraph.constraints.model import NO_IDS, column, without
from omnigraph.errors import Violation, ViolationKind
from omnigraph.execution.load import LoadMode
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.reading import (
    ALL,
    Bucket,
    Findings,
    RuleSpec,
    drop_rows,
    findings,
    replacements,
    staged_ids,
    staged_rows,
)
from omnigraph.pipeline.staging import AT, Staged, catalog_of
from omnigraph.storage.tables.handle import ROW_ADDRESS, Table
from omnigraph.storage.tables.location import TableLocation


@dataclass(frozen=True, slots=True)
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


def check_ends(spec: RuleSpec, task: EndTask) -> Findings:
    """Edges whose end is no node after the load."""
    rows = _edges(task)
    ends = column(rows, task.end)
    missing = _are_missing(ends, task)
    fates: tuple[str, ...] = ()
    if task.edges is not None:
        fates = drop_rows(task.drop_to, column(rows, ROW_ADDRESS).filter(missing))
    return findings(_missing_ends(rows, missing, task), spec.rejects, fates)


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
        place = one[AT] if has_place else None
        yield Violation(ViolationKind.ORPHAN_EDGE, task.table_key, message, one["id"], None, place)


@dataclass(frozen=True, slots=True)
class CardinalityTask:
    """The sources of one edge type that fall into one bucket."""

    table_key: TableKey
    mode: LoadMode
    staged: Staged
    base: Table | None
    nodes: Staged | None
    """The nodes at the source, where the load replaces all of them."""
    node_base: Table | None
    """The nodes that were there before, in that case."""
    bucket: Bucket


def check_cardinality(spec: RuleSpec, task: CardinalityTask) -> Findings:
    """Sources that end up with too few or too many edges, by their ids."""
    edge = catalog_of(spec.ir).by_table_key[task.table_key]
    assert isinstance(edge, EdgeType)
    rows = staged_rows(task.staged, ["id", "src"], bucket=task.bucket, by="src")
    counts = _edge_counts(task, column(rows, "src"))
    broken = counts.filter(is_broken(edge, counts.column("edges")))
    broken = broken.filter(without(column(broken, "source"), _deleted(task, broken)))
    return findings(_cardinality(edge, broken.sort_by("source"), rows), spec.rejects)


def _deleted(task: CardinalityTask, broken: pa.Table) -> pa.Array:
    """The sources that the load deletes: nothing is expected of those."""
    if task.nodes is None or task.node_base is None or not broken.num_rows:
        return NO_IDS
    sources = column(broken, "source")
    unwritten = sources.filter(without(sources, staged_ids(task.nodes, task.bucket)))
    return column(task.node_base.lookup("id", unwritten, ["id"]), "id")


def _cardinality(edge: EdgeType, broken: pa.Table, rows: pa.Table) -> Iterator[Violation]:
    first_rows = pc.index_in(column(broken, "source"), value_set=column(rows, "src"))
    for one, index in zip(broken.to_pylist(), first_rows.to_pylist(), strict=True):
        message = cardinality_message(edge, one["source"], one["edges"])
        id = None if index is None else rows.column("id")[index].as_py()
        at = None if index is None else rows.column(AT)[index].as_py()
        yield Violation(ViolationKind.CARDINALITY, edge.table_key, message, id, None, at)


def _edge_counts(task: CardinalityTask, written: pa.Array) -> pa.Table:
    """Each source the load touches, once, with the number of its edges afterwards."""
    kept, vacated = _kept_sources(task, written)
    counts = pc.value_counts(pa.concat_arrays([written, kept]))
    sources = counts.field("values")
    emptied = pc.unique(vacated)
    emptied = emptied.filter(without(emptied, sources))
    columns = [
        pa.concat_arrays([sources, emptied]),
        pa.concat_arrays(
            [counts.field("counts"), pa.repeat(pa.scalar(0, pa.int64()), len(emptied))]
        ),
    ]
    return pa.table(columns, names=["source", "edges"])


def _kept_sources(task: CardinalityTask, written: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The sources of committed edges that stay, for touched sources, and of those that go."""
    base = task.base
    if base is None:
        return NO_IDS, NO_IDS
    if task.mode is LoadMode.OVERWRITE:
        kept = [task.bucket.keep(pa.Table.from_batches([b]), "src") for b in base.batches(["src"])]
        gone = [pc.unique(column(table, "src")) for table in kept]
        return NO_IDS, pa.concat_arrays(gone) if gone else NO_IDS
    replaced = task.bucket.keep(replacements(task.staged.fates, ["row_address", "src"]), "src")
    vacated = column(replaced, "src")
    touched = pc.unique(pa.concat_arrays([written, vacated]))
    if not len(touched):
        return NO_IDS, vacated
    found = base.lookup("src", touched, ["src", ROW_ADDRESS])
    kept_rows = found.filter(without(column(found, ROW_ADDRESS), column(replaced, "row_address")))
    return column(kept_rows, "src"), vacated
