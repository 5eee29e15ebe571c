"""Control records of a cluster: its lock, the approvals, and the sidecars of unfinished changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.resources import (
    APPROVALS,
    LOCK_FILE,
    RECOVERIES,
    graph_address,
    make_approval_path,
    make_sidecar_path,
    show_control_path,
)
from omnigraph.cluster.state_ledger import ApprovalRecord, read_clock
from omnigraph.errors import ClusterError, Severity, StorageError
from omnigraph.identity import UlidSource
from omnigraph.typed_reading import convert_into
from omnigraph.types.json_value import parse_json
from omnigraph.types.problems import ValueRefused
from omnigraph.wire.http_protocol import is_graph_id

SIDECAR_VERSION = 1
_JSON = ".json"


class SidecarKind(StrEnum):
    GRAPH_CREATE = "graph_create"
    SCHEMA_APPLY = "schema_apply"
    GRAPH_DELETE = "graph_delete"


class RecoverySidecar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of one graph that was begun."""

    schema_version: int = SIDECAR_VERSION
    operation_id: str
    started_at: str
    actor: str | None = None
    kind: SidecarKind
    graph_id: str
    graph_uri: str
    observed_manifest_version: int | None = None
    """Where the graph was before."""
    expected_manifest_version: int | None = None
    """Where it was after, once that is known."""
    desired_schema_digest: str | None = None
    state_cas_base: str | None = None
    approval_id: str | None = None


def read_sidecars(
    files: ClusterFiles, report: ClusterReport, severity: Severity | None = None
) -> Mapping[str, RecoverySidecar]:
    """The sidecars by operation; what is wrong with one is reported."""
    try:
        names = files.control.list(RECOVERIES)
    except StorageError as error:
        place = show_control_path(RECOVERIES)
        report.add("recovery_sidecar_read_error", place, error.message, severity)
        return {}
    found = {}
    for name in names:
        if name.endswith(_JSON):
            sidecar = _read_sidecar(files, f"{RECOVERIES}/{name}", report, severity)
            if sidecar is not None:
                found[sidecar.operation_id] = sidecar
    return found


def list_pending(files: ClusterFiles, report: ClusterReport) -> Mapping[str, RecoverySidecar]:
    """The interrupted changes by graph, reported and left as they are."""
    found = {one.graph_id: one for one in read_sidecars(files, report).values()}
    for graph_id, sidecar in sorted(found.items()):
        message = f"an interrupted {sidecar.kind} is not settled; the next apply settles it"
        report.add("cluster_recovery_pending", graph_address(graph_id), message)
    return found


def write_sidecar(files: ClusterFiles, sidecar: RecoverySidecar) -> None:
    """Announce a change, or say more about one that is announced.

    Raises:
        ClusterError: it cannot be written, so the change must not be made.
    """
    path = make_sidecar_path(sidecar.operation_id)
    try:
        files.control.put(path, encode_document(sidecar))
    except StorageError as error:
        place = show_control_path(path)
        raise refuse("recovery_sidecar_write_error", place, error.message) from error


def remove_sidecar(files: ClusterFiles, operation_id: str, report: ClusterReport) -> None:
    """Take back the announcement of a change that is settled."""
    path = make_sidecar_path(operation_id)
    try:
        files.control.delete(path)
    except StorageError as error:
        place = show_control_path(path)
        report.add("recovery_sidecar_cleanup_failed", place, error.message)


def encode_document(value: msgspec.Struct) -> bytes:
    """A struct as the files of a cluster have it: indented, with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _read_sidecar(
    files: ClusterFiles, path: str, report: ClusterReport, severity: Severity | None
) -> RecoverySidecar | None:
    place = show_control_path(path)
    try:
        data = files.control.find(path)
        if data is None:
            return None
        value = parse_json(data)
        version = value.get("schema_version") if isinstance(value, dict) else None
        if isinstance(version, int) and version != SIDECAR_VERSION:
            message = f"the intent has version {version}; this release reads {SIDECAR_VERSION}"
            report.add("unsupported_recovery_sidecar_version", place, message, severity)
            return None
        sidecar = convert_into(value, RecoverySidecar)
    except StorageError as error:
        report.add("recovery_sidecar_read_error", place, error.message, severity)
        return None
    except (ValueRefused, msgspec.ValidationError) as error:
        report.add("invalid_recovery_sidecar", place, f"not an intent: {error}", severity)
        return None
    is_named_so = path == make_sidecar_path(sidecar.operation_id)
    if not is_named_so or not is_graph_id(sidecar.graph_id):
        message = "not an intent: it does not name its file and a graph"
        report.add("invalid_recovery_sidecar", place, message, severity)
        return None
    return sidecar


APPROVAL_VERSION = 1


class ChangeApproval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who allowed which change, and for which state and configuration."""

    schema_version: int = APPROVAL_VERSION
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


