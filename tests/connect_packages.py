"""The packages of a Spark Connect client, which the environment of the tests does not have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_EXTRA = ("pandas", "grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")


def install_connect(folder: Path) -> dict[str, str]:
    """Install them, by their own lock, in a folder; gives the variables of a process to use them.

    The process starts a server on this machine.
    """
    uv = str(Path(sys.executable).with_name("uv"))
    where = ["--python", sys.executable, "--target", str(folder)]
    lock = ["--constraint", str(_ROOT / "requirements" / "connect.txt")]
    subprocess.run([uv, "pip", "install", "--quiet", *where, *lock, *_EXTRA], check=True)
    return {"SPARK_REMOTE": "local[2]", "PYTHONPATH": str(folder)}
