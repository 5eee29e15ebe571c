"""Rows in the forms callers use: Python values, frames, text and HTML."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import BadRequest, MissingPackage, TypeNotFound
from omnigraph.execution.stored_rows import build_logical_schema, read_all, read_batches
from omnigraph.graph.branch_snapshots import CatalogSnapshot
from omnigraph.pipeline.spark_environment import require_spark
from omnigraph.types.to_json import encode_rows, encode_values_as_json
from omnigraph.wire.read_results import render_html_table

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession


_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})
_DOUBLE_WIDTH = frozenset({"W", "F"})


def render_text_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], max_width: int, *, wraps: bool = False
) -> Iterator[str]:
    """Render a header, a rule and the rows; a cell that is too wide is cut or wrapped."""

    def split(text: str, width: int) -> list[str]:
        if measure_width(text) <= width:
            return [text]
        return _chop(text, width) if wraps else [f"{_chop(text, width - 1)[0]}…"]

    def join(cells: Sequence[str]) -> str:
        padded = (
            cell + " " * (width - measure_width(cell))
            for cell, width in zip(cells, widths, strict=True)
        )
        return " | ".join(padded).rstrip()

    widths = [
        min(max_width, max(map(measure_width, (name, *cells))))
        for name, *cells in zip(columns, *rows, strict=True)
    ]
    yield join([split(name, width)[0] for name, width in zip(columns, widths, strict=True)])
    yield "-+-".join("-" * width for width in widths)
    for row in rows:
        pieces = [split(text, width) for text, width in zip(row, widths, strict=True)]
        for line in range(max((len(p) for p in pieces), default=0)):
            yield join([p[line] if line < len(p) else "" for p in pieces])


def measure_width(text: str) -> int:
    """Return the display width of a text in terminal columns.

    >>> measure_width("Ada"), measure_width("東京")
    (3, 4)
    """
    return len(text) if text.isascii() else sum(map(_measure_character, text))


def _measure_character(character: str) -> int:
    if unicodedata.category(character) in _ZERO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _DOUBLE_WIDTH else 1


def _chop(text: str, width: int) -> list[str]:
    """Wrap the text to a display width; a double-width character is never split."""
    pieces, piece, taken = [], "", 0
    for character in text:
        added = _measure_character(character)
        if taken + added > width:
            pieces.append(piece)
            piece, taken = "", 0
        piece, taken = piece + character, taken + added
    return [*pieces, piece]


Row = dict[str, object]

_SHOWN_ROWS = 50
_SHOWN_WIDTH = 60


class RowForms(ABC):
    """Conversions of a set of rows. A row is a dictionary; a date in it is a `date`."""

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The columns with their Arrow types, known before any row is read."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, with the types of the schema."""

    def _read_first(self, count: int) -> pa.Table:
        """Return the first rows, reading no more than needed."""
        return self.to_arrow().slice(0, count)

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.arrow_schema.names)

    def __iter__(self) -> Iterator[Row]:
        return iter(convert_rows(self.to_arrow()))

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            chosen = range(*index.indices(len(self)))
            return convert_rows(self.to_arrow().take(pa.array(chosen, pa.int64())))
        offset = range(len(self))[index]
        return convert_rows(self.to_arrow().slice(offset, 1))[0]

    def first(self) -> Row | None:
        """The first row; None if there is none."""
        return next(iter(convert_rows(self._read_first(1))), None)

    def scalar(self) -> Any:  # noqa: ANN401 - whatever the column holds
        """The only value of the only row.

        Raises:
            BadRequest: there is not exactly one.
        """
        rows = convert_rows(self._read_first(2))
        if len(rows) != 1 or len(rows[0]) != 1:
            raise BadRequest(
                f"scalar() is for one row with one column; there are {len(self)} rows with "
                f"{len(self.columns)} columns"
            )
        return next(iter(rows[0].values()))

    def to_polars(self) -> pl.DataFrame:
        """The rows as a Polars frame.

        Raises:
            MissingPackage: Polars is not installed.
        """
        if find_spec("polars") is None:
            raise MissingPackage("polars", "to_polars()", "pip install polars")
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
        return frame

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is not a dependency
        """The rows as a pandas frame.

        Raises:
            MissingPackage: pandas is not installed.
        """
        if find_spec("pandas") is None:
            raise MissingPackage("pandas", "to_pandas()", "pip install pandas")
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        shown = encode_rows(self._read_first(_SHOWN_ROWS))
        cells = [[render_value(value) for value in row.values()] for row in shown]
        table = render_text_table(self.columns, cells, _SHOWN_WIDTH)
        return "\n".join([*table, f"({_describe_count(len(self))})"])

    def _repr_html_(self) -> str:
        """A table for notebooks: the first rows, and how many there are."""
        shown = encode_rows(self._read_first(_SHOWN_ROWS))
        rows = ([render_value(value) for value in row.values()] for row in shown)
        return render_html_table(self.columns, rows, _describe_count(len(self)))


