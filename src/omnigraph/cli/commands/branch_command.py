"""`omnigraph branch …` and `omnigraph tag …`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.shared_options import (
    CommandTarget,
    add_conflict_options,
    add_graph_options,
    describe_counts,
    message_option,
    parse_spark_options,
    require_confirmation,
    stage_log,
    yes_option,
)
from omnigraph.cli.terminal import json_option, print_result
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
@click.option("--commit", metavar="REVISION", help="Start at this commit instead of at the head.")
@json_option
def create_branch(
    scope: CommandTarget, branch_name: str, source: str, commit: str | None, as_json: bool
) -> None:
    """Create branch NAME; nothing is copied."""
    graph = scope.reach(read_only=False)
    scope.echo("branch create")
    ref = graph.create_branch(branch_name, source=source, commit=commit)
    said = f"created branch {ref.name} from {ref.parent}"
    print_result(ref, said, as_json=as_json, uri=graph.uri)


@branch.command("list", epilog=render_examples("branch list"))
@add_graph_options(positional=True, writes=False, served=True)
@json_option
def list_branches(scope: CommandTarget, as_json: bool) -> None:
    """List the branches, main first."""
    from omnigraph.wire.read_results import BranchList

    names = scope.reach(read_only=True).branches()
    print_result(BranchList(branches=names), names, as_json=as_json)


@branch.command("rename", epilog=render_examples("branch rename"))
@click.argument("branch_name", metavar="NAME")
@click.argument("new_name", metavar="NEW")
@add_graph_options(positional=True, writes=True, served=True)
@json_option
def rename_branch(scope: CommandTarget, branch_name: str, new_name: str, as_json: bool) -> None:
    """Rename branch NAME to NEW; it stays the same branch."""
    graph = scope.reach(read_only=False)
    scope.echo("branch rename")
    ref = graph.rename_branch(branch_name, new_name)
    said = f"renamed branch {ref.renamed_from} to {ref.name}"
    print_result(ref, said, as_json=as_json, uri=graph.uri)


@branch.command("delete", epilog=render_examples("branch delete"))
@click.argument("branch_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@yes_option
@json_option
def delete_branch(scope: CommandTarget, branch_name: str, yes: bool, as_json: bool) -> None:
    """Delete branch NAME and the commits that only it contains."""
    require_confirmation(scope, f"branch delete {branch_name}", yes=yes, as_json=as_json)
    graph = scope.reach(read_only=False)
    scope.echo("branch delete")
    gone = graph.delete_branch(branch_name)
    print_result(gone, f"deleted branch {gone.name}", as_json=as_json, uri=graph.uri)


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
@json_option
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
    print_result(result, _describe(result), as_json=as_json, uri=graph.uri)
    if result.branch_delete_error is not None:
        click.echo(f"warning: {source} was not deleted: {result.branch_delete_error}", err=True)


def _describe(result: MergeResult) -> Iterator[str]:
    verb = "would merge" if result.dry_run else "merged"
    yield f"{verb} {result.source} into {result.target}: {result.outcome}"
    yield from describe_counts(result)
    if result.branch_deleted:
        yield f"deleted branch {result.source}"


@click.group()
def tag() -> None:
    """Name commits and protect them from cleanup."""


@tag.command("create", epilog=render_examples("tag create"))
@click.argument("tag_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@click.option("--branch", default="main", show_default=True, help="The branch to tag the head of.")
@click.option("--at", metavar="REVISION", help="Tag this commit, version or time instead.")
@json_option
def create_tag(
    scope: CommandTarget, tag_name: str, branch: str, at: str | None, as_json: bool
) -> None:
    """Create tag NAME; cleanup keeps the commit it names."""
    graph = scope.reach(read_only=False)
    scope.echo("tag create")
    made = graph.tag(tag_name, at, branch=branch)
    said = f"tagged commit {made.commit_id} as {made.name}"
    print_result(made, said, as_json=as_json, uri=graph.uri)


@tag.command("list", epilog=render_examples("tag list"))
@add_graph_options(positional=True, writes=False, served=True)
@json_option
def list_tags(scope: CommandTarget, as_json: bool) -> None:
    """List the tags by name."""
    from omnigraph.wire.commit_results import TagList

    tags = scope.reach(read_only=True).tags()
    lines = (f"{one.name}  {one.commit_id}  {one.branch}  {one.actor_id or '-'}" for one in tags)
    print_result(TagList(tags=tuple(tags)), lines, as_json=as_json)


@tag.command("delete", epilog=render_examples("tag delete"))
@click.argument("tag_name", metavar="NAME")
@add_graph_options(positional=True, writes=True, served=True)
@yes_option
@json_option
def delete_tag(scope: CommandTarget, tag_name: str, yes: bool, as_json: bool) -> None:
    """Delete tag NAME; cleanup may then remove what only it protected."""
    require_confirmation(scope, f"tag delete {tag_name}", yes=yes, as_json=as_json)
    graph = scope.reach(read_only=False)
    scope.echo("tag delete")
    gone = graph.delete_tag(tag_name)
    print_result(gone, f"deleted tag {gone.name}", as_json=as_json, uri=graph.uri)
