"""What a table's schema carries besides names and types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import lance
import pyarrow as pa

PRIMARY_KEY = b"lance-schema:unenforced-primary-key"


def mark_primary_key(schema: pa.Schema, field: str) -> pa.Schema:
    """The schema with `field` marked as the key, and so not null.

    The mark can be set once and never moved. Nothing enforces it: uniqueness is ours to prove.
    """
    index = schema.get_field_index(field)
    assert index >= 0, f"no field {field!r} in {schema.names}"
    old = schema.field(index)
    marked = old.with_nullable(False).with_metadata({**(old.metadata or {}), PRIMARY_KEY: b"true"})
    return schema.set(index, marked)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table: read once, and shared by all versions that change only rows."""

    schema: pa.Schema
    ids: Mapping[str, int]
    """What data files name the top-level columns by."""
    all_ids: tuple[int, ...]
    """The ids of every field, nested ones included, in order."""


def read_columns(native: lance.LanceDataset) -> Columns:
    fields = native.lance_schema.fields()
    all_ids: list[int] = []
    waiting = list(fields)
    while waiting:
        field = waiting.pop()
        all_ids.append(field.id())
        waiting.extend(field.children())
    ids = {field.name(): int(field.id()) for field in fields}
    return Columns(native.schema, ids, tuple(sorted(all_ids)))
