"""The verbs that keep the tables of a branch fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from omnigraph.graph.engines import EngineName, require_engine
from omnigraph.graph.open_graph import BranchVerbs
from omnigraph.policy.decision import Action

if TYPE_CHECKING:
    from omnigraph.maintenance.maintenance_results import OptimizeResult, PendingIndex
    from omnigraph.maintenance.optimize_steps import CompactionWorkers


class MaintenanceVerbs(BranchVerbs):
    """Compaction and indexes of a branch."""

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

        At most one commit, none if there was nothing to do. Never deletes a version.

        Args:
            branch: The branch whose tables to optimize.
            actor: Who the commit is recorded for.
            engine: Where files are written: `local`, in this process, or `spark`.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.

        >>> [table.table_key for table in graph.optimize().tables]
        ['edge:Knows', 'node:Person', '__manifest']
        """
        from omnigraph.maintenance.optimize import OptimizeOptions, optimize

        self._open.require_writable()
        self._guard.allow(Action.ADMIN, actor=actor)
        workers = self._open_workers(engine, session, spark_conf)
        options = OptimizeOptions(self._choose(branch), actor or self.actor)
        return optimize(self._open.views, options, workers)

    def ensure_indices(
        self,
        *,
        branch: str | None = None,
        actor: str | None = None,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> tuple[PendingIndex, ...]:
        """Build the declared indexes that are missing; returns those that cannot be built yet.

        The arguments are those of `optimize`.

        >>> graph.ensure_indices()
        ()
        """
        from omnigraph.maintenance.optimize import OptimizeOptions, optimize

        self._open.require_writable()
        self._guard.allow(Action.ADMIN, actor=actor)
        workers = self._open_workers(engine, session, spark_conf)
        options = OptimizeOptions(self._choose(branch), actor or self.actor, indexes_only=True)
        return optimize(self._open.views, options, workers).pending_indexes

    def _open_workers(
        self, engine: str, session: object | None, spark_conf: Mapping[str, str] | None
    ) -> CompactionWorkers | None:
        """Who writes the files of maintenance; None for threads of this process."""
        if engine == "local":
            return None
        require_engine(engine)
        from omnigraph.graph.bulk_loading import open_tasks
        from omnigraph.pipeline.bulk_rewrite import CompactionTasks

        return CompactionTasks(lambda: open_tasks(engine, self.settings, session, spark_conf))
