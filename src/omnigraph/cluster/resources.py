"""Resources of a cluster: their addresses, settings and digests, and the paths of its files.

    __cluster/state.json                                  the ledger
    __cluster/lock.json                                   the lock of the operator at work
    __cluster/resources/query/<graph>/<name>/<digest>.gq  applied queries
    __cluster/resources/policy/<name>/<digest>.yaml       applied policies
    __cluster/recoveries/<id>.json                        intents of unfinished changes of graphs
    __cluster/approvals/<id>.json                         approvals
    graphs/<id>.omni                                      the graphs

Control files have a folder of their own, so that what is locked is not the folder in git.
"""

from __future__ import annotations

import hashlib
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from omnigraph.settings import Settings
from omnigraph.storage.control_files import normalize_root, open_control_files
from omnigraph.wire.http_protocol import check_graph_id, is_graph_id

CONFIG_FILE = "cluster.yaml"
CONTROL_FOLDER = "__cluster"
GRAPHS_FOLDER = "graphs"
GRAPH_SUFFIX = ".omni"

STATE_FILE = "state.json"
LOCK_FILE = "lock.json"
RECOVERIES = "recoveries"
APPROVALS = "approvals"
_JSON = ".json"
_MANAGED = re.compile(f"(?P<root>.+)/{GRAPHS_FOLDER}/[^/]+{re.escape(GRAPH_SUFFIX)}")

RESOURCE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
CLUSTER_SCOPE = "cluster"
"""The scope of a policy that decides about the server itself."""


class ResourceKind(StrEnum):
    GRAPH = "graph"
    SCHEMA = "schema"
    QUERY = "query"
    POLICY = "policy"
    PROVIDER = "provider"


def graph_address(graph_id: str) -> str:
    return f"{ResourceKind.GRAPH}.{graph_id}"


def schema_address(graph_id: str) -> str:
    return f"{ResourceKind.SCHEMA}.{graph_id}"


def query_address(graph_id: str, name: str) -> str:
    return f"{ResourceKind.QUERY}.{graph_id}.{name}"


def policy_address(name: str) -> str:
    return f"{ResourceKind.POLICY}.{name}"


def provider_address(name: str) -> str:
    return f"{ResourceKind.PROVIDER}.embedding.{name}"


def find_resource_kind(address: str) -> ResourceKind:
    """Return the kind of a resource from its address, which is valid."""
    return ResourceKind(address.partition(".")[0])


def find_graph_id(address: str) -> str | None:
    """Return the graph of a graph, schema or query; None for policies and providers.

    >>> find_graph_id("query.library.overdue"), find_graph_id("policy.readers")
    ('library', None)
    """
    kind, graph_id, *_ = address.split(".")
    owned = (ResourceKind.GRAPH, ResourceKind.SCHEMA, ResourceKind.QUERY)
    return graph_id if kind in owned else None


def is_resource_address(text: str) -> bool:
    """Return whether a text is a valid address of a resource."""
    match text.split("."):
        case ["graph" | "schema", graph_id]:
            return is_graph_id(graph_id)
        case ["query", graph_id, name]:
            return is_graph_id(graph_id) and bool(RESOURCE_NAME.fullmatch(name))
        case ["policy", name] | ["provider", "embedding", name]:
            return bool(RESOURCE_NAME.fullmatch(name))
        case _:
            return False


class EmbeddingProfile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An embedding provider; its key is a variable reference, `${NAME}`, that the server reads."""

    kind: str
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = None


class BlobScope(StrEnum):
    """The processes that may read an external blob."""

    SERVER_SAFE = "server_safe"
    EMBEDDED_ONLY = "embedded_only"


class BlobBase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An address below which external blobs are allowed."""

    uri: str
    scope: BlobScope


class BlobAllowList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The allowed addresses of external blobs; without a base, none is."""

    bases: tuple[BlobBase, ...] = ()

    @property
    def mode(self) -> str:
        return "allow" if self.bases else "deny"


def digest_file(data: bytes) -> str:
    """Return the digest of a file, without its byte order mark."""
    return hashlib.sha256(data.removeprefix(BOM_UTF8)).hexdigest()


def digest_profile(profile: EmbeddingProfile) -> str:
    return _digest("embedding profile", profile)


def digest_graph(
    graph_id: str,
    schema: str | None,
    queries: Mapping[str, str],
    provider: tuple[str, str] | None,
    external_blobs: BlobAllowList,
) -> str:
    """Return the digest of a graph as a whole, computed from the digests of its parts.

    Args:
        graph_id: The graph.
        schema: The digest of its schema.
        queries: The digests of its queries by name.
        provider: The address and digest of its embedding provider.
        external_blobs: The allowed addresses of its external blobs.
    """
    parts: dict[str, object] = {
        "graph": graph_id,
        "schema": schema,
        "queries": sorted(queries.items()),
        "provider": provider,
    }
    if external_blobs.bases:
        parts["external_blobs"] = external_blobs
    return _digest("graph", parts)


def digest_config(config: object, resources: Mapping[str, str]) -> str:
    """Return the digest of everything that is declared, files included."""
    return _digest("config", [config, sorted(resources.items())])


def _digest(tag: str, value: object) -> str:
    text = msgspec.json.encode(value, order="sorted")
    return hashlib.sha256(f"omnigraph {tag}\0".encode() + text).hexdigest()


def make_graph_path(graph_id: str) -> str:
    """Return the path of a graph; its id is validated, because the path may be deleted.

    >>> make_graph_path("library")
    'graphs/library.omni'
    """
    return f"{GRAPHS_FOLDER}/{check_graph_id(graph_id)}{GRAPH_SUFFIX}"


def make_intent_file(operation_id: str) -> str:
    return f"{RECOVERIES}/{operation_id}{_JSON}"


def make_approval_path(approval_id: str) -> str:
    return f"{APPROVALS}/{approval_id}{_JSON}"


def make_payload_path(address: str, digest: str) -> str:
    """Return the path of an applied query or policy.

    >>> make_payload_path("query.library.overdue", "ab12")
    'resources/query/library/overdue/ab12.gq'
    """
    kind, _, rest = address.partition(".")
    suffix = {"query": ".gq", "policy": ".yaml"}[kind]
    return f"resources/{kind}/{rest.replace('.', '/')}/{digest}{suffix}"


def show_control_path(path: str) -> str:
    """Return a control file's path as messages name it.

    >>> show_control_path(STATE_FILE)
    '__cluster/state.json'
    """
    return f"{CONTROL_FOLDER}/{path}"


def find_managing_root(uri: str, settings: Settings | None = None) -> str | None:
    """Return the storage root of the cluster that manages the graph at an address; None if none.

    Raises:
        BadRequest: the address is not one of a folder or of a bucket.
        StorageError: the storage cannot be read.
    """
    match = _MANAGED.fullmatch(normalize_root(uri))
    if match is None:
        return None
    control = open_control_files(f"{match['root']}/{CONTROL_FOLDER}", settings)
    return match["root"] if control.exists(STATE_FILE) else None
