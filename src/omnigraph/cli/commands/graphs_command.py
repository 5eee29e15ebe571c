"""`omnigraph graphs …`."""

from __future__ import annotations

import click

from omnigraph.cli.command_target import TIMEOUT
from omnigraph.cli.completion_words import complete_profile, complete_server
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import note, print_json
from omnigraph.cli.scope_resolution import resolve_server


@click.group()
def graphs() -> None:
    """List the graphs of a server."""


@graphs.command("list", epilog=render_examples("graphs list"))
@click.option("--server", metavar="NAME|URL", shell_complete=complete_server, help="The server.")
@click.option(
    "--profile",
    metavar="NAME",
    shell_complete=complete_profile,
    help="A profile of the operator's config.",
)
@TIMEOUT
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_(server: str | None, profile: str | None, timeout_s: float | None, as_json: bool) -> None:
    """List the graphs that a server has, with their addresses."""
    import msgspec

    from omnigraph.client.served_graph import list_graphs

    found = list_graphs(resolve_server(server, profile), timeout_s)
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    for one in found.graphs:
        click.echo(f"{one.graph_id}\t{one.uri}")
    for lost in found.quarantined:
        note(f"{lost.graph_id} is not served: {lost.reason}")
