"""Which graph a command means: an address, a profile, or the operator's default."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.completion_words import complete_profile, complete_store
from omnigraph.cli.output import note
from omnigraph.cli.process_settings import read_settings
from omnigraph.cli.terminal import make_room
from omnigraph.client.operator_config import (
    OperatorConfig,
    find_active_profile,
    find_config_folder,
    read_config,
)

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph

Command = TypeVar("Command", bound=Callable[..., object])

_QUERY_NAME = re.compile(r"\w+")
"""What a query can be called; anything else in its place is the address of a graph."""
_MANIFEST = "__manifest"
"""What every folder with a graph has."""
_OTHER_ARGUMENTS = (
    *("branch_name", "new_name", "tag_name", "commit_id", "property_name"),
    *("before", "after", "consumer_name", "entity_id"),
)
"""Arguments that stand before the address of the graph."""
_NEEDS_STORAGE = (
    "this release opens graphs in storage only: pass the address of one as an argument, "
    "with --store or --uri, or choose a profile that names a store"
)


@dataclass(frozen=True, slots=True)
class CommandTarget:
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

        settings = read_settings()
        return open_graph(self.uri, read_only=read_only, actor=self.actor, settings=settings)

    def quarantine(self, operation_id: str) -> str:
        """Set aside an intent that keeps the graph from being opened."""
        from omnigraph.graph.graph import quarantine

        return quarantine(self.uri, operation_id, settings=read_settings())

    def echo(self, verb: str) -> None:
        """Say on stderr what is about to be changed, and where."""
        if not self.quiet:
            note(f"{verb} → {self.uri} (direct, {'local' if self.is_local else 'remote'})")


def add_graph_options(
    *, positional: bool, writes: bool, offline: tuple[str, ...] = ()
) -> Callable[[Command], Command]:
    """The options by which every graph verb is addressed; the command gets a `CommandTarget`.

    With `offline`, names of parameters, a command that is given one of them works on files alone
    and gets no scope: naming a graph besides is a mistake.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(*args: object, **given: object) -> object:
            _shift_address(given)
            files = [name for name in offline if given.get(name)]
            if files:
                _refuse_address(given, files[0])
                given["scope"] = None
                return command(*args, **given)
            _refuse_other_order(given)
            given["scope"] = resolve_scope(
                [given.pop(name, None) for name in ("graph_uri", "uri", "store")],
                given.pop("profile", None),
                given.pop("actor", None),
                quiet=bool(given.pop("quiet", False)),
            )
            return command(*args, **given)

        decorated: Callable[..., object] = run
        own = list(getattr(run, "__click_params__", ()))
        for option in _list_options(positional=positional, writes=writes):
            decorated = option(decorated)
        _show_last(decorated, len(own))
        return decorated  # type: ignore[return-value]

    return decorate


def _show_last(decorated: Callable[..., object], own: int) -> None:
    """Put the options of every graph verb behind those of the verb itself in its help."""
    parameters: list[click.Parameter] = decorated.__click_params__  # type: ignore[attr-defined]
    added = parameters[own:]
    del parameters[own:]
    parameters[:0] = [one for one in added if isinstance(one, click.Option)]
    parameters += [one for one in added if not isinstance(one, click.Option)]


def _shift_address(given: dict[str, object]) -> None:
    """Let the address stand first too: alone, where a query needs no name, or before the name."""
    name, address = given.get("name"), given.get("graph_uri")
    if not name or (_QUERY_NAME.fullmatch(str(name)) and not _is_only_address(given, str(name))):
        return
    if address is None or _QUERY_NAME.fullmatch(str(address)):
        given["graph_uri"], given["name"] = name, address


def _is_only_address(given: dict[str, object], name: str) -> bool:
    """Whether what could be a name is a folder with a graph, and nothing else says where it is."""
    is_elsewhere = any(given.get(one) for one in ("graph_uri", "uri", "store", "profile"))
    return not is_elsewhere and (Path(name) / _MANIFEST).is_dir()


