"""Which edge of the graph an edge without an id is, so that loading it again changes nothing.

A merging load finds edges by their ids. Those without one are found by a match key: the columns of
an `@unique` that has both ends among them, or what the load names. An edge that is there keeps its
id. One that is not gets an id made of its match key: every task of a load gives it the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Constraint, ConstraintKind, EdgeType, NodeType
from omnigraph.constraints.table_changes import get_column
from omnigraph.constraints.unique_keys import encode_members, encode_tuples
from omnigraph.errors import BadOptions
from omnigraph.types.canonical import encode_composite_ids

ENDS = {"from": "src", "to": "dst"}

Find = Callable[[str, pa.Array, Sequence[str]], pa.Table]
"""The stored edges of a type whose column has one of the values, with some of their columns."""


def find_match_key(type_: NodeType | EdgeType, named: Sequence[str] = ()) -> Constraint | None:
    """The columns by which edges without ids are found; None if they are new ones.

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
    """The ids of edges: those given, those of stored edges, or made of the match key.

    Args:
        type_: Their type.
        columns: Their columns, with a null for each id that is not given.
        key: What they are found by.
        find: Looks stored edges up.
        fresh: As many new ids, for edges that have no match key because a member of it is null.
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
    """Match keys of stored edges that may be these, with their ids; the lowest of several first."""
    by = "src" if "src" in key.columns else "dst" if "dst" in key.columns else key.columns[0]
    found = find(by, get_column(rows, by).drop_null(), ["id", *dict.fromkeys(key.columns)]).sort_by(
        "id"
    )
    tuples = encode_tuples(type_, found, key)
    named = pa.table({"tuple": tuples, "id": get_column(found, "id")})
    return named.filter(pc.is_valid(tuples)).combine_chunks()


def _look_up(tuples: pa.Array, stored: pa.Table) -> pa.Array:
    """The id of the stored edge with the match key of each row; null where there is none."""
    places = pc.index_in(tuples, value_set=get_column(stored, "tuple"), skip_nulls=True)
    return get_column(stored, "id").take(places)
