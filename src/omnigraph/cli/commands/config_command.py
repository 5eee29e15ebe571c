"""`omnigraph config …`, `profile …`, `login`, `logout`, `completion` and `version`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from omnigraph.cli.examples import render_examples
from omnigraph.cli.input_files import read_stdin_line
from omnigraph.cli.scope_resolution import describe_unknown_settings
from omnigraph.cli.shell_completion import complete_profile, complete_server
from omnigraph.cli.terminal import describe_members, json_option, note, print_result
from omnigraph.client.operator_config import (
    FILE_NAME,
    OperatorConfig,
    OperatorProfile,
    find_active_profile,
    find_config_folder,
    read_config,
)
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    from omnigraph.settings.environment import Setting


@click.group()
def config() -> None:
    """Show the operator's configuration."""


@config.command("path", epilog=render_examples("config path"))
@json_option
def path(as_json: bool) -> None:
    """Print the path of the configuration file, whether it exists or not."""
    file = find_config_folder() / FILE_NAME
    document = {"path": str(file), "exists": file.is_file()}
    print_result(document, str(file), as_json=as_json)


@config.command("show", epilog=render_examples("config show"))
@json_option
def show(as_json: bool) -> None:
    """Show the configuration that was read, with defaults filled in."""
    body = read_config(find_config_folder(), lambda message: note(f"warning: {message}")).wire()
    print_result(body, map(_describe_member, body.items()), as_json=as_json)


def _describe_member(member: tuple[str, object]) -> str:
    name, value = member
    match value:
        case None:
            shown = ""
        case dict():
            shown = ", ".join(f"{key} ({address})" for key, address in value.items())
        case list():
            shown = ", ".join(map(str, value))
        case _:
            shown = str(value)
    return f"{name}: {shown}".rstrip()


@config.command("settings", epilog=render_examples("config settings"))
@json_option
def settings(as_json: bool) -> None:
    """Show every setting, its value in this environment and its default; secrets are not shown."""
    from omnigraph.settings import SETTINGS

    rows = [_describe_setting(one) for one in SETTINGS]
    unknown = list(describe_unknown_settings())
    for problem in () if as_json else unknown:
        note(f"warning: {problem}")
    document = {"settings": rows, "unknown": unknown}
    print_result(document, map(_draw_setting, rows), as_json=as_json)


def _draw_setting(row: dict[str, object]) -> str:
    value = row["value"] if row["value"] is not None else "-"
    return f"{row['name']} = {value}{'' if row['is_set'] else '  (default)'}"


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
@json_option
def token(url: str, as_json: bool) -> None:
    """Show where the token for a server's address comes from, but not the token."""
    from omnigraph.client.operator_config import choose_token, find_server

    folder = find_config_folder()
    servers = read_config(folder, lambda message: note(f"warning: {message}")).servers
    found = choose_token(url, servers, os.environ, folder / "credentials")
    server, source = find_server(url, servers), found.source if found else None
    declared = f"server {server}" if server else "no declared server"
    said = f"{url}: {declared}, {f'token from {source}' if source else 'no token'}"
    print_result({"url": url, "server": server, "source": source}, said, as_json=as_json)


@click.group()
def profile() -> None:
    """Show the operator's profiles."""


@profile.command("list", epilog=render_examples("profile list"))
@json_option
def list_profiles(as_json: bool) -> None:
    """List the profiles; the active one is marked."""
    config = _read_config()
    found = [_summarize(one) for one in config.profiles.values()]
    print_result(found, map(_describe_summary, found), as_json=as_json)


def _describe_summary(one: Mapping[str, object]) -> str:
    shown = one["error"] if one["error"] else f"{one['scope_kind']} {one['target']}"
    return f"{one['name']}  {shown}{' (active)' if one['active'] else ''}"


@profile.command("show", epilog=render_examples("profile show"))
@click.argument("name", required=False, shell_complete=complete_profile)
@json_option
def show_profile(name: str | None, as_json: bool) -> None:
    """Show one profile, the active one, or the defaults."""
    config = _read_config()
    body = _describe_profile(config, name or find_active_profile())
    lines = (f"  {line}" for line in describe_members(body))
    print_result(body, lines, as_json=as_json)


def _read_config() -> OperatorConfig:
    return read_config(find_config_folder(), lambda message: note(f"warning: {message}"))