@dataclass(frozen=True, slots=True)
class GatedChange:
    """A change that needs an approval."""

    resource: str
    operation: str
    reason: str
    config_digest: str
    before_digest: str | None
    after_digest: str | None

    def fits(self, approval: ChangeApproval) -> bool:
        """Whether an approval was given for just this."""
        bound = (
            approval.bound_config_digest,
            approval.bound_before_digest,
            approval.bound_after_digest,
        )
        return self.is_meant_by(approval) and bound == (
            self.config_digest,
            self.before_digest,
            self.after_digest,
        )

    def is_meant_by(self, approval: ChangeApproval) -> bool:
        return (approval.resource, approval.operation) == (self.resource, self.operation)


def read_approvals(
    files: ClusterFiles, consumed: Mapping[str, ApprovalRecord], report: ClusterReport
) -> list[ChangeApproval]:
    """The approvals that were not used yet, oldest first; what is wrong with one is reported."""
    try:
        names = files.control.list(APPROVALS)
    except StorageError as error:
        report.add("approval_read_error", show_control_path(APPROVALS), error.message)
        return []
    found = [
        read_approval(files, n.removesuffix(_JSON), report) for n in names if n.endswith(_JSON)
    ]
    return [
        one
        for one in found
        if one is not None and one.consumed_at is None and one.approval_id not in consumed
    ]


def read_approval(
    files: ClusterFiles, approval_id: str, report: ClusterReport
) -> ChangeApproval | None:
    """One approval; None if there is none, or what is there is reported as wrong."""
    path = make_approval_path(approval_id)
    place = show_control_path(path)
    try:
        data = files.control.find(path)
        if data is None:
            return None
        value = parse_json(data)
        version = value.get("schema_version") if isinstance(value, dict) else None
        if isinstance(version, int) and version != APPROVAL_VERSION:
            message = f"the approval has version {version}; this release reads {APPROVAL_VERSION}"
            report.add("unsupported_approval_version", place, message)
            return None
        approval = convert_into(value, ChangeApproval)
    except StorageError as error:
        report.add("approval_read_error", place, error.message)
        return None
    except (ValueRefused, msgspec.ValidationError) as error:
        report.add("invalid_approval_artifact", place, f"not an approval: {error}")
        return None
    if approval.approval_id != approval_id:
        report.add("invalid_approval_artifact", place, "not an approval: it has another id")
        return None
    return approval


def match_approvals(
    gates: Iterable[GatedChange], approvals: Iterable[ChangeApproval], report: ClusterReport
) -> dict[str, ChangeApproval]:
    """The approval of each change that has one, by resource; stale ones are reported."""
    found: dict[str, ChangeApproval] = {}
    given = list(approvals)
    for gate in gates:
        meant = [one for one in given if gate.is_meant_by(one)]
        fitting = [one for one in meant if gate.fits(one)]
        if fitting:
            found[gate.resource] = fitting[0]
        elif meant:
            message = (
                f"the approval {meant[-1].approval_id} to {gate.operation} it was given for "
                "another state or configuration; approve it again"
            )
            report.add("approval_stale", gate.resource, message)
    return found


def write_approval(files: ClusterFiles, approval: ChangeApproval) -> None:
    """Keep an approval, or that it was used.

    Raises:
        ClusterError: it cannot be written.
    """
    path = make_approval_path(approval.approval_id)
    try:
        files.control.put(path, encode_document(approval))
    except StorageError as error:
        raise refuse("approval_write_error", show_control_path(path), error.message) from error


def mark_approvals_consumed(
    files: ClusterFiles, records: Mapping[str, ApprovalRecord], report: ClusterReport
) -> None:
    """Write into the files which approvals the ledger says were used."""
    for approval_id, record in records.items():
        approval = read_approval(files, approval_id, report)
        if approval is not None and approval.consumed_at is None:
            write_approval(
                files,
                msgspec.structs.replace(
                    approval,
                    consumed_at=record.consumed_at,
                    consumed_by_operation=record.consumed_by_operation,
                ),
            )


