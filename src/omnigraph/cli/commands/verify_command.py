"""`omnigraph verify`."""

from __future__ import annotations

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json


@click.command(epilog=render_examples("verify"))
@add_graph_options(positional=True, writes=False)
@click.option("--deep", is_flag=True, help="Read every row and compare every checksum.")
@click.option("--history", is_flag=True, help="Check every commit that can still be read.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def verify(scope: CommandTarget, deep: bool, history: bool, as_json: bool) -> int:
    """Check the integrity of every branch; changes nothing.

    Exits with 1 if something is wrong. Notes are shown and do not affect the exit code.
    """
    graph = scope.open(read_only=True)
    result = graph.verify(deep=deep, history=history)
    if as_json:
        print_json({"uri": graph.uri, **result.wire()})
        return 0 if result.is_sound else 1
    for label, found in (("", result.findings), ("note: ", result.notes)):
        for one in found:
            parts = ("" if label else one.check, one.branch, one.table_key, one.message)
            click.echo(label + "  ".join(part for part in parts if part))
    looked = ", ".join(f"{count:,} {what}" for what, count in sorted(result.checked.items()))
    click.echo(f"{'in order' if result.is_sound else 'not in order'}: {looked}")
    return 0 if result.is_sound else 1
