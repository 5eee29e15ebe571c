"""Results of queries and mutations in the formats of the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from omnigraph.cli.input_files import open_output
from omnigraph.cli.terminal import encode_json
from omnigraph.client.operator_config import OUTPUT_FORMATS, OperatorConfig

if TYPE_CHECKING:
    from omnigraph.graph.queries import QueryResult
    from omnigraph.wire.write_results import MutationResult


MIN_COLUMN_WIDTH = 8
_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$')

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The columns and rows of a query, with its JSON document."""

    document: Mapping[str, object]
    columns: Sequence[str]
    rows: Sequence[Row]

    @property
    def headline(self) -> str:
        target = self.document["target"]
        assert isinstance(target, Mapping)
        where = f"branch {target['branch']}" if target["branch"] else str(target["snapshot"])
        return f"{len(self.rows)} rows from {where} via {self.document['query_name']}"


def render_cell(value: object) -> str:
    """Render a value on one line: strings unchanged, everything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\r", "\\r").replace("\n", "\\n")


def render_jsonl(answer: QueryAnswer) -> Iterator[str]:
    head = {"kind": "metadata", **{k: v for k, v in answer.document.items() if k != "rows"}}
    for one in (head, *answer.rows):
        yield json.dumps(one, ensure_ascii=False, separators=(",", ":"))


def render_csv(answer: QueryAnswer) -> Iterator[str]:
    """Yield a header and one line per row; NULL is an empty field, empty text a quoted one."""
    yield ",".join(map(_quote_field, answer.columns))
    for row in answer.rows:
        yield ",".join(_quote_field(row[column]) for column in answer.columns)


def _quote_field(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text and not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def render_kv(answer: QueryAnswer) -> Iterator[str]:
    yield answer.headline
    if not answer.rows:
        yield "(no rows)"
    for number, row in enumerate(answer.rows, start=1):
        yield ""
        yield f"row {number}"
        for column in answer.columns:
            yield f"{column}: {render_cell(row[column])}"


def render_table(answer: QueryAnswer, max_width: int, layout: str) -> Iterator[str]:
    """Yield the row count and the table."""
    yield answer.headline
    yield from render_columns(answer, max_width, layout)


def render_columns(answer: QueryAnswer, max_width: int, layout: str) -> Iterator[str]:
    """Yield aligned columns; a cell that is too wide is cut with an ellipsis or wrapped."""
    from omnigraph.graph.conversion.row_formats import render_text_table

    limit = max(max_width, MIN_COLUMN_WIDTH)
    body = [[render_cell(row[c]) for c in answer.columns] for row in answer.rows]
    return render_text_table(answer.columns, body, limit, wraps=layout == "wrap")


BINARY_FORMATS = ("arrow", "parquet")
FORMATS = (*OUTPUT_FORMATS, *BINARY_FORMATS)
_SUFFIXES = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".parquet": "parquet",
}


def find_format(out: str | None) -> str | None:
    """Return the format implied by the suffix of a file, or None."""
    return None if out is None else _SUFFIXES.get(PurePath(out).suffix.lower())


def write_answer(
    result: QueryResult,
    chosen: str,
    out: str | None,
    config: OperatorConfig,
    *,
    force: bool = False,
) -> None:
    """Write the rows to a file, whole or not at all, or to stdout."""
    if chosen in BINARY_FORMATS:
        write = result.write_arrow if chosen == "arrow" else result.write_parquet
        with open_output(out, force=force) as file:
            write(file)
        return
    lines = render_answer(result, chosen, config)
    first = next(lines)  # what goes wrong while reading goes wrong before anything is written
    with open_output(out, force=force) as file:
        for line in (first, *lines):
            file.write(line.encode("utf-8", "backslashreplace") + b"\n")


def render_answer(result: QueryResult, chosen: str, config: OperatorConfig) -> Iterator[str]:
    """Yield the rows as lines of text."""
    document = result.wire()
    if chosen == "json":
        yield encode_json(document)
        return
    columns, rows = document["columns"], document["rows"]
    assert isinstance(columns, list) and isinstance(rows, list)  # noqa: PT018
    answer = QueryAnswer(document, columns, rows)
    yield from {
        "jsonl": lambda: render_jsonl(answer),
        "csv": lambda: render_csv(answer),
        "kv": lambda: render_kv(answer),
        "table": lambda: render_table(
            answer, config.table_max_column_width, config.table_cell_layout
        ),
    }[chosen]()


def render_rows(result: QueryResult, config: OperatorConfig) -> Iterator[str]:
    """Return the rows as a table without a headline."""
    document = result.wire()
    columns, rows = document["columns"], document["rows"]
    assert isinstance(columns, list) and isinstance(rows, list)  # noqa: PT018
    answer = QueryAnswer(document, columns, rows)
    return render_columns(answer, config.table_max_column_width, config.table_cell_layout)


def render_mutation(done: MutationResult) -> str:
    """Return the one-line summary of a mutation."""
    return (
        f"changed {done.branch} via {done.query_name}: "
        f"{done.affected_nodes} nodes, {done.affected_edges} edges"
    )
