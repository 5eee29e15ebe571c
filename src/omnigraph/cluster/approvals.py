"""Approvals: that somebody allowed a change that cannot be undone. Files that are never deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_layout import APPROVALS, make_approval_path, show_control_path
from omnigraph.cluster.cluster_report import ClusterReport, refuse
from omnigraph.cluster.recovery_sidecars import encode_document
from omnigraph.cluster.state_ledger import ApprovalRecord
from omnigraph.errors import StorageError
from omnigraph.typed_reading import convert_into
from omnigraph.types.problems import ValueRefused
from omnigraph.types.strict_json import parse_json

APPROVAL_VERSION = 1
_JSON = ".json"


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


def stamp_approvals(
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
