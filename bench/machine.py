"""The facts about the machine that a reader needs to interpret a figure.

Host names, user names and paths stay out: records are meant to be published.
"""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.leftovers import new_file_seconds
from bench.suite import JsonValue

_PACKAGES = ("click", "msgspec", "numpy", "obstore", "omnigraph", "pyarrow", "pylance")


def machine_facts(extra: Mapping[str, str | None] | None = None) -> dict[str, JsonValue]:
    """Cores, memory, system and versions, with `extra` versions beside our own dependencies."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "processor": _processor(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "filesystem": _filesystem(Path(tempfile.gettempdir())),
        "new_file_us": round(new_file_seconds() * 1e6),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {**{name: _version(name) for name in _PACKAGES}, **(extra or {})},
        "commit": _commit(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str | None:
    facts = Path("/proc/cpuinfo")
    if not facts.exists():
        return platform.processor() or None
    for line in facts.read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def _filesystem(folder: Path) -> str | None:
    """Return the kind of the file system of samples: memory and disk differ."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return None
    kinds = {
        fields[1]: fields[2] for line in mounts.read_text().splitlines() if (fields := line.split())
    }
    resolved = folder.resolve()
    for candidate in (resolved, *resolved.parents):
        if str(candidate) in kinds:
            return kinds[str(candidate)]
    return None


def _commit() -> str | None:
    """The checked-out commit, marked `+` if files differ from it; None outside a checkout."""
    here = Path(__file__).parent
    try:
        head = _git(here, "rev-parse", "--short=12", "HEAD")
        changed = _git(here, "status", "--porcelain")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()
