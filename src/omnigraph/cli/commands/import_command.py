"""`omnigraph import`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options, ask_consent, yes_option
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.engine_options import stage_log
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import force_option, require_free
from omnigraph.cli.output import note, print_json
from omnigraph.cli.process_settings import read_settings
from omnigraph.cli.row_options import (
    branch_option,
    delimiter_option,
    engine_option,
    mode_option,
    on_error_option,
    rejects_option,
)
from omnigraph.output_files import OutputFile

if TYPE_CHECKING:
    from omnigraph.graph.engines import LoadEngineName, ModeName
    from omnigraph.interchange.import_files import ImportResult


@click.command("import", epilog=render_examples("import"))
@add_graph_options(positional=True, writes=True)
@click.option(
    "--data",
    "places",
    type=FILE,
    required=True,
    multiple=True,
    metavar="PATH",
    help="A file, a folder, an export or a database; repeatable.",
)
@mode_option(default="append", show_default=True)
@branch_option
@delimiter_option
@engine_option
@on_error_option
@rejects_option
@force_option
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def import_(
    scope: CommandTarget,
    places: tuple[str, ...],
    mode: ModeName,
    branch: str,
    delimiter: str | None,
    engine: LoadEngineName | None,
    on_error: str,
    rejects: str | None,
    force: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Load the data of another program as one commit.

    Read are CSV, TSV, Parquet, Arrow, JSON lines and GraphML, exports of Kuzu and its databases
    (with the package kuzu), and exports of Neo4j as CSV or JSON. A graph that does not exist is
    created with the schema that `schema infer` proposes. What cannot be carried over is told.
    """
    require_free(rejects, force=force)
    if mode == "overwrite":
        ask_consent(scope, "import --mode overwrite", yes=yes, as_json=as_json)
    from omnigraph.interchange.import_files import import_files

    scope.echo(f"import ({mode})")
    with stage_log(quiet=scope.quiet or as_json):
        result = import_files(
            scope.uri,
            list(places),
            mode=mode,
            branch=branch,
            delimiter=delimiter,
            on_error=on_error,
            rejects=None if rejects is None else OutputFile(rejects),
            actor=scope.actor,
            settings=read_settings(),
            engine=engine,
        )
    if as_json:
        print_json(result.wire())
    else:
        _show(result)


def _show(result: ImportResult) -> None:
    load = result.load
    if result.created:
        click.echo(f"initialized {result.graph.uri} with the schema of the data")
    made = "no commit" if load.commit is None else f"commit {load.commit.commit_id}"
    click.echo(
        f"imported {sum(load.nodes.values())} nodes and {sum(load.edges.values())} edges "
        f"into {load.branch} ({load.engine}, {made})"
    )
    for line in result.lost:
        note(f"not carried over: {line}")
    if load.skipped.total:
        note(f"left out {load.skipped.total} rows")
    if result.created and result.proposal.guesses:
        note(f"{len(result.proposal.guesses)} guesses are marked in `omnigraph schema show`")
