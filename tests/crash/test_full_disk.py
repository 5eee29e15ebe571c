"""A disk that is full while a write is pending: cleanup frees the space that its recovery needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from crash.harness import environment
from crash.test_resources import mounted

pytestmark = pytest.mark.crash

SCRIPT = Path(__file__).with_name("full_disk.py")


def test_cleanup_makes_room_on_a_full_disk_with_an_interrupted_write(tmp_path):
    command = [*mounted(tmp_path), sys.executable, str(SCRIPT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert "no space left" in reported["insert"].lower()
    assert reported["cleanup"] == "done"
    assert reported["removed"] > 30
    assert reported["bytes"] > 0
    assert reported["findings"] == []
    assert reported["pending"] == 0
    assert reported["has_eve"], "the interrupted write was finished"
