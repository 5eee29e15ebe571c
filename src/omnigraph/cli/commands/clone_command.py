"""`omnigraph clone`."""

from __future__ import annotations

import click

from omnigraph.cli.completion_words import complete_store
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json
from omnigraph.cli.process_settings import read_settings


@click.command(epilog=render_examples("clone"))
@click.argument("source", metavar="SOURCE", shell_complete=complete_store)
@click.argument("target", metavar="TARGET", shell_complete=complete_store)
@click.option(
    "--branch",
    "branches",
    multiple=True,
    metavar="NAME",
    help="Copy only this branch, main, and the branches it was created from; repeatable.",
)
@click.option("--shallow", is_flag=True, help="Copy only the newest state of each branch.")
@click.option("--force", is_flag=True, help="Restart an interrupted clone.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def clone(
    source: str, target: str, branches: tuple[str, ...], shallow: bool, force: bool, as_json: bool
) -> None:
    """Copy the graph at SOURCE to TARGET, while it may be written.

    Both are paths, file:// or s3:// addresses. SOURCE is not changed.
    """
    from omnigraph.graph.graph import clone as copy

    done = copy(
        source, target, branches=branches, shallow=shallow, force=force, settings=read_settings()
    )
    if as_json:
        print_json(done.wire())
        return
    names = ", ".join(done.branches)
    click.echo(f"cloned {done.source} to {done.uri}")
    click.echo(f"{done.files:,} files, {done.bytes:,} bytes; branches: {names}")
