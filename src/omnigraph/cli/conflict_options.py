"""What the commands that may meet conflicts have in common: how to decide, and what to print."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from omnigraph.graph.merging import MergeResult
    from omnigraph.graph.undoing import ApplyResult

Command = TypeVar("Command", bound=Callable[..., object])

SHOWN_CONFLICTS = 20


def add_deciding_options(command: Command) -> Command:
    """The options by which conflicts are looked at and decided."""
    for option in (
        click.option(
            "--decisions",
            type=click.Path(exists=True, dir_okay=False),
            help="Decisions about single conflicts: what --dry-run --json printed, with 'take' "
            "filled in.",
        ),
        click.option(
            "--resolve",
            multiple=True,
            metavar="RULE",
            help="Decide conflicts: ours, theirs, newest, Type=RULE or Type.property=RULE; "
            "repeatable.",
        ),
        click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing."),
    ):
        command = option(command)
    return command


def print_counts(result: MergeResult | ApplyResult) -> None:
    """One line for each type, each rule that decided and each conflict."""
    for table in result.tables:
        click.echo(
            f"  {table.table_key}: {table.inserted} inserted, {table.updated} updated, "
            f"{table.deleted} deleted, {table.conflicts} conflicts"
        )
    for rule, count in result.resolved.items():
        click.echo(f"  resolved by {rule}: {count}")
    for conflict in result.conflicts[:SHOWN_CONFLICTS]:
        click.echo(f"  conflict ({conflict.kind}): {conflict.message}")
    if len(result.conflicts) > SHOWN_CONFLICTS:
        click.echo(f"  and {len(result.conflicts) - SHOWN_CONFLICTS} more conflicts")
