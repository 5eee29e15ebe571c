"""Options of a load, record formats of a catalog, and ids of edges by their match key.

An edge without an id is matched with an equal stored edge, so that repeating a load changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Catalog, Constraint, ConstraintKind, EdgeType, NodeType
from omnigraph.constraints.table_changes import get_column
from omnigraph.constraints.unique_keys import encode_members, encode_tuples
from omnigraph.errors import BadOptions
from omnigraph.output_files import OutputFile
from omnigraph.types.canonical_strings import encode_composite_ids
from omnigraph.types.jsonl_records import PropertySpec, TypeSpec

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
    """Return the id of the stored edge with the match key of each row; null where there is none."""
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


def build_type_specs(catalog: Catalog) -> tuple[TypeSpec, ...]:
    """Return the record formats of an input line, for every type of the catalog."""
    return tuple(build_type_spec(type_) for type_ in catalog.by_table_key.values())


def build_type_spec(type_: NodeType | EdgeType) -> TypeSpec:
    properties = tuple(
        PropertySpec(p.name, p.type, has_default=p.default is not None, is_made=p.embed is not None)
        for p in type_.properties
    )
    return TypeSpec(type_.name, type_.kind, properties)


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
