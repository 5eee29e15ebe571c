"""Checking a configuration and every file it names."""

from __future__ import annotations

from pathlib import Path

from omnigraph.cluster.cluster_config import ClusterConfig
from omnigraph.cluster.cluster_layout import CONFIG_FILE
from omnigraph.cluster.cluster_results import ValidateResult
from omnigraph.cluster.cluster_session import ClusterSession, require_ok
from omnigraph.cluster.desired_files import read_desired
from omnigraph.cluster.desired_state import DesiredState


def validate_cluster(folder: str | Path) -> ValidateResult:
    """Check the configuration of a folder and every file it names; storage is not looked at.

    Raises:
        ClusterError: it has mistakes; with all of them and their places.
    """
    session = ClusterSession.on(folder, None)
    desired = DesiredState(session.folder, ClusterConfig())
    with session.collect():
        desired = read_desired(session.folder, session.report)
    for graph in desired.config.graphs.values():
        message = f"graph '{graph.id}' accepts no external blobs"
        if graph.external_blobs.bases:  # never let a list pass for permission
            message += ", listed or not: external_blobs.allow is recorded and not used yet"
        session.report.add("external_blob_ingress_default_deny", graph.at, message)
    return require_ok(
        ValidateResult(
            config_dir=session.config_dir,
            diagnostics=tuple(session.report.found),
            config_file=str(session.folder / CONFIG_FILE),
            resources=tuple(one for _, one in sorted(desired.resources.items())),
            dependencies=desired.list_dependencies(),
        )
    )
