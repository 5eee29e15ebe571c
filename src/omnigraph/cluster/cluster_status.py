"""Showing what the ledger says, without opening any graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from omnigraph.cluster.applied_texts import check_payload, list_payloads
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_layout import STATE_FILE, show_control_path
from omnigraph.cluster.cluster_results import ClusterStatus, StateObservations
from omnigraph.cluster.cluster_session import ClusterSession, require_ok
from omnigraph.cluster.config_text import read_storage_root
from omnigraph.cluster.recovery_sidecars import list_pending
from omnigraph.cluster.state_lock import warn_of_lock
from omnigraph.errors import Severity
from omnigraph.settings import Settings


def read_cluster_status(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """What the ledger says, who holds the lock, and whether the catalog is whole.

    Writes nothing and opens no graph.

    Raises:
        ClusterError: the ledger cannot be used, or the catalog not be read.
    """
    session = ClusterSession.on(folder, settings)
    result = ClusterStatus(config_dir=session.config_dir)
    with session.collect():
        files = ClusterFiles(read_storage_root(session.folder), session.settings)
        lock = warn_of_lock(files, session.report)
        result = replace(result, state=StateObservations.of(None, lock))
        found = files.find_ledger()
        if found is None:
            message = "there is no ledger: nothing has been applied yet"
            place = show_control_path(STATE_FILE)
            session.report.add("state_missing", place, message, Severity.WARNING)
        else:
            state = StateObservations.of(found, lock)
            result = replace(result, state=state, ledger=found.ledger)
            list_pending(files, session.report)
            for address, digest in list_payloads(found.ledger):
                check_payload(files, address, digest, session.report)
    return require_ok(replace(result, diagnostics=tuple(session.report.found)))
