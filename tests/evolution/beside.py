"""Scripts that run beside a test, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from crash.harness import environment

APPLIES = """
import sys, omnigraph
for wanted in sys.argv[2:]:
    print(omnigraph.open(sys.argv[1]).apply_schema(wanted).applied)
"""
"""Applies one schema after the other."""


def run_apart(script: str, *arguments: object) -> str:
    """Return the output of a script."""
    with started(script, *arguments) as process:
        said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return said


class started:
    """A script that ends with the block at the latest."""

    def __init__(self, script: str, place: Path, *arguments: object) -> None:
        self._command = [sys.executable, "-c", script, str(place), *map(str, arguments)]

    def __enter__(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            self._command,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self._process

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