def convert_rows(table: pa.Table) -> list[Row]:
    """Rows as Python values: dates as dates, times with their zone, numbers as numbers."""
    if not table.num_columns:
        return [{} for _ in range(table.num_rows)]
    columns = [_convert_column(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _convert_column(column: pa.ChunkedArray) -> list[object]:
    try:
        values: list[object] = column.to_pylist()
    except (OverflowError, ValueError):  # a day that Python has no date for
        return encode_values_as_json(column)
    return values


def render_value(value: object) -> str:
    """A value as a cell shows it, on one line."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return str(value).replace("\r", "\\r").replace("\n", "\\n")


def _describe_count(count: int) -> str:
    rows = "1 row" if count == 1 else f"{count:,} rows"
    return f"{rows}, {_SHOWN_ROWS} shown" if count > _SHOWN_ROWS else rows


class TypeRows(RowForms):
    """The nodes or edges of a type in one snapshot; rows are read on demand.

    >>> people = graph.nodes("Person")
    >>> len(people), people.to_arrow().column_names
    (2, ['id', 'age', 'name', 'photo'])
    >>> graph.edges("Knows").first()
    {'id': 'k1', 'src': 'Ada', 'dst': 'Ben'}
    """

    def __init__(
        self, view: CatalogSnapshot, type_: NodeType | EdgeType | None, asked: str
    ) -> None:
        if type_ is None:
            raise TypeNotFound(asked, f"the schema has no type '{asked}'")
        self._view, self._type = view, type_

    def __repr__(self) -> str:
        return f"TypeRows({self._type.table_key!r}, {self._view.snapshot.id!r})"

    def __len__(self) -> int:
        return self._view.snapshot.entry(self._type.table_key).row_count

    def __iter__(self) -> Iterator[Row]:
        for batch in self.batches():
            yield from convert_rows(pa.Table.from_batches([batch]))

    def _read_first(self, count: int) -> pa.Table:
        found: list[pa.RecordBatch] = []
        for batch in self.batches():
            found.append(batch)
            if sum(one.num_rows for one in found) >= count:
                break
        return pa.Table.from_batches(found, self.arrow_schema).slice(0, count)

    def to_arrow(self) -> pa.Table:
        """Every row in memory, blobs included."""
        return read_all(self._view.snapshot.table(self._type.table_key), self._type)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns with their Arrow types."""
        return build_logical_schema(self._type)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Stream the rows in batches, with bounded memory.

        >>> sum(batch.num_rows for batch in graph.nodes("Person").batches())
        2
        """
        return read_batches(self._view.snapshot.table(self._type.table_key), self._type)

    def to_spark(
        self,
        session: SparkSession | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> DataFrame:
        """Return a data frame that reads the rows of this snapshot, unaffected by later writes.

        Args:
            session: The session to read in; as for every verb on Spark by default.
            columns: Only these columns; Spark does not tell a source which columns a plan uses.
            where: Only rows for which this is true, a condition as in the `where` of a mutation;
                other rows are not read, where a filter of Spark's reads them all.
        """
        require_spark("to_spark()")
        from omnigraph.pipeline import spark
        from omnigraph.pipeline.spark_scan import build_type_frame
        from omnigraph.pipeline.tasks import check_executors

        snapshot = self._view.snapshot
        chosen = spark(session, settings=snapshot.root.settings)
        check_executors(chosen)
        return build_type_frame(chosen, snapshot, self._view.catalog, self._type, columns, where)
