"""Control records of a cluster: intents of changes of graphs, approvals, and the lock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

import msgspec

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse, refusing
from omnigraph.cluster.cluster_files import FORMAT, ClusterFiles, RecordKind
from omnigraph.cluster.resources import (
    APPROVALS,
    LOCK_FILE,
    RECOVERIES,
    graph_address,
    make_approval_path,
    make_intent_file,
    show_control_path,
)
from omnigraph.cluster.state_ledger import ApprovalRecord, read_clock
from omnigraph.errors import ClusterError, Severity, StorageError
from omnigraph.identity import UlidSource
from omnigraph.wire.http_protocol import is_graph_id

_ids = UlidSource()


class IntentKind(StrEnum):
    GRAPH_CREATE = "graph_create"
    SCHEMA_APPLY = "schema_apply"
    GRAPH_DELETE = "graph_delete"


class GraphIntent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The intent of one change of one graph, written before its first effect."""

    schema_version: int = FORMAT
    operation_id: str
    started_at: str
    actor: str | None = None
    kind: IntentKind
    graph_id: str
    graph_uri: str
    observed_manifest_version: int | None = None
    """The version of the graph before the change."""
    expected_manifest_version: int | None = None
    """The version of the graph after the change, once that is known."""
    desired_schema_digest: str | None = None
    state_cas_base: str | None = None
    approval_id: str | None = None

    def describe(self) -> str:
        return (
            f"an interrupted {self.kind} of {self.started_at} is not settled; "
            "run `omnigraph cluster apply`"
        )


def _find_intent_problem(intent: GraphIntent, path: str) -> str | None:
    if path == make_intent_file(intent.operation_id) and is_graph_id(intent.graph_id):
        return None
    return "it does not name its file and a graph"


_INTENT = RecordKind(
    "an intent",
    GraphIntent,
    unreadable="recovery_sidecar_read_error",
    unsupported="unsupported_recovery_sidecar_version",
    invalid="invalid_recovery_sidecar",
    unwritable="recovery_sidecar_write_error",
    find_problem=_find_intent_problem,
)


def read_intents(
    files: ClusterFiles, report: ClusterReport, severity: Severity = Severity.WARNING
) -> list[GraphIntent]:
    """List the intents of unfinished changes; unusable ones are reported with this severity."""
    return _INTENT.list_all(files, RECOVERIES, report, severity)


def report_pending(files: ClusterFiles, report: ClusterReport) -> set[str]:
    """Report the graphs with an unfinished change; return their ids."""
    found = {one.graph_id: one for one in read_intents(files, report)}
    for graph_id, intent in sorted(found.items()):
        message = f"an interrupted {intent.kind} is not settled; the next apply settles it"
        report.add("cluster_recovery_pending", graph_address(graph_id), message)
    return set(found)


def write_intent(files: ClusterFiles, intent: GraphIntent) -> None:
    """Announce a change, or add to what is announced.

    Raises:
        ClusterError: it cannot be written, so the change must not be made.
    """
    _INTENT.write(files, make_intent_file(intent.operation_id), intent)


def remove_intents(
    files: ClusterFiles, operation_ids: Iterable[str], report: ClusterReport
) -> None:
    """Remove the intents of changes that are recorded, or were not made."""
    for operation_id in operation_ids:
        path = make_intent_file(operation_id)
        code, place = "recovery_sidecar_cleanup_failed", show_control_path(path)
        with report.collect(Severity.WARNING), refusing(code, place):
            files.control.delete(path)


