"""What a table's schema carries beside names and types."""

from __future__ import annotations

import lance
import pyarrow as pa

PRIMARY_KEY = b"lance-schema:unenforced-primary-key"


def with_primary_key(schema: pa.Schema, field: str) -> pa.Schema:
    """The schema with `field` marked as the key, and so not null.

    The mark can be set once and never moved. Nothing enforces it: uniqueness is ours to prove.
    """
    index = schema.get_field_index(field)
    assert index >= 0, f"no field {field!r} in {schema.names}"
    old = schema.field(index)
    marked = old.with_nullable(False).with_metadata({**(old.metadata or {}), PRIMARY_KEY: b"true"})
    return schema.set(index, marked)


def primary_key(schema: pa.Schema) -> str | None:
    """The field marked as the key."""
    for field in schema:
        if (field.metadata or {}).get(PRIMARY_KEY) == b"true":
            return str(field.name)
    return None


def all_field_ids(native: lance.LanceDataset) -> list[int]:
    """The id of every field, nested ones included."""
    ids: list[int] = []
    waiting = list(native.lance_schema.fields())
    while waiting:
        field = waiting.pop()
        ids.append(field.id())
        waiting.extend(field.children())
    return sorted(ids)


def field_id(native: lance.LanceDataset, name: str) -> int | None:
    """The id of a top-level field: what data files name their columns by."""
    for field in native.lance_schema.fields():
        if field.name() == name:
            return int(field.id())
    return None
