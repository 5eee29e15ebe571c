"""Resolve the graph a command means: in storage, of a cluster or behind a server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli.terminal import note
from omnigraph.client.operator_config import (
    OperatorConfig,
    ServerAddress,
    find_active_profile,
    find_config_folder,
    parse_graph_address,
    parse_server,
    read_config,
)

if TYPE_CHECKING:
    from omnigraph.client.served_graph import ServedGraph
    from omnigraph.cluster.applied_cluster import AddressedGraph
    from omnigraph.graph.graph import Graph
    from omnigraph.settings import Settings


def read_settings(*, quietly: bool = False) -> Settings:
    """Read the settings of the environment and warn about unknown `OMNIGRAPH_` variables.

    A command that looks for something before its main work reads them `quietly` for that.
    """
    from omnigraph.settings import Settings

    for problem in () if quietly else describe_unknown_settings():
        note(f"warning: {problem}")
    return Settings.from_environment(os.environ)


def describe_unknown_settings() -> Iterator[str]:
    """Yield a message for each variable named like a setting that is none."""
    from omnigraph.settings import SETTINGS
    from omnigraph.settings.environment import find_unknown_variables

    for name, meant in find_unknown_variables(os.environ, SETTINGS):
        hint = f"; did you mean {meant}?" if meant else ""
        yield f"no such setting {name}{hint}"


_NEEDS_STORAGE = (
    "this command needs the storage of the graph: pass its address as an argument, with --store or "
    "--uri, or choose a cluster, or a profile that names a store or a cluster"
)
_HOW_TO_ADDRESS = (
    "pass its address as an argument, with --store or --uri, a server with --server, "
    "a cluster with --cluster, or choose a --profile"
)
APPLY_TO_CLUSTER = (
    "the schema of a graph of a cluster is changed in the cluster's files, with "
    "`omnigraph cluster apply`"
)


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """The resolved graph of a command, and its actor."""

    uri: str
    actor: str | None
    config: OperatorConfig
    quiet: bool
    server: ServerAddress | None = None
    """The graph of a server; None for one in storage."""
    applied: AddressedGraph | None = None
    """The graph in storage as it was applied to the cluster through which it is addressed."""
    timeout_s: float | None = None
    """The read timeout of the server, in seconds."""

    @property
    def is_served(self) -> bool:
        return self.server is not None

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri or self.uri.startswith("file://")

    @property
    def has_stored_queries(self) -> bool:
        """Return whether queries can be run by name alone."""
        return self.is_served or self.applied is not None

    def _read_settings(self) -> Settings:
        settings = read_settings()
        return settings if self.applied is None else self.applied.choose_settings(settings)

    def reach(self, *, read_only: bool) -> Graph | ServedGraph:
        """Open the graph, in storage or through its server."""
        if self.server is None:
            return self.open(read_only=read_only)
        from omnigraph.client.served_graph import connect

        return connect(self.server.url, timeout=self.timeout_s)

    def reach_stored(self, *, read_only: bool) -> Graph | ServedGraph:
        """Open the graph with its stored queries."""
        if self.applied is None:
            return self.reach(read_only=read_only)
        from omnigraph.stored_queries import parse_registry

        registry = parse_registry(self.applied.read_queries(read_settings(quietly=True)))
        return self.open(read_only=read_only).with_queries(registry)

    def open(self, *, read_only: bool) -> Graph:
        """Open the graph in storage."""
        from omnigraph.graph.graph import open as open_graph

        assert self.server is None, "a command that needs storage was given a server"
        settings = self._read_settings()
        return open_graph(self.uri, read_only=read_only, actor=self.actor, settings=settings)

    def quarantine(self, operation_id: str) -> str:
        """Set aside an intent that keeps the graph from being opened."""
        from omnigraph.graph.graph import quarantine

        return quarantine(self.uri, operation_id, settings=read_settings())

    def echo(self, verb: str) -> None:
        """Report on stderr the change about to be made, and the address."""
        if self.quiet:
            return
        where = "local" if self.is_local else "remote"
        note(f"{verb} → {self.uri} ({'served' if self.is_served else f'direct, {where}'})")


@dataclass(frozen=True, slots=True)
class RequestedScope:
    """The options of the command line that select the graph and the actor."""

    addresses: tuple[object, ...]
    """As an argument, with --uri and with --store."""
    server: object = None
    graph_id: object = None
    profile: object = None
    actor: object = None
    cluster: object = None


def resolve_single_address(addresses: Sequence[object]) -> str | None:
    """Return the one address given, if any; more than one is a usage error."""
    given = [str(address) for address in addresses if address]
    if len(given) > 1:
        raise click.UsageError("give the graph once: as an argument, with --uri or with --store")
    return _require_storage(given[0]) if given else None


def _require_storage(uri: str) -> str:
    if uri.startswith(("http://", "https://")):
        raise click.UsageError(f"'{uri}' is a server; name it with --server, where that is taken")
    return uri


def resolve_scope(
    asked: RequestedScope, *, served: bool, quiet: bool, clusters: bool = True
) -> CommandTarget:
    """Resolve the graph of a command: by its one address, or else by the configuration.

    `served` says whether the command takes a graph of a server, `clusters` whether one of a
    cluster.
    """
    config = _read_config()
    uri = resolve_single_address(asked.addresses)
    if sum(map(bool, (uri, asked.server, asked.cluster))) > 1:
        raise click.UsageError("give the graph once: its address, a server or a cluster")
    bound = _read_address(asked, uri) or _default_address(config, asked.profile)
    if bound.server is not None:
        return _resolve_served(config, asked, bound, served=served, quiet=quiet)
    actor = str(asked.actor) if asked.actor else config.actor
    if bound.cluster is not None:
        if not clusters:
            raise click.UsageError(f"{bound.origin}; {APPLY_TO_CLUSTER}")
        wanted = str(asked.graph_id) if asked.graph_id else bound.graph_id
        applied = select_applied_graph(find_cluster_address(config, bound.cluster), wanted)
        return CommandTarget(applied.uri, actor, config, quiet, applied=applied)
    assert bound.store is not None, "one of the three is bound"
    if asked.graph_id:
        raise click.UsageError(
            "--graph chooses a graph of a server or a cluster; a store is a single graph"
        )
    return CommandTarget(_require_storage(bound.store), actor, config, quiet)


def _read_config() -> OperatorConfig:
    return read_config(find_config_folder(), lambda message: note(f"warning: {message}"))


@dataclass(frozen=True, slots=True)
class _Address:
    """The address of a graph: in a store, in a cluster, or behind a server."""

    store: str | None = None
    server: object = None
    cluster: str | None = None
    graph_id: str | None = None
    origin: str = "--server names a server"


def _read_address(asked: RequestedScope, uri: str | None) -> _Address | None:
    """Return the address that the command line itself gives."""
    if uri or asked.server:
        return _Address(uri, asked.server)
    if asked.cluster:
        return _Address(cluster=str(asked.cluster), origin="--cluster names a cluster")
    return None


def _default_address(config: OperatorConfig, profile: object) -> _Address:
    name = str(profile) if profile else find_active_profile()
    if name:
        chosen = config.profile(name)
        kind = "server" if chosen.cluster is None else "cluster"
        origin = f"profile '{name}' names {kind} '{chosen.server or chosen.cluster}'"
        return _Address(chosen.store, chosen.server, chosen.cluster, chosen.default_graph, origin)
    if config.default_store:
        return _Address(config.default_store)
    if config.default_server:
        origin = f"defaults.server names server '{config.default_server}'"
        return _Address(server=config.default_server, graph_id=config.default_graph, origin=origin)
    raise click.UsageError(f"no graph given: {_HOW_TO_ADDRESS}")


def _resolve_served(
    config: OperatorConfig, asked: RequestedScope, bound: _Address, *, served: bool, quiet: bool
) -> CommandTarget:
    if not served:
        raise click.UsageError(f"{bound.origin}; {_NEEDS_STORAGE}")
    if asked.actor:
        raise click.UsageError(
            "--as is for graphs in storage; a server takes the actor from the token"
        )
    address = select_served_graph(find_server_address(config, str(bound.server)), asked, bound)
    return CommandTarget(address.url, None, config, quiet, address)


def find_cluster_address(config: OperatorConfig, cluster: str) -> str:
    """Resolve a cluster by its name in the configuration, or by its address."""
    known = config.clusters.get(cluster)
    if known is not None:
        return known
    if "://" in cluster or Path(cluster).is_dir():
        return cluster
    declared = ", ".join(sorted(config.clusters)) or "none"
    raise click.UsageError(
        f"no such cluster '{cluster}': it is neither a folder nor an address; declared in the "
        f"configuration: {declared}"
    )


def select_applied_graph(path: str, wanted: str | None) -> AddressedGraph:
    """Return the applied graph of a cluster by id; a single one needs no id."""
    from omnigraph.cluster.applied_cluster import find_applied_graph, list_applied_graphs

    settings = read_settings(quietly=True)
    if wanted:
        return find_applied_graph(path, wanted, settings=settings)
    known = list_applied_graphs(path, settings=settings)
    if len(known) != 1:
        listed = f": {', '.join(known)}" if known else "; none was applied yet"
        raise click.UsageError(f"choose a graph of {path} with --graph{listed}")
    return find_applied_graph(path, known[0], settings=settings)


def resolve_cluster(cluster: str | None, profile: str | None) -> tuple[str, str | None]:
    """Resolve the address of the cluster, and the default graph of its profile."""
    config = _read_config()
    if cluster:
        return find_cluster_address(config, cluster), None
    name = profile or find_active_profile()
    chosen = config.profile(name) if name else None
    if chosen is None or chosen.cluster is None:
        raise click.UsageError("this command needs a cluster: give --cluster, or a profile of one")
    return find_cluster_address(config, chosen.cluster), chosen.default_graph


def find_server_address(config: OperatorConfig, server: str) -> ServerAddress:
    """Resolve a server by its name in the configuration, or by its address."""
    if "://" in server:
        return parse_server(server)
    url = config.servers.get(server)
    if url is None:
        known = ", ".join(sorted(config.servers)) or "none"
        raise click.UsageError(f"no such server '{server}'; declared in the configuration: {known}")
    return parse_server(url)


def resolve_server(server: str | None, profile: str | None) -> ServerAddress:
    """Resolve the server of a command, without a graph."""
    config = _read_config()
    bound = _Address(server=server) if server else _default_address(config, profile)
    if bound.server is None:
        raise click.UsageError("this command needs a server: give --server, or a profile of one")
    found = find_server_address(config, str(bound.server))
    return ServerAddress(found.base.partition("/graphs/")[0])


def select_served_graph(
    server: ServerAddress, asked: RequestedScope, bound: _Address
) -> ServerAddress:
    """Return the address of a graph on a server; without an id, list the graphs in the error."""
    wanted = asked.graph_id or bound.graph_id
    if wanted:
        return server.select(str(wanted))
    if "/graphs/" in server.base:
        return parse_graph_address(server.base)
    raise click.UsageError(
        f"choose a graph of {server.base} with --graph{_describe_graphs(server)}"
    )


def _describe_graphs(server: ServerAddress) -> str:
    """Describe the graphs of a server, or nothing where it cannot be asked."""
    from omnigraph.client.served_graph import list_graphs
    from omnigraph.errors import OmniError

    try:
        names = [one.graph_id for one in list_graphs(server).graphs]
    except OmniError:
        return ""
    return f": {', '.join(names)}" if names else ""
