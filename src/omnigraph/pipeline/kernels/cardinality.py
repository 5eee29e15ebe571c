"""How many edges of a type leave one node: found, and put right by leaving edges out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.constraints.cardinality import cardinality_message, is_broken
from omnigraph.constraints.model import NO_IDS, column, without
from omnigraph.errors import Violation, ViolationKind
from omnigraph.execution.load import LoadMode
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.reading import (
    Bucket,
    Findings,
    RuleSpec,
    drop_rows,
    findings,
    replacements,
    rows_at,
    staged_ids,
    staged_rows,
)
from omnigraph.pipeline.staging import AT, Staged, catalog_of
from omnigraph.storage.tables.handle import ROW_ADDRESS, Table
from omnigraph.storage.tables.location import TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
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
    drop_to: TableLocation | None = None
    """Where to note the edges that are left out; None to leave none out."""


def check_cardinality(spec: RuleSpec, task: CardinalityTask) -> list[Findings]:
    """Sources with too few or too many edges; then the edges that are left out for it.

    Where edges may be left out, only those sources are named that this does not help.
    """
    edge = catalog_of(spec.ir).by_table_key[task.table_key]
    assert isinstance(edge, EdgeType)
    rows = staged_rows(task.staged, ["id", "src"], bucket=task.bucket, by="src")
    broken = _broken(task, edge, column(rows, "src"))
    if task.drop_to is None:
        return [findings(_violations(edge, broken, rows), spec.rejects), Findings()]
    surplus = _surplus(task, edge, broken, rows)
    helpless = broken.filter(without(column(broken, "source"), column(surplus, "source")))
    fates = drop_rows(task.drop_to, column(surplus, ROW_ADDRESS))
    return [
        findings(_violations(edge, helpless, rows), None),
        findings(_left_out(edge, surplus, broken), spec.rejects, fates),
    ]


def _broken(task: CardinalityTask, edge: EdgeType, written: pa.Array) -> pa.Table:
    """The sources that break the rule and stay, with the number of their edges, by their ids."""
    counts = _edge_counts(task, written)
    broken = counts.filter(is_broken(edge, counts.column("edges")))
    broken = broken.filter(without(column(broken, "source"), _deleted(task, broken)))
    return broken.sort_by("source")


def _deleted(task: CardinalityTask, broken: pa.Table) -> pa.Array:
    """The sources that the load deletes: nothing is expected of those."""
    if task.nodes is None or task.node_base is None or not broken.num_rows:
        return NO_IDS
    sources = column(broken, "source")
    unwritten = sources.filter(without(sources, staged_ids(task.nodes, task.bucket)))
    return column(task.node_base.lookup("id", unwritten, ["id"]), "id")


def _violations(edge: EdgeType, broken: pa.Table, rows: pa.Table) -> Iterator[Violation]:
    first_rows = pc.index_in(column(broken, "source"), value_set=column(rows, "src"))
    for one, index in zip(broken.to_pylist(), first_rows.to_pylist(), strict=True):
        message = cardinality_message(edge, one["source"], one["edges"])
        yield Violation(
            ViolationKind.CARDINALITY,
            edge.table_key,
            message,
            id=None if index is None else rows.column("id")[index].as_py(),
            position=None if index is None else rows.column(AT)[index].as_py(),
            source=one["source"],
        )


# --- counting ------------------------------------------------------------------------------------


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
    replaced = _replaced(task)
    vacated = column(replaced, "src")
    touched = pc.unique(pa.concat_arrays([written, vacated]))
    if not len(touched):
        return NO_IDS, vacated
    found = base.lookup("src", touched, ["src", ROW_ADDRESS])
    kept_rows = found.filter(without(column(found, ROW_ADDRESS), column(replaced, "row_address")))
    return column(kept_rows, "src"), vacated


def _replaced(task: CardinalityTask) -> pa.Table:
    """The committed edges of these sources that staged ones replace."""
    if task.mode is LoadMode.OVERWRITE:
        return replacements((), ["address", "row_address", "src"])
    found = replacements(task.staged.fates, ["address", "row_address", "src"])
    return task.bucket.keep(found, "src")


# --- leaving out ---------------------------------------------------------------------------------


def _surplus(task: CardinalityTask, edge: EdgeType, broken: pa.Table, rows: pa.Table) -> pa.Table:
    """The edges to leave out: their address, id and place, and the source on whose account.

    Of a source with too many, the last ones in the order of the input, as many as are too many.
    Of a source with too few, all: it is left as it was before.
    """
    if not broken.num_rows:
        return _chosen(rows.slice(0, 0), NO_IDS)
    replaced = _replaced(task)
    last = _last_added(edge, broken, rows, replaced)
    rest = broken.filter(without(column(broken, "source"), column(last, "source")))
    sources = column(rest, "source")
    own = rows.filter(pc.is_in(column(rows, "src"), value_set=sources))
    moved = replaced.filter(pc.is_in(column(replaced, "src"), value_set=sources))
    away = rows_at(task.staged, column(moved, "address"), ["id"])
    came_from = pc.index_in(column(away, ROW_ADDRESS), value_set=column(moved, "address"))
    leaving = _chosen(away, column(moved, "src").take(came_from))
    every = pa.concat_tables([last, _chosen(own, column(own, "src")), leaving])
    first = pa.table(
        {"row": pa.array(range(every.num_rows), pa.int64()), ROW_ADDRESS: every[ROW_ADDRESS]}
    )
    once = first.group_by(ROW_ADDRESS).aggregate([("row", "min")])
    return every.take(column(once, "row_min")).sort_by(AT)


def _last_added(edge: EdgeType, broken: pa.Table, rows: pa.Table, replaced: pa.Table) -> pa.Table:
    """Of each source with too many edges, the last of those that its edges grew by."""
    most = edge.maximum
    if most is None:
        return _chosen(rows.slice(0, 0), NO_IDS)
    excess = {
        one["source"]: one["edges"] - most for one in broken.to_pylist() if one["edges"] > most
    }
    before = pc.index_in(column(rows, ROW_ADDRESS), value_set=column(replaced, "address"))
    stays = pc.fill_null(pc.equal(column(replaced, "src").take(before), column(rows, "src")), False)
    is_over = pc.is_in(column(rows, "src"), value_set=pa.array(list(excess), pa.string()))
    added = rows.filter(pc.and_(is_over, pc.invert(stays))).sort_by([(AT, "descending")])
    chosen = []
    for place, source in enumerate(added.column("src").to_pylist()):
        if excess[source] > 0:
            excess[source] -= 1
            chosen.append(place)
    last = added.take(pa.array(chosen, pa.int64()))
    return _chosen(last, column(last, "src"))


def _chosen(rows: pa.Table, sources: pa.Array) -> pa.Table:
    columns = [column(rows, ROW_ADDRESS), column(rows, "id"), column(rows, AT), sources]
    return pa.table(columns, names=[ROW_ADDRESS, "id", AT, "source"])


def _left_out(edge: EdgeType, surplus: pa.Table, broken: pa.Table) -> Iterator[Violation]:
    counts = {one["source"]: one["edges"] for one in broken.to_pylist()}
    for one in surplus.to_pylist():
        message = cardinality_message(edge, one["source"], counts[one["source"]])
        yield Violation(
            ViolationKind.CARDINALITY,
            edge.table_key,
            message,
            id=one["id"],
            position=one[AT],
            source=one["source"],
        )
