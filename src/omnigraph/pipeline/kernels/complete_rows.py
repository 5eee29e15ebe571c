"""Parsed rows made whole: defaults filled in, ids derived, checked or made."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.constraints.table_changes import get_column
from omnigraph.errors import ExternalBlobPolicy, RowProblem
from omnigraph.execution.assignments import derive_key_ids, get_default_value
from omnigraph.execution.edge_matching import match_ids
from omnigraph.execution.load_input import Matches, describe_id_mismatch
from omnigraph.pipeline.kernels.fresh_ids import mint_ids
from omnigraph.pipeline.staging_area import AT, PRESENT, build_staging_schema, encode_position
from omnigraph.types.arrow import BLOB
from omnigraph.types.jsonl import TypedRows
from omnigraph.types.jsonl_examine import make_missing_value
from omnigraph.types.jsonl_types import PropertySpec

NO_ADDRESS = "no address is on the graph's list"
"""Why a blob that is given as an address is refused."""


@dataclass
class Whole:
    """Rows ready to be staged, and those that were refused on the way."""

    rows: pa.Table
    all_minted: bool = False
    """Whether every id was made here, so that none of them can exist already."""
    address: str | None = None
    """The first blob that was given as an address."""
    problems: list[RowProblem] = field(default_factory=list)


def complete_rows(
    type_: NodeType | EdgeType,
    rows: TypedRows,
    split: int,
    *,
    partial: bool = False,
    skip: bool = False,
    matches: Matches | None = None,
    leave_ids: bool = False,
) -> Whole:
    """The rows of a staging table; with `partial` what was left out stays open.

    With `skip` a row with a blob that is an address is a problem of its own; otherwise the first
    one is kept, to refuse the load for it after everything else. With `matches` edges without ids
    are those that are there; with `leave_ids` they stay without.
    """
    columns = {name: get_column(rows.columns, name) for name in rows.columns.schema.names}
    if not partial:
        _fill_defaults(type_, columns, rows.presence)
    lines = rows.lines.combine_chunks() if rows.lines.num_chunks != 1 else rows.lines.chunk(0)
    columns[AT] = pc.add(lines.cast(pa.int64()), encode_position(split, 0))
    result = Whole(pa.table({}))
    keep = None
    if isinstance(type_, NodeType) and type_.key:
        columns["id"], keep = _derive_ids(type_, columns, lines, result)
    elif matches is not None and columns["id"].null_count and isinstance(type_, EdgeType):
        fresh = mint_ids(len(columns["id"]))
        columns["id"] = match_ids(type_, columns, matches.key, matches.find, fresh)
    elif not leave_ids:
        result.all_minted = columns["id"].null_count == len(columns["id"])
        columns["id"] = _fill_ids(columns["id"])
    if partial:
        columns |= _read_presence(type_, rows)
    schema = build_staging_schema(type_, with_presence=partial)
    table = pa.table([columns[name] for name in schema.names], schema=schema)
    result.rows = table if keep is None else table.filter(keep)
    if skip:
        _refuse_addresses(type_, result, split)
    result.address = _compute_first_address(result.rows)
    return result


def _fill_defaults(
    type_: NodeType | EdgeType, columns: dict[str, pa.Array], presence: pa.Table | None
) -> None:
    for property_ in type_.properties:
        if property_.default is not None and presence is not None:
            default = get_default_value(property_, f"{type_.name}.{property_.name}")
            given = get_column(presence, property_.name)
            columns[property_.name] = pc.if_else(given, columns[property_.name], default)


def _derive_ids(
    type_: NodeType, columns: dict[str, pa.Array], lines: pa.Array, result: Whole
) -> tuple[pa.Array, pa.Array | None]:
    """The ids the keys make, and which rows stay; None for all of them."""
    derived, given = derive_key_ids(type_, columns), columns["id"]
    wrong = pc.fill_null(pc.not_equal(given, derived), False)
    lacking = pc.is_null(derived)
    for row in pc.indices_nonzero(wrong).to_pylist():
        result.problems.append(
            describe_id_mismatch(
                type_, given[row].as_py(), derived[row].as_py(), None, lines[row].as_py()
            )
        )
    for row in pc.indices_nonzero(lacking).to_pylist():
        result.problems.append(_describe_no_key(type_, columns, row, lines[row].as_py()))
    bad = pc.or_(wrong, lacking)
    return derived, pc.invert(bad) if pc.any(bad).as_py() else None


def _describe_no_key(
    type_: NodeType, columns: dict[str, pa.Array], row: int, line: int
) -> RowProblem:
    """A partial record must at least say which entity it is about."""
    member = next(p for p in type_.key if not columns[p.name][row].is_valid)
    problem = make_missing_value(PropertySpec(member.name, member.type))
    return RowProblem(
        problem.reason, problem.code, None, line, type_.table_key, None, problem.property
    )


def _fill_ids(given: pa.Array) -> pa.Array:
    missing = given.null_count
    if not missing:
        return given
    fresh = mint_ids(missing)
    if missing == len(given):
        return fresh
    return pc.replace_with_mask(given, pc.is_null(given), fresh)


def _read_presence(type_: NodeType | EdgeType, rows: TypedRows) -> dict[str, pa.Array]:
    count = rows.columns.num_rows
    found = {}
    for property_ in type_.properties:
        given = None if rows.presence is None else get_column(rows.presence, property_.name)
        found[PRESENT + property_.name] = (
            pa.array(np.ones(count, np.bool_)) if given is None else given
        )
    return found


def _refuse_addresses(type_: NodeType | EdgeType, whole: Whole, split: int) -> None:
    for field_ in whole.rows.schema:
        if field_.type != BLOB or not whole.rows.num_rows:
            continue
        uris = pc.struct_field(get_column(whole.rows, field_.name), "uri")
        for row in pc.indices_nonzero(pc.is_valid(uris)).to_pylist():
            refusal = ExternalBlobPolicy(uris[row].as_py(), NO_ADDRESS)
            line = whole.rows.column(AT)[row].as_py() - encode_position(split, 0)
            id = whole.rows.column("id")[row].as_py()
            whole.problems.append(
                RowProblem(str(refusal), refusal.code, None, line, type_.table_key, id, field_.name)
            )
        whole.rows = whole.rows.filter(pc.is_null(uris))


def _compute_first_address(rows: pa.Table) -> str | None:
    for field_ in rows.schema:
        if field_.type == BLOB and rows.num_rows:
            uris = pc.struct_field(get_column(rows, field_.name), "uri").drop_null()
            if len(uris):
                return str(uris[0].as_py())
    return None
