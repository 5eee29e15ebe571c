"""`omnigraph entity …`."""

from __future__ import annotations

import click

from omnigraph.cli.change_rendering import render_cause, render_image
from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import note, print_json


@click.group()
def entity() -> None:
    """Show the history of single entities."""


@entity.command("history", epilog=render_examples("entity history"))
@click.argument("type_name", metavar="TYPE")
@click.argument("entity_id", metavar="ID")
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch to read.")
@click.option(
    "--kind",
    type=click.Choice(["node", "edge"]),
    help="Which one, if a node type and an edge type share the name.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def history(
    scope: CommandTarget,
    type_name: str,
    entity_id: str,
    branch: str,
    kind: str | None,
    as_json: bool,
) -> None:
    """Show every value an entity had, newest first, with commit, actor and time."""
    found = scope.reach(read_only=True).entity_history(
        type_name, entity_id, kind=kind, branch=branch
    )
    if as_json:
        print_json(found.wire())
        return
    for at, version in enumerate(found.versions):
        if at:
            click.echo()
        click.echo(f"{version.op}  {render_cause(version.commit)}")
        for line in render_image(version.image):
            click.echo(line)
    if not found.versions:
        click.echo(
            f"{found.kind} {found.type_name} {entity_id} has never existed on branch {branch}"
        )
    if not found.is_complete:
        note("earlier commits were removed by cleanup")
