"""Tables found in foreign data; CSV, TSV, Parquet and Arrow files, and data frames, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as csv

from omnigraph.errors import BadRequest
from omnigraph.identity import EntityKind
from omnigraph.types.property import PropertyType

NOTHING: Mapping[str, PropertyType] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """Rows of one type, or of a part of it; nothing is read before it is asked for."""

    name: str
    """Candidates for the name of its type."""
    origin: str
    """The file, for messages."""
    read: Callable[[], Iterable[pa.RecordBatch]]
    """Return all rows; may be called repeatedly."""
    has_text_values: bool = False
    """True if numbers, booleans and lists are written as text, as in CSV."""
    has_text_dates: bool = False
    """True if dates are written as text, as in JSON."""
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
    """True if the columns are those of several types: an empty one may belong to another type."""
    is_named_exactly: bool = False
    """True if the name is that of a type already, and not of a file."""


@dataclass(frozen=True, slots=True)
class SourceGraph:
    """All tables of one or more sources, and what cannot be carried over."""

    tables: tuple[SourceTable, ...]
    lost: tuple[str, ...] = ()

    def join(self, other: SourceGraph) -> SourceGraph:
        return SourceGraph(self.tables + other.tables, self.lost + other.lost)


_TABS = (".tsv", ".tab")
_COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class Delimited:
    """A file of delimited text, and how it is written."""

    path: Path
    delimiter: str
    names: tuple[str, ...] | None = None
    """Names of the columns of a file without a header."""
    quote: str = '"'
    escape: str | None = None
    has_header: bool = True
    """True if the first line is a header; with `names` it is skipped."""

    def read_names(self) -> list[str]:
        """The names of the columns."""
        if self.names is not None:
            return list(self.names)
        with self._open() as stream:
            return list(csv.open_csv(stream, **self._list_options(())).schema.names)

    def read(self) -> Iterator[pa.RecordBatch]:
        """All rows; every column holds text, and an empty cell without quotes is null."""
        names = self.read_names()
        repeated = next((one for one in names if names.count(one) > 1), None)
        if repeated is not None:
            raise BadRequest(f"{self.path}: two columns are called '{repeated}'")
        with self._open() as stream:
            yield from csv.open_csv(stream, **self._list_options(names))

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            with pa.input_stream(str(self.path), compression="detect") as stream:
                yield stream
        except (OSError, pa.ArrowInvalid) as error:
            raise BadRequest(f"cannot read {self.path}: {error}") from error

    def _list_options(self, names: list[str] | tuple[()]) -> dict[str, object]:
        reading = csv.ReadOptions(
            column_names=list(self.names) if self.names is not None else None,
            skip_rows=1 if self.names is not None and self.has_header else 0,
        )
        parsing = csv.ParseOptions(
            delimiter=self.delimiter,
            newlines_in_values=True,
            quote_char=self.quote,
            escape_char=self.escape or False,
        )
        converting = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        return {
            "read_options": reading,
            "parse_options": parsing,
            "convert_options": converting,
        }


def find_delimiter(path: Path, given: str | None) -> str:
    """The one that was given, or that of files of this name."""
    if given is not None:
        return given
    name = path.name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return "\t" if name.endswith(_TABS) else ","


def open_parquet(path: Path, name: str) -> SourceTable:
    return SourceTable(name=name, origin=str(path), read=partial(_read_parquet, path))


def open_arrow(path: Path, name: str) -> SourceTable:
    return SourceTable(name=name, origin=str(path), read=partial(_read_arrow, path))


def open_frame(name: str, frame: object) -> SourceTable:
    """A table, or a data frame of any library that hands out Arrow data."""
    if isinstance(frame, pa.RecordBatch):
        table = pa.Table.from_batches([frame])
    elif type(frame).__module__.startswith("polars.lazyframe"):
        table = pa.table(frame.collect())  # type: ignore[attr-defined]
    elif isinstance(frame, list):
        table = pa.Table.from_pylist(frame)
    elif isinstance(frame, pa.Table) or hasattr(frame, "__arrow_c_stream__"):
        table = pa.table(frame)
    else:
        raise BadRequest(
            f"'{name}' is {type(frame).__name__}; give tables, data frames or lists of dictionaries"
        )
    return SourceTable(name=name, origin=name, read=table.to_batches)


def _read_parquet(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - only where such a file is given

    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches()
    except (OSError, pa.ArrowInvalid) as error:
        raise BadRequest(f"cannot read {path} as Parquet: {error}") from error


def _read_arrow(path: Path) -> Iterator[pa.RecordBatch]:
    """A file of Arrow's, or a stream of it, or Feather."""
    try:
        with pa.memory_map(str(path)) as source:
            if source.read(6) == b"ARROW1":
                reader = pa.ipc.open_file(source)
                yield from (reader.get_batch(at) for at in range(reader.num_record_batches))
                return
            source.seek(0)
            yield from pa.ipc.open_stream(source)
    except (OSError, pa.ArrowInvalid) as error:
        raise BadRequest(f"cannot read {path} as Arrow: {error}") from error
