"""Which graph a command means: in storage or behind a server. The one place that decides it.

An address, a server, a profile or the operator's defaults name it, in this order. Commands that a
server can carry out work on what `CommandTarget.reach` gives, wherever the graph is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from omnigraph.cli.output import note
from omnigraph.cli.process_settings import read_settings
from omnigraph.client.operator_config import (
    OperatorConfig,
    find_active_profile,
    find_config_folder,
    read_config,
)
from omnigraph.client.server_address import ServerAddress, parse_graph_address, parse_server

if TYPE_CHECKING:
    from omnigraph.client.served_graph import ServedGraph
    from omnigraph.graph.graph import Graph

_NEEDS_STORAGE = (
    "this command needs the storage of the graph: pass its address as an argument, with --store or "
    "--uri, or choose a profile that names a store"
)
_WAYS = (
    "pass its address as an argument, with --store or --uri, a server with --server, "
    "or choose a --profile"
)


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """The resolved target of a command and who runs it."""

    uri: str
    actor: str | None
    config: OperatorConfig
    quiet: bool
    server: ServerAddress | None = None
    """The graph of a server; None for one in storage."""
    timeout_s: float | None = None
    """How long that server may stay silent."""

    @property
    def is_served(self) -> bool:
        return self.server is not None

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri or self.uri.startswith("file://")

    def reach(self, *, read_only: bool) -> Graph | ServedGraph:
        """The graph, wherever it is."""
        if self.server is None:
            return self.open(read_only=read_only)
        from omnigraph.client.served_graph import connect

        return connect(self.server.url, timeout=self.timeout_s)

    def open(self, *, read_only: bool) -> Graph:
        """The graph in storage."""
        from omnigraph.graph.graph import open as open_graph

        assert self.server is None, "a command that needs storage was given a server"
        settings = read_settings()
        return open_graph(self.uri, read_only=read_only, actor=self.actor, settings=settings)

    def quarantine(self, operation_id: str) -> str:
        """Set aside an intent that keeps the graph from being opened."""
        from omnigraph.graph.graph import quarantine

        return quarantine(self.uri, operation_id, settings=read_settings())

    def echo(self, verb: str) -> None:
        """Say on stderr what is about to be changed, and where."""
        if self.quiet:
            return
        where = "local" if self.is_local else "remote"
        note(f"{verb} → {self.uri} ({'served' if self.is_served else f'direct, {where}'})")


@dataclass(frozen=True, slots=True)
class AskedScope:
    """Everything on the command line that says which graph is meant, and who writes."""

    addresses: tuple[object, ...]
    """As an argument, with --uri and with --store."""
    server: object = None
    graph_id: object = None
    profile: object = None
    actor: object = None


def take_only_address(addresses: Sequence[object]) -> str | None:
    """The one address that is given, if any; naming a graph twice is a mistake."""
    given = [str(address) for address in addresses if address]
    if len(given) > 1:
        raise click.UsageError("give the graph once: as an argument, with --uri or with --store")
    return _require_storage(given[0]) if given else None


def _require_storage(uri: str) -> str:
    if uri.startswith(("http://", "https://")):
        raise click.UsageError(f"'{uri}' is a server; name it with --server, where that is taken")
    return uri


def resolve_scope(asked: AskedScope, *, served: bool, quiet: bool) -> CommandTarget:
    """The one graph that is meant; more than one address is a mistake, none asks the config."""
    config = read_config(find_config_folder(), lambda message: note(f"warning: {message}"))
    uri = take_only_address(asked.addresses)
    if uri is not None and asked.server:
        raise click.UsageError("give the graph once: its address or a server, not both")
    bound = _Bound(store=uri, server=asked.server) if uri or asked.server else None
    chosen = bound or _from_config(config, asked.profile)
    if chosen.server is None:
        assert chosen.store is not None, "one of the two is bound"
        if asked.graph_id:
            raise click.UsageError("--graph chooses a graph of a server; a store is a single graph")
        actor = str(asked.actor) if asked.actor else config.actor
        return CommandTarget(_require_storage(chosen.store), actor, config, quiet)
    if not served:
        raise click.UsageError(f"{chosen.origin}; {_NEEDS_STORAGE}")
    if asked.actor:
        raise click.UsageError(
            "--as is for graphs in storage; a server takes the actor from the token"
        )
    address = choose_served(find_server_address(config, str(chosen.server)), asked, chosen)
    return CommandTarget(address.url, None, config, quiet, address)


@dataclass(frozen=True, slots=True)
class _Bound:
    """Where a graph is: in a store, or behind a server."""

    store: str | None = None
    server: object = None
    graph_id: str | None = None
    origin: str = "--server names a server"


def _from_config(config: OperatorConfig, profile: object) -> _Bound:
    name = str(profile) if profile else find_active_profile()
    if name:
        chosen = config.profile(name)
        if chosen.cluster is not None:
            raise click.UsageError(f"profile '{name}' names cluster '{chosen.cluster}'; {_WAYS}")
        origin = f"profile '{name}' names server '{chosen.server}'"
        return _Bound(chosen.store, chosen.server, chosen.default_graph, origin)
    if config.default_store:
        return _Bound(config.default_store)
    if config.default_server:
        origin = f"defaults.server names server '{config.default_server}'"
        return _Bound(None, config.default_server, config.default_graph, origin)
    raise click.UsageError(f"no graph given: {_WAYS}")


def find_server_address(config: OperatorConfig, server: str) -> ServerAddress:
    """The server that a name of the configuration, or an address, stands for."""
    if "://" in server:
        return parse_server(server)
    url = config.servers.get(server)
    if url is None:
        known = ", ".join(sorted(config.servers)) or "none"
        raise click.UsageError(f"no such server '{server}'; declared in the configuration: {known}")
    return parse_server(url)


def resolve_server(server: str | None, profile: str | None) -> ServerAddress:
    """The server that is meant, without any graph of it."""
    config = read_config(find_config_folder(), lambda message: note(f"warning: {message}"))
    bound = _Bound(server=server) if server else _from_config(config, profile)
    if bound.server is None:
        raise click.UsageError("this command needs a server: give --server, or a profile of one")
    found = find_server_address(config, str(bound.server))
    return ServerAddress(found.base.partition("/graphs/")[0])


def choose_served(server: ServerAddress, asked: AskedScope, bound: _Bound) -> ServerAddress:
    """The graph of a server that is meant; which there are is asked only to tell them."""
    wanted = asked.graph_id or bound.graph_id
    if wanted:
        return server.select(str(wanted))
    if "/graphs/" in server.base:
        return parse_graph_address(server.base)
    raise click.UsageError(
        f"choose a graph of {server.base} with --graph{_describe_graphs(server)}"
    )


def _describe_graphs(server: ServerAddress) -> str:
    """The graphs of a server, where it tells; whatever goes wrong is no concern of the command."""
    from omnigraph.client.served_graph import list_graphs
    from omnigraph.errors import OmniError

    try:
        names = [one.graph_id for one in list_graphs(server).graphs]
    except OmniError:
        return ""
    return f": {', '.join(names)}" if names else ""
