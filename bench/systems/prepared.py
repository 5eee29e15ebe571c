"""A prepared folder is read by every sample and written by none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any


def copied(spec: dict[str, Any], name: str) -> Path:
    """A copy of a prepared folder, for this sample to write on."""
    path = Path(spec["root"]) / name
    shutil.copytree(Path(spec["inputs"]) / name, path)
    return path
