"""`omnigraph lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_source
from omnigraph.cli.output import print_json

if TYPE_CHECKING:
    from omnigraph.plan.query_lint import LintReport


@click.command(epilog=render_examples("lint"))
@add_graph_options(positional=True, writes=False, served=True, offline=("schema_path",))
@click.option(
    "--query", "query_path", type=FILE, required=True, metavar="FILE", help="The queries (.gq)."
)
@click.option(
    "--schema", "schema_path", type=FILE, metavar="FILE", help="A schema (.pg) instead of a graph."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def lint(
    scope: CommandTarget | None, query_path: str, schema_path: str | None, as_json: bool
) -> int:
    """Check every query of a file against the schema of a graph, or a schema file.

    Exits with 1 when a query has mistakes; warnings alone do not fail. FILE may be - for
    standard input.
    """
    if scope is not None:
        report = scope.reach(read_only=True).lint(read_source(query_path))
    else:
        assert schema_path is not None, "without a scope there is a schema"
        report = _lint_offline(query_path, schema_path)
    if as_json:
        print_json(report.wire())
    else:
        for line in report.lines():
            click.echo(line)
    return report.exit_code


def _lint_offline(query_path: str, schema_path: str) -> LintReport:
    from omnigraph.plan.compile import compile_catalog
    from omnigraph.plan.query_lint import lint_queries

    catalog = compile_catalog(read_source(schema_path))
    return lint_queries(read_source(query_path), catalog, {"kind": "file", "path": schema_path})
