"""Check ids of staged rows, and find the committed rows that they replace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.constraints.row_ids import check_repeated_ids, check_stored_ids, describe_taken
from omnigraph.constraints.table_changes import REPORTED, TableChange, get_column
from omnigraph.errors import Violation, ViolationKind
from omnigraph.execution.load_options import LoadMode, LoadOptions
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.staged_row_reader import (
    Bucket,
    count_findings,
    encode_dropped,
    list_fragments,
    read_staged_rows,
    write_rejects,
    write_row_outcomes,
)
from omnigraph.pipeline.staging_area import AT, ROW_OUTCOMES, Staged, decode_catalog_cached
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID, Table, TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpec:
    ir: str
    options: LoadOptions
    rejects: TableLocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTask:
    """The ids of one type that fall into one bucket."""

    table_key: TableKey
    staged: Staged
    base: Table | None
    """The committed rows with possibly equal ids; None if there are none or all are replaced."""
    bucket: Bucket
    row_outcomes: TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """An id that is taken: the position of its first row, and that of the conflicting row."""

    first_at: int
    at: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFindings:
    """Violations of ids, and the outcomes of the rows."""

    table_key: TableKey
    repeated_keys: int = 0
    """Number of rows that repeat a key."""
    violations: tuple[Violation, ...] = ()
    """The first violations."""
    repeated: Conflict | None = None
    """The first id that occurs twice and must be unique."""
    taken: Conflict | None = None
    """The first id that is stored already and must be new."""
    skipped: int = 0
    """Number of rows that are skipped."""
    first_skipped: tuple[Violation, ...] = ()
    """The first skipped rows."""
    superseded: int = 0
    """Number of rows superseded by a later row of the same id."""
    touched: tuple[int, ...] = ()
    """The fragments of the committed rows that are replaced."""
    dropped: int = 0
    row_outcomes: tuple[str, ...] = ()
    rejects: tuple[str, ...] = ()


def check_keys(spec: KeySpec, task: KeyTask) -> KeyFindings:
    """Find repeated ids, existing ids, and the committed rows the others replace."""
    type_ = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    mode, skips = spec.options.mode, spec.options.skips
    rows = read_staged_rows(task.staged, ["id"], bucket=task.bucket)
    change = TableChange(type_, rows, positions=get_column(rows, AT))
    repeated = check_repeated_ids(change, last_wins=mode is LoadMode.MERGE)
    repeated_keys, violations = count_findings(repeated.violations)
    again = rows.take(pa.array(repeated.refused))
    dropped = rows.take(pa.array(repeated.dropped))
    must_be_new = mode is LoadMode.APPEND
    met, taken = _match_stored(change.without(repeated.dropped), task.base, must_be_new=must_be_new)
    row_outcomes = [encode_dropped(get_column(dropped, ROW_ADDRESS))]
    if taken.num_rows and skips:
        row_outcomes.append(encode_dropped(get_column(taken, ROW_ADDRESS)))
    elif met.num_rows:
        # An append is refused for them, but not before every other rule was looked at: then
        # they count as what they would have been, replacements.
        row_outcomes.append(_find_replacements(met))
    written: tuple[str, ...] = ()
    if skips or repeated.conflict is None:
        written = write_row_outcomes(task.row_outcomes, pa.concat_tables(row_outcomes))
    refusals: list[Violation] = []
    if skips or spec.rejects is not None:
        refusals = [*_list_refusals(type_, again), *_list_refusals(type_, taken)]
    return KeyFindings(
        table_key=task.table_key,
        repeated_keys=repeated_keys,
        violations=violations,
        repeated=None if repeated.conflict is None else _make_conflict(rows, *repeated.conflict),
        taken=_make_conflict(taken, 0, 0) if taken.num_rows else None,
        skipped=len(refusals) if skips else 0,
        first_skipped=tuple(refusals[:REPORTED]) if skips else (),
        superseded=len(repeated.superseded),
        touched=_list_matched_fragments(met),
        dropped=dropped.num_rows,
        row_outcomes=written,
        rejects=write_rejects(spec.rejects, refusals),
    )


def _list_refusals(type_: NodeType | EdgeType, rows: pa.Table) -> Iterator[Violation]:
    """Yield a violation for each id that is repeated or exists already."""
    key = type_.table_key
    for id, at in zip(rows.column("id").to_pylist(), rows.column(AT).to_pylist(), strict=True):
        yield Violation.of(ViolationKind.UNIQUE, key, describe_taken(key, id), id=id, position=at)


def _make_conflict(rows: pa.Table, first: int, last: int) -> Conflict:
    positions = rows.column(AT)
    id = rows.column("id")[first].as_py()
    return Conflict(first_at=positions[first].as_py(), at=positions[last].as_py(), id=id)


def _match_stored(
    change: TableChange, base: Table | None, *, must_be_new: bool
) -> tuple[pa.Table, pa.Table]:
    """Join rows with the stored rows of their ids; also return those that are refused."""
    rows, is_edge = change.rows, isinstance(change.type, EdgeType)
    wanted = ["id", ROW_ID, ROW_ADDRESS, *(["src"] if is_edge else [])]
    if base is None or not rows.num_rows:
        return _make_no_match(rows, wanted), rows.slice(0, 0)
    stored = base.lookup("id", change.ids, wanted)
    if not stored.num_rows:
        return _make_no_match(rows, wanted), rows.slice(0, 0)
    found = check_stored_ids(change, get_column(stored, "id"), must_be_new=must_be_new)
    is_met = pc.is_valid(found.positions)
    # In one piece: rows taken from many pieces in any order are looked for in each of them.
    met, old = rows.filter(is_met), stored.combine_chunks().take(found.positions.filter(is_met))
    for name in wanted[1:]:
        met = met.append_column(f"stored{name}", old.column(name))
    return met, rows.take(pa.array(found.taken))


def _list_matched_fragments(met: pa.Table) -> tuple[int, ...]:
    found = list_fragments(get_column(met, f"stored{ROW_ADDRESS}"))
    return tuple(pc.unique(found).to_pylist())


def _make_no_match(rows: pa.Table, wanted: list[str]) -> pa.Table:
    met = rows.slice(0, 0)
    for name in wanted[1:]:
        kind = pa.string() if name == "src" else pa.uint64()
        met = met.append_column(f"stored{name}", pa.array([], kind))
    return met


def _find_replacements(met: pa.Table) -> pa.Table:
    addresses = get_column(met, ROW_ADDRESS)
    stored = get_column(met, f"stored{ROW_ADDRESS}")
    has_source = "storedsrc" in met.schema.names
    return pa.table(
        [
            list_fragments(addresses),
            addresses,
            pa.repeat(pa.scalar(False), met.num_rows),
            get_column(met, f"stored{ROW_ID}"),
            stored,
            list_fragments(stored),
            get_column(met, "storedsrc") if has_source else pa.nulls(met.num_rows, pa.string()),
        ],
        schema=ROW_OUTCOMES,
    )
