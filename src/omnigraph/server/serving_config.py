"""Configuration of a server: flags and environment, and the graphs they or a cluster define.

A graph comes with its policy and its stored queries.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec

from omnigraph.cluster.applied_cluster import (
    AppliedGraph,
    choose_settings,
    find_fingerprint,
    open_files,
    read_snapshot_of,
)
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.errors import BadRequest, ClusterError, OmniError
from omnigraph.language.source import SourceText
from omnigraph.policy import BundleKind, Policy, load_bundle, parse_bundle
from omnigraph.settings import ServerSettings, Settings
from omnigraph.stored_queries import QueryRegistry, load_registry, parse_registry
from omnigraph.wire.http_protocol import check_graph_id


@dataclass(frozen=True, slots=True)
class GraphDefinition:
    """The definition of one graph to serve.

    Its policy and queries are loaded when it is bound, so that an error there affects it alone.
    """

    id: str
    uri: str
    load_policy: Callable[[], Policy | None]
    load_queries: Callable[[], QueryRegistry]
    choose_settings: Callable[[Settings], Settings] = field(default=lambda settings: settings)


@dataclass(frozen=True, slots=True)
class ServingDefinitions:
    """All definitions of a server, read at one moment."""

    graphs: tuple[GraphDefinition, ...]
    has_policy: bool
    load_server_policy: Callable[[], Policy | None]
    unresolved: Mapping[str, str] = field(default_factory=dict)
    """Graphs whose definition is changing, and how: their last definition is served, or none."""
    revision: int | None = None
    """The revision of the definitions, where they have one."""
    fingerprint: str = ""
    """Differs if the definitions differ."""


class ServingSource(Protocol):
    """A source of the definitions of a server."""

    @property
    def is_cluster(self) -> bool:
        """True for the definitions of a cluster, which also changes schemas.

        A graph with an invalid definition is then quarantined even if it was served before;
        definitions by flags are reloaded all or none.
        """

    def read(self) -> ServingDefinitions:
        """Read the current definitions.

        Raises:
            OmniError: they cannot be read as a whole.
        """

    def find_fingerprint(self) -> str:
        """Return the fingerprint that `read` would return now, at less cost.

        Raises:
            OmniError: it cannot be read.
        """


def list_problems(error: OmniError) -> list[str]:
    """Return the problems of an error as lines; a cluster error has one for each diagnostic."""
    if isinstance(error, ClusterError):
        return [f"[{one.code}] {one.path}: {one.message}" for one in error.diagnostics]
    return [error.message]


def _split_graph_id(text: str) -> tuple[str, str | None]:
    """Split `X=id` into X and the id of a graph; `X` alone, or with a `=` in a path, has none."""
    uri, sign, graph_id = text.rpartition("=")
    if sign and uri and "/" not in graph_id:
        return uri, check_graph_id(graph_id)
    return text, None


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy bundle and the graph it applies to; without one, it is the default."""

    path: str
    graph_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> PolicyFile:
        """Parse `FILE` or `FILE=id`.

        >>> PolicyFile.parse("team.policy.yaml=team-a").graph_id
        'team-a'
        """
        return cls(*_split_graph_id(text))


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """The policy bundles of a server, read at start-up and at every reload."""

    of_graphs: tuple[PolicyFile, ...] = ()
    of_server: str | None = None

    def __bool__(self) -> bool:
        return bool(self.of_graphs) or self.of_server is not None

    def require_graphs(self, served: Collection[str]) -> None:
        """Check that each bundle is for a served graph and no graph has two.

        Raises:
            BadRequest: a bundle is for an unknown graph, or a graph has two.
        """
        seen: set[str | None] = set()
        for one in self.of_graphs:
            if one.graph_id in seen:
                whose = "no id" if one.graph_id is None else f"the id '{one.graph_id}'"
                raise BadRequest(f"two policies with {whose}; a graph has at most one")
            if one.graph_id is not None and one.graph_id not in served:
                raise BadRequest(
                    f"policy {one.path} is for graph '{one.graph_id}', which is not served; name "
                    "it with --store"
                )
            seen.add(one.graph_id)

    def load_for_graph(self, graph_id: str) -> Policy | None:
        """Load the policy of a graph, if there is one.

        Raises:
            BadRequest: the file cannot be read.
            CompileError: it is no bundle of a graph.
        """
        files = {one.graph_id: one.path for one in self.of_graphs}
        path = files.get(graph_id, files.get(None))
        return None if path is None else load_bundle(path)

    def load_for_server(self) -> Policy | None:
        """Load the policy of the server itself, if there is one.

        Raises:
            BadRequest: the file cannot be read.
            CompileError: it is no bundle of a server.
        """
        return None if self.of_server is None else load_bundle(self.of_server, BundleKind.CLUSTER)


@dataclass(frozen=True, slots=True)
class QueryFiles:
    """A file or folder of stored queries and its graph; without one, it is for all graphs."""

    path: str
    graph_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> QueryFiles:
        """Parse `PATH` or `PATH=id`.

        >>> QueryFiles.parse("queries=team-a").graph_id
        'team-a'
        """
        return cls(*_split_graph_id(text))


