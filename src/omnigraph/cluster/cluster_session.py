"""Sessions of cluster commands, and the commands validate, status, force-unlock, plan and approve.

A command reads what it needs into its session, reports diagnostics there, and returns a result in
any case: as the value, or within the `ClusterError` that ends it if a diagnostic is an error.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, TypeVar

import msgspec

from omnigraph.cluster.cluster_changes import (
    ChangeOperation,
    ClusterChange,
    ClusterPlan,
    find_blast_radius,
    list_changes,
    list_gates,
)
from omnigraph.cluster.cluster_config import choose_root, read_storage_root
from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse, refusing
from omnigraph.cluster.cluster_files import (
    CONFIG_FILE,
    ClusterFiles,
    ResourceKind,
    find_resource_kind,
)
from omnigraph.cluster.cluster_results import (
    ApproveResult,
    ClusterResult,
    ClusterStatus,
    DeclaredResource,
    DesiredRevision,
    PlanResult,
    RequiredApproval,
    StateObservations,
    UnlockResult,
    ValidateResult,
    observe_state,
)
from omnigraph.cluster.cluster_state import (
    STATE_PATH,
    ClusterState,
    ReadLedger,
    StateLedger,
    find_ledger,
    write_ledger,
)
from omnigraph.cluster.control_records import (
    APPROVALS,
    ChangeApproval,
    GraphIntent,
    StateLock,
    hold_lock,
    match_approvals,
    remove_intents,
    remove_lock,
    report_lock,
    report_pending,
)
from omnigraph.cluster.desired_state import DesiredState, read_desired
from omnigraph.errors import BadRequest, ClusterDiagnostic, ClusterError, Severity
from omnigraph.graph.graph import open as open_graph
from omnigraph.settings import Settings


class ResultHead(TypedDict):
    """The members of every result."""

    ok: bool
    config_dir: str
    diagnostics: tuple[ClusterDiagnostic, ...]


AnyResult = TypeVar("AnyResult", bound=ClusterResult)


@dataclass
class ClusterSession:
    """One command on one folder: what it has read, what it changes, and its diagnostics.

    A command that holds the lock edits a copy of the ledger, and writes it at its end.
    """

    folder: Path
    settings: Settings
    actor: str | None = None
    report: ClusterReport = field(default_factory=ClusterReport)
    desired: DesiredState = field(default_factory=DesiredState)
    files: ClusterFiles = field(init=False)
    acquired: StateLock | None = None
    """The lock of this command; none is taken if `cluster.yaml` says so."""
    other_lock: StateLock | None = None
    """The lock of another operator."""
    base: ReadLedger | None = None
    """The ledger as it was read."""
    ledger: StateLedger = field(default_factory=StateLedger)
    finished: list[GraphIntent] = field(default_factory=list)
    """The intents that are removed once the ledger is written."""
    pending: set[str] = field(default_factory=set)
    """Graphs with an interrupted change that is not resolved."""

    @classmethod
    def on(
        cls, folder: str | Path, settings: Settings | None, actor: str | None = None
    ) -> ClusterSession:
        return cls(Path(folder), settings or Settings(), actor)

    def read_desired(self) -> None:
        """Read the desired state, whose mistakes end the command, and open its storage root."""
        desired = read_desired(self.folder, self.report)
        self.report.raise_if_errors()
        self.desired = desired
        self.files = ClusterFiles(choose_root(self.folder, desired.config.storage), self.settings)

    def open_files(self) -> ClusterFiles:
        """Open the storage root that `cluster.yaml` names, whatever other mistakes it has."""
        self.files = ClusterFiles(read_storage_root(self.folder), self.settings)
        return self.files

    @contextmanager
    def lock(self, operation: str) -> Iterator[None]:
        """Read the desired state and lock the cluster, unless `cluster.yaml` says otherwise."""
        self.read_desired()
        is_locked = self.desired.config.lock
        lock = hold_lock(self.files, operation) if is_locked else nullcontext()
        with lock as self.acquired:
            yield

    def read_ledger(self) -> ReadLedger | None:
        """Read the ledger, and begin to change a copy of it."""
        found = find_ledger(self.files)
        if found is not None:
            self.edit(found)
        return found

    def edit(self, base: ReadLedger) -> None:
        """Begin to change a copy of a ledger."""
        self.base, self.ledger = base, copy.deepcopy(base.ledger)

    def plan(self) -> ClusterPlan:
        """Compare the ledger with the configuration, and find the approvals that changes need."""
        state, desired = self.ledger.applied_revision, self.desired.state
        applied = ClusterState(state.config_digest, dict(state.resources))
        changes = list_changes(applied, desired)
        gates = list_gates(changes, desired.config_digest, self.ledger.observations)
        used = self.ledger.approval_records
        approvals = match_approvals(gates, self.files, used, self.report)
        return ClusterPlan(applied, desired, frozenset(self.pending), gates, approvals)

    def write_ledger(self) -> None:
        """Write the ledger, and remove the intents of the changes that it records."""
        self.ledger.applied_revision.refresh_digests()
        self.base = write_ledger(self.files, self.ledger, self.base)
        remove_intents(self.files, self.finished, self.report)

    @property
    def state(self) -> StateObservations:
        """The ledger as it was read or written last, and the lock."""
        return observe_state(self.base, self.other_lock, self.acquired)

    def make_head(self) -> ResultHead:
        return ResultHead(
            ok=not self.report.has_errors,
            config_dir=str(self.folder),
            diagnostics=tuple(self.report.found),
        )

    def make_status(self, operation: str | None = None) -> ClusterStatus:
        """Make the result that shows the ledger as it was read or written last."""
        ledger = StateLedger() if self.base is None else self.base.ledger
        return ClusterStatus(
            **self.make_head(),
            operation=operation,
            state=self.state,
            resource_digests=ledger.applied_revision.digests,
            resource_statuses=dict(sorted(ledger.resource_statuses.items())),
            observations=dict(sorted(ledger.observations.items())),
        )


def finish(result: AnyResult) -> AnyResult:
    """Return the result, unless one of its diagnostics is an error.

    Raises:
        ClusterError: one is; with all of them and the result.
    """
    if not result.ok:
        raise ClusterError(result.diagnostics, result)
    return result


def validate_cluster(folder: str | Path) -> ValidateResult:
    """Check the configuration of a folder and every file it names; storage is not read.

    Raises:
        ClusterError: it has mistakes; with all of them and their places.
    """
    session = ClusterSession.on(folder, None)
    with session.report.collect():
        session.desired = read_desired(session.folder, session.report)
    for graph_id, graph in session.desired.config.graphs.items():
        message = f"graph '{graph_id}' accepts no external blobs"
        if graph.external_blobs.bases:  # a list must not be mistaken for a permission
            message += ", listed or not: external_blobs.allow is recorded and not used yet"
        session.report.add("external_blob_ingress_default_deny", graph_id.at, message)
    state = session.desired.state
    return finish(
        ValidateResult(
            **session.make_head(),
            config_file=str(session.folder / CONFIG_FILE),
            resource_digests=state.digests,
            resources=tuple(
                DeclaredResource(address, find_resource_kind(address), one.digest, one.source)
                for address, one in sorted(state.resources.items())
            ),
            dependencies=tuple(state.list_dependencies()),
        )
    )


def read_cluster_status(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Read the ledger and the lock, and verify the catalog.

    Writes nothing and opens no graph.

    Raises:
        ClusterError: the ledger or the catalog cannot be read.
    """
    session = ClusterSession.on(folder, settings)
    report = session.report
    with report.collect():
        files = session.open_files()
        session.other_lock = report_lock(files, report)
        if session.read_ledger() is None:
            message = "there is no ledger: nothing has been applied yet"
            report.add("state_missing", STATE_PATH, message, Severity.WARNING)
        else:
            report_pending(files, report)
            for address, digest in session.ledger.applied_revision.list_payloads():
                problem = files.find_payload_problem(address, digest)
                report.extend([] if problem is None else [problem])
    return finish(session.make_status())


