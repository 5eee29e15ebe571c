"""`omnigraph changes …`, `omnigraph consumer …`, `omnigraph diff` and `omnigraph entity …`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.history_rendering import (
    filter_options,
    format_time,
    render_cause,
    render_change,
    render_image,
    use_colour,
)
from omnigraph.cli.input_files import write_durably
from omnigraph.cli.shared_options import (
    CommandTarget,
    add_graph_options,
    require_confirmation,
    yes_option,
)
from omnigraph.cli.shell_completion import FILE
from omnigraph.cli.terminal import json_option, note, print_json, print_result

if TYPE_CHECKING:
    from omnigraph.history.diff import Diff
    from omnigraph.wire.change_results import EntityHistory, FeedPage


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
@json_option
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
    """Yield pages up to the head of the branch, or to the limit at the end of a commit.

    After the first page, unreadable commits end it as well; the next poll reports them.
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
    """Print one document while it is read; a commit on two pages is one block."""
    first = next(pages)  # a failure to read must precede any output
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
@json_option
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
    ends = f"commit: {copy.snapshot_commit_id}", f"cursor: {copy.resume_cursor}"
    print_result(copy, (f"wrote {out}", *ends), as_json=as_json)


@click.group()
def consumer() -> None:
    """Manage the consumers of the change feed."""


@consumer.command("set", epilog=render_examples("consumer set"))
@click.argument("consumer_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch it follows.")
@click.option("--cursor", metavar="C", help="The cursor it has read up to; the head by default.")
@click.option("--commit", metavar="ID", help="The position as a commit id.")
@click.option(
    "--expires",
    default="7d",
    show_default=True,
    help="How long the changes it has not read are kept.",
)
@json_option
def set_consumer(
    scope: CommandTarget,
    consumer_name: str,
    branch: str,
    cursor: str | None,
    commit: str | None,
    expires: str,
    as_json: bool,
) -> None:
    """Record how far NAME has read a branch; cleanup keeps what follows until it expires."""
    import datetime

    from omnigraph.types.temporal import parse_duration

    if cursor is not None and commit is not None:
        raise click.UsageError("give --cursor or --commit, not both")
    lasts = datetime.timedelta(seconds=parse_duration(expires))
    graph = scope.reach(read_only=False)
    scope.echo("consumer set")
    noted = graph.set_consumer(consumer_name, cursor or commit, lasts=lasts, branch=branch)
    said = f"{noted.name} has read {noted.branch} up to {noted.commit_id}"
    print_result(noted, said, as_json=as_json, uri=graph.uri)


@consumer.command("list", epilog=render_examples("consumer list"))
@add_graph_options(positional=True, writes=False, served=True)
@json_option
def list_consumers(scope: CommandTarget, as_json: bool) -> None:
    """List the consumers, and how far each has read."""
    from omnigraph.wire.commit_results import ConsumerList

    found = scope.reach(read_only=True).consumers()
    lines = (
        f"{one.name}  {one.branch}  {one.commit_id}  expires {format_time(one.expires_at)}"
        for one in found
    )
    print_result(ConsumerList(consumers=tuple(found)), lines, as_json=as_json)


@consumer.command("delete", epilog=render_examples("consumer delete"))
@click.argument("consumer_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@yes_option
@json_option
def delete_consumer(scope: CommandTarget, consumer_name: str, yes: bool, as_json: bool) -> None:
    """Delete consumer NAME; cleanup may then remove what only it protected."""
    require_confirmation(scope, f"consumer delete {consumer_name}", yes=yes, as_json=as_json)
    graph = scope.reach(read_only=False)
    scope.echo("consumer delete")
    gone = graph.delete_consumer(consumer_name)
    print_result(gone, f"deleted consumer {gone.name}", as_json=as_json, uri=graph.uri)


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
@json_option
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
        counted = found.count().wire()
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


@click.group()
def entity() -> None:
    """Show the history of single entities."""


@entity.command("history", epilog=render_examples("entity history"))
@click.argument("type_name", metavar="TYPE")
@click.argument("entity_id", metavar="ID")
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch to read.")
@click.option(
    "--kind",
    type=click.Choice(["node", "edge"]),
    help="Which one, if a node type and an edge type share the name.",
)
@json_option
def history(
    scope: CommandTarget,
    type_name: str,
    entity_id: str,
    branch: str,
    kind: str | None,
    as_json: bool,
) -> None:
    """Show every value an entity had, newest first, with commit, actor and time."""
    found = scope.reach(read_only=True).entity_history(
        type_name, entity_id, kind=kind, branch=branch
    )
    print_result(found, _describe_history(found, branch), as_json=as_json)
    if not found.is_complete and not as_json:
        note("earlier commits were removed by cleanup")


def _describe_history(found: EntityHistory, branch: str) -> Iterator[str]:
    for at, version in enumerate(found.versions):
        if at:
            yield ""
        yield f"{version.op}  {render_cause(version.commit)}"
        yield from render_image(version.image)
    if not found.versions:
        yield f"{found.kind} {found.type_name} {found.id} has never existed on branch {branch}"
