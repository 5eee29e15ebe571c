"""The state of a cluster: resources as declared or as applied, and the ledger of the latter.

The ledger is one JSON file that is replaced by compare-and-swap. A command edits a copy of it, and
writes it at its end as the next revision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from omnigraph.cluster.cluster_diagnostics import refuse, refusing
from omnigraph.cluster.cluster_files import (
    STATE_FILE,
    ClusterFiles,
    ResourceKind,
    find_graph_id,
    find_resource_kind,
    graph_address,
    is_resource_address,
    schema_address,
    show_control_path,
)
from omnigraph.cluster.control_records import (
    FORMAT,
    ChangeApproval,
    GraphIntent,
    RecordKind,
    StrictRecord,
    read_clock,
)
from omnigraph.result import Result

STATE_PATH = show_control_path(STATE_FILE)


class EmbeddingProfile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An embedding provider; its key is a variable reference, `${NAME}`, that the server reads."""

    kind: str
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = None


class BlobScope(StrEnum):
    """The processes that may read an external blob."""

    SERVER_SAFE = "server_safe"
    EMBEDDED_ONLY = "embedded_only"


class BlobBase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An address below which external blobs are allowed."""

    uri: str
    scope: BlobScope


class BlobAllowList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The allowed addresses of external blobs; without a base, none is."""

    bases: tuple[BlobBase, ...] = ()


class ResourceRecord(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A resource as declared or applied."""

    digest: str
    live_digest: str | None = None
    """The digest of the schema in the graph, where only comments differ from the file."""
    source: str | None = None
    """Its file, for messages."""
    applies_to: tuple[str, ...] | None = None
    embedding_profile: EmbeddingProfile | None = None
    embedding_provider: str | None = None
    external_blob_policy: BlobAllowList | None = None

    @property
    def held_digest(self) -> str:
        """The digest of the text in the graph itself."""
        return self.live_digest or self.digest


class Dependency(Result, frozen=True):
    """A resource and one that it needs."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")


class ClusterState(msgspec.Struct, forbid_unknown_fields=True):
    """The resources of a cluster by address."""

    config_digest: str | None = None
    """The configuration that declares them; None if not all of it was applied."""
    resources: dict[str, ResourceRecord] = {}

    @property
    def graph_ids(self) -> tuple[str, ...]:
        """The ids of the graphs, sorted."""
        graphs = (a for a in self.resources if find_resource_kind(a) is ResourceKind.GRAPH)
        return tuple(sorted(address.partition(".")[2] for address in graphs))

    @property
    def digests(self) -> dict[str, str]:
        return {address: one.digest for address, one in sorted(self.resources.items())}

    def select_queries(self, graph_id: str) -> dict[str, ResourceRecord]:
        """Return the queries of a graph by name."""
        return {
            address.rpartition(".")[2]: record
            for address, record in sorted(self.resources.items())
            if find_resource_kind(address) is ResourceKind.QUERY
            and find_graph_id(address) == graph_id
        }

    def find_policy(self, scope: str) -> str | None:
        """Return the address of the policy that is bound to a graph or to the cluster."""
        found = (a for a, one in sorted(self.resources.items()) if scope in (one.applies_to or ()))
        return next(found, None)

    def list_payloads(self) -> list[tuple[str, str]]:
        """List the texts that the catalog should have, by address and digest."""
        kinds = (ResourceKind.QUERY, ResourceKind.POLICY)
        return [one for one in self.digests.items() if find_resource_kind(one[0]) in kinds]

    def list_dependencies(self) -> list[Dependency]:
        """List the resources that others need, by resource."""
        found: list[Dependency] = []
        for address, record in sorted(self.resources.items()):
            needed = {scope for scope in record.applies_to or () if scope in self.resources}
            graph_id = find_graph_id(address)
            if graph_id is not None and address != graph_address(graph_id):
                needed.add(graph_address(graph_id))
                if find_resource_kind(address) is ResourceKind.QUERY:
                    needed.add(schema_address(graph_id))
            if record.embedding_provider is not None:
                needed.add(record.embedding_provider)
            found += [Dependency(address, one) for one in sorted(needed)]
        return found

    def digest_graph(self, graph_id: str) -> str:
        """Compute the digest of a graph from the records of its parts."""
        graph = self.resources[graph_address(graph_id)]
        schema = self.resources.get(schema_address(graph_id))
        provider = self.resources.get(graph.embedding_provider or "")
        queries = {name: one.digest for name, one in self.select_queries(graph_id).items()}
        parts: dict[str, object] = {
            "graph": graph_id,
            "schema": None if schema is None else schema.digest,
            "queries": sorted(queries.items()),
            "provider": None
            if graph.embedding_provider is None
            else (graph.embedding_provider, "" if provider is None else provider.digest),
        }
        if graph.external_blob_policy is not None:
            parts["external_blobs"] = graph.external_blob_policy
        return _digest("graph", parts)

    def refresh_digests(self) -> None:
        """Make the digests of graphs those of their parts."""
        for graph_id in self.graph_ids:
            address = graph_address(graph_id)
            digest = self.digest_graph(graph_id)
            self.resources[address] = msgspec.structs.replace(
                self.resources[address], digest=digest
            )


