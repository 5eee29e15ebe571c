"""How many edges of a type leave one node: found, and put right by leaving edges out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType
from omnigraph.constraints.cardinality import describe_cardinality, is_broken
from omnigraph.constraints.table_changes import NO_IDS, get_column, mask_remaining
from omnigraph.errors import Violation, ViolationKind
from omnigraph.execution.load_input import LoadMode
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.staged_row_reader import (
    Bucket,
    RuleFindings,
    RuleSpec,
    drop_rows,
    encode_findings,
    read_replacements,
    read_rows_at,
    read_staged_ids,
    read_staged_rows,
)
from omnigraph.pipeline.staging_area import AT, Staged, decode_catalog_cached
from omnigraph.storage.tables import ROW_ADDRESS, Table, TableLocation


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


def check_cardinality(spec: RuleSpec, task: CardinalityTask) -> list[RuleFindings]:
    """Sources with too few or too many edges; then the edges that are left out for it.

    Where edges may be left out, only those sources are named that this does not help.
    """
    edge = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    assert isinstance(edge, EdgeType)
    rows = read_staged_rows(task.staged, ["id", "src"], bucket=task.bucket, by="src")
    broken = _find_broken(task, edge, get_column(rows, "src"))
    if task.drop_to is None:
        return [encode_findings(_make_violations(edge, broken, rows), spec.rejects), RuleFindings()]
    surplus = _find_surplus(task, edge, broken, rows)
    helpless = broken.filter(
        mask_remaining(get_column(broken, "source"), get_column(surplus, "source"))
    )
    row_outcomes = drop_rows(task.drop_to, get_column(surplus, ROW_ADDRESS))
    return [
        encode_findings(_make_violations(edge, helpless, rows), None),
        encode_findings(_describe_left_out(edge, surplus, broken), spec.rejects, row_outcomes),
    ]


def _find_broken(task: CardinalityTask, edge: EdgeType, written: pa.Array) -> pa.Table:
    """The sources that break the rule and stay, with the number of their edges, by their ids."""
    counts = _count_edges(task, written)
    broken = counts.filter(is_broken(edge, counts.column("edges")))
    broken = broken.filter(
        mask_remaining(get_column(broken, "source"), _find_deleted(task, broken))
    )
    return broken.sort_by("source")


def _find_deleted(task: CardinalityTask, broken: pa.Table) -> pa.Array:
    """The sources that the load deletes: nothing is expected of those."""
    if task.nodes is None or task.node_base is None or not broken.num_rows:
        return NO_IDS
    sources = get_column(broken, "source")
    unwritten = sources.filter(mask_remaining(sources, read_staged_ids(task.nodes, task.bucket)))
    return get_column(task.node_base.lookup("id", unwritten, ["id"]), "id")


def _make_violations(edge: EdgeType, broken: pa.Table, rows: pa.Table) -> Iterator[Violation]:
    first_rows = pc.index_in(get_column(broken, "source"), value_set=get_column(rows, "src"))
    for one, index in zip(broken.to_pylist(), first_rows.to_pylist(), strict=True):
        message = describe_cardinality(edge, one["source"], one["edges"])
        yield Violation(
            ViolationKind.CARDINALITY,
            edge.table_key,
            message,
            id=None if index is None else rows.column("id")[index].as_py(),
            position=None if index is None else rows.column(AT)[index].as_py(),
            source=one["source"],
        )


# --- counting ------------------------------------------------------------------------------------


def _count_edges(task: CardinalityTask, written: pa.Array) -> pa.Table:
    """Each source the load touches, once, with the number of its edges afterwards."""
    kept, vacated = _find_kept_sources(task, written)
    counts = pc.value_counts(pa.concat_arrays([written, kept]))
    sources = counts.field("values")
    emptied = pc.unique(vacated)
    emptied = emptied.filter(mask_remaining(emptied, sources))
    columns = [
        pa.concat_arrays([sources, emptied]),
        pa.concat_arrays(
            [counts.field("counts"), pa.repeat(pa.scalar(0, pa.int64()), len(emptied))]
        ),
    ]
    return pa.table(columns, names=["source", "edges"])


def _find_kept_sources(task: CardinalityTask, written: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The sources of committed edges that stay, for touched sources, and of those that go."""
    base = task.base
    if base is None:
        return NO_IDS, NO_IDS
    if task.mode is LoadMode.OVERWRITE:
        kept = [task.bucket.keep(pa.Table.from_batches([b]), "src") for b in base.batches(["src"])]
        gone = [pc.unique(get_column(table, "src")) for table in kept]
        return NO_IDS, pa.concat_arrays(gone) if gone else NO_IDS
    replaced = _find_replaced(task)
    vacated = get_column(replaced, "src")
    touched = pc.unique(pa.concat_arrays([written, vacated]))
    if not len(touched):
        return NO_IDS, vacated
    found = base.lookup("src", touched, ["src", ROW_ADDRESS])
    kept_rows = found.filter(
        mask_remaining(get_column(found, ROW_ADDRESS), get_column(replaced, "row_address"))
    )
    return get_column(kept_rows, "src"), vacated


