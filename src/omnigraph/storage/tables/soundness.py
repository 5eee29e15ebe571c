"""Asking a table whether it agrees with itself."""

from __future__ import annotations

from omnigraph.storage.tables.failures import translated
from omnigraph.storage.tables.handle import Table


def require_sound(table: Table) -> None:
    """Raise unless fragments, row ids and deletions of this version fit together."""
    with translated(f"validating {table!r}"):
        table.native.validate()  # type: ignore[no-untyped-call]