def unlock_cluster(
    folder: str | Path, lock_id: str, *, settings: Settings | None = None
) -> UnlockResult:
    """Remove the lock of an operator that is gone, named by its id.

    Raises:
        ClusterError: there is no lock, or it has another id.
    """
    session = ClusterSession.on(folder, settings)
    with session.report.collect():
        session.other_lock = remove_lock(session.open_files(), lock_id)
    is_removed = session.other_lock is not None
    return finish(UnlockResult(**session.make_head(), state=session.state, lock_removed=is_removed))


def plan_cluster(folder: str | Path, *, settings: Settings | None = None) -> PlanResult:
    """Plan an apply. Takes no lock and writes nothing.

    Raises:
        ClusterError: the configuration has mistakes, or the ledger cannot be used.
    """
    session = ClusterSession.on(folder, settings)
    plan, changes = ClusterPlan(ClusterState(), ClusterState()), list[ClusterChange]()
    with session.report.collect():
        session.read_desired()
        files, report = session.files, session.report
        session.other_lock = report_lock(files, report)
        if session.read_ledger() is None:
            with report.collect(Severity.WARNING):
                require_no_roots(files)
        session.pending = report_pending(files, report)
        plan = session.plan()
        changes = [_preview(session, one) for one in plan.classify().values()]
    return finish(
        PlanResult(
            **session.make_head(),
            desired_revision=DesiredRevision(plan.desired.config_digest),
            resource_digests=plan.desired.digests,
            dependencies=tuple(plan.desired.list_dependencies()),
            state=session.state,
            changes=tuple(changes),
            blast_radius=find_blast_radius(changes, plan.desired, plan.applied),
            approvals_required=tuple(
                RequiredApproval(one.resource, one.reason, one.resource in plan.approvals)
                for one in plan.gates
            ),
        )
    )