def _name_kind(one: OperatorProfile) -> tuple[str, str | None]:
    for kind in ("server", "cluster", "store"):
        target = getattr(one, kind)
        if target is not None:
            return kind, target
    return "none", None


def _summarize(one: OperatorProfile) -> dict[str, object]:
    kind, target = _name_kind(one)
    return {
        "name": one.name,
        "binding": f"{kind}:{target}" if target else None,
        "scope_kind": kind,
        "target": target,
        "valid": one.problem is None,
        "error": one.problem,
        "default_graph": one.default_graph,
        "active": one.name == find_active_profile(),
    }


def _describe_profile(config: OperatorConfig, name: str | None) -> dict[str, object]:
    if name is not None:
        one = config.profile(name)
        kind, target = _name_kind(one)
        graph = one.default_graph
    else:
        kind = "server" if config.default_server else "store" if config.default_store else "none"
        target, graph = config.default_server or config.default_store, config.default_graph
    match kind:
        case "server":
            endpoint = config.servers.get(target or "")
        case "cluster":
            endpoint = config.clusters.get(target or "", target)
        case _:
            endpoint = target
    return {
        "name": name or "(defaults)",
        "scope_kind": kind,
        "target": target,
        "endpoint": endpoint,
        "default_graph": graph,
        "output_format": config.output,
    }


@click.command(epilog=render_examples("login"))
@click.argument("name", shell_complete=complete_server)
@click.option("--token", metavar="T", help="The token; without it, one line of stdin is read.")
@json_option
def login(name: str, token: str | None, as_json: bool) -> None:
    """Store the token for server NAME in the operator's credentials file.

    A token given as an argument can be seen by others on this machine while the command runs.
    """
    from omnigraph.client.operator_config import check_name, store_token

    check_name(name)
    config = read_config(find_config_folder(), lambda message: note(f"warning: {message}"))
    given = (_prompt_token(name) if token is None else token).strip()
    if not given:
        raise click.ClickException("the token is empty; nothing was stored")
    path = find_config_folder() / "credentials"
    store_token(path, name, given)
    declared = name in config.servers
    if not declared:
        note(f"no server '{name}' is declared in the configuration yet")
    document = {"server": name, "credentials_path": str(path), "declared": declared}
    print_result(document, f"stored a token for {name} in {path}", as_json=as_json)


def _prompt_token(name: str) -> str:
    """Read one line of stdin; a terminal does not echo it."""
    if sys.stdin is None or not sys.stdin.isatty():
        return read_stdin_line()
    from getpass import getpass

    try:
        return getpass(f"token for {name}: ", stream=sys.stderr)
    except EOFError:
        return ""


@click.command(epilog=render_examples("logout"))
@click.argument("name", shell_complete=complete_server)
@json_option
def logout(name: str, as_json: bool) -> None:
    """Remove the token for server NAME, if there is one."""
    from omnigraph.client.operator_config import remove_token

    path = find_config_folder() / "credentials"
    is_removed = remove_token(path, name)
    document = {"server": name, "credentials_path": str(path), "removed": is_removed}
    missing = f"there is no token for {name} in {path}; nothing was removed"
    said = f"removed the token for {name} from {path}" if is_removed else missing
    print_result(document, said, as_json=as_json)


SHELLS = ("bash", "zsh", "fish")


@click.command(epilog=render_examples("completion"))
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the code that lets SHELL complete commands, options, files and names.

    \b
    bash  in ~/.bashrc: eval "$(omnigraph completion bash)"
    zsh   in ~/.zshrc, after compinit: eval "$(omnigraph completion zsh)"
    fish  once: omnigraph completion fish > ~/.config/fish/completions/omnigraph.fish
    """  # noqa: D301 - click keeps the lines behind this character as they are
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    root = click.get_current_context().find_root().command
    code = kind(root, {}, "omnigraph", "_OMNIGRAPH_COMPLETE").source()
    if shell == "fish":
        # Only the first comma ends a field: descriptions have commas of their own.
        code = code.replace('string split ","', 'string split --max 1 ","')
    click.echo(code)


@click.command(epilog=render_examples("version"))
@json_option
def version(as_json: bool) -> None:
    """Print the release and the storage format it reads and writes."""
    document = {"version": __version__, "internal_schema_version": INTERNAL_SCHEMA_VERSION}
    lines = f"omnigraph {__version__}", f"internal-schema {INTERNAL_SCHEMA_VERSION}"
    print_result(document, lines, as_json=as_json)
