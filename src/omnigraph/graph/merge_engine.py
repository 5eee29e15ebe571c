"""Where the rows of a merge are compared: in this process, or on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest
from omnigraph.history.spread_judging import LARGE_DELTA, spread_judging
from omnigraph.history.three_way import RunJudge, judge_here
from omnigraph.pipeline.spark_package import is_spark_installed, require_spark
from omnigraph.settings import MERGE_ENGINES, Settings

if TYPE_CHECKING:
    from omnigraph.pipeline.tasks import Tasks


class MergeEngine:
    """Compares rows where it was asked to; Spark is started when the first are sent to it."""

    def __init__(
        self,
        engine: str,
        settings: Settings,
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> None:
        if engine not in MERGE_ENGINES:
            known = ", ".join(sorted(MERGE_ENGINES))
            raise BadRequest(f"engine '{engine}' is not one of {known}")
        if engine == "spark":
            require_spark()
        elif not is_spark_installed():
            engine = "local"
        self._engine, self._settings = engine, settings
        self._session, self._conf = session, spark_conf

    @property
    def run(self) -> RunJudge:
        if self._engine == "local":
            return judge_here
        at_least = LARGE_DELTA if self._engine == "auto" else 0
        return spread_judging(lambda: self._tasks, at_least=at_least)

    @property
    def used(self) -> str:
        """Where rows were compared."""
        return "spark" if "_tasks" in vars(self) else "local"

    @cached_property
    def _tasks(self) -> Tasks:
        from omnigraph.graph.bulk_loading import open_tasks  # noqa: PLC0415 - loads the pipeline

        return open_tasks("spark", self._settings, self._session, self._conf)
