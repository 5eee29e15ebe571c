"""`omnigraph query`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from omnigraph.cli.answers import BINARY_FORMATS, FORMATS, find_format, write_answer
from omnigraph.cli.bare_statements import complete_source
from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.engine_options import parse_spark_options, report_spark_start
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import force_option, read_parameters, read_query, require_free
from omnigraph.cli.place_options import check_place, open_view, place_options
from omnigraph.cli.stored_runs import invoke_read, is_stored
from omnigraph.settings import ENGINES

if TYPE_CHECKING:
    from omnigraph.graph.engines import EngineName


@click.command(epilog=render_examples("query"))
@click.argument("name", required=False)
@add_graph_options(positional=True, writes=False, served=True)
@click.option(
    "--query", "query_path", type=FILE, metavar="FILE", help="The queries (.gq); - for stdin."
)
@click.option("-e", "--query-string", "text", metavar="GQ", help="The query itself.")
@click.option("--params", metavar="JSON", help="Parameters as a JSON object.")
@click.option("--params-file", type=FILE, metavar="FILE", help="Parameters in a file; - for stdin.")
@place_options
@click.option("--engine", type=click.Choice(ENGINES), default="local", help="Where the query runs.")
@click.option("--spark-conf", multiple=True, metavar="K=V", help="A Spark option; repeatable.")
@click.option(
    "--format",
    "chosen",
    type=click.Choice(FORMATS),
    help="The output format; by default, by the name of --out.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--out", type=FILE, metavar="PATH", help="Write to a file instead of stdout.")
@force_option
def query(
    scope: CommandTarget,
    name: str | None,
    query_path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    branch: str | None,
    at: str | None,
    snapshot: str | None,
    engine: EngineName,
    spark_conf: tuple[str, ...],
    chosen: str | None,
    as_json: bool,
    out: str | None,
    force: bool,
) -> None:
    """Run read query NAME; a text with one query needs no name.

    What -e gives may be the body alone: match { … } return { … }. Without a text, NAME is a
    stored query of the server or cluster.

    A query that ranks or searches text runs in this process even with --engine spark.
    """
    check_place(branch, at, snapshot)
    if chosen is not None and as_json:
        raise click.UsageError("give --format or --json, not both")
    if chosen in BINARY_FORMATS and out is None and sys.stdout is not None and sys.stdout.isatty():
        raise click.UsageError(
            f"--format {chosen} cannot be written to a terminal; give --out PATH"
        )
    require_free(out, force=force)
    parameters = read_parameters(params, params_file)
    if is_stored(scope, name, query_path, text):
        result = invoke_read(scope, name, parameters, (branch, at, snapshot))
    else:
        source = read_query(query_path, text)
        view = open_view(scope, branch, at, snapshot)
        if text is not None:
            source = complete_source(source, name, parameters, lambda: view)
        conf = parse_spark_options(spark_conf)
        with report_spark_start(engine):
            result = view.query(source, name, parameters, engine=engine, spark_conf=conf)
    shape = "json" if as_json else chosen or find_format(out) or scope.config.output
    write_answer(result, shape, out, scope.config, force=force)
