"""`omnigraph queries …`, `omnigraph lint`, `omnigraph fmt` and `omnigraph explain`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli.commands.query_command import NAME, complete_query, complete_source
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_parameters, read_query, read_source, write_whole
from omnigraph.cli.scope_resolution import read_settings
from omnigraph.cli.shared_options import (
    CommandTarget,
    add_graph_options,
    check_revision,
    open_view,
    revision_options,
)
from omnigraph.cli.shell_completion import FILE
from omnigraph.cli.terminal import json_option, print_json, print_result
from omnigraph.language.source import SourceText

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.plan.query_lint import LintReport
    from omnigraph.stored_queries import QueryRegistry


_QUERIES = click.option(
    "--queries",
    "paths",
    type=FILE,
    multiple=True,
    metavar="PATH",
    help="A file of queries (.gq) or a folder of such; repeatable. Without it, those that are "
    "applied to the graph of a cluster.",
)
_SCHEMA = click.option(
    "--schema", "schema_path", type=FILE, metavar="FILE", help="A schema (.pg) instead of a graph."
)


@click.group()
def queries() -> None:
    """List and check stored queries."""


@queries.command("list", epilog=render_examples("queries list"))
@add_graph_options(positional=True, writes=False, served=True, offline=("schema_path",))
@_QUERIES
@_SCHEMA
@json_option
def list_(
    scope: CommandTarget | None, paths: tuple[str, ...], schema_path: str | None, as_json: bool
) -> None:
    """List the queries of files, of a server or of a cluster, with parameters and results."""
    from omnigraph.stored_queries import describe_queries

    if scope is not None and scope.is_served:
        found = _list_served(scope, paths)
    else:
        registry, catalog = _load_queries(scope, paths), _read_catalog(scope, schema_path)
        found = list(describe_queries(registry, catalog).values())
    print_result({"queries": found}, map(_describe_query, found), as_json=as_json)


def _describe_query(entry: dict[str, object]) -> str:
    kind = "mutation" if entry["mutation"] else "read"
    return f"{kind:<8}  {entry['name']}({_draw_parameters(entry['params'])})"


@queries.command("validate", epilog=render_examples("queries validate"))
@add_graph_options(positional=True, writes=False, offline=("schema_path",))
@_QUERIES
@_SCHEMA
@json_option
def validate(
    scope: CommandTarget | None, paths: tuple[str, ...], schema_path: str | None, as_json: bool
) -> int:
    """Check whether queries run with the schema of a graph, or a schema file.

    Exits with 1 when one of them does not.
    """
    from omnigraph.stored_queries import check_queries

    registry = _load_queries(scope, paths)
    found = check_queries(registry, _read_catalog(scope, schema_path))
    broken = {one.query: one.message for one in found.breakages}
    lines = [
        f"ERROR  {one.name}: {broken[one.name]}" if one.name in broken else f"OK     {one.name}"
        for one in registry
    ]
    lines += [f"WARN   {warning.query}: {warning.message}" for warning in found.warnings]
    print_result(found, lines, as_json=as_json)
    return 0 if found.ok else 1


def _list_served(scope: CommandTarget, paths: tuple[str, ...]) -> list[dict[str, object]]:
    if paths:
        raise click.UsageError("a server has stored queries of its own; leave out --queries")
    return scope.reach(read_only=True).stored_queries()


def _load_queries(scope: CommandTarget | None, paths: tuple[str, ...]) -> QueryRegistry:
    from omnigraph.stored_queries import load_registry, parse_registry

    if paths:
        return load_registry(*paths)
    if scope is None or scope.applied is None:
        raise click.UsageError("give the queries: --queries PATH, or a cluster with --cluster")
    return parse_registry(scope.applied.read_queries(read_settings(quietly=True)))


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


@click.command(epilog=render_examples("lint"))
@add_graph_options(positional=True, writes=False, served=True, offline=("schema_path",))
@click.option(
    "--query", "query_path", type=FILE, required=True, metavar="FILE", help="The queries (.gq)."
)
@click.option(
    "--schema", "schema_path", type=FILE, metavar="FILE", help="A schema (.pg) instead of a graph."
)
@json_option
def lint(
    scope: CommandTarget | None, query_path: str, schema_path: str | None, as_json: bool
) -> int:
    """Check every query of a file against the schema of a graph, or a schema file.

    Exits with 1 when a query has mistakes; warnings alone do not fail. FILE may be - for
    standard input.
    """
    if scope is not None:
        report = scope.reach(read_only=True).lint(read_source(query_path))
    else:
        assert schema_path is not None, "without a scope there is a schema"
        report = _lint_offline(query_path, schema_path)
    print_result(report, report.lines(), as_json=as_json)
    return report.exit_code


def _lint_offline(query_path: str, schema_path: str) -> LintReport:
    from omnigraph.plan.compile import compile_catalog
    from omnigraph.plan.query_lint import lint_queries

    catalog = compile_catalog(read_source(schema_path))
    return lint_queries(read_source(query_path), catalog, {"kind": "file", "path": schema_path})


_SCHEMA_SUFFIX, _QUERY_SUFFIX = ".pg", ".gq"


@click.command(epilog=render_examples("fmt"))
@click.argument("paths", type=FILE, nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@json_option
def fmt(paths: tuple[str, ...], check: bool, as_json: bool) -> int:
    """Rewrite schema (.pg) and query (.gq) files in one layout; comments stay.

    No file is written if one of them has mistakes.
    """
    texts = {path: _format(path) for path in paths}
    changed = [path for path, (before, after) in texts.items() if before != after]
    if not check:
        for path in changed:
            mode = Path(path).stat().st_mode
            write_whole(path, [texts[path][1].encode()], force=True)
            Path(path).chmod(mode)
    verb = "would reformat" if check else "reformatted"
    document = {"files": [{"path": path, "changed": path in changed} for path in texts]}
    print_result(document, [f"{verb} {path}" for path in changed], as_json=as_json)
    return 1 if check and changed else 0


def _format(path: str) -> tuple[str, str]:
    from omnigraph.language.format import format_queries, format_schema

    formatters = {_SCHEMA_SUFFIX: format_schema, _QUERY_SUFFIX: format_queries}
    formatter = formatters.get(Path(path).suffix)
    if formatter is None:
        raise click.UsageError(f"'{path}' is neither a schema (.pg) nor a query file (.gq)")
    source = read_source(path)
    return source.text, formatter(source)


@click.command(epilog=render_examples("explain"))
@click.argument("name", required=False)
@add_graph_options(positional=True, writes=False, served=True, offline=("schema_path",))
@click.option(
    "--schema", "schema_path", type=FILE, metavar="FILE", help="A schema (.pg) instead of a graph."
)
@click.option(
    "--query", "query_path", type=FILE, metavar="FILE", help="The queries (.gq); - for stdin."
)
@click.option("-e", "--query-string", "text", metavar="GQ", help="The query itself.")
@click.option("--analyze", is_flag=True, help="Run the query and measure every operator.")
@click.option("--params", metavar="JSON", help="Parameters as a JSON object, with --analyze.")
@click.option("--params-file", type=FILE, metavar="FILE", help="Parameters in a file; - for stdin.")
@revision_options
@json_option
def explain(
    scope: CommandTarget | None,
    name: str | None,
    schema_path: str | None,
    query_path: str | None,
    text: str | None,
    analyze: bool,
    params: str | None,
    params_file: str | None,
    branch: str | None,
    at: str | None,
    snapshot: str | None,
    as_json: bool,
) -> None:
    """Show the plan of query NAME, of a graph or against a schema file.

    A text with one query needs no name. FILE may be - for standard input.
    """
    check_revision(branch, at, snapshot)
    if scope is None:
        if analyze or branch or at or snapshot:
            raise click.UsageError("a schema file has no rows to analyze; give a graph instead")
        assert schema_path is not None, "without a scope there is a schema"
        source = read_query(query_path, text)
        if text is not None:
            source = SourceText(complete_query(text, name or NAME, None, len), source.name)
        _explain_offline(schema_path, source, name, as_json=as_json)
        return
    source = read_query(query_path, text)
    parameters = read_parameters(params, params_file)
    view = open_view(scope, branch, at, snapshot)
    if text is not None:
        source = complete_source(source, name, parameters, lambda: view)
    if analyze and as_json:
        _print(view.query(source, name, parameters).profile().wire())
    elif analyze:
        _print(view.explain(source, name, parameters, analyze=True))
    else:
        _print(view.explain_json(source, name) if as_json else view.explain(source, name))


def _explain_offline(schema_path: str, source: SourceText, name: str | None, as_json: bool) -> None:
    from omnigraph.plan.compile import compile_catalog, compile_plan
    from omnigraph.plan.explain import explain_json, explain_text

    plan = compile_plan(source, compile_catalog(read_source(schema_path)), name)
    _print(explain_json(plan) if as_json else explain_text(plan))


def _print(document: str | Mapping[str, object]) -> None:
    if isinstance(document, str):
        click.echo(document)
    else:
        print_json(document)
