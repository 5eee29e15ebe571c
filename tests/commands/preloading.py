"""Loading the package ahead in a process that forks, since loading takes longer than most tests.

A fork loses threads, so such a process must not use what it has loaded: Lance starts its threads
with the first table it opens, Polars when it is loaded.
"""

from __future__ import annotations

import gc
import pkgutil
import sys
import warnings
from importlib import import_module

import omnigraph

LEFT_OUT = (
    "omnigraph.__main__",
    "omnigraph.cli.__main__",
    "omnigraph.demo",
    "omnigraph.pipeline",
    "omnigraph.server",
    "omnigraph.spark_source",
)
"""Modules that few tests need and that take long to load."""


def load_modules() -> None:
    for module in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
        if not module.name.startswith(LEFT_OUT):
            import_module(module.name)
    assert not {"polars", "pyspark"} & sys.modules.keys()
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    gc.freeze()
