"""Checking a configuration, and what applying it would do. Neither changes anything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.cluster.approvals import (
    ChangeApproval,
    GatedChange,
    match_approvals,
    read_approvals,
)
from omnigraph.cluster.classify_changes import Standing, classify, list_gates
from omnigraph.cluster.cluster_changes import (
    ChangeOperation,
    ClusterChange,
    find_blast_radius,
    list_applied_dependencies,
    list_changes,
)
from omnigraph.cluster.cluster_config import ClusterConfig
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_layout import CONFIG_FILE, LOCK_FILE, STATE_FILE, show_control_path
from omnigraph.cluster.cluster_report import ClusterReport, refuse
from omnigraph.cluster.cluster_results import (
    PlanResult,
    RequiredApproval,
    StateObservations,
    ValidateResult,
)
from omnigraph.cluster.cluster_session import ClusterSession, require_ok
from omnigraph.cluster.desired_files import read_desired
from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.recovery_sweep import list_pending
from omnigraph.cluster.resource_addresses import ResourceKind
from omnigraph.cluster.state_ledger import StateLedger
from omnigraph.cluster.state_lock import StateLock, describe_lock, find_lock
from omnigraph.errors import ClusterError, OmniError, Severity, StorageError
from omnigraph.graph.graph import open as open_graph
from omnigraph.settings import Settings


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
        if not graph.external_blobs.bases:
            message = (
                f"graph '{graph.id}' accepts no external blobs; list bases in external_blobs.allow"
            )
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


def plan_cluster(folder: str | Path, *, settings: Settings | None = None) -> PlanResult:
    """What an apply would do now. Takes no lock and writes nothing.

    Raises:
        ClusterError: the configuration has mistakes, or the ledger cannot be used.
    """
    session = ClusterSession.on(folder, settings)
    result = PlanResult(config_dir=session.config_dir)
    with session.collect():
        desired = session.read_desired()
        result = _plan(session, desired)
    return require_ok(replace(result, diagnostics=tuple(session.report.found)))


def _plan(session: ClusterSession, desired: DesiredState) -> PlanResult:
    files, report = session.open_files(desired), session.report
    lock = warn_of_lock(files, report)
    found = files.find_ledger()
    ledger = StateLedger() if found is None else found.ledger
    if found is None:
        _warn_of_roots(files, report)
    pending = list_pending(files, report)
    drawn = draw_changes(files, desired, ledger, set(pending), report)
    changes = tuple(_preview(files, desired, one, report) for one in drawn.changes)
    dependencies = {*desired.list_dependencies(), *list_applied_dependencies(ledger.resources)}
    return PlanResult(
        config_dir=session.config_dir,
        config_digest=desired.config_digest,
        resource_digests=desired.digests,
        dependencies=desired.list_dependencies(),
        state=StateObservations.of(found, lock),
        changes=changes,
        blast_radius=find_blast_radius(changes, sorted(dependencies)),
        approvals_required=drawn.list_required(),
    )


def _warn_of_roots(files: ClusterFiles, report: ClusterReport) -> None:
    """Say that an apply would refuse to begin a ledger beside graphs that it does not know."""
    try:
        require_no_roots(files)
    except ClusterError as error:
        for one in error.diagnostics:
            report.add(one.code, one.path, one.message, Severity.WARNING)


def require_no_roots(files: ClusterFiles) -> None:
    """Raise if there are graphs: a ledger that is begun must know them.

    Raises:
        ClusterError: there are.
    """
    place = show_control_path(STATE_FILE)
    try:
        roots = files.list_roots()
    except StorageError as error:
        raise refuse("state_read_error", place, error.message) from error
    if roots:
        message = (
            f"there is no ledger, but there are graphs: {', '.join(roots)}; "
            "run `omnigraph cluster import`"
        )
        raise refuse("state_missing", place, message)


@dataclass(frozen=True, slots=True)
class DrawnChanges:
    """The changes between a ledger and a configuration, classified."""

    changes: list[ClusterChange]
    gates: list[GatedChange]
    approvals: dict[str, ChangeApproval]
    """The approvals that fit, by resource."""

    def list_required(self) -> tuple[RequiredApproval, ...]:
        return tuple(
            RequiredApproval(gate.resource, gate.reason, gate.resource in self.approvals)
            for gate in self.gates
        )


def draw_changes(
    files: ClusterFiles,
    desired: DesiredState,
    ledger: StateLedger,
    pending: set[str],
    report: ClusterReport,
) -> DrawnChanges:
    """What separates a ledger from a configuration, and what an apply does with each change."""
    changes = list_changes(desired, ledger.resources)
    gates = list_gates(changes, desired.config_digest, ledger.observations)
    given = read_approvals(files, ledger.approval_records, report)
    approvals = match_approvals(gates, given, report)
    gated = {gate.resource for gate in gates}
    standing = Standing(ledger.resources, pending, approvals.keys(), gated)
    return DrawnChanges(classify(changes, standing, desired), gates, approvals)


def warn_of_lock(files: ClusterFiles, report: ClusterReport) -> StateLock | None:
    """The lock of somebody at work; whatever is wrong with it is a warning for those who read."""
    try:
        lock = find_lock(files)
    except ClusterError as error:
        for one in error.diagnostics:
            report.add(one.code, one.path, one.message, Severity.WARNING)
        return None
    if lock is not None:
        place = show_control_path(LOCK_FILE)
        report.add("state_lock_held", place, describe_lock(lock), Severity.WARNING)
    return lock


def _preview(
    files: ClusterFiles, desired: DesiredState, change: ClusterChange, report: ClusterReport
) -> ClusterChange:
    """The change with the steps of its schema, if it is one of a schema that is there."""
    is_schema = change.kind is ResourceKind.SCHEMA
    if not is_schema or change.operation is not ChangeOperation.UPDATE or change.graph_id is None:
        return change
    try:
        uri, settings = files.graph_uri(change.graph_id), files.settings
        with open_graph(uri, read_only=True, settings=settings) as graph:
            migration = graph.plan_schema(desired.resources[change.resource].source)
    except OmniError as error:
        report.add("schema_preview_unavailable", change.resource, error.message)
        return change
    wire = migration.wire()
    return replace(change, migration={"supported": wire["supported"], "steps": wire["steps"]})
