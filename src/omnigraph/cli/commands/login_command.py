"""`omnigraph login` and `omnigraph logout`."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.completion_words import complete_server
from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_stdin_line
from omnigraph.cli.output import note, print_json
from omnigraph.client.operator_config import find_config_folder, read_config


@click.command(epilog=render_examples("login"))
@click.argument("name", shell_complete=complete_server)
@click.option("--token", metavar="T", help="The token; without it, one line of stdin is read.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def login(name: str, token: str | None, as_json: bool) -> None:
    """Store the token for server NAME in the operator's credentials file.

    A token given as an argument can be seen by others on this machine while the command runs.
    """
    from omnigraph.client.credentials import check_name, store_token

    check_name(name)
    config = read_config(find_config_folder(), lambda message: note(f"warning: {message}"))
    given = (_read_typed_token(name) if token is None else token).strip()
    if not given:
        raise click.ClickException("the token is empty; nothing was stored")
    path = find_config_folder() / "credentials"
    store_token(path, name, given)
    declared = name in config.servers
    if not declared:
        note(f"no server '{name}' is declared in the configuration yet")
    if as_json:
        print_json({"server": name, "credentials_path": str(path), "declared": declared})
    else:
        click.echo(f"stored a token for {name} in {path}")


def _read_typed_token(name: str) -> str:
    """One line of stdin; what is typed at a terminal is not shown there."""
    if sys.stdin is None or not sys.stdin.isatty():
        return read_stdin_line()
    from getpass import getpass

    try:
        return getpass(f"token for {name}: ", stream=sys.stderr)
    except EOFError:
        return ""


@click.command(epilog=render_examples("logout"))
@click.argument("name", shell_complete=complete_server)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def logout(name: str, as_json: bool) -> None:
    """Remove the token for server NAME, if there is one."""
    from omnigraph.client.credentials import remove_token

    path = find_config_folder() / "credentials"
    is_removed = remove_token(path, name)
    if as_json:
        print_json({"server": name, "credentials_path": str(path), "removed": is_removed})
    elif is_removed:
        click.echo(f"removed the token for {name} from {path}")
    else:
        click.echo(f"there is no token for {name} in {path}; nothing was removed")
