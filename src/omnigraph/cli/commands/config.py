"""`omnigraph config …`."""

from __future__ import annotations

import click

from omnigraph.cli.config import config_folder, read_config
from omnigraph.cli.output import note, print_json


@click.group()
def config() -> None:
    """Look at the operator's configuration."""


@config.command("path")
def path() -> None:
    """Print where the file is, or would be."""
    click.echo(config_folder() / "config.yaml")


@config.command("show")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(as_json: bool) -> None:
    """Show the file as it was understood, with the defaults of what it leaves out."""
    body = read_config(config_folder(), lambda message: note(f"warning: {message}")).wire()
    if as_json:
        print_json(body)
        return
    for name, value in body.items():
        match value:
            case None:
                shown = ""
            case dict():
                shown = ", ".join(f"{key} ({address})" for key, address in value.items())
            case list():
                shown = ", ".join(map(str, value))
            case _:
                shown = str(value)
        click.echo(f"{name}: {shown}".rstrip())
