"""The real command in a child process, with the home directory of the test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from commands.quick_command import quick_command


def run_command(
    *arguments: str, cwd: Path, home: Path | None = None, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command and return its result; it must not print a traceback."""
    done = subprocess.run(
        quick_command(*arguments),
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={
            **os.environ,
            "OMNIGRAPH_HOME": str(home or cwd / "home"),
            "OMNIGRAPH_LOAD_ENGINE": "local",
            **environment,
        },
        check=False,
        timeout=600,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done