LOCK_VERSION = 1
_PLACE = show_control_path(LOCK_FILE)
_ids = UlidSource()


class StateLock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is changing the cluster."""

    version: int = LOCK_VERSION
    lock_id: str
    operation: str
    created_at: str
    pid: int


def find_lock(files: ClusterFiles) -> StateLock | None:
    """The lock that is held, if one is.

    Raises:
        ClusterError: it cannot be read, or is not a lock.
    """
    try:
        data = files.control.find(LOCK_FILE)
    except StorageError as error:
        raise refuse("state_lock_read_error", _PLACE, error.message) from error
    if data is None:
        return None
    try:
        value = parse_json(data)
        version = value.get("version") if isinstance(value, dict) else None
        if isinstance(version, int) and version != LOCK_VERSION:
            message = f"the lock has version {version}; this release reads {LOCK_VERSION}"
            raise refuse("unsupported_state_lock_version", _PLACE, message)
        return convert_into(value, StateLock)
    except (ValueRefused, msgspec.ValidationError) as error:
        message = f"not a lock: {error}; if no operator is working, remove the file"
        raise refuse("invalid_state_lock", _PLACE, message) from None


@contextmanager
def hold_lock(
    files: ClusterFiles, operation: str, *, is_wanted: bool
) -> Iterator[StateLock | None]:
    """Keep other operators out for the duration of a block.

    Raises:
        ClusterError: somebody else holds the lock, or it cannot be taken.
    """
    lock = _take_lock(files, operation) if is_wanted else None
    try:
        yield lock
    finally:
        if lock is not None:
            _release_lock(files, lock)


def describe_lock(lock: StateLock) -> str:
    """Who holds a lock, and what to do if they are gone."""
    return (
        f"'{lock.operation}' of process {lock.pid} has held the lock {lock.lock_id} since "
        f"{lock.created_at}; if it is gone, run `omnigraph cluster force-unlock {lock.lock_id}`"
    )


def warn_of_lock(files: ClusterFiles, report: ClusterReport) -> StateLock | None:
    """The lock of somebody at work; whatever is wrong with it is a warning for those who read."""
    try:
        lock = find_lock(files)
    except ClusterError as error:
        for one in error.diagnostics:
            report.add(one.code, one.path, one.message, Severity.WARNING)
        return None
    if lock is not None:
        report.add("state_lock_held", _PLACE, describe_lock(lock), Severity.WARNING)
    return lock


def remove_lock(files: ClusterFiles, lock_id: str) -> StateLock:
    """Remove the lock of somebody who is gone.

    Raises:
        ClusterError: there is none, or it has another id.
    """
    lock = find_lock(files)
    if lock is None:
        raise refuse("state_lock_missing", _PLACE, "there is no lock to remove")
    if lock.lock_id != lock_id:
        message = f"the lock has the id {lock.lock_id}, not {lock_id}"
        raise refuse("state_lock_id_mismatch", _PLACE, message)
    _delete_lock(files)
    return lock


def _take_lock(files: ClusterFiles, operation: str) -> StateLock:
    lock = StateLock(
        lock_id=_ids.next(), operation=operation, created_at=read_clock(), pid=os.getpid()
    )
    try:
        is_ours = files.control.put_if_absent(LOCK_FILE, encode_document(lock))
    except StorageError as error:
        # It may be ours all the same, and the answer was lost.
        if not _is_held(files, lock):
            raise refuse("state_lock_error", _PLACE, error.message) from error
        return lock
    if not is_ours:
        held = find_lock(files)
        message = describe_lock(held) if held else "another operator just had the lock; try again"
        raise refuse("state_lock_held", _PLACE, message)
    return lock


def _release_lock(files: ClusterFiles, lock: StateLock) -> None:
    """Take our own lock back; one that is not ours any more is left alone."""
    if _is_held(files, lock):
        _delete_lock(files)


def _is_held(files: ClusterFiles, lock: StateLock) -> bool:
    """Whether the lock that is held is this one; one that cannot be read is somebody else's."""
    try:
        held = find_lock(files)
    except ClusterError:
        return False
    return held is not None and held.lock_id == lock.lock_id


def _delete_lock(files: ClusterFiles) -> None:
    try:
        files.control.delete(LOCK_FILE)
    except StorageError as error:
        raise refuse("state_lock_error", _PLACE, error.message) from error
