"""Where the rows of a merge are compared: in this process, or on Spark."""

from __future__ import annotations

from functools import cached_property

from omnigraph.errors import BadRequest
from omnigraph.graph.bulk_loading import tasks_of
from omnigraph.graph.loading import RunsOn
from omnigraph.history.spread_compare import LARGE_DELTA, spread_compare
from omnigraph.history.three_way import Compare, compare_here
from omnigraph.pipeline.tasks import Tasks
from omnigraph.settings import ENGINES, Settings

AUTO = "auto"
"""On Spark where many rows changed, otherwise here."""
MERGE_ENGINES = (*ENGINES, AUTO)


class MergeEngine:
    """Compares rows where it was asked to; Spark is started when the first are sent to it."""

    def __init__(self, settings: Settings, runs_on: RunsOn) -> None:
        if runs_on.engine not in MERGE_ENGINES:
            known = ", ".join(sorted(MERGE_ENGINES))
            raise BadRequest(f"engine '{runs_on.engine}' is not one of {known}")
        self._settings, self._runs_on = settings, runs_on

    @property
    def compare(self) -> Compare:
        engine = self._runs_on.engine
        if engine == "local":
            return compare_here
        return spread_compare(lambda: self._tasks, at_least=LARGE_DELTA if engine == AUTO else 0)

    @property
    def used(self) -> str:
        """Where rows were compared."""
        return "spark" if "_tasks" in vars(self) else "local"

    @cached_property
    def _tasks(self) -> Tasks:
        runs_on = self._runs_on
        return tasks_of("spark", self._settings, runs_on.session, runs_on.spark_conf)
