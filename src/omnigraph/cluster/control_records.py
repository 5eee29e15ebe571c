"""Control records of a cluster: sealed JSON documents, of which three kinds are defined here.

An intent announces a change of a graph, an approval allows one, and the lock keeps other operators
out. The ledger is the fourth kind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse, refusing
from omnigraph.cluster.cluster_files import (
    APPROVALS_FOLDER,
    LOCK_FILE,
    RECOVERIES,
    ClusterFiles,
    graph_address,
    show_control_path,
)
from omnigraph.errors import ClusterError, Severity, StorageError
from omnigraph.identity import UlidSource
from omnigraph.storage.sealed_records import SEAL, is_sealed, seal
from omnigraph.typed_reading import convert_into
from omnigraph.types.json_value import parse_json
from omnigraph.types.row_problems import ValueRefused
from omnigraph.wire.http_protocol import is_graph_id

FORMAT = 1
"""The format of every control record."""

new_id = UlidSource().next


def read_clock() -> str:
    """Return the current time in the format of control records."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


Record = TypeVar("Record", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[Record]):
    """A kind of control record, with the codes of its problems."""

    what: str
    """Its name with an article, for messages."""
    type: type[Record]
    unreadable: str
    unsupported: str
    invalid: str
    unwritable: str
    folder: str = ""
    """The folder with all records of the kind; a single record has none."""
    version: str = "schema_version"
    """The member with the format."""
    find_problem: Callable[[Record, str], str | None] = lambda _record, _path: None
    """Return the reason why the members of the record at a path do not fit together."""
    advice: str = ""
    unsealed: str | None = None
    """The message for a wrong checksum; with it, the checksum is required."""

    def encode(self, record: Record) -> bytes:
        """Encode a record indented, with its checksum and a newline at the end."""
        body = seal(msgspec.to_builtins(record, order="deterministic"))
        return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"

    def decode(self, data: bytes, path: str) -> Record:
        """Return the record in a file, unless it is damaged or of another format."""
        place = show_control_path(path)
        try:
            body = parse_json(data)
            members = body if isinstance(body, dict) else {}
            version = members.get(self.version)
            if isinstance(version, int) and version != FORMAT:
                name = self.what.partition(" ")[2]
                message = f"the {name} has version {version}; this release reads {FORMAT}"
                raise refuse(self.unsupported, place, message)
            is_whole = is_sealed(members) and (self.unsealed is None or SEAL in members)
            members.pop(SEAL, None)
            record = convert_into(body, self.type)
            problem = self.find_problem(record, path)
        except (ValueRefused, msgspec.ValidationError) as error:
            problem = str(error)
        if problem is None and not is_whole:
            if self.unsealed is not None:
                raise refuse(self.invalid, place, self.unsealed)
            problem = "its checksum is not that of its content"
        if problem is not None:
            raise refuse(self.invalid, place, f"not {self.what}: {problem}{self.advice}")
        return record

    def find(self, files: ClusterFiles, path: str) -> Record | None:
        with refusing(self.unreadable, show_control_path(path)):
            data = files.control.find(path)
        return None if data is None else self.decode(data, path)

    def list_all(
        self, files: ClusterFiles, report: ClusterReport, severity: Severity = Severity.WARNING
    ) -> list[Record]:
        """List the records of the folder by name; unusable ones are reported."""
        names, place = list[str](), show_control_path(self.folder)
        with report.collect(severity), refusing(self.unreadable, place):
            names = [name for name in files.control.list(self.folder) if name.endswith(".json")]
        found = list[Record | None]()
        for name in names:
            with report.collect(severity):
                found.append(self.find(files, f"{self.folder}/{name}"))
        return [one for one in found if one is not None]

    def write(self, files: ClusterFiles, path: str, record: Record) -> None:
        """Write a record, in place of any other."""
        with refusing(self.unwritable, show_control_path(path)):
            files.control.put(path, self.encode(record))


# --- intents ---


class IntentKind(StrEnum):
    GRAPH_CREATE = "graph_create"
    SCHEMA_APPLY = "schema_apply"
    GRAPH_DELETE = "graph_delete"


class StrictRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of what control records consist of: members that it does not have are refused."""


class GraphIntent(StrictRecord, frozen=True, kw_only=True):
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
    recovered_at: str | None = None
    """Set in the ledger, where recovery recorded the change as made."""

    @property
    def path(self) -> str:
        return f"{RECOVERIES}/{self.operation_id}.json"

    def describe(self) -> str:
        return (
            f"an interrupted {self.kind} of {self.started_at} is not finished; "
            "run `omnigraph cluster apply`"
        )


INTENTS = RecordKind(
    "an intent",
    GraphIntent,
    unreadable="recovery_sidecar_read_error",
    unsupported="unsupported_recovery_sidecar_version",
    invalid="invalid_recovery_sidecar",
    unwritable="recovery_sidecar_write_error",
    folder=RECOVERIES,
    find_problem=lambda one, path: (
        None
        if path == one.path and is_graph_id(one.graph_id)
        else "it does not name its file and a graph"
    ),
)


def report_pending(files: ClusterFiles, report: ClusterReport) -> set[str]:
    """Report the graphs with an unfinished change; return their ids."""
    found = {one.graph_id: one for one in INTENTS.list_all(files, report)}
    for graph_id, intent in sorted(found.items()):
        message = f"an interrupted {intent.kind} is not finished; the next apply finishes it"
        report.add("cluster_recovery_pending", graph_address(graph_id), message)
    return set(found)


def remove_intents(
    files: ClusterFiles, intents: Iterable[GraphIntent], report: ClusterReport
) -> None:
    """Remove the intents of changes that are recorded, or were not made."""
    for intent in intents:
        code, place = "recovery_sidecar_cleanup_failed", show_control_path(intent.path)
        with report.collect(Severity.WARNING), refusing(code, place):
            files.control.delete(intent.path)


# --- approvals ---


class ChangeApproval(StrictRecord, frozen=True, kw_only=True):
    """The approval of one change from one state to one configuration.

    Until somebody has given it, it is the gate of a change: what has to be approved.
    """

    schema_version: int = FORMAT
    approval_id: str
    resource: str
    operation: str
    reason: str
    bound_config_digest: str | None
    bound_before_digest: str | None = None
    bound_after_digest: str | None = None
    approved_by: str
    created_at: str
    consumed_at: str | None = None
    consumed_by_operation: str | None = None

    @property
    def path(self) -> str:
        return f"{APPROVALS_FOLDER}/{self.approval_id}.json"

    @property
    def binding(self) -> tuple[str | None, ...]:
        """The configuration and the state that the approval is for."""
        return self.bound_config_digest, self.bound_before_digest, self.bound_after_digest

    def sign(self, actor: str) -> ChangeApproval:
        """Make the approval of a gate by an actor."""
        return msgspec.structs.replace(
            self, approval_id=new_id(), approved_by=actor, created_at=read_clock()
        )

    def consume(self, operation_id: str) -> ChangeApproval:
        return msgspec.structs.replace(
            self, consumed_at=read_clock(), consumed_by_operation=operation_id
        )


APPROVALS = RecordKind(
    "an approval",
    ChangeApproval,
    unreadable="approval_read_error",
    unsupported="unsupported_approval_version",
    invalid="invalid_approval_artifact",
    unwritable="approval_write_error",
    folder=APPROVALS_FOLDER,
    find_problem=lambda one, path: None if path == one.path else "it has another id",
)


def find_approval(
    files: ClusterFiles, approval_id: str, report: ClusterReport
) -> ChangeApproval | None:
    """Return one approval; None if there is none, or if it is reported as unusable."""
    with report.collect(Severity.WARNING):
        return APPROVALS.find(files, f"{APPROVALS_FOLDER}/{approval_id}.json")
    return None


def match_approvals(
    gates: Iterable[ChangeApproval],
    files: ClusterFiles,
    consumed: Mapping[str, ChangeApproval],
    report: ClusterReport,
) -> dict[str, ChangeApproval]:
    """Return the stored approval of each gated change, by resource; stale ones are reported."""
    stored = [
        one
        for one in APPROVALS.list_all(files, report)
        if one.consumed_at is None and one.approval_id not in consumed
    ]
    found = dict[str, ChangeApproval]()
    for gate in gates:
        subject = gate.resource, gate.operation
        candidates = [one for one in stored if (one.resource, one.operation) == subject]
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
    files: ClusterFiles, consumed: Mapping[str, ChangeApproval], report: ClusterReport
) -> None:
    """Note in the stored approvals that the ledger records their use."""
    for approval_id, approval in consumed.items():
        stored = find_approval(files, approval_id, report)
        if stored is not None and stored.consumed_at is None:
            APPROVALS.write(files, approval.path, approval)


# --- the lock ---


class StateLock(StrictRecord, frozen=True, kw_only=True):
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
    """Keep other operators out for the duration of a block."""
    lock = StateLock(
        lock_id=new_id(), operation=operation, created_at=read_clock(), pid=os.getpid()
    )
    try:
        is_ours = files.control.put_if_absent(LOCK_FILE, _LOCK.encode(lock))
    except StorageError as error:
        # The lock may have been created before the answer was lost.
        is_ours = _is_held(files, lock)
        if not is_ours:
            raise refuse("state_lock_error", _LOCK_PATH, error.message) from error
    if not is_ours:
        held = _LOCK.find(files, LOCK_FILE)
        message = held.describe() if held else "another operator just had the lock; try again"
        raise refuse("state_lock_held", _LOCK_PATH, message)
    try:
        yield lock
    finally:
        if _is_held(files, lock):
            _delete_lock(files)


def _is_held(files: ClusterFiles, lock: StateLock) -> bool:
    """Return whether the lock is this one; one that cannot be read belongs to somebody else."""
    try:
        return _LOCK.find(files, LOCK_FILE) == lock
    except ClusterError:
        return False


def _delete_lock(files: ClusterFiles) -> None:
    with refusing("state_lock_error", _LOCK_PATH):
        files.control.delete(LOCK_FILE)


def report_lock(files: ClusterFiles, report: ClusterReport) -> StateLock | None:
    """Return the lock of an operator at work, with a warning; one that is damaged is a warning."""
    lock = None
    with report.collect(Severity.WARNING):
        lock = _LOCK.find(files, LOCK_FILE)
    if lock is not None:
        report.add("state_lock_held", _LOCK_PATH, lock.describe(), Severity.WARNING)
    return lock


def remove_lock(files: ClusterFiles, lock_id: str) -> StateLock:
    """Remove the lock of an operator that is gone, named by its id."""
    lock = _LOCK.find(files, LOCK_FILE)
    if lock is None:
        raise refuse("state_lock_missing", _LOCK_PATH, "there is no lock to remove")
    if lock.lock_id != lock_id:
        message = f"the lock has the id {lock.lock_id}, not {lock_id}"
        raise refuse("state_lock_id_mismatch", _LOCK_PATH, message)
    _delete_lock(files)
    return lock
