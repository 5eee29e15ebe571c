"""Clusters: graphs, schemas, stored queries and policies as files, planned and applied.

The configuration, in git, says what shall be there. The ledger, in the storage root, says what was
applied. A server serves what was applied and nothing else.

    from omnigraph.cluster import apply_cluster, plan_cluster

    for change in plan_cluster("deploy").changes:
        print(change.operation, change.resource)
    apply_cluster("deploy", actor="maria")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.cluster.cluster_apply import apply_cluster
    from omnigraph.cluster.cluster_place import (
        find_graph_uri,
        find_root,
        list_applied_graphs,
        read_applied_policy,
        read_applied_queries,
    )
    from omnigraph.cluster.cluster_plan import plan_cluster, validate_cluster
    from omnigraph.cluster.observe_cluster import (
        import_cluster,
        read_cluster_status,
        refresh_cluster,
    )
    from omnigraph.cluster.operator_actions import approve_change, unlock_cluster
    from omnigraph.cluster.serving_snapshot import read_serving_snapshot

_LAZY = {
    "apply_cluster": "cluster_apply",
    "approve_change": "operator_actions",
    "find_graph_uri": "cluster_place",
    "find_root": "cluster_place",
    "import_cluster": "observe_cluster",
    "list_applied_graphs": "cluster_place",
    "plan_cluster": "cluster_plan",
    "read_applied_policy": "cluster_place",
    "read_applied_queries": "cluster_place",
    "read_cluster_status": "observe_cluster",
    "read_serving_snapshot": "serving_snapshot",
    "refresh_cluster": "observe_cluster",
    "unlock_cluster": "operator_actions",
    "validate_cluster": "cluster_plan",
}
"""Loaded when first used: reading a configuration needs no engine."""

__all__ = [
    "apply_cluster",
    "approve_change",
    "find_graph_uri",
    "find_root",
    "import_cluster",
    "list_applied_graphs",
    "plan_cluster",
    "read_applied_policy",
    "read_applied_queries",
    "read_cluster_status",
    "read_serving_snapshot",
    "refresh_cluster",
    "unlock_cluster",
    "validate_cluster",
]


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'omnigraph.cluster' has no attribute '{name}'")
    return getattr(import_module(f"omnigraph.cluster.{module}"), name)
