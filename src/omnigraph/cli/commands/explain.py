"""`omnigraph explain`."""

from __future__ import annotations

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.output import print_json


@click.command()
@click.argument("name", required=False)
@click.option("--schema", "schema_path", required=True, metavar="FILE", help="The schema (.pg).")
@click.option("--query", "query_path", required=True, metavar="FILE", help="The queries (.gq).")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def explain(name: str | None, schema_path: str, query_path: str, as_json: bool) -> None:
    """Show the plan of query NAME; a file with one query needs no name.

    FILE may be - for standard input.
    """
    from omnigraph.plan.compile import compile_catalog, compile_plan
    from omnigraph.plan.explain import explain_json, explain_text

    catalog = compile_catalog(read_source(schema_path))
    plan = compile_plan(read_source(query_path), catalog, name)
    if as_json:
        print_json(explain_json(plan))
    else:
        click.echo(explain_text(plan))
