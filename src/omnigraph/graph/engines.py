"""The engines that run bulk work: this process, or Spark, which is loaded when it is first used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from omnigraph.errors import BadRequest
from omnigraph.pipeline.spark_environment import is_spark_installed, require_spark
from omnigraph.settings import ENGINES, MERGE_ENGINES, Settings

if TYPE_CHECKING:
    from omnigraph.history.three_way import RunComparison
    from omnigraph.pipeline.tasks import Tasks

EngineName: TypeAlias = Literal["local", "spark"]
LoadEngineName: TypeAlias = Literal["auto", "local", "spark"]
MergeEngineName: TypeAlias = Literal["local", "spark", "auto"]
ModeName: TypeAlias = Literal["append", "merge", "overwrite"]
GranularityName: TypeAlias = Literal["property", "entity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """The engine of one call, by name, and the Spark it uses."""

    engine: str | None = None
    """None leaves it to the settings."""
    session: object | None = None
    """A Spark session of the caller's."""
    spark_conf: Mapping[str, str] = field(default_factory=dict)


def require_engine(engine: str) -> None:
    """Raise unless there is an engine of this name and it is installed.

    Raises:
        BadRequest: no engine has this name.
        MissingPackage: it is Spark, which is not installed.
    """
    if engine not in ENGINES:
        raise BadRequest(f"engine '{engine}' is not one of {', '.join(sorted(ENGINES))}")
    if engine == "spark":
        require_spark()


def open_tasks(
    engine: str,
    settings: Settings,
    session: object | None = None,
    conf: Mapping[str, str] | None = None,
) -> Tasks:
    """Open the tasks of bulk work: in this process, or on a Spark session."""
    from omnigraph.pipeline.tasks import InlineTasks, SparkTasks, check_executors
    from omnigraph.progress import working

    require_engine(engine)
    if engine == "local":
        return InlineTasks()
    from omnigraph.pipeline.spark_session import spark

    given: Any = session
    with working("starting Spark"):
        chosen = spark(given, settings=settings, conf=conf)
    check_executors(chosen)
    return SparkTasks(chosen)


class MergeEngine:
    """The engine that compares the rows of a merge; Spark is started when the first are sent."""

    def __init__(self, options: EngineOptions, settings: Settings) -> None:
        engine = options.engine or "local"
        if engine not in MERGE_ENGINES:
            known = ", ".join(sorted(MERGE_ENGINES))
            raise BadRequest(f"engine '{engine}' is not one of {known}")
        if engine == "spark":
            require_spark()
        elif not is_spark_installed():
            engine = "local"
        self._engine, self._options, self._settings = engine, options, settings

    @property
    def run(self) -> RunComparison:
        from omnigraph.history.three_way import LARGE_DELTA, compare_locally, compare_on_spark

        if self._engine == "local":
            return compare_locally
        at_least = LARGE_DELTA if self._engine == "auto" else 0
        return compare_on_spark(lambda: self._tasks, at_least=at_least)

    @property
    def used(self) -> str:
        """The engine that compared rows."""
        return "spark" if "_tasks" in vars(self) else "local"

    @cached_property
    def _tasks(self) -> Tasks:
        return open_tasks("spark", self._settings, self._options.session, self._options.spark_conf)
