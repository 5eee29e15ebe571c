"""Which graph a command means: an address, a profile, or the operator's default."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.config import OperatorConfig, active_profile, config_folder, read_config
from omnigraph.cli.output import note
from omnigraph.cli.terminal import make_room

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph

Command = TypeVar("Command", bound=Callable[..., object])

_QUERY_NAME = re.compile(r"\w+")
"""What a query can be called; anything else in its place is the address of a graph."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The resolved target of a command and who runs it."""

    uri: str
    actor: str | None
    config: OperatorConfig
    quiet: bool

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri or self.uri.startswith("file://")

    def open(self, *, read_only: bool) -> Graph:
        from omnigraph.graph.graph import open as open_graph
        from omnigraph.settings import Settings

        settings = Settings.from_environment(os.environ)
        return open_graph(self.uri, read_only=read_only, actor=self.actor, settings=settings)

    def quarantine(self, operation_id: str) -> str:
        """Set aside an intent that keeps the graph from being opened."""
        from omnigraph.graph.graph import quarantine
        from omnigraph.settings import Settings

        settings = Settings.from_environment(os.environ)
        return quarantine(self.uri, operation_id, settings=settings)

    def echo(self, verb: str) -> None:
        """Say on stderr what is about to be changed, and where."""
        if not self.quiet:
            note(f"{verb} → {self.uri} (direct, {'local' if self.is_local else 'remote'})")


def graph_options(
    *, positional: bool, writes: bool, offline: str | None = None
) -> Callable[[Command], Command]:
    """The options by which every graph verb is addressed; the command gets a `Scope`.

    With `offline`, the name of a parameter, a command that is given it works on files alone and
    gets no scope: naming a graph besides is a mistake.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(*args: object, **given: object) -> object:
            _shift_address(given)
            if offline is not None and given.get(offline):
                _refuse_address(given, offline)
                given["scope"] = None
                return command(*args, **given)
            given["scope"] = resolve_scope(
                [given.pop(name, None) for name in ("graph_uri", "uri", "store")],
                given.pop("profile", None),
                given.pop("actor", None),
                quiet=bool(given.pop("quiet", False)),
            )
            return command(*args, **given)

        decorated: Callable[..., object] = run
        for option in _options(positional=positional, writes=writes):
            decorated = option(decorated)
        return decorated  # type: ignore[return-value]

    return decorate


def _shift_address(given: dict[str, object]) -> None:
    """Let a command whose query needs no name take the address as its one argument."""
    name = given.get("name")
    if name and given.get("graph_uri") is None and not _QUERY_NAME.fullmatch(str(name)):
        given["graph_uri"], given["name"] = name, None


def _refuse_address(given: dict[str, object], offline: str) -> None:
    named = [given.pop(name, None) for name in ("graph_uri", "uri", "store", "profile")]
    if any(named):
        flag = f"--{offline.removesuffix('_path').replace('_', '-')}"
        raise click.UsageError(f"give a graph or {flag}, not both")
    for name in ("actor", "quiet"):
        given.pop(name, None)


def _options(*, positional: bool, writes: bool) -> list[Callable[..., Callable[..., object]]]:
    options: list[Callable[..., Callable[..., object]]] = [
        click.option("--quiet", is_flag=True, help="Do not say what is being changed."),
        click.option("--profile", metavar="NAME", help="A profile of the operator's config."),
        click.option("--store", metavar="URI", help="The graph's storage."),
        click.option("--uri", metavar="URI", help="The same as --store."),
    ]
    if writes:
        options.insert(0, click.option("--as", "actor", metavar="ACTOR", help="Who does this."))
    if positional:
        options.append(click.argument("graph_uri", required=False, metavar="[URI]"))
    return options


def resolve_scope(addresses: list[object], profile: object, actor: object, *, quiet: bool) -> Scope:
    """The one graph that is meant; more than one address is a mistake, none asks the config."""
    config = read_config(config_folder(), lambda message: note(f"warning: {message}"))
    given = [str(address) for address in addresses if address]
    if len(given) > 1:
        raise click.UsageError("give the graph once: as an argument, with --uri or with --store")
    uri = given[0] if given else _from_config(config, profile)
    if uri.startswith(("http://", "https://")):
        raise click.UsageError(f"'{uri}' is a server; this command needs a graph's storage")
    chosen = str(actor) if actor else config.actor
    return Scope(uri, chosen, config, quiet)


def _from_config(config: OperatorConfig, profile: object) -> str:
    name = str(profile) if profile else active_profile()
    if name:
        store = config.profile(name).store
        if store is None:
            raise click.UsageError(f"profile '{name}' names no store")
        return store
    if config.default_store:
        return config.default_store
    raise click.UsageError(
        "no graph given: pass its address as an argument, with --store or --uri, "
        "or choose a --profile"
    )


def consent(scope: Scope, verb: str, *, yes: bool, as_json: bool) -> None:
    """Ask before something destructive is done to a graph that is not on this machine."""
    if scope.is_local or yes:
        return
    stdin = sys.stdin
    if as_json or stdin is None or not stdin.isatty():
        raise click.ClickException(f"{verb} on {scope.uri} needs --yes")
    make_room()
    click.echo(f"{verb} on {scope.uri}: type yes to go on: ", err=True, nl=False)
    if stdin.readline().strip().lower() not in ("y", "yes"):
        raise click.ClickException("nothing was done")
