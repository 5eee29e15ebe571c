"""`omnigraph commit …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.change_rendering import filter_options, render_cause, render_change, use_colour
from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import note, print_json

if TYPE_CHECKING:
    from omnigraph.graph.results import Commit
    from omnigraph.history.images import EntityChange


@click.group()
def commit() -> None:
    """Look at the history."""


@commit.command("list", epilog=render_examples("commit list"))
@add_graph_options(positional=True, writes=False)
@click.option("--branch", default="main", show_default=True, help="The branch to look at.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_(scope: CommandTarget, branch: str, limit: int | None, as_json: bool) -> None:
    """List the commits a branch can see, newest first."""
    commits = scope.open(read_only=True).commits(branch)[:limit]
    if as_json:
        print_json({"commits": [one.wire() for one in commits]})
        return
    for one in commits:
        click.echo(_render_line(one))


@commit.command("show", epilog=render_examples("commit show"))
@click.argument("commit_id")
@add_graph_options(positional=True, writes=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(scope: CommandTarget, commit_id: str, as_json: bool) -> None:
    """Show one commit, wherever it was made."""
    found = scope.open(read_only=True).commit(commit_id)
    if as_json:
        print_json(found.wire())
        return
    for name, value in found.wire().items():
        click.echo(f"{name}: {'' if value is None else value}")


@commit.command("changes", epilog=render_examples("commit changes"))
@click.argument("commit_id")
@add_graph_options(positional=True, writes=False)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="At most so many changes a page."
)
@click.option("--page-token", metavar="T", help="Print the page that follows, and no other.")
@filter_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def changes(
    scope: CommandTarget,
    commit_id: str,
    limit: int | None,
    page_token: str | None,
    kinds: tuple[str, ...],
    types: tuple[str, ...],
    ops: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what a commit changed against its first parent, page after page."""
    graph = scope.open(read_only=True)
    is_one_page = limit is not None or page_token is not None
    found: list[EntityChange] = []
    while True:
        page = graph.commit_changes(
            commit_id,
            page_token=page_token,
            kinds=kinds,
            types=types,
            ops=ops,
            max_changes=limit or 1_000,
        )
        page_token = page.next_page_token
        found += page.changes
        if is_one_page or page_token is None:
            break
    if as_json:
        print_json({**page.wire(), "changes": [one.wire() for one in found]})
        return
    click.echo(render_cause(page.commit))
    colour = use_colour()
    for change in found:
        for line in render_change(change, colour=colour):
            click.echo(f"  {line}", color=colour)
    if page_token is not None:
        note(f"there is more: --page-token {page_token}")


def _render_line(one: Commit) -> str:
    return f"{one.commit_id}  {one.branch}  v{one.manifest_version}  {one.actor_id or '-'}"
