"""Load records: the options of a load, and parsed lines to the rows of a write in each mode.

An edge without an id is matched with an equal stored edge, so that repeating a load changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

import numpy as np
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
from omnigraph.constraints.table_changes import NO_IDS, TableChange, get_column, mask_remaining
from omnigraph.constraints.unique_keys import (
    are_distinct,
    describe_holders,
    encode_members,
    encode_tuples,
    list_unique_groups,
)
from omnigraph.errors import (
    BadOptions,
    ConstraintViolated,
    KeyConflict,
    RowProblem,
    RowsRejected,
    Violation,
    ViolationKind,
)
from omnigraph.execution.embed_on_write import (
    WriteVectors,
    explain_missing_vector,
    fill_vectors,
    list_embedded_properties,
    mask_null,
    mask_texts,
    reuse_stored_vectors,
)
from omnigraph.execution.pending_rows import CommittedRows, Placement
from omnigraph.execution.stored_rows import build_logical_schema, derive_key_ids, get_default_value
from omnigraph.identity import TableKey, UlidSource
from omnigraph.output_files import OutputFile
from omnigraph.types.canonical_strings import encode_composite_ids
from omnigraph.types.jsonl import ParsedLines, TypedRows, parse_lines
from omnigraph.types.jsonl_records import LineOptions, PropertySpec, TypeSpec
from omnigraph.types.row_problems import ProblemCode

ENDS = {"from": "src", "to": "dst"}

Find = Callable[[str, pa.Array, Sequence[str]], pa.Table]
"""Look up stored edges of a type by the values of a column."""


def find_match_key(type_: NodeType | EdgeType, named: Sequence[str] = ()) -> Constraint | None:
    """Return the columns that identify edges without ids; None if such edges are new.

    Raises:
        BadOptions: the type has no such column.
    """
    if not isinstance(type_, EdgeType):
        return None
    if not named:
        declared = type_.of_kind(ConstraintKind.UNIQUE)
        return next((one for one in declared if {"src", "dst"} <= {*one.columns}), None)
    columns = [ENDS.get(name, name) for name in named]
    for name in columns:
        if name not in ENDS.values() and type_.property(name) is None:
            raise BadOptions(
                f"edges cannot be matched by '{name}': {type_.name} has no such column"
            )
    return Constraint(ConstraintKind.UNIQUE, tuple(columns))


def match_ids(
    type_: EdgeType, columns: Mapping[str, pa.Array], key: Constraint, find: Find, fresh: pa.Array
) -> pa.Array:
    """Assign the ids of edges: as given, of stored edges, or derived from the match key.

    Args:
        type_: Their type.
        columns: Their columns; the id is null where none is given.
        key: The match key.
        find: Looks up stored edges.
        fresh: New ids, for edges whose match key has a NULL member.
    """
    missing = pc.is_null(columns["id"])
    rows = pa.table({name: columns[name] for name in key.columns})
    tuples = encode_tuples(type_, rows, key)
    stored = _find_stored_ids(type_, rows.filter(missing), key, find)
    members = encode_members(type_, rows, key)
    made = members[0] if len(members) == 1 else encode_composite_ids(list(members))
    made = pc.if_else(pc.is_valid(tuples), made, fresh)
    taken = find("id", made.filter(pc.is_null(_look_up(tuples, stored))), ["id"])
    made = pc.if_else(pc.is_in(made, value_set=get_column(taken, "id")), fresh, made)
    ids = pc.coalesce(_look_up(tuples, stored), made)
    return pc.if_else(missing, ids, columns["id"])


def _find_stored_ids(type_: EdgeType, rows: pa.Table, key: Constraint, find: Find) -> pa.Table:
    """Match keys and ids of the stored candidates; the lowest id of several first."""
    by = "src" if "src" in key.columns else "dst" if "dst" in key.columns else key.columns[0]
    found = find(by, get_column(rows, by).drop_null(), ["id", *dict.fromkeys(key.columns)]).sort_by(
        "id"
    )
    tuples = encode_tuples(type_, found, key)
    named = pa.table({"tuple": tuples, "id": get_column(found, "id")})
    return named.filter(pc.is_valid(tuples)).combine_chunks()


def _look_up(tuples: pa.Array, stored: pa.Table) -> pa.Array:
    """The id of the stored edge with the match key of each row; null where there is none."""
    positions = pc.index_in(tuples, value_set=get_column(stored, "tuple"), skip_nulls=True)
    return get_column(stored, "id").take(positions)


@dataclass(frozen=True, slots=True)
class Matches:
    """The match key of a type, and the lookup of its stored edges."""

    key: Constraint
    find: Find


class LoadMode(StrEnum):
    APPEND = "append"
    """Every id must be new."""
    MERGE = "merge"
    """Upsert by id; a row replaces the stored one as a whole."""
    OVERWRITE = "overwrite"
    """Replace every row of each type the input names."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Planned change of each table, and the number of records read of each type."""

    changes: Mapping[TableKey, tuple[TableChange, Placement]]
    counts: Mapping[TableKey, int]

    def table_changes(self) -> Mapping[TableKey, TableChange]:
        return {key: change for key, (change, _) in self.changes.items()}


