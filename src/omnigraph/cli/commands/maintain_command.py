"""`omnigraph maintain`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json

if TYPE_CHECKING:
    from omnigraph.maintenance.autopilot import MaintainResult


@click.command(epilog=render_examples("maintain"))
@add_graph_options(positional=True, writes=True)
@click.option("--watch", is_flag=True, help="Run until interrupted.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Time between two checks; OMNIGRAPH_AUTOPILOT_INTERVAL by default.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document for each check.")
def maintain(scope: CommandTarget, watch: bool, interval: float | None, as_json: bool) -> int:
    """Optimize and clean up when the policy in the OMNIGRAPH_AUTOPILOT settings says so."""
    graph = scope.open(read_only=False)
    scope.echo("maintain")
    pause = graph.settings.autopilot.interval_s if interval is None else interval
    while True:
        result = graph.maintain()
        _show(result, as_json=as_json)
        if not watch:
            return 1 if result.error else 0
        time.sleep(pause)


def _show(result: MaintainResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result.wire())
        return
    for reason in (*result.due.optimize, *result.due.cleanup):
        click.echo(f"due: {reason}")
    if result.optimized is not None:
        changed = sum(table.committed for table in result.optimized.tables)
        click.echo(f"optimized {changed} tables")
    if result.cleaned is not None:
        freed = sum(table.bytes_removed for table in result.cleaned.tables)
        click.echo(f"removed {freed:,} bytes")
    if result.error:
        click.echo(f"failed, will be retried: {result.error}")
    elif not result.due.is_any:
        click.echo("nothing is due")