def require_graphs(files: Collection[QueryFiles], served: Collection[str]) -> None:
    """Check that stored queries are for served graphs.

    Raises:
        BadRequest: some are for an unknown graph.
    """
    for one in files:
        if one.graph_id is not None and one.graph_id not in served:
            raise BadRequest(
                f"queries {one.path} are for graph '{one.graph_id}', which is not served; name it "
                "with --store"
            )


def load_queries(files: Collection[QueryFiles], graph_id: str) -> QueryRegistry:
    """Load the stored queries of a graph.

    Raises:
        BadRequest: a file cannot be read.
        CompileError: a file has errors.
    """
    return load_registry(*(one.path for one in files if one.graph_id in (None, graph_id)))


@dataclass(frozen=True, slots=True)
class Store:
    """The storage URI and the id of a graph to serve."""

    uri: str
    graph_id: str

    @classmethod
    def parse(cls, text: str) -> Store:
        """Parse `URI` or `URI=id`; the default id is the folder's name without `.omni`.

        >>> Store.parse("data/people.omni").graph_id, Store.parse("s3://b/g=team-a").graph_id
        ('people', 'team-a')
        """
        uri, graph_id = _split_graph_id(text)
        if graph_id is not None:
            return cls(uri, graph_id)
        name = PurePosixPath(text.rstrip("/")).name
        try:
            return cls(text, check_graph_id(name.removesuffix(".omni")))
        except BadRequest:
            raise BadRequest(
                f"'{name}' cannot be the id of a graph; give one, as in --store {text}=my-graph"
            ) from None


@dataclass(frozen=True, slots=True)
class StoreSource:
    """Definitions given by flags; files are read at every reload."""

    stores: tuple[Store, ...]
    policies: PolicyFiles = field(default_factory=PolicyFiles)
    queries: tuple[QueryFiles, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for store in self.stores:
            if store.graph_id in seen:
                raise BadRequest(f"two graphs have the id '{store.graph_id}'; give one with URI=id")
            seen.add(store.graph_id)
        if not self.stores:
            raise BadRequest(
                "no graph to serve; name one with --store, or a cluster with --cluster"
            )
        self.policies.require_graphs(seen)
        require_graphs(self.queries, seen)

    @property
    def is_cluster(self) -> bool:
        return False

    def read(self) -> ServingDefinitions:
        graphs = tuple(
            GraphDefinition(
                store.graph_id,
                store.uri,
                partial(self.policies.load_for_graph, store.graph_id),
                partial(load_queries, self.queries, store.graph_id),
            )
            for store in self.stores
        )
        return ServingDefinitions(graphs, bool(self.policies), self.policies.load_for_server)

    def find_fingerprint(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """Definitions applied to a cluster.

    It is read without a lock: files are named by their digest, so that the state of the ledger at
    one moment is consistent.
    """

    files: ClusterFiles

    @classmethod
    def at(cls, path: str, settings: Settings) -> ClusterSource:
        """Open the cluster of a folder with a `cluster.yaml`, or of a storage root.

        The root is resolved once: later edits of the folder's files do not affect the server.

        Raises:
            ClusterError: there is neither.
        """
        return cls(open_files(path, settings))

    @property
    def address(self) -> str:
        """The URI of the storage root, so that no `cluster.yaml` in its folder is used."""
        root = self.files.root
        return root if "://" in root else Path(root).as_uri()

    @property
    def is_cluster(self) -> bool:
        return True

    def read(self) -> ServingDefinitions:
        found = read_snapshot_of(self.files)
        return ServingDefinitions(
            tuple(_define_graph(one) for one in found.graphs),
            found.server_policy is not None or any(one.policy for one in found.graphs),
            partial(_parse_policy, found.server_policy, BundleKind.CLUSTER),
            found.quarantined,
            found.revision,
            found.fingerprint,
        )

    def find_fingerprint(self) -> str:
        return find_fingerprint(self.files)


def _define_graph(one: AppliedGraph) -> GraphDefinition:
    return GraphDefinition(
        one.id,
        one.uri,
        partial(_parse_policy, one.policy, BundleKind.GRAPH),
        partial(parse_registry, one.queries),
        partial(choose_settings, profile=one.embedding, environment=os.environ),
    )


def _parse_policy(source: SourceText | None, kind: BundleKind) -> Policy | None:
    return None if source is None else parse_bundle(source, kind)


@dataclass(frozen=True, slots=True)
class Address:
    """The host and port to listen on."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse `HOST:PORT`; an IPv6 address is in brackets.

        Raises:
            BadRequest: the text is no such address.
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
    """The options of a worker."""

    source: ServingSource
    server: ServerSettings
    settings: Settings
    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise BadRequest("a server needs at least one worker")


class ServeFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `omnigraph serve`, passed on to every worker process."""

    stores: tuple[str, ...] = ()
    cluster: str | None = None
    """The cluster to serve; excludes stores, policies and queries."""
    workers: int = 1
    settings: dict[str, str] = {}
    """Flags that override an environment variable, by the field of `ServerSettings`."""
    policies: tuple[str, ...] = ()
    server_policy: str | None = None
    queries: tuple[str, ...] = ()


def read_options(flags: ServeFlags, environment: Mapping[str, str]) -> ServeOptions:
    """Resolve flags and environment into options; a flag overrides its variable.

    Raises:
        BadRequest: a flag or a variable is invalid.
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
    """Return the flags for workers, with the cluster pinned to its resolved storage root."""
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
