"""Changes of a graph, prepared on a snapshot and again if the branch moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import ReadSetChanged
from omnigraph.identity import CommitId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest import (
    CommitMetadata,
    CommitRecord,
    ManifestSnapshot,
    SchemaChange,
    SetVersion,
)
from omnigraph.storage.prepared_write import Merging, PreparedWrite, StagedTable, Ticket
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.write_plan import (
    TableChanges,
    WritePlan,
    WriteRequirements,
    WriterKind,
)
from omnigraph.wire.commit_results import RowCounts


@dataclass(frozen=True)
class CatalogSnapshot:
    """A snapshot with the catalog of its schema."""

    snapshot: Snapshot
    catalog: Catalog

    def __repr__(self) -> str:
        at = self.snapshot
        return f"CatalogSnapshot({at.root.uri!r}, {str(at.branch)!r}, {at.id!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of every write."""

    branch: str
    """The branch to change."""
    actor_id: str | None = None
    """The actor the commit is recorded for."""
    message: str | None = None
    """The message of the commit."""
    expected_head: str | None = None
    """The commit that must be the head of the branch."""
    idempotency_key: str | None = None
    """The key under which the write is made once."""


class BranchReader(Protocol):
    """The branches of a graph, with a cache of published manifests."""

    root: GraphRoot

    def read_newest(self, branch: str) -> CatalogSnapshot: ...

    def remember(self, ref: BranchRef, manifest: ManifestSnapshot) -> None: ...

    def find_commit(
        self, snapshot: Snapshot, is_wanted: Callable[[CommitRecord], bool]
    ) -> CommitRecord | None: ...


@dataclass(frozen=True, slots=True)
class PlanContent:
    """The part of a write plan that a change decides; without tables it still records a commit."""

    staged: tuple[StagedTable, ...] = ()
    adopted: tuple[SetVersion, ...] = ()
    """Existing versions that the branch shows from now on."""
    schema: SchemaChange | None = None
    """The new schema of the branch, with created, dropped and renamed tables."""
    merging: Merging | None = None
    """The branch that the change merges."""
    sole_branch: bool = False
    """True if there must be no other branch when it is published."""
    records_commit: bool = True
    """False for maintenance that adds no commit to the history."""
    origin: str | None = None
    """The identity of the change for a writer that may repeat it; stored with the commit."""
    details: Mapping[str, object] = field(default_factory=dict)
    """Further members of the commit, as JSON values."""
    tables: tuple[RowCounts, ...] | None = None
    """Numbers of changed rows by table, where they are not those of the staged tables."""

    def complete(
        self, snapshot: Snapshot, ticket: Ticket, kind: WriterKind, options: WriteOptions
    ) -> PreparedWrite:
        """Return the write plan with its staged tables."""
        plan = WritePlan(
            operation_id=ticket.operation_id,
            rollback_commit_id=ticket.rollback_commit_id,
            writer_kind=kind,
            changes=TableChanges(
                moved=tuple(table.move for table in self.staged),
                adopted=self.adopted,
                schema=self.schema,
            ),
            requires=self._make_requirements(snapshot, options),
            commit=self._make_commit(ticket, kind, options),
            records_commit=self.records_commit,
            history=self.merging.history if self.merging else (),
        )
        return PreparedWrite(plan, snapshot, self.staged, ticket.heartbeat)

    def _make_requirements(self, snapshot: Snapshot, options: WriteOptions) -> WriteRequirements:
        head = options.expected_head
        return WriteRequirements(
            graph=snapshot.state.graph_identity,
            root=snapshot.root.store.identity,
            branch=snapshot.branch,
            incarnation=snapshot.ref.incarnation,
            own_head=snapshot.own_head,
            contract_hash=snapshot.state.contract_hash,
            expected_head=None if head is None else CommitId(head),
            source_branch=self.merging.source.branch if self.merging else None,
            sole_branch=self.sole_branch,
        )

    def _make_commit(
        self, ticket: Ticket, kind: WriterKind, options: WriteOptions
    ) -> CommitMetadata:
        said = {} if options.message is None else {"message": options.message}
        return CommitMetadata(
            commit_id=ticket.commit_id,
            actor_id=options.actor_id,
            created_at=ticket.created_at,
            merged_parent_commit_id=self.merging.source.head if self.merging else None,
            origin=self.origin,
            details={**self.details, **said},
            merged=self.merging.state if self.merging else None,
            kind=kind.commit_kind,
            tables=_count_rows(self.staged) if self.tables is None else self.tables,
        )


def _count_rows(tables: Iterable[StagedTable]) -> tuple[RowCounts, ...]:
    """Count the rows a write changes in each table, for its commit."""
    moving = ((one.entry.table_key, one.transaction) for one in tables)
    counts = (RowCounts(key, t.inserted, t.updated, t.deleted) for key, t in moving)
    return tuple(one for one in counts if one.inserted or one.updated or one.deleted)


class Change(Protocol):
    """A change; an instance is for one write and may cache state between preparations."""

    @property
    def kind(self) -> WriterKind: ...

    @property
    def is_costly(self) -> bool:
        """True if preparing is slow: others may go first, and a heartbeat protects its files."""
        ...

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        """Stage the change on a view; return None if there is nothing to do.

        Every table transaction carries `ticket.properties`. A preparation that fails removes its
        forks.
        """
        ...

    def may_retry(self, cause: ReadSetChanged) -> bool:
        """Return whether to prepare again on a branch that moved.

        Not called if no row changed, nor if the caller expects a head.
        """
        ...
