"""The ledger: the deployed state of a cluster, one JSON file that is replaced by compare-and-swap.

A command edits a copy of the ledger and writes it at its end as the next revision.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

import msgspec

from omnigraph.cluster.cluster_diagnostics import refuse, refusing
from omnigraph.cluster.cluster_files import FORMAT, ClusterFiles, RecordKind
from omnigraph.cluster.resources import (
    STATE_FILE,
    BlobAllowList,
    BlobBase,
    EmbeddingProfile,
    ResourceKind,
    digest_graph,
    find_graph_id,
    find_resource_kind,
    graph_address,
    is_resource_address,
    schema_address,
    show_control_path,
)

_PATH = show_control_path(STATE_FILE)


class RecordedBlobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The allowed addresses of external blobs, as recorded in the ledger."""

    mode: Literal["allow"]
    bases: tuple[BlobBase, ...]


class ResourceRecord(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A resource as it was applied."""

    digest: str
    live_digest: str | None = None
    """The digest of the schema in the graph, where only comments differ from the file."""
    source: str | None = None
    """Its file, for messages."""
    applies_to: tuple[str, ...] | None = None
    embedding_profile: EmbeddingProfile | None = None
    embedding_provider: str | None = None
    external_blob_policy: RecordedBlobs | None = None

    @property
    def external_blobs(self) -> BlobAllowList:
        found = self.external_blob_policy
        return BlobAllowList() if found is None else BlobAllowList(found.bases)

    @property
    def held_digest(self) -> str:
        """The digest of the text in the graph itself."""
        return self.live_digest or self.digest


class StatusWord(StrEnum):
    PENDING = "pending"
    PLANNED = "planned"
    APPLYING = "applying"
    APPLIED = "applied"
    DRIFTED = "drifted"
    BLOCKED = "blocked"
    ERROR = "error"


class ResourceStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The status of a resource: a word, its conditions, and a sentence for people."""

    status: StatusWord
    conditions: tuple[str, ...] = ()
    message: str | None = None


class AppliedRevision(msgspec.Struct, forbid_unknown_fields=True):
    config_digest: str | None = None
    """The configuration that was applied, if all of it was."""
    resources: dict[str, ResourceRecord] = {}


class ApprovalRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An approval that was consumed."""

    resource: str
    operation: str
    approved_by: str
    consumed_at: str
    consumed_by_operation: str


class RecoveryRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An interrupted change that recovery recorded."""

    kind: str
    graph_id: str
    outcome: str
    actor: str | None
    started_at: str
    recovered_at: str


class GraphObservation(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag="graph",
    tag_field="kind",
    forbid_unknown_fields=True,
):
    """The last observed state of a graph root."""

    address: str
    graph_uri: str
    observed_at: str
    exists: bool
    graph_manifest_version: int | None = None
    schema_digest: str | None = None
    desired_schema_digest: str | None = None
    schema_matches_desired: bool | None = None
    error: str | None = None


class GraphTombstone(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag="tombstone",
    tag_field="kind",
    forbid_unknown_fields=True,
):
    """A deleted graph, with the approval of its deletion."""

    address: str
    deleted_at: str
    approval_id: str | None
    actor: str | None


Observation = GraphObservation | GraphTombstone


class StateLedger(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The ledger. Commands change a copy of the one they read."""

    version: int = FORMAT
    state_revision: int = 0
    applied_revision: AppliedRevision = msgspec.field(default_factory=AppliedRevision)
    resource_statuses: dict[str, ResourceStatus] = {}
    approval_records: dict[str, ApprovalRecord] = {}
    recovery_records: dict[str, RecoveryRecord] = {}
    observations: dict[str, Observation] = {}
    checksum: str = ""

    def copy(self) -> StateLedger:
        """Return a copy that can be changed without changing this ledger."""
        revision = self.applied_revision
        return msgspec.structs.replace(
            self,
            applied_revision=AppliedRevision(revision.config_digest, dict(revision.resources)),
            resource_statuses=dict(self.resource_statuses),
            approval_records=dict(self.approval_records),
            recovery_records=dict(self.recovery_records),
            observations=dict(self.observations),
        )

    @property
    def resources(self) -> dict[str, ResourceRecord]:
        return self.applied_revision.resources

    @property
    def graph_ids(self) -> tuple[str, ...]:
        """The ids of the applied graphs, sorted."""
        kinds = {address: find_resource_kind(address) for address in self.resources}
        found = [a for a, kind in kinds.items() if kind is ResourceKind.GRAPH]
        return tuple(sorted(a.partition(".")[2] for a in found))

    def select_queries(self, graph_id: str) -> dict[str, ResourceRecord]:
        """Return the applied queries of a graph by name."""
        return {
            address.rpartition(".")[2]: record
            for address, record in sorted(self.resources.items())
            if find_resource_kind(address) is ResourceKind.QUERY
            and find_graph_id(address) == graph_id
        }

    def find_policy(self, scope: str) -> str | None:
        """Return the address of the policy that is bound to a graph or to the cluster."""
        for address, record in sorted(self.resources.items()):
            is_policy = find_resource_kind(address) is ResourceKind.POLICY
            if is_policy and scope in (record.applies_to or ()):
                return address
        return None

    def list_payloads(self) -> list[tuple[str, str]]:
        """List the texts that the catalog should have, by address and digest."""
        kinds = (ResourceKind.QUERY, ResourceKind.POLICY)
        return [
            (address, record.digest)
            for address, record in sorted(self.resources.items())
            if find_resource_kind(address) in kinds
        ]

    def list_dependencies(self) -> list[tuple[str, str]]:
        """List the pairs of an applied resource and one that it needs."""
        found: list[tuple[str, str]] = []
        for address, record in self.resources.items():
            graph_id = find_graph_id(address)
            if graph_id is not None and address != graph_address(graph_id):
                found.append((address, graph_address(graph_id)))
                if find_resource_kind(address) is ResourceKind.QUERY:
                    found.append((address, schema_address(graph_id)))
            if record.embedding_provider is not None:
                found.append((address, record.embedding_provider))
            bound = record.applies_to or ()
            found += [(address, scope) for scope in bound if scope in self.resources]
        return found

    def compute_graph_digest(self, graph_id: str) -> str:
        """Compute the digest of a graph from the records of its parts."""
        graph = self.resources[graph_address(graph_id)]
        schema = self.resources.get(schema_address(graph_id))
        provider = self.resources.get(graph.embedding_provider or "")
        return digest_graph(
            graph_id,
            None if schema is None else schema.digest,
            {name: record.digest for name, record in self.select_queries(graph_id).items()},
            None
            if graph.embedding_provider is None
            else (graph.embedding_provider, "" if provider is None else provider.digest),
            graph.external_blobs,
        )

    # --- changes ---

    def set_status(
        self, address: str, status: StatusWord, condition: str | None = None, message: str = ""
    ) -> None:
        conditions = () if condition is None else (condition,)
        self.resource_statuses[address] = ResourceStatus(status, conditions, message or None)

    def record_schema(
        self, graph_id: str, digest: str, source: str | None, live_digest: str
    ) -> None:
        """Record the schema of a graph; a graph that is new to the ledger is added with it."""
        self.resources[schema_address(graph_id)] = ResourceRecord(
            digest=digest,
            source=source,
            live_digest=None if live_digest == digest else live_digest,
        )
        self.resources.setdefault(graph_address(graph_id), ResourceRecord(digest=""))

    def record_deletion(self, graph_id: str, approval_id: str | None, actor: str | None) -> None:
        """Replace a graph, its schema and its queries with a tombstone."""
        for address in list(self.resources):
            if find_graph_id(address) == graph_id:
                del self.resources[address]
                self.resource_statuses.pop(address, None)
        address = graph_address(graph_id)
        self.observations[address] = GraphTombstone(
            address=address, deleted_at=read_clock(), approval_id=approval_id, actor=actor
        )

    def refresh_digests(self) -> StateLedger:
        """Make the digests of graphs those of their parts; return the ledger."""
        for graph_id in self.graph_ids:
            address, digest = graph_address(graph_id), self.compute_graph_digest(graph_id)
            record = self.resources[address]
            self.resources[address] = msgspec.structs.replace(record, digest=digest)
        return self


def _find_problem(ledger: StateLedger, _: str) -> str | None:
    unknown = [a for a in ledger.resources if not is_resource_address(a)]
    return f"'{unknown[0]}' is not the address of a resource" if unknown else None


_LEDGER = RecordKind(
    "a ledger",
    StateLedger,
    unreadable="state_read_error",
    unsupported="unsupported_state_version",
    invalid="invalid_state_json",
    unwritable="state_write_error",
    version="version",
    find_problem=_find_problem,
)


def encode_ledger(ledger: StateLedger) -> bytes:
    """Encode a ledger with its checksum."""
    sealed = msgspec.structs.replace(ledger, checksum=_compute_checksum(ledger))
    return msgspec.json.format(msgspec.json.encode(sealed, order="deterministic"), indent=2) + b"\n"


def decode_ledger(data: bytes) -> StateLedger:
    """Decode and verify a ledger.

    Raises:
        ClusterError: it is damaged, of another format, or was edited by hand.
    """
    ledger = _LEDGER.decode(data, STATE_FILE)
    advice = (
        "the ledger was edited by hand{}; "
        "restore it, or remove it and run `omnigraph cluster import`"
    )
    for graph_id in ledger.graph_ids:
        address = graph_address(graph_id)
        if ledger.resources[address].digest != ledger.compute_graph_digest(graph_id):
            message = f"the digest of the graph is not that of its parts: {advice.format('')}"
            raise refuse("external_blob_policy_digest_mismatch", address, message)
    if ledger.checksum != _compute_checksum(ledger):
        message = f"the checksum is not that of the content: {advice.format(' or damaged')}"
        raise refuse("invalid_state_json", _PATH, message)
    return ledger


def _compute_checksum(ledger: StateLedger) -> str:
    bare = msgspec.structs.replace(ledger, checksum="")
    return f"sha256:{hashlib.sha256(msgspec.json.encode(bare, order='sorted')).hexdigest()}"


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """A ledger with the tag by which it is replaced."""

    ledger: StateLedger
    tag: str
    cas: str
    """`sha256:…` of the bytes."""


def find_ledger(files: ClusterFiles) -> ReadLedger | None:
    """Read the ledger, if there is one.

    Raises:
        ClusterError: it cannot be read, or is not what was written.
    """
    with refusing("state_read_error", _PATH):
        found = files.control.find_versioned(STATE_FILE)
    if found is None:
        return None
    cas = f"sha256:{hashlib.sha256(found.data).hexdigest()}"
    return ReadLedger(decode_ledger(found.data), found.tag, cas)


def write_ledger(files: ClusterFiles, ledger: StateLedger, over: ReadLedger | None) -> ReadLedger:
    """Write a ledger as the revision after the one that was read.

    Raises:
        ClusterError: another operator wrote it meanwhile, or it cannot be written.
    """
    revision = 1 if over is None else over.ledger.state_revision + 1
    data = encode_ledger(msgspec.structs.replace(ledger, state_revision=revision))
    with refusing("state_write_error", _PATH):
        if over is None:
            is_written = files.control.put_if_absent(STATE_FILE, data)
        else:
            is_written = files.control.put_if_match(STATE_FILE, data, over.tag)
    if not is_written:
        message = "another operator wrote the ledger meanwhile; nothing was recorded, try again"
        raise refuse("state_cas_mismatch", _PATH, message)
    written = find_ledger(files)
    if written is None:
        raise refuse("state_write_error", _PATH, "the ledger is gone right after it was written")
    return written


def read_clock() -> str:
    """Return the current time in the format of control records."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