def build_type_specs(catalog: Catalog) -> tuple[TypeSpec, ...]:
    """Return the record formats of an input line, for every type of the catalog."""
    return tuple(build_type_spec(type_) for type_ in catalog.by_table_key.values())


def build_type_spec(type_: NodeType | EdgeType) -> TypeSpec:
    properties = tuple(
        PropertySpec(p.name, p.type, has_default=p.default is not None, is_made=p.embed is not None)
        for p in type_.properties
    )
    return TypeSpec(type_.name, type_.kind, properties)


def parse_records(data: bytes, catalog: Catalog, file: str | None, limit: int) -> ParsedLines:
    """Parse the records of a file; raise with the first bad lines and the number of all."""
    options = LineOptions(with_presence=True, max_problems=limit)
    parsed = parse_lines(data, build_type_specs(catalog), file=file, options=options)
    if parsed.problem_count:
        raise RowsRejected(parsed.problems, parsed.problem_count)
    return parsed


def plan_load(
    parsed: ParsedLines,
    catalog: Catalog,
    mode: LoadMode,
    committed: CommittedRows,
    ids: UlidSource,
    file: str | None = None,
    vectors: WriteVectors | None = None,
) -> LoadPlan:
    """Plan the changes of a load, before rules that involve other rows are checked."""
    changes: dict[TableKey, tuple[TableChange, Placement]] = {}
    for key, rows in parsed.rows.items():
        type_ = catalog.by_table_key[key]
        complete, minted = complete_rows(
            type_, rows, ids, file, _find_matches(type_, mode, committed)
        )
        change = TableChange(type_, complete, lines=_read_lines(rows), file=file)
        _refuse_repeated_keys(change)
        change = _merge_repeats(change, mode)
        stored = committed if mode is LoadMode.MERGE else None
        change = _make_vectors(change, stored, vectors)
        if mode is LoadMode.OVERWRITE:
            change = _find_replacements(change, committed)
        changes[key] = (change, _find_placement(mode, all_minted=minted))
    counts = {key: rows.columns.num_rows for key, rows in parsed.rows.items()}
    return LoadPlan(changes, counts)


def _find_placement(mode: LoadMode, *, all_minted: bool) -> Placement:
    if mode is LoadMode.OVERWRITE:
        return Placement.OVERWRITE
    if all_minted:
        return Placement.FRESH
    return Placement.INSERT if mode is LoadMode.APPEND else Placement.UPSERT


def _read_lines(rows: TypedRows) -> pa.Array:
    return rows.lines.combine_chunks() if rows.lines.num_chunks != 1 else rows.lines.chunk(0)


def _find_matches(
    type_: NodeType | EdgeType, mode: LoadMode, committed: CommittedRows
) -> Matches | None:
    """Matching of edges without ids in a merge."""
    key = find_match_key(type_) if mode is LoadMode.MERGE else None
    if key is None:
        return None
    return Matches(key, partial(committed.find, type_.table_key))


