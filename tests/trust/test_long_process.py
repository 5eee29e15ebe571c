"""A long-running process that commits and queries stays within its memory bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from crash.harness import environment

SCRIPT = Path(__file__).with_name("long_process.py")
MIB = 1 << 20


@pytest.mark.slow
def test_five_thousand_commits_and_queries_take_less_than_300_megabytes(tmp_path, record_property):
    command = [sys.executable, str(SCRIPT), str(tmp_path / "g"), "5000", "5000"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    for name, size in reported.items():
        record_property(f"{name}_mib", size // MIB)
    assert reported["peak"] < 300_000_000
