"""Choose and open the engine of bulk work: this process, or Spark, loaded when first used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from omnigraph.errors import BadRequest
from omnigraph.pipeline.spark_environment import find_java, is_spark_installed, require_spark
from omnigraph.settings import ENGINES, MERGE_ENGINES, LoadEngine, Settings

if TYPE_CHECKING:
    from omnigraph.graph.conversion.load_inputs import LoadInput
    from omnigraph.history.three_way import RunComparison
    from omnigraph.pipeline.tasks import Tasks
    from omnigraph.storage.graph_root import GraphRoot

EngineName: TypeAlias = Literal["local", "spark"]
LoadEngineName: TypeAlias = Literal["auto", "local", "spark"]
MergeEngineName: TypeAlias = Literal["local", "spark", "auto"]
ModeName: TypeAlias = Literal["append", "merge", "overwrite"]
GranularityName: TypeAlias = Literal["property", "entity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Engine of one call, and the Spark it uses."""

    engine: str | None = None
    """None leaves it to the settings."""
    session: object | None = None
    """A Spark session of the caller's."""
    spark_conf: Mapping[str, str] = field(default_factory=dict)


def require_engine(engine: str) -> None:
    """Raise unless the engine exists and is installed.

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
    """The engine that compares the rows of a merge; Spark is started on first use."""

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


# --- the engine of a load ------------------------------------------------------------------------

START_FACTOR = 8
"""Multiple of the input from which starting Spark pays off."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Engine of a load, and the reason for it."""

    engine: str
    reason: str


def choose_engine(given: LoadInput, runs_on: EngineOptions, root: GraphRoot) -> EngineChoice:
    """Choose where to run a load.

    Raises:
        BadRequest: there is no such engine, or a file cannot be read.
    """
    from omnigraph.pipeline.input_splits import FrameSource

    if isinstance(given, FrameSource):
        return EngineChoice("spark", "the rows are a Spark data frame")
    asked = runs_on.engine or str(root.settings.load_engine)
    if asked not in tuple(LoadEngine):
        raise BadRequest(f"engine '{asked}' is not one of {', '.join(LoadEngine)}")
    if asked != LoadEngine.AUTO:
        return EngineChoice(asked, "asked for" if runs_on.engine else "OMNIGRAPH_LOAD_ENGINE")
    if runs_on.session is not None:
        return EngineChoice("spark", "a Spark session was given")
    if runs_on.spark_conf:
        return EngineChoice("spark", "Spark options were given")
    size = _measure_input(given, root.settings)
    if size is None:
        return EngineChoice("local", "the size of a stream is not known")
    return _choose_by_size(size, given, root)


def _choose_by_size(size: int, given: LoadInput, root: GraphRoot) -> EngineChoice:
    settings = root.settings
    least, shown = settings.spark.load_bytes, f"{_show_mebibytes(size)} of input"
    if size < least:  # whatever Spark there is; looking for it has a price
        limit = _show_mebibytes(least)
        return EngineChoice("local", f"{shown}; Spark is used from {limit} on")
    is_started = _is_spark_up(settings)
    if not is_started and size < least * START_FACTOR:
        limit = _show_mebibytes(least * START_FACTOR)
        return EngineChoice("local", f"{shown}; Spark is started from {limit} on")
    obstacle = _find_obstacle(given, root)
    if obstacle is not None:
        return EngineChoice("local", f"{shown}, but {obstacle}")
    return EngineChoice("spark", shown)


def _measure_input(given: LoadInput, settings: Settings) -> int | None:
    """Estimate the bytes of plain records; None if they are unknown."""
    from omnigraph.pipeline.input_splits import FileSource, TableSource, measure_files
    from omnigraph.pipeline.load_stages import RecordInput

    match given:
        case RecordInput():
            return len(given.data)
        case TableSource():
            return int(given.table.nbytes)
        case FileSource():
            return measure_files(given.paths, settings.aws)
        case _:
            return None


def _is_spark_up(settings: Settings) -> bool:
    """Return whether there is a session, or a configured cluster."""
    from omnigraph.pipeline.spark_session import find_active_session

    return bool(find_active_session() or settings.spark.remote or settings.spark.master)


def _find_obstacle(given: LoadInput, root: GraphRoot) -> str | None:
    """Return the reason why Spark cannot run the load, or None."""
    from omnigraph.pipeline.input_splits import FileSource
    from omnigraph.pipeline.spark_session import find_active_session, is_local

    active, settings = find_active_session(), root.settings
    if active is None:
        if find_spec("pyspark") is None:
            return "PySpark is not installed"
        if not settings.spark.remote and not _has_java():
            return "Java was not found"
    if active is not None:
        is_elsewhere = not is_local(active)
    else:
        is_elsewhere = bool(settings.spark.remote) or not _is_on_this_machine(settings)
    files = given.paths if isinstance(given, FileSource) else ()
    uris = [root.uri, *map(str, files)]
    if is_elsewhere and any("://" not in one or one.startswith("file:") for one in uris):
        return "Spark runs elsewhere and may not reach files of this machine"
    return None


def _is_on_this_machine(settings: Settings) -> bool:
    return (settings.spark.master or "local").partition("[")[0] == "local"


def _has_java() -> bool:
    try:
        find_java(os.environ)
    except BadRequest:
        return False
    return True


def _show_mebibytes(size: int) -> str:
    return f"{size / (1 << 20):,.1f}".removesuffix(".0") + " MiB"
