"""Single changes as values and as JSON: what an entity was, and what it is.

Values are written as an export writes them, so that an image can be loaded again; numbers JSON
has no number for are given by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.history.entity_changes import ChangeBatch, Op
from omnigraph.identity import EntityKind
from omnigraph.types.to_json import encode_image_values

_STRUCTURAL = ("id", "src", "dst")


@dataclass(frozen=True, slots=True)
class Endpoints:
    source: str
    target: str

    def wire(self) -> dict[str, object]:
        return {"from": self.source, "to": self.target}


@dataclass(frozen=True, slots=True)
class Image:
    """An entity at one moment: its properties and, of an edge, its ends."""

    properties: Mapping[str, object]
    endpoints: Endpoints | None = None

    def wire(self) -> dict[str, object]:
        body: dict[str, object] = {"properties": self.properties}
        return body if self.endpoints is None else body | {"endpoints": self.endpoints.wire()}


@dataclass(frozen=True, slots=True)
class EntityChange:
    """One entity that was inserted, updated or deleted.

    With images, an insert has `after`, a delete `before` and an update both. Without, an edge
    has its `endpoints`.
    """

    kind: EntityKind
    type_name: str
    type_id: str
    id: str
    op: Op
    before: Image | None = None
    after: Image | None = None
    endpoints: Endpoints | None = None

    def wire(self) -> dict[str, object]:
        body: dict[str, object] = {
            "kind": str(self.kind),
            "type": {"id": self.type_id, "name": self.type_name},
            "id": self.id,
            "op": str(self.op),
        }
        for name in ("before", "after", "endpoints"):
            value: Image | Endpoints | None = getattr(self, name)
            if value is not None:
                body[name] = value.wire()
        return body


def iterate_changes(batch: ChangeBatch) -> Iterator[EntityChange]:
    """The changes of a batch one by one; columns are converted as a whole first."""
    type_ = batch.type_
    before = _spread(batch.before, batch.has_before)
    after = _spread(batch.after, batch.has_after)
    ends = [None] * len(batch) if batch.ends is None else _convert_endpoints(batch.ends)
    for at, (id, op) in enumerate(zip(batch.ids.to_pylist(), batch.ops(), strict=True)):
        yield EntityChange(
            type_.kind, type_.name, batch.type_id, id, op, before[at], after[at], ends[at]
        )


def convert_images(rows: pa.Table) -> list[Image]:
    """Whole rows as images."""
    ends = _convert_endpoints(rows) if "src" in rows.column_names else [None] * rows.num_rows
    names = [name for name in rows.column_names if name not in _STRUCTURAL]
    columns = [encode_image_values(_combine_column(rows, name)) for name in names]
    values = zip(*columns, strict=True) if columns else iter([()] * rows.num_rows)
    return [
        Image(dict(zip(names, row, strict=True)), end)
        for row, end in zip(values, ends, strict=True)
    ]


def _spread(rows: pa.Table | None, has: np.ndarray) -> list[Image | None]:
    """The images of one side, each where its change is."""
    if rows is None:
        return [None] * len(has)
    images = iter(convert_images(rows))
    return [next(images) if there else None for there in has.tolist()]


def _convert_endpoints(rows: pa.Table) -> list[Endpoints | None]:
    ends = (rows.column(name).to_pylist() for name in ("src", "dst"))
    return [Endpoints(*pair) for pair in zip(*ends, strict=True)]


def _combine_column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    whole = column.combine_chunks()
    return pa.array([], column.type) if isinstance(whole, pa.ChunkedArray) else whole
