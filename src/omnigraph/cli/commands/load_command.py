"""`omnigraph load` and `omnigraph import`."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, BinaryIO

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import force_option, open_stdin, require_free
from omnigraph.cli.scope_resolution import read_settings
from omnigraph.cli.shared_options import (
    CommandTarget,
    add_graph_options,
    branch_option,
    delimiter_option,
    engine_option,
    message_option,
    mode_option,
    on_error_option,
    parse_spark_options,
    rejects_option,
    require_confirmation,
    stage_log,
    yes_option,
)
from omnigraph.cli.shell_completion import FILE
from omnigraph.cli.terminal import json_option, note, print_result
from omnigraph.output_files import OutputFile

if TYPE_CHECKING:
    from omnigraph.graph.engines import LoadEngineName, ModeName
    from omnigraph.interchange.import_files import ImportResult
    from omnigraph.wire.write_results import LoadResult


FORMATS = ("jsonl", "parquet", "csv", "tsv")
MAX_SHOWN_SKIPPED = 10


def _adapt_for_ingest(parameter: click.Parameter) -> click.Parameter:
    """Copy an option of `load` with the defaults of `ingest`."""
    taken = {"mode": "merge", "base": "main"}
    if parameter.name not in taken:
        return parameter
    changed = copy(parameter)
    changed.required, changed.default = False, taken[parameter.name]
    return changed


@click.command(epilog=render_examples("load"))
@add_graph_options(positional=True, writes=True, served=True)
@click.option(
    "--data",
    "paths",
    type=FILE,
    required=True,
    multiple=True,
    metavar="PATH",
    help="A file, folder or pattern; repeatable. - for stdin: JSON lines, or as --format says.",
)
@mode_option(required=True)
@branch_option
@click.option("--from", "base", metavar="BRANCH", help="Create the branch from this one first.")
@click.option("--if-commit", "expected", metavar="ID", help="Only if the branch is at this commit.")
@message_option
@engine_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    help="The input format; by default, by file name.",
)
@delimiter_option
@click.option("--type", "type_name", metavar="T", help="The type of the rows of a table file.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="P=C",
    help="Property P is column C; also for id, from and to. Repeatable.",
)
@click.option(
    "--select",
    "select",
    multiple=True,
    metavar="C",
    help="Read only these columns, and those of --column. Repeatable.",
)
@click.option(
    "--match",
    metavar="C,C",
    help="With merge: find edges without ids by these columns, such as src,dst.",
)
@click.option(
    "--partial", is_flag=True, help="With merge: keep the properties a record leaves out."
)
@on_error_option
@rejects_option
@force_option
@click.option("--spark-conf", multiple=True, metavar="K=V", help="A Spark option; repeatable.")
@yes_option
@json_option
def load(
    scope: CommandTarget,
    paths: tuple[str, ...],
    mode: ModeName,
    branch: str,
    base: str | None,
    expected: str | None,
    message: str | None,
    engine: LoadEngineName | None,
    format_: str | None,
    delimiter: str | None,
    type_name: str | None,
    columns: tuple[str, ...],
    select: tuple[str, ...],
    match: str | None,
    partial: bool,
    on_error: str,
    rejects: str | None,
    force: bool,
    spark_conf: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Load rows as one commit, or not at all.

    Records of any types may be mixed in files of JSON lines, also compressed (.gz, .zst). Parquet
    and CSV hold the rows of one type.
    """
    require_free(rejects, force=force)
    refused = None if rejects is None else OutputFile(rejects)
    if mode == "overwrite":
        require_confirmation(scope, "load --mode overwrite", yes=yes, as_json=as_json)
    graph = scope.reach(read_only=False)
    scope.echo(f"load ({mode})")
    with stage_log(quiet=scope.quiet or as_json):
        result = graph.load(
            _read_records(paths),
            mode,
            branch=branch,
            base=base,
            expected_head=expected,
            message=message,
            engine=engine,
            format=format_,
            delimiter=delimiter,
            type=type_name,
            columns=_parse_columns(columns),
            select=select,
            match=[name.strip() for name in match.split(",")] if match else (),
            partial=partial,
            on_error=on_error,
            rejects=refused,
            spark_conf=parse_spark_options(spark_conf),
        )
    lines = () if scope.quiet else _describe(result)
    print_result(result, lines, as_json=as_json, uri=graph.uri)
    if not as_json:
        _note_details(result, rejects, quiet=scope.quiet)


