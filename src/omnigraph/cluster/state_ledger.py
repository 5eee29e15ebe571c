"""The ledger: the deployed state of a cluster.

As one JSON file that is only replaced as a whole.

A command collects its changes in a draft and writes the next ledger at the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

import msgspec

from omnigraph.cluster.cluster_diagnostics import refuse
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
from omnigraph.typed_reading import convert_into
from omnigraph.types.json_value import parse_json
from omnigraph.types.problems import ValueRefused

LEDGER_VERSION = 1
_PLACE = show_control_path(STATE_FILE)


class RecordedBlobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The places of external blobs as the ledger keeps them."""

    mode: Literal["allow"]
    bases: tuple[BlobBase, ...]


class ResourceRecord(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A resource as it was applied."""

    digest: str
    live_digest: str | None = None
    """The digest of the schema the graph holds, where only comments differ from the file."""
    source: str | None = None
    """The file it came from, for messages."""
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
        """The digest of the text that the graph itself holds."""
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
    """How a resource stands: a word, why, and a sentence for people."""

    status: StatusWord
    conditions: tuple[str, ...] = ()
    message: str | None = None


class AppliedRevision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    config_digest: str | None = None
    """The configuration that was applied, if all of it was."""
    resources: dict[str, ResourceRecord] = {}


class ApprovalRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An approval that was used."""

    resource: str
    operation: str
    approved_by: str
    consumed_at: str
    consumed_by_operation: str


class RecoveryRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An interrupted change that was recorded after the fact."""

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
    """What was last seen at the root of a graph."""

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
    """That a graph was deleted, and by whose leave."""

    address: str
    deleted_at: str
    approval_id: str | None
    actor: str | None


Observation = GraphObservation | GraphTombstone


class StateLedger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = LEDGER_VERSION
    state_revision: int = 0
    applied_revision: AppliedRevision = AppliedRevision()
    resource_statuses: dict[str, ResourceStatus] = {}
    approval_records: dict[str, ApprovalRecord] = {}
    recovery_records: dict[str, RecoveryRecord] = {}
    observations: dict[str, Observation] = {}
    checksum: str = ""

    @property
    def resources(self) -> Mapping[str, ResourceRecord]:
        return self.applied_revision.resources

    @property
    def graph_ids(self) -> tuple[str, ...]:
        """The graphs that were applied, sorted."""
        kinds = {address: find_resource_kind(address) for address in self.resources}
        found = [a for a, kind in kinds.items() if kind is ResourceKind.GRAPH]
        return tuple(sorted(a.partition(".")[2] for a in found))

    def select_queries(self, graph_id: str) -> dict[str, ResourceRecord]:
        """The applied queries of a graph by name."""
        return {
            address.rpartition(".")[2]: record
            for address, record in sorted(self.resources.items())
            if find_resource_kind(address) is ResourceKind.QUERY
            and find_graph_id(address) == graph_id
        }

    def compute_graph_digest(self, graph_id: str) -> str:
        """The digest of a graph, made anew of what the ledger says of its parts."""
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

    def list_edited_graphs(self) -> list[str]:
        """The graphs whose digest is not that of their parts."""
        return [
            graph_id
            for graph_id in self.graph_ids
            if self.resources[graph_address(graph_id)].digest != self.compute_graph_digest(graph_id)
        ]


def encode_ledger(ledger: StateLedger) -> bytes:
    """The content of the file, with its checksum."""
    sealed = msgspec.structs.replace(ledger, checksum=_compute_checksum(ledger))
    return msgspec.json.format(msgspec.json.encode(sealed, order="deterministic"), indent=2) + b"\n"


def decode_ledger(data: bytes) -> StateLedger:
    """The ledger of a file.

    Raises:
        ClusterError: it is not one, of another version, or was edited by hand.
    """
    try:
        value = parse_json(data)
    except ValueRefused as refused:
        raise refuse("invalid_state_json", _PLACE, refused.reason) from None
    version = value.get("version") if isinstance(value, dict) else None
    if isinstance(version, int) and version != LEDGER_VERSION:
        message = f"the ledger has version {version}; this release reads version {LEDGER_VERSION}"
        raise refuse("unsupported_state_version", _PLACE, message)
    if version is None:
        raise refuse("invalid_state_json", _PLACE, "not a ledger: it has no version")
    try:
        ledger = convert_into(value, StateLedger)
    except msgspec.ValidationError as error:
        raise refuse("invalid_state_json", _PLACE, f"not a ledger: {error}") from None
    unknown = [a for a in ledger.resources if not is_resource_address(a)]
    if unknown:
        message = f"not a ledger: '{unknown[0]}' is not the address of a resource"
        raise refuse("invalid_state_json", _PLACE, message)
    require_unedited(ledger)
    return ledger


def require_unedited(ledger: StateLedger) -> None:
    """Raise unless every record says what was applied.

    Raises:
        ClusterError: the ledger was edited by hand.
    """
    for graph_id in ledger.list_edited_graphs():
        raise refuse(
            "external_blob_policy_digest_mismatch",
            graph_address(graph_id),
            "the digest of the graph is not that of its parts: the ledger was edited by hand; "
            "restore it, or remove it and run `omnigraph cluster import`",
        )
    if ledger.checksum != _compute_checksum(ledger):
        raise refuse(
            "invalid_state_json",
            _PLACE,
            "the checksum is not that of the content: the ledger was edited by hand or damaged; "
            "restore it, or remove it and run `omnigraph cluster import`",
        )


def read_clock() -> str:
    """The time of now as the files of a cluster have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _compute_checksum(ledger: StateLedger) -> str:
    bare = msgspec.structs.replace(ledger, checksum="")
    return f"sha256:{hashlib.sha256(msgspec.json.encode(bare, order='sorted')).hexdigest()}"


@dataclass
class LedgerDraft:
    """What the ledger will say, in parts that can be changed."""

    base: StateLedger
    config_digest: str | None = None
    resources: dict[str, ResourceRecord] = field(default_factory=dict)
    statuses: dict[str, ResourceStatus] = field(default_factory=dict)
    approvals: dict[str, ApprovalRecord] = field(default_factory=dict)
    recoveries: dict[str, RecoveryRecord] = field(default_factory=dict)
    observations: dict[str, Observation] = field(default_factory=dict)

    @classmethod
    def of(cls, ledger: StateLedger) -> LedgerDraft:
        return cls(
            ledger,
            ledger.applied_revision.config_digest,
            dict(ledger.resources),
            dict(ledger.resource_statuses),
            dict(ledger.approval_records),
            dict(ledger.recovery_records),
            dict(ledger.observations),
        )

    def set_status(
        self, address: str, status: StatusWord, condition: str | None = None, message: str = ""
    ) -> None:
        conditions = () if condition is None else (condition,)
        self.statuses[address] = ResourceStatus(status, conditions, message or None)

    def record_schema(
        self, graph_id: str, digest: str, source: str | None, live_digest: str
    ) -> None:
        """Say which schema a graph has; a graph that is new to the ledger is recorded with it."""
        self.resources[schema_address(graph_id)] = ResourceRecord(
            digest=digest,
            source=source,
            live_digest=None if live_digest == digest else live_digest,
        )
        self.resources.setdefault(graph_address(graph_id), ResourceRecord(digest=""))

    def drop_graph(self, graph_id: str) -> None:
        """Forget a graph with its schema and its queries."""
        prefix = f"query.{graph_id}."
        for address in list(self.resources):
            is_its_own = address in (graph_address(graph_id), schema_address(graph_id))
            if is_its_own or address.startswith(prefix):
                del self.resources[address]
                self.statuses.pop(address, None)

    def bury_graph(self, graph_id: str, approval_id: str | None, actor: str | None) -> None:
        """Forget a graph that was deleted, and remember that it was."""
        self.drop_graph(graph_id)
        address = graph_address(graph_id)
        self.observations[address] = GraphTombstone(
            address=address, deleted_at=read_clock(), approval_id=approval_id, actor=actor
        )

    def freeze(self) -> StateLedger:
        """The ledger with one more revision; digests of graphs are those of their parts."""
        draft = StateLedger(
            state_revision=self.base.state_revision,
            applied_revision=AppliedRevision(self.config_digest, self.resources),
            resource_statuses=self.statuses,
            approval_records=self.approvals,
            recovery_records=self.recoveries,
            observations=self.observations,
        )
        digests = {
            graph_address(graph_id): draft.compute_graph_digest(graph_id)
            for graph_id in draft.graph_ids
        }
        resources = {
            address: msgspec.structs.replace(record, digest=digests.get(address, record.digest))
            for address, record in self.resources.items()
        }
        return msgspec.structs.replace(
            draft,
            state_revision=self.base.state_revision + 1,
            applied_revision=AppliedRevision(self.config_digest, resources),
        )

    @property
    def is_changed(self) -> bool:
        """Whether it says anything else than the ledger it began with."""
        same = msgspec.structs.replace(
            self.freeze(), state_revision=self.base.state_revision, checksum=self.base.checksum
        )
        return same != self.base
