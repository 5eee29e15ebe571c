"""The rows of a branch as mutations leave them, on forks that nothing refers to.

A mutation that goes with a change of the schema is one of the schema that is there. It is committed
to private forks of the tables it writes, so that all that follows, the next mutation included,
reads ordinary tables. Nobody else sees the forks, and none of them outlives the preparation: what
they hold is written to the tables of the branch, in the one transaction that each of them gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.constraints.table_changes import TableChange
from omnigraph.execution.stored_rows import (
    build_logical_schema,
    convert_from_table_rows,
    make_empty_rows,
)
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import StagedTable, Ticket, Writable, drop_fork
from omnigraph.storage.tables import (
    Table,
    commit_exact,
    find_changed_keys,
    read_rows_at_addresses,
)
from omnigraph.writer.change import CatalogSnapshot, Change


class NamedChange(Change, Protocol):
    """A change that the record of a commit can speak of."""

    @property
    def name(self) -> str: ...


@contextmanager
def run_mutations(
    view: CatalogSnapshot, mutations: Sequence[Change], ticket: Ticket
) -> Iterator[Snapshot]:
    """The snapshot of a view as it would be after these mutations, for as long as it is needed."""
    if not mutations:
        yield view.snapshot
        return
    forks: list[Writable] = []
    try:
        yield _commit_all(view, mutations, ticket, forks)
    finally:
        for fork in forks:
            drop_fork(fork)


def _commit_all(
    view: CatalogSnapshot, mutations: Sequence[Change], ticket: Ticket, forks: list[Writable]
) -> Snapshot:
    # With an incarnation of its own it owns no table, so each one it writes is forked first.
    snapshot = view.snapshot
    ref = replace(snapshot.ref, incarnation=snapshot.root.ids.next())
    private = replace(snapshot, ref=ref)
    for mutation in mutations:
        prepared = mutation.prepare(CatalogSnapshot(private, view.catalog), ticket)
        staged = prepared.tables if prepared is not None else ()
        forks += [table.writable for table in staged if table.is_fork]
        for table in staged:
            private = _commit_privately(private, table)
    return replace(private, ref=snapshot.ref)


def _commit_privately(private: Snapshot, table: StagedTable) -> Snapshot:
    committed = commit_exact(table.transaction)
    shown = replace(
        table.entry,
        version=committed.version,
        owner_branch=table.transaction.location.branch,
        row_count=committed.row_count,
        owner=private.ref.incarnation,
    )
    return private.show_versions([shown])


def find_mutated(before: Table, after: Table, type_: NodeType | EdgeType) -> TableChange:
    """All that mutations did to the rows of a table, as one change."""
    keys = find_changed_keys(before, after)
    is_gone = pc.is_null(keys.after)
    names = build_logical_schema(type_).names
    left = keys.after.filter(pc.invert(is_gone))
    parts = read_rows_at_addresses(after, left, names, blob_bytes=True)
    rows = [convert_from_table_rows(part, type_) for part in parts]
    deleted = keys.ids.filter(is_gone)
    return TableChange(type_, pa.concat_tables([make_empty_rows(type_), *rows]), deleted)
