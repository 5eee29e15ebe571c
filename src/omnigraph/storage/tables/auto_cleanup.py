"""What maintenance asks of one table: whether it agrees with itself, and to leave itself alone.

Lance can be told, in the settings of a table, to remove old versions whenever it commits. It knows
nothing of the graph that shows them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lance import LanceOperation

from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.stage_table import StagedTransaction, stage_operation
from omnigraph.storage.tables.table import Table

AUTO_CLEANUP = "lance.auto_cleanup."


def find_auto_cleanup_keys(table: Table) -> tuple[str, ...]:
    """The settings by which the table would remove versions behind our back."""
    with translate_errors(f"reading the settings of {table!r}"):
        return tuple(sorted(k for k in table.native.config() if k.startswith(AUTO_CLEANUP)))


def stage_without_auto_cleanup(
    table: Table, *, uuid: str, properties: Mapping[str, str]
) -> StagedTransaction | None:
    """The table without those settings; None if it has none."""
    keys = find_auto_cleanup_keys(table)
    if not keys:
        return None
    operation = LanceOperation.UpdateConfig(LanceOperation.UpdateMap(dict.fromkeys(keys)))
    return stage_operation(table, operation, uuid=uuid, properties=properties)


def require_valid_table(table: Table) -> None:
    """Raise unless fragments, row ids and deletions of this version fit together."""
    with translate_errors(f"validating {table!r}"):
        table.native.validate()  # type: ignore[no-untyped-call]
