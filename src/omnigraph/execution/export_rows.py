"""Writing a snapshot out as records that load back as the same graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import TypeNotFound
from omnigraph.execution.stored_rows import convert_from_table_rows
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import ScanOrder
from omnigraph.types.to_json import export_lines

ROWS_AT_ONCE = 8_192


def export_types(catalog: Catalog, names: Sequence[str] | None) -> list[NodeType | EdgeType]:
    """The types to export, in byte order of their table keys: edges come before nodes."""
    if names is not None:
        known = {type_.name for type_ in catalog.by_table_key.values()}
        for name in names:
            if name not in known:
                raise TypeNotFound(name, f"unknown export type '{name}'")
    wanted = None if names is None else set(names)
    return [
        type_
        for _, type_ in sorted(catalog.by_table_key.items())
        if wanted is None or type_.name in wanted
    ]


def export_jsonl(snapshot: Snapshot, types: Iterable[NodeType | EdgeType]) -> Iterator[bytes]:
    """Whole lines, a block at a time; within a type by ascending id."""
    for type_ in types:
        table = snapshot.table(type_.table_key)
        ordered = table.scan(order_by=[ScanOrder("id")], blob_bytes=True)
        rows = convert_from_table_rows(ordered, type_)
        for batch in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
            yield export_lines(type_.name, type_.kind, batch)


def export_records(
    snapshot: Snapshot, types: Iterable[NodeType | EdgeType]
) -> Iterator[dict[str, object]]:
    """The same as Python objects, one record at a time."""
    for block in export_jsonl(snapshot, types):
        for line in block.splitlines():
            yield msgspec.json.decode(line)
