"""What resources are called: `graph.library`, `query.library.overdue`, `policy.readers`."""

from __future__ import annotations

import re
from enum import StrEnum

from omnigraph.wire.graph_ids import is_graph_id

RESOURCE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
CLUSTER_SCOPE = "cluster"
"""What a policy is bound to that decides about the server itself."""


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
    """The kind of a resource whose address is sound."""
    return ResourceKind(address.partition(".")[0])


def find_graph_id(address: str) -> str | None:
    """The graph that a graph, schema or query belongs to; None for policies and providers.

    >>> find_graph_id("query.library.overdue"), find_graph_id("policy.readers")
    ('library', None)
    """
    kind, graph_id, *_ = address.split(".")
    owned = (ResourceKind.GRAPH, ResourceKind.SCHEMA, ResourceKind.QUERY)
    return graph_id if kind in owned else None


def is_resource_address(text: str) -> bool:
    """Whether a text is the address of a resource that there could be."""
    match text.split("."):
        case ["graph" | "schema", graph_id]:
            return is_graph_id(graph_id)
        case ["query", graph_id, name]:
            return is_graph_id(graph_id) and bool(RESOURCE_NAME.fullmatch(name))
        case ["policy", name] | ["provider", "embedding", name]:
            return bool(RESOURCE_NAME.fullmatch(name))
        case _:
            return False