def digest_profile(profile: EmbeddingProfile) -> str:
    return _digest("embedding profile", profile)


def digest_config(config: object, resources: Mapping[str, str]) -> str:
    """Return the digest of everything that is declared, files included."""
    return _digest("config", [config, sorted(resources.items())])


def _digest(tag: str, value: object) -> str:
    text = msgspec.json.encode(value, order="sorted", enc_hook=str)
    return hashlib.sha256(f"omnigraph {tag}\0".encode() + text).hexdigest()


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

    version: int = FORMAT
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


def _find_problem(ledger: StateLedger, _: str) -> str | None:
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


LEDGER = RecordKind(
    "a ledger",
    StateLedger,
    unreadable="state_read_error",
    unsupported="unsupported_state_version",
    invalid="invalid_state_json",
    unwritable="state_write_error",
    version="version",
    find_problem=_find_problem,
    unsealed=(
        "the checksum is not that of the content: the ledger was edited by hand or damaged; "
        f"{_ADVICE}"
    ),
)


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """A ledger with the tag by which it is replaced."""

    ledger: StateLedger
    tag: str
    cas: str
    """`sha256:…` of the bytes."""


def find_ledger(files: ClusterFiles) -> ReadLedger | None:
    """Read the ledger, if there is one; one that is not what was written is refused."""
    with refusing(LEDGER.unreadable, STATE_PATH):
        found = files.control.find_versioned(STATE_FILE)
    if found is None:
        return None
    cas = f"sha256:{hashlib.sha256(found.data).hexdigest()}"
    return ReadLedger(LEDGER.decode(found.data, STATE_FILE), found.tag, cas)


def write_ledger(files: ClusterFiles, ledger: StateLedger, over: ReadLedger | None) -> ReadLedger:
    """Write a ledger as the revision after the one that was read, unless another one was."""
    revision = 1 if over is None else over.ledger.state_revision + 1
    data = LEDGER.encode(msgspec.structs.replace(ledger, state_revision=revision))
    with refusing(LEDGER.unwritable, STATE_PATH):
        if over is None:
            is_written = files.control.put_if_absent(STATE_FILE, data)
        else:
            is_written = files.control.put_if_match(STATE_FILE, data, over.tag)
    if not is_written:
        message = "another operator wrote the ledger meanwhile; nothing was recorded, try again"
        raise refuse("state_cas_mismatch", STATE_PATH, message)
    written = find_ledger(files)
    if written is None:
        raise refuse(
            "state_write_error", STATE_PATH, "the ledger is gone right after it was written"
        )
    return written
