"""`omnigraph export`, `omnigraph blob …` and `omnigraph snapshot`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import force_option, require_free, write_whole
from omnigraph.cli.shared_options import (
    CommandTarget,
    add_graph_options,
    check_revision,
    open_view,
    parse_spark_options,
    revision_options,
    stage_log,
)
from omnigraph.cli.shell_completion import FILE
from omnigraph.cli.terminal import describe_members, json_option, print_json, print_result
from omnigraph.progress import Work, working
from omnigraph.settings import ENGINES

if TYPE_CHECKING:
    from omnigraph.graph.blobs import Blob
    from omnigraph.graph.engines import EngineName
    from omnigraph.wire.read_results import SnapshotInfo


@click.command(epilog=render_examples("export"))
@add_graph_options(positional=True, writes=False, served=True)
@revision_options
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
    check_revision(branch, at, snapshot)
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
        said = f"exported {result.rows} rows in {len(result.files)} files to {result.out}"
        print_result(result, said, as_json=as_json)
        return
    tables = view.info().tables
    total = sum(one.row_count for one in tables if not types or one.type_name in types)
    written = _Written()
    # On a terminal, progress would mix with the records.
    is_terminal = out in (None, "-") and sys.stdout is not None and sys.stdout.isatty()
    progress = nullcontext() if is_terminal else working("exporting", total=total, unit="records")
    with progress as work:
        write_whole(out, written.counting(view.export_jsonl(types or None), work), force=force)
    if as_json:
        rows, size = written.rows, written.size
        print_json({"out": out, "format": "jsonl", "rows": rows, "bytes": size})


@dataclass
class _Written:
    """A count of the rows and bytes written."""

    rows: int = 0
    size: int = 0

    def counting(self, blocks: Iterable[bytes], work: Work | None) -> Iterator[bytes]:
        """Yield the blocks unchanged and report progress to listeners."""
        for block in blocks:
            yield block
            lines = block.count(b"\n")
            self.rows, self.size = self.rows + lines, self.size + len(block)
            if work is not None:
                work.advance(lines)


Command = TypeVar("Command", bound=Callable[..., object])
Cell = tuple[str, str, str, str]
At = tuple[str | None, str | None, str | None]
"""The given branch, revision and snapshot."""


def add_cell_options(command: Command) -> Command:
    """Add the arguments that name one blob: type, id, property and revision, passed on unparsed."""
    decorated: Callable[..., object] = command
    for option in (
        revision_options,
        add_graph_options(positional=True, writes=False, served=True),
        click.argument("property_name", metavar="PROPERTY"),
        click.argument("entity_id", metavar="ID"),
        click.argument("type_name", metavar="TYPE"),
        click.argument("entity", metavar="ENTITY", type=click.Choice(["node", "edge"])),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[return-value]


@click.group()
def blob() -> None:
    """Read blob values."""


@blob.command("get", epilog=render_examples("blob get"))
@add_cell_options
@click.option("--offset", type=click.IntRange(min=0), metavar="N", help="The first byte to read.")
@click.option(
    "--length", type=click.IntRange(min=1), metavar="N", help="The maximum number of bytes to read."
)
@click.option("--range", "span", metavar="A-B", help="Bytes A to B, inclusive; also A- and -N.")
@click.option("--out", type=FILE, metavar="PATH", help="Write to a file instead of stdout.")
@force_option
def get(
    scope: CommandTarget,
    entity: str,
    type_name: str,
    entity_id: str,
    property_name: str,
    branch: str | None,
    at: str | None,
    snapshot: str | None,
    offset: int | None,
    length: int | None,
    span: str | None,
    out: str | None,
    force: bool,
) -> None:
    """Write the bytes of a blob, or a range of them, as they are.

    ENTITY is node or edge.
    """
    if span is not None and (offset is not None or length is not None):
        raise click.UsageError("give either --range, or --offset and --length")
    require_free(out, force=force)
    cell = (entity, type_name, entity_id, property_name)
    first, last, final = _parse_span(span)
    if first is not None:
        offset, length = first, None if last is None else last - first + 1
    found = _find(scope, cell, (branch, at, snapshot), offset, length)
    if final is not None:
        start = max(0, (found.size or 0) - final)
        found = _find(scope, cell, (None, None, found.stat.snapshot_id), start, None)
    write_whole(out, found.chunks(), force=force)


@blob.command("stat", epilog=render_examples("blob stat"))
@add_cell_options
@json_option
def stat(
    scope: CommandTarget,
    entity: str,
    type_name: str,
    entity_id: str,
    property_name: str,
    branch: str | None,
    at: str | None,
    snapshot: str | None,
    as_json: bool,
) -> None:
    """Show the metadata of a blob without reading its value.

    ENTITY is node or edge.
    """
    cell = (entity, type_name, entity_id, property_name)
    found = _find(scope, cell, (branch, at, snapshot), None, None).stat
    print_result(found, describe_members(found.wire()), as_json=as_json)


def _find(scope: CommandTarget, cell: Cell, at: At, start: int | None, length: int | None) -> Blob:
    entity, type_name, entity_id, property_name = cell
    view = open_view(scope, *at)
    return view.read_blob(
        type_name, entity_id, property_name, kind=entity, start=start, length=length
    )


def _parse_span(text: str | None) -> tuple[int | None, int | None, int | None]:
    """Parse the first byte, the last one, and the number from the end; None if absent."""
    if text is None:
        return None, None, None
    found = re.fullmatch(r"(?P<first>\d{1,18})-(?P<last>\d{0,18})|-(?P<final>\d{1,18})", text)
    if found is None:
        raise click.UsageError("--range must be A-B, A- or -N, in bytes")
    first, last, final = (int(found[g]) if found[g] else None for g in ("first", "last", "final"))
    if (first is not None and last is not None and last < first) or final == 0:
        raise click.UsageError("--range selects no bytes")
    return first, last, final


@click.command(epilog=render_examples("snapshot"))
@add_graph_options(positional=True, writes=False, served=True)
@revision_options
@json_option
def snapshot(
    scope: CommandTarget, branch: str | None, at: str | None, snapshot: str | None, as_json: bool
) -> None:
    """Show the table versions that make up a branch, now or at a revision."""
    info = open_view(scope, branch, at, snapshot).info()
    print_result(info, _describe_snapshot(info), as_json=as_json)


def _describe_snapshot(info: SnapshotInfo) -> Iterator[str]:
    yield f"branch {info.graph_branch} at manifest version {info.graph_manifest_version}"
    yield f"snapshot {info.snapshot_id}"
    yield f"internal-schema {info.internal_schema_version}"
    for table in info.tables:
        where = f" on {table.table_branch}" if table.table_branch else ""
        yield f"{table.table_key}  version {table.manifest_version}{where}  {table.row_count} rows"
