"""Ids: each once in the input, new where they must be, and whose rows they replace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Constraint, EdgeType, NodeType
from omnigraph.constraints.table_changes import get_column
from omnigraph.constraints.unique_keys import are_distinct, describe_holders, list_unique_groups
from omnigraph.errors import Violation, ViolationKind
from omnigraph.execution.load_input import LoadMode, LoadOptions
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

FIRST_AT = "first_at"
"""Position at which the input first gives the id of a row."""


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
    """The committed rows they may meet; None where there are none, or where all are replaced."""
    bucket: Bucket
    row_outcomes: TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """An id that was taken: where it first stands, and where its conflict was noticed."""

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
    """The first of them."""
    repeated: Conflict | None = None
    """The first id that occurs twice where it may not."""
    taken: Conflict | None = None
    """The first id that is there already where it must be new."""
    skipped: int = 0
    """Number of rows that are skipped."""
    left: tuple[Violation, ...] = ()
    """The first of them."""
    superseded: int = 0
    """Number of rows superseded by a later row of the same id."""
    replaced: int = 0
    touched: tuple[int, ...] = ()
    """The fragments of the committed rows that are replaced."""
    dropped: int = 0
    row_outcomes: tuple[str, ...] = ()
    rejects: tuple[str, ...] = ()


def check_keys(spec: KeySpec, task: KeyTask) -> KeyFindings:
    """Repeated ids, ids that are taken, and the committed rows the others replace."""
    type_ = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    rows = read_staged_rows(task.staged, ["id"], bucket=task.bucket)
    is_keyed = isinstance(type_, NodeType) and bool(type_.key)
    repeats = _find_repeats(rows)
    again = repeats.filter(get_column(repeats, "is_again"))
    repeated_keys: tuple[int, tuple[Violation, ...]] = (0, ())
    conflict: Conflict | None = None
    drops, superseded = pa.array([], pa.uint64()), 0
    if again.num_rows and is_keyed:
        repeated_keys = count_findings(_find_key_violations(type_, again))
        drops = get_column(again, ROW_ADDRESS)
    elif again.num_rows and spec.options.mode is LoadMode.MERGE:
        drops = get_column(repeats.filter(pc.invert(get_column(repeats, "is_last"))), ROW_ADDRESS)
        superseded = len(drops)
    elif again.num_rows:
        conflict = _find_first_repeat(repeats)
        drops = get_column(again, ROW_ADDRESS)
    skips = (
        again.num_rows
        if spec.options.skips and (is_keyed or spec.options.mode is not LoadMode.MERGE)
        else 0
    )
    rows = rows.filter(pc.invert(pc.is_in(rows.column(ROW_ADDRESS), value_set=drops)))
    met = _match_committed(rows, task.base, type_)
    taken = None
    row_outcomes = [encode_dropped(drops)]
    if spec.options.mode is LoadMode.APPEND and met.num_rows:
        taken = _find_first_taken(met)
        # The load will be refused for them, but not before every other rule was looked at: then
        # they count as what they would have been, replacements.
        row_outcomes.append(
            encode_dropped(get_column(met, ROW_ADDRESS))
            if spec.options.skips
            else _find_replacements(met)
        )
        skips += met.num_rows if spec.options.skips else 0
    elif met.num_rows:
        row_outcomes.append(_find_replacements(met))
    refused = pa.concat_tables([again.select(["id", AT]), met.select(["id", AT])])
    is_update = not is_keyed and spec.options.mode is LoadMode.MERGE
    if spec.options.mode is LoadMode.MERGE:
        refused = refused.slice(0, 0 if is_update else again.num_rows)
    written = (
        write_row_outcomes(task.row_outcomes, pa.concat_tables(row_outcomes))
        if _count_ids(spec, conflict)
        else ()
    )
    left = count_findings(_collect_refusals(type_, refused))[1] if spec.options.skips else ()
    return KeyFindings(
        table_key=task.table_key,
        repeated_keys=repeated_keys[0],
        violations=repeated_keys[1],
        repeated=conflict,
        taken=taken,
        skipped=skips,
        left=left,
        superseded=superseded,
        replaced=met.num_rows if spec.options.mode is LoadMode.MERGE else 0,
        touched=_list_matched_fragments(met),
        dropped=len(drops),
        row_outcomes=written,
        rejects=write_rejects(spec.rejects, list(_collect_refusals(type_, refused))),
    )


def _collect_refusals(type_: NodeType | EdgeType, rows: pa.Table) -> Iterator[Violation]:
    """All ids that stand twice or are taken."""
    for id, at in zip(rows.column("id").to_pylist(), rows.column(AT).to_pylist(), strict=True):
        message = f"{type_.table_key} '{id}' already has this id"
        yield Violation.of(ViolationKind.UNIQUE, type_.table_key, message, id=id, position=at)


def _count_ids(spec: KeySpec, conflict: Conflict | None) -> bool:
    return spec.options.skips or conflict is None


def _find_repeats(rows: pa.Table) -> pa.Table:
    """The rows whose id occurs more than once, with whether it stood before, or not again."""
    ids = get_column(rows, "id")
    empty = rows.slice(0, 0)
    if are_distinct(ids):
        found = empty
    else:
        counts = pc.value_counts(ids)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        found = rows.filter(pc.is_in(ids, value_set=repeated))
    seen: dict[str, int] = {}
    first: dict[str, int] = {}
    again, last = [], [True] * found.num_rows
    for place, id in enumerate(found.column("id").to_pylist()):
        again.append(id in seen)
        if id in seen:
            last[seen[id]] = False
        seen[id] = place
        first.setdefault(id, place)
    firsts = pa.array([first[id] for id in found.column("id").to_pylist()], pa.int64())
    found = found.append_column(FIRST_AT, get_column(found, AT).take(firsts))
    found = found.append_column("is_again", pa.array(again, pa.bool_()))
    return found.append_column("is_last", pa.array(last, pa.bool_()))


def _find_key_violations(type_: NodeType | EdgeType, again: pa.Table) -> Iterator[Violation]:
    key = next(c for c in list_unique_groups(type_) if c.kind == "key")
    columns = (again.column(name).to_pylist() for name in ("id", AT, FIRST_AT))
    for id, at, first in zip(*columns, strict=True):
        message = _describe_key(type_, key, id)
        yield Violation.of(
            ViolationKind.UNIQUE,
            type_.table_key,
            message,
            id=id,
            position=at,
            other_position=first,
        )


def _describe_key(type_: NodeType | EdgeType, key: Constraint, id: str) -> str:
    names = key.columns[0] if len(key.columns) == 1 else f"({', '.join(key.columns)})"
    return f"@unique violation on {type_.name}.{names}: {describe_holders(id, id, id)}"


def _find_first_repeat(repeats: pa.Table) -> Conflict:
    """The repeated id that stands first; its last place is where the conflict is shown."""
    ids, positions = repeats.column("id").to_pylist(), repeats.column(AT).to_pylist()
    last = max(at for id, at in zip(ids, positions, strict=True) if id == ids[0])
    return Conflict(first_at=positions[0], at=last, id=ids[0])


def _match_committed(rows: pa.Table, base: Table | None, type_: NodeType | EdgeType) -> pa.Table:
    """The staged rows whose id is there already, with what is there; in the input's order."""
    wanted = ["id", ROW_ID, ROW_ADDRESS, *(["src"] if isinstance(type_, EdgeType) else [])]
    if base is None or not rows.num_rows:
        return _make_no_match(rows, wanted)
    found = base.lookup("id", get_column(rows, "id"), wanted)
    if not found.num_rows:
        return _make_no_match(rows, wanted)
    place = pc.index_in(get_column(rows, "id"), value_set=get_column(found, "id"))
    is_met = pc.is_valid(place)
    # In one piece: rows taken from many pieces in any order are looked for in each of them.
    met, stored = rows.filter(is_met), found.combine_chunks().take(place.filter(is_met))
    for name in wanted[1:]:
        met = met.append_column(f"stored{name}", stored.column(name))
    return met


def _list_matched_fragments(met: pa.Table) -> tuple[int, ...]:
    found = list_fragments(get_column(met, f"stored{ROW_ADDRESS}"))
    return tuple(pc.unique(found).to_pylist())


def _make_no_match(rows: pa.Table, wanted: list[str]) -> pa.Table:
    met = rows.slice(0, 0)
    for name in wanted[1:]:
        kind = pa.string() if name == "src" else pa.uint64()
        met = met.append_column(f"stored{name}", pa.array([], kind))
    return met


def _find_first_taken(met: pa.Table) -> Conflict:
    at = met.column(AT)[0].as_py()
    return Conflict(first_at=at, at=at, id=met.column("id")[0].as_py())


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
