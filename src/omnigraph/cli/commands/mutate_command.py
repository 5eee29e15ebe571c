"""`omnigraph mutate`."""

from __future__ import annotations

import click

from omnigraph.cli.answers import render_mutation
from omnigraph.cli.bare_statements import complete_source
from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_parameters, read_query
from omnigraph.cli.message_option import message_option
from omnigraph.cli.output import print_json
from omnigraph.cli.stored_runs import invoke_mutation, is_stored


@click.command(epilog=render_examples("mutate"))
@click.argument("name", required=False)
@add_graph_options(positional=True, writes=True, served=True)
@click.option(
    "--query", "query_path", type=FILE, metavar="FILE", help="The queries (.gq); - for stdin."
)
@click.option("-e", "--query-string", "text", metavar="GQ", help="The query itself.")
@click.option("--params", metavar="JSON", help="Parameters as a JSON object.")
@click.option("--params-file", type=FILE, metavar="FILE", help="Parameters in a file; - for stdin.")
@click.option("--branch", default="main", show_default=True, help="The branch to change.")
@click.option("--if-commit", "expected", metavar="ID", help="Only if the branch is at this commit.")
@message_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def mutate(
    scope: CommandTarget,
    name: str | None,
    query_path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    branch: str,
    expected: str | None,
    message: str | None,
    as_json: bool,
) -> None:
    """Run mutation NAME as one commit; a text with one query needs no name.

    What -e gives may be the statements alone: insert …, merge …, update …, delete …. Without a
    text, NAME is a stored query of the server or cluster.
    """
    parameters = read_parameters(params, params_file)
    stored = is_stored(scope, name, query_path, text)
    query = None if stored else read_query(query_path, text)
    graph = scope.reach_stored(read_only=False) if stored else scope.reach(read_only=False)
    if query is not None and text is not None:
        query = complete_source(query, name, parameters, lambda: graph.at(branch=branch))
    scope.echo("mutate")
    if query is None:
        result = invoke_mutation(graph, name, parameters, branch, expected, message)
    else:
        result = graph.mutate(
            query, name, parameters, branch=branch, expected_head=expected, message=message
        )
    if as_json:
        print_json(result.wire())
        return
    click.echo(render_mutation(result))
    if result.actor_id:
        click.echo(f"actor_id: {result.actor_id}")
