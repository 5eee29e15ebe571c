"""`omnigraph revert`, `omnigraph cherry-pick` and `omnigraph restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.conflict_options import add_deciding_options, print_counts
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.undoing import ApplyResult

_PARENT = click.option(
    "--parent",
    type=click.IntRange(1, 2),
    metavar="N",
    help="Of a merge, tell its changes against this parent: 1 what it was merged into, 2 what was "
    "merged.",
)
_BRANCH = click.option("--branch", default="main", show_default=True, help="The branch to change.")
_MESSAGE = click.option("--message", metavar="TEXT", help="Keep this text with the commit.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")


@click.command(epilog=render_examples("revert"))
@click.argument("commit_id", metavar="COMMIT")
@add_graph_options(positional=True, writes=True)
@_BRANCH
@_PARENT
@add_deciding_options
@_MESSAGE
@_JSON
def revert(
    scope: CommandTarget,
    commit_id: str,
    branch: str,
    parent: int | None,
    dry_run: bool,
    resolve: tuple[str, ...],
    decisions: str | None,
    message: str | None,
    as_json: bool,
) -> None:
    """Undo what COMMIT did, as a new commit; what came after it stays.

    Rule 'theirs' takes what was there before COMMIT, 'ours' what the branch has now.
    """
    graph = scope.open(read_only=dry_run)
    scope.echo("revert")
    result = graph.revert(
        commit_id,
        branch=branch,
        parent=parent,
        dry_run=dry_run,
        resolve=resolve,
        decisions=decisions or (),
        message=message,
    )
    _print(graph, result, "revert", as_json=as_json)


@click.command("cherry-pick", epilog=render_examples("cherry-pick"))
@click.argument("commit_id", metavar="COMMIT")
@add_graph_options(positional=True, writes=True)
@_BRANCH
@_PARENT
@add_deciding_options
@_MESSAGE
@_JSON
def cherry_pick(
    scope: CommandTarget,
    commit_id: str,
    branch: str,
    parent: int | None,
    dry_run: bool,
    resolve: tuple[str, ...],
    decisions: str | None,
    message: str | None,
    as_json: bool,
) -> None:
    """Do what COMMIT of any branch did on a branch as well, as a new commit."""
    graph = scope.open(read_only=dry_run)
    scope.echo("cherry-pick")
    result = graph.cherry_pick(
        commit_id,
        branch=branch,
        parent=parent,
        dry_run=dry_run,
        resolve=resolve,
        decisions=decisions or (),
        message=message,
    )
    _print(graph, result, "cherry-pick", as_json=as_json)


@click.command(epilog=render_examples("restore"))
@click.argument("commit_id", metavar="PLACE")
@add_graph_options(positional=True, writes=True)
@_BRANCH
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@_MESSAGE
@_JSON
def restore(
    scope: CommandTarget,
    commit_id: str,
    branch: str,
    dry_run: bool,
    message: str | None,
    as_json: bool,
) -> None:
    """Set a branch to what it was at PLACE, as a new commit; no commit is lost.

    PLACE is a commit or the beginning of its id, a tag, a version, a time, a snapshot or a branch.
    """
    graph = scope.open(read_only=dry_run)
    scope.echo("restore")
    result = graph.restore(commit_id, branch=branch, dry_run=dry_run, message=message)
    _print(graph, result, "restore", as_json=as_json)


_DONE = {"revert": "reverted", "cherry-pick": "cherry-picked", "restore": "restored"}


def _print(graph: Graph, result: ApplyResult, verb: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"uri": graph.uri, **result.wire()})
        return
    what = f"{result.applied_commit_id} on {result.branch}"
    click.echo(f"would {verb} {what}" if result.dry_run else f"{_DONE[verb]} {what}", nl=False)
    click.echo(": unchanged" if result.outcome == "unchanged" else "")
    print_counts(result)
    if result.commit is not None:
        click.echo(f"commit {result.commit.commit_id}")
