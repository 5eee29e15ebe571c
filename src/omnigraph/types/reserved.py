"""Names that no property may have, because a table keeps them for itself."""

from __future__ import annotations

STORAGE_FIELDS = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
        "_tombstone",
    }
)
"""Columns of the table format: never a property, so never input."""

STRUCTURAL_FIELDS = frozenset({"src", "dst"})
"""The columns that hold the ends of an edge."""
