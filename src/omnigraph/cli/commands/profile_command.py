"""`omnigraph profile …`."""

from __future__ import annotations

import click

from omnigraph.cli.completion_words import complete_profile
from omnigraph.cli.examples import render_examples
from omnigraph.cli.output import note, print_json
from omnigraph.client.operator_config import (
    OperatorConfig,
    OperatorProfile,
    find_active_profile,
    find_config_folder,
    read_config,
)


@click.group()
def profile() -> None:
    """Show the operator's profiles."""


@profile.command("list", epilog=render_examples("profile list"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_(as_json: bool) -> None:
    """List the profiles; the active one is marked."""
    config = _read_config()
    found = [_summarize(one) for one in config.profiles.values()]
    if as_json:
        print_json(found)
        return
    for one in found:
        mark = " (active)" if one["active"] else ""
        shown = one["error"] if one["error"] else f"{one['scope_kind']} {one['target']}"
        click.echo(f"{one['name']}  {shown}{mark}")


@profile.command("show", epilog=render_examples("profile show"))
@click.argument("name", required=False, shell_complete=complete_profile)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(name: str | None, as_json: bool) -> None:
    """Show one profile, the active one, or the defaults."""
    config = _read_config()
    body = _describe_profile(config, name or find_active_profile())
    if as_json:
        print_json(body)
        return
    for key, value in body.items():
        click.echo(f"  {key}: {'' if value is None else value}")


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
