"""`omnigraph consumer …`."""

from __future__ import annotations

import click

from omnigraph.cli.change_rendering import format_time
from omnigraph.cli.command_target import CommandTarget, add_graph_options, ask_consent, yes_option
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json


@click.group()
def consumer() -> None:
    """Manage the consumers of the change feed."""


@consumer.command("set", epilog=render_examples("consumer set"))
@click.argument("consumer_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch it follows.")
@click.option("--cursor", metavar="C", help="The cursor it has read up to; the head by default.")
@click.option("--commit", metavar="ID", help="The same, as a commit id.")
@click.option(
    "--expires",
    default="7d",
    show_default=True,
    help="How long the changes it has not read are kept.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def set_(
    scope: CommandTarget,
    consumer_name: str,
    branch: str,
    cursor: str | None,
    commit: str | None,
    expires: str,
    as_json: bool,
) -> None:
    """Record how far NAME has read a branch; cleanup keeps what follows until it expires."""
    import datetime

    from omnigraph.maintenance.retention import parse_duration

    if cursor is not None and commit is not None:
        raise click.UsageError("give --cursor or --commit, not both")
    lasts = datetime.timedelta(seconds=parse_duration(expires))
    graph = scope.reach(read_only=False)
    scope.echo("consumer set")
    noted = graph.set_consumer(consumer_name, cursor or commit, lasts=lasts, branch=branch)
    if as_json:
        print_json({"uri": graph.uri, **noted.wire()})
    else:
        click.echo(f"{noted.name} has read {noted.branch} up to {noted.commit_id}")


@consumer.command("list", epilog=render_examples("consumer list"))
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_(scope: CommandTarget, as_json: bool) -> None:
    """List the consumers, and how far each has read."""
    found = scope.reach(read_only=True).consumers()
    if as_json:
        print_json({"consumers": [one.wire() for one in found]})
        return
    for one in found:
        click.echo(
            f"{one.name}  {one.branch}  {one.commit_id}  expires {format_time(one.expires_at)}"
        )


@consumer.command("delete", epilog=render_examples("consumer delete"))
@click.argument("consumer_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def delete(scope: CommandTarget, consumer_name: str, yes: bool, as_json: bool) -> None:
    """Delete consumer NAME; cleanup may then remove what only it protected."""
    ask_consent(scope, f"consumer delete {consumer_name}", yes=yes, as_json=as_json)
    graph = scope.reach(read_only=False)
    scope.echo("consumer delete")
    gone = graph.delete_consumer(consumer_name)
    if as_json:
        print_json({"uri": graph.uri, **gone.wire()})
    else:
        click.echo(f"deleted consumer {gone.name}")
