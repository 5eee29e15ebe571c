"""Conflicts for people and programs: each entity as the base, the source and the target have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import JsonValue, MergeConflict
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.history.conflict_resolution import CONFLICTS_AT_ONCE, Resolver
from omnigraph.history.table_sides import ConflictKind, Entities, TableSides
from omnigraph.storage.tables import Table, read_rows_at_addresses
from omnigraph.types.arrow import BLOB
from omnigraph.types.to_json import encode_values_as_json

Record = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ConflictWords:
    """Descriptions, for people, of what two sides did to one entity."""

    deleted_and_changed: str
    """By the source, and then by the target."""
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
"""The source is what was there before the commit, so undoing an insert deletes."""
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
    table: Table, addresses: pa.Array, type_: NodeType | EdgeType
) -> list[Record | None]:
    """The rows at these addresses as JSON objects; blobs by their size only."""
    names = build_logical_schema(type_).names
    present = pa.concat_tables(list(read_rows_at_addresses(table, addresses.drop_null(), names)))
    columns = {}
    for field in build_logical_schema(type_):
        values = present.column(field.name)
        columns[field.name] = (
            _list_sizes(values) if field.type == BLOB else encode_values_as_json(values)
        )
    values_of = zip(*columns.values(), strict=True)
    rows = iter([dict(zip(columns, row, strict=True)) for row in values_of])
    return [next(rows) if there else None for there in addresses.is_valid().to_pylist()]


def _list_sizes(descriptors: pa.ChunkedArray) -> list[object]:
    return [None if one is None else {"bytes": one["size"]} for one in descriptors.to_pylist()]
