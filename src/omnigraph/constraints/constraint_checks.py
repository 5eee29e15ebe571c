"""Check one write against every rule of its types: values, uniqueness, endpoints, cardinality.

Rules are functions of rows and look-ups that return violations and change nothing. Mutations,
loads, merges and migrations call them on whole changes, through `find_violations` in one fixed
order; tasks of the pipeline call them on their share of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial, reduce
from itertools import islice

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import (
    Catalog,
    Constraint,
    ConstraintKind,
    EdgeType,
    NodeType,
    Property,
)
from omnigraph.constraints.table_changes import (
    NO_IDS,
    REPORTED,
    Changes,
    Committed,
    TableChange,
    get_column,
    mask_remaining,
)
from omnigraph.constraints.unique_keys import find_unique_violations
from omnigraph.errors import ConstraintViolated, Violation, ViolationKind
from omnigraph.identity import EntityKind, TableKey, make_table_key
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, INTEGERS, Scalar


def find_value_violations(change: TableChange) -> Iterator[Violation]:
    """Yield violations in the order of the constraints, then of the rows; NULL breaks no rule."""
    if change.rows.num_rows == 0:
        return
    for rule in list_value_rules(change.type):
        yield from rule(change)


ValueRule = Callable[[TableChange], Iterator[Violation]]


def list_value_rules(type_: NodeType | EdgeType) -> list[ValueRule]:
    """List the rules about single values, in the order they are checked."""
    rules: list[ValueRule] = []
    for constraint in type_.of_kind(ConstraintKind.RANGE):
        rules.append(partial(_check_range, constraint=constraint))
    for constraint in type_.of_kind(ConstraintKind.CHECK):
        rules.append(partial(_check, constraint=constraint))
    for property_ in type_.properties:
        if property_.type.enum_values is not None:
            members = property_.type.enum_values
            rules.append(partial(_check_enum, property_=property_, members=members))
    return rules


def list_missing_values(
    change: TableChange, names: Iterable[str], reason: str = ""
) -> Iterator[Violation]:
    """Yield a violation for each NULL in columns that must have values, column by column."""
    for name in names:
        message = f"{change.type.name}.{name} is NULL and must have a value{reason}"
        missing = pc.is_null(get_column(change.rows, name))
        for index in pc.indices_nonzero(missing).to_pylist():
            yield change.violation(ViolationKind.VALUE, message, index)


def list_ruled_columns(type_: NodeType | EdgeType) -> list[str]:
    """List the properties that have rules about single values."""
    kinds = (ConstraintKind.RANGE, ConstraintKind.CHECK)
    named = {c.columns[0] for kind in kinds for c in type_.of_kind(kind)}
    return [p.name for p in type_.properties if p.name in named or p.type.enum_values is not None]


def _check_range(change: TableChange, constraint: Constraint) -> Iterator[Violation]:
    name, low, high = constraint.columns[0], constraint.low, constraint.high
    scalar = change.type.by_name[name].type.scalar
    values = get_column(change.rows, name)
    broken: list[tuple[pa.Array, str]] = []
    if low is not None:
        broken.append((_find_beyond(values, scalar, low, below=True), f"< min {low}"))
    if high is not None:
        broken.append((_find_beyond(values, scalar, high, below=False), f"> max {high}"))
    if scalar in FLOATS:
        broken.append((pc.is_nan(values), ""))

    def message(index: int) -> str:
        problem = next(text for mask, text in broken if mask[index].as_py())
        found = f"{values[index]} {problem}" if problem else "is NaN"
        return f"@range violation on {change.type.name}.{name}: value {found}"

    yield from _make_violations_at(change, reduce(pc.or_, (mask for mask, _ in broken)), message)


def _find_beyond(values: pa.Array, scalar: Scalar, bound: str, *, below: bool) -> pa.Array:
    """Mask the values outside a bound; whole numbers are compared exactly, not as floats."""
    compare = pc.less if below else pc.greater
    if scalar not in INTEGERS:
        return compare(values.cast(pa.float64()), pa.scalar(float(bound)))
    # A bound between two whole numbers allows the same ones as the next whole number inside it.
    limit = (math.ceil if below else math.floor)(Decimal(bound))
    least, most = INTEGER_BOUNDS[scalar]
    if least <= limit <= most:
        return compare(values, pa.scalar(limit, values.type))
    excludes_all = limit > most if below else limit < least
    return pc.and_(pc.is_valid(values), pa.scalar(excludes_all))


def _check(change: TableChange, constraint: Constraint) -> Iterator[Violation]:
    name, pattern = constraint.columns[0], constraint.pattern
    assert pattern is not None, "a check has a pattern"
    values = get_column(change.rows, name)
    wrong = pc.invert(pc.match_substring_regex(values, pattern))
    shown = f"@check violation on {change.type.name}.{name}:"
    yield from _make_violations_at(
        change, wrong, lambda i: f"{shown} value '{values[i]}' does not match pattern '{pattern}'"
    )


def _check_enum(
    change: TableChange, property_: Property, members: tuple[str, ...]
) -> Iterator[Violation]:
    values = get_column(change.rows, property_.name)
    known = pc.is_in(values, value_set=pa.array(members, pa.string()))
    wrong = pc.and_(pc.is_valid(values), pc.invert(known))
    where, expected = f"{change.type.name}.{property_.name}", ", ".join(members)
    yield from _make_violations_at(
        change,
        wrong,
        lambda i: f"invalid enum value '{values[i]}' for {where} (expected: {expected})",
    )


def _make_violations_at(
    change: TableChange, mask: pa.Array, message: Callable[[int], str]
) -> Iterator[Violation]:
    """Yield a violation for each row the mask names; the common case of none costs one pass."""
    for index in pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist():
        yield change.violation(ViolationKind.VALUE, message(index), index)


# --- endpoints ------------------------------------------------------------------------------------


def find_endpoint_violations(
    changes: Changes, catalog: Catalog, committed: Committed
) -> Iterator[Violation]:
    """Find edges of the write with a missing end, then retained edges that lose one; by type."""
    for edge in catalog.edges.values():
        change = changes.get(edge.table_key)
        if change is not None and change.rows.num_rows:
            yield from _find_missing_ends(change, edge, changes, committed)
    for edge in catalog.edges.values():
        yield from _find_orphaned_edges(edge, changes, committed)


FindNodes = Callable[[pa.Array], pa.Array]
"""Look up ids among the committed nodes that the write retains; returns those found."""


def mask_missing_nodes(ends: pa.Array, written: pa.Array, find: FindNodes | None) -> pa.Array:
    """Mask the ends that are no nodes after the write; committed nodes are looked up last.

    Args:
        ends: The ids at one end of some edges.
        written: The ids of the nodes that are written.
        find: Finds retained nodes; None if there are none.
    """
    unwritten = mask_remaining(ends, written)
    if find is None:
        return unwritten
    wanted = ends.filter(unwritten)
    if not len(wanted):
        return unwritten
    return pc.and_(unwritten, mask_remaining(ends, find(wanted)))


def list_missing_ends(
    change: TableChange, end: str, nodes: TableKey, missing: pa.Array
) -> Iterator[Violation]:
    """Yield a violation for each edge of a change whose end is missing."""
    ids, type_name = get_column(change.rows, end), nodes.partition(":")[2]
    for index in pc.indices_nonzero(missing).to_pylist():
        message = f"{end} '{ids[index].as_py()}' not found in {type_name}"
        yield change.violation(ViolationKind.ORPHAN_EDGE, message, index)


def list_ends(edge: EdgeType) -> tuple[tuple[str, TableKey], tuple[str, TableKey]]:
    """Return the columns of both ends of an edge type, each with the table of its nodes."""
    return (
        ("src", make_table_key(EntityKind.NODE, edge.from_type)),
        ("dst", make_table_key(EntityKind.NODE, edge.to_type)),
    )


def _find_missing_ends(
    change: TableChange, edge: EdgeType, changes: Changes, committed: Committed
) -> Iterator[Violation]:
    both = list_ends(edge)
    ends = [get_column(change.rows, name) for name, _ in both]
    masks = _mask_both_ends(ends, [nodes for _, nodes in both], changes, committed)
    for (name, nodes), missing in zip(both, masks, strict=True):
        yield from list_missing_ends(change, name, nodes, missing)


def _mask_both_ends(
    ends: list[pa.Array], tables: list[TableKey], changes: Changes, committed: Committed
) -> list[pa.Array]:
    """Mask the missing nodes of each end; both ends of one type are looked up at once."""
    if tables[0] != tables[1]:
        pairs = zip(ends, tables, strict=True)
        return [_mask_missing(ids, nodes, changes.get(nodes), committed) for ids, nodes in pairs]
    nodes = tables[0]
    missing = _mask_missing(pa.concat_arrays(ends), nodes, changes.get(nodes), committed)
    return [missing.slice(0, len(ends[0])), missing.slice(len(ends[0]))]


def _mask_missing(
    ends: pa.Array, nodes: TableKey, change: TableChange | None, committed: Committed
) -> pa.Array:
    written = change.ids if change is not None else NO_IDS
    deleted = change.deleted if change is not None else NO_IDS

    def find(ids: pa.Array) -> pa.Array:
        retained = ids.filter(mask_remaining(ids, deleted))
        if not len(retained):
            return NO_IDS
        return get_column(committed.find(nodes, "id", retained, ["id"]), "id")

    replaces_all = change is not None and change.replaces_all
    return mask_missing_nodes(ends, written, None if replaces_all else find)


def _find_orphaned_edges(
    edge: EdgeType, changes: Changes, committed: Committed
) -> Iterator[Violation]:
    """Find committed edges that are retained while a node at one of their ends is deleted."""
    own = changes.get(edge.table_key)
    if own is not None and own.replaces_all:
        return
    gone = own.gone if own is not None else NO_IDS
    for name, nodes in list_ends(edge):
        change = changes.get(nodes)
        if change is None or not len(change.deleted):
            continue
        found = committed.find(edge.table_key, name, change.deleted, ["id", name])
        kept = found.filter(mask_remaining(get_column(found, "id"), gone)).sort_by("id")
        every = pa.repeat(pa.scalar(True), kept.num_rows)
        yield from list_missing_ends(TableChange(edge, kept), name, nodes, every)


# --- cardinality ----------------------------------------------------------------------------------


def find_cardinality_violations(
    changes: Changes, catalog: Catalog, committed: Committed
) -> Iterator[Violation]:
    """Find sources the write touches that end up with too few or too many edges, by their ids.

    A source that is deleted itself is skipped, and one that no edge was written for or removed
    from is not checked.
    """
    for edge in catalog.edges.values():
        change = changes.get(edge.table_key)
        if change is not None and edge.has_cardinality:
            yield from _check_sources(change, edge, changes, committed)


FindSources = Callable[[pa.Array], pa.Array]
"""Look up among committed rows by the ids of sources."""


def find_wrong_sources(
    edge: EdgeType,
    written: pa.Array,
    vacated: pa.Array = NO_IDS,
    find_kept: FindSources | None = None,
    find_deleted: FindSources | None = None,
) -> pa.Table:
    """Count the edges of the touched sources after a write; returns those with a wrong number.

    Args:
        edge: The type of the edges.
        written: The source of each edge that is written.
        vacated: The sources of committed edges that are deleted or replaced.
        find_kept: Finds the source of each committed edge that is retained; None if all go.
        find_deleted: Finds the sources that are deleted themselves; None if none is.
    """
    kept = NO_IDS
    if find_kept is not None:
        touched = pc.unique(pa.concat_arrays([written, vacated]))
        kept = find_kept(touched) if len(touched) else NO_IDS
    wrong = filter_wrong_counts(edge, count_edges(written, kept, vacated))
    if find_deleted is None or not wrong.num_rows:
        return wrong
    sources = get_column(wrong, "source")
    return wrong.filter(mask_remaining(sources, find_deleted(sources)))


def _check_sources(
    change: TableChange, edge: EdgeType, changes: Changes, committed: Committed
) -> Iterator[Violation]:
    table = change.table_key
    nodes = changes.get(make_table_key(EntityKind.NODE, edge.from_type))
    gone = get_column(committed.find(table, "id", change.gone, ["id", "src"]), "src")

    def find_kept(sources: pa.Array) -> pa.Array:
        found = committed.find(table, "src", sources, ["id", "src"])
        kept = found.filter(mask_remaining(get_column(found, "id"), change.gone))
        return get_column(kept, "src")

    wrong = find_wrong_sources(
        edge,
        get_column(change.rows, "src"),
        gone,
        None if change.replaces_all else find_kept,
        None if nodes is None else lambda _: nodes.deleted,
    )
    yield from list_wrong_sources(edge, wrong, change)


def count_edges(written: pa.Array, kept: pa.Array, vacated: pa.Array) -> pa.Table:
    """Count the edges of each source after a write, each source the write touches once.

    Args:
        written: The source of each edge that is written.
        kept: The source of each committed edge that is retained, for touched sources.
        vacated: The sources of committed edges that are deleted or replaced.
    """
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


def filter_wrong_counts(edge: EdgeType, counts: pa.Table) -> pa.Table:
    """Return the sources with too few or too many edges, in the order of their ids."""
    edges = counts.column("edges")
    wrong = pc.less(edges, edge.minimum)
    if edge.maximum is not None:
        wrong = pc.or_(wrong, pc.greater(edges, edge.maximum))
    return counts.filter(wrong).sort_by("source")


def list_wrong_sources(
    edge: EdgeType, wrong: pa.Table, change: TableChange | None = None
) -> Iterator[Violation]:
    """Yield a violation for each wrong count, at the first edge the change has of the source."""
    sources, kind = get_column(wrong, "source"), ViolationKind.CARDINALITY
    written = NO_IDS if change is None else get_column(change.rows, "src")
    first_rows = pc.index_in(sources, value_set=written)
    for one, index in zip(wrong.to_pylist(), first_rows.to_pylist(), strict=True):
        message = describe_cardinality(edge, one["source"], one["edges"])
        if change is None or index is None:
            yield Violation.of(kind, edge.table_key, message, source=one["source"])
        else:
            found = change.violation(kind, message, index)
            yield msgspec.structs.replace(found, source=one["source"])


def describe_cardinality(edge: EdgeType, source: str, edges: int) -> str:
    problem = f"min {edge.minimum}" if edges < edge.minimum else f"max {edge.maximum}"
    return f"@card violation on edge {edge.name}: source '{source}' has {edges} edges ({problem})"


# --- all rules ------------------------------------------------------------------------------------


def find_violations(
    changes: Changes, catalog: Catalog, committed: Committed
) -> Iterator[Violation]:
    """Check values, then keys, then endpoints, then cardinality; each by table and constraint."""
    ordered = [changes[key] for key in sorted(changes)]
    for change in ordered:
        yield from find_value_violations(change)
    for change in ordered:
        yield from find_unique_violations(change, committed)
    yield from find_endpoint_violations(changes, catalog, committed)
    yield from find_cardinality_violations(changes, catalog, committed)


def require_valid(
    changes: Changes, catalog: Catalog, committed: Committed, *, limit: int = REPORTED
) -> None:
    """Raise with the first violations and the number of all, or pass."""
    found = find_violations(changes, catalog, committed)
    shown = list(islice(found, limit))
    if shown:
        raise ConstraintViolated(shown, len(shown) + sum(1 for _ in found))