ingest = click.Command(
    "ingest",
    params=[_adapt_for_ingest(parameter) for parameter in load.params],
    callback=load.callback,
    help="The same as load, which is the name to use: merges by default, and creates the branch.",
    hidden=True,
)


def _read_records(paths: tuple[str, ...]) -> BinaryIO | str | list[str]:
    if "-" not in paths:
        return paths[0] if len(paths) == 1 else list(paths)
    if len(paths) > 1:
        raise click.UsageError("stdin cannot be loaded together with files")
    return open_stdin()


def _parse_columns(given: tuple[str, ...]) -> dict[str, str]:
    columns = {}
    for one in given:
        name, sign, column = one.partition("=")
        if not (name and sign and column):
            raise click.UsageError(f"--column {one}: write PROPERTY=COLUMN")
        columns[name] = column
    return columns


def _describe(result: LoadResult) -> Iterator[str]:
    if result.branch_created:
        yield f"created branch {result.branch} from {result.base_branch}"
    if result.commit is None:
        yield f"nothing to load into {result.branch}; no commit was made"
    else:
        yield (
            f"loaded {sum(result.nodes.values())} nodes and {sum(result.edges.values())} edges "
            f"into {result.branch} ({result.engine}, commit {result.commit.commit_id})"
        )


def _note_details(result: LoadResult, rejects: str | None, *, quiet: bool) -> None:
    """Print the engine, the speed and, even if `quiet`, the skipped rows on stderr."""
    if not quiet and result.commit and result.engine == "spark" and result.engine_reason:
        note(f"on Spark: {result.engine_reason}")
    if not quiet and result.seconds is not None and result.rows is not None:
        pace = f", {result.rows_per_second:,.0f} rows/s" if result.rows_per_second else ""
        note(f"{result.rows:,} rows, {result.bytes or 0:,} bytes, {result.seconds:.1f} s{pace}")
    if result.skipped.total:
        note(f"left out {result.skipped.total} rows" + (f", see {rejects}" if rejects else ""))
        for problem in result.skipped.first[:MAX_SHOWN_SKIPPED]:
            note(f"  {problem}")


@click.command("import", epilog=render_examples("import"))
@add_graph_options(positional=True, writes=True)
@click.option(
    "--data",
    "paths",
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
@json_option
def import_(
    scope: CommandTarget,
    paths: tuple[str, ...],
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
    created with the schema that `schema infer` proposes. Data without an equivalent
    is reported.
    """
    require_free(rejects, force=force)
    if mode == "overwrite":
        require_confirmation(scope, "import --mode overwrite", yes=yes, as_json=as_json)
    from omnigraph.interchange.import_files import import_files

    scope.echo(f"import ({mode})")
    with stage_log(quiet=scope.quiet or as_json):
        result = import_files(
            scope.uri,
            list(paths),
            mode=mode,
            branch=branch,
            delimiter=delimiter,
            on_error=on_error,
            rejects=None if rejects is None else OutputFile(rejects),
            actor=scope.actor,
            settings=read_settings(),
            engine=engine,
        )
    print_result(result, _describe_import(result), as_json=as_json)
    if not as_json:
        _note_losses(result)


def _describe_import(result: ImportResult) -> Iterator[str]:
    load = result.load
    if result.created:
        yield f"initialized {result.graph.uri} with the schema of the data"
    made = "no commit" if load.commit is None else f"commit {load.commit.commit_id}"
    yield (
        f"imported {sum(load.nodes.values())} nodes and {sum(load.edges.values())} edges "
        f"into {load.branch} ({load.engine}, {made})"
    )


def _note_losses(result: ImportResult) -> None:
    load = result.load
    for line in result.lost:
        note(f"not carried over: {line}")
    if load.skipped.total:
        note(f"left out {load.skipped.total} rows")
    if result.created and result.proposal.guesses:
        note(f"{len(result.proposal.guesses)} guesses are marked in `omnigraph schema show`")
