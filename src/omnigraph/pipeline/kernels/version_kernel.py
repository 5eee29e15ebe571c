"""What an executor is made of, to be compared with the driver."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("omnigraph", "pylance", "pyarrow", "msgspec")


def describe(spec: object, task: object) -> dict[str, str | None]:
    """The versions here: of Python without the patch, and of the packages kernels need."""
    del spec, task
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        **read_package_versions(),
    }


def read_package_versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found