def _refuse_other_order(given: dict[str, object]) -> None:
    """Notice a folder where something else is named, and nothing where the graph should be."""
    address = str(given.get("graph_uri") or "")
    if not address or "://" in address or Path(address).exists():
        return
    for name in _OTHER_ARGUMENTS:
        other = given.get(name)
        if other and Path(str(other)).is_dir():
            raise click.UsageError(
                f"nothing found at '{address}', and '{other}' is a folder: "
                "the address of the graph comes last"
            )


def _refuse_address(given: dict[str, object], parameter: str) -> None:
    named = [given.pop(name, None) for name in ("graph_uri", "uri", "store", "profile")]
    if any(named):
        flag = f"--{parameter.removesuffix('_path').replace('_', '-')}"
        raise click.UsageError(f"give a graph or {flag}, not both")
    for name in ("actor", "quiet"):
        given.pop(name, None)


def _list_options(*, positional: bool, writes: bool) -> list[Callable[..., Callable[..., object]]]:
    options: list[Callable[..., Callable[..., object]]] = [
        click.option("--quiet", is_flag=True, help="Do not print what is being changed."),
        click.option(
            "--profile",
            metavar="NAME",
            shell_complete=complete_profile,
            help="A profile of the operator's config.",
        ),
        *add_address_options(),
    ]
    if writes:
        options.insert(
            1,
            click.option(
                "--as", "actor", metavar="ACTOR", help="The actor the change is recorded for."
            ),
        )
    if positional:
        options.append(
            click.argument(
                "graph_uri", required=False, metavar="[URI]", shell_complete=complete_store
            )
        )
    return options


def add_address_options() -> list[Callable[..., Callable[..., object]]]:
    """Two names for the option that says where a graph is."""
    return [
        click.option(
            "--uri", metavar="URI", shell_complete=complete_store, help="The same as --store."
        ),
        click.option(
            "--store", metavar="URI", shell_complete=complete_store, help="The graph's storage."
        ),
    ]


def take_only_address(addresses: list[object]) -> str | None:
    """The one address that is given, if any; naming a graph twice is a mistake."""
    given = [str(address) for address in addresses if address]
    if len(given) > 1:
        raise click.UsageError("give the graph once: as an argument, with --uri or with --store")
    return _require_storage(given[0]) if given else None


def _require_storage(uri: str) -> str:
    if uri.startswith(("http://", "https://")):
        raise click.UsageError(f"'{uri}' is a server; {_NEEDS_STORAGE}")
    return uri


def resolve_scope(
    addresses: list[object], profile: object, actor: object, *, quiet: bool
) -> CommandTarget:
    """The one graph that is meant; more than one address is a mistake, none asks the config."""
    config = read_config(find_config_folder(), lambda message: note(f"warning: {message}"))
    uri = take_only_address(addresses) or _require_storage(_from_config(config, profile))
    chosen = str(actor) if actor else config.actor
    return CommandTarget(uri, chosen, config, quiet)


def _from_config(config: OperatorConfig, profile: object) -> str:
    name = str(profile) if profile else find_active_profile()
    if name:
        chosen = config.profile(name)
        if chosen.store is None:
            what = f"server '{chosen.server}'" if chosen.server else f"cluster '{chosen.cluster}'"
            raise click.UsageError(f"profile '{name}' names {what}; {_NEEDS_STORAGE}")
        return chosen.store
    if config.default_store:
        return config.default_store
    if config.default_server:
        named = f"defaults.server names server '{config.default_server}'"
        raise click.UsageError(f"{named}; {_NEEDS_STORAGE}")
    raise click.UsageError(
        "no graph given: pass its address as an argument, with --store or --uri, "
        "or choose a --profile"
    )


def ask_consent(scope: CommandTarget, verb: str, *, yes: bool, as_json: bool) -> None:
    """Ask before something destructive is done to a graph that is not on this machine."""
    if scope.is_local or yes:
        return
    stdin = sys.stdin
    if as_json or stdin is None or not stdin.isatty():
        raise click.ClickException(f"{verb} on {scope.uri} needs --yes")
    make_room()
    click.echo(f"{verb} on {scope.uri}: type yes to continue: ", err=True, nl=False)
    if stdin.readline().strip().lower() not in ("y", "yes"):
        raise click.ClickException("nothing was done")
