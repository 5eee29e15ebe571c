"""`omnigraph blob …`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.completion_words import FILE
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import force_option, require_free, write_whole
from omnigraph.cli.output import print_json
from omnigraph.cli.place_options import open_view, place_options

if TYPE_CHECKING:
    from omnigraph.graph.blobs import Blob

Command = TypeVar("Command", bound=Callable[..., object])
Cell = tuple[str, str, str, str]
At = tuple[str | None, str | None, str | None]
"""The branch, the place and the snapshot that are given."""


def add_cell_options(command: Command) -> Command:
    """Which cell of which view; the command gets the arguments as they are written."""
    decorated: Callable[..., object] = command
    for option in (
        place_options,
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
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
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
    body = _find(scope, cell, (branch, at, snapshot), None, None).stat.wire()
    if as_json:
        print_json(body)
        return
    for name, value in body.items():
        click.echo(f"{name}: {'' if value is None else value}")


def _find(scope: CommandTarget, cell: Cell, at: At, start: int | None, length: int | None) -> Blob:
    entity, type_name, entity_id, property_name = cell
    view = open_view(scope, *at)
    return view.read_blob(
        type_name, entity_id, property_name, kind=entity, start=start, length=length
    )


def _parse_span(text: str | None) -> tuple[int | None, int | None, int | None]:
    """The first byte, the last one, and how many from the end; what is not said is None."""
    if text is None:
        return None, None, None
    found = re.fullmatch(r"(?P<first>\d{1,18})-(?P<last>\d{0,18})|-(?P<final>\d{1,18})", text)
    if found is None:
        raise click.UsageError("--range must be A-B, A- or -N, in bytes")
    first, last, final = (int(found[g]) if found[g] else None for g in ("first", "last", "final"))
    if (first is not None and last is not None and last < first) or final == 0:
        raise click.UsageError("--range selects no bytes")
    return first, last, final
