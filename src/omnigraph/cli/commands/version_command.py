"""`omnigraph version`."""

from __future__ import annotations

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__


@click.command(epilog=render_examples("version"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def version(as_json: bool) -> None:
    """Print the release and the storage format it reads and writes."""
    if as_json:
        print_json({"version": __version__, "internal_schema_version": INTERNAL_SCHEMA_VERSION})
        return
    click.echo(f"omnigraph {__version__}")
    click.echo(f"internal-schema {INTERNAL_SCHEMA_VERSION}")
