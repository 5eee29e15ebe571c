"""`omnigraph repair`."""

from __future__ import annotations

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options, ask_consent, yes_option
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import note, print_json


@click.command(epilog=render_examples("repair"))
@add_graph_options(positional=True, writes=True)
@click.option("--confirm", is_flag=True, help="Accept changes that provably changed no row.")
@click.option("--force", is_flag=True, help="With --confirm, accept every other change as well.")
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def repair(scope: CommandTarget, confirm: bool, force: bool, yes: bool, as_json: bool) -> int:
    """Show tables that something else moved ahead of the graph, and accept them."""
    if force and confirm:
        ask_consent(scope, "repair --force", yes=yes, as_json=as_json)
    graph = scope.open(read_only=False)
    scope.echo("repair")
    result = graph.repair(confirm=confirm, force=force)
    if as_json:
        print_json({"uri": graph.uri, **result.wire()})
        return 1 if result.is_refused else 0
    for table in result.tables:
        click.echo(
            f"{table.table_key}  {table.classification}  {table.action}  "
            f"{table.manifest_version} → {table.lance_head_version}"
        )
        if table.operations:
            click.echo(f"  {', '.join(table.operations)}")
        if table.error:
            click.echo(f"  {table.error}")
    if any(table.action == "preview" for table in result.tables):
        note("nothing was changed; run again with --confirm")
    if result.is_refused:
        note("what may have changed rows was refused; --force --confirm accepts it")
        return 1
    return 0
