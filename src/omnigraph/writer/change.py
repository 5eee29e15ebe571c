"""A change of the graph: prepared on a snapshot, and again if others were first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import ReadSetChanged
from omnigraph.identity import CommitId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest import (
    Commit,
    ManifestSnapshot,
    RowCounts,
    SchemaChange,
    SetVersion,
)
from omnigraph.storage.recovery import WriterKind
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import Merging, StagedTable, Ticket


@dataclass(frozen=True)
class CatalogSnapshot:
    """A snapshot and the schema its rows follow."""

    snapshot: Snapshot
    catalog: Catalog

    def __repr__(self) -> str:
        at = self.snapshot
        return f"CatalogSnapshot({at.root.uri!r}, {str(at.branch)!r}, {at.id!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What every write takes, whatever it changes."""

    branch: str
    """The branch to change."""
    actor: str | None = None
    """Who the commit is recorded for."""
    message: str | None = None
    """A text stored with the commit."""
    expected_head: str | None = None
    """The commit the branch must be at."""
    idempotency_key: str | None = None
    """Names the write, so that it is made once however often it is sent."""


class BranchReader(Protocol):
    """Access to the branches of a graph, and to what was just published."""

    root: GraphRoot

    def read_newest(self, branch: str) -> CatalogSnapshot: ...

    def remember(self, ref: BranchRef, manifest: ManifestSnapshot) -> None: ...

    def find_commit(
        self, snapshot: Snapshot, is_wanted: Callable[[Commit], bool]
    ) -> Commit | None: ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """The content of one publish. Without any table it still records a commit."""

    tables: tuple[StagedTable, ...] = ()
    adopted: tuple[SetVersion, ...] = ()
    """Versions that are there already and that the branch shall show from now on."""
    records_commit: bool = True
    """Whether the history gets a commit for it; maintenance may do without."""
    merged_parent: CommitId | None = None
    """The commit of another branch that the change brings in."""
    origin: str | None = None
    """What a writer that may repeat itself calls the change; kept with the commit."""
    details: Mapping[str, object] = field(default_factory=dict)
    """What else is kept with the commit; values of JSON."""
    merging: Merging | None = None
    """What a merge brings in besides rows."""
    schema: SchemaChange | None = None
    """Another schema for the branch, with the tables that come, go or get another name."""
    needs_sole_branch: bool = False
    """Whether it must not be published while there are other branches."""
    counts: tuple[RowCounts, ...] | None = None
    """How many rows of which tables change, where the staged tables do not tell."""


def count_rows(prepared: Prepared) -> tuple[RowCounts, ...]:
    """Count the rows a write changes in each table, as its commit records it."""
    if prepared.counts is not None:
        return prepared.counts
    staged = (
        RowCounts(
            one.entry.table_key,
            one.transaction.inserted,
            one.transaction.updated,
            one.transaction.deleted,
        )
        for one in prepared.tables
    )
    return tuple(one for one in staged if one.inserted or one.updated or one.deleted)


class Change(Protocol):
    """One change. An instance is for one write; it may keep what every preparation needs."""

    @property
    def kind(self) -> WriterKind: ...

    @property
    def is_costly(self) -> bool:
        """True if preparing takes long: others may pass, and a heartbeat protects its files."""
        ...

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
        """Everything of the change that others cannot see; None if there is nothing to do.

        Every table transaction carries `ticket.properties`. Forks of a preparation that fails are
        removed by it.
        """
        ...

    def may_retry(self, cause: ReadSetChanged) -> bool:
        """Return whether to prepare again on a branch that others changed meanwhile.

        Not asked where no row changed, nor where the caller insists on a head.
        """
        ...
