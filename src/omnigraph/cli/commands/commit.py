"""`omnigraph commit …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.examples import examples
from omnigraph.cli.output import print_json
from omnigraph.cli.scope import Scope, graph_options

if TYPE_CHECKING:
    from omnigraph.graph.results import Commit


@click.group()
def commit() -> None:
    """Look at the history."""


@commit.command("list", epilog=examples("commit list"))
@graph_options(positional=True, writes=False)
@click.option("--branch", default="main", show_default=True, help="The branch to look at.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_(scope: Scope, branch: str, limit: int | None, as_json: bool) -> None:
    """List the commits a branch can see, newest first."""
    commits = scope.open(read_only=True).commits(branch)[:limit]
    if as_json:
        print_json({"commits": [one.wire() for one in commits]})
        return
    for one in commits:
        click.echo(_line(one))


@commit.command("show", epilog=examples("commit show"))
@click.argument("commit_id")
@graph_options(positional=True, writes=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(scope: Scope, commit_id: str, as_json: bool) -> None:
    """Show one commit, wherever it was made."""
    found = scope.open(read_only=True).commit(commit_id)
    if as_json:
        print_json(found.wire())
        return
    for name, value in found.wire().items():
        click.echo(f"{name}: {'' if value is None else value}")


def _line(one: Commit) -> str:
    return f"{one.commit_id}  {one.branch}  v{one.manifest_version}  {one.actor_id or '-'}"
