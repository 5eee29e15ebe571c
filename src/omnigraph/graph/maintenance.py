"""Maintain a graph: optimize, clean up, verify, repair, and recover interrupted writes."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, overload

from omnigraph.graph.engines import EngineName, require_engine
from omnigraph.graph.open_graph import GraphHandle, list_pending, recover_writes
from omnigraph.graph.results import PendingWrite, RecoveredWrite
from omnigraph.policy.decision import Action

if TYPE_CHECKING:
    from omnigraph.maintenance.autopilot import MaintainResult
    from omnigraph.maintenance.maintenance_results import (
        CleanupResult,
        OptimizeResult,
        PendingIndex,
        RepairResult,
        VerifyResult,
    )
    from omnigraph.maintenance.optimize_steps import CompactionWorkers


class MaintenanceVerbs(GraphHandle):
    """The verbs that compact and index a branch."""

    def optimize(
        self,
        *,
        branch: str | None = None,
        actor: str | None = None,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> OptimizeResult:
        """Merge small fragments and build missing indexes of the tables a branch owns.

        Creates at most one commit, none if there was nothing to do. Never deletes a version.

        Args:
            branch: The branch whose tables to optimize.
            actor: The actor the commit is recorded for.
            engine: The engine that writes files: `local`, in this process, or `spark`.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.

        >>> [table.table_key for table in graph.optimize().tables]
        ['edge:Knows', 'node:Person', '__manifest']
        """
        from omnigraph.maintenance.optimize import OptimizeRequest, optimize

        self._open.require_writable()
        self._guard.allow(Action.ADMIN, actor=actor)
        workers = self._open_workers(engine, session, spark_conf)
        request = OptimizeRequest(self._make_write_options(branch, actor))
        return optimize(self._open.views, request, workers)

    def ensure_indices(
        self,
        *,
        branch: str | None = None,
        actor: str | None = None,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> tuple[PendingIndex, ...]:
        """Build the declared indexes that are missing; return those that cannot be built yet.

        The arguments are those of `optimize`.

        >>> graph.ensure_indices()
        ()
        """
        from omnigraph.maintenance.optimize import OptimizeRequest, optimize

        self._open.require_writable()
        self._guard.allow(Action.ADMIN, actor=actor)
        workers = self._open_workers(engine, session, spark_conf)
        request = OptimizeRequest(self._make_write_options(branch, actor), indexes_only=True)
        return optimize(self._open.views, request, workers).pending_indexes

    def _open_workers(
        self, engine: str, session: object | None, spark_conf: Mapping[str, str] | None
    ) -> CompactionWorkers | None:
        """Return the workers that write files; None for threads of this process."""
        if engine == "local":
            return None
        require_engine(engine)
        from omnigraph.graph.engines import open_tasks
        from omnigraph.pipeline.bulk_rewrite import CompactionTasks

        return CompactionTasks(lambda: open_tasks(engine, self.settings, session, spark_conf))


class GraphMaintenance(GraphHandle):
    """The verbs that maintain all branches: repair, cleanup, verification and recovery."""

    def maintain(self) -> MaintainResult:
        """Optimize and clean up if the policy in the settings says that it is due.

        >>> graph.maintain().due.is_any
        False
        """
        from omnigraph.maintenance.autopilot import run_once

        self._open.require_writable()
        self._guard.allow(Action.ADMIN)
        return run_once(self._open.views, self.settings.autopilot)

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: datetime.timedelta | None = None,
        confirm: bool = False,
    ) -> CleanupResult:
        """Remove what only unprotected commits need; without `confirm`, only report it.

        Every branch keeps its newest `keep` commits and those younger than `older_than`.

        >>> found = graph.cleanup(keep=10)
        >>> found.confirm, sum(table.old_versions_removed for table in found.tables)
        (False, 0)
        """
        from omnigraph.maintenance.cleanup import preview_cleanup, run_cleanup
        from omnigraph.maintenance.retention import Retention

        self._open.require_writable()
        self._guard.allow(Action.ADMIN)
        age = None if older_than is None else older_than.total_seconds()
        clean = run_cleanup if confirm else preview_cleanup
        return clean(self._open.views.root, Retention(keep, age))

    def verify(self, *, deep: bool = False, history: bool = False) -> VerifyResult:
        """Check the integrity of the graph.

        `deep` reads every row and compares every file with its checksum; `history` checks every
        commit that can still be read, not only the newest one of each branch.

        >>> graph.verify(deep=True).is_sound
        True
        """
        from omnigraph.maintenance.verify import verify

        self._guard.allow(Action.ADMIN)
        return verify(self._open.views, deep=deep, history=history)

    def repair(self, *, confirm: bool = False, force: bool = False) -> RepairResult:
        """Find tables that another program advanced; with `confirm`, accept their versions.

        Without `force`, only versions that provably changed no row are accepted.

        >>> {str(table.classification) for table in graph.repair().tables}
        {'no_drift'}
        """
        from omnigraph.maintenance.repair import repair

        self._open.require_writable()
        self._guard.allow(Action.ADMIN)
        return repair(self._open.views, confirm=confirm, force=force)

    @overload
    def recover(self, *, check: Literal[False] = False) -> list[RecoveredWrite]: ...

    @overload
    def recover(self, *, check: Literal[True]) -> list[PendingWrite]: ...

    def recover(self, *, check: bool = False) -> list[PendingWrite] | list[RecoveredWrite]:
        """Finish or undo interrupted writes; with `check`, only report the decisions.

        >>> graph.recover()
        []
        """
        if check:
            return self.recovery_pending()
        self._open.require_writable()
        self._guard.allow(Action.ADMIN)
        return recover_writes(self._open.views.root)

    def recovery_pending(self) -> list[PendingWrite]:
        """List interrupted writes that have not been recovered yet.

        >>> graph.recovery_pending()
        []
        """
        self._guard.allow(Action.ADMIN)
        return list_pending(self._open.views.root)
