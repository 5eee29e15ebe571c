"""The answer of a query, written in the format that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from omnigraph.cli.input_files import open_output
from omnigraph.cli.output import encode_json
from omnigraph.cli.result_formats import (
    QueryAnswer,
    render_columns,
    render_csv,
    render_jsonl,
    render_kv,
    render_table,
)
from omnigraph.client.operator_config import OUTPUT_FORMATS, OperatorConfig

if TYPE_CHECKING:
    from omnigraph.graph.query_result import QueryResult
    from omnigraph.graph.results import MutationResult

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
    """The format that the name of a file asks for, if it does."""
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
    """The rows as lines of text."""
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
    """The rows as a table and nothing else."""
    document = result.wire()
    columns, rows = document["columns"], document["rows"]
    assert isinstance(columns, list) and isinstance(rows, list)  # noqa: PT018
    answer = QueryAnswer(document, columns, rows)
    return render_columns(answer, config.table_max_column_width, config.table_cell_layout)


def render_mutation(done: MutationResult) -> str:
    """What a mutation did, in one line."""
    return (
        f"changed {done.branch} via {done.query_name}: "
        f"{done.affected_nodes} nodes, {done.affected_edges} edges"
    )
