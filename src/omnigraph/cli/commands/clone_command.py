"""`omnigraph clone`."""

from __future__ import annotations

import click

from omnigraph.cli.command_target import add_cluster_option
from omnigraph.cli.completion_words import complete_store
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json
from omnigraph.cli.process_settings import read_settings
from omnigraph.cli.scope_resolution import AskedScope, resolve_scope


@click.command(epilog=render_examples("clone"))
@click.argument("source", metavar="SOURCE", shell_complete=complete_store)
@click.argument("target", metavar="TARGET", required=False, shell_complete=complete_store)
@add_cluster_option()
@click.option("--graph", "graph_id", metavar="ID", help="The graph of the cluster.")
@click.option(
    "--branch",
    "branches",
    multiple=True,
    metavar="NAME",
    help="Copy only this branch, main, and the branches it was created from; repeatable.",
)
@click.option("--shallow", is_flag=True, help="Copy only the newest state of each branch.")
@click.option("--force", is_flag=True, help="Restart an interrupted clone.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def clone(
    source: str,
    target: str | None,
    cluster: str | None,
    graph_id: str | None,
    branches: tuple[str, ...],
    shallow: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Copy the graph at SOURCE to TARGET, while it may be written.

    Both are paths, file:// or s3:// addresses. SOURCE is not changed; with --cluster and --graph it
    is left out.
    """
    source, target = _find_places(source, target, cluster, graph_id)
    from omnigraph.graph.graph import clone as copy

    done = copy(
        source, target, branches=branches, shallow=shallow, force=force, settings=read_settings()
    )
    if as_json:
        print_json(done.wire())
        return
    names = ", ".join(done.branches)
    click.echo(f"cloned {done.source} to {done.uri}")
    click.echo(f"{done.files:,} files, {done.bytes:,} bytes; branches: {names}")


def _find_places(
    first: str, second: str | None, cluster: str | None, graph_id: str | None
) -> tuple[str, str]:
    """Where the graph is, and where the copy goes."""
    if cluster is None:
        if graph_id is not None:
            raise click.UsageError("--graph requires --cluster")
        if second is None:
            raise click.UsageError("Missing argument 'TARGET'.")
        return first, second
    if second is not None:
        raise click.UsageError("with --cluster, give only TARGET: --graph names the source")
    asked = AskedScope((), graph_id=graph_id, cluster=cluster)
    return resolve_scope(asked, served=False, quiet=True, clusters=True).uri, first
