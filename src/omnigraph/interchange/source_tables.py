"""What is found in files of others: tables, with whatever their format says about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa

from omnigraph.identity import EntityKind
from omnigraph.types.property import PropertyType

NOTHING: Mapping[str, PropertyType] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """Rows of one type, or of a part of it; nothing is read before it is asked for."""

    name: str
    """What its type may be called."""
    origin: str
    """The file, for messages."""
    read: Callable[[], Iterable[pa.RecordBatch]]
    """Gives all rows, as often as it is called."""
    has_text_values: bool = False
    """Whether numbers, truth values and lists are written as text, as in CSV."""
    has_text_dates: bool = False
    """Whether dates are written as text, as in JSON."""
    kind: EntityKind | None = None
    """None where only the columns tell."""
    key: str | None = None
    """The column that identifies a node."""
    ends: tuple[str, str] | None = None
    """The columns with the ends of an edge."""
    group: str | None = None
    """Nodes of one group are told apart by their ids, whatever table they are in."""
    end_groups: tuple[str | None, str | None] = (None, None)
    """The groups of the ends of edges; None where only the ids tell."""
    types: Mapping[str, PropertyType] = field(default_factory=lambda: NOTHING)
    """Of the columns whose types the format declares."""
    is_sparse: bool = False
    """Whether the columns are those of several types, so that an empty one is none of its own."""
    is_named_exactly: bool = False
    """Whether the name is that of a type already, and not of a file."""


@dataclass(frozen=True, slots=True)
class SourceGraph:
    """All tables of one or more sources, and what cannot be carried over."""

    tables: tuple[SourceTable, ...]
    lost: tuple[str, ...] = ()

    def join(self, other: SourceGraph) -> SourceGraph:
        return SourceGraph(self.tables + other.tables, self.lost + other.lost)
