"""What a server is started with: the flags, and what the environment says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from omnigraph.errors import BadRequest
from omnigraph.server.cluster_source import ClusterSource
from omnigraph.server.policy_binding import PolicyFile, PolicyFiles
from omnigraph.server.query_files import QueryFiles
from omnigraph.server.serving_source import ServingSource
from omnigraph.server.store_source import Store, StoreSource
from omnigraph.settings import ServerSettings, Settings


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """`HOST:PORT`; an IPv6 address is written in brackets.

        Raises:
            BadRequest: it is not that.
        """
        host, colon, port = text.strip().rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise BadRequest(f"'{text}' is not a valid listen address; write HOST:PORT")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Everything a worker needs to know."""

    source: ServingSource
    server: ServerSettings
    settings: Settings
    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise BadRequest("a server needs at least one worker")


class ServeFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `omnigraph serve` as they were given; workers are started with the same."""

    stores: tuple[str, ...] = ()
    cluster: str | None = None
    """Serve what is applied there; nothing else can then be named."""
    workers: int = 1
    settings: dict[str, str] = {}
    """Flags that stand for an environment variable, by the field of `ServerSettings`."""
    policies: tuple[str, ...] = ()
    server_policy: str | None = None
    queries: tuple[str, ...] = ()


def read_options(flags: ServeFlags, environment: Mapping[str, str]) -> ServeOptions:
    """What flags and environment come to; a flag goes before its variable.

    Raises:
        BadRequest: a flag or a variable cannot be understood.
    """
    given = {ServerSettings.variable(name): text for name, text in flags.settings.items()}
    settings = Settings.from_environment(environment)
    return ServeOptions(
        _choose_source(flags, settings),
        ServerSettings.from_environment({**environment, **given}),
        settings,
        flags.workers,
    )


def pin_cluster(flags: ServeFlags, options: ServeOptions) -> ServeFlags:
    """The flags for workers, which find the cluster where it was found first."""
    if not isinstance(options.source, ClusterSource):
        return flags
    return msgspec.structs.replace(flags, cluster=options.source.address)


def _choose_source(flags: ServeFlags, settings: Settings) -> ServingSource:
    if flags.cluster is None:
        return StoreSource(
            tuple(Store.parse(text) for text in flags.stores),
            PolicyFiles(
                tuple(PolicyFile.parse(text) for text in flags.policies), flags.server_policy
            ),
            tuple(QueryFiles.parse(text) for text in flags.queries),
        )
    others = {
        "--store": flags.stores,
        "--policy": flags.policies,
        "--server-policy": flags.server_policy,
        "--queries": flags.queries,
    }
    given = [name for name, value in others.items() if value]
    if given:
        raise BadRequest(
            f"--cluster cannot be combined with {given[0]}: the cluster says which graphs, "
            "policies and stored queries are served"
        )
    return ClusterSource.at(flags.cluster, settings)
