"""Which stored indexes a type has: those its schema declares and that reads make use of."""

from __future__ import annotations

from omnigraph.catalog.catalog import EntityType
from omnigraph.catalog.catalog import IndexKind as DeclaredKind
from omnigraph.catalog.table_layout import list_indexes
from omnigraph.storage.tables import LanceIndexKind
from omnigraph.storage.tables.indices import IndexSpec

ROWS_PER_PARTITION = 1 << 17
"""Searches look at every partition, so there are only as many as building in pieces needs."""


def list_stored_indexes(type_: EntityType, rows: int) -> tuple[IndexSpec, ...]:
    """The indexes to be kept in the type's table, in the order of its columns.

    A full-text index is not among them: text is searched in an index that readers make from the
    table's files and keep in memory, and a stored one would never be read.
    """
    specs = []
    for declared in list_indexes(type_):
        (column,) = declared.columns
        if declared.kind is DeclaredKind.BTREE:
            specs.append(IndexSpec(f"{column}_btree", column, LanceIndexKind.BTREE))
        elif declared.kind is DeclaredKind.VECTOR:
            # It keeps whole vectors, so that searching with it gives the same answers.
            options = {"num_partitions": max(1, rows // ROWS_PER_PARTITION)}
            specs.append(IndexSpec(f"{column}_vectors", column, LanceIndexKind.IVF_FLAT, options))
    return tuple(specs)
