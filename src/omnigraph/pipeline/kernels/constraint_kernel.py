"""Check constraints of staged rows: values, unique tuples, endpoints and cardinality of edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType
from omnigraph.constraints.constraint_checks import (
    describe_cardinality,
    describe_missing_end,
    is_broken,
    list_ruled_columns,
    list_value_rules,
)
from omnigraph.constraints.table_changes import NO_IDS, TableChange, get_column, mask_remaining
from omnigraph.constraints.unique_keys import encode_tuples, find_unique_violations
from omnigraph.errors import Violation, ViolationKind
from omnigraph.execution.load_input import LoadMode
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.staged_row_reader import (
    ALL,
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
    """Its place among the constraints of the type."""
    staged: Staged
    base: Table | None
    bucket: Bucket
    drop_to: TableLocation | None = None


def check_unique(spec: RuleSpec, task: UniqueTask) -> list[RuleFindings]:
    """Rows whose tuple another row of the input has, then those whose tuple is in the table."""
    type_ = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    constraint = type_.constraints[task.constraint]
    narrow = replace(type_, constraints=(constraint,))
    rows = read_staged_rows(
        task.staged,
        ["id", *constraint.columns],
        bucket=task.bucket,
        by=lambda rows: pc.fill_null(encode_tuples(type_, rows, constraint), ""),
    )
    change = TableChange(narrow, rows, replaces_all=True, positions=get_column(rows, AT))
    within = list(find_unique_violations(change, _Staying(task)))
    found = within
    if task.base is not None:
        found = list(find_unique_violations(replace(change, replaces_all=False), _Staying(task)))
    bad = {violation.position for violation in found}
    row_outcomes = drop_rows(task.drop_to, compute_addresses(rows, bad)) if bad else ()
    against = found[len(within) :]
    return [
        encode_findings(within, spec.rejects, row_outcomes),
        encode_findings(against, spec.rejects),
    ]


class _Staying:
    """The committed rows of a type that the load does not replace."""

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
    """The nodes at the source, where the load replaces all of them."""
    node_base: Table | None
    """The nodes that were there before, in that case."""
    bucket: Bucket
    drop_to: TableLocation | None = None
    """Table of outcomes in which surplus edges are dropped; None to drop none."""


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
    cached_rows = found.filter(
        mask_remaining(get_column(found, ROW_ADDRESS), get_column(replaced, "row_address"))
    )
    return get_column(cached_rows, "src"), vacated


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
