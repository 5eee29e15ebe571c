"""`omnigraph revert`, `omnigraph cherry-pick` and `omnigraph restore`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.conflict_options import add_deciding_options, print_counts
from omnigraph.cli.examples import render_examples
from omnigraph.cli.message_option import message_option
from omnigraph.cli.output import print_json

if TYPE_CHECKING:
    from omnigraph.graph.undoing import ApplyResult

_PARENT = click.option(
    "--parent",
    type=click.IntRange(1, 2),
    metavar="N",
    help="Of a merge, the parent to compare with: 1 what it was merged into, 2 what was merged.",
)
_BRANCH = click.option("--branch", default="main", show_default=True, help="The branch to change.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")


_DONE = {"revert": "reverted", "cherry-pick": "cherry-picked", "restore": "restored"}


def _add_commit_options(command: Callable[..., None]) -> Callable[..., None]:
    """The argument and the options of what applies or undoes one commit."""
    graph = add_graph_options(positional=True, writes=True, served=True)
    commit = click.argument("commit_id", metavar="COMMIT")
    for add in (_JSON, message_option, add_deciding_options, _PARENT, _BRANCH, graph, commit):
        command = add(command)
    return command


@click.command(epilog=render_examples("revert"))
@_add_commit_options
def revert(**options: Any) -> None:  # noqa: ANN401 - click passes them by name
    """Undo what COMMIT did, as a new commit; what came after it stays.

    Rule 'theirs' takes what was there before COMMIT, 'ours' what the branch has now.
    """
    _run("revert", **options)


@click.command("cherry-pick", epilog=render_examples("cherry-pick"))
@_add_commit_options
def cherry_pick(**options: Any) -> None:  # noqa: ANN401 - click passes them by name
    """Do what COMMIT of any branch did on a branch as well, as a new commit."""
    _run("cherry-pick", **options)


@click.command(epilog=render_examples("restore"))
@click.argument("commit_id", metavar="PLACE")
@add_graph_options(positional=True, writes=True, served=True)
@_BRANCH
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@message_option
@_JSON
def restore(**options: Any) -> None:  # noqa: ANN401 - click passes them by name
    """Set a branch to what it was at PLACE, as a new commit; no commit is lost.

    PLACE is a commit or the beginning of its id, a tag, a version, a time, a snapshot or a branch.
    """
    _run("restore", **options)


def _run(
    verb: str,
    scope: CommandTarget,
    commit_id: str,
    *,
    dry_run: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> None:
    graph = scope.reach(read_only=dry_run)
    scope.echo(verb)
    apply: dict[str, Callable[..., ApplyResult]] = {
        "revert": graph.revert,
        "cherry-pick": graph.cherry_pick,
        "restore": graph.restore,
    }
    given = {name: value for name, value in options.items() if value is not None}
    result = apply[verb](commit_id, dry_run=dry_run, **given)
    if as_json:
        print_json({"uri": graph.uri, **result.wire()})
        return
    what = f"{result.applied_commit_id} on {result.branch}"
    click.echo(f"would {verb} {what}" if result.dry_run else f"{_DONE[verb]} {what}", nl=False)
    click.echo(": unchanged" if result.outcome == "unchanged" else "")
    print_counts(result)
    if result.commit is not None:
        click.echo(f"commit {result.commit.commit_id}")
