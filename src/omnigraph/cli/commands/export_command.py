"""`omnigraph export`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.engine_options import parse_spark_options, stage_log
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import force_option, require_free, write_whole
from omnigraph.cli.output import print_json
from omnigraph.cli.place_options import check_place, open_view, place_options
from omnigraph.progress import Work, working
from omnigraph.settings import ENGINES

if TYPE_CHECKING:
    from omnigraph.graph.engines import EngineName


@click.command(epilog=render_examples("export"))
@add_graph_options(positional=True, writes=False, served=True)
@place_options
@click.option("--type", "types", multiple=True, metavar="T", help="Only this type; repeatable.")
@click.option(
    "--out", type=FILE, metavar="PATH", help="Write to a file or folder instead of stdout."
)
@force_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(("jsonl", "parquet")),
    help="Write a folder of files in this format.",
)
@click.option("--engine", type=click.Choice(ENGINES), help="Where the folder is written.")
@click.option("--spark-conf", multiple=True, metavar="K=V", help="A Spark option; repeatable.")
@click.option(
    "--jsonl", is_flag=True, hidden=True, help="Accepted for scripts; JSON lines are the default."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written with --out.")
def export(
    scope: CommandTarget,
    branch: str | None,
    at: str | None,
    snapshot: str | None,
    types: tuple[str, ...],
    out: str | None,
    force: bool,
    format_: str | None,
    engine: EngineName | None,
    spark_conf: tuple[str, ...],
    jsonl: bool,  # noqa: ARG001 - says what happens without it
    as_json: bool,
) -> None:
    """Write every record of a branch as JSON lines that load back as the same graph.

    With --format or --engine, into a new folder with a folder for each type, many files at a time.
    """
    check_place(branch, at, snapshot)
    if as_json and out in (None, "-"):
        raise click.UsageError("--json requires --out PATH, since the records go to stdout")
    require_free(out, force=force)
    view = open_view(scope, branch, at, snapshot)
    if format_ is not None or engine is not None:
        if out is None or out == "-":
            raise click.UsageError("--format and --engine write a folder: give it with --out")
        if force:
            raise click.UsageError("--force replaces a file; a folder must be new")
        engine = engine or "local"
        with stage_log(quiet=scope.quiet or as_json):
            result = view.export_files(
                out,
                format=format_ or "jsonl",
                types=types or None,
                engine=engine,
                spark_conf=parse_spark_options(spark_conf),
            )
        if as_json:
            print_json(result.wire())
        else:
            click.echo(f"exported {result.rows} rows in {len(result.files)} files to {result.out}")
        return
    tables = [table.wire() for table in view.info().tables]
    total = sum(
        int(str(table["entity_count"]))
        for table in tables
        if not types or table["type_name"] in types
    )
    written = _Written()
    # On a terminal the records themselves are to be seen.
    are_seen = out in (None, "-") and sys.stdout is not None and sys.stdout.isatty()
    told = nullcontext() if are_seen else working("exporting", total=total, unit="records")
    with told as work:
        write_whole(out, written.counting(view.export_jsonl(types or None), work), force=force)
    if as_json:
        rows, size = written.rows, written.size
        print_json({"out": out, "format": "jsonl", "rows": rows, "bytes": size})


@dataclass
class _Written:
    """How much has gone out."""

    rows: int = 0
    size: int = 0

    def counting(self, blocks: Iterable[bytes], work: Work | None) -> Iterator[bytes]:
        """The same blocks; progress is reported to listeners."""
        for block in blocks:
            yield block
            lines = block.count(b"\n")
            self.rows, self.size = self.rows + lines, self.size + len(block)
            if work is not None:
                work.advance(lines)
