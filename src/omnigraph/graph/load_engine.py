"""Where a load runs when nobody says: in this process, or on Spark.

Spark pays for itself from a certain amount of input on, and later where it has to be started for
one load. What is chosen never changes what is loaded, and the result says why it was chosen.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omnigraph.errors import BadRequest
from omnigraph.graph.loading import LongInput, RunsOn, is_frame, is_table
from omnigraph.pipeline.inputs import measure_files
from omnigraph.pipeline.java import find_java
from omnigraph.pipeline.spark_session import find_active_session, is_local
from omnigraph.settings import LoadEngine, Settings
from omnigraph.storage.root import GraphRoot

START_FACTOR = 8
"""Starting Spark costs as much as it saves on this many times the input."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Where a load runs, and why."""

    engine: str
    reason: str


def choose_engine(records: object, runs_on: RunsOn, root: GraphRoot) -> EngineChoice:
    """Where to run a load.

    Raises:
        BadRequest: there is no such engine, or a file cannot be read.
    """
    if is_frame(records):
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
    size = _measure_input(records, root.settings)
    if size is None:
        return EngineChoice("local", "the size of a stream is not known")
    return _choose_by_size(size, records, root)


def _choose_by_size(size: int, records: object, root: GraphRoot) -> EngineChoice:
    settings = root.settings
    least, shown = settings.spark.load_bytes, f"{_show_mebibytes(size)} of input"
    if size < least:  # whatever Spark there is; looking for it has a price
        limit = _show_mebibytes(least)
        return EngineChoice("local", f"{shown}; Spark is used from {limit} on")
    is_started = _is_spark_up(settings)
    if not is_started and size < least * START_FACTOR:
        limit = _show_mebibytes(least * START_FACTOR)
        return EngineChoice("local", f"{shown}; Spark is started from {limit} on")
    obstacle = _find_obstacle(records, root)
    if obstacle is not None:
        return EngineChoice("local", f"{shown}, but {obstacle}")
    return EngineChoice("spark", shown)


def _measure_input(records: object, settings: Settings) -> int | None:
    """About how many bytes of plain records there are; None if nobody knows yet."""
    given: Any = records
    if isinstance(records, LongInput):
        return None
    if is_table(records):
        return int(given.nbytes)
    if isinstance(records, bytes):
        return len(records)
    return measure_files(_list_places(records), settings.aws)


def _list_places(records: object) -> Sequence[str | Path]:
    if isinstance(records, str | Path):
        return (records,)
    return records if isinstance(records, list | tuple) else ()


def _is_spark_up(settings: Settings) -> bool:
    """Whether there is a session, or a cluster that was named."""
    return bool(find_active_session() or settings.spark.remote or settings.spark.master)


def _find_obstacle(records: object, root: GraphRoot) -> str | None:
    """Why Spark cannot do it, if it cannot."""
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
    places = [root.uri, *map(str, _list_places(records))]
    if is_elsewhere and any("://" not in one or one.startswith("file:") for one in places):
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
