"""Rows of a query in the formats of the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MIN_COLUMN_WIDTH = 8
_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$')

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """A query's answer as its JSON document has it."""

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
    """A value as one line of text: strings as they are, everything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\r", "\\r").replace("\n", "\\n")


def render_jsonl(answer: QueryAnswer) -> Iterator[str]:
    head = {"kind": "metadata", **{k: v for k, v in answer.document.items() if k != "rows"}}
    for one in (head, *answer.rows):
        yield json.dumps(one, ensure_ascii=False, separators=(",", ":"))


def render_csv(answer: QueryAnswer) -> Iterator[str]:
    """A header and one line per row; NULL is an empty field, empty text a quoted one."""
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
    """How many rows there are, and then they."""
    yield answer.headline
    yield from render_columns(answer, max_width, layout)


def render_columns(answer: QueryAnswer, max_width: int, layout: str) -> Iterator[str]:
    """Aligned columns; a cell that is too wide ends in an ellipsis or goes on below."""
    from omnigraph.graph.text_table import render_text_table

    limit = max(max_width, MIN_COLUMN_WIDTH)
    body = [[render_cell(row[c]) for c in answer.columns] for row in answer.rows]
    return render_text_table(answer.columns, body, limit, wraps=layout == "wrap")
