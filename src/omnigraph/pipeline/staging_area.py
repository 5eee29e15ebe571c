"""The staging area of a load: a table for each type, and input that is spooled for tasks."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.catalog.codec import decode_ir
from omnigraph.errors import StorageError
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.identity import TableKey
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import make_staging_path
from omnigraph.storage.objects import StoreKind
from omnigraph.storage.tables import (
    Table,
    TableLocation,
    commit_exact,
    parse_fragments,
    stage_first_version,
)

AT = "__at"
"""Position of a row: the number of its split and its line in it, as one number."""
PRESENT = "__has_"
"""Prefix of a column that marks the records that give a property."""

_LINE_BITS = 40
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")

ROW_OUTCOMES = pa.schema(
    [
        pa.field("fragment", pa.int32(), nullable=False),
        pa.field("address", pa.uint64(), nullable=False),
        pa.field("is_dropped", pa.bool_(), nullable=False),
        pa.field("row_id", pa.uint64()),
        pa.field("row_address", pa.uint64()),
        pa.field("row_fragment", pa.int32()),
        pa.field("src", pa.string()),
    ]
)
"""Outcomes of staged rows that are not simply inserted.

`address` is the row's own address in the staging table. A dropped row is left out; another one
replaces the committed row with this id, address and, for an edge, source.
"""

REJECTS = pa.schema(
    [
        pa.field("at", pa.int64()),
        pa.field("code", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("type_key", pa.string()),
        pa.field("id", pa.string()),
        pa.field("property", pa.string()),
        pa.field("record", pa.string()),
    ]
)
"""Refused records, for the file of rejects."""


def encode_position(split: int, line: int) -> int:
    return split << _LINE_BITS | line


def split_and_line(at: int) -> tuple[int, int]:
    return at >> _LINE_BITS, at & (1 << _LINE_BITS) - 1


def build_staging_schema(type_: NodeType | EdgeType, *, with_presence: bool = False) -> pa.Schema:
    """Return the columns of a staging table: the rows, their positions, what they give."""
    fields = [pa.field(f.name, f.type) for f in build_logical_schema(type_)]
    fields.append(pa.field(AT, pa.int64(), nullable=False))
    if with_presence:
        fields += [pa.field(PRESENT + p.name, pa.bool_()) for p in type_.properties]
    return pa.schema(fields)


@lru_cache(maxsize=16)
def decode_catalog_cached(ir: str) -> Catalog:
    """Decode the schema of a specification, once per process."""
    return decode_ir(ir)


@dataclass(frozen=True, slots=True)
class Staged:
    """The staged rows of one type, less those that the tables of outcomes drop."""

    table: Table
    rows: int
    row_outcomes: tuple[Table, ...] = ()
    touched: tuple[int, ...] = ()
    """The fragments of the committed table with rows to be replaced."""

    def with_row_outcomes(self, row_outcomes: Table | None) -> Staged:
        return (
            self
            if row_outcomes is None
            else replace(self, row_outcomes=(*self.row_outcomes, row_outcomes))
        )


@dataclass(frozen=True, slots=True)
class StagingArea:
    """The folder of one load, with files of this load only."""

    root: GraphRoot
    id: str

    def location(self, name: str) -> TableLocation:
        """Return the location of a table; every name has a location of its own."""
        return self.root.location(f"{make_staging_path(self.id)}/{_UNSAFE.sub('-', name)}")

    def table_location(self, key: TableKey, purpose: str = "rows") -> TableLocation:
        return self.location(f"{purpose}-{key}")

    def fresh(self, purpose: str) -> TableLocation:
        return self.location(f"{purpose}-{uuid4().hex[:12]}")

    @property
    def note(self) -> str:
        """Path of the pointer to the writer heartbeat that all tasks share."""
        return f"{make_staging_path(self.id)}/at-work"

    def remove(self) -> None:
        """Remove the folder; on failure it remains as garbage for cleanup."""
        with suppress(StorageError):
            self.root.store.delete_prefix(make_staging_path(self.id))


def commit_staging(
    location: TableLocation, schema: pa.Schema, fragments: Sequence[str]
) -> Table | None:
    """Commit fragments as a table, in their order; None without any."""
    if not fragments:
        return None
    staged = stage_first_version(location, schema, parse_fragments(fragments), properties={})
    return commit_exact(staged).table


@contextmanager
def spool_input(root: GraphRoot, data: Iterable[bytes]) -> Iterator[str]:
    """Provide a file with these bytes, which come in pieces.

    It is next to the graph if that is shared, and a temporary one otherwise.
    """
    if root.store.kind is StoreKind.S3:
        path = f"{make_staging_path(uuid4().hex)}/input.jsonl"
        root.store.put_chunks(path, data)
        try:
            yield root.store.uri_of(path)
        finally:
            root.store.delete(path)
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-") as folder:
        local = Path(folder) / "input.jsonl"
        with local.open("wb") as file:
            file.writelines(data)
        yield str(local)
