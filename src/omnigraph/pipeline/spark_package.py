"""Whether Spark is installed: it is an extra, and everything but work on Spark does without."""

from __future__ import annotations

from importlib.util import find_spec

from omnigraph.errors import MissingPackage

INSTALL = "pip install 'omnigraph[spark]'"


def is_spark_installed() -> bool:
    """Whether work can run on Spark here; looking does not load it."""
    return find_spec("pyspark") is not None


def require_spark(what: str = "Spark") -> None:
    """Raise unless Spark is installed.

    Raises:
        MissingPackage: it is not; says how to install it.
    """
    if not is_spark_installed():
        raise MissingPackage("pyspark", what, INSTALL)
