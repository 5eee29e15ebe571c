"""`omnigraph diff`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from omnigraph.cli.change_rendering import filter_options, render_change, use_colour
from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json

if TYPE_CHECKING:
    from omnigraph.history.diff import Diff


@click.command(epilog=render_examples("diff"))
@click.argument("before", metavar="FROM")
@click.argument("after", metavar="TO")
@add_graph_options(positional=True, writes=False, served=True)
@click.option(
    "--branch",
    default="main",
    show_default=True,
    help="The branch that versions and times refer to.",
)
@filter_options
@click.option("--stat", is_flag=True, help="Print only counts by type.")
@click.option("--images", is_flag=True, help="With --jsonl, whole entities before and after.")
@click.option("--jsonl", is_flag=True, help="One JSON document for each change.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def diff(
    scope: CommandTarget,
    before: str,
    after: str,
    branch: str,
    kinds: tuple[str, ...],
    types: tuple[str, ...],
    ops: tuple[str, ...],
    stat: bool,
    images: bool,
    jsonl: bool,
    as_json: bool,
) -> None:
    """Show the differences between FROM and TO.

    Each is a branch, a tag, a commit id or a prefix of one, a version, a time or a snapshot.
    """
    if jsonl and (as_json or stat):
        raise click.UsageError("--jsonl cannot be combined with --json or --stat")
    is_for_people = not (jsonl or as_json)
    found = scope.reach(read_only=True).diff(
        before,
        after,
        images=images or is_for_people,
        kinds=kinds,
        types=types,
        ops=ops,
        branch=branch,
    )
    if as_json:
        counted = found.wire_stats()
        print_json(counted if stat else {**counted, "changes": [one.wire() for one in found]})
    elif stat:
        _print_stats(found)
    elif jsonl:
        for change in found:
            click.echo(json.dumps(change.wire(), ensure_ascii=False, separators=(",", ":")))
    else:
        _print_changes(found)


def _print_changes(found: Diff) -> None:
    colour = use_colour()
    is_first = True
    for change in found:
        if not is_first:
            click.echo()
        is_first = False
        for line in render_change(change, colour=colour):
            click.echo(line, color=colour)
    if is_first:
        click.echo("(no changes)")


def _print_stats(found: Diff) -> None:
    stats = list(found.stats.values())
    if not stats:
        click.echo("(no changes)")
    for one in stats:
        click.echo(
            f"{one.kind}:{one.type_name}  +{one.inserted} inserted, {one.updated} updated, "
            f"-{one.deleted} deleted"
        )
