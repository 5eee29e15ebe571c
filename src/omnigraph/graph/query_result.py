"""The answer of a query: rows in whichever form the caller works with, and where they came from."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.execution.read.result import ReadResult
from omnigraph.plan.explain import Step
from omnigraph.plan.nodes import ReadPlan
from omnigraph.types.to_json import result_rows

if TYPE_CHECKING:
    import polars as pl

_SHOWN_ROWS = 50


class QueryResult:
    """Rows of one snapshot. Iterating gives dictionaries of plain Python values.

    Rows are made as they are asked for: `batches()` streams a result of any size once, every
    other form holds all of it and can be asked for again.
    """

    def __init__(
        self,
        plan: ReadPlan,
        read: ReadResult,
        target: Mapping[str, str | None],
        commit_id: str | None,
    ) -> None:
        self.plan, self.target, self.commit_id = plan, dict(target), commit_id
        self._read = read

    @property
    def query_name(self) -> str:
        return self.plan.name

    @property
    def columns(self) -> list[str]:
        return list(self._read.schema.names)

    @cached_property
    def _table(self) -> pa.Table:
        return self._read.to_arrow()

    @cached_property
    def rows(self) -> list[dict[str, object]]:
        """Every row as plain Python values, as JSON would show them."""
        return result_rows(self._table)

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows piece by piece, without holding them all."""
        if "_table" in self.__dict__:
            yield from self._table.to_batches()
        else:
            yield from self._read.batches()

    def to_arrow(self) -> pa.Table:
        return self._table

    def to_polars(self) -> pl.DataFrame:
        import polars as pl  # noqa: PLC0415 - only for those who ask

        frame = pl.from_arrow(self._table)
        assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
        return frame

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is not a dependency
        """The rows as a pandas frame; pandas must be installed."""
        return self._table.to_pandas()

    def profile(self) -> Step:
        """The plan with the rows and milliseconds of every operator, once all rows are read."""
        assert self._table is not None, "reading everything completes the profile"
        return self._read.profile.step()

    def wire(self, *, javascript: bool = False) -> dict[str, object]:
        """The JSON document of the command line and the server."""
        rows = result_rows(self._table, javascript=javascript)
        return {
            "query_name": self.query_name,
            "target": self.target,
            "row_count": len(rows),
            "columns": self.columns,
            "rows": rows,
            "graph_commit_id": self.commit_id,
        }

    def __repr__(self) -> str:
        return f"QueryResult({self.query_name!r}, columns={self.columns})"

    def _repr_html_(self) -> str:
        """A table for notebooks: the first rows, and how many there are."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        shown = result_rows(self._table.slice(0, _SHOWN_ROWS))
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(v))}</td>" for v in row.values()) + "</tr>"
            for row in shown
        )
        note = f"{len(self)} rows" + (f", {_SHOWN_ROWS} shown" if len(self) > _SHOWN_ROWS else "")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{note}</p>"
