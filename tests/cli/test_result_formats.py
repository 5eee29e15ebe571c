"""Every format a query can be printed in."""

import csv
import io
import json

import pytest
from click.testing import CliRunner

from omnigraph.cli.result_formats import (
    QueryAnswer,
    render_csv,
    render_jsonl,
    render_kv,
    render_table,
)

DOCUMENT = {
    "query_name": "q",
    "target": {"branch": "main", "snapshot": None},
    "row_count": 2,
    "columns": ["a.name", "n"],
    "graph_commit_id": "01X",
    "rows": [{"a.name": 'Ada, "the first"\nline', "n": 1}, {"a.name": None, "n": [1, 2]}],
}
ANSWER = QueryAnswer(DOCUMENT, DOCUMENT["columns"], DOCUMENT["rows"])
EMPTY = QueryAnswer({**DOCUMENT, "rows": [], "row_count": 0}, DOCUMENT["columns"], [])


def test_csv_reads_back_and_null_is_empty() -> None:
    text = "\n".join(render_csv(ANSWER))
    assert list(csv.reader(io.StringIO(text))) == [
        ["a.name", "n"],
        ['Ada, "the first"\nline', "1"],
        ["", "[1, 2]"],
    ]


def test_jsonl_starts_with_what_the_rows_are() -> None:
    head, *rows = map(json.loads, render_jsonl(ANSWER))
    assert head["kind"] == "metadata"
    assert (head["columns"], head["graph_commit_id"]) == (["a.name", "n"], "01X")
    assert rows == DOCUMENT["rows"]


def test_kv_prints_blocks() -> None:
    assert list(render_kv(ANSWER)) == [
        "2 rows from branch main via q",
        "",
        "row 1",
        'a.name: Ada, "the first"\\nline',
        "n: 1",
        "",
        "row 2",
        "a.name: null",
        "n: [1, 2]",
    ]
    assert list(render_kv(EMPTY)) == ["0 rows from branch main via q", "(no rows)"]


def test_a_table_aligns_and_cuts() -> None:
    assert list(render_table(ANSWER, 10, "truncate")) == [
        "2 rows from branch main via q",
        "a.name     | n",
        "-----------+-------",
        'Ada, "the… | 1',
        "null       | [1, 2]",
    ]


def test_a_table_can_wrap() -> None:
    lines = list(render_table(ANSWER, 10, "wrap"))
    assert lines[3:6] == ['Ada, "the  | 1', 'first"\\nli |', "ne         |"]


@pytest.mark.parametrize("layout", ["truncate", "wrap"])
def test_a_table_without_rows_has_its_header(layout: str) -> None:
    assert list(render_table(EMPTY, 80, layout))[1:] == ["a.name | n", "-------+--"]


def test_the_runner_is_not_needed_to_see_help() -> None:
    from omnigraph.cli.commands.query_command import query

    assert "--format" in CliRunner().invoke(query, ["--help"]).output
