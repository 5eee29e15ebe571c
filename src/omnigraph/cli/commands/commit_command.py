"""`omnigraph commit …`, `omnigraph revert`, `omnigraph cherry-pick` and `omnigraph restore`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.history_rendering import (
    describe_commit,
    filter_options,
    render_cause,
    render_change,
    render_commits,
    use_colour,
)
from omnigraph.cli.shared_options import (
    CommandTarget,
    add_conflict_options,
    add_graph_options,
    describe_counts,
    message_option,
)
from omnigraph.cli.terminal import json_option, note, print_json, print_result

if TYPE_CHECKING:
    from omnigraph.wire.change_results import CommitChanges
    from omnigraph.wire.commit_results import Commit
    from omnigraph.wire.merge_results import ApplyResult


@click.group()
def commit() -> None:
    """List commits and show what they changed."""


@commit.command("list", epilog=render_examples("commit list"))
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch to read.")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="The maximum number of commits."
)
@click.option(
    "--before", metavar="REVISION", help="Only commits older than this one, or up to a time."
)
@click.option("--after", metavar="REVISION", help="Only commits newer than this one or this time.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="T",
    help="Only commits that changed rows of this type. Repeatable.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="K",
    help="Only commits made by this, such as load or branch_merge. Repeatable.",
)
@click.option("--draw", "draws", is_flag=True, help="Draw the history as a graph.")
@json_option
def list_(
    scope: CommandTarget,
    branch: str,
    limit: int | None,
    before: str | None,
    after: str | None,
    types: tuple[str, ...],
    kinds: tuple[str, ...],
    draws: bool,
    as_json: bool,
) -> None:
    """List the commits of a branch, newest first: time, actor, kind, row counts, message.

    Rows are counted as +inserted ~updated -deleted. A REVISION is a commit id or a prefix of it, a
    tag, a time, HEAD~2 or any other revision.
    """
    from omnigraph.wire.commit_results import CommitList

    asked = None if limit is None else limit + 1
    found = scope.reach(read_only=True).commits(
        branch, limit=asked, before=before, after=after, types=types, kinds=kinds
    )
    commits = found[:limit]
    lines = _draw_commits(commits) if draws else render_commits(commits)
    print_result(CommitList(commits=tuple(commits)), lines, as_json=as_json)
    if len(found) > len(commits) and commits and not as_json:
        note(f"more: --before {commits[-1].commit_id}")


def _draw_commits(commits: Sequence[Commit]) -> Iterator[str]:
    from omnigraph.cli.history_rendering import draw_history

    lines = iter(render_commits(commits))
    for drawing, found in draw_history(commits):
        yield drawing if found is None else f"{drawing}  {next(lines)}"


@commit.command("show", epilog=render_examples("commit show"))
@click.argument("commit_id", metavar="COMMIT")
@add_graph_options(positional=True, writes=False, served=True)
@json_option
def show(scope: CommandTarget, commit_id: str, as_json: bool) -> None:
    """Show one commit of any branch.

    COMMIT is an id or a prefix of it, a tag, a branch, a time, HEAD~2 or any other revision.
    """
    found = scope.reach(read_only=True).commit(commit_id)
    print_result(found, describe_commit(found), as_json=as_json)


@commit.command("changes", epilog=render_examples("commit changes"))
@click.argument("commit_id", metavar="COMMIT")
@add_graph_options(positional=True, writes=False, served=True)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="The maximum number of changes on a page.",
)
@click.option("--page-token", metavar="T", help="Print only the page this token leads to.")
@filter_options
@json_option
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
    """Print one document while it is read."""
    page = next(pages)  # a failure to read must precede any output
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


_PARENT = click.option(
    "--parent",
    type=click.IntRange(1, 2),
    metavar="N",
    help="Of a merge, the parent to compare with: 1 what it was merged into, 2 what was merged.",
)
_BRANCH = click.option("--branch", default="main", show_default=True, help="The branch to change.")


_DONE = {"revert": "reverted", "cherry-pick": "cherry-picked", "restore": "restored"}


def _add_commit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument and the options of commands that apply or undo one commit."""
    graph = add_graph_options(positional=True, writes=True, served=True)
    commit = click.argument("commit_id", metavar="COMMIT")
    for add in (json_option, message_option, add_conflict_options, _PARENT, _BRANCH, graph, commit):
        command = add(command)
    return command


@click.command(epilog=render_examples("revert"))
@_add_commit_options
def revert(**options: Any) -> None:  # noqa: ANN401 - click passes them by name
    """Undo COMMIT with a new commit; later changes are kept.

    Rule 'theirs' takes the state before COMMIT, 'ours' the current state of the branch.
    """
    _run("revert", **options)


@click.command("cherry-pick", epilog=render_examples("cherry-pick"))
@_add_commit_options
def cherry_pick(**options: Any) -> None:  # noqa: ANN401 - click passes them by name
    """Apply the changes of COMMIT, of any branch, as a new commit."""
    _run("cherry-pick", **options)


@click.command(epilog=render_examples("restore"))
@click.argument("commit_id", metavar="REVISION")
@add_graph_options(positional=True, writes=True, served=True)
@_BRANCH
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@message_option
@json_option
def restore(**options: Any) -> None:  # noqa: ANN401 - click passes them by name
    """Set a branch to its state at REVISION, as a new commit; no commit is lost.

    REVISION is a commit id or a prefix of it, a tag, a version, a time, a snapshot or a branch.
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
    print_result(result, _describe(verb, result), as_json=as_json, uri=graph.uri)


def _describe(verb: str, result: ApplyResult) -> Iterator[str]:
    done = f"would {verb}" if result.dry_run else _DONE[verb]
    unchanged = ": unchanged" if result.outcome == "unchanged" else ""
    yield f"{done} {result.applied_commit_id} on {result.branch}{unchanged}"
    yield from describe_counts(result)
    if result.commit is not None:
        yield f"commit {result.commit.commit_id}"
