"""Clusters: graphs, schemas, stored queries and policies as files, planned and applied.

The configuration, in git, declares the desired state. The ledger, in the storage root, records the
applied one. A server serves what was applied and nothing else.

    from omnigraph.cluster import apply_cluster, plan_cluster

    for change in plan_cluster("deploy").changes:
        print(change.operation, change.resource)
    apply_cluster("deploy", actor="maria")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.cluster.applied_cluster import find_graph_uri as find_graph_uri
    from omnigraph.cluster.applied_cluster import find_root as find_root
    from omnigraph.cluster.applied_cluster import list_applied_graphs as list_applied_graphs
    from omnigraph.cluster.applied_cluster import read_applied_policy as read_applied_policy
    from omnigraph.cluster.applied_cluster import read_applied_queries as read_applied_queries
    from omnigraph.cluster.applied_cluster import read_serving_snapshot as read_serving_snapshot
    from omnigraph.cluster.cluster_apply import apply_cluster as apply_cluster
    from omnigraph.cluster.cluster_apply import import_cluster as import_cluster
    from omnigraph.cluster.cluster_apply import refresh_cluster as refresh_cluster
    from omnigraph.cluster.cluster_commands import approve_change as approve_change
    from omnigraph.cluster.cluster_commands import plan_cluster as plan_cluster
    from omnigraph.cluster.cluster_commands import read_cluster_status as read_cluster_status
    from omnigraph.cluster.cluster_commands import unlock_cluster as unlock_cluster
    from omnigraph.cluster.cluster_commands import validate_cluster as validate_cluster

_LAZY = {
    "apply_cluster": "cluster_apply",
    "approve_change": "cluster_commands",
    "find_graph_uri": "applied_cluster",
    "find_root": "applied_cluster",
    "import_cluster": "cluster_apply",
    "list_applied_graphs": "applied_cluster",
    "plan_cluster": "cluster_commands",
    "read_applied_policy": "applied_cluster",
    "read_applied_queries": "applied_cluster",
    "read_cluster_status": "cluster_commands",
    "read_serving_snapshot": "applied_cluster",
    "refresh_cluster": "cluster_apply",
    "unlock_cluster": "cluster_commands",
    "validate_cluster": "cluster_commands",
}
"""Loaded when first used: reading a configuration needs no engine."""


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'omnigraph.cluster' has no attribute '{name}'")
    return getattr(import_module(f"omnigraph.cluster.{module}"), name)
