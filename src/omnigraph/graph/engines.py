"""Where bulk work, queries and maintenance may run."""

from __future__ import annotations

from typing import Literal, TypeAlias

from omnigraph.errors import BadRequest
from omnigraph.pipeline.spark_environment import require_spark
from omnigraph.settings import ENGINES

EngineName: TypeAlias = Literal["local", "spark"]
LoadEngineName: TypeAlias = Literal["auto", "local", "spark"]
MergeEngineName: TypeAlias = Literal["local", "spark", "auto"]
ModeName: TypeAlias = Literal["append", "merge", "overwrite"]


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
