"""Where a command reads: a branch, or the graph as it was at some point."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.command_target import CommandTarget

if TYPE_CHECKING:
    from omnigraph.client.served_view import ServedView
    from omnigraph.graph.graph import GraphView

Command = TypeVar("Command", bound=Callable[..., object])


def place_options(command: Command) -> Command:
    """`--branch`, `--at` and `--snapshot`; the command gets all three as they are written."""
    decorated: Callable[..., object] = command
    for option in (
        click.option("--snapshot", metavar="ID", help="A commit or snapshot id instead of --at."),
        click.option(
            "--at", metavar="PLACE", help="A tag, commit, version, time or branch to read at."
        ),
        click.option("--branch", metavar="NAME", help="The branch to read; main by default."),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[return-value]


def check_place(branch: str | None, at: str | None, snapshot: str | None) -> None:
    """Refuse two answers to one question."""
    if snapshot is not None and (branch is not None or at is not None):
        raise click.UsageError("give a branch or a snapshot, not both; --at goes with --branch")


def open_view(
    scope: CommandTarget, branch: str | None, at: str | None, snapshot: str | None
) -> GraphView | ServedView:
    check_place(branch, at, snapshot)
    return scope.reach(read_only=True).at(at, branch=branch or "main", snapshot=snapshot)
