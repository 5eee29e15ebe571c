"""`omnigraph branch …` and `omnigraph tag …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.shared_options import (
    CommandTarget,
    add_conflict_options,
    add_graph_options,
    message_option,
    parse_spark_options,
    print_counts,
    require_confirmation,
    stage_log,
    yes_option,
)
from omnigraph.cli.terminal import print_json
from omnigraph.settings import MERGE_ENGINES

if TYPE_CHECKING:
    from omnigraph.graph.engines import GranularityName, MergeEngineName
    from omnigraph.wire.merge_results import MergeResult


@click.group()
def branch() -> None:
    """Create, merge, rename and delete branches."""


@branch.command("create", epilog=render_examples("branch create"))
@click.argument("branch_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@click.option("--from", "source", default="main", show_default=True, help="The branch to start at.")
@click.option("--commit", metavar="PLACE", help="Start at this commit instead of at the head.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def create_branch(
    scope: CommandTarget, branch_name: str, source: str, commit: str | None, as_json: bool
) -> None:
    """Create branch NAME; nothing is copied."""
    graph = scope.reach(read_only=False)
    scope.echo("branch create")
    ref = graph.create_branch(branch_name, source=source, commit=commit)
    if as_json:
        print_json({"uri": graph.uri, **ref.wire()})
    else:
        click.echo(f"created branch {ref.name} from {ref.parent}")


@branch.command("list", epilog=render_examples("branch list"))
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_branches(scope: CommandTarget, as_json: bool) -> None:
    """List the branches, main first."""
    names = scope.reach(read_only=True).branches()
    if as_json:
        print_json({"branches": names})
        return
    for name in names:
        click.echo(name)


@branch.command("rename", epilog=render_examples("branch rename"))
@click.argument("branch_name", metavar="NAME")
@click.argument("new_name", metavar="NEW")
@add_graph_options(positional=True, writes=True, served=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def rename_branch(scope: CommandTarget, branch_name: str, new_name: str, as_json: bool) -> None:
    """Rename branch NAME to NEW; it stays the same branch."""
    graph = scope.reach(read_only=False)
    scope.echo("branch rename")
    ref = graph.rename_branch(branch_name, new_name)
    if as_json:
        renamed = {"name": ref.name, "renamed_from": branch_name.strip(), "actor_id": graph.actor}
        print_json({"uri": graph.uri, **renamed})
    else:
        click.echo(f"renamed branch {branch_name.strip()} to {ref.name}")


@branch.command("delete", epilog=render_examples("branch delete"))
@click.argument("branch_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def delete_branch(scope: CommandTarget, branch_name: str, yes: bool, as_json: bool) -> None:
    """Delete branch NAME and the commits that only it contains."""
    require_confirmation(scope, f"branch delete {branch_name}", yes=yes, as_json=as_json)
    graph = scope.reach(read_only=False)
    scope.echo("branch delete")
    gone = graph.delete_branch(branch_name)
    if as_json:
        print_json({"uri": graph.uri, **gone.wire()})
    else:
        click.echo(f"deleted branch {gone.name}")


@branch.command("merge", epilog=render_examples("branch merge"))
@click.argument("source", metavar="SOURCE")
@add_graph_options(positional=True, writes=True, served=True)
@click.option("--into", default="main", show_default=True, help="The branch to change.")
@add_conflict_options
@click.option("--delete-branch", is_flag=True, help="Delete SOURCE after the merge.")
@message_option
@click.option(
    "--engine",
    type=click.Choice(MERGE_ENGINES),
    default="local",
    help="Where rows are compared; auto: on Spark where many changed.",
)
@click.option("--spark-conf", multiple=True, metavar="K=V", help="A Spark option; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def merge(
    scope: CommandTarget,
    source: str,
    into: str,
    dry_run: bool,
    resolve: tuple[str, ...],
    decisions: str | None,
    granularity: GranularityName,
    delete_branch: bool,
    message: str | None,
    engine: MergeEngineName,
    spark_conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Merge branch SOURCE into another one, as one commit or not at all."""
    graph = scope.reach(read_only=dry_run)
    scope.echo("branch merge")
    with stage_log(quiet=scope.quiet or as_json):
        result = graph.merge(
            source,
            into,
            dry_run=dry_run,
            resolve=resolve,
            decisions=decisions or (),
            granularity=granularity,
            delete_branch=delete_branch,
            message=message,
            engine=engine,
            spark_conf=parse_spark_options(spark_conf),
        )
    if as_json:
        print_json({"uri": graph.uri, **result.wire()})
    else:
        _show(result)
    if result.branch_delete_error is not None:
        click.echo(f"warning: {source} was not deleted: {result.branch_delete_error}", err=True)


def _show(result: MergeResult) -> None:
    verb = "would merge" if result.dry_run else "merged"
    click.echo(f"{verb} {result.source} into {result.target}: {result.outcome}")
    print_counts(result)
    if result.branch_deleted:
        click.echo(f"deleted branch {result.source}")


@click.group()
def tag() -> None:
    """Name commits and protect them from cleanup."""


@tag.command("create", epilog=render_examples("tag create"))
@click.argument("tag_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch to tag the head of.")
@click.option("--at", metavar="PLACE", help="Tag this commit, version or time instead.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def create_tag(
    scope: CommandTarget, tag_name: str, branch: str, at: str | None, as_json: bool
) -> None:
    """Create tag NAME; cleanup keeps the commit it names."""
    graph = scope.reach(read_only=False)
    scope.echo("tag create")
    made = graph.tag(tag_name, at, branch=branch)
    if as_json:
        print_json({"uri": graph.uri, **made.wire()})
    else:
        click.echo(f"tagged commit {made.commit_id} as {made.name}")


@tag.command("list", epilog=render_examples("tag list"))
@add_graph_options(positional=True, writes=False, served=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_tags(scope: CommandTarget, as_json: bool) -> None:
    """List the tags by name."""
    tags = scope.reach(read_only=True).tags()
    if as_json:
        print_json({"tags": [one.wire() for one in tags]})
        return
    for one in tags:
        click.echo(f"{one.name}  {one.commit_id}  {one.branch}  {one.actor_id or '-'}")


@tag.command("delete", epilog=render_examples("tag delete"))
@click.argument("tag_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def delete_tag(scope: CommandTarget, tag_name: str, yes: bool, as_json: bool) -> None:
    """Delete tag NAME; cleanup may then remove what only it protected."""
    require_confirmation(scope, f"tag delete {tag_name}", yes=yes, as_json=as_json)
    graph = scope.reach(read_only=False)
    scope.echo("tag delete")
    gone = graph.delete_tag(tag_name)
    if as_json:
        print_json({"uri": graph.uri, **gone.wire()})
    else:
        click.echo(f"deleted tag {gone.name}")