def complete_rows(
    type_: NodeType | EdgeType,
    rows: TypedRows,
    ids: UlidSource,
    file: str | None,
    matches: Matches | None = None,
) -> tuple[pa.Table, bool]:
    """Complete rows: fill defaults, and derive, check, match or create ids.

    Also returns whether every id is new, so that none can exist.
    """
    columns = {name: get_column(rows.columns, name) for name in rows.columns.schema.names}
    for property_ in type_.properties:
        if property_.default is not None and rows.presence is not None:
            default = get_default_value(property_, f"{type_.name}.{property_.name}")
            given = get_column(rows.presence, property_.name)
            columns[property_.name] = pc.if_else(given, columns[property_.name], default)
    minted = False
    if isinstance(type_, NodeType) and type_.key:
        columns["id"] = _derive_ids(type_, columns, rows, file)
    elif matches is not None and columns["id"].null_count and isinstance(type_, EdgeType):
        fresh = pa.array(ids.take(len(columns["id"])), pa.string())
        columns["id"] = match_ids(type_, columns, matches.key, matches.find, fresh)
    else:
        minted = columns["id"].null_count == len(columns["id"])
        columns["id"] = _fill_ids(columns["id"], ids)
    schema = build_logical_schema(type_)
    return pa.table([columns[name] for name in schema.names], schema=schema), minted


def _derive_ids(
    type_: NodeType, columns: Mapping[str, pa.Array], rows: TypedRows, file: str | None
) -> pa.Array:
    derived, given = derive_key_ids(type_, columns), columns["id"]
    wrong = pc.indices_nonzero(pc.fill_null(pc.not_equal(given, derived), False)).to_pylist()
    if wrong:
        lines = _read_lines(rows)
        problems = [
            describe_id_mismatch(
                type_, given[i].as_py(), derived[i].as_py(), file, lines[i].as_py()
            )
            for i in wrong[:100]
        ]
        raise RowsRejected(problems, len(wrong))
    return derived


def describe_id_mismatch(
    type_: NodeType, given: str, derived: str, file: str | None, line: int | None
) -> RowProblem:
    """Build the problem of a record whose id differs from the one derived from its key."""
    reason = f"id '{given}' does not match the key, which makes it '{derived}'"
    return RowProblem(reason, "id_mismatch", file, line, type_.table_key, given, "id")


def _fill_ids(given: pa.Array, ids: UlidSource) -> pa.Array:
    missing = given.null_count
    if not missing:
        return given
    fresh = pa.array(ids.take(missing), pa.string())
    if missing == len(given):
        return fresh
    return pc.replace_with_mask(given, pc.is_null(given), fresh)


def _refuse_repeated_keys(change: TableChange) -> None:
    """Raise for records with equal keys, which is an error in every mode."""
    if not isinstance(change.type, NodeType) or not change.type.key:
        return
    counts = pc.value_counts(change.ids)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(repeated):
        found = list(_find_repeats(change, repeated))
        raise ConstraintViolated(found[:100], len(found))


def _find_repeats(change: TableChange, repeated: pa.Array) -> Iterator[Violation]:
    key = next(c for c in list_unique_groups(change.type) if c.kind == "key")
    values = encode_tuples(change.type, change.rows, key)
    names = key.columns[0] if len(key.columns) == 1 else f"({', '.join(key.columns)})"
    first: dict[str, int] = {}
    for index in pc.indices_nonzero(pc.is_in(change.ids, value_set=repeated)).to_pylist():
        id = change.ids[index].as_py()
        if id in first:
            shown = values[index].as_py() if len(key.columns) == 1 else id
            said = describe_holders(shown, id, id)
            message = f"@unique violation on {change.type.name}.{names}: {said}"
            yield change.violation(ViolationKind.UNIQUE, message, index, first[id])
        else:
            first[id] = index


def _make_vectors(
    change: TableChange, committed: CommittedRows | None, vectors: WriteVectors | None
) -> TableChange:
    """Compute the vectors of a change from other properties.

    In a merge a row whose text equals the stored one keeps the stored vector.
    """
    for property_ in list_embedded_properties(change.type):
        rows = change.rows
        lacking = mask_null(get_column(rows, property_.name))
        if not lacking.any():
            continue
        obstacle = "no provider is asked" if vectors is None else vectors.find_obstacle(property_)
        if vectors is not None and obstacle is None:
            if committed is not None:
                stored = committed.table(change.table_key)
                rows = reuse_stored_vectors(rows, property_, lacking, stored)
            assert property_.embed is not None, "listed by list_embedded_properties"
            texts = mask_texts(get_column(rows, property_.embed.source))
            chosen = mask_null(get_column(rows, property_.name)) & texts
            rows = fill_vectors(change.type, rows, property_, chosen, vectors.ask)
            change = replace(change, rows=rows)
        if not property_.type.nullable:
            _require_vectors(change, property_, obstacle)
    return change


