"""`omnigraph optimize`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.engine_options import parse_spark_options, stage_log
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json
from omnigraph.settings import ENGINES

if TYPE_CHECKING:
    from omnigraph.graph.engines import EngineName
    from omnigraph.maintenance.maintenance_results import OptimizedTable


@click.command(epilog=render_examples("optimize"))
@add_graph_options(positional=True, writes=True)
@click.option(
    "--branch", default="main", show_default=True, help="The branch whose tables to optimize."
)
@click.option(
    "--engine", type=click.Choice(ENGINES), default="local", help="Where the files are written."
)
@click.option("--spark-conf", multiple=True, metavar="K=V", help="A Spark option; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def optimize(
    scope: CommandTarget,
    branch: str,
    engine: EngineName,
    spark_conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Merge small fragments and build missing indexes; at most one commit, no row changes."""
    graph = scope.open(read_only=False)
    scope.echo("optimize")
    with stage_log(quiet=scope.quiet or as_json):
        result = graph.optimize(
            branch=branch,
            engine=engine,
            spark_conf=parse_spark_options(spark_conf),
        )
    if as_json:
        print_json({"uri": graph.uri, **result.wire()})
        return
    for table in result.tables:
        click.echo(f"{table.table_key}  {_describe_table(table)}")
        for pending in table.pending_indexes:
            click.echo(f"  index on {pending.property} is pending: {pending.reason}")


def _describe_table(table: OptimizedTable) -> str:
    if table.skipped is not None:
        return (
            f"skipped: {table.skipped}, the graph shows version {table.manifest_version} and the "
            f"newest is {table.lance_head_version}; see `omnigraph repair`"
        )
    if not table.committed:
        return "nothing to do"
    if not table.fragments_removed:
        return "indexes brought up to date"
    return f"{table.fragments_removed} fragments became {table.fragments_added}"
