"""Sessions of cluster commands: the lock of a command, what it has read, and the base of results.

A command reads what it needs into its session, reports diagnostics there, and returns a result in
any case: as the value, or within the `ClusterError` that ends it if a diagnostic is an error.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, TypeVar

import msgspec

from omnigraph.cluster.cluster_config import choose_root, read_storage_root
from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse, refusing
from omnigraph.cluster.cluster_files import (
    ClusterFiles,
    graph_address,
)
from omnigraph.cluster.cluster_state import ClusterPlan, ClusterState
from omnigraph.cluster.control_records import (
    APPROVALS,
    INTENTS,
    LOCK,
    LOCK_PATH,
    STATE_PATH,
    ChangeApproval,
    GraphIntent,
    Observation,
    ReadLedger,
    ResourceStatus,
    StateLedger,
    StateLock,
    find_ledger,
    new_id,
    read_clock,
    write_ledger,
)
from omnigraph.cluster.desired_state import DesiredState, read_desired
from omnigraph.errors import ClusterDiagnostic, ClusterError, Severity
from omnigraph.result import Result
from omnigraph.settings import Settings

# --- results ---


class StateObservations(Result, frozen=True, kw_only=True):
    """The ledger and the lock as observed by a command."""

    state_path: str
    lock_path: str
    state_found: bool
    state_revision: int
    resource_count: int
    locked: bool
    """True if another operator holds the lock."""
    lock_acquired: bool
    """True if the command held the lock itself."""
    applied_config_digest: str | None = None
    state_cas: str | None = None
    lock_id: str | None = None
    acquired_lock_id: str | None = None
    lock_operation: str | None = None
    lock_created_at: str | None = None
    lock_pid: int | None = None
    lock_age_seconds: float | None = None


class ClusterResult(Result, frozen=True, kw_only=True):
    """The result of a command, with its diagnostics."""

    ok: bool
    config_dir: str
    diagnostics: tuple[ClusterDiagnostic, ...]


AnyResult = TypeVar("AnyResult", bound=ClusterResult)


def finish(result: AnyResult) -> AnyResult:
    """Return the result, unless one of its diagnostics is an error.

    Raises:
        ClusterError: one is; with all of them and the result.
    """
    if not result.ok:
        raise ClusterError(result.diagnostics, result)
    return result


class ResultHead(TypedDict):
    """The members of every result."""

    ok: bool
    config_dir: str
    diagnostics: tuple[ClusterDiagnostic, ...]


class DesiredRevision(Result, frozen=True):
    config_digest: str | None = None


class ClusterStatus(ClusterResult, frozen=True, kw_only=True):
    """The content of the ledger; `operation` is `refresh` or `import` if one of them wrote it."""

    operation: str | None = None
    state: StateObservations = msgspec.field(name="state_observations")
    resource_digests: dict[str, str]
    resource_statuses: dict[str, ResourceStatus]
    observations: dict[str, Observation]


# --- sessions ---


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
    """The ledger as it was read or written last."""
    ledger: StateLedger = field(default_factory=StateLedger)
    """The copy of it that the command changes."""
    approvals: dict[str, ChangeApproval] = field(default_factory=dict)
    """The approvals of the planned changes, by resource."""
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

    def read_ledger(self) -> ReadLedger | None:
        """Read the ledger, and begin to change a copy of it."""
        found = find_ledger(self.files)
        if found is not None:
            self.edit(found)
        return found

    def edit(self, base: ReadLedger) -> None:
        """Begin to change a copy of a ledger."""
        self.base, self.ledger = base, copy.deepcopy(base.record)

    def require_no_roots(self) -> None:
        """Raise if there are graphs: a new ledger must record them."""
        with refusing("state_read_error", STATE_PATH):
            roots = self.files.list_roots()
        if roots:
            message = (
                f"there is no ledger, but there are graphs: {', '.join(roots)}; "
                "run `omnigraph cluster import`"
            )
            raise refuse("state_missing", STATE_PATH, message)

    def write_ledger(self) -> None:
        """Write the ledger, and remove the intents of the changes that it records."""
        self.ledger.applied_revision.refresh_digests()
        self.base = write_ledger(self.files, self.ledger, self.base)
        self.remove_intents(*self.finished)

    # --- intents and approvals ---

    def report_pending(self) -> None:
        """Report the graphs with an unfinished change."""
        found = {one.graph_id: one for one in INTENTS.list_usable(self.files, self.report)}
        for graph_id, intent in sorted(found.items()):
            message = f"an interrupted {intent.kind} is not finished; the next apply finishes it"
            self.report.add("cluster_recovery_pending", graph_address(graph_id), message)
        self.pending = set(found)

    def remove_intents(self, *intents: GraphIntent) -> None:
        """Remove the intents of changes that are recorded, or were not made."""
        for intent in intents:
            path = INTENTS.show_path(intent.operation_id)
            with (
                self.report.collect(Severity.WARNING),
                refusing("recovery_sidecar_cleanup_failed", path),
            ):
                INTENTS.remove(self.files.control, intent.operation_id)

    def plan(self) -> ClusterPlan:
        """Compare the ledger with the configuration, and find the approvals that changes need."""
        state, desired = self.ledger.applied_revision, self.desired.state
        applied = ClusterState(state.config_digest, dict(state.resources))
        plan = ClusterPlan(applied, desired, frozenset(self.pending), self.ledger.list_gone())
        self._match_approvals(plan)
        return replace(plan, approved=self.approvals.keys())

    def _match_approvals(self, plan: ClusterPlan) -> None:
        """Find the stored approval of each gated change; stale ones are reported."""
        stored = [
            one
            for one in APPROVALS.list_usable(self.files, self.report)
            if one.consumed_at is None and one.approval_id not in self.ledger.approval_records
        ]
        for address in plan.gates:
            subject = address, plan.changes[address].operation
            candidates = [one for one in stored if (one.resource, one.operation) == subject]
            fitting = [one for one in candidates if one.fits(plan)]
            if fitting:
                self.approvals[address] = fitting[0]
            elif candidates:
                message = (
                    f"the approval {candidates[-1].approval_id} to {subject[1]} it was given "
                    "for another state or configuration; approve it again"
                )
                self.report.add("approval_stale", address, message)

    def find_approval(self, approval_id: str) -> ChangeApproval | None:
        """Return one approval; None if there is none, or if it is reported as unusable."""
        with self.report.collect(Severity.WARNING):
            return APPROVALS.find(self.files.control, approval_id)
        return None

    def mark_approvals_consumed(self) -> None:
        """Note in the stored approvals that the ledger records their use."""
        for approval_id, approval in self.ledger.approval_records.items():
            stored = self.find_approval(approval_id)
            if stored is not None and stored.consumed_at is None:
                APPROVALS.put(self.files.control, approval)

    # --- the lock ---

    @contextmanager
    def lock(self, operation: str) -> Iterator[None]:
        """Read the desired state and lock the cluster, unless `cluster.yaml` says otherwise."""
        self.read_desired()
        is_locked = self.desired.config.lock
        lock = self._hold_lock(operation) if is_locked else nullcontext()
        with lock as self.acquired:
            yield

    @contextmanager
    def _hold_lock(self, operation: str) -> Iterator[StateLock]:
        """Keep other operators out for the duration of a block."""
        lock = StateLock(
            lock_id=new_id(), operation=operation, created_at=read_clock(), pid=os.getpid()
        )
        if not LOCK.create(self.files.control, lock):
            held = LOCK.find(self.files.control)
            message = held.describe() if held else "another operator just had the lock; try again"
            raise refuse("state_lock_held", LOCK_PATH, message)
        try:
            yield lock
        finally:
            if self._is_held(lock):
                self._delete_lock()

    def _is_held(self, lock: StateLock) -> bool:
        """Return whether the lock is this one; one that cannot be read is not."""
        try:
            return LOCK.find(self.files.control) == lock
        except ClusterError:
            return False

    def _delete_lock(self) -> None:
        with refusing("state_lock_error", LOCK_PATH):
            LOCK.remove(self.files.control)

    def report_lock(self) -> None:
        """Find the lock of an operator at work, with a warning; a damaged one is a warning too."""
        with self.report.collect(Severity.WARNING):
            self.other_lock = LOCK.find(self.files.control)
        if self.other_lock is not None:
            message = self.other_lock.describe()
            self.report.add("state_lock_held", LOCK_PATH, message, Severity.WARNING)

    def remove_lock(self, lock_id: str) -> None:
        """Remove the lock of an operator that is gone, named by its id."""
        lock = LOCK.find(self.files.control)
        if lock is None:
            raise refuse("state_lock_missing", LOCK_PATH, "there is no lock to remove")
        if lock.lock_id != lock_id:
            message = f"the lock has the id {lock.lock_id}, not {lock_id}"
            raise refuse("state_lock_id_mismatch", LOCK_PATH, message)
        self._delete_lock()
        self.other_lock = lock

    # --- results ---

    def observe_state(self) -> StateObservations:
        """Describe the ledger as it was read or written last, and the lock."""
        base, lock, acquired = self.base, self.other_lock, self.acquired
        ledger = StateLedger() if base is None else base.record
        observed = StateObservations(
            state_path=STATE_PATH,
            lock_path=LOCK_PATH,
            state_found=base is not None,
            state_revision=ledger.state_revision,
            resource_count=len(ledger.resources),
            locked=lock is not None,
            lock_acquired=acquired is not None,
            applied_config_digest=ledger.applied_revision.config_digest,
            state_cas=None if base is None else base.digest,
            acquired_lock_id=None if acquired is None else acquired.lock_id,
        )
        if lock is None:
            return observed
        return msgspec.structs.replace(
            observed,
            lock_id=lock.lock_id,
            lock_operation=lock.operation,
            lock_created_at=lock.created_at,
            lock_pid=lock.pid,
            lock_age_seconds=lock.age_s,
        )

    def make_head(self) -> ResultHead:
        return ResultHead(
            ok=not self.report.has_errors,
            config_dir=str(self.folder),
            diagnostics=tuple(self.report.found),
        )

    def make_status(self, operation: str | None = None) -> ClusterStatus:
        """Make the result that shows the ledger as it was read or written last."""
        ledger = StateLedger() if self.base is None else self.base.record
        return ClusterStatus(
            **self.make_head(),
            operation=operation,
            state=self.observe_state(),
            resource_digests=ledger.applied_revision.digests,
            resource_statuses=dict(sorted(ledger.resource_statuses.items())),
            observations=dict(sorted(ledger.observations.items())),
        )
