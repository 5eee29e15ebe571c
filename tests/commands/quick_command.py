"""The words that run `omnigraph` without waiting for it to load, for tests of what it does.

Tests of how it starts, of signals and of terminals start the real program instead.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SERVER = Path(__file__).with_name("command_server.py")
CLIENT = Path(__file__).with_name("command_client.py")


def quick_command(*arguments: str) -> list[str]:
    """A command line, for `subprocess`."""
    return [sys.executable, "-I", "-S", str(CLIENT), _start_server(), *arguments]


def write_program(path: Path) -> None:
    """Write a program that runs `omnigraph`, for shells."""
    words = " ".join(f"'{word}'" for word in quick_command())
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)


@cache
def _start_server() -> str:
    """Start the server of this process and return its address. It ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-"))
    place = folder / "socket"
    server = subprocess.Popen(
        [sys.executable, str(SERVER), str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(SERVER.parents[1]), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert server.stdout is not None

    def end() -> None:
        server.kill()
        server.communicate()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    assert server.stdout.readline() == b"listening\n"
    return str(place)
