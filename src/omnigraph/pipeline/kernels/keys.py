"""Ids: each once in the input, new where they must be, and whose rows they replace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Constraint, EdgeType, NodeType
from omnigraph.constraints.distinct import all_differ
from omnigraph.constraints.keys import unique_groups
from omnigraph.constraints.model import column
from omnigraph.errors import Violation, ViolationKind
from omnigraph.execution.load import LoadMode
from omnigraph.execution.load_options import LoadOptions
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.reading import (
    Bucket,
    counted,
    dropped,
    fragments_of,
    staged_rows,
    write_fates,
    write_rejects,
)
from omnigraph.pipeline.staging import AT, FATES, Staged, catalog_of
from omnigraph.storage.tables.handle import ROW_ADDRESS, ROW_ID, Table
from omnigraph.storage.tables.location import TableLocation


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
    fates: TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """An id that was taken: where it first stands, and where its conflict was noticed."""

    first_at: int
    at: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFindings:
    """What is wrong with the ids, and the fates of rows."""

    table_key: TableKey
    repeated_keys: int = 0
    """How many rows have a key that stood before."""
    violations: tuple[Violation, ...] = ()
    """The first of them."""
    repeated: Conflict | None = None
    """The first id that stands twice where it may not."""
    taken: Conflict | None = None
    """The first id that is there already where it must be new."""
    skipped: int = 0
    """How many rows are left out."""
    left: tuple[Violation, ...] = ()
    """The first of them."""
    superseded: int = 0
    """How many rows count no more because a later one has their id."""
    replaced: int = 0
    touched: tuple[int, ...] = ()
    """The fragments of the committed rows that are replaced."""
    dropped: int = 0
    fates: tuple[str, ...] = ()
    rejects: tuple[str, ...] = ()


def check_keys(spec: KeySpec, task: KeyTask) -> KeyFindings:
    """Repeated ids, ids that are taken, and the committed rows the others replace."""
    type_ = catalog_of(spec.ir).by_table_key[task.table_key]
    rows = staged_rows(task.staged, ["id"], bucket=task.bucket)
    is_keyed = isinstance(type_, NodeType) and bool(type_.key)
    repeats = _repeats(rows)
    again = repeats.filter(column(repeats, "is_again"))
    repeated_keys: tuple[int, tuple[Violation, ...]] = (0, ())
    conflict: Conflict | None = None
    drops, superseded = pa.array([], pa.uint64()), 0
    if again.num_rows and is_keyed:
        repeated_keys = counted(_key_violations(type_, again))
        drops = column(again, ROW_ADDRESS)
    elif again.num_rows and spec.options.mode is LoadMode.MERGE:
        drops = column(repeats.filter(pc.invert(column(repeats, "is_last"))), ROW_ADDRESS)
        superseded = len(drops)
    elif again.num_rows:
        conflict = _first_repeat(repeats)
        drops = column(again, ROW_ADDRESS)
    skips = (
        again.num_rows
        if spec.options.skips and (is_keyed or spec.options.mode is not LoadMode.MERGE)
        else 0
    )
    rows = rows.filter(pc.invert(pc.is_in(rows.column(ROW_ADDRESS), value_set=drops)))
    met = _meet(rows, task.base, type_)
    taken = None
    fates = [dropped(drops)]
    if spec.options.mode is LoadMode.APPEND and met.num_rows:
        taken = _first_taken(met)
        # The load will be refused for them, but not before every other rule was looked at: then
        # they count as what they would have been, replacements.
        fates.append(dropped(column(met, ROW_ADDRESS)) if spec.options.skips else _replacing(met))
        skips += met.num_rows if spec.options.skips else 0
    elif met.num_rows:
        fates.append(_replacing(met))
    refused = pa.concat_tables([again.select(["id", AT]), met.select(["id", AT])])
    is_update = not is_keyed and spec.options.mode is LoadMode.MERGE
    if spec.options.mode is LoadMode.MERGE:
        refused = refused.slice(0, 0 if is_update else again.num_rows)
    written = write_fates(task.fates, pa.concat_tables(fates)) if _counts(spec, conflict) else ()
    left = counted(_refusals(type_, refused))[1] if spec.options.skips else ()
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
        touched=_fragments_met(met),
        dropped=len(drops),
        fates=written,
        rejects=write_rejects(spec.rejects, list(_refusals(type_, refused))),
    )


def _refusals(type_: NodeType | EdgeType, rows: pa.Table) -> Iterator[Violation]:
    """All ids that stand twice or are taken."""
    for id, at in zip(rows.column("id").to_pylist(), rows.column(AT).to_pylist(), strict=True):
        message = f"{type_.table_key} '{id}' already has this id"
        yield Violation(ViolationKind.UNIQUE, type_.table_key, message, id=id, position=at)


def _counts(spec: KeySpec, conflict: Conflict | None) -> bool:
    return spec.options.skips or conflict is None


def _repeats(rows: pa.Table) -> pa.Table:
    """The rows whose id stands more than once, with whether it stood before, or not again."""
    ids = column(rows, "id")
    empty = rows.slice(0, 0)
    if all_differ(ids):
        found = empty
    else:
        counts = pc.value_counts(ids)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        found = rows.filter(pc.is_in(ids, value_set=repeated))
    seen: dict[str, int] = {}
    again, last = [], [True] * found.num_rows
    for place, id in enumerate(found.column("id").to_pylist()):
        again.append(id in seen)
        if id in seen:
            last[seen[id]] = False
        seen[id] = place
    found = found.append_column("is_again", pa.array(again, pa.bool_()))
    return found.append_column("is_last", pa.array(last, pa.bool_()))


def _key_violations(type_: NodeType | EdgeType, again: pa.Table) -> Iterator[Violation]:
    key = next(c for c in unique_groups(type_) if c.kind == "key")
    for id, at in zip(again.column("id").to_pylist(), again.column(AT).to_pylist(), strict=True):
        message = _key_message(type_, key, id)
        yield Violation(ViolationKind.UNIQUE, type_.table_key, message, id=id, position=at)


def _key_message(type_: NodeType | EdgeType, key: Constraint, id: str) -> str:
    names = key.columns[0] if len(key.columns) == 1 else f"({', '.join(key.columns)})"
    return f"@unique violation on {type_.name}.{names}: value '{id}' held by '{id}' and '{id}'"


def _first_repeat(repeats: pa.Table) -> Conflict:
    """The repeated id that stands first; its last place is where the conflict is shown."""
    ids, positions = repeats.column("id").to_pylist(), repeats.column(AT).to_pylist()
    last = max(at for id, at in zip(ids, positions, strict=True) if id == ids[0])
    return Conflict(first_at=positions[0], at=last, id=ids[0])


def _meet(rows: pa.Table, base: Table | None, type_: NodeType | EdgeType) -> pa.Table:
    """The staged rows whose id is there already, with what is there; in the input's order."""
    wanted = ["id", ROW_ID, ROW_ADDRESS, *(["src"] if isinstance(type_, EdgeType) else [])]
    if base is None or not rows.num_rows:
        return _no_meeting(rows, wanted)
    found = base.lookup("id", column(rows, "id"), wanted)
    if not found.num_rows:
        return _no_meeting(rows, wanted)
    place = pc.index_in(column(rows, "id"), value_set=column(found, "id"))
    is_met = pc.is_valid(place)
    # In one piece: rows taken from many pieces in any order are looked for in each of them.
    met, stored = rows.filter(is_met), found.combine_chunks().take(place.filter(is_met))
    for name in wanted[1:]:
        met = met.append_column(f"stored{name}", stored.column(name))
    return met


def _fragments_met(met: pa.Table) -> tuple[int, ...]:
    found = fragments_of(column(met, f"stored{ROW_ADDRESS}"))
    return tuple(pc.unique(found).to_pylist())


def _no_meeting(rows: pa.Table, wanted: list[str]) -> pa.Table:
    met = rows.slice(0, 0)
    for name in wanted[1:]:
        kind = pa.string() if name == "src" else pa.uint64()
        met = met.append_column(f"stored{name}", pa.array([], kind))
    return met


def _first_taken(met: pa.Table) -> Conflict:
    at = met.column(AT)[0].as_py()
    return Conflict(first_at=at, at=at, id=met.column("id")[0].as_py())


def _replacing(met: pa.Table) -> pa.Table:
    addresses = column(met, ROW_ADDRESS)
    stored = column(met, f"stored{ROW_ADDRESS}")
    has_source = "storedsrc" in met.schema.names
    return pa.table(
        [
            fragments_of(addresses),
            addresses,
            pa.repeat(pa.scalar(False), met.num_rows),
            column(met, f"stored{ROW_ID}"),
            stored,
            fragments_of(stored),
            column(met, "storedsrc") if has_source else pa.nulls(met.num_rows, pa.string()),
        ],
        schema=FATES,
    )
