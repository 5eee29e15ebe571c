"""`omnigraph explain`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from omnigraph.cli.bare_statements import NAME, complete_query, complete_source
from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_parameters, read_query, read_source
from omnigraph.cli.output import print_json
from omnigraph.cli.place_options import check_place, open_view, place_options
from omnigraph.language.source import SourceText


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
@place_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
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
    check_place(branch, at, snapshot)
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
