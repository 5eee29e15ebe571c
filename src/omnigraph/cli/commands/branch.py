"""`omnigraph branch …`."""

from __future__ import annotations

import click

from omnigraph.cli.examples import examples
from omnigraph.cli.output import print_json
from omnigraph.cli.scope import Scope, consent, graph_options


@click.group()
def branch() -> None:
    """Create, list, rename and delete branches."""


@branch.command("create", epilog=examples("branch create"))
@click.argument("branch_name", metavar="NAME")
@graph_options(positional=True, writes=True)
@click.option("--from", "source", default="main", show_default=True, help="The branch to start at.")
@click.option("--commit", metavar="ID", help="Start at this commit instead of the head.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def create(scope: Scope, branch_name: str, source: str, commit: str | None, as_json: bool) -> None:
    """Create branch NAME; nothing is copied."""
    graph = scope.open(read_only=False)
    scope.echo("branch create")
    ref = graph.create_branch(branch_name, source=source, commit=commit)
    if as_json:
        print_json({"uri": graph.uri, **ref.wire()})
    else:
        click.echo(f"created branch {ref.name} from {ref.parent}")


@branch.command("list", epilog=examples("branch list"))
@graph_options(positional=True, writes=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_(scope: Scope, as_json: bool) -> None:
    """List the branches, main first."""
    names = scope.open(read_only=True).branches()
    if as_json:
        print_json({"branches": names})
        return
    for name in names:
        click.echo(name)


@branch.command("rename", epilog=examples("branch rename"))
@click.argument("branch_name", metavar="NAME")
@click.argument("new_name", metavar="NEW")
@graph_options(positional=True, writes=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def rename(scope: Scope, branch_name: str, new_name: str, as_json: bool) -> None:
    """Rename branch NAME to NEW; it stays the same branch."""
    graph = scope.open(read_only=False)
    scope.echo("branch rename")
    ref = graph.rename_branch(branch_name, new_name)
    if as_json:
        renamed = {"name": ref.name, "renamed_from": branch_name.strip(), "actor_id": graph.actor}
        print_json({"uri": graph.uri, **renamed})
    else:
        click.echo(f"renamed branch {branch_name.strip()} to {ref.name}")


@branch.command("delete", epilog=examples("branch delete"))
@click.argument("branch_name", metavar="NAME")
@graph_options(positional=True, writes=True)
@click.option("--yes", is_flag=True, help="Delete in a graph elsewhere without being asked.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def delete(scope: Scope, branch_name: str, yes: bool, as_json: bool) -> None:
    """Delete branch NAME; what only it could reach is gone."""
    consent(scope, f"branch delete {branch_name}", yes=yes, as_json=as_json)
    graph = scope.open(read_only=False)
    scope.echo("branch delete")
    gone = graph.delete_branch(branch_name)
    if as_json:
        print_json({"uri": graph.uri, **gone.wire()})
    else:
        click.echo(f"deleted branch {gone.name}")
