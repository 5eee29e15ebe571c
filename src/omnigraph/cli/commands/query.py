"""`omnigraph query`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from omnigraph.cli.config import OUTPUT_FORMATS, OperatorConfig
from omnigraph.cli.files import open_output, read_parameters, read_query
from omnigraph.cli.output import json_text
from omnigraph.cli.rows import Answer, as_csv, as_jsonl, as_kv, as_table
from omnigraph.cli.scope import Scope, graph_options

if TYPE_CHECKING:
    from omnigraph.graph.query_result import QueryResult

BINARY_FORMATS = ("arrow", "parquet")
ENGINES = ("local", "spark")
FORMATS = (*OUTPUT_FORMATS, *BINARY_FORMATS)


@click.command()
@click.argument("name", required=False)
@graph_options(positional=True, writes=False)
@click.option("--query", "query_path", metavar="FILE", help="The queries (.gq); - for stdin.")
@click.option("-e", "--query-string", "text", metavar="GQ", help="The query itself.")
@click.option("--params", metavar="JSON", help="Parameters as a JSON object.")
@click.option("--params-file", metavar="FILE", help="Parameters in a file; - for stdin.")
@click.option("--branch", metavar="NAME", help="The branch to read; main by default.")
@click.option("--snapshot", metavar="ID", help="A commit or snapshot id instead of a branch.")
@click.option("--engine", type=click.Choice(ENGINES), default="local", help="Where it runs.")
@click.option("--spark-conf", multiple=True, metavar="K=V", help="An option of Spark. Repeatable.")
@click.option("--format", "chosen", type=click.Choice(FORMATS), help="How to write rows.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--out", metavar="PATH", help="Write to a file instead of stdout.")
def query(
    scope: Scope,
    name: str | None,
    query_path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    branch: str | None,
    snapshot: str | None,
    engine: str,
    spark_conf: tuple[str, ...],
    chosen: str | None,
    as_json: bool,
    out: str | None,
) -> None:
    """Run read query NAME; a text with one query needs no name."""
    if branch is not None and snapshot is not None:
        raise click.UsageError("give a branch or a snapshot, not both")
    if chosen is not None and as_json:
        raise click.UsageError("give --format or --json, not both")
    if chosen in BINARY_FORMATS and out is None and sys.stdout is not None and sys.stdout.isatty():
        raise click.UsageError(f"--format {chosen} is not for a terminal; give --out PATH")
    source = read_query(query_path, text)
    parameters = read_parameters(params, params_file)
    view = scope.open(read_only=True).at(branch=branch or "main", snapshot=snapshot)
    conf = _options(spark_conf)
    result = view.query(source, name, parameters, engine=engine, spark_conf=conf)
    _write(result, "json" if as_json else chosen or scope.config.output, out, scope.config)


def _options(texts: tuple[str, ...]) -> dict[str, str]:
    if not texts:
        return {}
    from omnigraph.pipeline.session import parse_options

    return parse_options(texts)


def _write(result: QueryResult, chosen: str, out: str | None, config: OperatorConfig) -> None:
    if chosen == "arrow":
        with open_output(out) as file:
            result.write_arrow(file)
        return
    if chosen == "parquet":
        with open_output(out) as file:
            result.write_parquet(file)
        return
    lines = _lines(result, chosen, config)
    first = next(lines)  # what goes wrong while reading goes wrong before anything is written
    with open_output(out) as file:
        for line in (first, *lines):
            file.write(line.encode("utf-8", "backslashreplace") + b"\n")


def _lines(result: QueryResult, chosen: str, config: OperatorConfig) -> Iterator[str]:
    document = result.wire()
    if chosen == "json":
        yield json_text(document)
        return
    columns, rows = document["columns"], document["rows"]
    assert isinstance(columns, list) and isinstance(rows, list)  # noqa: PT018
    answer = Answer(document, columns, rows)
    yield from {
        "jsonl": lambda: as_jsonl(answer),
        "csv": lambda: as_csv(answer),
        "kv": lambda: as_kv(answer),
        "table": lambda: as_table(answer, config.table_max_column_width, config.table_cell_layout),
    }[chosen]()
