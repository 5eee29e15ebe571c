"""Complete parsed rows: defaults, ids and vectors; every load calls this on each block of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType, Property
from omnigraph.constraints.row_ids import describe_mismatch, mask_mismatches
from omnigraph.constraints.table_changes import get_column
from omnigraph.embedding.row_vectors import Flags, complete_vectors, mask_null
from omnigraph.embedding.text_vectors import TextVectors
from omnigraph.errors import RowProblem
from omnigraph.execution.load_options import Matches, match_ids
from omnigraph.execution.stored_rows import derive_key_ids, get_default_value
from omnigraph.storage.tables import Table
from omnigraph.types.jsonl_parser import TypedRows
from omnigraph.types.jsonl_records import PropertySpec, make_missing_value
from omnigraph.types.row_problems import ProblemCode


@dataclass
class RowBlock:
    """Whole rows of one type, and the problems of the records refused on the way."""

    type: NodeType | EdgeType
    rows: pa.Table
    lines: pa.Array
    """The line of each row."""
    all_minted: bool = False
    """True if every id was created here, so that none of them can exist already."""
    problems: list[RowProblem] = field(default_factory=list)

    def refuse(self, refused: Flags, reasons: Iterable[str], code: str, name: str) -> None:
        """Take out rows for the value of a property; each is a problem with its own reason."""
        key, ids = self.type.table_key, self.rows.column("id")
        for row, reason in zip(np.flatnonzero(refused).tolist(), reasons, strict=False):
            line, id = self.lines[row].as_py(), ids[row].as_py()
            self.problems.append(RowProblem(reason, code, None, line, key, id, name))
        self.keep(pa.array(~refused))

    def keep(self, mask: pa.Array) -> None:
        """Keep the rows of a mask."""
        self.rows, self.lines = self.rows.filter(mask), self.lines.filter(mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Completion of omitted properties and ids."""

    mint: Callable[[int], pa.Array]
    """Makes a number of new ids."""
    matches: Matches | None = None
    """Matches edges without ids with stored edges."""
    leave_ids: bool = False
    """True to leave edges without ids as they are, to be matched later."""
    presence: str | None = None
    """Set for partial records, whose omitted properties stay open: the prefix of the columns that
    tell which properties a record gives."""


def complete_rows(
    type_: NodeType | EdgeType,
    rows: TypedRows,
    schema: pa.Schema,
    how: Completion,
    more: Mapping[str, pa.Array] | None = None,
) -> RowBlock:
    """Complete parsed rows: fill defaults, and derive, check, match or create ids.

    `more` are columns that the rows carry along; `schema` names all columns.
    """
    columns = {name: get_column(rows.columns, name) for name in rows.columns.schema.names}
    if how.presence is None:
        _fill_defaults(type_, columns, rows.presence)
    given, all_minted = columns["id"], False
    is_keyed = isinstance(type_, NodeType) and bool(type_.key)
    if isinstance(type_, NodeType) and is_keyed:
        columns["id"] = derive_key_ids(type_, columns)
    elif how.matches is not None and given.null_count and isinstance(type_, EdgeType):
        key, find = how.matches.key, how.matches.find
        columns["id"] = match_ids(type_, columns, key, find, how.mint(len(given)))
    elif not how.leave_ids:
        columns["id"] = _fill_ids(given, how.mint)
        all_minted = given.null_count == len(given)
    columns |= more or {}
    table = pa.table([columns[name] for name in schema.names], schema=schema)
    block = RowBlock(type_, table, get_lines(rows), all_minted)
    if isinstance(type_, NodeType) and is_keyed:
        _refuse_ids(type_, block, columns, given)
    return block


def _fill_defaults(
    type_: NodeType | EdgeType, columns: dict[str, pa.Array], presence: pa.Table | None
) -> None:
    for property_ in type_.properties:
        if property_.default is not None and presence is not None:
            default = get_default_value(property_, f"{type_.name}.{property_.name}")
            given = get_column(presence, property_.name)
            columns[property_.name] = pc.if_else(given, columns[property_.name], default)


def _refuse_ids(
    type_: NodeType, block: RowBlock, columns: Mapping[str, pa.Array], given: pa.Array
) -> None:
    """Refuse ids that differ from those the keys make, and records without a whole key."""
    derived, lines = columns["id"], block.lines
    wrong, lacking = mask_mismatches(given, derived), pc.is_null(derived)
    if not pc.any(wrong).as_py() and not derived.null_count:
        return
    for row in pc.indices_nonzero(wrong).to_pylist():
        id = given[row].as_py()
        reason = describe_mismatch(id, derived[row].as_py())
        problem = RowProblem(reason, "id_mismatch", None, lines[row].as_py(), type_.table_key, id)
        block.problems.append(msgspec.structs.replace(problem, property="id"))
    for row in pc.indices_nonzero(lacking).to_pylist():
        member = next(p for p in type_.key if not columns[p.name][row].is_valid)
        problem = make_missing_value(PropertySpec(member.name, member.type))
        line = lines[row].as_py()
        named = msgspec.structs.replace(problem, line=line, type_key=type_.table_key)
        block.problems.append(named)
    block.keep(pc.invert(pc.or_(wrong, lacking)))


def get_lines(rows: TypedRows) -> pa.Array:
    """Return the line of each row, in one piece."""
    return rows.lines.combine_chunks() if rows.lines.num_chunks != 1 else rows.lines.chunk(0)


def _fill_ids(given: pa.Array, mint: Callable[[int], pa.Array]) -> pa.Array:
    missing = given.null_count
    if not missing:
        return given
    fresh = mint(missing)
    if missing == len(given):
        return fresh
    return pc.replace_with_mask(given, pc.is_null(given), fresh)


# --- vectors --------------------------------------------------------------------------------------


def add_vectors(
    block: RowBlock,
    vectors: TextVectors | None,
    find_stored: Callable[[], Table] | None = None,
    presence: str | None = None,
) -> None:
    """Compute the missing vectors of rows, and refuse rows that must have one and cannot.

    A partial record gets one if it gives a text and no vector. A row whose text is the stored one
    keeps the stored vector: whatever that row becomes meanwhile, it is the vector of the text.
    """
    for property_ in block.type.embedded:
        stale = _find_stale(block.rows, property_, presence)
        made = complete_vectors(block.type, block.rows, property_, stale, vectors, find_stored)
        block.rows, lacking = made.rows, made.lacking
        if presence is not None:
            given = _read_flags(block.rows, presence + property_.name)
            if made.is_computed:
                given = given | stale
                block.rows = _set_flags(block.rows, presence + property_.name, given)
            lacking = lacking & given
        if not property_.type.nullable and lacking.any():
            reasons = [made.reason] * int(lacking.sum())
            block.refuse(lacking, reasons, ProblemCode.REQUIRED, property_.name)


def _find_stale(rows: pa.Table, property_: Property, presence: str | None) -> Flags:
    if presence is None:
        return mask_null(get_column(rows, property_.name))
    assert property_.embed is not None, "listed as embedded"
    gives_text = _read_flags(rows, presence + property_.embed.source)
    return gives_text & ~_read_flags(rows, presence + property_.name)


def _read_flags(rows: pa.Table, name: str) -> Flags:
    found: Flags = get_column(rows, name).to_numpy(zero_copy_only=False)
    return found


def _set_flags(rows: pa.Table, name: str, flags: Flags) -> pa.Table:
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), pa.array(flags))
