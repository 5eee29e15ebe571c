"""Sidecars: what a change of a graph set out to do, written before it and removed after it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_layout import RECOVERIES, make_sidecar_path, show_control_path
from omnigraph.cluster.cluster_report import ClusterReport, refuse
from omnigraph.errors import Severity, StorageError
from omnigraph.typed_reading import convert_into
from omnigraph.types.problems import ValueRefused
from omnigraph.types.strict_json import parse_json
from omnigraph.wire.graph_ids import is_graph_id

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
