"""`omnigraph embed`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import open_disk_files, read_spec
from omnigraph.cli.shared_options import (
    CommandTarget,
    add_graph_options,
    message_option,
    parse_spark_options,
    stage_log,
)
from omnigraph.cli.shell_completion import FILE
from omnigraph.cli.terminal import json_option, note, print_json, print_result
from omnigraph.settings import ENGINES

if TYPE_CHECKING:
    from omnigraph.graph.engines import EngineName


@click.command(epilog=render_examples("embed"))
@add_graph_options(
    positional=True,
    writes=True,
    offline=("seed", "input_path", "output_path", "clean", "select", "resume"),
)
@click.option("--seed", type=FILE, metavar="FILE", help="A manifest that names all three files.")
@click.option(
    "--input", "input_path", type=FILE, metavar="FILE", help="Records as JSON lines; - for stdin."
)
@click.option(
    "--output", "output_path", type=FILE, metavar="FILE", help="Where they go; - for stdout."
)
@click.option(
    "--spec",
    type=FILE,
    metavar="FILE",
    help="Which fields make which vector, as JSON; - for stdin.",
)
@click.option("--clean", is_flag=True, help="Remove the vectors; no provider is called.")
@click.option("--reembed-all", is_flag=True, help="Also embed what already has a vector.")
@click.option("--type", "types", multiple=True, metavar="T", help="Only this type; repeatable.")
@click.option("--select", multiple=True, metavar="[TYPE:]FIELD=VALUE", help="Only these records.")
@click.option("--resume", is_flag=True, help="Keep finished work on failure, and continue from it.")
@click.option(
    "--per-minute",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="The maximum number of requests per minute.",
)
@click.option("--branch", metavar="NAME", help="The branch of the graph; main by default.")
@message_option
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="local",
    help="Where to run: in this process, or on Spark.",
)
@click.option("--spark-conf", multiple=True, metavar="K=V", help="A Spark option; repeatable.")
@json_option
def embed(
    scope: CommandTarget | None,
    seed: str | None,
    input_path: str | None,
    output_path: str | None,
    spec: str | None,
    clean: bool,
    reembed_all: bool,
    types: tuple[str, ...],
    select: tuple[str, ...],
    resume: bool,
    per_minute: float | None,
    branch: str | None,
    message: str | None,
    engine: EngineName,
    spark_conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Embed the texts of the rows of a graph, as one commit, or of the records of a file.

    A file is named by --seed, or by --input, --output and --spec; the output may be the input and
    appears whole or not at all.
    """
    conf = parse_spark_options(spark_conf)
    if scope is not None:
        scope.echo("embed")
        with stage_log(quiet=scope.quiet or as_json):
            filled = scope.open(read_only=False).embed(
                types,
                spec=read_spec(spec),
                branch=branch or "main",
                reembed_all=reembed_all,
                per_minute=per_minute,
                message=message,
                engine=engine,
                spark_conf=conf,
            )
        said = f"{scope.uri}: {filled.embedded} embedded, commit {filled.commit_id or '-'}"
        print_result(filled, said, as_json=as_json)
        return
    for option, given in (("--branch", branch), ("--message", message)):
        if given is not None:
            raise click.UsageError(f"{option} requires a graph")
    if clean and reembed_all:
        raise click.UsageError("--clean and --reembed-all cannot be combined")
    _check_files(seed, input_path, output_path, spec)
    _check_streams((input_path, output_path), engine, resume=resume, as_json=as_json)
    from omnigraph.graph.embedding import embed as run

    with (
        open_disk_files(input_path, output_path) as (source, target),
        stage_log(quiet=as_json),
    ):
        done = run(
            seed=seed,
            input=source,
            output=target,
            spec=read_spec(spec),
            clean=clean,
            reembed_all=reembed_all,
            types=types,
            select=select,
            resume=resume,
            per_minute=per_minute,
            engine=engine,
            spark_conf=conf,
        )
    done = replace(done, input=input_path or done.input, output=output_path or done.output)
    if as_json:
        print_json(done.wire())
        return
    changed = f"{done.cleaned_records} cleaned" if clean else f"{done.embedded_records} embedded"
    said = f"{done.output}: {done.records} records, {done.selected_records} selected, {changed}"
    if output_path == "-":
        note(said)
    else:
        click.echo(said)


def _check_files(
    seed: str | None, input_path: str | None, output_path: str | None, spec: str | None
) -> None:
    files = (input_path, output_path, spec)
    if (seed is None) == (files == (None, None, None)):
        raise click.UsageError("give --seed, or all of --input, --output and --spec")
    if seed is None and None in files:
        raise click.UsageError("--input, --output and --spec must be given together")
    if seed == "-":
        raise click.UsageError("the paths of a manifest start from its folder: --seed needs a file")


def _check_streams(
    paths: tuple[str | None, str | None], engine: str, *, resume: bool, as_json: bool
) -> None:
    """Refuse what makes no sense with standard input or output in place of a file."""
    if "-" not in paths:
        return
    if resume:
        raise click.UsageError("--resume requires files for --input and --output")
    if engine != "local":
        raise click.UsageError("Spark executors cannot reach stdin and stdout: use --engine local")
    if as_json and paths[1] == "-":
        raise click.UsageError("--json requires --output FILE, since the records go to stdout")
