"""`omnigraph query`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from omnigraph.cli.config import OUTPUT_FORMATS
from omnigraph.cli.files import read_parameters, read_query
from omnigraph.cli.output import print_json
from omnigraph.cli.rows import Answer, as_csv, as_jsonl, as_kv, as_table
from omnigraph.cli.scope import Scope, graph_options


@click.command()
@click.argument("name", required=False)
@graph_options(positional=False, writes=False)
@click.option("--query", "query_path", metavar="FILE", help="The queries (.gq); - for stdin.")
@click.option("-e", "--query-string", "text", metavar="GQ", help="The query itself.")
@click.option("--params", metavar="JSON", help="Parameters as a JSON object.")
@click.option("--params-file", metavar="FILE", help="Parameters in a file; - for stdin.")
@click.option("--branch", metavar="NAME", help="The branch to read; main by default.")
@click.option("--snapshot", metavar="ID", help="A commit or snapshot id instead of a branch.")
@click.option("--format", "chosen", type=click.Choice(OUTPUT_FORMATS), help="How to print rows.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def query(
    scope: Scope,
    name: str | None,
    query_path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    branch: str | None,
    snapshot: str | None,
    chosen: str | None,
    as_json: bool,
) -> None:
    """Run read query NAME; a text with one query needs no name."""
    if branch is not None and snapshot is not None:
        raise click.UsageError("give a branch or a snapshot, not both")
    if chosen is not None and as_json:
        raise click.UsageError("give --format or --json, not both")
    source = read_query(query_path, text)
    parameters = read_parameters(params, params_file)
    view = scope.open(read_only=True).at(branch=branch or "main", snapshot=snapshot)
    document = view.query(source, name, parameters).wire()
    _print(document, scope, "json" if as_json else chosen or scope.config.output)


def _print(document: Mapping[str, object], scope: Scope, chosen: str) -> None:
    if chosen == "json":
        print_json(document)
        return
    columns, rows = document["columns"], document["rows"]
    assert isinstance(columns, list) and isinstance(rows, list)  # noqa: PT018
    answer = Answer(document, columns, rows)
    config = scope.config
    lines = {
        "jsonl": lambda: as_jsonl(answer),
        "csv": lambda: as_csv(answer),
        "kv": lambda: as_kv(answer),
        "table": lambda: as_table(answer, config.table_max_column_width, config.table_cell_layout),
    }[chosen]()
    for line in lines:
        click.echo(line)
