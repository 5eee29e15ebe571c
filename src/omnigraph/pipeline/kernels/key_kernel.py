"""Check ids of staged rows, and note the committed rows that they replace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.constraints.row_ids import (
    RepeatedIds,
    describe_taken,
    find_repeated_ids,
    list_repeated_keys,
    match_stored_ids,
)
from omnigraph.constraints.table_changes import TableChange, get_column
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
    first_skipped: tuple[Violation, ...] = ()
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
    """Find repeated ids, ids that are taken, and the committed rows the others replace."""
    type_ = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    rows = read_staged_rows(task.staged, ["id"], bucket=task.bucket)
    is_keyed = isinstance(type_, NodeType) and bool(type_.key)
    repeated = find_repeated_ids(get_column(rows, "id"))
    again = rows.take(pa.array(repeated.again))
    repeated_keys: tuple[int, tuple[Violation, ...]] = (0, ())
    conflict: Conflict | None = None
    dropped, superseded = repeated.again, 0
    if again.num_rows and is_keyed:
        change = TableChange(type_, rows, positions=get_column(rows, AT))
        repeated_keys = count_findings(list_repeated_keys(change, repeated))
    elif again.num_rows and spec.options.mode is LoadMode.MERGE:
        dropped = repeated.superseded
        superseded = len(dropped)
    elif again.num_rows:
        conflict = _find_first_repeat(rows, repeated)
    skips = (
        again.num_rows
        if spec.options.skips and (is_keyed or spec.options.mode is not LoadMode.MERGE)
        else 0
    )
    drops = get_column(rows, ROW_ADDRESS).take(pa.array(dropped))
    rows = rows.filter(pa.array(np.isin(np.arange(rows.num_rows), dropped, invert=True)))
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
    skipped = count_findings(_collect_refusals(type_, refused))[1] if spec.options.skips else ()
    return KeyFindings(
        table_key=task.table_key,
        repeated_keys=repeated_keys[0],
        violations=repeated_keys[1],
        repeated=conflict,
        taken=taken,
        skipped=skips,
        first_skipped=skipped,
        superseded=superseded,
        replaced=met.num_rows if spec.options.mode is LoadMode.MERGE else 0,
        touched=_list_matched_fragments(met),
        dropped=len(drops),
        row_outcomes=written,
        rejects=write_rejects(spec.rejects, list(_collect_refusals(type_, refused))),
    )


def _collect_refusals(type_: NodeType | EdgeType, rows: pa.Table) -> Iterator[Violation]:
    """Yield a violation for each id that is given twice or taken."""
    key = type_.table_key
    for id, at in zip(rows.column("id").to_pylist(), rows.column(AT).to_pylist(), strict=True):
        yield Violation.of(ViolationKind.UNIQUE, key, describe_taken(key, id), id=id, position=at)


def _count_ids(spec: KeySpec, conflict: Conflict | None) -> bool:
    return spec.options.skips or conflict is None


def _find_first_repeat(rows: pa.Table, repeated: RepeatedIds) -> Conflict | None:
    """Find the repeated id that stands first; its last place is where the conflict is shown."""
    found = repeated.find_conflict()
    if found is None:
        return None
    (first_at, at), id = rows.column(AT).take(pa.array(found)).to_pylist(), rows.column("id")
    return Conflict(first_at=first_at, at=at, id=id[found[0]].as_py())


def _match_committed(rows: pa.Table, base: Table | None, type_: NodeType | EdgeType) -> pa.Table:
    """Match the staged rows whose id is stored with the stored rows; in the input's order."""
    wanted = ["id", ROW_ID, ROW_ADDRESS, *(["src"] if isinstance(type_, EdgeType) else [])]
    if base is None or not rows.num_rows:
        return _make_no_match(rows, wanted)
    found = base.lookup("id", get_column(rows, "id"), wanted)
    if not found.num_rows:
        return _make_no_match(rows, wanted)
    place = match_stored_ids(get_column(rows, "id"), get_column(found, "id"))
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