def require_no_roots(files: ClusterFiles) -> None:
    """Raise if there are graphs: a new ledger must record them."""
    with refusing("state_read_error", STATE_PATH):
        roots = files.list_roots()
    if roots:
        message = (
            f"there is no ledger, but there are graphs: {', '.join(roots)}; "
            "run `omnigraph cluster import`"
        )
        raise refuse("state_missing", STATE_PATH, message)


def _preview(session: ClusterSession, change: ClusterChange) -> ClusterChange:
    """Return the change, with its migration steps if it updates a schema."""
    files, graph_id = session.files, change.graph_id
    is_update = change.operation is ChangeOperation.UPDATE
    if change.kind is not ResourceKind.SCHEMA or not is_update or graph_id is None:
        return change
    code = "schema_preview_unavailable"
    with session.report.collect(Severity.WARNING), refusing(code, change.resource):
        files.require_root(graph_id)
        with open_graph(
            files.graph_uri(graph_id), read_only=True, settings=files.settings
        ) as graph:
            wire = graph.plan_schema(session.desired.files[change.resource].source).wire()
        migration = {"supported": wire["supported"], "steps": wire["steps"]}
        return msgspec.structs.replace(change, migration=migration)
    return change


def approve_change(
    folder: str | Path, resource: str, *, actor: str | None, settings: Settings | None = None
) -> ApproveResult:
    """Approve a gated change: the deletion of a graph, or its creation once more.

    The approval is bound to the current state and configuration.

    Raises:
        BadRequest: the actor is missing.
        ClusterError: the change needs no approval, or it cannot be stored.
    """
    if not actor:
        raise BadRequest("an approval needs an actor; give one with --as")
    session, found = ClusterSession.on(folder, settings), None
    with session.report.collect(), session.lock("approve"):
        session.read_ledger()
        plan = session.plan()
        found = plan.approvals.get(resource)
        if found is None:
            signed = _find_gate(plan, resource).sign(actor)
            APPROVALS.write(session.files, signed.path, signed)
            found = signed
    return finish(
        ApproveResult(
            **session.make_head(),
            approval_id=None if found is None else found.approval_id,
            resource=resource,
            operation=None if found is None else found.operation,
            approved_by=None if found is None else found.approved_by,
        )
    )


def _find_gate(plan: ClusterPlan, resource: str) -> ChangeApproval:
    gate = next((one for one in plan.gates if one.resource == resource), None)
    if gate is None:
        gated = ", ".join(one.resource for one in plan.gates)
        hint = f"these changes need one: {gated}" if gated else "no change needs one"
        raise refuse("approval_not_required", resource, f"it needs no approval; {hint}")
    return gate