def _require_vectors(change: TableChange, property_: Property, obstacle: str | None) -> None:
    """Raise for rows without a required vector that cannot be computed."""
    lacking = np.flatnonzero(mask_null(get_column(change.rows, property_.name))).tolist()
    if not lacking:
        return
    reason = explain_missing_vector(property_, obstacle)
    problems = [
        RowProblem(
            reason,
            ProblemCode.REQUIRED,
            change.file,
            None if change.lines is None else change.lines[row].as_py(),
            change.table_key,
            change.ids[row].as_py(),
            property_.name,
        )
        for row in lacking[:100]
    ]
    raise RowsRejected(problems, len(lacking))


def _merge_repeats(change: TableChange, mode: LoadMode) -> TableChange:
    """Reduce to one row per id: in a merge the last record wins, else it is a conflict."""
    ids = change.ids
    if are_distinct(ids):
        return change
    positions = pa.table({"id": ids, "at": pa.array(range(len(ids)), pa.int64())})
    last = positions.group_by("id").aggregate([("at", "max")])
    if mode is not LoadMode.MERGE:
        counts = pc.value_counts(ids)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py()
        position = last.filter(pc.equal(last.column("id"), repeated)).column("at_max")[0].as_py()
        if change.lines is None:
            raise KeyConflict(change.table_key, repeated)
        line, first = (change.lines[at].as_py() for at in (position, ids.index(repeated).as_py()))
        raise KeyConflict(change.table_key, repeated, line, change.file, first, change.file)
    kept = pc.take(get_column(last, "at_max"), pc.sort_indices(get_column(last, "at_max")))
    lines = change.lines.take(kept) if change.lines is not None else None
    return replace(change, rows=change.rows.take(kept), lines=lines)


def _find_replacements(change: TableChange, committed: CommittedRows) -> TableChange:
    """Extend a change to the whole image of its table: every other committed id is deleted."""
    stored = get_column(committed.table(change.table_key).scan(["id"]), "id")
    gone = stored.filter(mask_remaining(stored, change.ids)) if len(stored) else NO_IDS
    return replace(change, deleted=gone, replaces_all=True)


ON_ERROR = ("fail", "skip")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Options of a load; all but the mode have a default.

    Raises:
        BadOptions: an option is invalid, or conflicts with another.
    """

    mode: LoadMode
    format: str | None = None
    """Format of the files; by default that of their names."""
    type: str | None = None
    """Type of the rows of a table; records name theirs."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of properties that are named differently."""
    select: tuple[str, ...] = ()
    """The columns to read from a table; by default all, which must then be known."""
    partial: bool = False
    """True if a merge retains the properties that a record leaves out."""
    on_error: str = "fail"
    rejects: OutputFile | None = None
    """A file for the rejected records."""
    match: tuple[str, ...] = ()
    """The columns by which a merge finds edges without ids; by default those of an `@unique`."""
    delimiter: str | None = None
    """Delimiter of a text file; by default that of its format."""

    def __post_init__(self) -> None:
        if self.on_error not in ON_ERROR:
            raise BadOptions(f"on_error '{self.on_error}' is not one of {', '.join(ON_ERROR)}")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise BadOptions(f"a delimiter is one character, not '{self.delimiter}'")
        if self.partial and self.mode is not LoadMode.MERGE:
            raise BadOptions("only a merge can be partial")
        if self.match and self.mode is not LoadMode.MERGE:
            raise BadOptions("only a merge finds the edges that are there; leave out match")

    @property
    def skips(self) -> bool:
        """Return whether bad rows are skipped instead of failing the load."""
        return self.on_error == "skip"

    @property
    def is_plain(self) -> bool:
        """Return whether all options but the mode have their default."""
        return self == LoadOptions(mode=self.mode)

    def need_type(self) -> str:
        """Return the type of the rows of a table.

        Raises:
            BadOptions: no type was given.
        """
        if self.type is None:
            raise BadOptions("rows of a table do not name their type; give it with type=…")
        return self.type
