"""`omnigraph changes …`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click

from omnigraph.cli.change_rendering import filter_options, render_cause, render_change, use_colour
from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import write_durably
from omnigraph.cli.output import print_json

if TYPE_CHECKING:
    from omnigraph.history.feed import FeedPage


@click.group()
def changes() -> None:
    """Read the change feed of a branch."""


@changes.command("poll", epilog=render_examples("changes poll"))
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch to follow.")
@click.option("--cursor", metavar="C", help="Continue after this cursor of an earlier poll.")
@click.option("--start", metavar="WHERE", help="now, beginning or after:COMMIT; now by default.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="The maximum number of commits."
)
@filter_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def poll(
    scope: CommandTarget,
    branch: str,
    cursor: str | None,
    start: str | None,
    limit: int | None,
    kinds: tuple[str, ...],
    types: tuple[str, ...],
    ops: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print the commits that follow a point of a branch, oldest first, with their changes.

    The cursor is printed last; the next poll continues from it.
    """
    if cursor is not None and start is not None:
        raise click.UsageError("give --cursor or --start, not both")
    if start is not None and start not in ("now", "beginning") and not start.startswith("after:"):
        raise click.UsageError("--start must be now, beginning or after:COMMIT")
    graph = scope.reach(read_only=True)
    read = partial(graph.changes, kinds=kinds, types=types, ops=ops, branch=branch)
    pages = _read_pages(read, cursor or start or "now", limit)
    if as_json:
        _print_document(pages)
    else:
        _print_blocks(pages)


def _read_pages(
    read: Callable[..., FeedPage], position: str, limit: int | None
) -> Iterator[FeedPage]:
    """Pages until the branch is caught up with, or the limit is reached at the end of a commit.

    Commits that cannot be had end it as well, once there was a page: whoever goes on with its
    cursor is told why.
    """
    from omnigraph.errors import ChangeFeedGap, ChangeSchemaBoundary

    left = limit
    page: FeedPage | None = None
    while True:
        most = 128 if left is None else min(128, left)
        try:
            page = read(position, max_commits=most)
        except (ChangeFeedGap, ChangeSchemaBoundary):
            if page is None or page.next_page_token is not None:
                raise
            return
        yield page
        is_split = page.next_page_token is not None
        if left is not None:
            left -= len(page.blocks) - is_split
        if not is_split and (page.caught_up or left == 0 or not page.blocks):
            return
        position = page.position


def _print_document(pages: Iterator[FeedPage]) -> None:
    """One document, written while it is read; a commit that is on two pages is one block."""
    first = next(pages)  # what cannot be read at all is found out before anything is printed
    click.echo('{"blocks": [', nl=False)
    goes_on = is_begun = False
    for page in chain([first], pages):
        for at, block in enumerate(page.blocks):
            body = block.wire()
            found = [json.dumps(one, ensure_ascii=False) for one in _as_list(body["changes"])]
            if goes_on and at == 0:
                click.echo("".join(f",\n{one}" for one in found), nl=False)
                continue
            if is_begun:
                click.echo("]},", nl=False)
            head = json.dumps(body["cause"], ensure_ascii=False)
            click.echo(f'\n{{"cause": {head}, "changes": [{", ".join(found)}', nl=False)
            is_begun = True
        goes_on = page.next_page_token is not None and bool(page.blocks)
    if is_begun:
        click.echo("]}", nl=False)
    ends = {"cursor": page.cursor, "caught_up": page.caught_up}
    click.echo(f"], {json.dumps(ends)[1:]}")


def _as_list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def _print_blocks(pages: Iterator[FeedPage]) -> None:
    colour = use_colour()
    shown: str | None = None
    for page in pages:
        for block in page.blocks:
            if block.commit.commit_id != shown:
                if shown is not None:
                    click.echo()
                click.echo(render_cause(block.commit))
            shown = block.commit.commit_id
            for change in block.changes:
                for line in render_change(change, colour=colour):
                    click.echo(f"  {line}", color=colour)
    if shown is None:
        click.echo("(no new commits)")
    click.echo(f"cursor: {page.cursor}")


@changes.command("baseline", epilog=render_examples("changes baseline"))
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch to copy.")
@filter_options
@click.option("--out", type=FILE, required=True, metavar="PATH", help="The file to write.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def baseline(
    scope: CommandTarget,
    branch: str,
    kinds: tuple[str, ...],
    types: tuple[str, ...],
    ops: tuple[str, ...],
    out: str,
    as_json: bool,
) -> None:
    """Write every record of a branch to a file, and print the cursor to follow it from.

    The cursor is printed after the file has been written. --op applies only to the cursor.
    """
    graph = scope.reach(read_only=True)
    copy = graph.baseline(kinds=kinds, types=types, ops=ops, branch=branch)
    write_durably(out, copy.jsonl())
    if as_json:
        print_json(copy.wire())
        return
    click.echo(f"wrote {out}")
    click.echo(f"commit: {copy.snapshot_commit_id}")
    click.echo(f"cursor: {copy.resume_cursor}")
