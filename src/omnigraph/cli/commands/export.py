"""`omnigraph export`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from omnigraph.cli.files import write_whole
from omnigraph.cli.scope import Scope, graph_options
from omnigraph.progress import working


@click.command()
@graph_options(positional=True, writes=False)
@click.option("--branch", metavar="NAME", help="The branch to export; main by default.")
@click.option("--snapshot", metavar="ID", help="A commit or snapshot id instead of a branch.")
@click.option("--type", "types", multiple=True, metavar="T", help="Only this type; repeatable.")
@click.option("--out", metavar="PATH", help="Write to a file instead of stdout.")
def export(
    scope: Scope, branch: str | None, snapshot: str | None, types: tuple[str, ...], out: str | None
) -> None:
    """Write every record of a branch as JSON lines that load back as the same graph."""
    if branch is not None and snapshot is not None:
        raise click.UsageError("give a branch or a snapshot, not both")
    view = scope.open(read_only=True).at(snapshot=snapshot, branch=branch or "main")
    tables = [table.wire() for table in view.info().tables]
    total = sum(
        int(str(table["entity_count"]))
        for table in tables
        if not types or table["type_name"] in types
    )
    write_whole(out, _told(view.export_jsonl(types or None), total))


def _told(blocks: Iterable[bytes], total: int) -> Iterator[bytes]:
    """The same blocks, and how far they have come."""
    with working("exporting", total=total, unit="records") as work:
        for block in blocks:
            yield block
            work.advance(block.count(b"\n"))
