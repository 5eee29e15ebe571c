"""`omnigraph tag …`."""

from __future__ import annotations

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options, ask_consent, yes_option
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json


@click.group()
def tag() -> None:
    """Name commits and protect them from cleanup."""


@tag.command("create", epilog=render_examples("tag create"))
@click.argument("tag_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch to tag the head of.")
@click.option("--at", metavar="PLACE", help="Tag this commit, version or time instead.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def create(scope: CommandTarget, tag_name: str, branch: str, at: str | None, as_json: bool) -> None:
    """Create tag NAME; cleanup keeps the commit it names."""
    graph = scope.reach(read_only=False)
    scope.echo("tag create")
    made = graph.tag(tag_name, at, branch=branch)
    if as_json:
        print_json({"uri": graph.uri, **made.wire()})
    else:
        click.echo(f"tagged commit {made.commit_id} as {made.name}")


@tag.command("list", epilog=render_examples("tag list"))
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_(scope: CommandTarget, as_json: bool) -> None:
    """List the tags by name."""
    tags = scope.reach(read_only=True).tags()
    if as_json:
        print_json({"tags": [one.wire() for one in tags]})
        return
    for one in tags:
        click.echo(f"{one.name}  {one.commit_id}  {one.branch}  {one.actor_id or '-'}")


@tag.command("delete", epilog=render_examples("tag delete"))
@click.argument("tag_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def delete(scope: CommandTarget, tag_name: str, yes: bool, as_json: bool) -> None:
    """Delete tag NAME; cleanup may then remove what only it protected."""
    ask_consent(scope, f"tag delete {tag_name}", yes=yes, as_json=as_json)
    graph = scope.reach(read_only=False)
    scope.echo("tag delete")
    gone = graph.delete_tag(tag_name)
    if as_json:
        print_json({"uri": graph.uri, **gone.wire()})
    else:
        click.echo(f"deleted tag {gone.name}")
