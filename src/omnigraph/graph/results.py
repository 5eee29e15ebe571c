"""The results of the verbs. Field names are those of the JSON on every surface."""

from __future__ import annotations

import html
from collections.abc import Mapping

import msgspec

from omnigraph.result import Result
from omnigraph.storage.layout import check_actor as check_actor
from omnigraph.storage.layout import normalize_branch as normalize_branch
from omnigraph.storage.manifest import RecoveryAudit
from omnigraph.storage.tables import IoCounters as IoCounters
from omnigraph.storage.tables import read_io_counters as read_io_counters


class PendingWrite(Result, frozen=True):
    """An interrupted write, and what recovery would do with it."""

    operation_id: str
    branch: str
    writer_kind: str
    table_keys: tuple[str, ...]
    tables: Mapping[str, str]
    decision: str
    reason: str


class RecoveredWrite(Result, frozen=True):
    """An interrupted write, and what recovery did with it."""

    operation_id: str
    decision: str
    commit_id: str | None = msgspec.field(name="graph_commit_id")


class PendingList(Result, frozen=True):
    """The interrupted writes that have not been recovered yet."""

    pending: tuple[PendingWrite, ...]


class RecoveredList(Result, frozen=True):
    """The interrupted writes that were recovered just now."""

    recovered: tuple[RecoveredWrite, ...]


class RecoveryList(Result, frozen=True):
    """The recovered writes recorded on a branch."""

    recoveries: tuple[RecoveryAudit, ...]


class PlanText(str):
    """A plan as text; notebooks keep its lines and its indentation."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"
