"""Resources of a cluster by address, and the paths of its files.

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

import re
from enum import StrEnum

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


def make_graph_path(graph_id: str) -> str:
    """Return the path of a graph; its id is validated, because the path may be deleted.

    >>> make_graph_path("library")
    'graphs/library.omni'
    """
    return f"{GRAPHS_FOLDER}/{check_graph_id(graph_id)}{GRAPH_SUFFIX}"


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
