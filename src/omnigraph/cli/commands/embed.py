"""`omnigraph embed`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from omnigraph.cli.output import print_json

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph


@click.command()
@click.option("--seed", metavar="FILE", help="A manifest that names input, output and spec.")
@click.option("--input", "source", metavar="FILE", help="The records, as JSON lines.")
@click.option("--output", metavar="FILE", help="Where they go; may be the input itself.")
@click.option("--spec", metavar="FILE", help="Which fields make which vector, as JSON.")
@click.option("--clean", is_flag=True, help="Take the vectors away; asks no provider.")
@click.option("--reembed-all", is_flag=True, help="Embed records that have a vector, too.")
@click.option("--type", "types", multiple=True, metavar="T", help="Only this type; repeatable.")
@click.option("--select", multiple=True, metavar="[TYPE:]FIELD=VALUE", help="Only these records.")
@click.option("--resume", is_flag=True, help="Keep what was embedded if it fails, and go on there.")
@click.option("--per-minute", type=click.FloatRange(min=0, min_open=True), metavar="N",
              help="Ask the provider at most so often.")  # fmt: skip
@click.option("--graph", "address", metavar="PATH",
              help="Fill the vectors of a graph instead, as one commit.")  # fmt: skip
@click.option("--branch", metavar="NAME", help="The branch of the graph; main by default.")
@click.option("--engine", type=click.Choice(["local", "spark"]), default="local",
              help="Where to embed: here, or in batches on Spark.")  # fmt: skip
@click.option("--spark-conf", multiple=True, metavar="K=V", help="A Spark option; repeatable.")
@click.option("--quiet", is_flag=True, help="Draw no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def embed(
    seed: str | None,
    source: str | None,
    output: str | None,
    spec: str | None,
    clean: bool,
    reembed_all: bool,
    types: tuple[str, ...],
    select: tuple[str, ...],
    resume: bool,
    per_minute: float | None,
    address: str | None,
    branch: str | None,
    engine: str,
    spark_conf: tuple[str, ...],
    quiet: bool,  # noqa: ARG001 - read before the command runs
    as_json: bool,
) -> None:
    """Embed the texts of records in a file, or of the rows of a graph.

    The output appears whole or not at all.
    """
    if address is not None:
        if seed or source or output or clean or select or resume:
            raise click.UsageError("--graph goes with --spec, --type, --branch and --reembed-all")
        filled = _open(address).embed(
            types,
            spec=spec,
            branch=branch or "main",
            reembed_all=reembed_all,
            per_minute=per_minute,
            engine=engine,
            spark_conf=_options(spark_conf),
        )
        if as_json:
            print_json(filled.wire())
        else:
            click.echo(f"{address}: {filled.embedded} embedded, commit {filled.commit_id or '-'}")
        return
    if branch is not None:
        raise click.UsageError("--branch goes with --graph")
    if (seed is None) == (source is None and output is None and spec is None):
        raise click.UsageError("give --seed, or all of --input, --output and --spec")
    if seed is None and None in (source, output, spec):
        raise click.UsageError("--input, --output and --spec belong together")
    if clean and reembed_all:
        raise click.UsageError("--clean and --reembed-all exclude each other")
    from omnigraph.graph.embedding import embed as run

    done = run(
        seed=seed,
        input=source,
        output=output,
        spec=spec,
        clean=clean,
        reembed_all=reembed_all,
        types=types,
        select=select,
        resume=resume,
        per_minute=per_minute,
        engine=engine,
        spark_conf=_options(spark_conf),
    )
    if as_json:
        print_json(done.wire())
        return
    changed = f"{done.cleaned_records} cleaned" if clean else f"{done.embedded_records} embedded"
    click.echo(
        f"{done.output}: {done.records} records, {done.selected_records} selected, {changed}"
    )


def _options(texts: tuple[str, ...]) -> dict[str, str]:
    if not texts:
        return {}
    from omnigraph.pipeline.session import parse_options

    return parse_options(texts)


def _open(address: str) -> Graph:
    from omnigraph.graph.graph import open as open_graph
    from omnigraph.settings import Settings

    return open_graph(address, settings=Settings.from_environment(os.environ))
