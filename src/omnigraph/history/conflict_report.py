"""Conflicts for people and programs: each entity as the base, the source and the target have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import JsonValue, MergeConflict
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.history.conflict_resolution import CONFLICTS_AT_ONCE, Resolver
from omnigraph.history.table_sides import (
    ConflictKind,
    Entities,
    RowSource,
    TableSides,
    VirtualRows,
    read_rows,
)
from omnigraph.types.arrow import BLOB
from omnigraph.types.to_json import encode_values_as_json

Record = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ConflictWords:
    """The phrases that describe what two sides did to one entity."""

    deleted_and_changed: str
    """The first for the source, the second for the target."""
    changed_and_deleted: str
    inserted_twice: str
    changed_twice: str


MERGE_WORDS = ConflictWords(
    "was deleted in the source and changed in the target",
    "was changed in the source and deleted in the target",
    "was inserted on both sides",
    "was changed on both sides",
)
REVERT_WORDS = ConflictWords(
    "was inserted by the commit and changed after it",
    "was changed by the commit and deleted after it",
    "was deleted by the commit and inserted again after it",
    "was changed by the commit and again after it",
)
"""The source is the state before the commit, so undoing an insert deletes."""
CHERRY_PICK_WORDS = ConflictWords(
    "was deleted by the commit and is different on the branch",
    "was changed by the commit and does not exist on the branch",
    "was inserted by the commit and exists on the branch",
    "was changed by the commit and is different on the branch",
)


def describe(
    resolver: Resolver, sides: TableSides, undecided: Entities, words: ConflictWords
) -> Iterator[MergeConflict]:
    """Describe the conflicts that no rule decided, by ascending id."""
    for some in undecided.batches(CONFLICTS_AT_ONCE):
        yield from _describe(resolver, sides, some, words)


def _describe(
    resolver: Resolver, sides: TableSides, some: Entities, words: ConflictWords
) -> Iterator[MergeConflict]:
    type_ = resolver.type
    images = {
        side: _read_records(getattr(sides, side), getattr(some, side), type_)
        for side in ("base", "source", "target")
    }
    kinds = some.kinds(base_is_known=sides.base_is_known)
    properties = resolver.list_conflicting(sides, some)
    for at, (id, kind) in enumerate(zip(some.ids.to_pylist(), kinds, strict=True)):
        base, source, target = (images[side][at] for side in ("base", "source", "target"))
        names = properties[at]
        if base is not None and names and base.keys().isdisjoint(names):
            base = None  # it says nothing about this conflict
        message = f"{type_.name} '{id}' {_explain(kind, source, target, names, words)}"
        yield MergeConflict.of(
            str(kind), type_.table_key, message, id, base, source, target, properties=names
        )


def _explain(
    kind: ConflictKind,
    source: Record | None,
    target: Record | None,
    names: Sequence[str],
    words: ConflictWords,
) -> str:
    if source is None:
        return words.deleted_and_changed
    if target is None:
        return words.changed_and_deleted
    is_insert = kind is ConflictKind.DIVERGENT_INSERT
    what = words.inserted_twice if is_insert else words.changed_twice
    return f"{what}, with different {', '.join(names)}"


def _read_records(
    side: RowSource, addresses: pa.Array, type_: NodeType | EdgeType
) -> list[Record | None]:
    """Read the rows at these addresses as JSON objects; blobs as their size only.

    Properties without a value in a virtual base are omitted.
    """
    schema, there = build_logical_schema(type_), addresses.drop_null()
    present = pa.concat_tables(list(read_rows(side, there, schema.names)))
    columns = {}
    for field in schema:
        values = present.column(field.name)
        columns[field.name] = (
            _list_sizes(values) if field.type == BLOB else encode_values_as_json(values)
        )
    known = [schema.names] * len(there)
    if isinstance(side, VirtualRows):
        masks = side.mask_known(there, schema.names).T
        known = [list(compress(schema.names, mask)) for mask in masks.tolist()]
    rows = iter([{name: columns[name][at] for name in names} for at, names in enumerate(known)])
    return [next(rows) if there else None for there in addresses.is_valid().to_pylist()]


def _list_sizes(descriptors: pa.ChunkedArray) -> list[object]:
    return [None if one is None else {"bytes": one["size"]} for one in descriptors.to_pylist()]
