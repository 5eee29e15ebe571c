"""Writing fragments anew whose files still hold values of columns that are gone."""

from __future__ import annotations

from uuid import uuid4

from omnigraph.errors import ReadSetChanged
from omnigraph.storage.manifest import TableEntry
from omnigraph.storage.recovery import WriterKind
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import StagedTable, Ticket, Writable
from omnigraph.storage.tables import find_outdated_fragments, stage_rewrite, write_groups
from omnigraph.writer.change import CatalogSnapshot, Prepared


class ForgetColumns:
    """Copies the rows of such fragments without those values; no row changes.

    The columns a branch only inherited are not its own to copy.
    """

    kind = WriterKind.OPTIMIZE
    is_costly = True

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
        snapshot = view.snapshot
        owned = [e for e in snapshot.entries.values() if e.owner == snapshot.ref.incarnation]
        found = [_list_rewritten(snapshot, entry, ticket) for entry in owned]
        staged = tuple(table for table in found if table is not None)
        # A commit of its own: cleanup keeps the newest one, which must not be the one before.
        return Prepared(staged) if staged else None

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        return True


def _list_rewritten(snapshot: Snapshot, entry: TableEntry, ticket: Ticket) -> StagedTable | None:
    table = snapshot.open_entry(entry)
    outdated = find_outdated_fragments(table)
    if not outdated:
        return None
    written = write_groups(table, [(fragment,) for fragment in outdated])
    staged = stage_rewrite(table, written, uuid=str(uuid4()), properties=ticket.properties)
    if staged is None:
        raise ReadSetChanged(f"table:{entry.table_key}", str(entry.version), None)
    return StagedTable(Writable(entry, table, is_fork=False), staged)
