"""Which stored indexes a type has: those its schema declares and that reads make use of."""

from __future__ import annotations

from omnigraph.catalog.model import EntityType
from omnigraph.catalog.model import IndexKind as DeclaredKind
from omnigraph.catalog.physical import declared_indexes
from omnigraph.storage.tables.indices import IndexKind, IndexSpec

ROWS_PER_PARTITION = 1 << 17
"""Searches look at every partition, so there are only as many as building in pieces needs."""


def stored_indexes(type_: EntityType, rows: int) -> tuple[IndexSpec, ...]:
    """The indexes to be kept in the type's table, in the order of its columns.

    A full-text index is not among them: text is searched in an index that readers make from the
    table's files and keep in memory, and a stored one would never be read.
    """
    specs = []
    for declared in declared_indexes(type_):
        (column,) = declared.columns
        if declared.kind is DeclaredKind.BTREE:
            specs.append(IndexSpec(f"{column}_btree", column, IndexKind.BTREE))
        elif declared.kind is DeclaredKind.VECTOR:
            # It keeps whole vectors, so that searching with it gives the same answers.
            options = {"num_partitions": max(1, rows // ROWS_PER_PARTITION)}
            specs.append(IndexSpec(f"{column}_vectors", column, IndexKind.IVF_FLAT, options))
    return tuple(specs)
