"""`omnigraph lint`."""

from __future__ import annotations

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.output import print_json


@click.command()
@click.option("--query", "query_path", required=True, metavar="FILE", help="The queries (.gq).")
@click.option("--schema", "schema_path", required=True, metavar="FILE", help="The schema (.pg).")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def lint(query_path: str, schema_path: str, as_json: bool) -> int:
    """Check every query of a file against a schema, without a graph.

    Exits with 1 when a query has mistakes; warnings alone do not fail.
    """
    from omnigraph.plan.compile import compile_catalog
    from omnigraph.plan.lint import lint_queries

    catalog = compile_catalog(read_source(schema_path))
    report = lint_queries(read_source(query_path), catalog, {"kind": "file", "path": schema_path})
    if as_json:
        print_json(report.json())
    else:
        for line in report.lines():
            click.echo(line)
    return report.exit_code
