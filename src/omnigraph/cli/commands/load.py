"""`omnigraph load`."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.output import print_json
from omnigraph.cli.scope import Scope, consent, graph_options

MODES = ("append", "merge", "overwrite")


@click.command()
@graph_options(positional=True, writes=True)
@click.option("--data", "data_path", required=True, metavar="PATH", help="JSON lines; - for stdin.")
@click.option("--mode", required=True, type=click.Choice(MODES), help="How rows meet stored ones.")
@click.option("--branch", default="main", show_default=True, help="The branch to load into.")
@click.option("--from", "base", metavar="BRANCH", help="Create the branch from this one first.")
@click.option("--if-commit", "expected", metavar="ID", help="Only if the branch is at this commit.")
@click.option("--yes", is_flag=True, help="Overwrite a graph elsewhere without being asked.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def load(
    scope: Scope,
    data_path: str,
    mode: str,
    branch: str,
    base: str | None,
    expected: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Load a file of records as one commit, or not at all."""
    if mode == "overwrite":
        consent(scope, "load --mode overwrite", yes=yes, as_json=as_json)
    graph = scope.open(read_only=False)
    scope.echo(f"load ({mode})")
    records = sys.stdin.buffer.read() if data_path == "-" else data_path
    result = graph.load(records, mode, branch=branch, base=base, expected_head=expected)
    if as_json:
        print_json({"uri": graph.uri, **result.wire()})
        return
    if result.branch_created:
        click.echo(f"created branch {result.branch} from {result.base_branch}")
    click.echo(
        f"loaded {sum(result.nodes.values())} nodes and {sum(result.edges.values())} edges "
        f"into {result.branch} ({result.engine}, commit {result.commit.commit_id})"
    )
