"""Configuration of a server.

Flags, environment, and the graphs, policies and stored queries that either the flags or a
cluster define.
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
    fingerprint_snapshot,
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


def use_given_settings(settings: Settings) -> Settings:
    """The settings of the server, for a graph that has none of its own."""
    return settings


@dataclass(frozen=True, slots=True)
class GraphDefinition:
    """One graph as it shall be served.

    What it refers to is read when it is bound, so that a mistake there concerns this graph alone.
    """

    id: str
    uri: str
    load_policy: Callable[[], Policy | None]
    load_queries: Callable[[], QueryRegistry]
    choose_settings: Callable[[Settings], Settings] = use_given_settings


@dataclass(frozen=True, slots=True)
class ServingDefinitions:
    """Everything that shall be served, as it was read at one moment."""

    graphs: tuple[GraphDefinition, ...]
    has_policy: bool
    load_server_policy: Callable[[], Policy | None]
    unsettled: Mapping[str, str] = field(default_factory=dict)
    """Graphs whose definition is being changed, and how: they are served as before or not at all"""
    revision: int | None = None
    """The revision of the definitions, where they have one."""
    mark: str = ""
    """Differs where they were read from something else."""


class ServingSource(Protocol):
    """Where a server learns what it shall serve."""

    @property
    def is_cluster(self) -> bool:
        """Whether schemas are changed there, and whether it may move while the server runs.

        A graph whose definition cannot be used is then quarantined even if it was served before;
        files are all taken over or none.
        """

    def read(self) -> ServingDefinitions:
        """What shall be served now.

        Raises:
            OmniError: it cannot be told as a whole.
        """

    def find_mark(self) -> str:
        """The mark that `read` would give now, at less expense.

        Raises:
            OmniError: it cannot be told.
        """


def list_problems(error: OmniError) -> list[str]:
    """Everything that is wrong, a line each: of a cluster, all that was found at once."""
    if isinstance(error, ClusterError):
        return [f"[{one.code}] {one.path}: {one.message}" for one in error.diagnostics]
    return [error.message]


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A bundle, and the graph it is for; without one, for every graph that has no other."""

    path: str
    graph_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> PolicyFile:
        """`FILE` or `FILE=id`.

        >>> PolicyFile.parse("team.policy.yaml=team-a").graph_id
        'team-a'
        """
        path, sign, graph_id = text.rpartition("=")
        if sign and path and "/" not in graph_id:
            return cls(path, check_graph_id(graph_id))
        return cls(text)


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """The bundles a server was given; they are read at its start and at every reload."""

    of_graphs: tuple[PolicyFile, ...] = ()
    of_server: str | None = None

    def __bool__(self) -> bool:
        return bool(self.of_graphs) or self.of_server is not None

    def require_graphs(self, served: Collection[str]) -> None:
        """Raise unless each bundle is for one of these graphs and no graph has two.

        Raises:
            BadRequest: a bundle is for another graph, or a graph has two.
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
        """The policy of a graph, if a bundle is for it.

        Raises:
            BadRequest: its file cannot be read.
            CompileError: it is not a bundle of a graph.
        """
        files = {one.graph_id: one.path for one in self.of_graphs}
        path = files.get(graph_id, files.get(None))
        return None if path is None else load_bundle(path)

    def load_for_server(self) -> Policy | None:
        """The policy of the server itself, if it has one.

        Raises:
            BadRequest: the file cannot be read.
            CompileError: it is not a bundle of a server.
        """
        return None if self.of_server is None else load_bundle(self.of_server, BundleKind.CLUSTER)


@dataclass(frozen=True, slots=True)
class QueryFiles:
    """A file or folder of stored queries, and the graph it is for; without one, for all graphs."""

    path: str
    graph_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> QueryFiles:
        """`PATH` or `PATH=id`.

        >>> QueryFiles.parse("queries=team-a").graph_id
        'team-a'
        """
        path, sign, graph_id = text.rpartition("=")
        if sign and path and "/" not in graph_id:
            return cls(path, check_graph_id(graph_id))
        return cls(text)


def require_graphs(files: Collection[QueryFiles], served: Collection[str]) -> None:
    """Raise unless all of them are for graphs that are served.

    Raises:
        BadRequest: one is for another graph.
    """
    for one in files:
        if one.graph_id is not None and one.graph_id not in served:
            raise BadRequest(
                f"queries {one.path} are for graph '{one.graph_id}', which is not served; name it "
                "with --store"
            )


def load_queries(files: Collection[QueryFiles], graph_id: str) -> QueryRegistry:
    """The stored queries of a graph.

    Raises:
        BadRequest: a file cannot be read.
        CompileError: a file has mistakes.
    """
    return load_registry(*(one.path for one in files if one.graph_id in (None, graph_id)))


@dataclass(frozen=True, slots=True)
class Store:
    """A graph to serve: where it is, and by which id."""

    uri: str
    graph_id: str

    @classmethod
    def parse(cls, text: str) -> Store:
        """`URI` or `URI=id`; without an id, the name of the folder without its ending.

        >>> Store.parse("data/people.omni").graph_id, Store.parse("s3://b/g=team-a").graph_id
        ('people', 'team-a')
        """
        uri, sign, graph_id = text.rpartition("=")
        if sign and uri and "/" not in graph_id:
            return cls(uri, check_graph_id(graph_id))
        name = PurePosixPath(text.rstrip("/")).name
        try:
            return cls(text, check_graph_id(name.removesuffix(".omni")))
        except BadRequest:
            raise BadRequest(
                f"'{name}' cannot be the id of a graph; give one, as in --store {text}=my-graph"
            ) from None


@dataclass(frozen=True, slots=True)
class StoreSource:
    """What the flags name; files are read again with every reload."""

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

    def find_mark(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """What is applied to a cluster.

    It is read without any lock: texts are named by their digest, so that what the ledger says at
    one moment can be read as a whole.
    """

    files: ClusterFiles

    @classmethod
    def at(cls, place: str, settings: Settings) -> ClusterSource:
        """The cluster of a folder with a `cluster.yaml`, or of a storage root.

        The root is looked for once: whoever works on the files of the folder later does not
        concern a server.

        Raises:
            ClusterError: there is neither.
        """
        return cls(open_files(place, settings))

    @property
    def address(self) -> str:
        """The storage root, written so that no `cluster.yaml` in its folder is looked at."""
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
            fingerprint_snapshot(found),
        )

    def find_mark(self) -> str:
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
