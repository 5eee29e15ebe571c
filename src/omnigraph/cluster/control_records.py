"""Control records of a cluster: the ledger, the intents, the approvals and the lock.

The ledger is one file that is replaced by compare-and-swap. A command edits a copy of it, and
writes it at its end as the next revision. An intent announces a change of a graph, an approval
allows one, and the lock keeps other operators out.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from omnigraph.cluster.cluster_diagnostics import refuse
from omnigraph.cluster.cluster_files import (
    APPROVALS_FOLDER,
    LOCK_FILE,
    RECOVERIES,
    STATE_FILE,
    ClusterFiles,
    ControlRecords,
    find_graph_id,
    graph_address,
    is_resource_address,
    schema_address,
)
from omnigraph.cluster.cluster_state import (
    ClusterPlan,
    ClusterState,
    ResourceRecord,
    StrictRecord,
)
from omnigraph.identity import UlidSource
from omnigraph.storage.sealed_records import StoredRecord
from omnigraph.wire.http_protocol import is_graph_id

new_id = UlidSource().next


def read_clock() -> str:
    """Return the current time in the format of control records."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# --- intents ---


class IntentKind(StrEnum):
    GRAPH_CREATE = "graph_create"
    SCHEMA_APPLY = "schema_apply"
    GRAPH_DELETE = "graph_delete"


class GraphIntent(StrictRecord, frozen=True, kw_only=True):
    """The intent of one change of one graph, written before its first effect."""

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

    def describe(self) -> str:
        return (
            f"an interrupted {self.kind} of {self.started_at} is not finished; "
            "run `omnigraph cluster apply`"
        )


INTENTS = ControlRecords(
    what="an intent",
    type=GraphIntent,
    base_path=RECOVERIES,
    key="operation_id",
    version_member="schema_version",
    unreadable="recovery_sidecar_read_error",
    unsupported="unsupported_recovery_sidecar_version",
    invalid="invalid_recovery_sidecar",
    unwritable="recovery_sidecar_write_error",
    find_problem=lambda one: None if is_graph_id(one.graph_id) else "it names no graph",
)


# --- approvals ---


class ChangeApproval(StrictRecord, frozen=True, kw_only=True):
    """The approval of one change from one state to one configuration."""

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

    @classmethod
    def sign(cls, plan: ClusterPlan, resource: str, actor: str) -> ChangeApproval:
        """Make the approval of a gated change of a plan by an actor."""
        change = plan.changes[resource]
        return cls(
            approval_id=new_id(),
            resource=resource,
            operation=str(change.operation),
            reason=plan.gates[resource],
            bound_config_digest=plan.desired.config_digest,
            bound_before_digest=change.before_digest,
            bound_after_digest=change.after_digest,
            approved_by=actor,
            created_at=read_clock(),
        )

    def fits(self, plan: ClusterPlan) -> bool:
        """Return whether it was given for the configuration and the states of a plan."""
        change = plan.changes[self.resource]
        bound = self.bound_config_digest, self.bound_before_digest, self.bound_after_digest
        return bound == (plan.desired.config_digest, change.before_digest, change.after_digest)

    def consume(self, operation_id: str) -> ChangeApproval:
        return msgspec.structs.replace(
            self, consumed_at=read_clock(), consumed_by_operation=operation_id
        )


APPROVALS = ControlRecords(
    what="an approval",
    type=ChangeApproval,
    base_path=APPROVALS_FOLDER,
    key="approval_id",
    version_member="schema_version",
    unreadable="approval_read_error",
    unsupported="unsupported_approval_version",
    invalid="invalid_approval_artifact",
    unwritable="approval_write_error",
)


# --- the lock ---


class StateLock(StrictRecord, frozen=True, kw_only=True):
    """The lock of an operator: it keeps others from changing the cluster."""

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

    @property
    def age_s(self) -> float | None:
        try:
            return (datetime.now(UTC) - datetime.fromisoformat(self.created_at)).total_seconds()
        except (ValueError, TypeError):  # written by hand: no time, or one without a time zone
            return None


LOCK = ControlRecords(
    what="a lock",
    type=StateLock,
    base_path=LOCK_FILE,
    key=None,
    unreadable="state_lock_read_error",
    unsupported="unsupported_state_lock_version",
    invalid="invalid_state_lock",
    unwritable="state_lock_error",
    advice="; if no operator is working, remove the file",
)
LOCK_PATH = LOCK.show_path()


# --- the ledger ---


class StatusWord(StrEnum):
    PENDING = "pending"
    PLANNED = "planned"
    APPLYING = "applying"
    APPLIED = "applied"
    DRIFTED = "drifted"
    BLOCKED = "blocked"
    ERROR = "error"


class ResourceStatus(StrictRecord, frozen=True):
    """The status of a resource: a word, its conditions, and a sentence for people."""

    status: StatusWord
    conditions: tuple[str, ...] = ()
    message: str | None = None


class GraphObservation(StrictRecord, frozen=True, kw_only=True, tag="graph", tag_field="kind"):
    """The observed state of a graph root."""

    address: str
    graph_uri: str
    observed_at: str
    exists: bool
    """True if there is anything at all."""
    graph_manifest_version: int | None = None
    schema_digest: str | None = None
    desired_schema_digest: str | None = None
    schema_matches_desired: bool | None = None
    error: str | None = None
    """The error of opening it."""

    @property
    def graph_id(self) -> str:
        return self.address.partition(".")[2]

    @property
    def is_open(self) -> bool:
        return self.exists and self.error is None

    def is_same_version(self, other: GraphObservation) -> bool:
        """Return whether both observed no graph, or the same version of one."""
        versions = self.graph_manifest_version, other.graph_manifest_version
        return self.exists == other.exists and self.error is None and versions[0] == versions[1]