def _find_replaced(task: CardinalityTask) -> pa.Table:
    """The committed edges of these sources that staged ones replace."""
    if task.mode is LoadMode.OVERWRITE:
        return read_replacements((), ["address", "row_address", "src"])
    found = read_replacements(task.staged.row_outcomes, ["address", "row_address", "src"])
    return task.bucket.keep(found, "src")


# --- leaving out ---------------------------------------------------------------------------------


def _find_surplus(
    task: CardinalityTask, edge: EdgeType, broken: pa.Table, rows: pa.Table
) -> pa.Table:
    """The edges to leave out: their address, id and place, and the source on whose account.

    Of a source with too many, the last ones in the order of the input, as many as are too many.
    Of a source with too few, all: it is left as it was before.
    """
    if not broken.num_rows:
        return _choose_rows(rows.slice(0, 0), NO_IDS)
    replaced = _find_replaced(task)
    last = _find_last_added(edge, broken, rows, replaced)
    rest = broken.filter(mask_remaining(get_column(broken, "source"), get_column(last, "source")))
    sources = get_column(rest, "source")
    own = rows.filter(pc.is_in(get_column(rows, "src"), value_set=sources))
    moved = replaced.filter(pc.is_in(get_column(replaced, "src"), value_set=sources))
    away = read_rows_at(task.staged, get_column(moved, "address"), ["id"])
    came_from = pc.index_in(get_column(away, ROW_ADDRESS), value_set=get_column(moved, "address"))
    leaving = _choose_rows(away, get_column(moved, "src").take(came_from))
    every = pa.concat_tables([last, _choose_rows(own, get_column(own, "src")), leaving])
    first = pa.table(
        {"row": pa.array(range(every.num_rows), pa.int64()), ROW_ADDRESS: every[ROW_ADDRESS]}
    )
    once = first.group_by(ROW_ADDRESS).aggregate([("row", "min")])
    return every.take(get_column(once, "row_min")).sort_by(AT)


def _find_last_added(
    edge: EdgeType, broken: pa.Table, rows: pa.Table, replaced: pa.Table
) -> pa.Table:
    """Of each source with too many edges, the last of those that its edges grew by."""
    most = edge.maximum
    if most is None:
        return _choose_rows(rows.slice(0, 0), NO_IDS)
    excess = {
        one["source"]: one["edges"] - most for one in broken.to_pylist() if one["edges"] > most
    }
    before = pc.index_in(get_column(rows, ROW_ADDRESS), value_set=get_column(replaced, "address"))
    stays = pc.fill_null(
        pc.equal(get_column(replaced, "src").take(before), get_column(rows, "src")), False
    )
    is_over = pc.is_in(get_column(rows, "src"), value_set=pa.array(list(excess), pa.string()))
    added = rows.filter(pc.and_(is_over, pc.invert(stays))).sort_by([(AT, "descending")])
    chosen = []
    for place, source in enumerate(added.column("src").to_pylist()):
        if excess[source] > 0:
            excess[source] -= 1
            chosen.append(place)
    last = added.take(pa.array(chosen, pa.int64()))
    return _choose_rows(last, get_column(last, "src"))


def _choose_rows(rows: pa.Table, sources: pa.Array) -> pa.Table:
    columns = [get_column(rows, ROW_ADDRESS), get_column(rows, "id"), get_column(rows, AT), sources]
    return pa.table(columns, names=[ROW_ADDRESS, "id", AT, "source"])


def _describe_left_out(edge: EdgeType, surplus: pa.Table, broken: pa.Table) -> Iterator[Violation]:
    counts = {one["source"]: one["edges"] for one in broken.to_pylist()}
    for one in surplus.to_pylist():
        message = describe_cardinality(edge, one["source"], counts[one["source"]])
        yield Violation(
            ViolationKind.CARDINALITY,
            edge.table_key,
            message,
            id=one["id"],
            position=one[AT],
            source=one["source"],
        )
