"""`omnigraph queries …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_source
from omnigraph.cli.output import print_json

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.stored_queries import QueryRegistry

_QUERIES = click.option(
    "--queries",
    "paths",
    type=FILE,
    multiple=True,
    metavar="PATH",
    help="A file of queries (.gq) or a folder of such; repeatable.",
)
_SCHEMA = click.option(
    "--schema", "schema_path", type=FILE, metavar="FILE", help="A schema (.pg) instead of a graph."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")


@click.group()
def queries() -> None:
    """Look at stored queries and check them."""


@queries.command("list", epilog=render_examples("queries list"))
@add_graph_options(positional=True, writes=False, served=True, offline=("schema_path",))
@_QUERIES
@_SCHEMA
@_JSON
def list_(
    scope: CommandTarget | None, paths: tuple[str, ...], schema_path: str | None, as_json: bool
) -> None:
    """List the queries of files, or of a server: what each does, takes and gives."""
    from omnigraph.stored_queries.query_fit import describe_queries

    if scope is not None and scope.is_served:
        found = _list_served(scope, paths)
    else:
        registry, catalog = _load_queries(paths), _read_catalog(scope, schema_path)
        found = list(describe_queries(registry, catalog).values())
    if as_json:
        print_json({"queries": found})
        return
    for entry in found:
        kind = "mutation" if entry["mutation"] else "read"
        click.echo(f"{kind:<8}  {entry['name']}({_draw_parameters(entry['params'])})")


@queries.command("validate", epilog=render_examples("queries validate"))
@add_graph_options(positional=True, writes=False, offline=("schema_path",))
@_QUERIES
@_SCHEMA
@_JSON
def validate(
    scope: CommandTarget | None, paths: tuple[str, ...], schema_path: str | None, as_json: bool
) -> int:
    """Check whether the queries of files run with the schema of a graph, or a schema file.

    Exits with 1 when one of them does not.
    """
    from omnigraph.stored_queries import check_queries

    registry = _load_queries(paths)
    found = check_queries(registry, _read_catalog(scope, schema_path))
    if as_json:
        print_json(found.wire())
    else:
        broken = {one.query: one.message for one in found.breakages}
        for one in registry:
            wrong = broken.get(one.name)
            click.echo(f"OK     {one.name}" if wrong is None else f"ERROR  {one.name}: {wrong}")
        for warning in found.warnings:
            click.echo(f"WARN   {warning.query}: {warning.message}")
    return 0 if found.ok else 1


def _list_served(scope: CommandTarget, paths: tuple[str, ...]) -> list[dict[str, object]]:
    if paths:
        raise click.UsageError("a server has stored queries of its own; leave out --queries")
    return scope.reach(read_only=True).stored_queries()


def _load_queries(paths: tuple[str, ...]) -> QueryRegistry:
    from omnigraph.stored_queries import load_registry

    if not paths:
        raise click.UsageError("give the queries with --queries PATH")
    return load_registry(*paths)


def _read_catalog(scope: CommandTarget | None, schema_path: str | None) -> Catalog:
    from omnigraph.plan.compile import compile_catalog

    if scope is not None:
        return scope.open(read_only=True).catalog
    assert schema_path is not None, "without a scope there is a schema"
    return compile_catalog(read_source(schema_path))


def _draw_parameters(described: object) -> str:
    assert isinstance(described, list)
    return ", ".join(f"${one['name']}: {_draw_type(one)}" for one in described)


def _draw_type(one: dict[str, object]) -> str:
    word = str(one["kind"])
    if word == "list":
        word = f"[{one['item_kind']}]"
    if word == "vector":
        word = f"vector({one['vector_dim']})"
    return f"{word}?" if one["nullable"] else word