class ChangeApproval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The approval of one change from one state to one configuration.

    Until somebody has given it, it is the gate of a change: what has to be approved.
    """

    schema_version: int = FORMAT
    approval_id: str
    resource: str
    operation: str
    reason: str
    bound_config_digest: str
    bound_before_digest: str | None = None
    bound_after_digest: str | None = None
    approved_by: str
    created_at: str
    consumed_at: str | None = None
    consumed_by_operation: str | None = None

    @property
    def subject(self) -> tuple[str, str]:
        return self.resource, self.operation

    @property
    def binding(self) -> tuple[str | None, ...]:
        """The configuration and the state that the approval is for."""
        return self.bound_config_digest, self.bound_before_digest, self.bound_after_digest

    def sign(self, actor: str) -> ChangeApproval:
        """Make the approval of a gate by an actor."""
        return msgspec.structs.replace(
            self, approval_id=_ids.next(), approved_by=actor, created_at=read_clock()
        )

    def record_use(self, operation_id: str) -> ApprovalRecord:
        """Make the record of the ledger that an operation consumed the approval."""
        return ApprovalRecord(
            resource=self.resource,
            operation=self.operation,
            approved_by=self.approved_by,
            consumed_at=read_clock(),
            consumed_by_operation=operation_id,
        )


_APPROVAL = RecordKind(
    "an approval",
    ChangeApproval,
    unreadable="approval_read_error",
    unsupported="unsupported_approval_version",
    invalid="invalid_approval_artifact",
    unwritable="approval_write_error",
    find_problem=lambda approval, path: (
        None if path == make_approval_path(approval.approval_id) else "it has another id"
    ),
)


def find_approval(
    files: ClusterFiles, approval_id: str, report: ClusterReport
) -> ChangeApproval | None:
    """Return one approval; None if there is none, or if it is reported as unusable."""
    with report.collect(Severity.WARNING):
        return _APPROVAL.find(files, make_approval_path(approval_id))
    return None


def write_approval(files: ClusterFiles, approval: ChangeApproval) -> None:
    """Store an approval.

    Raises:
        ClusterError: it cannot be written.
    """
    _APPROVAL.write(files, make_approval_path(approval.approval_id), approval)


def match_approvals(
    gates: Iterable[ChangeApproval],
    files: ClusterFiles,
    consumed: Mapping[str, ApprovalRecord],
    report: ClusterReport,
) -> dict[str, ChangeApproval]:
    """Return the stored approval of each gated change, by resource; stale ones are reported."""
    stored = [
        one
        for one in _APPROVAL.list_all(files, APPROVALS, report, Severity.WARNING)
        if one.consumed_at is None and one.approval_id not in consumed
    ]
    found: dict[str, ChangeApproval] = {}
    for gate in gates:
        candidates = [one for one in stored if one.subject == gate.subject]
        fitting = [one for one in candidates if one.binding == gate.binding]
        if fitting:
            found[gate.resource] = fitting[0]
        elif candidates:
            message = (
                f"the approval {candidates[-1].approval_id} to {gate.operation} it was given for "
                "another state or configuration; approve it again"
            )
            report.add("approval_stale", gate.resource, message)
    return found


def mark_approvals_consumed(
    files: ClusterFiles, records: Mapping[str, ApprovalRecord], report: ClusterReport
) -> None:
    """Note in the stored approvals which of them the ledger has consumed."""
    for approval_id, record in records.items():
        approval = find_approval(files, approval_id, report)
        if approval is not None and approval.consumed_at is None:
            consumed = msgspec.structs.replace(
                approval,
                consumed_at=record.consumed_at,
                consumed_by_operation=record.consumed_by_operation,
            )
            write_approval(files, consumed)


class StateLock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lock of an operator: it keeps others from changing the cluster."""

    version: int = FORMAT
    lock_id: str
    operation: str
    created_at: str
    pid: int

    def describe(self) -> str:
        """Return a sentence with the holder, and the remedy if it is gone."""
        return (
            f"'{self.operation}' of process {self.pid} has held the lock {self.lock_id} since "
            f"{self.created_at}; if it is gone, run `omnigraph cluster force-unlock {self.lock_id}`"
        )


_LOCK = RecordKind(
    "a lock",
    StateLock,
    unreadable="state_lock_read_error",
    unsupported="unsupported_state_lock_version",
    invalid="invalid_state_lock",
    unwritable="state_lock_error",
    version="version",
    advice="; if no operator is working, remove the file",
)
_LOCK_PATH = show_control_path(LOCK_FILE)


@contextmanager
def hold_lock(files: ClusterFiles, operation: str) -> Iterator[StateLock]:
    """Keep other operators out for the duration of a block.

    Raises:
        ClusterError: another operator holds the lock, or it cannot be taken.
    """
    lock = StateLock(
        lock_id=_ids.next(), operation=operation, created_at=read_clock(), pid=os.getpid()
    )
    _take_lock(files, lock)
    try:
        yield lock
    finally:
        if _is_held(files, lock):
            _delete_lock(files)


def report_lock(files: ClusterFiles, report: ClusterReport) -> StateLock | None:
    """Return the lock of an operator at work, with a warning; one that is damaged is a warning."""
    lock = None
    with report.collect(Severity.WARNING):
        lock = _LOCK.find(files, LOCK_FILE)
    if lock is not None:
        report.add("state_lock_held", _LOCK_PATH, lock.describe(), Severity.WARNING)
    return lock


def remove_lock(files: ClusterFiles, lock_id: str) -> StateLock:
    """Remove the lock of an operator that is gone.

    Raises:
        ClusterError: there is none, or it has another id.
    """
    lock = _LOCK.find(files, LOCK_FILE)
    if lock is None:
        raise refuse("state_lock_missing", _LOCK_PATH, "there is no lock to remove")
    if lock.lock_id != lock_id:
        message = f"the lock has the id {lock.lock_id}, not {lock_id}"
        raise refuse("state_lock_id_mismatch", _LOCK_PATH, message)
    _delete_lock(files)
    return lock


def _take_lock(files: ClusterFiles, lock: StateLock) -> None:
    try:
        is_ours = files.control.put_if_absent(LOCK_FILE, _LOCK.encode(lock))
    except StorageError as error:
        # The lock may have been created before the answer was lost.
        if not _is_held(files, lock):
            raise refuse("state_lock_error", _LOCK_PATH, error.message) from error
        return
    if not is_ours:
        held = _LOCK.find(files, LOCK_FILE)
        message = held.describe() if held else "another operator just had the lock; try again"
        raise refuse("state_lock_held", _LOCK_PATH, message)


def _is_held(files: ClusterFiles, lock: StateLock) -> bool:
    """Return whether the lock is this one; one that cannot be read belongs to somebody else."""
    try:
        held = _LOCK.find(files, LOCK_FILE)
    except ClusterError:
        return False
    return held is not None and held.lock_id == lock.lock_id


def _delete_lock(files: ClusterFiles) -> None:
    with refusing("state_lock_error", _LOCK_PATH):
        files.control.delete(LOCK_FILE)