class GraphTombstone(StrictRecord, frozen=True, kw_only=True, tag="tombstone", tag_field="kind"):
    """A deleted graph, with the approval of its deletion."""

    address: str
    deleted_at: str
    approval_id: str | None
    actor: str | None


Observation = GraphObservation | GraphTombstone


class StateLedger(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The ledger. Commands change a copy of the one they read."""

    state_revision: int = 0
    applied_revision: ClusterState = msgspec.field(default_factory=ClusterState)
    resource_statuses: dict[str, ResourceStatus] = {}
    approval_records: dict[str, ChangeApproval] = {}
    """The approvals that were consumed."""
    recovery_records: dict[str, GraphIntent] = {}
    """The interrupted changes that recovery recorded."""
    observations: dict[str, Observation] = {}

    @property
    def resources(self) -> dict[str, ResourceRecord]:
        return self.applied_revision.resources

    def list_gone(self) -> set[str]:
        """List the addresses of graphs that existed once and are deleted or missing."""
        return {
            address
            for address, one in self.observations.items()
            if isinstance(one, GraphTombstone) or not one.exists
        }

    def set_status(
        self,
        addresses: Iterable[str],
        status: StatusWord,
        condition: str | None = None,
        message: str | None = None,
    ) -> None:
        conditions = () if condition is None else (condition,)
        for address in addresses:
            self.resource_statuses[address] = ResourceStatus(status, conditions, message)

    def record_observation(self, observed: GraphObservation, desired_digest: str | None) -> None:
        """Record the state of a graph root next to the schema that it should have."""
        record, matches = self.resources.get(schema_address(observed.graph_id)), None
        if observed.schema_digest is not None and desired_digest is not None:
            # The record of the schema tells where only comments differ.
            is_held = record is not None and record.digest == desired_digest
            expected = record.held_digest if record is not None and is_held else desired_digest
            matches = observed.schema_digest == expected
        self.observations[observed.address] = msgspec.structs.replace(
            observed, desired_schema_digest=desired_digest, schema_matches_desired=matches
        )

    def record_schema(
        self, graph_id: str, digest: str, source: str | None = None, live_digest: str | None = None
    ) -> None:
        """Record the schema of a graph; a graph that is new to the ledger is added with it."""
        live = None if live_digest == digest else live_digest
        record = ResourceRecord(digest=digest, source=source, live_digest=live)
        self.resources[schema_address(graph_id)] = record
        self.resources.setdefault(graph_address(graph_id), ResourceRecord(digest=""))

    def record_graph(
        self, observed: GraphObservation, source: str | None, digest: str | None = None
    ) -> None:
        """Record an open graph with its schema, or with a file that differs in comments only."""
        live = observed.schema_digest or ""
        self.record_schema(observed.graph_id, digest or live, source, live)
        self.record_observation(observed, digest or live)

    def record_deletion(self, graph_id: str, approval_id: str | None, actor: str | None) -> None:
        """Replace a graph, its schema and its queries with a tombstone."""
        for address in [one for one in self.resources if find_graph_id(one) == graph_id]:
            del self.resources[address]
            self.resource_statuses.pop(address, None)
        address = graph_address(graph_id)
        self.observations[address] = GraphTombstone(
            address=address, deleted_at=read_clock(), approval_id=approval_id, actor=actor
        )


_ADVICE = "restore it, or remove it and run `omnigraph cluster import`"


def _find_problem(ledger: StateLedger) -> str | None:
    unknown = next((a for a in ledger.resources if not is_resource_address(a)), None)
    if unknown is not None:
        return f"'{unknown}' is not the address of a resource"
    for graph_id in ledger.applied_revision.graph_ids:
        address = graph_address(graph_id)
        if ledger.resources[address].digest != ledger.applied_revision.digest_graph(graph_id):
            message = "the digest of the graph is not that of its parts: the ledger was edited by"
            code = "external_blob_policy_digest_mismatch"
            raise refuse(code, address, f"{message} hand; {_ADVICE}")
    return None


LEDGER = ControlRecords(
    what="a ledger",
    type=StateLedger,
    base_path=STATE_FILE,
    key=None,
    unreadable="state_read_error",
    unsupported="unsupported_state_version",
    invalid="invalid_state_json",
    unwritable="state_write_error",
    find_problem=_find_problem,
    needs_seal=True,
    unsealed=(
        "the checksum is not that of the content: the ledger was edited by hand or damaged; "
        f"{_ADVICE}"
    ),
)


STATE_PATH = LEDGER.show_path()
ReadLedger = StoredRecord[StateLedger]


def find_ledger(files: ClusterFiles) -> ReadLedger | None:
    """Read the ledger, if there is one; a damaged one is refused."""
    found = LEDGER.find_stored(files.control)
    if found is not None:
        _ = found.record  # decoded here, so that a damaged one is refused before it is used
    return found


def write_ledger(files: ClusterFiles, ledger: StateLedger, over: ReadLedger | None) -> ReadLedger:
    """Write a ledger as the revision after the one that was read, unless another one was."""
    revision = 1 if over is None else over.record.state_revision + 1
    ledger = msgspec.structs.replace(ledger, state_revision=revision)
    if not LEDGER.swap(files.control, ledger, over):
        message = "another operator wrote the ledger concurrently; nothing was recorded, try again"
        raise refuse("state_cas_mismatch", STATE_PATH, message)
    written = find_ledger(files)
    if written is None:
        message = "the ledger is gone right after it was written"
        raise refuse("state_write_error", STATE_PATH, message)
    return written
