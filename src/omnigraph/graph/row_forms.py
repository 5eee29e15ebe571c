"""Rows in whichever form the caller works with: Python values, frames, text and HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from omnigraph.errors import BadRequest, MissingPackage
from omnigraph.graph.notebook import render_html_table
from omnigraph.graph.text_table import render_text_table
from omnigraph.types.to_json import encode_rows, encode_values_as_json

if TYPE_CHECKING:
    import polars as pl

Row = dict[str, object]

_SHOWN_ROWS = 50
_SHOWN_WIDTH = 60


class RowForms(ABC):
    """What everything that has rows can do. A row is a dictionary; a date in it is a date."""

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The columns with their Arrow types, known before any row is read."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, with the types of the schema."""

    def _read_first(self, count: int) -> pa.Table:
        """The first rows, and no more than that is needed."""
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
        place = range(len(self))[index]
        return convert_rows(self.to_arrow().slice(place, 1))[0]

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
        import polars as pl  # noqa: PLC0415 - only for those who ask

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
