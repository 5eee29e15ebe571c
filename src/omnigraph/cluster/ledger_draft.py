"""The next ledger while a command works on it."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from omnigraph.cluster.resource_addresses import graph_address, schema_address
from omnigraph.cluster.state_ledger import (
    AppliedRevision,
    ApprovalRecord,
    GraphTombstone,
    Observation,
    RecoveryRecord,
    ResourceRecord,
    ResourceStatus,
    StateLedger,
    StatusWord,
    read_clock,
)


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
