"""Rows in several physical states: written by the table, indexed, rewritten.

What a query answers must depend on none of it. Rows given here are not checked against the schema.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lance_maintenance import compact
from omnigraph.catalog.catalog import EdgeType, NodeType, list_indexes
from omnigraph.catalog.catalog import IndexKind as Declared
from omnigraph.execution.stored_rows import convert_to_table_rows
from omnigraph.graph.branch_snapshots import BranchSnapshots, CatalogSnapshot
from omnigraph.identity import MAIN
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest.manifest_changes import Publication, SetVersion
from omnigraph.storage.prepared_write import StagedTable, Ticket, mint_ticket, open_writable
from omnigraph.storage.publish import publish
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.fragments import write_fragments
from omnigraph.storage.tables.indices import IndexSpec, LanceIndexKind
from omnigraph.storage.tables.stage_table import stage_fragments
from omnigraph.storage.transaction import commit_write
from omnigraph.storage.write_plan import WriterKind
from omnigraph.writer.change import PlanContent, WriteOptions
from storage.tables.table_fixtures import stage_indices

EntityTypes = NodeType | EdgeType
KINDS = {
    Declared.BTREE: (LanceIndexKind.BTREE, {}),
    Declared.FULL_TEXT: (LanceIndexKind.INVERTED, {}),
    Declared.VECTOR: (LanceIndexKind.IVF_FLAT, {"num_partitions": 1}),
}


def append_tables(uri: str, tables: Mapping[str, pa.Table]) -> None:
    """Add whole tables of rows with fresh ids, by type name, as one commit."""
    view = _newest(uri)
    ticket, staged = mint_ticket(view.snapshot), []
    for name, rows in tables.items():
        type_ = _types(view)[name]
        writable = open_writable(view.snapshot, view.snapshot.entry(type_.table_key))
        written = write_fragments(writable.table, convert_to_table_rows(rows, type_))
        one = stage_fragments(writable.table, written, properties=ticket.properties)
        staged.append(StagedTable(writable, one))
    _commit(view.snapshot, ticket, WriterKind.LOAD, tuple(staged))


def build_indexes(uri: str) -> None:
    """Build every index the schema declares, over all rows there are."""
    view = _newest(uri)
    ticket, staged = mint_ticket(view.snapshot), []
    for type_ in _types(view).values():
        writable = open_writable(view.snapshot, view.snapshot.entry(type_.table_key))
        specs = _specs(type_)
        properties = ticket.properties
        one = stage_indices(writable.table, specs, properties=properties)
        if one is not None:
            staged.append(StagedTable(writable, one))
    _commit(view.snapshot, ticket, WriterKind.ENSURE_INDICES, tuple(staged))


def _commit(
    snapshot: Snapshot, ticket: Ticket, kind: WriterKind, staged: tuple[StagedTable, ...]
) -> None:
    options = WriteOptions(branch=snapshot.branch)
    with snapshot.root.acquire_fence() as hold:
        commit_write(PlanContent(staged).complete(snapshot, ticket, kind, options), hold)


def compact_tables(uri: str) -> int:
    """Rewrite every table that has anything to rewrite; gives how many fragments went."""
    view, removed = _newest(uri), 0
    snapshot, changes = view.snapshot, []
    with snapshot.root.acquire_fence():
        for type_ in _types(view).values():
            entry = snapshot.entry(type_.table_key)
            done = compact(snapshot.open_entry(entry))
            removed += done.fragments_removed
            changes.append(
                SetVersion(
                    entry.identity,
                    entry.table_key,
                    done.version,
                    entry.owner_branch,
                    entry.row_count,
                    entry.owner,
                )
            )
        publish(snapshot.root, snapshot.ref, Publication(changes=tuple(changes)))
    return removed


def _newest(uri: str) -> CatalogSnapshot:
    return BranchSnapshots(GraphRoot.at(uri)).read_newest(MAIN)


def _types(view: CatalogSnapshot) -> dict[str, EntityTypes]:
    return {**view.catalog.nodes, **view.catalog.edges}


def _specs(type_: EntityTypes) -> list[IndexSpec]:
    found = []
    for index in list_indexes(type_):
        kind, options = KINDS[index.kind]
        name = f"{index.columns[0]}_{index.kind}"
        found.append(IndexSpec(name, index.columns[0], kind, options))
    return found
