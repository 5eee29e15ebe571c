"""`omnigraph snapshot`."""

from __future__ import annotations

import click

from omnigraph.cli.command_target import CommandTarget, add_graph_options
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import print_json
from omnigraph.cli.place_options import open_view, place_options


@click.command(epilog=render_examples("snapshot"))
@add_graph_options(positional=True, writes=False, served=True)
@place_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def snapshot(
    scope: CommandTarget, branch: str | None, at: str | None, snapshot: str | None, as_json: bool
) -> None:
    """Show which version of which table makes up a branch, now or as it was."""
    info = open_view(scope, branch, at, snapshot).info()
    if as_json:
        print_json(info.wire())
        return
    click.echo(f"branch {info.graph_branch} at manifest version {info.graph_manifest_version}")
    click.echo(f"snapshot {info.snapshot_id}")
    click.echo(f"internal-schema {info.internal_schema_version}")
    for table in info.tables:
        where = f" on {table.table_branch}" if table.table_branch else ""
        click.echo(
            f"{table.table_key}  version {table.manifest_version}{where}  {table.row_count} rows"
        )
