"""`omnigraph cleanup`."""

from __future__ import annotations

import datetime

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options, ask_consent, yes_option
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import note, print_json


@click.command(epilog=render_examples("cleanup"))
@add_graph_options(positional=True, writes=True)
@click.option(
    "--keep",
    type=int,
    metavar="N",
    help="The number of commits to keep on every branch; 10 is a good choice.",
)
@click.option(
    "--older-than",
    metavar="DURATION",
    help="Remove only what is older than this, such as 90m, 12h or 7d.",
)
@click.option(
    "--confirm", is_flag=True, help="Remove it; otherwise only report what would be removed."
)
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def cleanup(
    scope: CommandTarget,
    keep: int | None,
    older_than: str | None,
    confirm: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove versions and files that only older commits need.

    At least one of --keep and --older-than is required; both protect what they match.
    The current state of every branch stays; older commits can no longer be read.
    """
    from omnigraph.maintenance.retention import Retention, parse_duration

    if keep is None and older_than is None:
        raise click.UsageError(
            "give --keep N, --older-than DURATION, or both; --keep 10 is a good choice"
        )
    age = None if older_than is None else parse_duration(older_than)
    policy = Retention(keep, age)
    if confirm:
        ask_consent(scope, "cleanup", yes=yes, as_json=as_json)
    graph = scope.open(read_only=False)
    scope.echo("cleanup")
    limit = None if age is None else datetime.timedelta(seconds=age)
    result = graph.cleanup(keep=keep, older_than=limit, confirm=confirm)
    if not confirm:
        note(f"{policy}; nothing was removed, run again with --confirm")
    if as_json:
        print_json({"uri": graph.uri, **result.wire()})
        return
    for table in result.tables:
        click.echo(
            f"{table.table_key}  {table.old_versions_removed:,} versions, "
            f"{table.bytes_removed:,} bytes"
        )
        if table.error:
            click.echo(f"  failed: {table.error}")
    if result.reclaimed:
        click.echo(f"{len(result.reclaimed):,} unreferenced forks, folders and files")
