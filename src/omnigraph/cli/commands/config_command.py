"""`omnigraph config …`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import note, print_json
from omnigraph.cli.process_settings import describe_unknown_settings
from omnigraph.client.operator_config import FILE_NAME, find_config_folder, read_config

if TYPE_CHECKING:
    from omnigraph.environment import Setting


@click.group()
def config() -> None:
    """Show the operator's configuration."""


@config.command("path", epilog=render_examples("config path"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def path(as_json: bool) -> None:
    """Print where the file is, or would be."""
    place = find_config_folder() / FILE_NAME
    if as_json:
        print_json({"path": str(place), "exists": place.is_file()})
    else:
        click.echo(place)


@config.command("show", epilog=render_examples("config show"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(as_json: bool) -> None:
    """Show the configuration that was read, with defaults filled in."""
    body = read_config(find_config_folder(), lambda message: note(f"warning: {message}")).wire()
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


@config.command("settings", epilog=render_examples("config settings"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def settings(as_json: bool) -> None:
    """Show every setting, its value in this environment and its default; secrets are not shown."""
    from omnigraph.settings import SETTINGS

    rows = [_describe_setting(one) for one in SETTINGS]
    unknown = list(describe_unknown_settings())
    if as_json:
        print_json({"settings": rows, "unknown": unknown})
        return
    for problem in unknown:
        note(f"warning: {problem}")
    for row in rows:
        value = row["value"] if row["value"] is not None else "-"
        source = "" if row["is_set"] else "  (default)"
        click.echo(f"{row['name']} = {value}{source}")


def _describe_setting(one: Setting[Any]) -> dict[str, object]:
    value = one.show(one.read(os.environ)) or None
    is_set = bool(os.environ.get(one.name, "").strip())
    return {
        "name": one.name,
        "value": "***" if value and one.is_secret else value,
        "is_set": is_set,
        "default": one.show(one.default) or None,
        "type": one.kind.label.replace("`", ""),
        "applies": one.applies,
        "help": one.help,
    }


@config.command("token", epilog=render_examples("config token"))
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def token(url: str, as_json: bool) -> None:
    """Show where the token for a server's address comes from, but not the token."""
    from omnigraph.client.credentials import choose_token, find_server

    folder = find_config_folder()
    servers = read_config(folder, lambda message: note(f"warning: {message}")).servers
    found = choose_token(url, servers, os.environ, folder / "credentials")
    server, source = find_server(url, servers), found.source if found else None
    if as_json:
        print_json({"url": url, "server": server, "source": source})
    else:
        click.echo(
            f"{url}: {f'server {server}' if server else 'no declared server'}, "
            f"{f'token from {source}' if source else 'no token'}"
        )
