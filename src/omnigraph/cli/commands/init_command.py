"""`omnigraph init` and `omnigraph clone`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_source
from omnigraph.cli.scope_resolution import (
    RequestedScope,
    read_settings,
    resolve_scope,
    resolve_single_address,
)
from omnigraph.cli.shared_options import add_address_options, add_cluster_option
from omnigraph.cli.shell_completion import FILE, complete_store
from omnigraph.cli.terminal import json_option, note, print_result

if TYPE_CHECKING:
    from omnigraph.language.source import SourceText


Command = TypeVar("Command", bound=Callable[..., object])


def _add_address_options(command: Command) -> Command:
    for option in add_address_options():
        command = option(command)  # type: ignore[assignment]
    return command


def _refuse_managed(address: str) -> None:
    """Leave the graphs of a cluster to the cluster."""
    from omnigraph.cluster.cluster_files import find_managing_root

    root = find_managing_root(address, read_settings(quietly=True))
    if root is not None:
        raise click.ClickException(
            f"{address} is in the cluster at {root}; declare the graph in its cluster.yaml and run "
            "`omnigraph cluster apply`"
        )


@click.command(epilog=render_examples("init"))
@click.argument("graph_uri", required=False, metavar="URI", shell_complete=complete_store)
@_add_address_options
@click.option("--schema", "schema_path", type=FILE, metavar="FILE", help="The schema (.pg).")
@click.option(
    "--from",
    "sources",
    type=FILE,
    multiple=True,
    metavar="PATH",
    help="Data to infer the schema from: files, folders, exports. Repeatable.",
)
@click.option("--delimiter", metavar="C", help="With --from: the column separator of text files.")
@click.option("--as", "actor", metavar="ACTOR", help="The actor the graph is created for.")
@click.option("--force", is_flag=True, help="Replace schema files left by a failed attempt.")
@json_option
def init(
    graph_uri: str | None,
    store: str | None,
    uri: str | None,
    schema_path: str | None,
    sources: tuple[str, ...],
    delimiter: str | None,
    actor: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Create an empty graph at URI with a schema, given or inferred from data.

    With --from the schema is printed; `omnigraph import` loads the data too.
    """
    from omnigraph.catalog.assign_identities import list_inert_hints
    from omnigraph.catalog.build import compile_schema
    from omnigraph.graph.graph import init as create

    address = resolve_single_address([graph_uri, store, uri])
    if address is None:
        raise click.UsageError("Missing argument 'URI'.")
    _refuse_managed(address)
    schema = _find_schema(schema_path, sources, delimiter)
    draft = compile_schema(schema)
    for warning in (*draft.warnings, *list_inert_hints(draft)):
        note(warning.render())
    graph = create(address, schema, force=force, actor=actor, settings=read_settings())
    document = {"initialized": True, **({"schema_source": schema.text} if sources else {})}
    inferred = ("", schema.text.removesuffix("\n")) if sources else ()
    print_result(document, (f"initialized {graph.uri}", *inferred), as_json=as_json, uri=graph.uri)


def _find_schema(path: str | None, sources: tuple[str, ...], delimiter: str | None) -> SourceText:
    """Return the schema of a file, or the one inferred from data."""
    from omnigraph.language.source import SourceText

    if path is not None and sources:
        raise click.UsageError("give the schema once: with --schema or with --from")
    if path is not None:
        return read_source(path)
    if not sources:
        raise click.UsageError("Missing option '--schema' or '--from'.")
    from omnigraph.interchange.import_files import infer_schema

    proposal = infer_schema(list(sources), delimiter=delimiter, settings=read_settings())
    return SourceText(proposal.source, "<inferred>")


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
@json_option
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
    source, target = _find_source_and_target(source, target, cluster, graph_id)
    from omnigraph.graph.graph import clone as copy

    done = copy(
        source, target, branches=branches, shallow=shallow, force=force, settings=read_settings()
    )
    size = f"{done.files:,} files, {done.bytes:,} bytes; branches: {', '.join(done.branches)}"
    print_result(done, (f"cloned {done.source} to {done.uri}", size), as_json=as_json)


def _find_source_and_target(
    first: str, second: str | None, cluster: str | None, graph_id: str | None
) -> tuple[str, str]:
    """Resolve the source and the target of a clone."""
    if cluster is None:
        if graph_id is not None:
            raise click.UsageError("--graph requires --cluster")
        if second is None:
            raise click.UsageError("Missing argument 'TARGET'.")
        return first, second
    if second is not None:
        raise click.UsageError("with --cluster, give only TARGET: --graph names the source")
    asked = RequestedScope((), graph_id=graph_id, cluster=cluster)
    return resolve_scope(asked, served=False, quiet=True, clusters=True).uri, first
