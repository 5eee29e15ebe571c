"""Check constraints of a share of the staged rows; the rules are those of every write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType
from omnigraph.constraints.constraint_checks import (
    FindNodes,
    describe_cardinality,
    find_wrong_sources,
    list_missing_ends,
    list_ruled_columns,
    list_value_rules,
    list_wrong_sources,
    mask_missing_nodes,
)
from omnigraph.constraints.table_changes import NO_IDS, TableChange, get_column, mask_remaining
from omnigraph.constraints.unique_keys import encode_tuples, find_repeated_tuples
from omnigraph.errors import Violation, ViolationKind
from omnigraph.execution.load_options import LoadMode
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.staged_row_reader import (
    ALL,
    NO_FINDINGS,
    Bucket,
    RuleFindings,
    RuleSpec,
    compute_addresses,
    drop_rows,
    encode_findings,
    filter_staged,
    read_replacements,
    read_rows_at,
    read_staged_ids,
    read_staged_rows,
)
from omnigraph.pipeline.staging_area import AT, Staged, decode_catalog_cached
from omnigraph.storage.tables import ROW_ADDRESS, Table, TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTask:
    """One end of some edges, looked up among the nodes of its type in one bucket."""

    table_key: TableKey
    end: str
    node_table: TableKey
    nodes: Staged | None
    """The nodes of the input, if it has any of the type."""
    node_base: Table | None
    """The retained committed nodes; None if there are none, or all are replaced."""
    edges: Staged | None
    """The edges of the input; None to look at committed ones."""
    edge_base: Table | None
    fragments: tuple[int, ...]
    bucket: Bucket = ALL
    drop_to: TableLocation | None = None


def check_ends(spec: RuleSpec, task: EndTask) -> list[RuleFindings]:
    """Find edges whose end is no node after the load."""
    edge = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    rows = _read_edges(task)
    written = read_staged_ids(task.nodes, task.bucket)
    missing = mask_missing_nodes(get_column(rows, task.end), written, _find_retained(task))
    row_outcomes: tuple[str, ...] = ()
    positions: pa.Array | None = None
    if task.edges is not None:
        row_outcomes = drop_rows(task.drop_to, get_column(rows, ROW_ADDRESS).filter(missing))
        positions = get_column(rows, AT)
    change = TableChange(edge, rows, positions=positions)
    found = list_missing_ends(change, task.end, task.node_table, missing)
    return [encode_findings(found, spec.rejects, row_outcomes)]


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
    return task.bucket.keep(found, task.end).sort_by("id")


def _find_retained(task: EndTask) -> FindNodes | None:
    base = task.node_base
    return None if base is None else lambda ids: get_column(base.lookup("id", ids, ["id"]), "id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTask:
    """Some fragments of the staged rows of one type."""

    table_key: TableKey
    staged: Staged
    fragments: tuple[int, ...]
    drop_to: TableLocation | None = None
    """Table of outcomes in which rows that break a rule are dropped."""


def check_values(spec: RuleSpec, task: ValueTask) -> list[RuleFindings]:
    """Return the findings of each value rule of the type, in the order of the rules."""
    type_ = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    rows = read_staged_rows(
        task.staged, ["id", *list_ruled_columns(type_)], fragments=task.fragments
    )
    change = TableChange(type_, rows, positions=get_column(rows, AT))
    found = [list(rule(change)) for rule in list_value_rules(type_)] if rows.num_rows else []
    bad = {violation.position for violations in found for violation in violations}
    row_outcomes = drop_rows(task.drop_to, compute_addresses(rows, bad)) if bad else ()
    results = [encode_findings(one, spec.rejects) for one in found]
    if row_outcomes:
        results[0] = replace(results[0], row_outcomes=row_outcomes)
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueTask:
    """The tuples of one unique constraint that fall into one bucket."""

    table_key: TableKey
    constraint: int
    """Its index among the constraints of the type."""
    staged: Staged
    base: Table | None
    bucket: Bucket
    drop_to: TableLocation | None = None


def check_unique(spec: RuleSpec, task: UniqueTask) -> list[RuleFindings]:
    """Find rows whose tuple another row of the input has, then those whose tuple is stored."""
    type_ = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    constraint = type_.constraints[task.constraint]
    rows = read_staged_rows(
        task.staged,
        ["id", *constraint.columns],
        bucket=task.bucket,
        by=lambda rows: pc.fill_null(encode_tuples(type_, rows, constraint), ""),
    )
    positions, replaces_all = get_column(rows, AT), task.base is None
    change = TableChange(type_, rows, replaces_all=replaces_all, positions=positions)
    both = find_repeated_tuples(change, constraint, _RetainedRows(task))
    within, against = (list(found) for found in both)
    bad = {violation.position for violation in (*within, *against)}
    row_outcomes = drop_rows(task.drop_to, compute_addresses(rows, bad)) if bad else ()
    return [
        encode_findings(within, spec.rejects, row_outcomes),
        encode_findings(against, spec.rejects),
    ]


class _RetainedRows:
    """Committed rows of a type that the load does not replace."""

    def __init__(self, task: UniqueTask) -> None:
        self._task = task

    def find(self, table: TableKey, by: str, values: pa.Array, columns: Sequence[str]) -> pa.Table:
        del table
        base = self._task.base
        assert base is not None, "a table that is replaced as a whole is not asked"
        found = base.lookup(by, values, list(columns))
        if not found.num_rows:
            return found
        ids = get_column(found, "id")
        return found.filter(mask_remaining(ids, filter_staged(self._task.staged, ids)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CardinalityTask:
    """The sources of one edge type that fall into one bucket."""

    table_key: TableKey
    mode: LoadMode
    staged: Staged
    base: Table | None
    nodes: Staged | None
    """The nodes at the source, if the load replaces all of them."""
    node_base: Table | None
    """The committed nodes, in that case."""
    bucket: Bucket
    drop_to: TableLocation | None = None
    """Table of outcomes in which surplus edges are dropped; None to drop none."""


def check_cardinality(spec: RuleSpec, task: CardinalityTask) -> list[RuleFindings]:
    """Find sources with too few or too many edges; then the surplus edges that are dropped.

    Where edges may be dropped, only sources that dropping does not fix are reported.
    """
    edge = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    assert isinstance(edge, EdgeType)
    rows = read_staged_rows(task.staged, ["id", "src"], bucket=task.bucket, by="src")
    change = TableChange(edge, rows, positions=get_column(rows, AT))
    wrong = _check_sources(task, edge, get_column(rows, "src"))
    if task.drop_to is None:
        return [encode_findings(list_wrong_sources(edge, wrong, change), spec.rejects), NO_FINDINGS]
    surplus = _find_surplus(task, edge, wrong, rows)
    unresolved = wrong.filter(
        mask_remaining(get_column(wrong, "source"), get_column(surplus, "source"))
    )
    row_outcomes = drop_rows(task.drop_to, get_column(surplus, ROW_ADDRESS))
    return [
        encode_findings(list_wrong_sources(edge, unresolved, change), None),
        encode_findings(_describe_skipped(edge, surplus, wrong), spec.rejects, row_outcomes),
    ]


def _check_sources(task: CardinalityTask, edge: EdgeType, written: pa.Array) -> pa.Table:
    """Return the retained sources with too few or too many edges, with their numbers of edges."""
    base, find_deleted = task.base, partial(_find_deleted, task)
    if base is None:
        return find_wrong_sources(edge, written, find_deleted=find_deleted)
    if task.mode is LoadMode.OVERWRITE:
        kept = [task.bucket.keep(pa.Table.from_batches([b]), "src") for b in base.batches(["src"])]
        gone = [NO_IDS, *(pc.unique(get_column(table, "src")) for table in kept)]
        vacated = pa.concat_arrays(gone)
        return find_wrong_sources(edge, written, vacated, find_deleted=find_deleted)
    replaced = _find_replaced(task)

    def find_kept(sources: pa.Array) -> pa.Array:
        found = base.lookup("src", sources, ["src", ROW_ADDRESS])
        gone = get_column(replaced, "row_address")
        return get_column(found.filter(mask_remaining(get_column(found, ROW_ADDRESS), gone)), "src")

    return find_wrong_sources(edge, written, get_column(replaced, "src"), find_kept, find_deleted)


def _find_deleted(task: CardinalityTask, sources: pa.Array) -> pa.Array:
    """Find the sources that the load deletes, which need no edges."""
    if task.nodes is None or task.node_base is None:
        return NO_IDS
    unwritten = sources.filter(mask_remaining(sources, read_staged_ids(task.nodes, task.bucket)))
    return get_column(task.node_base.lookup("id", unwritten, ["id"]), "id")


def _find_replaced(task: CardinalityTask) -> pa.Table:
    """Read the committed edges of these sources that staged ones replace."""
    if task.mode is LoadMode.OVERWRITE:
        return read_replacements((), ["address", "row_address", "src"])
    found = read_replacements(task.staged.row_outcomes, ["address", "row_address", "src"])
    return task.bucket.keep(found, "src")


# --- dropping surplus edges ----------------------------------------------------------------------


def _find_surplus(
    task: CardinalityTask, edge: EdgeType, wrong: pa.Table, rows: pa.Table
) -> pa.Table:
    """Return the edges to drop: their address, id and position, and the source that causes it.

    Of a source with too many, the last ones in input order, down to the maximum.
    Of a source with too few, all: it keeps its committed edges.
    """
    if not wrong.num_rows:
        return _choose_rows(rows.slice(0, 0), NO_IDS)
    replaced = _find_replaced(task)
    last = _find_last_added(edge, wrong, rows, replaced)
    rest = wrong.filter(mask_remaining(get_column(wrong, "source"), get_column(last, "source")))
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
    edge: EdgeType, wrong: pa.Table, rows: pa.Table, replaced: pa.Table
) -> pa.Table:
    """Return, of each source with too many edges, the last of those that its edges grew by."""
    most = edge.maximum
    if most is None:
        return _choose_rows(rows.slice(0, 0), NO_IDS)
    excess = {
        one["source"]: one["edges"] - most for one in wrong.to_pylist() if one["edges"] > most
    }
    before = pc.index_in(get_column(rows, ROW_ADDRESS), value_set=get_column(replaced, "address"))
    stays = pc.fill_null(
        pc.equal(get_column(replaced, "src").take(before), get_column(rows, "src")), False
    )
    is_over = pc.is_in(get_column(rows, "src"), value_set=pa.array(list(excess), pa.string()))
    added = rows.filter(pc.and_(is_over, pc.invert(stays))).sort_by([(AT, "descending")])
    chosen = []
    for index, source in enumerate(added.column("src").to_pylist()):
        if excess[source] > 0:
            excess[source] -= 1
            chosen.append(index)
    last = added.take(pa.array(chosen, pa.int64()))
    return _choose_rows(last, get_column(last, "src"))


def _choose_rows(rows: pa.Table, sources: pa.Array) -> pa.Table:
    columns = [get_column(rows, ROW_ADDRESS), get_column(rows, "id"), get_column(rows, AT), sources]
    return pa.table(columns, names=[ROW_ADDRESS, "id", AT, "source"])


def _describe_skipped(edge: EdgeType, surplus: pa.Table, wrong: pa.Table) -> Iterator[Violation]:
    counts = {one["source"]: one["edges"] for one in wrong.to_pylist()}
    for one in surplus.to_pylist():
        message = describe_cardinality(edge, one["source"], counts[one["source"]])
        yield Violation.of(
            ViolationKind.CARDINALITY,
            edge.table_key,
            message,
            id=one["id"],
            position=one[AT],
            source=one["source"],
        )
