"""`omnigraph commit …`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click

from omnigraph.cli.change_rendering import filter_options, render_cause, render_change, use_colour
from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import note, print_json

if TYPE_CHECKING:
    from omnigraph.graph.results import Commit
    from omnigraph.history.feed import CommitChanges


@click.group()
def commit() -> None:
    """List commits and show what they changed."""


@commit.command("list", epilog=render_examples("commit list"))
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch to read.")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="The maximum number of commits."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_(scope: CommandTarget, branch: str, limit: int | None, as_json: bool) -> None:
    """List the commits of a branch, newest first."""
    commits = scope.reach(read_only=True).commits(branch)[:limit]
    if as_json:
        print_json({"commits": [one.wire() for one in commits]})
        return
    for one in commits:
        click.echo(_render_line(one))


@commit.command("show", epilog=render_examples("commit show"))
@click.argument("commit_id")
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(scope: CommandTarget, commit_id: str, as_json: bool) -> None:
    """Show one commit, wherever it was made."""
    found = scope.reach(read_only=True).commit(commit_id)
    if as_json:
        print_json(found.wire())
        return
    for name, value in found.wire().items():
        click.echo(f"{name}: {'' if value is None else value}")


@commit.command("changes", epilog=render_examples("commit changes"))
@click.argument("commit_id")
@add_graph_options(positional=True, writes=False, served=True)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="The maximum number of changes on a page.",
)
@click.option("--page-token", metavar="T", help="Print only the page this token leads to.")
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
    """Show what a commit changed relative to its first parent."""
    graph = scope.reach(read_only=True)
    is_one_page = limit is not None or page_token is not None
    read = partial(
        graph.commit_changes,
        commit_id,
        kinds=kinds,
        types=types,
        ops=ops,
        max_changes=limit or 1_000,
    )
    if is_one_page:
        page = read(page_token=page_token)
        if as_json:
            print_json(page.wire())
            return
        _print_changes(iter([page]))
        if page.next_page_token is not None:
            note(f"more: --page-token {page.next_page_token}")
    elif as_json:
        _print_document(_pages(read))
    else:
        _print_changes(_pages(read))


def _pages(read: Callable[..., CommitChanges]) -> Iterator[CommitChanges]:
    page = read()
    yield page
    while page.next_page_token is not None:
        page = read(page_token=page.next_page_token)
        yield page


def _print_document(pages: Iterator[CommitChanges]) -> None:
    """One document, written while it is read."""
    page = next(pages)  # what cannot be read at all is found out before anything is printed
    click.echo(f'{{"cause": {_json(page.wire()["cause"])}, "changes": [', nl=False)
    is_first = True
    for some in chain([page], pages):
        for change in some.changes:
            click.echo(f"{'' if is_first else ','}\n{_json(change.wire())}", nl=False)
            is_first = False
    click.echo("]}")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _print_changes(pages: Iterator[CommitChanges]) -> None:
    page = next(pages)
    click.echo(render_cause(page.commit))
    colour = use_colour()
    for some in chain([page], pages):
        for change in some.changes:
            for line in render_change(change, colour=colour):
                click.echo(f"  {line}", color=colour)


def _render_line(one: Commit) -> str:
    return f"{one.commit_id}  {one.branch}  v{one.manifest_version}  {one.actor_id or '-'}"
