"""Invariants of a cluster after an apply of it was killed at any point."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.cluster import (
    apply_cluster,
    plan_cluster,
    read_cluster_status,
    read_serving_snapshot,
    unlock_cluster,
)
from omnigraph.cluster.cluster_session import ClusterStatus
from omnigraph.errors import ClusterError


def list_graphs(status: ClusterStatus) -> tuple[str, ...]:
    """Return the ids of the applied graphs."""
    found = (address.split(".") for address in status.resource_digests)
    return tuple(names[1] for names in found if names[0] == "graph")


NOTHING_TO_SERVE = {"cluster_state_missing", "cluster_empty", "cluster_no_healthy_graphs"}


def unlock(folder: Path) -> bool:
    """Remove the lock of a killed operator by the id in the message; False if there is none."""
    lock = read_cluster_status(folder).state.lock_id
    if lock is None:
        return False
    with pytest.raises(ClusterError, match=lock) as refused:
        apply_cluster(folder)
    assert refused.value.codes[-1] == "state_lock_held"
    assert unlock_cluster(folder, lock).lock_removed
    return True


def check_served(folder: Path) -> None:
    """Check that a server reads the state of one ledger, or return the error code."""
    try:
        served = read_serving_snapshot(str(folder)).graphs
    except ClusterError as error:
        served = ()
        if not NOTHING_TO_SERVE & set(error.codes):
            raise
    for graph in served:
        omnigraph.open(graph.uri, read_only=True)


def check_converged(folder: Path) -> ClusterStatus:
    """Check that the plan is empty, nothing is pending, and the ledger matches the graphs."""
    assert plan_cluster(folder).changes == ()
    files = sorted((folder / "__cluster" / "recoveries").glob("*.json"))
    assert files == []
    again = apply_cluster(folder)
    assert (again.converged, again.state_written, again.changes) == (True, False, ())
    status = read_cluster_status(folder)
    assert status.diagnostics == ()
    assert {str(one.status) for one in status.resource_statuses.values()} <= {"applied"}
    assert status.resource_statuses.keys() == status.resource_digests.keys()
    served = read_serving_snapshot(str(folder)).graphs if list_graphs(status) else ()
    assert tuple(one.id for one in served) == list_graphs(status)
    roots = sorted(path.stem for path in (folder / "graphs").glob("*"))
    assert roots == list(list_graphs(status))
    return status


def apply_until_converged(folder: Path) -> ClusterStatus:
    """Unlock and apply as an operator does after a crash, and check that the cluster converged."""
    check_served(folder)
    unlock(folder)
    applied = apply_cluster(folder, actor="maria")
    assert applied.converged, [str(one) for one in applied.diagnostics]
    return check_converged(folder)
