"""`omnigraph export`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from omnigraph.cli.scope import Scope, graph_options


@click.command()
@graph_options(positional=True, writes=False)
@click.option("--branch", default="main", show_default=True, help="The branch to export.")
@click.option("--snapshot", metavar="ID", help="A commit or snapshot id instead of the head.")
@click.option("--type", "types", multiple=True, metavar="T", help="Only this type; repeatable.")
@click.option("--out", metavar="PATH", help="Write to a file instead of stdout.")
def export(
    scope: Scope, branch: str, snapshot: str | None, types: tuple[str, ...], out: str | None
) -> None:
    """Write every record of a branch as JSON lines that load back as the same graph."""
    view = scope.open(read_only=True).at(snapshot=snapshot, branch=branch)
    blocks = view.export_jsonl(types or None)
    if out is None:
        stream = sys.stdout.buffer
        for block in blocks:
            stream.write(block)
        stream.flush()
        return
    target = Path(out)
    partial = target.with_name(target.name + ".partial")
    with partial.open("wb") as file:
        for block in blocks:
            file.write(block)
    partial.replace(target)
