"""What each version of a table did, as the substrate wrote it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance import LanceOperation
from lance.dataset import Transaction

from omnigraph.storage.tables.lance_errors import is_unreadable_rewrite, translate
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.probes import is_version
from omnigraph.storage.tables.table import Table, open_newest

RESERVE_FRAGMENTS = "ReserveFragments"

# The class demands arguments the native side does not pass when it reads back a compaction
# that rewrote a B-tree; with defaults the whole transaction becomes readable.
LanceOperation.RewrittenIndex.__init__.__defaults__ = (None, None, None)


@dataclass(frozen=True, slots=True)
class TableVersionRecord:
    """What made one version. Without an operation it can no longer be told."""

    version: int
    operation: str | None
    uuid: str | None = None
    read_version: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    restored_version: int | None = None


def read_history(
    location: TableLocation, from_version: int, to_version: int | None = None
) -> list[TableVersionRecord]:
    """The records of these versions, both ends included, oldest first."""
    newest = open_newest(location)
    last = newest.version if to_version is None else min(to_version, newest.version)
    return [read_record(newest, version) for version in range(from_version, last + 1)]


def read_record(table: Table, version: int) -> TableVersionRecord:
    """The record of one version of a table.

    Any handle of the table will do that no other thread uses: the substrate borrows it exclusively.
    """
    try:
        transaction = table.native.read_transaction(version)
    except TypeError as error:
        if not is_unreadable_rewrite(error):
            raise
        return TableVersionRecord(version, "Rewrite")
    except Exception as error:
        if is_version(table.location, version):
            doing = f"reading the record of version {version} of {table.location}"
            raise translate(error, doing) from error
        return TableVersionRecord(version, None)
    if transaction is None:
        return TableVersionRecord(version, None)
    return _make_record(version, transaction)


def _make_record(version: int, transaction: Transaction) -> TableVersionRecord:
    operation = transaction.operation
    name = type(operation).__name__
    return TableVersionRecord(
        version=version,
        # Operations without a class of their own come as the base class; the only one ever seen
        # is the reservation that compaction makes before it rewrites.
        operation=RESERVE_FRAGMENTS if name == "BaseOperation" else name,
        uuid=transaction.uuid,
        read_version=transaction.read_version,
        properties=dict(transaction.transaction_properties or {}),
        restored_version=(
            operation.version if isinstance(operation, LanceOperation.Restore) else None
        ),
    )
